#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the product takes for granted of the kernel and of libfuse. A kernel that behaves otherwise fails
# here, with the name of the fact, before it fails somewhere else with a name that says nothing.
#
# fact	here, and where what follows from it is tested
# K1	what the kernel collects comes in whole pages; 34-modes: only private mounts collect; 35-private
# K2	fsync of what was collected sends the time first; 35-private: times
# K3	a write through the cache comes in pieces; 18-cache: 400 records are few extents
# K4	a direct one in as few as its pages allow; litmus big-write, semantics/check_records
# K5	mappings are written back in whole pages; 46-old-kernel: shared ones that are ENODEV
# K6	what costs a request, and what does not; 18-cache: pages are kept; 19-two-mounts and litmus cp-p:
#	equal size and time hide nothing
# K7	one open has several flushes, and close does not wait for the release; litmus dup-close,
#	semantics/check_barrier: who opens after a close sees what was closed
# K8	libfuse has as many threads as it was told, and they stay
# K9	what the libfuse at hand has; 18-cache: nothing is asked before a write
# K10	who tells the kernel to forget pages waits for reads in flight; unit/check_watch: a kernel that waits
#	holds up no tail and no end
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
skipped=0
skip() { # TEXT
	skipped=$((skipped + 1))
	echo "SKIPPED: $1"
}
since() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; } # VERSION THIS-ONE
# A program in python, of $mnt/f; then what it cost: by how much these lines of `tessera stats` grew.
run() {
	"$t" stats "$mnt" >"$TESS_TMP/before"
	ok "$1" python3 -c "import mmap, os, sys
f = sys.argv[1]
$1" "$mnt/f"
	"$t" stats "$mnt" >"$TESS_TMP/after"
}
cost() {
	local n
	for n; do
		awk -v n="$n" '$1 == n { v[++i] = $2 == "n" ? $3 : $2 } END { print v[2] - v[1] }' \
			"$TESS_TMP/before" "$TESS_TMP/after"
	done | xargs
}
mounted() { # OPTIONS: with a file of 8 KiB
	ok "mount $1" "$t" mount "$fs" "$mnt" -o "$1"
	head -c 8192 /dev/zero | tr '\0' o >"$mnt/f"
}
umounted() { ok 'umount' "$t" umount "$mnt"; }
"$t" mkfs "$fs" >/dev/null || exit

mounted rw
umounted # cold pages
ok 'mount' "$t" mount "$fs" "$mnt" -o faults=fuse.writeback=EIO
run 'fd = os.open(f, os.O_RDWR); os.pwrite(fd, b"n" * 100, 50); os.fsync(fd)'
equal 'K1: collected: 100 bytes at 50 are a page that is read and written: reads, writes, bytes' '1 1 4096' \
	"$(cost fuse.read fuse.write io.write.bytes)"
run 'fd = os.open(f, os.O_RDWR); os.pwrite(fd, b"n" * 100, 4096); os.fsync(fd)'
equal 'K2: collected: fsync sends the time: setattrs, fsyncs' '1 1' "$(cost fuse.setattr fuse.fsync)"
umounted

mounted mode=session
run 'fd = os.open(f, os.O_RDWR); os.ftruncate(fd, 0); os.pwrite(fd, b"n" * 47008, 47008)'
equal 'K3: cached: 47,008 bytes at 47,008 are cut where the first page ends: writes, bytes' '2 47008' \
	"$(cost fuse.write io.write.bytes)"
run 'fd = os.open(f, os.O_RDWR)
with mmap.mmap(fd, 8192) as m:
	m[100] = 1
	m.flush()'
equal 'K5: one byte of a mapping: bytes' 4096 "$(cost io.write.bytes)"

# Shared, attributes and names have no time to live in the kernel.
ok 'another mount' "$t" mount "$fs" "$mnt2"
cat "$mnt/f" >/dev/null
run 'fd = os.open(f, os.O_RDONLY)
for i in range(50): os.pread(fd, 100, 100 * i)'
ok "K6: cached: 50 reads ask nothing: $(cost fuse.read fuse.getattr)" \
	test "$(cost fuse.read)" = 0 -a "$(cost fuse.getattr)" -le 5
