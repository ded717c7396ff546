/* SPDX-License-Identifier: Apache-2.0 */
/* A lock's key and record, see format.h. */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/codec.h"

#define LOCK_WAITS 128u /* in the kind of a key */

struct lock_record {
	uint8_t head[FMT_HEAD], type;
	uint32_t pid;
	uint64_t start, end, ticket;
} __attribute__((packed));
struct lock_key {
	uint64_t ino;
	uint32_t session;
	uint64_t owner;
	uint8_t kind;
	uint64_t last; /* start, or the wait's number */
} __attribute__((packed));
_Static_assert(sizeof(struct lock_record) == FMT_LOCK_LEN, "as stored");
_Static_assert(sizeof(struct lock_key) == FMT_LOCK_KEY, "as stored");

struct kv_val key_lock(struct fmt_key *k, const struct meta_lock *l)
{
	struct lock_key x = {
		.ino = htobe64(l->ino),
		.session = htobe32(l->session),
		.owner = htobe64(l->owner),
		.kind = l->wait ? (uint8_t)(l->kind | LOCK_WAITS) : l->kind,
		.last = htobe64(l->wait ? l->wait : l->start),
	};

	memcpy(k->b, &x, sizeof(x));
	k->n = sizeof(x);
	return kv_val(k->b, k->n);
}

size_t codec_lock_put(uint8_t buf[FMT_LOCK_LEN], const struct meta_lock *l)
{
	struct lock_record r = {
		.type = l->type,
		.pid = htole32(l->pid),
		.start = htole64(l->start),
		.end = htole64(l->end),
		.ticket = htole64(l->ticket),
	};

	codec_head_put(r.head, FMT_LOCK);
	memcpy(buf, &r, sizeof(r));
	return sizeof(r);
}

int codec_lock_get(struct kv_val key, struct kv_val v, struct meta_lock *ret)
{
	struct lock_record r;
	struct meta_lock l;
	struct lock_key k;
	uint64_t last;
	bool waits;

	if (key.n != sizeof(k) || v.n != sizeof(r))
		return -TESS_E_RECORD;
	memcpy(&k, key.p, sizeof(k));
	memcpy(&r, v.p, sizeof(r));
	last = be64toh(k.last);
	waits = k.kind & LOCK_WAITS;
	l = (struct meta_lock){
		.ino = be64toh(k.ino),
		.session = be32toh(k.session),
		.owner = be64toh(k.owner),
		.kind = k.kind & (LOCK_WAITS - 1),
		.wait = waits ? last : 0,
		.type = r.type,
		.pid = le32toh(r.pid),
		.start = le64toh(r.start),
		.end = le64toh(r.end),
		.ticket = le64toh(r.ticket),
	};
	if (r.head[0] != FMT_LOCK || r.head[1] != FMT_RECORD_VERSION ||
	    (l.kind != META_LOCK_RANGE && l.kind != META_LOCK_FLOCK) ||
	    (l.type != META_LOCK_READ && l.type != META_LOCK_WRITE) || l.start > l.end ||
	    l.end > META_LOCK_END || (waits ? !last : last != l.start))
		return -TESS_E_RECORD;
	*ret = l;
	return 0;
}
