/* SPDX-License-Identifier: Apache-2.0 */
#include "litmus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lit_places[LIT_PLACES] = { "a", "b", "c" };

/* Arguments: H G handles, F N names, O flags, o l n numbers, C a fill, W a word's first letter. */
static const struct {
	const char *name, *args;
} parse_ops[OP_OPS] = {
	[OP_OPEN] = { "open", "HFO" },	    [OP_CLOSE] = { "close", "H" },
	[OP_WRITE] = { "write", "HolC" },   [OP_READ] = { "read", "Hol" },
	[OP_APPEND] = { "append", "HlCn" }, [OP_SWRITE] = { "swrite", "HlC" },
	[OP_FSYNC] = { "fsync", "H" },	    [OP_FDATASYNC] = { "fdatasync", "H" },
	[OP_TRUNC] = { "trunc", "Fl" },	    [OP_FTRUNC] = { "ftrunc", "Hl" },
	[OP_STAT] = { "stat", "F" },	    [OP_FSTAT] = { "fstat", "H" },
	[OP_UNLINK] = { "unlink", "F" },    [OP_RENAME] = { "rename", "FN" },
	[OP_LINK] = { "link", "FN" },	    [OP_MKDIR] = { "mkdir", "F" },
	[OP_RMDIR] = { "rmdir", "F" },	    [OP_LIST] = { "list", "" },
	[OP_MMAP] = { "mmap", "Hl" },	    [OP_MREAD] = { "mread", "Hol" },
	[OP_MWRITE] = { "mwrite", "HolC" }, [OP_MSYNC] = { "msync", "H" },
	[OP_MUNMAP] = { "munmap", "H" },    [OP_FLOCK] = { "flock", "HW" },
	[OP_SETLK] = { "setlk", "HWol" },   [OP_OFD] = { "ofd", "HWol" },
	[OP_INCR] = { "incr", "HWn" },	    [OP_COUNT] = { "count", "H" },
	[OP_DUP] = { "dup", "HG" },	    [OP_FWRITE] = { "fwrite", "HolC" },
	[OP_FSWRITE] = { "fswrite", "HlC" }, [OP_PUNCH] = { "punch", "Hol" },
	[OP_FALLOC] = { "falloc", "Hol" },  [OP_UTIME] = { "utime", "Fl" },
	[OP_LAM] = { "lam", "F" },	    [OP_WAIT] = { "wait", "" },
	[OP_TALLY] = { "tally", "F" },	    [OP_SYNCRANGE] = { "syncrange", "H" },
	[OP_LOOP] = { "loop", "FWn" },	    [OP_PAUSE] = { "pause", "n" },
	[OP_INVAL] = { "inval", "F" },	    [OP_STAMP] = { "stamp", "F" },
	[OP_MOVED] = { "moved", "F" },	    [OP_FRESH] = { "fresh", "FN" },
	[OP_LINKS] = { "links", "F" },
};

static int parse_flags(const char *s)
{
	int fl = strchr(s, 'w') ? (strchr(s, 'r') ? O_RDWR : O_WRONLY) : O_RDONLY;

	fl |= strchr(s, 'c') ? O_CREAT : 0;
	fl |= strchr(s, 'x') ? O_CREAT | O_EXCL : 0;
	fl |= strchr(s, 't') ? O_TRUNC : 0;
	fl |= strchr(s, 'a') ? O_APPEND : 0;
	fl |= strchr(s, 's') ? O_SYNC : 0;
	fl |= strchr(s, 'd') ? O_DSYNC : 0;
	fl |= strchr(s, 'D') ? O_DIRECT : 0;
	return fl;
}

static int parse_arg(struct lit_step *s, char kind, const char *word)
{
	switch (kind) {
	case 'H': s->h = (int)strtol(word, NULL, 10); return s->h >= (int)LIT_HANDLES ? -EINVAL : 0;
	case 'G': s->h2 = (int)strtol(word, NULL, 10); return s->h2 >= (int)LIT_HANDLES ? -EINVAL : 0;
	case 'F': s->f = word[0]; return 0;
	case 'N': s->g = word[0]; return 0;
	case 'O': s->flags = parse_flags(word); return 0;
	case 'o': s->off = strtol(word, NULL, 10); return 0;
	case 'l': s->len = strtol(word, NULL, 10); return 0;
	case 'n': s->n = strtol(word, NULL, 10); return 0;
	case 'C': s->fill = word[0]; return 0;
	case 'W': s->how = word[0]; return 0;
	default: return -EINVAL;
	}
}

/* "write 0 0 100 n @x" */
static int parse_step(struct lit_step *s, char *text)
{
	char *word = strsep(&text, " ");
	const char *args = NULL;

	for (unsigned i = 0; i < OP_OPS; i++)
		if (!strcmp(parse_ops[i].name, word)) {
			s->op = (enum lit_op)i;
			args = parse_ops[i].args;
		}
	if (!args)
		return -EINVAL;
	for (; (word = strsep(&text, " ")); ) {
		if (!*word)
			continue;
		if (*word == '@')
			s->label = word[1];
		else if (!*args || parse_arg(s, *args++, word))
			return -EINVAL;
	}
	return *args ? -EINVAL : 0;
}

static char *parse_trim(char *s)
{
	size_t n;

	while (*s == ' ')
		s++;
	n = strlen(s);
	while (n && s[n - 1] == ' ')
		s[--n] = '\0';
	return s;
}

