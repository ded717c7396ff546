#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount with long times to live sees what another did when it is told to forget.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
mkdir -p "$mnt/d/e"
echo old >"$mnt/d/e/f"
echo gone >"$mnt/d/gone"
ok 'a second mount' "$t" mount "$fs" "$mnt2" -o nocto,actimeo=1h,ndentry-time=1h
# The names, a name that is not there, and pages.
look() { cat "$mnt2/d/e/f"; stat -c %s "$mnt2/d/e/f"; ls "$mnt2/d/new" "$mnt2/d/gone" >/dev/null 2>&1; echo $?; }
equal 'as it was' "old 4 2" "$(look | tr '\n' ' ' | sed 's/ $//')"
rm "$mnt/d/gone"
echo newer >"$mnt/d/e/tmp"
mv "$mnt/d/e/tmp" "$mnt/d/e/f"
echo x >"$mnt/d/new"
ok 'invalidate' "$t" invalidate "$mnt2/d"
equal 'a file that was replaced' newer "$(cat "$mnt2/d/e/f")"
equal 'its size' 6 "$(stat -c %s "$mnt2/d/e/f")"
ok 'a name that was not there' test -e "$mnt2/d/new"
fails 'a name that is gone' test -e "$mnt2/d/gone"
echo newest >"$mnt/d/e/tmp"
mv "$mnt/d/e/tmp" "$mnt/d/e/f"
ok 'a file alone' "$t" invalidate "$mnt2/d/e/f"
equal 'that was replaced' newest "$(cat "$mnt2/d/e/f")"
rm "$mnt/d/e/f"
ok 'one that is gone' "$t" invalidate "$mnt2/d/e/f"
fails 'is gone' test -e "$mnt2/d/e/f"
# Here it is not there for an hour.
echo again >"$mnt/d/e/f"
ok 'one that is there again' "$t" invalidate "$mnt2/d/e/f"
equal 'is' again "$(cat "$mnt2/d/e/f")"
fails 'what is in no directory' "$t" invalidate "$mnt2/none/f"
fails 'what is on no mount' "$t" invalidate /proc
ok 'umount the second' "$t" umount "$mnt2"
stop
