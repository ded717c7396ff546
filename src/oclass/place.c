/* SPDX-License-Identifier: Apache-2.0 */
#include "oclass/place.h"
#include "base/err.h"
#include "base/scoped.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/*
 * -ln(u) / weight, u uniform in (0, 1): exponentially distributed with rate `weight`, so that the
 * smallest of all belongs to a target with the probability of its share of the weights. Depends on
 * nothing but this target, which is why others coming and going move only what they win or lose.
 */
static double score(uint64_t seed, const struct place_target *t)
{
	uint64_t h = mix(mix(seed) ^ mix(UINT64_C(0x7465737365726100) + t->id));

	return -log(((double)(h >> 11) + 0.5) * 0x1p-53) / t->weight;
}

int place(uint64_t seed, const struct place_target *targets, unsigned ntargets, unsigned n,
	  uint16_t *ret)
{
	struct {
		double score;
		uint16_t id;
	} best[TESS_TARGETS_MAX], s;
	unsigned got = 0;

	if (n > TESS_TARGETS_MAX)
		return -TESS_E_CLASS_TARGETS;
	for (unsigned i = 0; i < ntargets; i++) {
		unsigned at;

		if (!(targets[i].weight > 0))
			continue;
		s.score = score(seed, &targets[i]);
		s.id = targets[i].id;
		/* Equal scores go by id, not by the order of the table. */
		for (at = got; at > 0; at--)
			if (best[at - 1].score < s.score ||
			    (best[at - 1].score == s.score && best[at - 1].id < s.id))
				break;
		if (at >= n)
			continue;
		got = MIN(got + 1, n);
		memmove(&best[at + 1], &best[at], (got - at - 1) * sizeof(best[0]));
		best[at] = s;
	}
	if (got < n)
		return -TESS_E_CLASS_TARGETS;
	for (unsigned i = 0; i < n; i++)
		ret[i] = best[i].id;
	return 0;
}

void place_name(tess_segid seg, unsigned shard, char ret[PLACE_NAME_LEN + 1])
{
	snprintf(ret, PLACE_NAME_LEN + 1, "%016llx.%02x", (unsigned long long)seg, shard & 0xff);
}

/* Exactly n lower-case hex digits: what place_name() never writes is a foreign object. */
static bool parse_hex(const char *s, unsigned n, uint64_t *ret)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++) {
		const char *d = s[i] ? strchr(digits, s[i]) : NULL;

		if (!d)
			return false;
		v = v << 4 | (uint64_t)(d - digits);
	}
	*ret = v;
	return true;
}

int place_parse(const char *name, tess_segid *ret_seg, unsigned *ret_shard)
{
	uint64_t seg, shard;

	if (!parse_hex(name, 16, &seg) || name[16] != '.' || !parse_hex(name + 17, 2, &shard) ||
	    name[PLACE_NAME_LEN] != '\0')
		return -EINVAL;
	if (seg == 0 || shard >= TESS_SHARDS_MAX)
		return -EINVAL;
	*ret_seg = seg;
	*ret_shard = (unsigned)shard;
	return 0;
}
