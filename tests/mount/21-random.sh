#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random reads, writes, maps, holes, truncations and copies against an array; under each mapper.
. tests/mount/functions.bash
MKFS_ARGS='-z 64k'
start
for m in write-optimized balanced; do
	mkdir "$mnt/$m"
	ok "setlayout $m" "$t" setlayout "$mnt/$m" -m $m
	ok "random operations, $m" "$TESS_PROGS/mount/posix_fsx" "$mnt/$m" 4000
	cp "$mnt/$m"/fsx* "$TESS_TMP/"
	ok 'umount' "$t" umount "$mnt"
	remount
	ok "fsx0 after a remount, $m" cmp "$TESS_TMP/fsx0" "$mnt/$m/fsx0"
	ok "fsx1 after a remount, $m" cmp "$TESS_TMP/fsx1" "$mnt/$m/fsx1"
done
ok 'umount' "$t" umount "$mnt"
# Segments that died while they were sealed are gone, not forgotten.
fails 'an object that nothing knows' sh -c '"$1" fsck "$2" | grep "in no record"' - "$t" "$fs"
remount
stop
