/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/fault.h"
#include "base/scoped.h"

int path_absolute(const char *path, char **ret)
{
	scoped_free char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	char *p;

	if (*path != '/' && !cwd)
		return -errno;
	p = cwd ? mem_printf("%s/%s", cwd, path) : mem_strdup(path);
	if (!p)
		return -ENOMEM;
	*ret = p;
	return 0;
}
