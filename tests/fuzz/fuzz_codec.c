/* SPDX-License-Identifier: Apache-2.0 */
/* layer: meta. Records as they may stand on a damaged disk: the first byte chooses the reader. */
#include "meta/codec.h"
#include "base/err.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* What a reader accepts prints as the same bytes again, so nothing in a record is without meaning. */
static void same(const uint8_t *again, size_t nagain, struct kv_val v)
{
	require(nagain == v.n && memcmp(again, v.p, v.n) == 0);
}

static void check_names(struct kv_val v)
{
	uint8_t buf[FMT_DENTRY_MAX];
	struct fmt_dentry d;
	struct meta_attr a;

	if (codec_inode_get(v, 1, &a) == 0)
		same(buf, codec_inode_put(buf, &a), v);
	if (codec_dentry_get(v, &d) == 0)
		same(buf, codec_dentry_put(buf, &d), v);
}

static void check_data(struct kv_val v)
{
	uint8_t buf[FMT_GARBAGE_MAX];
	struct tess_extent x;
	struct meta_segment s;
	struct meta_garbage g;
	struct fmt_key k;
	uint64_t ino;

	if (codec_segment_get(v, 1, &s) == 0)
		same(buf, codec_segment_put(buf, &s), v);
	if (codec_garbage_get(v, 1, &g) == 0)
		same(buf, codec_garbage_put(buf, &g), v);
	if (codec_extent_get(key_u64_u64(&k, 1, 4096), v, &ino, &x) == 0) {
		struct fmt_extent f = {x.len, x.seg, x.seg_off, x.turn};

		require(ino == 1 && x.off == 4096);
		same(buf, codec_extent_put(buf, &f), v);
	}
}

static void check_rest(struct kv_val v)
{
	uint8_t buf[FMT_SESSION_MAX];
	struct meta_session p;
	struct meta_change c;
	struct fmt_key k;
	struct kv_val bytes;
	uint64_t u;

	if (codec_session_get(v, 1, &p) == 0)
		same(buf, codec_session_put(buf, &p), v);
	if (codec_u64_get(v, FMT_NEXT, &u) == 0)
		same(buf, codec_u64_put(buf, FMT_NEXT, u), v);
	(void)codec_u64_get(v, FMT_ORPHAN, &u);
	(void)key_change(&k, 1, META_CHANGE_NAME, 2);
	fmt_be64(k.b + 17, 3);
	if (codec_change_get(kv_val(k.b, 25), v, &c) == 0)
		same(buf, codec_change_put(buf, c.session, kv_val(c.name, c.nlen)), v);
	(void)codec_change_get(v, v, &c);
	if (codec_bytes_get(v, FMT_CSUM, &bytes) == 0 && bytes.n >= 4)
		(void)codec_csum_get(bytes, (uint32_t)(bytes.n / 4 - 1));
}

static void check_super(struct kv_val v)
{
	struct meta_super *s = malloc(sizeof(*s));
	uint8_t *again;
	size_t n;

	require(s != NULL);
	if (codec_super_get(v, s) == 0) {
		again = codec_super_put(s, &n);
		require(again != NULL);
		same(again, n, v);
		free(again);
	}
	free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const check[])(struct kv_val) = {check_names, check_data, check_rest, check_super};

	if (n)
		check[data[0] % 4](kv_val(data + 1, n - 1));
	return 0;
}
