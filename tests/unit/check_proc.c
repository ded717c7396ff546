/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(a_process_starts_once_and_is_gone_when_it_is_a_corpse)
{
	uint64_t self = 0, start = 0, again = 0;
	char state = 0;
	siginfo_t info;
	pid_t pid;

	CLEAN(proc_start((uint32_t)getpid(), &self));
	ck_assert_uint_gt(self, 0);
	pid = fork();
	if (pid == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
	CLEAN(proc_look((uint32_t)pid, &start, &state));
	ck_assert_int_eq(state, 'T');
	ck_assert_uint_ge(start, self);
	CLEAN(proc_start((uint32_t)pid, &again));
	ck_assert_uint_eq(start, again);
	CLEAN(kill(pid, SIGKILL));
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(proc_start((uint32_t)pid, &again), -ESRCH);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(proc_start((uint32_t)pid, &again), -ESRCH);
}
END_TEST

START_TEST(what_cannot_be_read_is_not_gone)
{
	struct rlimit was, none;
	uint64_t start;
	int err;

	CLEAN(getrlimit(RLIMIT_NOFILE, &was));
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	CLEAN(setrlimit(RLIMIT_NOFILE, &none));
	err = proc_start((uint32_t)getpid(), &start);
	CLEAN(setrlimit(RLIMIT_NOFILE, &was));
	ck_assert_int_eq(err, -EMFILE);
}
END_TEST

UNIT_MAIN("proc", a_process_starts_once_and_is_gone_when_it_is_a_corpse, what_cannot_be_read_is_not_gone)
