#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a reader of any file may rely on: the licence line first, no trailing blanks, no banned function
# (the build poisons them too, but sees only what it compiles), no conflict marker, scripts that parse.
set -u
bad=0
say() {
	echo "$1"
	bad=1
}
c=$(ls src/*/*.[ch] include/tessera/*.h mappers/*.c tools/*.[ch] tests/*/*.[ch] bench/*.[ch] 2>/dev/null)
sh=$(ls tests/run tests/packages tests/demo tests/servers/{ceph,s3,swift,objects} tests/*/*.sh tools/*.sh bench/run bench/compare bench/*.sh .ci/run 2>/dev/null)
for f in $c; do
	[ "$(head -n 1 "$f")" = '/* SPDX-License-Identifier: Apache-2.0 */' ] || say "$f: no licence line"
done
for f in $sh Makefile configure.ac src/config.mk.in; do
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || say "$f: no licence line"
done
for f in $sh; do
	case $(head -n 1 "$f") in
	*python*) python3 -c 'import ast,sys; ast.parse(open(sys.argv[1]).read())' "$f" || say "$f: does not parse" ;;
	*bash*) bash -n "$f" || say "$f: does not parse" ;;
	*) sh -n "$f" || say "$f: does not parse" ;;
	esac
	[ -x "$f" ] || case $(basename "$f") in functions.sh | *.inc.sh) ;; *) say "$f: not executable" ;; esac
done
# shellcheck disable=SC2086
found=$(grep -nE '[[:blank:]]+$|^(<<<<<<<|>>>>>>>)' $c $sh Makefile configure.ac /dev/null)
[ -z "$found" ] || say "$found"
# shellcheck disable=SC2086
found=$(grep -nwE '(strcpy|strcat|strtok|sprintf|vsprintf|gets|atoi)[[:blank:]]*\(' $c)
[ -z "$found" ] || say "$found"
exit $bad
