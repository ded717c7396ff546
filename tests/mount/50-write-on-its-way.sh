#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A write that the daemon gets late, and pages that the kernel drops meanwhile: what a read brings back of
# the time before the write goes with it.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"

# try PROGRAM: prints what is wrong.
try() {
	timeout 60 python3 - "$mnt" "$mnt2" "$1" <<'P'
import fcntl, mmap, os, sys, threading, time
one, two, program = sys.argv[1:]
path = one + '/' + program
old, new, other = b'o' * 8192, b'n' * 8192, b'x' * 8192

def there(data):			# another mount writes, and closes
    fd = os.open(two + '/' + program, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, data, 0)
    os.close(fd)
    while program not in os.listdir(one):	# a lazy mount's name for nothing; asks for no size
        time.sleep(0.1)

def late(fn, *args):			# begun, and copied by the kernel; not with the daemon yet
    th = threading.Thread(target=fn, args=args)
    th.start()
    time.sleep(0.1)
    return th

def expect(what, got, want):
    if got != want:
        print(f'{what}: {len(got)} bytes {got[:1]}..{got[-1:]}, not {len(want)} of {want[:1]}..{want[-1:]}')

def reopened():				# by somebody who must see what the other mount did
    there(old)
    a = os.open(path, os.O_RDWR)
    os.pread(a, 8192, 0)
    there(other)
    w = late(os.pwrite, a, new, 0)
    c = os.open(path, os.O_RDONLY)
    os.pread(c, 8192, 0)
    w.join()
    expect('written, then read', os.pread(c, 8192, 0), new)
    expect('by the writer', os.pread(a, 8192, 0), new)
    with open(path, 'rb') as f:
        expect('by who opens then', f.read(), new)

def part():				# of a page
    there(old)
    a = os.open(path, os.O_RDWR)
    os.pread(a, 8192, 0)
    there(other)
    w = late(os.pwrite, a, b'n' * 100, 4000)
    c = os.open(path, os.O_RDONLY)
    os.pread(c, 8192, 0)
    w.join()
    expect('written, then read', os.pread(c, 8192, 0)[4000:4100], b'n' * 100)

def appended():				# behind somebody who reads along
    there(b'o' * 100)
    c = os.open(path, os.O_RDONLY)
    os.pread(c, 8192, 0)
    a = os.open(path, os.O_WRONLY | os.O_APPEND)
    for n in range(100, 400, 100):
        w = late(os.write, a, b'o' * 100)
        os.pread(c, 8192, 0)
        w.join()
        expect('appended, then read', os.pread(c, 8192, 0), b'o' * (n + 100))

def locked():				# a lock's holder sees what others did before it
    there(old)
    a = os.open(path, os.O_RDWR)
    os.pread(a, 8192, 0)
    c = os.open(path, os.O_RDWR)
    os.pread(c, 8192, 0)
    there(other)
    w = late(os.pwrite, a, new, 0)
    fcntl.lockf(c, fcntl.LOCK_SH, 100, 100000)
    os.pread(c, 8192, 0)
    w.join()
    expect('written, then read', os.pread(c, 8192, 0), new)

def told():				# by the change log, in a mode that looks now and then
    there(old)
    a = os.open(path, os.O_RDWR)
    os.pread(a, 8192, 0)
    c = os.open(path, os.O_RDONLY)
    os.pread(c, 8192, 0)
    w = late(os.pwrite, a, new, 0)
    there(other)
    time.sleep(0.15)
    os.pread(c, 8192, 0)
    w.join()
    expect('written, then read', os.pread(c, 8192, 0), new)

def quiet():				# a writer, and no drop that would still be looked out for
    there(old)
    a = os.open(path, os.O_RDWR)
    os.pread(a, 8192, 0)
    os.pwrite(a, old, 0)
    os.fsync(a)
    os.pread(a, 8192, 0)
    time.sleep(0.5)
    os.pwrite(a, old, 0)
    return a

def asked():				# how long the file is, of which another mount made more
    a = quiet()
    there(other + other)
    w = late(os.pwrite, a, new, 0)
    os.stat(path)
    os.pread(a, 8192, 0)
    w.join()
    expect('written, then read', os.pread(a, 8192, 0), new)

def mapped():				# by somebody who appends, past the page cache
    a = quiet()
    b = os.open(path, os.O_RDWR | os.O_APPEND)
    w = late(os.pwrite, a, new, 0)
    m = mmap.mmap(b, 8192, mmap.MAP_SHARED, mmap.PROT_READ)
    m[0], m[4096]
    w.join()
    expect('written, then mapped', m[:], new)
    expect('written, then read', os.pread(a, 8192, 0), new)

globals()[program]()
P
}
"$t" mkfs "$fs" >/dev/null
for mode in session lazy; do
	MOUNT_ARGS="-o mode=$mode,faults=fs.write=delay:400ms"
	remount
	ok 'a second mount' "$t" mount "$fs" "$mnt2" -o "mode=$mode"
	programs='reopened part appended locked asked mapped'
	[ $mode = session ] || programs+=' told'
	for program in $programs; do
		rm -f "$mnt/$program"
		equal "$mode, $program" '' "$(try "$program" 2>&1)"
	done
	ok 'umount' "$t" umount "$mnt2"
	[ $mode = lazy ] || ok 'umount' "$t" umount "$mnt"
done
stop
