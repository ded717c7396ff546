#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A store that hardly answers holds up those who need it, and nobody else; the daemon still obeys.
. tests/mount/functions.bash
MKFS_ARGS="-t kv:$TESS_TMP/kv?size=256M&latency=1s"
start
head -c 1000000 /dev/urandom >"$TESS_TMP/data"
cp "$TESS_TMP/data" "$mnt/f"
echo small >"$mnt/small"
ok 'umount' "$t" umount "$mnt"
remount
cat "$mnt/f" >"$TESS_TMP/got" & reader=$!
sleep 0.2
ls -l "$mnt" >/dev/null
mkdir "$mnt/d"
echo new >"$mnt/d/new"
mv "$mnt/d/new" "$mnt/d/newer"
equal 'what was just written is read without the store' new "$(cat "$mnt/d/newer")"
df "$mnt" >/dev/null
fails 'all that before the reader had its bytes' gone $reader
wait $reader
ok 'and gets the right bytes' cmp "$TESS_TMP/data" "$TESS_TMP/got"
# execve(2) closes the script that is running, and until that is answered nobody may read the program's
# /proc/PID/stat: who answers least of all.
printf '#!/bin/bash\n/bin/echo ran\nexec /bin/true\n' >"$mnt/script"
chmod 755 "$mnt/script"
timeout -k 1 8 "$mnt/script" >"$TESS_TMP/ran" & script=$!
ok 'a script on the mount runs programs' wait_for 10 gone $script
ok 'and they did run' grep -qx ran "$TESS_TMP/ran"
# Waiting readers can be killed.
echo 3 2>/dev/null >/proc/sys/vm/drop_caches
cat "$mnt/small" >/dev/null & reader=$!
sleep 0.2
kill -9 $reader
ok 'a killed reader is gone' wait_for 2 gone $reader
ok 'umount' "$t" umount "$mnt"

# The second signal ends the daemon whatever the store does; what was closed is there afterwards.
"$t" mount "$fs" "$mnt" -f 2>"$TESS_TMP/log" & pid=$!
ok 'foreground' wait_for 8 mountpoint -q "$mnt"
cp "$TESS_TMP/data" "$mnt/g"
exec 5<"$mnt/g"
kill -TERM $pid
sleep 0.3
kill -TERM $pid
ok 'ends at once' wait_for 2 gone $pid
wait $pid
equal 'and says so' 1 $?
exec 5<&-
umount -l "$mnt" 2>/dev/null
remount
ok 'nothing that was closed is lost' cmp "$TESS_TMP/data" "$mnt/g"
stop
