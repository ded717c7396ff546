#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two mounts: what one does to names and attributes the other sees when the call has returned.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
# Alone, names live a second in the kernel; the second mount waits until those are over.
mkdir "$mnt/d" "$mnt/gone"
echo old >"$mnt/d/f"
fails 'not there yet' stat "$mnt/d/late"
stat "$mnt/d/f" "$mnt/gone" >/dev/null
ok 'a second mount' "$t" mount "$fs" "$mnt2"
touch "$mnt2/d/late"
ok 'a miss from when it was alone is over' test -e "$mnt/d/late"
rmdir "$mnt2/gone"
fails 'and a hit' test -e "$mnt/gone"

# Each round: $1 acts, $2 has looked before and looks again.
names() {
	local a=$1 b=$2
	fails 'absent' stat "$b/d/new"
	echo 1 >"$a/d/new"
	equal 'created' 1 "$(cat "$b/d/new")"
	echo 22 >"$a/d/tmp"
	stat "$b/d/tmp" >/dev/null
	mv "$a/d/tmp" "$a/d/new"
	equal 'renamed over' 22 "$(cat "$b/d/new")"
	fails 'the old name is gone' stat "$b/d/tmp"
	ln "$a/d/new" "$a/d/link"
	equal 'linked' 2 "$(stat -c %h "$b/d/new")"
	chmod 640 "$a/d/link"
	equal 'mode' 640 "$(stat -c %a "$b/d/new")"
	rm "$a/d/link"
	equal 'unlinked' 1 "$(stat -c %h "$b/d/new")"
	ln -s new "$a/d/sym"
	equal 'symlink' new "$(readlink "$b/d/sym")"
	rm "$a/d/sym" "$a/d/new"
	fails 'removed' stat "$b/d/new"
	mkdir "$a/d/sub"
	touch "$a/d/sub/x"
	equal 'listed' 'x' "$(ls "$b/d/sub")"
	mv "$a/d/sub" "$a/moved"
	ok 'a directory moved' test -e "$b/moved/x"
	fails 'from there' test -e "$b/d/sub/x"
	rm -r "$a/moved"
	fails 'and removed' ls "$b/moved"
}
for i in 1 2 3; do
	names "$mnt" "$mnt2"
	names "$mnt2" "$mnt"
done
# Quick turns, each of them one that a cached name would get wrong.
wrong=0
for i in $(seq "${TESS_TURNS:-100}"); do
	: >"$mnt/turn"
	[ -e "$mnt2/turn" ] || wrong=$((wrong + 1))
	rm "$mnt2/turn"
	[ ! -e "$mnt/turn" ] || wrong=$((wrong + 1))
done
equal 'no stale name in quick turns' 0 $wrong

# A mount with long times to live is told. The user's contract, so within moments, not at once.
ok 'umount' "$t" umount "$mnt2"
ok 'with long times to live' "$t" mount "$fs" "$mnt2" -o attr-time=1h,dentry-time=1h,dentry-dir-time=1h,ndentry-time=1h
echo 1 >"$mnt/long"
fails 'a miss' stat "$mnt2/soon"
stat "$mnt2/long" >/dev/null
touch "$mnt/soon"
chmod 600 "$mnt/long"
ok 'a name came' wait_for 5 test -e "$mnt2/soon"
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }
ok 'an attribute changed' wait_for 5 mode_is "$mnt2/long" 600
rm "$mnt/soon"
absent() { [ ! -e "$1" ]; }
ok 'a name went' wait_for 5 absent "$mnt2/soon"

ok 'umount the second' "$t" umount "$mnt2"
# Alone again: creates leave no notes, and the kernel may keep what it knows.
alone() { [ "$("$t" session list "$fs" | wc -l)" = 2 ]; }
ok 'one session' alone
stop
