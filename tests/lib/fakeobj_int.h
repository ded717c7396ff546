/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKEOBJ_INT_H
#define FAKEOBJ_INT_H
/* What the files of fakeobj share. */
#include "fakeobj.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#define HEAD_MAX    (64u << 10)
#define FIELDS_MAX  64u
#define QUERIES_MAX 32u
#define RULES_MAX   32u
#define FAKE_OTHER_TAG "0123456789abcdef0123456789abcdef"
#define FAKE_TAG    40u	/* of an object: its MD5, or that of its parts, a hyphen, and their number */

enum verb {
	V_PUT, V_GET, V_HEAD, V_DEL, V_LIST, V_BULK, V_OTHER,
	V_AUTH, V_CREDS, V_CONNECT, V_NONE, V_N,
};
enum outcome { O_OK, O_FAULT, O_DENIED, O_MISSING, O_OTHER, O_N };

enum kind {
	K_NONE, K_STATUS, K_OK_ERROR, K_REDIRECT, K_RESET, K_HALF, K_GARBAGE, K_ENDLESS, K_BLACKHOLE,
	K_BAD_BODY, K_CUT_BODY, K_BOMB_BODY, K_HUGE_BODY, K_XXE_BODY,
	K_CARRIED_OUT,	/* from here on */
	K_RESET_AFTER, K_RESET_MID, K_SHORT, K_LONG, K_LESS, K_MORE, K_UNFRAMED, K_DELAY, K_STALL,
	K_FLIP, K_ETAG, K_OTHER_RANGE, K_WHOLE, K_CUT, K_CLOSE,
};

struct fault {
	enum kind kind;
	unsigned  status;
	unsigned  ms;
	char      arg[48];
};
struct rule {
	char         verb[12];
	uint64_t     every, from, to, seen;
	struct fault fault;
};

struct object {
	atomic_uint refs;
	char       *name;	/* "bucket/key" or "container/name" */
	size_t      size;
	char        md5[FAKE_TAG];
	time_t      made;
	uint8_t     data[];
};

/* Issued or given: a key pair of S3, a token of Swift or of the metadata service. */
struct grant {
	char   id[40], secret[64], token[72];
	time_t until;	/* 0: for ever */
};

struct field {
	const char *name, *value;
};

struct request {
	int          fd;
	struct fakeobj *f;
	char        *head;
	char        *method, *target;	/* target: as it came */
	char        *path;		/* decoded; not the query */
	char        *rawpath;		/* not decoded; not the query */
	char        *rawquery;
	struct field field[FIELDS_MAX];
	unsigned     nfield;
	struct field query[QUERIES_MAX];	/* decoded */
	unsigned     nquery;
	uint8_t     *body;
	size_t       body_len;
	bool         keep;		/* the connection goes on */
	enum verb    verb;
	bool         swift;		/* errors in its style */
	struct fault fault;
	char        *scratch;		/* owner of what was decoded */
};

/* What is to be sent. `data` is borrowed unless it is `own` or of `obj`. */
struct reply {
	unsigned       status;
	FILE          *headers;		/* of text, NUL at its end */
	char          *header_text;
	size_t         header_len;
	const uint8_t *data;
	char          *own;
	struct object *obj;
	size_t         len;
	uint64_t       announce;	/* Content-Length, unless it is 0 or that of `len` */
	bool           head;
};

struct fakeobj {
	pthread_mutex_t lock;
	pthread_cond_t  idle;
	struct fakeobj_conf conf;
	char            access[64], secret[64], user[64], key[64], region[32];
	unsigned        port;
	int             listener;
	int             stop[2];	/* readable: the end */
	pthread_t       acceptor;
	int            *fds;		/* of the connections */
	unsigned        nfds, capfds;
	uint64_t        connections, issued, elsewhere;
	uint64_t        bytes_in, bytes_out;
	uint64_t        count[V_N][O_N];
	struct rule     rule[RULES_MAX];
	unsigned        nrules;
	struct object **objs;		/* by name */
	size_t          nobjs, capobjs;
	uint64_t        bytes;
	struct grant   *grants;
	size_t          ngrants, capgrants;
};

