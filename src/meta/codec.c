/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/codec.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/scoped.h"
#include <sys/stat.h>

/* ---- little-endian cursors: a reader that runs short turns bad and gives zeros ---- */

struct enc {
	uint8_t *p;
};
struct dec {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static void put(struct enc *e, const void *p, size_t n)
{
	memcpy(e->p, p, n);
	e->p += n;
}

static void put8(struct enc *e, uint8_t x)
{
	*e->p++ = x;
}

static void put16(struct enc *e, uint16_t x)
{
	x = htole16(x);
	put(e, &x, sizeof(x));
}

static void put32(struct enc *e, uint32_t x)
{
	x = htole32(x);
	put(e, &x, sizeof(x));
}

static void put64(struct enc *e, uint64_t x)
{
	x = htole64(x);
	put(e, &x, sizeof(x));
}

static void put_str(struct enc *e, const char *s, size_t max)
{
	size_t n = strnlen(s, max);

	put16(e, (uint16_t)n);
	put(e, s, n);
}

static void get(struct dec *d, void *ret, size_t n)
{
	if (d->n < n) {
		d->bad = true;
		memset(ret, 0, n);
		return;
	}
	memcpy(ret, d->p, n);
	d->p += n;
	d->n -= n;
}

static uint8_t get8(struct dec *d)
{
	uint8_t x;

	get(d, &x, sizeof(x));
	return x;
}

static uint16_t get16(struct dec *d)
{
	uint16_t x;

	get(d, &x, sizeof(x));
	return le16toh(x);
}

static uint32_t get32(struct dec *d)
{
	uint32_t x;

	get(d, &x, sizeof(x));
	return le32toh(x);
}

static uint64_t get64(struct dec *d)
{
	uint64_t x;

	get(d, &x, sizeof(x));
	return le64toh(x);
}

/* cap counts the NUL that is added. A NUL inside would make two names of one. */
static void get_str(struct dec *d, char *ret, size_t cap)
{
	size_t n = get16(d);

	if (n >= cap || d->n < n || memchr(d->p, 0, n)) {
		d->bad = true;
		n = 0;
	}
	get(d, ret, n);
	ret[n] = 0;
}

void codec_head_put(uint8_t *buf, enum fmt_tag tag)
{
	buf[0] = (uint8_t)tag;
	buf[1] = FMT_RECORD_VERSION;
}

static struct enc enc_begin(uint8_t *buf, enum fmt_tag tag)
{
	codec_head_put(buf, tag);
	return (struct enc){buf + FMT_HEAD};
}

static struct dec dec_begin(struct kv_val v, enum fmt_tag tag)
{
	struct dec d = {v.p, v.n, false};

	d.bad = get8(&d) != tag;
	if (get8(&d) != FMT_RECORD_VERSION)
		d.bad = true;
	return d;
}

/* All of it was there, and nothing is left. */
static int dec_end(const struct dec *d, bool valid)
{
	return d->bad || d->n || !valid ? -TESS_E_RECORD : 0;
}

bool codec_mode_ok(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		return (mode & ~(S_IFMT | 07777u)) == 0;
	}
	return false;
}

bool codec_name_ok(const char *name, size_t n)
{
	if (n == 0 || n > TESS_NAME_MAX || memchr(name, 0, n) || memchr(name, '/', n))
		return false;
	return !(name[0] == '.' && (n == 1 || (n == 2 && name[1] == '.')));
}

/* ---- records ---- */

#define IFLAGS_KNOWN                                                                    \
	((uint32_t)(META_HAS_XATTR | META_HAS_ACL | META_DFLT_ACL | META_ORPHAN |        \
		    META_LAMINATED | META_HIDDEN | META_MODE))

