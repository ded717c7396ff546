/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is stopped (SIGSTOP, a terminal's ^Z) in the middle of a write transaction or of a
 * checkpoint holds the one lock that all share for it, for as long as somebody leaves it so. Its
 * changes cannot be taken from it, and killing it would lose what it has in memory: so it is woken
 * until it has let go, and is stopped again by who then has the turn, when it cannot be in another one.
 * What it did in between is what it would have done before it was stopped.
 */
#include "base/env_impl.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/scoped.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

LOG_MODULE("env")

#define ROUSE_LOOK  (NS_PER_S / 2)
#define ROUSE_AFTER NS_PER_S /* of waiting: transactions take a ms */

/*
 * The table keeps the lines of processes that were killed, whose numbers are others' by now. LMDB's own
 * mark of a living one is a lock on the byte of its number.
 */
static bool rouse_is_open(const struct env *e, pid_t pid)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1};

	return fcntl(e->rouse_fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static bool rouse_has_locked(const struct env *e, pid_t pid)
{
	for (unsigned i = 0; i < atomic_load(&e->nroused); i++)
		if (e->roused[i].pid == pid)
			return true;
	return false;
}

/* A line of LMDB's table of readers: every process that writes reads, too. */
static int rouse_line(const char *line, void *arg)
{
	struct env *e = arg;
	pid_t pid = (pid_t)strtol(line, NULL, 10);
	unsigned n = atomic_load(&e->nroused);
	uint64_t start;
	char state;

	lock_assert_held(&e->lock);
	if (pid <= 1 || pid == getpid() || n == ENV_ROUSE_MAX || rouse_has_locked(e, pid) ||
	    proc_look((uint32_t)pid, &start, &state) < 0 || state != 'T' || !rouse_is_open(e, pid))
		return 0;
	if (kill(pid, SIGCONT) < 0) {
		if (!e->rouse_told)
			log_err("%s: process %d is stopped in the middle of a change, and nobody else can make "
				"one: %s; continue or kill it", e->dir, (int)pid, strerror(errno));
		e->rouse_told = true;
		return 0;
	}
	log_notice("%s: process %d is stopped in the middle of a change: it goes on until that is over",
		   e->dir, (int)pid);
	e->roused[n] = (struct env_roused){pid, start};
	atomic_store(&e->nroused, n + 1);
	return 0;
}

static bool rouse_is_due(const struct env *e)
{
	int64_t now = clock_now();

	for (unsigned i = 0; i < ARRAY_SIZE(e->asked); i++) {
		int64_t asked = atomic_load(&e->asked[i]);

		if (asked && now - asked > ROUSE_AFTER)
			return true;
	}
	return false;
}

static void *rouse_main(void *arg)
{
	struct env *e = arg;

	(void)pthread_setname_np(pthread_self(), "tess-rouse");
	scoped_lock(&e->lock);
	while (!e->rouse_stop) {
		if (rouse_is_due(e))
			(void)mdb_reader_list(e->mdb, rouse_line, e);
		(void)cond_wait_until(&e->cond_rouse, &e->lock, clock_now() + ROUSE_LOOK);
	}
	return NULL;
}

void env_turn_ask(struct env *e, enum env_turn turn)
{
	atomic_store_explicit(&e->asked[turn], clock_now(), memory_order_relaxed);
}

void env_turn_got(struct env *e, enum env_turn turn)
{
	atomic_store_explicit(&e->asked[turn], 0, memory_order_relaxed);
	if (atomic_load_explicit(&e->nroused, memory_order_relaxed) == 0)
		return;
	scoped_lock(&e->lock);
	for (unsigned i = 0; i < atomic_load(&e->nroused); i++) {
		const struct env_roused *r = &e->roused[i];
		uint64_t start;

		/* Somebody may have killed it meanwhile. */
		if (proc_start((uint32_t)r->pid, &start) == 0 && start == r->start)
			(void)kill(r->pid, SIGSTOP);
	}
	atomic_store(&e->nroused, 0);
}

int env_rouse_start(struct env *e)
{
	scoped_free char *path = mem_printf("%s/lock.mdb", e->dir);
	int err;

	/* Held for as long as LMDB's: to close it would give back our own mark. */
	e->rouse_fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (e->rouse_fd < 0)
		return path ? -errno : -ENOMEM;
	err = -pthread_create(&e->rouser, NULL, rouse_main, e);
	e->has_rouser = !err;
	return err;
}

void env_rouse_stop(struct env *e)
{
	if (!e->has_rouser)
		return;
	lock_take(&e->lock);
	e->rouse_stop = true;
	cond_wake_all(&e->cond_rouse);
	lock_drop(&e->lock);
	pthread_join(e->rouser, NULL);
	e->has_rouser = false;
}
