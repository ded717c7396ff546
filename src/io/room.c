/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a full target. What was overwritten or removed keeps its space until the garbage collector's
 * next turn, so a file system that is rewritten in place could be full of the dead: before a PUT
 * fails, they go.
 */
#include "io/io_int.h"

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
