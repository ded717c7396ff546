/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the AWS tools: sections, KEY = VALUE, comments, and blocks that are nested by
 * indentation:
 *
 *	[profile lab]
 *	region = eu-west-1        ; a comment after white space
 *	s3 =
 *	    endpoint_url = https://s3.example.org
 *
 * Whole files may be indented, so what counts is indentation beyond that of the key above. Messages
 * name lines by number and never quote them: a line may be a key.
 */
#include "store/creds_impl.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MAX 16384u

void creds_file_done(struct creds_file *f)
{
	free(f->e);
	secret_done(&f->text);
	*f = (struct creds_file){ 0 };
}

static int file_take(struct creds_file *f, int fd, struct text *why)
{
	int err = secret_init(&f->text, CREDS_FILE_MAX);

	while (!err) {
		ssize_t n = read(fd, f->text.s + f->text.n, f->text.cap - f->text.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = -errno;
			text_fmt(why, "%s: %s", f->path, strerror(errno));
			break;
		}
		if (!n)
			break;
		f->text.n += (size_t)n;
		if (f->text.n > CREDS_FILE_MAX) {
			text_fmt(why, "%s: larger than %zu KiB", f->path, CREDS_FILE_MAX >> 10);
			err = -EFBIG;
		}
	}
	if (err)
		return err;
	f->text.s[f->text.n] = 0;
	if (strlen(f->text.s) != f->text.n) {
		text_fmt(why, "%s: holds a NUL byte", f->path);
		return -EINVAL;
	}
	return 0;
}

int creds_file_read(struct creds_file *f, const char *path, struct text *why)
{
	scoped_fd int fd = -1;
	struct stat st;

	*f = (struct creds_file){ .path = path };
	/* Not blocking: a FIFO that nobody writes must not stop a mount. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st)) {
		int err = -errno;

		text_fmt(why, "%s: %s", path, strerror(-err));
		return err == -ENOTDIR ? -ENOENT : err;
	}
	/* AWS_CONFIG_FILE=/dev/null is how people say "none". */
	if (S_ISCHR(st.st_mode)) {
		text_fmt(why, "%s: a device, taken as no file", path);
		return -ENOENT;
	}
	if (!S_ISREG(st.st_mode)) {
		text_fmt(why, "%s: not a regular file", path);
		return -EINVAL;
	}
	f->there = true;
	f->mode = st.st_mode & 07777;
	f->owner = st.st_uid;
	return file_take(f, fd, why);
}

int creds_file_private(const struct creds_file *f, bool keys, struct text *why)
{
	mode_t bad = keys ? 077 : 022;

	if (f->owner != geteuid() && (keys || f->owner != 0)) {
		text_fmt(why, "%s: belongs to user %u, not to user %u who would use it", f->path,
			 (unsigned)f->owner, (unsigned)geteuid());
		return -EPERM;
	}
	if (f->mode & bad) {
		text_fmt(why, "%s: mode %04o lets others %s it; chmod 600 it", f->path,
			 (unsigned)f->mode, keys ? "read" : "change");
		return -EPERM;
	}
	return 0;
}

static char *trim(char *s)
{
	size_t n;

	while (*s == ' ' || *s == '\t')
		s++;
	n = strlen(s);
	while (n && strchr(" \t\r", s[n - 1]))
		s[--n] = 0;
	return s;
}

/* A comment begins with # or ; at the start, or after white space in a value. */
static void comment_cut(char *s)
{
	for (char *c = s; *c; c++) {
		if ((*c == '#' || *c == ';') && (c == s || c[-1] == ' ' || c[-1] == '\t')) {
			*c = 0;
			return;
		}
	}
}

struct ini {
	struct creds_file *f;
	bool        config;
	const char *kind, *section;	/* NULL: before the first */
	const char *outer;		/* the key above */
	size_t      indent;		/* of it */
	unsigned    line;
	struct text *why;
};

static int ini_refuse(struct ini *p, const char *what)
{
	text_fmt(p->why, "%s:%u: %s", p->f->path, p->line, what);
	return -EINVAL;
}

