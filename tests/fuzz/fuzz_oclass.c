/* SPDX-License-Identifier: Apache-2.0 */
/* layer: oclass. Class names, object names, ids and geometries out of a record. */
#include "base/err.h"
#include "base/scoped.h"
#include "base/text.h"
#include "oclass/oclass.h"
#include "oclass/place.h"
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* A name is legal, and prints as itself; or it is refused, and the name suggested is legal. */
static void check_class(const char *s)
{
	struct text why = TEXT_INIT;
	struct oclass c;
	char name[16];

	if (oclass_parse(s, &c, &why) == 0) {
		oclass_name(&c, name);
		require(strcasecmp(name, s) == 0);
	} else {
		const char *is = strrchr(text_str(&why), ' ');

		require(is && oclass_parse(is + 1, &c, NULL) == 0);
		require(!strchr(text_str(&why), '\n'));
	}
	text_done(&why);
}

static void check_object(const char *s)
{
	char name[PLACE_NAME_LEN + 1];
	tess_segid seg;
	unsigned shard;

	if (place_parse(s, &seg, &shard) < 0)
		return;
	place_name(seg, shard, name);
	require(strcmp(name, s) == 0);
}

/* Any geometry that passes the check is safe to work with, and its shards add up to it. */
static void check_geo(const uint8_t *data, size_t n)
{
	struct oclass_geo g = { 0 };
	struct oclass_piece p;
	uint64_t sum = 0, it = 0;
	uint8_t b[20] = { 0 };
	struct tess_range r = { 0 };
	uint16_t id;

	memcpy(b, data, MIN(n, sizeof(b)));
	memcpy(&id, b, 2);
	if (oclass_from_id(id, &g.cls) < 0)
		return;
	g.width = b[2];
	memcpy(&g.cell, b + 3, 4);
	memcpy(&g.len, b + 7, 4);
	memcpy(&r.off, b + 11, 4);
	r.len = (uint64_t)b[15] << 14;
	if (oclass_geo_check(&g) < 0)
		return;
	for (unsigned i = 0; i < g.width; i++)
		sum += oclass_shard_len(&g, i);
	require(sum == g.len);
	for (sum = 0; oclass_next(&g, r, &it, &p); sum += p.len) {
		require(p.len > 0 && p.shard < g.width);
		require(p.shard_off + p.len <= oclass_shard_len(&g, p.shard));
	}
	require(sum == (r.off >= g.len ? 0 : MIN(r.len, g.len - r.off)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *s = strndup((const char *)data, n);

	if (!s)
		abort();
	check_class(s);
	check_object(s);
	check_geo(data, n);
	free(s);
	return 0;
}
