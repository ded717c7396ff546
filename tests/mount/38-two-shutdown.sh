#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount ends while it tells its kernel to forget pages that a slow read holds: it answers the read, and goes.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
MKFS_ARGS="-t kv:$TESS_TMP/kv?size=256M&latency=400ms"
start
head -c 3000000 /dev/urandom >"$TESS_TMP/data"
for how in term lazy; do
	cp "$TESS_TMP/data" "$mnt/f"
	"$t" flush "$mnt"
	ok 'a lazy mount' "$t" mount "$fs" "$mnt2" -o mode=lazy,interval=1h
	pid=$("$t" session list "$fs" | awk -v m="$mnt2" '$5 == m { print $2 }')
	# Pages that wait for the store are locked; a change elsewhere makes the kernel forget them.
	cat "$mnt2/f" >"$TESS_TMP/got" 2>/dev/null & reader=$!
	for i in 1 2 3 4; do
		sleep 0.1
		printf x | dd of="$mnt/f" bs=1 seek=$((i * 600000)) conv=notrunc 2>/dev/null
	done
	case $how in
	term) kill "$pid" ;;
	lazy) ok 'detached' umount -l "$mnt2" ;;
	esac
	ok "the daemon ends ($how)" wait_for 30 gone "$pid"
	ok "the reader, too ($how)" wait_for 10 gone "$reader"
	wait $reader 2>/dev/null
	mountpoint -q "$mnt2" && umount -l "$mnt2"
done
stop
