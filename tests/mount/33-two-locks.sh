#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Locks between two mounts; of holders that are killed, stopped or in a hurry.
# LOCK_COUNT: how often each of 8 processes counts (100); LOCK_TELL=1 shows latencies.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
both() { # OPTIONS…: mounts it twice, the first one with the daemon $one
	MOUNT_ARGS=$*
	remount
	one=$(daemons)
	# shellcheck disable=SC2086
	ok 'a second mount' "$t" mount "$fs" "$mnt2" $MOUNT_ARGS
	two=$(daemons | grep -vx "$one")
}
neither() {
	ok 'umount' "$t" umount "$mnt"
	ok 'umount the second' "$t" umount "$mnt2"
}
taken() { # FILE: somebody else has its flock
	flock -n "$1" true
	[ $? = 1 ]
}
ms() { echo $(($(date +%s%N) / 1000000)); }

start
echo == as on any file system, by one mount
posix lock
ok 'umount' "$t" umount "$mnt"

both
echo == and by two
export POSIX_OTHER=$mnt2/posix_lock
posix lock

echo == a program that is killed
echo x >"$mnt/f"
flock -F -x "$mnt/f" sleep 1000 &
pid=$!
ok 'it is taken' wait_for 5 taken "$mnt2/f"
kill -9 $pid
wait $pid 2>/dev/null
ok 'free after its death' flock -w 5 "$mnt2/f" true

if python3 -c 'import sqlite3' 2>/dev/null; then
	echo == sqlite, from both
	python3 - "$mnt/db" "$mnt2/db" >"$TESS_TMP/out" 2>&1 <<'P'
import os, sqlite3, sys
n = int(os.environ.get('LOCK_ROWS', '25'))
def use(path, who):
    c = sqlite3.connect(path, timeout=60, isolation_level=None)
    for i in range(n):
        c.execute('BEGIN IMMEDIATE')
        k = c.execute('SELECT count(*) FROM t').fetchone()[0]
        c.execute('INSERT INTO t VALUES (?, ?)', (k, who))
        c.execute('COMMIT')
    c.close()
c = sqlite3.connect(sys.argv[1])
c.execute('CREATE TABLE t (k INTEGER PRIMARY KEY, who TEXT)')
c.commit()
c.close()
pids = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        use(sys.argv[1 + i % 2], str(i))
        os._exit(0)
    pids.append(pid)
ends = [os.waitpid(p, 0)[1] for p in pids]
c = sqlite3.connect(sys.argv[2])
rows = [r[0] for r in c.execute('SELECT k FROM t ORDER BY k')]
print(ends == [0] * 4 and rows == list(range(4 * n)) and
      c.execute('PRAGMA integrity_check').fetchone()[0])
P
	equal 'every row of four writers' ok "$(cat "$TESS_TMP/out")"
fi

echo == a daemon that is killed
flock -F -x "$mnt2/f" sleep 1000 &
pid=$!
ok 'it is taken' wait_for 5 taken "$mnt/f"
flock -w 60 -x "$mnt/f" date +%s%N >"$TESS_TMP/had" &
waiter=$!
sleep 0.2
at=$(ms)
kill -9 "$two"
wait $waiter
took=$(($(cat "$TESS_TMP/had") / 1000000 - at))
echo "free $took ms after its holder's daemon was killed"
ok 'within seconds' test $took -lt 5000
umount -l "$mnt2"
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
ok 'umount' "$t" umount "$mnt"
ok 'fsck' "$t" fsck "$fs"

echo == a daemon that is stopped for longer than its lease
both -o lease=2s
python3 - "$mnt2/f" "$TESS_TMP/go" >"$TESS_TMP/late" 2>&1 <<'P' &
import errno, fcntl, os, sys, time
f = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(f, fcntl.LOCK_EX)
open(sys.argv[2], 'w').close()
while os.path.exists(sys.argv[2]):
    time.sleep(0.05)
try:
    os.pwrite(f, b'late', 0)
    os.fsync(f)
    print('written')
except OSError as e:
    print(errno.errorcode[e.errno])
P
late=$!
ok 'it is taken' wait_for 10 test -e "$TESS_TMP/go"
kill -STOP "$two"
at=$(ms)
ok 'ours after its lease' timeout 30 python3 -c "
import fcntl, os
f = os.open('$mnt/f', os.O_RDWR)
fcntl.lockf(f, fcntl.LOCK_EX)
os.pwrite(f, b'mine', 0)"
echo "ours $(($(ms) - at)) ms after its holder's daemon was stopped"
kill -CONT "$two"
rm "$TESS_TMP/go"
wait $late
equal 'and no longer that of the one that was stopped' ESTALE "$(cat "$TESS_TMP/late")"
equal 'whose bytes are nowhere' mine "$(head -c 4 "$mnt/f")"
"$t" umount "$mnt2" >/dev/null 2>&1 || umount -l "$mnt2" 2>/dev/null
wait_for 10 gone "$two" || kill -9 "$two"
ok 'umount' "$t" umount "$mnt"

echo == locks that are only this mount\'s, or nobody\'s
both -o locks=local
exec 7<>"$mnt/f" 8<>"$mnt/f" 9<>"$mnt2/f"
ok 'taken here' flock -n 7
fails 'and so by nobody else here' flock -n 8
ok 'and there' flock -n 9
exec 7<&- 8<&- 9<&-
neither
both -o locks=off
equal 'no flock, no range' 'ENOLCK ENOLCK' "$(echo $(python3 - "$mnt/f" <<'P'
import errno, fcntl, sys
f = open(sys.argv[1], 'r+')
for lock in fcntl.flock, fcntl.lockf:
    try:
        lock(f, fcntl.LOCK_EX)
    except OSError as e:
        print(errno.errorcode[e.errno])
P
))"
neither

echo == what close gave back, at once, though the kernel tells of it late
MOUNT_ARGS='-o faults=fs.lock.release=delay:20ms'
remount
ok 'some lock before' flock "$mnt/f" true
# The kernel tells of no close of what was opened before anybody locked: when that one is gone.
ok 'gone' flock -w 5 "$mnt/f" true
sleep 0.2
equal 'flock and an open file description' '20 20' "$(echo $(python3 - "$mnt/f" <<'P'
import fcntl, os, struct, sys
whole = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
def flock(f):
    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
def ofd(f):
    fcntl.fcntl(f, 37, whole)  # F_OFD_SETLK
for lock in flock, ofd:
    had = 0
    for i in range(20):
        f = os.open(sys.argv[1], os.O_RDWR)
        try:
            lock(f)
            had += 1
        except OSError:
            pass
        os.close(f)
    print(had)
P
))"
exec 7<>"$mnt/f"
ok 'held' flock -n 7
exec 8<>"$mnt/f"
fails 'is held' flock -n 8
exec 7<&- 8<&-
stop
