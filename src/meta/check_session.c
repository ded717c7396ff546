/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, how many they are said to be, and what they tell each other. */
#include "base/err.h"
#include "base/scoped.h"
#include "meta/check_impl.h"

static int check_session(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct meta_session s;
	struct meta_segment seg;
	struct check_fix f;
	uint64_t garbage;
	int err;

	if (key.n == 4 && codec_session_get(v, fmt_be32_get(key.p), &s) == 0)
		return 0;
	if (key.n == 12 && codec_u64_get(v, FMT_STAGED, &garbage) == 0) {
		err = garbage ? 0 : segment_get(t, fmt_be64_get((const char *)key.p + 4), &seg);
		if (err != -ENOENT)
			return err == -TESS_E_RECORD ? 0 : err;
		f = check_found("lost-segment", 0, fmt_be64_get((const char *)key.p + 4),
				check_fix_del,
				"on a session's list of staged segments, but there is none");
	} else {
		f = check_found("record", 0, 0, check_fix_del, "session record is corrupt");
	}
	check_key(&f, KV_SESSION, key);
	return check_report(k, &f);
}

static int check_change(struct check *k, struct kv_txn *t, struct kv_val key, struct kv_val v)
{
	struct meta_change c;
	struct check_fix f;

	(void)t;
	if (codec_change_get(key, v, &c) == 0)
		return 0;
	f = check_found("record", 0, 0, check_fix_del, "note of a change is corrupt");
	check_key(&f, KV_CHANGE, key);
	return check_report(k, &f);
}

/* ---- how many ---- */

static int count_real(struct kv_txn *t, uint32_t *ret_sessions, uint32_t *ret_fenced)
{
	struct meta_session s;
	uint64_t from = 0;
	int err;

	*ret_sessions = *ret_fenced = 0;
	while (!(err = session_first(t, from, &s))) {
		from = (uint64_t)s.id + 1;
		++*ret_sessions;
		*ret_fenced += s.fenced;
	}
	return absent_ok(err);
}

static int fix_count(struct kv_txn *t, struct check *k, const struct check_fix *f)
{
	uint32_t sessions, fenced;
	int err = count_real(t, &sessions, &fenced);

	(void)k;
	(void)f;
	return err ? err : session_count_put(t, sessions, fenced);
}

static int check_count(struct kv_txn *t, void *arg)
{
	struct check *k = arg;
	uint32_t sessions, fenced, said, said_fenced;
	struct check_fix f;
	int err = count_real(t, &sessions, &fenced);

	if (!err)
		err = session_count_get(t, &said, &said_fenced);
	if (err && err != -TESS_E_RECORD)
		return err;
	if (!err && said == sessions && said_fenced == fenced)
		return 0;
	f = check_found("session", 0, 0, fix_count,
			err ? "how many sessions there are is a corrupt record"
			    : "there are %u sessions, %u of them fenced, and not as many are counted",
			sessions, fenced);
	return check_report(k, &f);
}

int check_sessions(struct check *k)
{
	int err = check_walk(k, KV_SESSION, check_session);

	if (!err)
		err = check_walk(k, KV_CHANGE, check_change);
	return err ? err : kv_read(k->m->kv, check_count, k);
}