extern const char *const fake_verbs[V_N], *const fake_outcomes[O_N];

/* fakeobj_http.c */
int  fake_http_read(struct request *q);	/* 1: a request; 0: the other side ended it; negative */
void fake_http_request_free(struct request *q);
enum verb fake_http_verb(const struct request *q);	/* of an object, by the method; V_OTHER */
const char *fake_http_field(const struct request *q, const char *name);
const char *fake_http_query(const struct request *q, const char *name);	/* may be "" */
/* In place; `plus`: '+' is a space. */
void fake_http_decode(char *s, bool plus);
void fake_http_encode_to(FILE *out, const char *s, bool slash);
unsigned fake_http_form(char *text, struct field *ret, unsigned max);
int  fake_http_send_all(struct fakeobj *f, int fd, const void *p, size_t n);
void fake_http_rst(int fd);
bool fake_http_wait(struct fakeobj *f, int fd, unsigned ms);	/* false: it ended */
const char *fake_http_reason(unsigned status);

/* fakeobj_reply.c */
void fake_reply_begin(struct reply *r, const struct request *q);
void fake_reply_header(struct reply *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fake_reply_text(struct reply *r, const char *type, char *own, size_t len);	/* owned */
void fake_reply_error(struct reply *r, const struct request *q, unsigned status, const char *code);
void fake_reply_object(struct reply *r, struct request *q, struct object *o);	/* takes it */
/* Sends as the fault says. 0: the connection may go on. */
int  fake_reply_send(struct reply *r, struct request *q);
void fake_reply_done(struct reply *r);

/* fakeobj_faults.c */
int  fake_fault_rules(struct fakeobj *f, const char *rules);
struct fault fake_fault_pick(struct fakeobj *f, enum verb v);
/* For kinds that are not carried out. As fake_reply_send(). */
int  fake_fault_answer(struct request *q, struct reply *r);
int  fake_fault_connect(struct fakeobj *f, int fd);	/* 0: go on */

/* fakeobj_objects.c */
int  fake_objects_put(struct fakeobj *f, const char *name, const void *p, size_t n, bool exclusive,
		 char md5[FAKE_TAG]);	/* -EEXIST */
void fake_objects_tag(struct fakeobj *f, const char *name, const char *tag);	/* of one that is there */
struct object *fake_objects_get(struct fakeobj *f, const char *name);	/* a reference */
void fake_object_unref(struct object *o);	/* NULL is fine */
bool fake_objects_del(struct fakeobj *f, const char *name);
/* Those with the prefix and > after, at most max; references. */
size_t fake_objects_list(struct fakeobj *f, const char *prefix, const char *after,
			 struct object **ret, size_t max);
void fake_objects_clear(struct fakeobj *f);

/* fakeobj_creds.c */
time_t fake_now(const struct fakeobj *f);
void fake_creds_issue(struct fakeobj *f, struct grant *ret);
/* 1: good; 0: it ended; -ENOENT. By id (S3) or by token. */
int  fake_creds_find(struct fakeobj *f, const char *id, const char *token, struct grant *ret);
void fake_creds_serve(struct request *q, struct reply *r);
bool fake_creds_is(const struct request *q);
void fake_creds_time(time_t t, char ret[24]);	/* "2026-01-02T03:04:05Z" */

/* fakeobj_sigv4.c: NULL, or the code of the error and its status. */
const char *fake_sigv4_check(const struct request *q, const char *service, unsigned *ret_status);

/* fakeobj_multi.c: an upload in parts; false: the request is none of it. `name` is "bucket/key". */
bool fake_multi_serve(struct request *q, struct reply *r, const char *name);

/* fakeobj_s3.c, fakeobj_swift.c */
enum verb fake_s3_verb(const struct request *q);
void fake_s3_serve(struct request *q, struct reply *r);
enum verb fake_swift_verb(const struct request *q);
void fake_swift_serve(struct request *q, struct reply *r);
bool fake_swift_is(const struct request *q);
#endif
