/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers: which targets take new segments, and where a segment belongs. */
#include "base/err.h"
#include "io/io_int.h"
#include <string.h>

static void set_add(struct io_set *s, const struct io_target *t)
{
	s->t[s->n++] = (struct place_target){ t->id, t->weight };
	s->live += t->weight > 0;
}

void io_set_targets(struct io *io, const struct io_conf *conf)
{
	io->ntgt = MIN(conf->ntargets, TESS_TARGETS_MAX);
	io->local = true;
	io->segment_max = (uint32_t)TESS_SEGMENT_MAX;
	for (unsigned i = 0; i < io->ntgt; i++) {
		const struct io_target *t = &conf->targets[i];

		io->tgt[i].id = t->id;
		io->tgt[i].store = t->store;
		set_add(&io->all, t);
		if (t->tiers & IO_TIER_WRITE)
			set_add(&io->write, t);
		if (t->tiers & IO_TIER_REST)
			set_add(&io->rest, t);
		io->local &= (t->store->caps.flags & STORE_LOCAL) != 0;
		io->segment_max = (uint32_t)MIN((uint64_t)io->segment_max, t->store->caps.max_object);
	}
	io->segment_max -= io->segment_max % TESS_BLOCK;
}

static bool set_has(const struct io_set *s, uint16_t id)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->t[i].id == id)
			return true;
	return false;
}

bool io_takes_new(const struct io *io, const struct place_target *t)
{
	if (t->weight <= 0)
		return false;
	return io->write.live == 0 || set_has(&io->write, t->id) || set_has(&io->rest, t->id);
}

static bool at_rest(const struct io *io, const struct meta_segment *s)
{
	for (unsigned i = 0; i < s->width; i++)
		if (!set_has(&io->rest, s->target[i]))
			return false;
	return true;
}

static uint64_t seed_of(const struct meta_segment *s)
{
	return s->owner == TESS_PACKED_INO ? s->id : s->owner;
}

/* Same shards: those that are there stay, the others take targets that have none of it. */
static int place_some(const struct io *io, const struct meta_segment *now, struct meta_segment *ret)
{
	struct io_set free = { .n = 0 };
	uint16_t pick[TESS_TARGETS_MAX];
	unsigned need = 0;
	int e;

	for (unsigned i = 0; i < now->width; i++)
		need += !set_has(&io->rest, now->target[i]);
	for (unsigned i = 0; i < io->rest.n; i++) {
		bool used = false;

		for (unsigned k = 0; k < now->width; k++)
			used |= now->target[k] == io->rest.t[i].id;
		if (!used)
			free.t[free.n++] = io->rest.t[i];
	}
	e = place(seed_of(now), free.t, free.n, need, pick);
	if (e < 0)
		return e;
	for (unsigned i = 0; i < now->width; i++)
		if (!set_has(&io->rest, now->target[i]))
			ret->target[i] = pick[--need];
	return 0;
}

static bool collides(const struct meta_segment *a, const struct meta_segment *b)
{
	unsigned n = MIN((unsigned)a->width, (unsigned)b->width);

	for (unsigned i = 0; i < n; i++)
		if (a->target[i] == b->target[i])
			return true;
	return false;
}

/* Other shards: none of them may be where one of the old ones of the same number is. */
static int place_anew(const struct io *io, const struct meta_segment *now, unsigned width,
		      struct meta_segment *ret)
{
	int e = place(seed_of(now), io->rest.t, io->rest.n, width, ret->target);

	if (e < 0)
		return e;
	ret->width = (uint8_t)width;
	ret->cell = oclass_cell(round_up(now->len, TESS_BLOCK), width);
	for (unsigned i = 0; i < width && collides(now, ret); i++) {
		uint16_t first = ret->target[0];

		memmove(ret->target, ret->target + 1, (width - 1) * sizeof(first));
		ret->target[width - 1] = first;
	}
	return collides(now, ret) ? -EBUSY : 0;
}

int io_rest_place(const struct io *io, const struct meta_segment *now, struct meta_segment *ret)
{
	struct oclass cls;
	unsigned width;

	if (io->rest.live == 0 || now->state != META_DURABLE || at_rest(io, now))
		return 0;
	if (oclass_from_id(now->cls, &cls) < 0 || oclass_usable(&cls, io->rest.live, NULL) < 0)
		return 0;
	width = oclass_width(&cls, io->rest.live);
	*ret = *now;
	ret->moved = 0;
	return (width == now->width ? place_some(io, now, ret) : place_anew(io, now, width, ret)) == 0;
}

bool io_spill(struct io *io, struct meta_segment *inout)
{
	struct meta_segment to, old = *inout;

	if (io->write.live == 0)
		return false;
	for (unsigned i = 0; i < old.width; i++)
		if (!set_has(&io->write, old.target[i]) || set_has(&io->rest, old.target[i]))
			return false;
	if (io_rest_place(io, &old, &to) == 0)
		return false;
	io_dead_add(io, &old);	/* those of its shards that found room */
	*inout = to;
	return true;
}
