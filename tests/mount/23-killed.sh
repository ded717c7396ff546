#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who waits for a store that does not answer can be killed, and holds up nobody else. Every mount's
# first PUT is served, all others and each GET hang.
. tests/mount/functions.bash
MKFS_ARGS="-t kv:$TESS_TMP/kv?size=1G&latency=1ms&fault=put:from=2:delay=60s,get:from=1:delay=60s"
MOUNT_ARGS='-o cache-size=64M'
start
head -c 4194304 /dev/urandom >"$mnt/big"
mkdir "$mnt/d"
touch "$mnt/d/known"
ok 'umount' "$t" umount "$mnt"
remount
head -c 4194304 /dev/urandom >"$mnt/first"

dies() { # TEXT PID: it is blocked, and SIGKILL ends it
	sleep 0.5
	fails "$1 waits" gone "$2"
	kill -9 "$2"
	ok "$1 dies" wait_for 2 gone "$2"
}
cat "$mnt/big" >/dev/null &
dies 'a reader' $!
dd if="$mnt/big" of=/dev/null bs=4k count=1 skip=100 status=none &
dies 'a reader of one page' $!
dd if=/dev/zero of="$mnt/synced" bs=4M count=2 conv=fsync status=none &
dies 'one who syncs' $!
python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(fd, bytes(5 << 20))
os.close(fd)' "$mnt/closed" &
dies 'one who closes' $!
dd if=/dev/zero of="$mnt/many" bs=1M count=300 status=none &
dies 'a writer without memory' $!

# More of them than a daemon usually has threads; whoever needs no store does not notice.
pids=
for i in $(seq 60); do
	truncate -s 0 "$mnt/w$i"
	dd if=/dev/zero of="$mnt/w$i" bs=5M count=1 conv=fsync status=none 2>/dev/null &
	pids="$pids $!"
done
sleep 1
quick() { timeout 1 ls -l "$mnt/d" && timeout 1 stat "$mnt/d/known" && timeout 1 df "$mnt" && timeout 1 mv "$mnt/d/known" "$mnt/d/moved" && timeout 1 mv "$mnt/d/moved" "$mnt/d/known"; }
ok 'names and attributes answer' quick
# shellcheck disable=SC2086
kill -9 $pids
all_gone() { local p; for p in $pids; do gone "$p" || return 1; done; }
ok 'all of them die' wait_for 5 all_gone
ok 'and still' quick
d=$(daemons)
kill -TERM "$d"
sleep 0.3
kill -TERM "$d"
ok 'the daemon ends at the second signal' wait_for 5 gone "$d"
umount -l "$mnt" 2>/dev/null
finish
