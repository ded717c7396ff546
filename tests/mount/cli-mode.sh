#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tessera mode: what it lists, shows and refuses.
. tests/mount/functions.bash
json "[m['mode'] for m in v] == ['strict', 'commit', 'session', 'laminate', 'lazy', 'private'] and all(m['summary'] for m in v)" \
	"$t" mode list --json
shows '^session +close +fsync +open' "$t" mode list
equal 'a line each' 7 "$("$t" mode list | wc -l)"
says 2 'show or list' "$t" mode set
says 2 'mount point' "$t" mode show
says 2 'too many' "$t" mode list all
says 1 'not on a mounted' "$t" mode show "$TESS_TMP"
start
mkdir "$mnt/a"
echo x >"$mnt/a/f"
shows '^mode +session$' "$t" mode show "$mnt"
shows '^attr-time +1s$' "$t" mode show "$mnt"
shows '^shared +no$' "$t" mode show "$mnt"
shows '^path +/a/f$' "$t" mode show "$mnt" "$mnt/a/f"
# Anything on the mount means the mount.
shows '^mode +session$' "$t" mode show "$mnt/a/f"
says 1 'not on that mount|not on a mounted' "$t" mode show "$mnt" /
says 1 'No such file' "$t" mode show "$mnt" "$mnt/none"
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
ok 'another mount' "$t" mount "$fs" "$mnt2" -o mode=lazy,interval=400ms
is_shared() { "$t" mode show "$mnt" | grep -qE '^shared +yes$'; }
ok 'each knows of the other' wait_for 10 is_shared
shows '^attr-time +0s$' "$t" mode show "$mnt"
shows '^attr-time +100ms$' "$t" mode show "$mnt2"
says 1 'not on that mount' "$t" mode show "$mnt" "$mnt2/a"
ok 'umount' "$t" umount "$mnt2"
kill -9 "$(daemons)"
wait_for 5 test -z "$(daemons)"
says 1 'daemon is gone|no daemon' "$t" mode show "$mnt"
remount
stop
