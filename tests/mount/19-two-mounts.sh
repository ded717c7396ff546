#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two mounts of one file system: what one has closed the other sees when it opens.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
ok 'a second mount' "$t" mount "$fs" "$mnt2"
equal 'two daemons' 2 "$(daemons | wc -l)"
echo one >"$mnt/f"
equal 'closed here, opened there' one "$(cat "$mnt2/f")"
echo two! >"$mnt2/f"
equal 'and back' two! "$(cat "$mnt/f")"
# The same length and mtime: only the generation tells.
touch -d @1000000000 "$mnt/f"
cat "$mnt/f" >/dev/null
sleep 1.1
printf 'six!\n' >"$mnt2/f"
touch -d @1000000000 "$mnt2/f"
equal 'no stale pages' six! "$(cat "$mnt/f")"
for i in 1 2 3 4 5; do
	echo "$i$i$i" >"$mnt/g"
	equal "round $i" "$i$i$i" "$(cat "$mnt2/g")"
done
mkdir "$mnt/d"
for i in $(seq 50); do echo "$i" >"$mnt/d/$i"; done
equal 'listing' 50 "$(ls "$mnt2/d" | wc -l)"
rm -r "$mnt2/d"
sleep 1.1
fails 'gone' ls "$mnt/d"
# Disjoint writers of one file: both survive.
truncate -s 200000 "$mnt/s"
python3 - "$mnt/s" "$mnt2/s" <<'P'
import os, sys
a, b = (os.open(p, os.O_RDWR) for p in sys.argv[1:])
os.pwrite(a, b'a' * 100000, 0)
os.pwrite(b, b'b' * 100000, 100000)
os.close(a)
os.close(b)
P
equal 'both halves' "100000 100000" "$(python3 -c "
d = open('$mnt/s', 'rb').read()
print(d.count(b'a'), d.count(b'b'))")"
ok 'umount the second' "$t" umount "$mnt2"
equal 'the first serves on' 1 "$(daemons | wc -l)"
stop
