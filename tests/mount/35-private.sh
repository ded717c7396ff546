#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A private mount: a tree that begins empty, that nobody else sees, and that leaves nothing behind.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
echo precious >"$mnt/precious"
ok 'umount' "$t" umount "$mnt"

MOUNT_ARGS='-o mode=private' remount
equal 'it is empty' '' "$(ls -A "$mnt")"
equal 'one tree' 1 "$(ls "$fs/private" | wc -l)"
echo mine >"$mnt/mine"
# Together with one that is not, and with another private one.
ok 'another mount' "$t" mount "$fs" "$mnt2"
equal 'which sees what is its own' precious "$(ls "$mnt2")"
ok 'umount' "$t" umount "$mnt2"
ok 'another private one' "$t" mount "$fs" "$mnt2" -o mode=private
equal 'sees nothing' '' "$(ls -A "$mnt2")"
equal 'two trees' 2 "$(ls "$fs/private" | wc -l)"
echo other >"$mnt2/mine"
equal 'nor does the first' mine "$(cat "$mnt/mine")"
ok 'umount it' "$t" umount "$mnt2"
equal 'one is left' 1 "$(ls "$fs/private" | wc -l)"
equal 'the first goes on' mine "$(cat "$mnt/mine")"
# Commands find it by its mount point.
shows '^mode +private' "$t" mode show "$mnt"
shows 'class S1' "$t" layout "$mnt/mine"
ok 'df' "$t" df "$mnt"
ok 'stats' "$t" stats "$mnt"
ok 'flush' "$t" flush "$mnt"

# ---- the kernel collects writes ----
json "v['kernel-writeback'] == 'on' and v['attr-time'] == 'unlimited'" "$t" mode show "$mnt" --json
before=$(stat_of fuse.write)
python3 - "$mnt/small" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for i in range(4000):
    os.pwrite(fd, b'%07d\n' % i, i * 8)
os.fsync(fd)
os.close(fd)
P
ok "4000 writes are few: $(($(stat_of fuse.write) - before))" test $(($(stat_of fuse.write) - before)) -lt 1000
equal 'and all there' 4000 "$(uniq "$mnt/small" | wc -l)"
# fsync sends the time first; whoever asks later sees the same.
ok 'times' python3 - "$mnt/times" <<'P'
import os, sys, time
p = sys.argv[1]
fd = os.open(p, os.O_RDWR | os.O_CREAT)
os.write(fd, b'x' * 10)
os.fsync(fd)
a = os.fstat(fd)
assert abs(a.st_mtime - time.time()) < 60 and a.st_size == 10
os.utime(p, (1000, 2000))
os.write(fd, b'y')
os.close(fd)
assert os.stat(p).st_mtime > 1e9 and os.stat(p).st_size == 11
os.utime(p, (1000, 2000))
os.truncate(p, 3)
assert os.stat(p).st_size == 3 and open(p, 'rb').read() == b'xxx'
fd = os.open(p, os.O_WRONLY | os.O_APPEND)
os.write(fd, b'z')
os.close(fd)
assert open(p, 'rb').read() == b'xxxz'
P
posix fsx
# A tree that is built: many small files, written and read at once.
mkdir "$mnt/build"
cp -r src/base include "$mnt/build"
ok 'compile' sh -c "cd '$mnt/build' && for f in base/*.c; do ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -I. -Iinclude -c \$f -o \$f.o || exit 1; done
	ar rcs lib.a base/*.o && ar t lib.a | wc -l"
ok 'all of it' test "$(ar t "$mnt/build/lib.a" | wc -l)" -gt 10
ok 'unchanged' diff -r src/base "$mnt/build/base" -x '*.o'
ok 'full sync' sync -f "$mnt"
ok 'umount' "$t" umount "$mnt"
equal 'nothing is left' '' "$(ls "$fs/private")"

# ---- bounds, and staging elsewhere ----
mkdir "$TESS_TMP/fast"
MOUNT_ARGS="-o mode=private,staging-size=64M,staging=$TESS_TMP/fast" remount
ok 'a directory of its own' test "$(ls "$TESS_TMP/fast" | wc -l)" = 1
fails 'no more than was asked for' dd if=/dev/zero "of=$mnt/big" bs=1M count=200 conv=fsync
rm -f "$mnt/big"
ok 'umount' "$t" umount "$mnt"
equal 'nor there' '' "$(ls "$TESS_TMP/fast"; ls "$fs/private")"

# ---- a killed one ----
MOUNT_ARGS="-o mode=private,staging=$TESS_TMP/fast" remount
head -c 3000000 /dev/urandom >"$mnt/lost"
pid=$(basename "$(ls "$fs"/private/*/run/*.sock)" .sock)
kill -9 "$pid"
wait_for 5 gone "$pid"
umount -l "$mnt"
equal 'its tree is there' 1 "$(ls "$fs/private" | wc -l)"
shows 'private trees of dead mounts: 1' "$t" gc "$fs"
equal 'looked at' 1 "$(ls "$fs/private" | wc -l)"
ok 'gc' "$t" gc "$fs" --delete
equal 'swept' '' "$(ls "$TESS_TMP/fast"; ls "$fs/private")"
MOUNT_ARGS='-o mode=private' remount
pid=$(basename "$(ls "$fs"/private/*/run/*.sock)" .sock)
kill -9 "$pid"
wait_for 5 gone "$pid"
umount -l "$mnt"
MOUNT_ARGS='' remount
equal 'or by the next mount' '' "$(ls "$fs/private")"
equal 'which has what it had' precious "$(ls "$mnt")"
stop
