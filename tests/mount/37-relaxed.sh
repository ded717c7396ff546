#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# meta=relaxed: what it leaves out, that it leaves out no more, and that it asks less.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2" "$TESS_TMP/none"
MOUNT_ARGS='-o meta=relaxed'
start
ok 'a second mount' "$t" mount "$fs" "$mnt2" -o meta=strict
says 1 strict "$t" mount "$fs" "$TESS_TMP/none" -o mode=strict,meta=relaxed

# A directory's times are late by a second at most; its links are exact
mtime() { stat -c %.Y "$1"; }
late() { # DIR SINCE: its mtime is within a second before SINCE, or after it
	python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > float(sys.argv[2]) - 1.02)' "$(mtime "$1")" "$2"
}
mkdir "$mnt/d"
first=$(mtime "$mnt/d")
touch "$mnt/d/1" "$mnt/d/2" "$mnt/d/3"
ok 'late by no more than a second' late "$mnt2/d" "$(date +%s.%N)"
sleep 1.1
touch "$mnt/d/4"
fails 'but not for long' test "$first" = "$(mtime "$mnt2/d")"
ok 'right within a second' late "$mnt2/d" "$(date +%s.%N)"
mkdir "$mnt/d/s" "$mnt/d/t"
rmdir "$mnt/d/t"
equal 'links are exact' 3 "$(stat -c %h "$mnt2/d")"
ctime=$(stat -c %.Z "$mnt/d/1")
mv "$mnt/d/1" "$mnt/d/5"
equal 'a rename in place keeps the ctime' "$ctime" "$(stat -c %.Z "$mnt2/d/5")"
mv "$mnt/d/5" "$mnt/d/s/5"
fails 'one to elsewhere does not' test "$ctime" = "$(stat -c %.Z "$mnt2/d/s/5")"

# Names may be old; data is not
echo one >"$mnt2/d/f"
wait_for 3 test -e "$mnt/d/f"
equal 'a new name, within a second' one "$(cat "$mnt/d/f")"
echo longer >"$mnt2/d/f"
equal 'size and content at the next open' longer "$(cat "$mnt/d/f")"
echo other >"$mnt2/d/g"
mv "$mnt2/d/g" "$mnt2/d/f"
equal 'what took its place' other "$(cat "$mnt/d/f")"
rm "$mnt2/d/f"
fails 'what is gone' cat "$mnt/d/f"
touch "$mnt/d/mine"
ok 'our own names are others'"'"' at once' test -e "$mnt2/d/mine"
rm "$mnt/d/mine"
ok 'and gone at once' test ! -e "$mnt2/d/mine"

# It asks less: each of the paths has four parts
mkdir -p "$mnt/a/b/c"
touch "$mnt/a/b/c/f"
asks() { # MOUNTPOINT: lookups of 200 looks at a path
	local before
	before=$("$t" stats "$1" | awk '$1 == "fuse.lookup" { print $3 }')
	python3 -c 'import os, sys
for i in range(200): os.stat(sys.argv[1])' "$1/a/b/c/f"
	echo $(($("$t" stats "$1" | awk '$1 == "fuse.lookup" { print $3 }') - before))
}
ok 'strict asks for every part' test "$(asks "$mnt2")" -ge 800
ok 'relaxed for hardly any' test "$(asks "$mnt")" -le 80
ok 'umount the second' "$t" umount "$mnt2"
for i in $(seq 500); do : >"$mnt/d/n$i"; done
rm -r "$mnt/d"
stop