/* Phases end with ';'; in a phase, '|' separates parties, ',' the steps of one. */
static int parse_run(struct lit_prog *p, char *text)
{
	for (char *phase; (phase = strsep(&text, ";")); ) {
		unsigned parties = 0;

		if (!*parse_trim(phase))
			continue;
		for (char *side; (side = strsep(&phase, "|")); parties++) {
			unsigned party;

			side = parse_trim(side);
			party = (unsigned)(*side - 'A');
			if (party >= LIT_PARTIES || side[1] != ' ')
				return -EINVAL;
			side++;
			for (char *step; (step = strsep(&side, ",")); ) {
				struct lit_step *s = &p->steps[p->nsteps];

				if (p->nsteps + 1 == LIT_STEPS)
					return -E2BIG;
				s->party = (uint8_t)party;
				s->phase = (uint8_t)p->nphases;
				if (parse_step(s, parse_trim(step)))
					return -EINVAL;
				p->waits |= s->op == OP_WAIT || s->op == OP_PAUSE;
				p->nsteps++;
			}
		}
		p->racing[p->nphases++] = parties > 1;
	}
	return 0;
}

static int parse_envs(char *list, unsigned *ret)
{
	for (char *w; (w = strsep(&list, ",")); ) {
		unsigned i = 0;

		while (lit_envs[i].name && strcmp(w, lit_envs[i].name))
			i++;
		if (!lit_envs[i].name)
			return -EINVAL;
		*ret |= 1u << i;
	}
	return 0;
}

/* "c/lazy,private": sets of places and environments. */
static int parse_where(char *word, unsigned *places, unsigned *envs)
{
	char *rest = word;

	*places = *envs = 0;
	for (char *w = strsep(&rest, "/"); *w; w++)
		*places |= 1u << (*w - 'a');
	if (!rest)
		*envs = ~0u;
	return parse_envs(rest, envs);
}

/* "one xy" | "x = a|b" | "c/lazy x = a|b" */
static int parse_want(struct lit_prog *p, char *text)
{
	struct lit_want *w = &p->wants[p->nwants];
	char *rest = text, *word = strsep(&rest, " ");

	if (p->nwants + 1 == LIT_WANTS || !rest)
		return -E2BIG;
	w->places = (1u << LIT_PLACES) - 1;
	w->modes = ~0u;
	if (strlen(word) > 1 && strcmp(word, "one") && strcmp(word, "equal")) {
		if (parse_where(word, &w->places, &w->modes))
			return -EINVAL;
		word = strsep(&rest, " ");
	}
	if (!rest)
		return -EINVAL;
	if (!strcmp(word, "one") || !strcmp(word, "equal")) {
		w->kind = *word == 'o' ? WANT_ONE : WANT_EQUAL;
		(void)snprintf(w->labels, sizeof(w->labels), "%s", rest);
	} else {
		w->labels[0] = *word;
		rest = parse_trim(rest);
		if (*rest != '=')
			return -EINVAL;
		(void)snprintf(w->alts, sizeof(w->alts), "%s", parse_trim(rest + 1));
	}
	p->nwants++;
	return 0;
}

static int parse_sets(unsigned sets[LIT_PLACES], char *text)
{
	for (char *word; (word = strsep(&text, " ")); ) {
		unsigned places, modes;

		if (parse_where(word, &places, &modes))
			return -EINVAL;
		for (unsigned i = 0; i < LIT_PLACES; i++)
			if (places & (1u << i))
				sets[i] |= modes;
	}
	return 0;
}

static int parse_line(struct lit_prog *p, const char *key, char *text)
{
	size_t n = strlen(p->cells);

	if (!strcmp(key, "about"))
		(void)snprintf(p->about, sizeof(p->about), "%s", text);
	else if (!strcmp(key, "cell"))
		(void)snprintf(p->cells + n, sizeof(p->cells) - n, "%s%s", n ? " " : "", text);
	else if (!strcmp(key, "setup"))
		(void)snprintf(p->setup, sizeof(p->setup), "%s", text);
	else if (!strcmp(key, "run"))
		return parse_run(p, text);
	else if (!strcmp(key, "want"))
		return parse_want(p, text);
	else if (!strcmp(key, "skip"))
		return parse_sets(p->skip, text);
	else if (!strcmp(key, "shows"))
		return parse_sets(p->shows, text);
	else if (!strcmp(key, "only"))
		return parse_envs(text, &p->only);
	else
		return -EINVAL;
	return 0;
}

struct lit_prog *lit_parse(const char *path, unsigned *ret_n)
{
	FILE *f = fopen(path, "re");
	struct lit_prog *all = NULL;
	unsigned n = 0, cap = 0, no = 0;
	char line[1000], shown[1000];

	if (!f) {
		perror(path);
		return NULL;
	}
	while (fgets(line, sizeof(line), f)) {
		char *rest = line, *key;

		no++;
		line[strcspn(line, "\n")] = '\0';
		memcpy(shown, line, sizeof(shown));
		if (!*line || *line == '#')
			continue;
		key = strsep(&rest, " ");
		if (!strcmp(key, "program") && rest) {
			if (n == cap)
				all = realloc(all, (cap += 128) * sizeof(*all));
			memset(&all[n], 0, sizeof(*all));
			(void)snprintf(all[n++].name, sizeof(all->name), "%s", rest);
		} else if (!n || !rest || parse_line(&all[n - 1], key, parse_trim(rest))) {
			fprintf(stderr, "%s:%u: %s: what is this?\n", path, no, shown);
			free(all);
			(void)fclose(f);
			return NULL;
		}
	}
	(void)fclose(f);
	*ret_n = n;
	return all;
}

void lit_describe(const struct lit_prog *p, unsigned step, char *buf, size_t cap)
{
	const struct lit_step *s = &p->steps[step];

	(void)snprintf(buf, cap, "%u:%c %s", step, 'A' + s->party, parse_ops[s->op].name);
}
