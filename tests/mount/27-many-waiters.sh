#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# More requests wait for a service that never answers than the daemon has threads for the kernel:
# the others do not notice, the log tells of those that wait and what for, and so do the stats.
# WAITERS: fsyncs and writes each, default 300.
. tests/mount/functions.bash
: "${WAITERS:=300}"
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
MKFS_ARGS="-t s3://bucket/hole?endpoint=http://127.0.0.1:$port&region=us-east-1&deadline=60s"
rules() { curl -s -X POST "http://127.0.0.1:$port/_control?$1" >/dev/null; }

"$t" mkfs "$fs" $MKFS_ARGS >"$TESS_TMP/out" 2>&1 || { cat "$TESS_TMP/out"; echo 'FAILED: mkfs'; exit 1; }
"$t" mount "$fs" "$mnt" -f -o fsync=target,cache-size=64M,hung-request=2s 2>"$TESS_TMP/log" &
daemon=$!
wait_for 10 mountpoint -q "$mnt"
mkdir "$mnt/d"
for i in $(seq 20); do echo "$i" >"$mnt/d/$i"; done
head -c 2000000 /dev/urandom >"$mnt/big"
ok 'flush' "$t" flush "$mnt"
ok 'umount' "$t" umount "$mnt"
wait "$daemon"
"$t" mount "$fs" "$mnt" -f -o fsync=target,cache-size=64M,hung-request=2s 2>"$TESS_TMP/log" &
daemon=$!
wait_for 10 mountpoint -q "$mnt"
rules 'rules=any:every=1:blackhole'

# WHAT: each thread writes a little and syncs it, or writes until it must wait for memory.
crowd() {
	exec python3 - "$mnt" "$1" "$WAITERS" <<'P'
import os, sys, threading
def one(i):
    fd = os.open('%s/%s%d' % (sys.argv[1], sys.argv[2], i), os.O_CREAT | os.O_WRONLY)
    try:
        if sys.argv[2] == 'sync':
            os.write(fd, b'x' * 100)
            os.fsync(fd)
        else:
            while True:
                os.write(fd, bytes(128 << 10))
    except OSError:
        pass
threading.stack_size(256 << 10)
for i in range(int(sys.argv[3])):
    threading.Thread(target=one, args=(i,), daemon=True).start()
import time
time.sleep(600)
P
}
quick() { # a second for each
	timeout 1 ls -l "$mnt/d" && timeout 1 stat "$mnt/big" "$mnt/d/7" && timeout 1 df "$mnt" &&
		timeout 1 mv "$mnt/d/1" "$mnt/d/one" && timeout 1 mv "$mnt/d/one" "$mnt/d/1"
}
always_quick() {
	local i
	for i in $(seq 10); do
		quick || return 1
		sleep 0.2
	done
}
inflight() {
	stat_of requests.inflight
	[ "$(stat_of requests.inflight)" -ge "$1" ]
}
dd if="$mnt/big" of=/dev/null bs=64k count=1 status=none & reader=$!
crowd sync & syncers=$!
ok "$WAITERS fsyncs wait" wait_for 30 inflight "$WAITERS"
ok 'names and attributes answer' always_quick
crowd write & writers=$!
ok 'and as many writes' wait_for 45 inflight $((WAITERS * 2))
ok 'names and attributes still answer' always_quick

ino=$(stat -c %i "$mnt/sync0")
told="fsync of inode $ino by uid $(id -u) pid [0-9]* takes [0-9.]* s so far: target s30, put of"
ok 'the log tells of a waiting fsync' wait_for 30 grep -q "$told" "$TESS_TMP/log"
read_ino=$(stat -c %i "$mnt/big")
ok 'and of a read' wait_for 30 grep -q "read of inode $read_ino .* so far: target s30, get of" "$TESS_TMP/log"
equal 'once' 1 "$(grep -c "fsync of inode $ino .* so far" "$TESS_TMP/log")"
ok 'they are counted' test "$(stat_of fuse.hung)" -gt 1
shows '^requests.oldest (fsync|read|write|flush) inode [0-9]+ uid .* age_s [0-9]' "$t" stats "$mnt"
json 'v["requests"]["inflight"] > 1 and v["requests"]["oldest"]["age_s"] > 2 and "target s30" in v["requests"]["oldest"]["waits_for"]' "$t" stats --json "$mnt"
shows 'target 0, s30:' "$t" stats --verbose "$mnt"

# Not at once: the log takes 50 lines a second of a kind, and those of the writers could be first.
kill -9 $syncers $reader
ok 'all of them can be killed' wait_for 10 gone $syncers
ok 'the log tells that they ended' wait_for 10 grep -q 'fsync of inode .* ended after' "$TESS_TMP/log"
kill -9 $writers
ok 'writers, too' wait_for 10 gone $writers
rules 'rules='
ok 'the rest finds its place' wait_for 60 "$t" flush "$mnt"
stop