size_t codec_inode_put(uint8_t buf[FMT_INODE_LEN], const struct meta_attr *a)
{
	struct enc e = enc_begin(buf, FMT_INODE);

	put32(&e, a->mode);
	put32(&e, a->uid);
	put32(&e, a->gid);
	put32(&e, a->nlink);
	put32(&e, a->flags);
	put64(&e, a->generation);
	put64(&e, a->parent);
	put64(&e, a->rdev);
	put64(&e, a->size);
	put64(&e, a->bytes);
	put64(&e, (uint64_t)a->atime);
	put64(&e, (uint64_t)a->mtime);
	put64(&e, (uint64_t)a->ctime);
	put64(&e, (uint64_t)a->btime);
	put16(&e, a->layout.cls);
	put16(&e, a->layout.mapper);
	put32(&e, a->layout.segment_size);
	return (size_t)(e.p - buf);
}

int codec_inode_get(struct kv_val v, uint64_t ino, struct meta_attr *ret)
{
	struct dec d = dec_begin(v, FMT_INODE);
	struct meta_attr a = {.ino = ino};

	a.mode = get32(&d);
	a.uid = get32(&d);
	a.gid = get32(&d);
	a.nlink = get32(&d);
	a.flags = get32(&d);
	a.generation = get64(&d);
	a.parent = get64(&d);
	a.rdev = get64(&d);
	a.size = get64(&d);
	a.bytes = get64(&d);
	a.atime = (int64_t)get64(&d);
	a.mtime = (int64_t)get64(&d);
	a.ctime = (int64_t)get64(&d);
	a.btime = (int64_t)get64(&d);
	a.layout.cls = get16(&d);
	a.layout.mapper = get16(&d);
	a.layout.segment_size = get32(&d);
	if (dec_end(&d, codec_mode_ok(a.mode) && !(a.flags & ~IFLAGS_KNOWN) && ino &&
				a.size <= TESS_FILE_MAX && a.bytes <= TESS_FILE_MAX &&
				(a.nlink == 0) == !!(a.flags & META_ORPHAN)))
		return -TESS_E_RECORD;
	*ret = a;
	return 0;
}

size_t codec_dentry_put(uint8_t buf[FMT_DENTRY_MAX], const struct fmt_dentry *d)
{
	struct enc e = enc_begin(buf, FMT_DENTRY);

	put8(&e, (uint8_t)(d->type >> 12));
	put64(&e, d->ino);
	put(&e, d->name, d->nlen);
	return (size_t)(e.p - buf);
}

int codec_dentry_get(struct kv_val v, struct fmt_dentry *ret)
{
	struct dec d = dec_begin(v, FMT_DENTRY);
	struct fmt_dentry r;

	r.type = (uint32_t)get8(&d) << 12;
	r.ino = get64(&d);
	r.name = (const char *)d.p;
	r.nlen = d.n;
	d.n = 0;
	if (dec_end(&d, r.ino && codec_mode_ok(r.type) && codec_name_ok(r.name, r.nlen)))
		return -TESS_E_RECORD;
	*ret = r;
	return 0;
}

size_t codec_extent_put(uint8_t buf[FMT_EXTENT_MAX], const struct fmt_extent *x)
{
	struct enc e = enc_begin(buf, FMT_EXTENT);

	put32(&e, (uint32_t)x->len);
	put64(&e, x->seg);
	put32(&e, (uint32_t)x->seg_off);
	/* Absent where one mount wrote alone, which is nearly everywhere. */
	if (x->turn)
		put64(&e, x->turn);
	return (size_t)(e.p - buf);
}

int codec_extent_get(struct kv_val key, struct kv_val v, uint64_t *ret_ino, struct tess_extent *ret)
{
	struct dec d = dec_begin(v, FMT_EXTENT);
	struct tess_extent x = {0};

	x.len = get32(&d);
	x.seg = get64(&d);
	x.seg_off = get32(&d);
	if (d.n > 0) {
		x.turn = get64(&d);
		d.bad |= !x.turn;
	}
	if (key.n != 16)
		return -TESS_E_RECORD;
	x.off = fmt_be64_get((const char *)key.p + 8);
	if (dec_end(&d, x.len && x.seg && x.off <= TESS_FILE_MAX &&
				x.len <= TESS_FILE_MAX - x.off && x.seg_off + x.len <= UINT32_MAX))
		return -TESS_E_RECORD;
	*ret_ino = fmt_be64_get(key.p);
	*ret = x;
	return 0;
}