run 'fd = os.open(f, os.O_RDONLY)
for i in range(50): os.pread(fd, 100, 94016 - 50)'
ok "K6: cached: what reaches over the end asks for it each time: $(cost fuse.read fuse.getattr)" \
	test "$(cost fuse.read)" = 0 -a "$(cost fuse.getattr)" -ge 50
run 'for i in range(50): os.stat(f)'
ok "K6: and so does each stat: $(cost fuse.getattr)" test "$(cost fuse.getattr)" -ge 50
ok 'umount' "$t" umount "$mnt2"
umounted

mounted mode=strict
run 'fd = os.open(f, os.O_RDWR); os.ftruncate(fd, 0); os.pwrite(fd, b"n" * 47008, 47008)'
equal 'K4: direct: 47,008 bytes are one write' '1 47008' "$(cost fuse.write io.write.bytes)"
run 'fd = os.open(f, os.O_RDWR); m = mmap.mmap(-1, 3 << 20); os.pwritev(fd, [memoryview(m)[:1 << 20]], 0)'
equal 'K4: direct: an aligned mebibyte is one' '1 1048576' "$(cost fuse.write io.write.bytes)"
run 'fd = os.open(f, os.O_RDWR); m = mmap.mmap(-1, 3 << 20); os.pwritev(fd, [memoryview(m)[48:48 + (1 << 20)]], 0)'
equal 'K4: direct: one that is not is two' '2 1048576' "$(cost fuse.write io.write.bytes)"
run 'fd = os.open(f, os.O_RDONLY)
for i in range(50): os.pread(fd, 100, 100 * i)'
ok "K6: direct: each read is one request: $(cost fuse.read fuse.getattr)" \
	test "$(cost fuse.read)" = 50 -a "$(cost fuse.getattr)" -le 5
if since 6.6 "$(uname -r)"; then
	run 'fd = os.open(f, os.O_RDWR)
with mmap.mmap(fd, 8192) as m:
	m[100] = 1
	m.flush()'
	equal 'K5: direct: one byte of a mapping: bytes' 4096 "$(cost io.write.bytes)"
else
	skip "K5: Linux $(uname -r) maps nothing that is opened for direct I/O: 46-old-kernel"
fi
run 'fd = os.open(f, os.O_RDWR)
for i in range(5): os.close(os.dup(fd))
os.close(fd)'
equal 'K7: five duplicates: opens, flushes' '1 6' "$(cost fuse.open fuse.flush)"
umounted