static char *unquote(char *s)
{
	size_t n = strlen(s);

	if (n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n - 1] == s[0]) {
		s[n - 1] = 0;
		s++;
	}
	return s;
}

/* "[profile lab]", "[default]", "[sso-session x]"; in the credentials file "[lab]". */
static int ini_section(struct ini *p, char *s)
{
	char *end = strchr(s, ']'), *name;

	if (!end)
		return ini_refuse(p, "a section without ]");
	*end = 0;
	comment_cut(end + 1);
	if (*trim(end + 1))
		return ini_refuse(p, "something follows the ] of a section");
	s = trim(s + 1);
	p->outer = NULL;
	p->indent = 0;
	p->kind = "profile";
	p->section = unquote(s);
	if (!*p->section)
		return ini_refuse(p, "a section without a name");
	if (!p->config)
		return 0;
	name = s + strcspn(s, " \t");
	if (*name) {
		*name++ = 0;
		p->kind = s;
		p->section = unquote(trim(name));
	} else if (strcmp(s, "default")) {
		p->kind = "";	/* neither a profile nor anything known: the tools skip it too */
	}
	return 0;
}

static int ini_entry_add(struct ini *p, const struct ini_entry *e)
{
	struct creds_file *f = p->f;

	if (f->n == ENTRIES_MAX)
		return ini_refuse(p, "too many entries");
	if (f->n == f->cap) {
		unsigned cap = f->cap ? f->cap * 2 : 64;
		void *more = mem_resize(f->e, cap, sizeof(*f->e));

		if (!more)
			return -ENOMEM;
		f->e = more;
		f->cap = cap;
	}
	f->e[f->n++] = *e;
	return 0;
}

static int ini_line(struct ini *p, char *s)
{
	size_t indent = strspn(s, " \t");
	struct ini_entry e = { 0 };
	char *value;

	s = trim(s);
	if (!*s || *s == '#' || *s == ';')
		return 0;
	if (*s == '[')
		return ini_section(p, s);
	value = strchr(s, '=');
	if (p->outer && indent > p->indent)
		e.outer = p->outer;
	if (!value || value == s) {
		/* Below a key it is more of that value; no key that is read here has such. */
		return e.outer ? 0 : ini_refuse(p, "neither [SECTION] nor KEY = VALUE");
	}
	*value++ = 0;
	if (!p->section)
		return ini_refuse(p, "a key before the first [SECTION]");
	comment_cut(value);
	e.kind = p->kind;
	e.section = p->section;
	e.key = trim(s);
	e.value = trim(value);
	for (char *c = s; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (!e.outer) {
		p->outer = e.key;
		p->indent = indent;
	}
	return ini_entry_add(p, &e);
}

int creds_ini_parse(struct creds_file *f, bool config, struct text *why)
{
	struct ini p = { .f = f, .config = config, .why = why };
	char *rest = f->text.s, *line;
	int err = 0;

	if (!f->there)
		return 0;
	if (!config) {
		p.kind = "profile";
		p.section = "default";
	}
	if (!strncmp(rest, "\xef\xbb\xbf", 3))
		rest += 3;
	while (!err && (line = strsep(&rest, "\n"))) {
		p.line++;
		err = ini_line(&p, line);
	}
	return err;
}

const char *creds_ini_get(const struct creds_file *f, const char *kind, const char *section,
			  const char *outer, const char *key)
{
	for (unsigned i = f->n; i-- > 0;) {
		const struct ini_entry *e = &f->e[i];

		if (!strcmp(e->key, key) && !strcmp(e->section, section) &&
		    !strcmp(e->kind, kind) &&
		    (outer ? e->outer && !strcmp(e->outer, outer) : !e->outer))
			return *e->value ? e->value : NULL;
	}
	return NULL;
}

bool creds_ini_has(const struct creds_file *f, const char *kind, const char *section)
{
	for (unsigned i = 0; i < f->n; i++) {
		if (!strcmp(f->e[i].section, section) && !strcmp(f->e[i].kind, kind))
			return true;
	}
	return false;
}
