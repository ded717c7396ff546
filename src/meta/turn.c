/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: in which order sessions wrote to a file whose bytes they publish later, in any order. A word
 * that all of them share is the number of the last turn; who finds its own there goes on with it, so
 * that a stream of one writer is one turn, and its extents can be one.
 *
 * The words may be lost with the host, the extents are not. Turns of a session therefore begin at the
 * serial of the commit that registered it, times so many turns as cannot be taken from one commit to
 * the next: sessions commit their heartbeat.
 */
#include "base/htab.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

#define TURNS_PER_COMMIT (UINT64_C(1) << 24)

void turn_begin(struct meta *m, uint64_t serial)
{
	atomic_store(&m->turn_floor, serial * TURNS_PER_COMMIT);
}

static shared_word *turn_word(const struct meta *m, uint64_t ino)
{
	return &kv_words(m->kv)[hash64(ino) % KV_WORDS];
}

uint64_t meta_turn_last(const struct meta *m, uint64_t ino)
{
	return atomic_load(turn_word(m, ino));
}

uint64_t meta_turn(struct meta *m, uint64_t ino, uint64_t last)
{
	shared_word *w = turn_word(m, ino);
	uint64_t now = atomic_load(w), next;

	if (last && now == last)
		return last;
	do
		next = MAX(now + 1, atomic_load(&m->turn_floor));
	while (!atomic_compare_exchange_weak(w, &now, next));
	return next;
}