static void put_segment(struct enc *e, const struct meta_segment *s)
{
	put16(e, s->cls);
	put8(e, s->state);
	put8(e, s->width);
	put32(e, s->cell);
	put64(e, s->len);
	put64(e, s->live);
	put64(e, s->owner);
	for (unsigned i = 0; i < s->width; i++)
		put16(e, s->target[i]);
}

static bool get_segment(struct dec *d, struct meta_segment *s)
{
	s->cls = get16(d);
	s->state = get8(d);
	s->width = get8(d);
	s->cell = get32(d);
	s->len = get64(d);
	s->live = get64(d);
	s->owner = get64(d);
	if (s->width > TESS_SHARDS_MAX)
		return false;
	for (unsigned i = 0; i < s->width; i++)
		s->target[i] = get16(d);
	return s->id && s->state >= META_STAGED && s->state <= META_DEGRADED &&
	       (s->state != META_STAGED || s->width == 0) && s->len <= UINT32_MAX &&
	       s->live <= TESS_FILE_MAX;
}

size_t codec_segment_put(uint8_t buf[FMT_SEGMENT_MAX], const struct meta_segment *s)
{
	struct enc e = enc_begin(buf, FMT_SEGMENT);

	put_segment(&e, s);
	/* Absent where there is none, which is nearly everywhere. */
	if (s->moved)
		put64(&e, s->moved);
	return (size_t)(e.p - buf);
}

int codec_segment_get(struct kv_val v, tess_segid id, struct meta_segment *ret)
{
	struct dec d = dec_begin(v, FMT_SEGMENT);
	struct meta_segment s = {.id = id};
	bool valid = get_segment(&d, &s);

	if (valid && d.n > 0) {
		s.moved = get64(&d);
		valid = s.moved != 0 && s.state != META_STAGED;
	}
	if (dec_end(&d, valid))
		return -TESS_E_RECORD;
	*ret = s;
	return 0;
}

static bool garbage_has_session(uint8_t kind)
{
	return kind == META_GARBAGE_COPYING || kind == META_GARBAGE_MOVED;
}

size_t codec_garbage_put(uint8_t buf[FMT_GARBAGE_MAX], const struct meta_garbage *g)
{
	struct enc e = enc_begin(buf, FMT_GARBAGE);

	put8(&e, g->kind);
	put64(&e, g->died);
	put64(&e, g->seg.id);
	put_segment(&e, &g->seg);
	if (garbage_has_session(g->kind))
		put32(&e, g->session);
	return (size_t)(e.p - buf);
}

int codec_garbage_get(struct kv_val v, uint64_t serial, struct meta_garbage *ret)
{
	struct dec d = dec_begin(v, FMT_GARBAGE);
	struct meta_garbage g = {.serial = serial};
	bool valid;

	g.kind = get8(&d);
	g.died = get64(&d);
	g.seg.id = get64(&d);
	valid = get_segment(&d, &g.seg) && g.kind >= META_GARBAGE_OBJECTS && g.kind <= META_GARBAGE_MOVED;
	if (valid && garbage_has_session(g.kind)) {
		g.session = get32(&d);
		valid = g.session != 0 && g.seg.state != META_STAGED;
	}
	if (dec_end(&d, valid))
		return -TESS_E_RECORD;
	*ret = g;
	return 0;
}

size_t codec_session_put(uint8_t buf[FMT_SESSION_MAX], const struct meta_session *s)
{
	struct enc e = enc_begin(buf, FMT_SESSION);

	put_str(&e, s->host, sizeof(s->host) - 1);
	put_str(&e, s->boot, sizeof(s->boot) - 1);
	put_str(&e, s->mountpoint, sizeof(s->mountpoint) - 1);
	put64(&e, s->pidns);
	put32(&e, s->pid);
	put64(&e, s->pid_start);
	put64(&e, (uint64_t)s->started);
	put64(&e, (uint64_t)s->heartbeat);
	put64(&e, (uint64_t)s->beat);
	put64(&e, (uint64_t)s->lease);
	put64(&e, s->joined);
	put64(&e, s->tail);
	put8(&e, s->fenced);
	return (size_t)(e.p - buf);
}

