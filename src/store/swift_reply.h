/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SWIFT_REPLY_H
#define STORE_SWIFT_REPLY_H
/*
 * For src/store/swift_*.c only: what a Swift service's replies mean. Text to values, no I/O; every
 * byte may be hostile.
 *
 * Source: Object Storage API v1 reference; Swift's middleware documentation for bulk delete,
 * /info and quotas; radosgw where it differs.
 */
#include "store/http.h"
#include "store/store.h"

/* /info; a service without it has the defaults of a plain Swift and no bulk delete. */
struct swift_info {
	uint64_t max_object;	/* bytes */
	unsigned max_name;	/* bytes of an object's name */
	unsigned list_max;	/* entries of a listing */
	unsigned bulk_max;	/* names of a bulk delete; 0: there is none */
	bool     known;		/* /info said so */
};
void swift_info_default(struct swift_info *ret);
int  swift_info_parse(const char *json, size_t n, struct swift_info *ret);	/* -EPROTO */

/*
 * Adds one page of a container listing (format=json, delimiter=/) to `l`: names below `prefix` that are
 * objects of ours; others, subdirs and the marker object are passed over. *ret_raw is the number of
 * entries in the page: 0 ends the listing. `last` becomes the marker for the next page. l->more is set
 * when an entry did not fit any more. -EPROTO for what is no listing, or one that does not advance.
 */
int  swift_list_parse(const char *json, size_t n, const char *prefix, struct store_list *l,
		      struct text *last, unsigned *ret_raw);

/* The body of a bulk delete of `n` names: 0 when all of them are gone, else -EIO, or -EPROTO. */
int  swift_bulk_parse(const char *json, size_t len, unsigned n);

/* Whether "bytes FIRST-LAST/TOTAL" starts at `off`; sets first to last's length and the total. */
int  swift_range_parse(const char *s, uint64_t off, uint64_t *ret_len, uint64_t *ret_total);

/*
 * http_status_err() and Swift's own: 413 is a quota when it says so, 422 a wrong ETag, 498 a rate
 * limit. `body`: the start of the reply.
 */
int  swift_status_err(unsigned status, const char *body);

/* "status 503, trans-id tx…: what it says" or the transport's words: for a line to people. */
void swift_call_says(const struct http_call *c, struct text *out);

/* A header that is a number; UINT64_MAX when not there or no number. */
uint64_t swift_header_uint(const struct http_call *c, const char *name);
#endif
