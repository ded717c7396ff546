#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kernels before Linux 6.6 map no file that is opened for direct I/O, and leave cached pages alone under
# direct writes. The fault point fuse.mmap keeps the mount from asking for what newer ones can: shared
# mappings are refused where handles are for direct I/O, and appends do not pass the page cache by.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
umount_all() {
	ok "$1: umount" "$t" umount "$mnt"
	ok "$1: umount the second" "$t" umount "$mnt2"
}
# mapped FILE HOW: what mmap(2) of its first page says, shared or private, of a handle that is opened so.
mapped() {
	python3 - "$1" "$2" "${3:-rw}" <<'P'
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDWR | (os.O_APPEND if sys.argv[3] == 'append' else 0))
p = libc.mmap(None, 4096, 3, 1 if sys.argv[2] == 'shared' else 2, fd, 0)
if p == ctypes.c_void_p(-1).value:
    print(errno.errorcode[ctypes.get_errno()])
else:
    print(ctypes.string_at(p, 3).decode())
P
}
new=$(printf '6.6\n%s\n' "$(uname -r)" | sort -V | head -n 1)
"$t" umount "$mnt" >/dev/null

for mode in strict commit; do
	for faults in '' ,faults=fuse.mmap=EIO; do
		ok "$mode: mount" "$t" mount "$fs" "$mnt" -o "mode=$mode$faults"
		head -c 8192 /dev/zero | tr '\0' x >"$mnt/f"
		want=xxx
		[ -z "$faults" ] && [ "$new" = 6.6 ] || want=ENODEV
		equal "$mode$faults: a shared mapping" "$want" "$(mapped "$mnt/f" shared)"
		equal "$mode$faults: a private one" xxx "$(mapped "$mnt/f" private)"
		printf '#!/bin/sh\necho ran\n' >"$mnt/script"
		cp "$(type -P echo)" "$mnt/prog"
		chmod 755 "$mnt/script" "$mnt/prog"
		equal "$mode$faults: programs are mapped privately" 'ran run' "$("$mnt/script") $("$mnt/prog" run)"
		[ -n "$faults" ] || "$t" umount "$mnt" >/dev/null
	done
	ok "$mode: a second mount" "$t" mount "$fs" "$mnt2" -o "mode=$mode,faults=fuse.mmap=EIO"
	# Everything else of the mode needs no mapping.
	python3 - "$mnt/g-$mode" "$mnt2/g-$mode" "$mode" >"$TESS_TMP/said" <<'P'
import os, sys
a = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND)
b = os.open(sys.argv[2], os.O_RDWR | os.O_APPEND)
want = b''
for i in range(200):
    fd, c = ((a, b'a'), (b, b'b'))[i % 2]
    d = c * (37 + i)
    os.write(fd, d)
    want += d
    if sys.argv[3] == 'commit':
        os.fsync(fd)
    for r in a, b:
        assert os.pread(r, 1 << 20, 0) == want, i
print('same')
P
	equal "$mode: appends and reads of both" same "$(cat "$TESS_TMP/said")"
	umount_all "$mode"
done

# Where the page cache is used, a handle that appends is as cached as any other: it can be mapped. One
# that passed it by could not, without that capability.
for faults in '' ,faults=fuse.mmap=EIO; do
	ok 'mount' "$t" mount "$fs" "$mnt" -o "mode=session$faults"
	equal "session$faults: a shared mapping of one that appends" xxx "$(mapped "$mnt/f" shared append)"
	[ -n "$faults" ] || "$t" umount "$mnt" >/dev/null
done
ok 'a second mount' "$t" mount "$fs" "$mnt2" -o faults=fuse.mmap=EIO

# Who read the page with the end before is never given the zeros behind it, nor keeps bytes at the place
# where the kernel thought that they went.
: >"$mnt/log"
python3 - "$mnt/log" "$mnt2/log" >"$TESS_TMP/said" <<'P'
import mmap, os, sys, time
here = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
there = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
old = os.open(sys.argv[1], os.O_RDONLY)
want, wrong = b'', 0
for i in range(60):
    os.pread(old, 1 << 20, 0)
    os.write(there, b't' * 33)
    want += b't' * 33
    os.fsync(there)
    os.pread(old, 1 << 20, 0)
    os.write(here, b'h' * 29)
    want += b'h' * 29
    for k in range(200):
        got = os.pread(old, 1 << 20, 0)
        if b'\0' in got:
            sys.exit('zeros in round %d' % i)
        if got == want:
            break
        wrong += 1
        time.sleep(0.01)
    else:
        sys.exit('round %d: %s' % (i, len(got)))
print('seen', 'late %d times' % wrong, file=sys.stderr)
print('seen')
P
equal 'appends in turn through the page cache' seen "$(cat "$TESS_TMP/said")"
umount_all session

# The litmus programs about appends, and, where the cache is used, about mappings, too.
while read -r mode filter; do
	ok "litmus: $mode $filter" env "TESS_TMP=$(mktemp -d "$TESS_TMP/XXXXXX")" RUNS="${RUNS:-3}" PLACES=c "MODES=$mode" \
		"MOUNT_AS=mode=$mode,faults=fuse.mmap=EIO" "FILTER=$filter" "$TESS_PROGS/semantics/check_litmus"
done <<'P'
strict append
commit append
session ap
P
finish
