#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the kernel may keep, it keeps; and each write costs one request.
. tests/mount/functions.bash
start
reads() { stat_of fuse.read; }

# Requests that a command costs, at best: the kernel may take pages back at any time (memory
# pressure, DAMON), so one run proves nothing; a mount that drops them does so in every run.
best_reads() {
	local n before best=999999
	for _ in 1 2 3 4 5 6 7 8; do
		"$1"
		before=$(reads)
		cat "$mnt/f" >/dev/null
		n=$(($(reads) - before))
		[ "$n" -lt "$best" ] && best=$n
		[ "$best" -eq 0 ] && break
	done
	echo "$best"
}
again() { cat "$mnt/f" >/dev/null; }
own_write() {
	again
	stat "$mnt/f" >/dev/null
	printf changed | dd of="$mnt/f" bs=1 seek=500000 conv=notrunc status=none
	sleep 1.1
	stat "$mnt/f" >/dev/null
}
mode() { again; chmod 600 "$mnt/f"; }
# Somebody else, here flush, publishes an open file's bytes.
published() {
	again
	exec 3<>"$mnt/f"
	printf again >&3
	"$t" flush "$mnt"
	printf more >&3
	"$t" flush "$mnt"
	exec 3>&-
}
head -c 1000000 /dev/urandom >"$mnt/f"
equal 'a second read asks nothing' "$(best_reads again)" 0
equal 'an own write keeps the pages' "$(best_reads own_write)" 0
ok 'and is seen' test "$(dd if="$mnt/f" bs=1 skip=500000 count=7 status=none)" = changed
equal 'a chmod keeps them, too' "$(best_reads mode)" 0
equal 'and a publish behind the back of the writer' "$(best_reads published)" 0

# One request per write(2), none for capabilities.
x=$(stat_of fuse.getxattr) w=$(stat_of fuse.write)
dd if=/dev/zero of="$mnt/g" bs=4096 count=500 status=none
ok '500 writes' test "$(($(stat_of fuse.write) - w))" -le 505
ok 'no question before each' test "$(($(stat_of fuse.getxattr) - x))" -le 5
w=$(stat_of fuse.write)
dd if=/dev/zero of="$mnt/h" bs=1M count=4 status=none
ok 'a mebibyte is one request' test "$(($(stat_of fuse.write) - w))" -le 5

# A name that is not there is asked for once.
ls "$mnt/none" 2>/dev/null
n=$(stat_of fuse.lookup)
for _ in 1 2 3 4 5; do ls "$mnt/none" >/dev/null 2>&1; done
ok 'negative entries' test "$(($(stat_of fuse.lookup) - n))" -le 1
echo x >"$mnt/none"
ok 'until it is made' test -e "$mnt/none"

# A shared file of 47,008-byte records becomes whole segments, not pieces as the kernel cuts them.
python3 - "$mnt/rec" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for i in range(400): os.pwrite(fd, bytes([i % 256]) * 47008, i * 47008)
os.close(fd)
P
"$t" flush "$mnt"
n=$("$t" layout --json "$mnt/rec" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["extents"]))')
ok "400 records are few extents: $n" test "$n" -le 20
stop
