#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mounting and unmounting: every way in, every way out, and what is refused.
. tests/mount/functions.bash
start
says 1 'mounted there already' "$t" mount "$fs" "$mnt"
says 1 'mount point .*none' "$t" mount "$fs" "$TESS_TMP/none"
touch "$TESS_TMP/file"
says 1 'not a directory' "$t" mount "$fs" "$TESS_TMP/file"
echo data >"$mnt/f"
(cd "$mnt" && sleep 30) & busy=$!
wait_for 2 test "$(readlink /proc/$busy/cwd)" = "$mnt"
says 1 busy "$t" umount "$mnt"
equal 'it still serves' data "$(cat "$mnt/f")"
kill $busy
wait $busy 2>/dev/null
ok 'umount' wait_for 5 "$t" umount "$mnt"
equal 'no daemon is left' '' "$(daemons)"

# Killed: the mount point is dead, and mounting again heals it.
remount
echo closed >"$mnt/closed"
kill -9 "$(daemons)"
wait_for 2 sh -c "! ls '$mnt'"
fails 'dead' ls "$mnt"
remount
equal 'what was closed is there' closed "$(cat "$mnt/closed")"
ok 'umount' "$t" umount "$mnt"

# umount of a dead mount
remount
kill -9 "$(daemons)"
wait_for 2 sh -c "! ls '$mnt'"
ok 'a dead mount can be unmounted' "$t" umount "$mnt"

# A plain umount(8), and fusermount3; the daemon ends by itself.
for how in umount 'fusermount3 -u'; do
	remount
	pid=$(daemons)
	echo "$how" >"$mnt/how"
	# shellcheck disable=SC2086
	ok "$how" $how "$mnt"
	ok "daemon ends after $how" wait_for 10 gone "$pid"
done

# In the foreground, as a service manager runs it: SIGTERM unmounts, everything is durable, exit 0.
"$t" mount "$fs" "$mnt" -f 2>"$TESS_TMP/log" & pid=$!
ok 'foreground' wait_for 5 mountpoint -q "$mnt"
echo term >"$mnt/term"
exec 5>"$mnt/open"
echo unfinished >&5
kill -HUP $pid
sleep 0.1
ok 'SIGHUP is nothing' mountpoint -q "$mnt"
kill -TERM $pid
wait $pid
equal 'exit after SIGTERM with a file open' 0 $?
exec 5>&-
fails 'unmounted' mountpoint -q "$mnt"
remount
equal 'closed bytes' term "$(cat "$mnt/term")"
equal 'bytes of the open file' unfinished "$(cat "$mnt/open")"
ok 'umount' "$t" umount "$mnt"
"$t" mount "$fs" "$mnt" -f 2>"$TESS_TMP/log" & pid=$!
ok 'foreground' wait_for 5 mountpoint -q "$mnt"
kill -INT $pid
wait $pid
equal 'exit after SIGINT' 0 $?

# Read-only.
ok 'ro' "$t" mount "$fs" "$mnt" -o ro
equal 'read' term "$(cat "$mnt/term")"
for c in 'touch new' 'rm term' 'mkdir d' 'mv term x' 'chmod 600 term' 'ln term y' 'sh -c echo>term'; do
	# shellcheck disable=SC2086
	fails "ro: $c" sh -c "cd '$mnt' && $c"
done
ok 'umount' "$t" umount "$mnt"

# As root's mount(8) does it.
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$TESS_TMP/bin"
	ln -sfn "$t" "$TESS_TMP/bin/mount.fuse.tessera"
	ok 'as a helper of mount(8)' "$TESS_TMP/bin/mount.fuse.tessera" "$fs" "$mnt" -o rw,noatime,nosuid
	ok 'nosuid is passed on' grep -q " $mnt fuse.tessera .*nosuid" /proc/self/mounts
	equal 'type and source' "$fs fuse.tessera" "$(awk -v m="$mnt" '$2 == m { print $1, $3 }' /proc/self/mounts)"
	ok 'umount' "$t" umount "$mnt"
fi
remount
stop
