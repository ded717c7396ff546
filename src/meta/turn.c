/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: in which order sessions wrote the bytes of a file, which they publish in any order. Each region
 * of a file has a word that all sessions share, the number of its last turn; who finds there what it put
 * there itself goes on with it, so that a stream of one writer is one turn, and its extents can be one.
 * By regions, or two mounts that write a file's halves would take a turn with every write.
 *
 * A word is only ever raised, by compare-and-swap, so that each of its values is one session's. The words
 * may be lost with the host, the extents are not. Turns of a session therefore begin at the serial of the
 * commit that registered it, times so many as cannot be taken from one commit to the next: sessions
 * that are not alone commit their heartbeat, and who is alone finds its own number.
 */
#include "base/htab.h"
#include "base/range.h"
#include "base/scoped.h"
#include "meta/meta_impl.h"

#define TURNS_PER_COMMIT (UINT64_C(1) << 24)
#define TURN_REGION	 (UINT64_C(256) << 10)

/* The words of a range: each once, as far as hashing goes. */
struct turn_words {
	uint64_t ino, first;
	unsigned n;
	bool     all;	/* more regions than there are words */
};

static struct turn_words words_of(uint64_t ino, struct tess_range r)
{
	struct turn_words w = {.ino = ino, .first = r.off / TURN_REGION};
	uint64_t end, n;

	if (!range_end(r, &end))
		end = UINT64_MAX;
	n = (end > r.off ? (end - 1) / TURN_REGION : w.first) - w.first + 1;
	w.all = n >= KV_WORDS;
	w.n = (unsigned)MIN(n, (uint64_t)KV_WORDS);
	return w;
}

static unsigned word_at(const struct turn_words *w, unsigned i)
{
	return w->all ? i : (unsigned)(hash64(hash64(w->ino) + w->first + i) % KV_WORDS);
}

void turn_begin(struct meta *m, uint64_t serial)
{
	atomic_store(&m->turn_floor, serial * TURNS_PER_COMMIT);
}

static bool turn_is_ours(const struct meta *m, unsigned word, uint64_t turn)
{
	return atomic_load(&m->turns[word]) == turn;
}

/* The least that is not below `turn`, nor below a word, nor a number of another session's. */
static uint64_t turn_least(const struct meta *m, const struct turn_words *w, uint64_t turn)
{
	const shared_word *words = kv_words(m->kv);

	for (unsigned i = 0; i < w->n; i++) {
		unsigned k = word_at(w, i);
		uint64_t now = atomic_load(&words[k]);

		if (now >= turn)
			turn = turn_is_ours(m, k, now) ? now : now + 1;
	}
	return turn;
}

/* False: another session has come to a word meanwhile. */
static bool turn_take(struct meta *m, unsigned word, uint64_t turn)
{
	shared_word *w = &kv_words(m->kv)[word];
	uint64_t now = atomic_load(w);

	while (now < turn) {
		if (!atomic_compare_exchange_weak(w, &now, turn))
			continue;
		atomic_store(&m->turns[word], turn);
		return true;
	}
	return now == turn && turn_is_ours(m, word, turn);
}

uint64_t meta_turn(struct meta *m, uint64_t ino, struct tess_range r)
{
	struct turn_words w = words_of(ino, r);
	uint64_t turn = MAX(atomic_load(&m->turn_floor), UINT64_C(1));
	unsigned i = 0;

	while (i < w.n) {
		turn = turn_least(m, &w, turn);
		for (i = 0; i < w.n && turn_take(m, word_at(&w, i), turn); i++)
			;
	}
	return turn;
}

bool meta_turn_stands(const struct meta *m, uint64_t ino, struct tess_range r, uint64_t turn)
{
	struct turn_words w = words_of(ino, r);

	for (unsigned i = 0; i < w.n; i++)
		if (atomic_load(&kv_words(m->kv)[word_at(&w, i)]) != turn)
			return false;
	return true;
}
