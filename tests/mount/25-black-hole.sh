#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An S3 service that takes requests and never answers: the namespace goes on, what needs the service
# ends with ETIMEDOUT at the target's deadline, and the mount heals by itself.
# BLACK_HOLE: seconds that it lasts, default 12. DEADLINE: of a request, default 4.
. tests/mount/functions.bash
: "${BLACK_HOLE:=12}" "${DEADLINE:=4}"
server=$TESS_PROGS/servers/fakeobj
[ -x "$server" ] || { echo 'tests/servers/fakeobj is not built'; exit 77; }
command -v curl >/dev/null || { echo 'curl is not on the PATH'; exit 77; }
mkfifo "$TESS_TMP/quit"
"$server" -i <>"$TESS_TMP/quit" >"$TESS_TMP/port" &
server_pid=$!
trap 'end_daemon; kill $server_pid' EXIT
wait_for 5 test -s "$TESS_TMP/port" || exit 1
port=$(sed -n 's/^FAKEOBJ_PORT=//p' "$TESS_TMP/port")
export AWS_ACCESS_KEY_ID=AKIAFAKEOBJECTSERVER AWS_SECRET_ACCESS_KEY=fake+secret/KEY0of1the2object3server4xyz
: >"$TESS_TMP/none"
export AWS_CONFIG_FILE=$TESS_TMP/none AWS_SHARED_CREDENTIALS_FILE=$TESS_TMP/none no_proxy='*'
MKFS_ARGS="-t s3://bucket/hole?endpoint=http://127.0.0.1:$port&region=us-east-1&deadline=${DEADLINE}s"
rules() { curl -s -X POST "http://127.0.0.1:$port/_control?$1" >/dev/null; }

start
mkdir "$mnt/d"
for i in $(seq 50); do echo "$i" >"$mnt/d/$i"; done
head -c 12582912 /dev/urandom >"$TESS_TMP/data"
cp "$TESS_TMP/data" "$mnt/big"
ok 'umount' "$t" umount "$mnt"
remount
cp "$TESS_TMP/data" "$mnt/before"
"$t" flush "$mnt"
echo small >"$mnt/small"
rules 'rules=any:every=1:blackhole'
began=$SECONDS
slow=0
quick() { # a second for each
	timeout 1 ls -l "$mnt/d" && timeout 1 stat "$mnt/big" "$mnt/d/7" && timeout 1 df "$mnt" &&
		timeout 1 mv "$mnt/d/1" "$mnt/d/one" && timeout 1 mv "$mnt/d/one" "$mnt/d/1" &&
		timeout 1 mkdir "$mnt/d/new" && timeout 1 rmdir "$mnt/d/new"
}
# With that errno, by the deadline: of what the open waits for, the pages of another reader that it has the
# kernel drop, of the kernel's read-ahead, and of the one page it then asks for.
times_out() { # COMMAND…
	local at=$SECONDS
	if "$@" 2>"$TESS_TMP/err"; then
		echo "$* succeeded"
		return 1
	fi
	grep -qi 'timed out' "$TESS_TMP/err" && [ $((SECONDS - at)) -le $((DEADLINE * 4 + 4)) ] && return 0
	echo "after $((SECONDS - at)) s: $(cat "$TESS_TMP/err")"
	return 1
}
head -c 5000000 "$TESS_TMP/data" >"$mnt/during" 2>/dev/null &
cat "$mnt/big" >/dev/null 2>&1 &
ok 'a read times out' times_out dd if="$mnt/big" of=/dev/null bs=64k skip=100 count=1
ok 'an fsync times out' times_out dd if="$TESS_TMP/data" of="$mnt/synced" bs=1M conv=fsync
ok 'an fsync of a small file, too' times_out dd if=/dev/zero of="$mnt/tiny" bs=10 count=1 conv=fsync
cat "$mnt/big" >/dev/null 2>&1 & reader=$!
dd if=/dev/zero of="$mnt/killed" bs=5M count=1 conv=fsync 2>/dev/null & writer=$!
sleep 0.5
kill -9 $reader $writer
ok 'a reader can be killed' wait_for 2 gone $reader
ok 'a writer can be killed' wait_for 2 gone $writer
while [ $((SECONDS - began)) -lt "$BLACK_HOLE" ]; do
	quick >/dev/null 2>&1 || slow=$((slow + 1))
	sleep 0.5
done
equal 'names, attributes and df answered all the time' 0 $slow
equal 'what is staged is read' small "$(cat "$mnt/small")"

rules 'rules='
heals() { timeout 20 cmp "$TESS_TMP/data" "$mnt/big"; }
ok 'reads come back' wait_for 60 heals
ok 'writes, too' dd if="$TESS_TMP/data" of="$mnt/after" bs=1M conv=fsync status=none
ok 'and the small ones' dd if=/dev/zero of="$mnt/tiny2" bs=10 count=1 conv=fsync status=none
ok 'everything finds its place' wait_for 60 "$t" flush "$mnt"
ok 'umount' "$t" umount "$mnt"
remount
ok 'closed before the hole' cmp "$TESS_TMP/data" "$mnt/before"
ok 'written after it' cmp "$TESS_TMP/data" "$mnt/after"
equal 'small' small "$(cat "$mnt/small")"
stop
