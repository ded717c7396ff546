/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scoped.h"
#include "base/text.h"
#include "map/map.h"
#include <string.h>

/*
 * Built-in mappers, by name. Their declarations are here and not in a header because a mapper sees
 * only <tessera/...>, and nobody else may reach one past this table.
 */
extern const struct tess_mapper tess_mapper_balanced;
extern const struct tess_mapper tess_mapper_naive;
extern const struct tess_mapper tess_mapper_write_optimized;

static const struct tess_mapper *const builtin[] = {
	&tess_mapper_balanced,
	&tess_mapper_naive,
	&tess_mapper_write_optimized,
};

const struct tess_mapper *map_row(unsigned i)
{
	return i < ARRAY_SIZE(builtin) ? builtin[i] : NULL;
}

const struct tess_mapper *map_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(builtin); i++)
		if (strcmp(builtin[i]->name, name) == 0)
			return builtin[i];
	return NULL;
}

const struct tess_mapper *map_by_id(uint16_t id)
{
	for (unsigned i = 0; i < ARRAY_SIZE(builtin); i++)
		if (builtin[i]->id == id)
			return builtin[i];
	return NULL;
}

void map_names(struct text *out)
{
	for (unsigned i = 0; i < ARRAY_SIZE(builtin); i++) {
		if (i > 0)
			text_add(out, ", ");
		text_add(out, builtin[i]->name);
	}
}