# A daemon that does not answer holds up a writer's close, which publishes, and not a reader's, of which
# only the release is told: what must be done when close returns is done by the flush.
stopped() { [ -z "$(grep -LE '^State:.*stopped' "/proc/$pid"/task/*/status)" ]; } # all threads of it
closes() { # FLAG: a program that opens $mnt/f so, and closes when told
	rm -f "$TESS_TMP/opened" "$TESS_TMP/closed"
	exec 5> >(exec python3 -c "import os, sys
fd = os.open('$mnt/f', os.$1)
open('$TESS_TMP/opened', 'w').close()
sys.stdin.readline()
os.close(fd)
open('$TESS_TMP/closed', 'w').close()")
	ok "K7: $1: open" wait_for 10 test -e "$TESS_TMP/opened"
	kill -STOP "$pid"
	ok "K7: $1: stopped" wait_for 10 stopped
	echo >&5
}
mounted rw
pid=$(daemons)
closes O_RDWR
fails 'K7: the close of a writer waits for the flush' wait_for 1 test -e "$TESS_TMP/closed"
kill -CONT "$pid"
ok 'K7: and comes back with it' wait_for 10 test -e "$TESS_TMP/closed"
exec 5>&-
if since 5.16 "$(uname -r)"; then
	before=$(stat_of fuse.release)
	closes O_RDONLY
	ok 'K7: the close of a reader waits for nothing' wait_for 10 test -e "$TESS_TMP/closed"
	kill -CONT "$pid"
	released() { [ "$(stat_of fuse.release)" -gt "$before" ]; }
	ok 'K7: the release comes later' wait_for 10 released
	exec 5>&-
else
	skip "K7: Linux $(uname -r) sends a flush for each close of a reader, too"
fi
umounted

# Threads that serve requests, and the one that started them.
serving() { grep -lE '^(tessera|fuse_worker.*)$' "/proc/$pid"/task/*/comm | sort; }
cat >"$TESS_TMP/burst.py" <<'P'
import os, sys, threading
def work(n):
    for i in range(300):
        os.path.exists('%s/none.%d.%d' % (sys.argv[1], n, i))
t = [threading.Thread(target=work, args=(n,)) for n in range(16)]
for x in t:
    x.start()
for x in t:
    x.join()
P
mounted threads=6
pid=$(daemons)
for _ in 1 2 3; do python3 "$TESS_TMP/burst.py" "$mnt"; done
serving >"$TESS_TMP/threads"
n=$(wc -l <"$TESS_TMP/threads")
ok "K8: several threads, and no more than were asked for: $n" test "$n" -gt 2 -a "$n" -le 7
sleep 0.5
python3 "$TESS_TMP/burst.py" "$mnt"
serving >"$TESS_TMP/threads2"
equal 'K8: none of them was ended for having nothing to do' '' "$(comm -23 "$TESS_TMP/threads" "$TESS_TMP/threads2")"
umounted

said=$("$t" --version)
lib=$(sed -n 's/.*libfuse \([0-9]*\.[0-9]*\).*/\1/p' <<<"$said" | head -n 1)
ok "K9: it says which libfuse it was built with: $lib" test -n "$lib"
has() { # NAME VERSION: from this libfuse on it is said to be there, before it not to be
	if since "$2" "$lib"; then
		ok "K9: $1" grep -qE ", $1" <<<"$said"
	else
		ok "K9: no $1" grep -q "no $1" <<<"$said"
		skip "K9: $1: this program was built with libfuse $lib, which has none"
	fi
}
has 'parallel direct writes' 3.15
has io_uring 3.18

# A read that the store holds up has its page locked, and who tells the kernel to forget that page waits
# for it. So it may hold nothing that another request wants, nor be one itself.
rm -rf "$fs"
"$t" mkfs "$fs" -t "kv:$TESS_TMP/kv?size=64M&fault=get:nth=1:delay=3s" >/dev/null || exit
mounted rw
umounted
ok 'a mount that keeps pages' "$t" mount "$fs" "$mnt" -o nocto,actimeo=1h,data-cache=on
pid=$(daemons)
ok 'another one' "$t" mount "$fs" "$mnt2"
notify=$(grep -lx notify "/proc/$pid"/task/*/comm)
held_up() { [ "$(awk '{ print $3 }' "${notify%/comm}/stat")" = D ]; }
free() { ! held_up; }
cat "$mnt/f" >"$TESS_TMP/got" & reader=$!
sleep 0.2
printf new | dd of="$mnt2/f" bs=1 seek=5000 conv=notrunc status=none
ok 'K10: who tells of a page that is being read waits for the read' wait_for 1 held_up
echo x >"$mnt/new"
mv "$mnt/new" "$mnt/newer"
equal 'K10: others are served' 8192 "$(stat -c %s "$mnt/f")"
fails 'K10: all that before the reader had its bytes' gone "$reader"
ok 'K10: and while it waited' held_up
wait "$reader"
equal 'K10: the reader has them' 8192 "$(wc -c <"$TESS_TMP/got")"
ok 'K10: then it goes on' wait_for 5 free
seen() { [ "$(dd if="$mnt/f" bs=1 skip=5000 count=3 status=none)" = new ]; }
ok 'K10: and the page is a new one' wait_for 5 seen
ok 'umount the second' "$t" umount "$mnt2"
umounted
ok 'fsck' "$t" fsck "$fs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
