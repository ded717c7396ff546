/* SPDX-License-Identifier: Apache-2.0 */
#include "store/marker.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARKER_FORMAT "tessera target 1\nfsid %016" PRIx64 "\n"
#define MARKER_LEN    (sizeof("tessera target 1\nfsid 0123456789abcdef\n") - 1)

static void marker_req(struct tess_req *req, int64_t timeout)
{
	req_begin(req, "target");
	req->deadline = clock_now() + timeout;
}

static int marker_read(struct store *s, struct tess_req *req, uint64_t *ret_fsid)
{
	char buf[MARKER_LEN + 1] = { 0 }, want[MARKER_LEN + 1];
	int r = store_get(s, req, STORE_MARKER, 0, buf, MARKER_LEN);
	uint64_t fsid;

	if (r < 0)
		return r;
	if (sscanf(buf, MARKER_FORMAT, &fsid) != 1)
		return -TESS_E_RECORD;
	(void)snprintf(want, sizeof(want), MARKER_FORMAT, fsid);
	if (memcmp(buf, want, MARKER_LEN) != 0)
		return -TESS_E_RECORD;
	*ret_fsid = fsid;
	return 0;
}

static int marker_refuse_used(struct store *s, struct tess_req *req, const struct store_conf *conf,
			      struct text *why)
{
	struct tess_objinfo info;
	struct tess_key key;
	struct store_list list = { .max = 1, .keys = &key, .infos = &info };
	struct store_op op = { .req = req, .code = STORE_LIST, .list = &list };
	uint64_t fsid;
	int r = marker_read(s, req, &fsid);

	if (r == 0) {
		text_fmt(why, "%s: is the target of file system %016" PRIx64, conf->uri, fsid);
		return -EEXIST;
	}
	if (r == -ENOENT)
		r = store_do(s, &op);
	if (r == 0 && list.n > 0) {
		text_fmt(why, "%s: not empty: holds \"%s\"; give a place of its own", conf->uri, key.name);
		return -EEXIST;
	}
	return r;
}

static int marker_put(struct store *s, struct tess_req *req, uint64_t fsid)
{
	char buf[MARKER_LEN + 1];

	(void)snprintf(buf, sizeof(buf), MARKER_FORMAT, fsid);
	return store_put(s, req, STORE_MARKER, buf, MARKER_LEN);
}

int store_marker_check(struct store *s, const struct store_conf *conf, int64_t timeout,
		       struct text *why)
{
	struct tess_req req;
	uint64_t fsid = 0;
	int r;

	marker_req(&req, timeout);
	if (conf->create) {
		r = marker_refuse_used(s, &req, conf, why);
		if (r == 0)
			r = marker_put(s, &req, conf->fsid);
	} else {
		r = marker_read(s, &req, &fsid);
		if (r == -ENOENT || r == -TESS_E_SHORT_BODY || r == -TESS_E_RECORD) {
			text_fmt(why, "%s: holds no target of a file system (object \"%s\": %s)",
				 conf->uri, STORE_MARKER, err_text(r));
			return -TESS_E_URI;
		}
		if (r == 0 && conf->fsid && fsid != conf->fsid) {
			text_fmt(why, "%s: is the target of another file system, %016" PRIx64,
				 conf->uri, fsid);
			return -TESS_E_URI;
		}
	}
	if (r < 0 && !text_str(why)[0])
		text_fmt(why, "%s: %s", conf->uri, err_text(r));
	return r;
}

void store_marker_remove(struct store *s, const struct store_conf *conf, int64_t timeout)
{
	struct tess_req req;
	uint64_t fsid;

	marker_req(&req, timeout);
	if (marker_read(s, &req, &fsid) == 0 && fsid == conf->fsid)
		(void)store_del(s, &req, STORE_MARKER);
}
