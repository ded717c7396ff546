#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A full target: who writes is told, staging takes nothing that could never be stored, and what is
# removed makes room again.
. tests/mount/functions.bash
MKFS_ARGS="-t kv:$TESS_TMP/kv?size=32M"
start
fill() { # PREFIX: how many small files were written and closed without an error
	python3 - "$mnt/$1" <<'P'
import errno, os, sys
n = 0
try:
    while n < 50000:
        with open(f'{sys.argv[1]}{n}', 'wb') as f:
            f.write(n.to_bytes(4, 'little') * 975)
        n += 1
except OSError as e:
    if e.errno != errno.ENOSPC:
        raise
print(n)
P
}
check() { # PREFIX N
	python3 - "$mnt/$1" "$2" <<'P'
import sys
for n in range(int(sys.argv[2])):
    with open(f'{sys.argv[1]}{n}', 'rb') as f:
        if f.read() != n.to_bytes(4, 'little') * 975:
            sys.exit(f'file {n} is wrong')
P
}
n=$(fill a)
ok "most of the device is used: $n files" test "$((n * 3900))" -gt $((14 << 20))
ok 'and not more than there is' test "$((n * 3900))" -lt $((32 << 20))
ok 'df says so' test "$(df --output=avail -k "$mnt" | tail -n 1)" -lt 8192
ok 'what was closed finds its place' "$t" flush "$mnt"
rm -f "$mnt"/a"$n"
ok 'and is right' check a "$n"
fails 'a large file' dd if=/dev/zero of="$mnt/large" bs=1M count=32 conv=fsync status=none
rm -f "$mnt/large"
ok 'names can be removed' rm -f "$mnt"/a*
more() { "$t" flush "$mnt" && m=$(fill b) && [ "$m" -gt $((n / 2)) ] && return 0; rm -f "$mnt"/b*; return 1; }
ok 'there is room again' wait_for 15 more
rm -f "$mnt/b$m"
ok 'for files that are right' check b "$m"
stop
