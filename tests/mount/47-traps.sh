#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What other file systems over object stores fell into. Where each is tested, and here what has no better
# place. A name in brackets is a check in that file.
#
# fsync that means nothing		litmus write-fsync-*, powercut/env, unit/check_io_fault
# read xor write for each handle	posix_file, hpc/ior (one handle reads what it wrote)
# holes that become zeros		15-space, posix_file [sparse_files_say_where_data_is]; here: rewritten
# plain HTTP only			unit/check_http_tls
# stale data by default			litmus in mode session, semantics/check_barrier, hpc/mpi
# unlinked files that leak		31-two-unlinked, 20-crash
# wrong st_blocks, statfs, times	posix_file [fallocate_modes, statfs_is_believable], posix_attr, 15-space
# no links, flock, special files, ..	posix_name, posix_lock
# size before bytes: zeros elsewhere	litmus publish-whole grown, semantics/check_barrier
# an object for each small overwrite	unit/check_io_staging, 18-cache (large records); here: 11 bytes each
# gc that goes by age			cli-fsck (beside a writer; objects of who was killed go at once)
# gone from the cache before stored	unit/check_io_staging [a_failed_seal_loses_nothing…], 24-full
# rename is copy and delete		unit/check_meta_names, posix_name [rename_replaces_at_once], litmus rename-*
# the old gone before the new is safe	20-crash (config, log), 41-two-cuts
# a full disk loses data		fault/full, 24-full
# an error's XML as a file's bytes	store/check_faulthttp (ok-error), fault/httpdaemon, unit/check_s3_xml
# mkdir that others do not see		30-two-names, litmus mkdir-*
# a layout that the first byte freezes	here
# writes torn across objects		litmus publish-whole big-write, semantics/check_records
# a dead mount that nothing heals	16-mount
# processes that cannot be killed	22-slow-store, 23-killed, 25-black-hole, 27-many-waiters
# an unmount that drops writes		cli-failure, 16-mount (SIGTERM), 38-two-shutdown
# long reads that pin pages of LMDB	here: a listing that is not read to its end
# readers of LMDB that were killed	unit/check_env [the_readers_of_a_killed_process_are_reaped]
# LMDB's map when it grows		unit/check_env [the_map_grows_under_threads, a_map_that_grew_elsewhere…]
# LMDB without syncs, and a power cut	powercut/env, powercut/library
# a cluster that never answers, or is full	store/check_rados, 25-black-hole
. tests/mount/functions.bash
MOUNT_ARGS='-o commit-interval=200ms,seal-idle=100ms'
start
target() { # FIELD: of the target
	"$t" df "$mnt" --json | python3 -c "import json, sys; print(json.load(sys.stdin)['targets'][0]['$1'])"
}

echo '== an object for each small overwrite'
head -c 2000000 /dev/zero | tr '\0' o >"$mnt/db"
"$t" flush "$mnt"
before=$(target objects)
puts=$(stat_of store.kv0.put.ok)
cat >"$TESS_TMP/eleven.py" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for i in range(3000):
    os.pwrite(fd, b'%011d' % i, i * 7919 % 1999980)
os.close(fd)
P
python3 "$TESS_TMP/eleven.py" "$mnt/db"
"$t" flush "$mnt"
n=$(($(target objects) - before))
ok "3000 overwrites of 11 bytes: $n objects" test "$n" -le 5
n=$(($(stat_of store.kv0.put.ok) - puts))
ok "and $n puts" test "$n" -le 10
cp "$mnt/db" "$TESS_TMP/db"

echo '== holes that become zeros'
cat >"$TESS_TMP/holes.py" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for i in range(32):
    os.pwrite(fd, sys.argv[2].encode() * 4096, i << 16)
os.ftruncate(fd, 32 << 16)
os.close(fd)
P
used=$(target used)
for c in a b c d e; do
	python3 "$TESS_TMP/holes.py" "$mnt/holes" $c
	"$t" flush "$mnt"
done
cp --sparse=never "$mnt/holes" "$TESS_TMP/plain"
equal 'two mebibytes, of which an eighth was written' 2097152 "$(stat -c %s "$mnt/holes")"
ok "take that: $(stat -c %b "$mnt/holes") blocks" test "$(stat -c %b "$mnt/holes")" = 256
little() { [ $(($(target used) - used)) -le 400000 ]; }
ok 'on the target, too, rewritten five times' wait_for 10 little
equal 'and are told as holes' 32 "$(python3 -c "
import os
fd = os.open('$mnt/holes', os.O_RDONLY)
n, at = 0, 0
try:
    while True:
        at = os.lseek(fd, os.lseek(fd, at, os.SEEK_DATA), os.SEEK_HOLE)
        n += 1
except OSError:
    print(n)")"

echo '== a layout that the first byte freezes'
ok 'of a file that has bytes' "$t" setlayout "$mnt/db" -z 64k
json 'v["segment_size"] == 65536' "$t" layout --json "$mnt/db"
head -c 300000 /dev/zero | tr '\0' n >>"$mnt/db"
"$t" flush "$mnt"
json 'all(e["length"] <= 65536 for e in v["extents"] if e["offset"] >= 2000000)' "$t" layout --json "$mnt/db"
ok 'the old bytes are as they were' cmp -n 2000000 "$TESS_TMP/db" "$mnt/db"
equal 'the new ones too' 300000 "$(tail -c 300000 "$mnt/db" | tr -d -c n | wc -c)"

echo '== long reads that pin pages'
mkdir "$mnt/d" "$mnt/e"
python3 - "$mnt" "$fs/meta" >"$TESS_TMP/said" <<'P'
import os, sys
mnt, meta = sys.argv[1:]
for i in range(2000):
    open('%s/d/%d' % (mnt, i), 'w').close()
listing = os.scandir(mnt + '/d')
next(listing)
held = open(mnt + '/db', 'rb')
held.read(10)
def size():
    return sum(os.stat(os.path.join(d, f)).st_blocks * 512 for d, _, fs in os.walk(meta) for f in fs)
# What is freed is used again once a checkpoint is over; a page that a reader pins never is.
last = 0
for r in range(8):
    for i in range(1000):
        p = '%s/e/%d' % (mnt, i)
        open(p, 'w').close()
        os.unlink(p)
    grown, last = size() - last, size()
    if grown < 1000000:
        break
print(grown, last, len(list(listing)) + 1)
P
read -r grown last names <"$TESS_TMP/said"
ok "a thousand files made and removed once more take nothing while a listing stands still: $grown of $last" test "$grown" -lt 1000000
equal 'which then goes on' 2000 "$names"
ok 'umount' "$t" umount "$mnt"
remount
ok 'all of it as it was' cmp -n 2000000 "$TESS_TMP/db" "$mnt/db"
ok 'holes as well' cmp "$TESS_TMP/plain" "$mnt/holes"
stop
