/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTPTEST_H
#define HTTPTEST_H
/*
 * What the tests of the stores behind HTTP share: a store on a server that misbehaves (fakeobj.h),
 * by each kind of identity, and operations that know whether what they were told is so.
 */
#include "fakeobj.h"
#include "storetest.h"

#define HT_OLD_SIZE 5000u	/* of the object "old", which is always there */

enum ht_service {
	HT_S3, HT_S3_INSTANCE, HT_S3_CONTAINER, HT_S3_WEB, HT_TEMPAUTH, HT_KEYSTONE, HT_APP_CREDENTIAL,
	HT_N
};
enum ht_verb { HT_PUT, HT_GET, HT_HEAD, HT_DEL, HT_LIST, HT_NVERBS };	/* as in fakeobj's rules */
extern const char *const ht_verb_names[HT_NVERBS];

struct httptest {
	struct fakeobj  *server;
	struct storetest t;
	enum ht_service  service;
};
extern struct httptest ht;

bool ht_is_s3(void);
const char *ht_name(void);
/* The server, and the environment that its store needs; nothing is opened. */
void ht_serve(enum ht_service s, const struct fakeobj_conf *conf);
void ht_uri(const char *place, const char *query);	/* of ht.t */
/* ht_serve(), a store at data/p and the object "old". */
void ht_begin(enum ht_service s, const char *query, const struct fakeobj_conf *conf);
void ht_end(void);
void ht_rules(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* 0: said so and is so; 1: said so and is not; negative: the error. PUT, DEL: object n<serial>. */
int  ht_do(enum ht_verb v, unsigned serial);
bool ht_is_put(unsigned serial);
bool ht_is_gone(unsigned serial);
bool ht_old_is_there(void);
const char *ht_said(int r);	/* what ht_do() returned, for people */
/* Every verb again and again, by so many threads. Fails at the first error. How many. */
unsigned ht_load(int64_t time, unsigned threads);
#endif
