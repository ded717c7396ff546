/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a full target. What was overwritten or removed keeps its space until the garbage collector's
 * next turn, so a file system that is rewritten in place could be full of the dead: before a PUT
 * fails, they go.
 */
#include "base/err.h"
#include "io/stage.h"

#define ROOM_PATIENCE (5 * NS_PER_S)

/* The second checkpoint is for the store: what a deletion freed is used again only when it is durable. */
static void make_room(struct io *io)
{
	int64_t deadline = clock_now() + ROOM_PATIENCE;

	if (io_checkpoint(io) < 0)
		return;
	while (!io_gc_pass(io, deadline) && clock_now() < deadline)
		clock_sleep(NS_PER_MS);
	(void)io_checkpoint(io);
}

uint64_t io_staged(struct io *io)
{
	uint64_t n;

	return stage_pending(io, &n);
}

/*
 * Bytes that the targets can still take besides what is staged for them; UINT64_MAX when one does not
 * tell. Only those that take new segments count.
 */
static uint64_t room_left(struct io *io)
{
	uint64_t free = 0, staged = io_staged(io);
	struct store_usage u;

	for (unsigned i = 0; i < io->ntgt; i++) {
		if (!io_takes_new(io, &io->all.t[i]))
			continue;
		if (store_usage(io->tgt[i].store, &u) < 0 || u.total == 0)
			return UINT64_MAX;
		free += u.free;
	}
	return free - MIN(free, staged);
}

int io_room_for(struct io *io, uint64_t len)
{
	if (room_left(io) >= len)
		return 0;
	io_make_room(io);
	return room_left(io) >= len ? 0 : -TESS_E_STORE_FULL;
}

void io_make_room(struct io *io)
{
	bool mine;

	lock_take(&io->lock);
	mine = !io->making_room;
	io->making_room = true;
	if (!mine) {
		io->closing++;
		while (io->making_room)
			cond_wait(&io->idle, &io->lock);
		io->closing--;
	}
	lock_drop(&io->lock);
	if (!mine)
		return;
	make_room(io);
	scoped_lock(&io->lock);
	io->making_room = false;
	cond_wake_all(&io->idle);
}