int codec_session_get(struct kv_val v, uint32_t id, struct meta_session *ret)
{
	struct dec d = dec_begin(v, FMT_SESSION);
	struct meta_session s = {.id = id};
	uint8_t fenced;

	get_str(&d, s.host, sizeof(s.host));
	get_str(&d, s.boot, sizeof(s.boot));
	get_str(&d, s.mountpoint, sizeof(s.mountpoint));
	s.pidns = get64(&d);
	s.pid = get32(&d);
	s.pid_start = get64(&d);
	s.started = (int64_t)get64(&d);
	s.heartbeat = (int64_t)get64(&d);
	s.beat = (int64_t)get64(&d);
	s.lease = (int64_t)get64(&d);
	s.joined = get64(&d);
	s.tail = get64(&d);
	fenced = get8(&d);
	s.fenced = fenced != 0;
	if (dec_end(&d, fenced <= 1))
		return -TESS_E_RECORD;
	*ret = s;
	return 0;
}

size_t codec_change_put(uint8_t buf[FMT_CHANGE_MAX], uint32_t session, struct kv_val name)
{
	struct enc e = enc_begin(buf, FMT_CHANGE);

	put32(&e, session);
	put(&e, name.p, name.n);
	return (size_t)(e.p - buf);
}

int codec_change_get(struct kv_val key, struct kv_val v, struct meta_change *ret)
{
	struct dec d = dec_begin(v, FMT_CHANGE);
	struct meta_change c = {.session = get32(&d)};
	const uint8_t *k = key.p;
	uint8_t kind;

	if (d.bad || (key.n != 17 && key.n != 25))
		return -TESS_E_RECORD;
	kind = k[8];
	c.serial = fmt_be64_get(k);
	c.kind = (enum meta_change_kind)kind;
	c.ino = fmt_be64_get(k + 9);
	if (kind < META_CHANGE_ATTR || kind > META_CHANGE_ORPHAN)
		return -TESS_E_RECORD;
	if ((kind == META_CHANGE_NAME) != (key.n == 25))
		return -TESS_E_RECORD;
	if (kind == META_CHANGE_NAME ? !codec_name_ok((const char *)d.p, d.n) : d.n != 0)
		return -TESS_E_RECORD;
	if (kind == META_CHANGE_NAME) {
		c.name = (const char *)d.p;
		c.nlen = d.n;
	}
	*ret = c;
	return 0;
}

size_t codec_u64_put(uint8_t buf[FMT_HEAD + 8], enum fmt_tag tag, uint64_t x)
{
	struct enc e = enc_begin(buf, tag);

	put64(&e, x);
	return (size_t)(e.p - buf);
}

int codec_u64_get(struct kv_val v, enum fmt_tag tag, uint64_t *ret)
{
	struct dec d = dec_begin(v, tag);
	uint64_t x = get64(&d);

	if (dec_end(&d, true))
		return -TESS_E_RECORD;
	*ret = x;
	return 0;
}

int codec_bytes_get(struct kv_val v, enum fmt_tag tag, struct kv_val *ret)
{
	struct dec d = dec_begin(v, tag);

	if (d.bad)
		return -TESS_E_RECORD;
	*ret = kv_val(d.p, d.n);
	return 0;
}

uint32_t codec_csum_get(struct kv_val bytes, uint32_t i)
{
	uint32_t x;

	memcpy(&x, (const char *)bytes.p + (size_t)i * 4, 4);
	return le32toh(x);
}

/* ---- the file system's own record, which ends in its checksum ---- */

#define SUPER_FIXED \
	(FMT_HEAD + FMT_MAGIC_LEN + 4 + 3 * 8 + 8 + 16 + 2 + META_LABEL_MAX + 8 + 8 + 2 + 2 + 4)
#define SUPER_TARGET (2 + 2 + 2 + 15 + 2 + META_URI_MAX)

