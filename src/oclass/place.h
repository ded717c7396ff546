/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OCLASS_PLACE_H
#define OCLASS_PLACE_H
/*
 * Placement: which targets hold the shards. Weighted rendezvous hashing (Thaler & Ravishankar 1998;
 * weights as in Schindelhauer & Schomaker 2005): deterministic, never two shards on one target, and
 * adding a target moves only what it wins.
 */
#include <tessera/types.h>

struct place_target {
	uint16_t id;
	double   weight;	/* > 0; capacity in any unit. 0: takes nothing new (draining) */
};
/*
 * The `n` best targets for `seed` (an inode number, or a segment id when packed), best first.
 * -TESS_E_CLASS_TARGETS when fewer are live.
 */
int place(uint64_t seed, const struct place_target *targets, unsigned ntargets, unsigned n,
	  uint16_t *ret);

#define PLACE_NAME_LEN 19	/* "0000000100000000.00" and no NUL */
/* Object name of a shard: 16 hex digits of the segment id, '.', 2 of the shard. Reversible. */
void place_name(tess_segid seg, unsigned shard, char ret[PLACE_NAME_LEN + 1]);
int  place_parse(const char *name, tess_segid *ret_seg, unsigned *ret_shard);	/* -EINVAL */
#endif
