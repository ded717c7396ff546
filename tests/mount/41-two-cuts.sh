#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A truncate, or a hole, of one mount and what another writes after it: the later one stays.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
cuts() {
	python3 - "$mnt" "$mnt2" <<'P'
import os, sys
a, b = sys.argv[1:]
FALLOC = 3  # PUNCH_HOLE | KEEP_SIZE
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def punch(f, off, n):
    if libc.fallocate(f, FALLOC, ctypes.c_long(off), ctypes.c_long(n)) < 0:
        raise OSError(ctypes.get_errno(), "fallocate")
def both(i, cut):
    p = '/f%d' % i
    with open(a + p, 'wb') as f:
        f.write(b'o' * 3000)
    f = os.open(a + p, os.O_RDWR | (os.O_TRUNC if cut == 'open' else 0))
    if cut == 'ftruncate':
        os.ftruncate(f, 0)
    elif cut == 'punch':
        punch(f, 0, 3000)
    g = os.open(b + p, os.O_RDWR)
    os.pwrite(g, b'B' * 1000, 1000)
    os.close(g)
    os.pwrite(f, b'A' * 1000, 0)
    os.close(f)
    want = b'A' * 1000 + b'B' * 1000 + (b'\0' * 1000 if cut == 'punch' else b'')
    return open(b + p, 'rb').read() == want and open(a + p, 'rb').read() == want
i = 0
for cut in 'open', 'ftruncate', 'punch':
    bad = 0
    for _ in range(30):
        bad += not both(i, cut)
        i += 1
    print(cut, bad)
P
}
# In strict what is allocated or punched is of the size that another mount has just cut to.
ranges() {
	python3 - "$mnt" "$mnt2" <<'P'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
KEEP, PUNCH, ZERO = 1, 2, 16
for mode, off, size, want in ((0, 100000, 100000, 200000), (ZERO, 100000, 100000, 200000),
                              (PUNCH | KEEP, 261000, 5000, 1000), (ZERO | KEEP, 261000, 5000, 1000)):
    a = os.open(sys.argv[1] + '/r', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    b = os.open(sys.argv[2] + '/r', os.O_RDWR)
    os.pwrite(a, b'x' * 262144, 0)
    os.fstat(b)
    os.ftruncate(a, 1000)
    r = libc.fallocate(b, mode, ctypes.c_long(off), ctypes.c_long(size))
    sizes = os.fstat(a).st_size, os.fstat(b).st_size
    os.close(a)
    os.close(b)
    if r or sizes != (want, want):
        print(mode, r, sizes, want)
P
}
for mode in session commit strict; do
	MOUNT_ARGS="-o mode=$mode"
	if [ $mode = session ]; then start; else remount; fi
	ok "$mode: a second mount" "$t" mount "$fs" "$mnt2" -o mode=$mode
	equal "$mode: later writes of the other stay" 'open 0 ftruncate 0 punch 0' "$(cuts | tr '\n' ' ' | sed 's/ $//')"
	[ $mode != strict ] || equal 'ranges' '' "$(ranges)"
	ok "$mode: umount" "$t" umount "$mnt2"
	[ $mode = strict ] || ok "$mode: umount" "$t" umount "$mnt"
done
# Alone the cut waits for the bytes; who joins must not lose what it writes to it.
"$t" umount "$mnt" >/dev/null 2>&1
MOUNT_ARGS='' remount
equal 'a cut from before the other joined' True "$(python3 - "$t" "$fs" "$mnt" "$mnt2" <<'P'
import os, subprocess, sys
t, fs, a, b = sys.argv[1:]
with open(a + '/j', 'wb') as f:
    f.write(b'o' * 3000)
f = os.open(a + '/j', os.O_RDWR | os.O_TRUNC)
subprocess.check_call([t, 'mount', fs, b])
g = os.open(b + '/j', os.O_RDWR)
os.pwrite(g, b'B' * 1000, 1000)
os.close(g)
os.pwrite(f, b'A' * 1000, 0)
os.close(f)
print(open(b + '/j', 'rb').read() == b'A' * 1000 + b'B' * 1000)
P
)"
ok 'umount' "$t" umount "$mnt2"
stop
