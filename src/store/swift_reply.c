/* SPDX-License-Identifier: Apache-2.0 */
#include "store/swift_reply.h"

#include "base/err.h"
#include "base/scoped.h"
#include "store/marker.h"
#include "store/swift_ident.h"

#include <jansson.h>
#include <string.h>

#define OBJECT_DEFAULT (UINT64_C(5) << 30)
#define LIST_DEFAULT   10000u

/* ---- /info ---- */

void swift_info_default(struct swift_info *ret)
{
	*ret = (struct swift_info){ .max_object = OBJECT_DEFAULT, .max_name = 1024,
				    .list_max = LIST_DEFAULT };
}

/* A positive member of `o`, at most `max`; else `dflt`. */
static uint64_t info_uint(const json_t *o, const char *name, uint64_t dflt, uint64_t max)
{
	json_int_t v = json_integer_value(json_object_get(o, name));

	return v > 0 ? MIN((uint64_t)v, max) : dflt;
}

int swift_info_parse(const char *json, size_t n, struct swift_info *ret)
{
	json_error_t e;
	json_t *root = json_loadb(json, n, 0, &e), *swift, *bulk;

	swift_info_default(ret);
	swift = json_object_get(root, "swift");
	if (!json_is_object(swift)) {
		json_decref(root);
		return -EPROTO;
	}
	ret->known = true;
	ret->max_object = info_uint(swift, "max_file_size", ret->max_object, INT64_MAX);
	ret->max_name = (unsigned)info_uint(swift, "max_object_name_length", 1024, 65536);
	ret->list_max = (unsigned)info_uint(swift, "container_listing_limit", LIST_DEFAULT,
					    LIST_DEFAULT);
	bulk = json_object_get(root, "bulk_delete");
	if (json_is_object(bulk))
		ret->bulk_max = (unsigned)info_uint(bulk, "max_deletes_per_request", 1000, 10000);
	json_decref(root);
	return 0;
}

/* ---- listings ---- */

/* One entry into the list; 1 when it does not fit. */
static int list_entry_add(const json_t *e, const char *name, size_t skip, struct store_list *l)
{
	const json_t *bytes = json_object_get(e, "bytes");
	struct tess_key key;

	if (store_key_set(&key, name + skip) < 0 || store_is_marker(key.name))
		return 0;
	if (!json_is_integer(bytes) || json_integer_value(bytes) < 0)
		return -EPROTO;
	if (l->n == l->max)
		return 1;
	if (strcmp(l->n ? l->keys[l->n - 1].name : l->after.name, key.name) >= 0)
		return -EPROTO;
	l->keys[l->n] = key;
	l->infos[l->n++].size = (uint64_t)json_integer_value(bytes);
	return 0;
}

/* Entries are in order; a page that is not would be asked for again and again. */
static int list_advance(struct text *last, const char *name, bool subdir)
{
	if (last->n && strcmp(name, text_str(last)) <= 0)
		return -EPROTO;
	text_clear(last);
	text_add(last, name);
	/* Behind everything that begins so, on services that would give the subdir again. */
	if (subdir)
		text_add(last, "\xf4\x8f\xbf\xbf");
	return text_error(last);
}

int swift_list_parse(const char *json, size_t n, const char *prefix, struct store_list *l,
		     struct text *last, unsigned *ret_raw)
{
	size_t skip = strlen(prefix), i;
	json_error_t err;
	json_t *root = json_loadb(json, n, 0, &err), *e;
	int r = json_is_array(root) ? 0 : -EPROTO;

	l->more = false;
	json_array_foreach(root, i, e) {
		const char *name = json_string_value(json_object_get(e, "name"));
		const char *subdir = json_string_value(json_object_get(e, "subdir"));
		const char *at = name ? name : subdir;

		r = at && strncmp(at, prefix, skip) == 0 ? list_advance(last, at, !name) : -EPROTO;
		if (r == 0 && name)
			r = list_entry_add(e, name, skip, l);
		if (r != 0)
			break;
	}
	if (r == 1) {
		l->more = true;
		r = 0;
	}
	*ret_raw = (unsigned)json_array_size(root);
	json_decref(root);
	return r;
}

/* ---- bulk delete ---- */

static int64_t bulk_count(const json_t *root, const char *name)
{
	const json_t *v = json_object_get(root, name);

	return json_is_integer(v) ? json_integer_value(v) : -1;
}

int swift_bulk_parse(const char *json, size_t len, unsigned n)
{
	json_error_t err;
	json_t *root = json_loadb(json, len, 0, &err);
	const char *status = json_string_value(json_object_get(root, "Response Status"));
	int64_t gone = bulk_count(root, "Number Deleted"), none = bulk_count(root, "Number Not Found");
	size_t errors = json_array_size(json_object_get(root, "Errors"));
	int r = 0;

	if (!status || gone < 0 || none < 0)
		r = -EPROTO;
	/* The status line of what was worst; all counted, or a name got lost on the way. */
	else if (strncmp(status, "200", 3) != 0 || errors || gone > n || none > n ||
		 gone + none != n)
		r = -EIO;
	json_decref(root);
	return r;
}

/* ---- headers and status ---- */

static bool number_read(const char **at, uint64_t *ret)
{
	const char *s = *at;
	uint64_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	}
	if (s == *at)
		return false;
	*at = s;
	*ret = v;
	return true;
}

int swift_range_parse(const char *s, uint64_t off, uint64_t *ret_len, uint64_t *ret_total)
{
	uint64_t first, last, total;

	if (!s || strncasecmp(s, "bytes", 5) != 0)
		return -EPROTO;
	s += 5;
	s += strspn(s, " ");
	if (!number_read(&s, &first) || *s++ != '-' || !number_read(&s, &last) || *s++ != '/' ||
	    !number_read(&s, &total) || *s)
		return -EPROTO;
	if (first != off || last < first || last >= total)
		return -EPROTO;
	*ret_len = last - first + 1;
	*ret_total = total;
	return 0;
}

int swift_status_err(unsigned status, const char *body)
{
	switch (status) {
	case 413:
		return strcasestr(body, "quota") ? -TESS_E_STORE_FULL : -EFBIG;
	case 422:
		return -EPROTO;
	case 498:
		return -TESS_E_STORE_BUSY;
	default:
		return http_status_err(status);
	}
}

uint64_t swift_header_uint(const struct http_call *c, const char *name)
{
	const char *v = http_header(c, name);
	uint64_t x;

	return v && number_read(&v, &x) && !*v ? x : UINT64_MAX;
}

void swift_call_says(const struct http_call *c, struct text *out)
{
	static const char *const names[] = { "X-Openstack-Request-Id", "X-Trans-Id" };

	if (c->err < 0) {
		text_add(out, http_why(c));
		return;
	}
	text_fmt(out, "status %u", c->status);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *id = http_header(c, names[i]);

		if (id && strlen(id) < 100) {
			text_add(out, ", trans-id ");
			swift_reply_says(id, strlen(id), out);
			break;
		}
	}
	if (c->reply.n) {
		text_add(out, ": ");
		swift_reply_says(text_str(&c->reply), c->reply.n, out);
	}
}
