/* SPDX-License-Identifier: Apache-2.0 */
/* layer: base */
/*
 * tests/lib/fakeobj.h as a program: serves until it is killed or, with -i, until its input ends.
 *
 *	fakeobj [-p PORT] [-r RULES] [-l LIFE_MS] [-n PAGE] [-s SKEW] [-g REGION] [-a] [-i]
 *
 * -l: life of what is issued; -n: names in a page of a listing; -a: no signature needed. Keys other
 * than the usual ones come from FAKEOBJ_ACCESS, FAKEOBJ_SECRET, FAKEOBJ_USER and FAKEOBJ_KEY in the
 * environment. The first line it prints is FAKEOBJ_PORT=N, for a shell to take in.
 */
#include "fakeobj.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(void)
{
	fprintf(stderr, "fakeobj [-p PORT] [-r RULES] [-l LIFE_MS] [-n PAGE] [-s SKEW] [-g REGION] "
			"[-a] [-i]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct fakeobj_conf conf = { .access = getenv("FAKEOBJ_ACCESS"),
				     .secret = getenv("FAKEOBJ_SECRET"),
				     .user = getenv("FAKEOBJ_USER"),
				     .key = getenv("FAKEOBJ_KEY") };
	const char *rules = NULL;
	bool input = false;
	struct fakeobj *f;
	char c;
	int o, r;

	while ((o = getopt(argc, argv, "p:r:l:n:s:g:ai")) >= 0) {
		switch (o) {
		case 'p': conf.port = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'r': rules = optarg; break;
		case 'l': conf.life_ms = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'n': conf.page = (unsigned)strtoul(optarg, NULL, 10); break;
		case 's': conf.skew = (int)strtol(optarg, NULL, 10); break;
		case 'g': conf.region = optarg; break;
		case 'a': conf.anonymous = true; break;
		case 'i': input = true; break;
		default: return usage();
		}
	}
	r = fakeobj_start(&f, &conf);
	if (r < 0) {
		fprintf(stderr, "fakeobj: %s\n", strerror(-r));
		return 1;
	}
	if (fakeobj_rules(f, rules) < 0) {
		fprintf(stderr, "fakeobj: bad rule in \"%s\"\n", rules);
		return 1;
	}
	printf("FAKEOBJ_PORT=%u\n", fakeobj_port(f));
	fflush(stdout);
	if (!input) {
		for (;;)
			pause();
	}
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	fakeobj_stop(f);
	return 0;
}
