#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A private error code that nothing returns is a promise that nothing keeps.
set -u
bad=0
codes=$(sed -n 's/^\tx(\([A-Z_]*\),.*/\1/p' src/base/err.h)
[ "$(echo "$codes" | wc -l)" -gt 10 ] || { echo 'the table of src/base/err.h was not found'; exit 1; }
for e in $codes; do
	grep -rqw --include='*.[ch]' --exclude=err.h "TESS_E_$e" src mappers tools || { echo "TESS_E_$e is never returned"; bad=1; }
done
exit $bad