uint8_t *codec_super_put(const struct meta_super *s, size_t *ret_n)
{
	uint8_t *buf = mem_alloc(SUPER_FIXED + (size_t)s->ntargets * SUPER_TARGET);
	struct enc e;

	if (!buf)
		return NULL;
	e = enc_begin(buf, FMT_SUPER);
	put(&e, FMT_MAGIC, FMT_MAGIC_LEN);
	put32(&e, s->format);
	put64(&e, s->compat);
	put64(&e, s->ro_compat);
	put64(&e, s->incompat);
	put64(&e, s->fsid);
	put(&e, s->uuid, sizeof(s->uuid));
	put_str(&e, s->label, META_LABEL_MAX);
	put64(&e, (uint64_t)s->created);
	put16(&e, s->layout.cls);
	put16(&e, s->layout.mapper);
	put32(&e, s->layout.segment_size);
	put16(&e, (uint16_t)s->ntargets);
	for (unsigned i = 0; i < s->ntargets; i++) {
		put16(&e, s->targets[i].id);
		put16(&e, s->targets[i].state);
		put_str(&e, s->targets[i].tier, sizeof(s->targets[i].tier) - 1);
		put_str(&e, s->targets[i].uri, META_URI_MAX);
	}
	/* Absent where there is none, so that a program that knows no modes reads the record. */
	if (s->mark)
		put16(&e, s->mark);
	put32(&e, crc32c(0, buf, (size_t)(e.p - buf)));
	*ret_n = (size_t)(e.p - buf);
	return buf;
}

static bool get_targets(struct dec *d, struct meta_super *s)
{
	bool ok = true;

	s->ntargets = get16(d);
	if (s->ntargets > TESS_TARGETS_MAX)
		return false;
	for (unsigned i = 0; i < s->ntargets && !d->bad; i++) {
		s->targets[i].id = get16(d);
		s->targets[i].state = get16(d);
		get_str(d, s->targets[i].tier, sizeof(s->targets[i].tier));
		get_str(d, s->targets[i].uri, sizeof(s->targets[i].uri));
		ok = ok && s->targets[i].state <= META_TARGET_DRAINING;
	}
	return ok;
}

/* Magic and version come before all else: of a newer format nothing more may be understood. */
int codec_super_get(struct kv_val v, struct meta_super *ret)
{
	struct dec d = {v.p, v.n, false};
	char magic[FMT_MAGIC_LEN];
	uint8_t head[FMT_HEAD];
	uint32_t crc;
	bool ok;

	memset(ret, 0, sizeof(*ret));
	get(&d, head, sizeof(head));
	get(&d, magic, sizeof(magic));
	if (d.bad || head[0] != FMT_SUPER || memcmp(magic, FMT_MAGIC, sizeof(magic)) != 0)
		return -TESS_E_FORMAT_MAGIC;
	ret->format = get32(&d);
	ret->compat = get64(&d);
	ret->ro_compat = get64(&d);
	ret->incompat = get64(&d);
	if (ret->format > FMT_VERSION || (ret->incompat & ~(uint64_t)FMT_INCOMPAT_KNOWN) ||
	    head[1] > FMT_RECORD_VERSION)
		return d.bad ? -TESS_E_RECORD : -TESS_E_FORMAT_NEWER;
	ret->fsid = get64(&d);
	get(&d, ret->uuid, sizeof(ret->uuid));
	get_str(&d, ret->label, sizeof(ret->label));
	ret->created = (int64_t)get64(&d);
	ret->layout.cls = get16(&d);
	ret->layout.mapper = get16(&d);
	ret->layout.segment_size = get32(&d);
	ok = get_targets(&d, ret);
	if (d.n > 4) {
		ret->mark = get16(&d);
		ok = ok && ret->mark && ret->mark <= META_MODE >> META_MODE_SHIFT;
	}
	crc = get32(&d);
	return dec_end(&d, ok && head[1] == FMT_RECORD_VERSION && ret->format == FMT_VERSION &&
				   crc == crc32c(0, v.p, v.n - 4));
}
