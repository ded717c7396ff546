#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mode laminate: one mount's until it is laminated; everybody's, immutable and cached for ever then.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
MOUNT_ARGS='-o mode=laminate'
: "${LAMINATE_FILES:=1000}"
errno_of() { # COMMAND…: its last word on stderr
	LC_ALL=C "$@" 2>&1 >/dev/null | sed 's/.*: //' | tail -n 1
}
# Transactions, but for those of statfs(2): find(1) asks what kind of file system it is on.
reads() { "$t" stats "$fs" | awk '$1 == "kv.reads" { n += $2 } $1 == "fuse.statfs" { n -= $3 } END { print n }'; }
start
ok 'a second mount' "$t" mount "$fs" "$mnt2"

# Private
echo hello >"$mnt/f"
equal 'the writer reads it' hello "$(cat "$mnt/f")"
equal 'others see its name, empty' '0 0' "$(stat -c '%s %b' "$mnt2/f")"
equal 'and read nothing' '' "$(cat "$mnt2/f")"
equal 'nor by a listing' 0 "$(ls -l "$mnt2" | awk '/ f$/ { print $5 }')"
equal 'no writing for others' 'Device or resource busy' "$(errno_of tee "$mnt2/f" </dev/null)"
equal 'no cutting' 'Device or resource busy' "$(errno_of truncate -s 1 "$mnt2/f")"
equal 'no laminating' 'another mount is still writing it' "$(errno_of "$t" laminate "$mnt2/f")"
ok 'it is synced' sync "$mnt/f"
equal 'and still private' 0 "$(stat -c %s "$mnt2/f")"
exec 6>>"$mnt/f"
echo more >&6
exec 7<"$mnt2/f"
equal 'who has it open reads nothing, too' '' "$(cat <&7)"
ok 'chmod a-w laminates' chmod a-w "$mnt/f"
equal 'and all of it once it is laminated' 'hello more' "$(tr '\n' ' ' <&7 | sed 's/ $//')"
exec 7<&-
equal 'with what was not closed' 'hello more' "$(tr '\n' ' ' <"$mnt2/f" | sed 's/ $//')"
fails 'a writer that is left is refused' sh -c 'echo x >&6'
exec 6>&-
for m in "$mnt" "$mnt2"; do
	for c in "tee $m/f" "truncate -s 1 $m/f" "fallocate -l 1M $m/f" "dd if=/dev/zero of=$m/f conv=notrunc count=1" \
		"touch $m/f" "chmod 644 $m/f" "chown 1 $m/f" "setfattr -n user.a -v b $m/f"; do
		# shellcheck disable=SC2086
		equal "$c" 'Operation not permitted' "$(errno_of $c </dev/null)"
	done
done
equal 'unharmed' 'hello' "$(head -n 1 "$mnt/f")"
ok 'renamed' mv "$mnt2/f" "$mnt2/g"
ok 'linked' ln "$mnt/g" "$mnt/h"
equal 'two links' '2 2' "$(stat -c %h "$mnt/g" "$mnt2/h" | xargs)"
ok 'removed' rm "$mnt/g"
equal 'one link' '1 1' "$(stat -c %h "$mnt/h" "$mnt2/h" | xargs)"
equal 'shown' "laminated $mnt/h" "$("$t" laminate --show "$mnt/h")"
ok 'undone by the other' "$t" laminate --undo "$mnt2/h"
ok 'writable' sh -c "chmod 644 $mnt2/h && echo new >$mnt2/h"
equal 'and seen' new "$(cat "$mnt/h")"
: >"$mnt/mine"
chmod 666 "$mnt/mine"
chmod 755 "$mnt"
if [ "$(id -u)" = 0 ]; then
	equal 'only the owner' 'EPERM' "$(cd "$mnt" && python3 -c '
import errno, os
os.setuid(65534)
try:
	os.setxattr("mine", "tessera.laminated", b"1")
except OSError as e:
	print(errno.errorcode[e.errno])')"
fi

# Files that were there before are everybody's
echo old >"$mnt2/before"
echo newer >"$mnt/before"
equal 'as in mode session' newer "$(cat "$mnt2/before")"

# A tree
mkdir "$mnt/tree"
for d in $(seq 10); do
	mkdir "$mnt/tree/$d"
	for i in $(seq $((LAMINATE_FILES / 10))); do echo "$d $i" >"$mnt/tree/$d/$i"; done
done
ln -s 1/1 "$mnt/tree/link"
ok 'a tree' "$t" laminate -r "$mnt/tree"
for c in "touch $mnt2/tree/new" "rm $mnt2/tree/1/1" "mv $mnt/tree/1/1 $mnt/tree/1/x" "mv $mnt/tree/1/1 $mnt/x" \
	"mv $mnt/h $mnt/tree/h" "ln $mnt2/h $mnt2/tree/h" "rmdir $mnt/tree/1" "mkdir $mnt/tree/n" "chmod 700 $mnt2/tree"; do
	# shellcheck disable=SC2086
	equal "$c" 'Operation not permitted' "$(errno_of $c)"
done
# The way to the tree is nobody's promise: from inside of it. Two figures: what was asked, the sum.
look() {
	(
		cd "$mnt2/tree" || exit
		before=$(reads)
		find . -ls >"$TESS_TMP/ls.$1"
		sum=$(find . -type f | sort | xargs cat | md5sum)
		echo "$(($(reads) - before)) $sum"
	)
}
sum=$(cd "$mnt/tree" && find . -type f | sort | xargs cat | md5sum)
"$t" umount "$mnt"
first=$(look 1)
equal 'the other reads the same' "$sum" "${first#* }"
ok 'asked at first' test "${first%% *}" -ge "$LAMINATE_FILES"
# Beats and clean-up read, too; not in each second.
for i in 1 2 3 4 5; do
	second=$(look 2)
	[ "${second%% *}" -ne 0 ] || break
	sleep 0.5
done
equal 'the second time the namespace is not asked' "0 $sum" "$second"
ok 'and nothing else is told' cmp "$TESS_TMP/ls.1" "$TESS_TMP/ls.2"
remount
ls -l "$mnt2/tree" "$mnt2/tree/1" >/dev/null
fails 'not there' test -e "$mnt2/tree/nothing"
ok 'a tree undone' "$t" laminate -r --undo "$mnt/tree"
rm "$mnt/tree/1/1"
echo there >"$mnt/tree/nothing"
ok 'everybody is to see it' chmod a-w "$mnt/tree/nothing"
echo changed >"$mnt/tree/1/2"
chmod 640 "$mnt/tree/1/3"
ok 'a removed name goes' wait_for 5 test ! -e "$mnt2/tree/1/1"
ok 'what was not there comes' wait_for 5 test -e "$mnt2/tree/nothing"
equal 'with its content' there "$(cat "$mnt2/tree/nothing")"
equal 'new content' changed "$(cat "$mnt2/tree/1/2")"
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }
ok 'a new mode' wait_for 5 mode_is "$mnt2/tree/1/3" 640

# A killed writer's file is there, and taken over
echo part >"$mnt/left"
equal 'hidden' '' "$(cat "$mnt2/left")"
for pid in $(daemons); do
	tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF "$mnt" && kill -9 "$pid"
done
umount -l "$mnt"
left() { [ "$(cat "$mnt2/left")" = part ]; }
ok 'what it had closed is seen' wait_for 5 left
remount
echo two >>"$mnt/left"
equal 'resumed, and hidden again' 'part two |0' "$(tr '\n' ' ' <"$mnt/left")|$(stat -c %s "$mnt2/left")"
ok 'umount' "$t" umount "$mnt"
equal 'a writer that ended leaves it to all' 'part two ' "$(tr '\n' ' ' <"$mnt2/left")"
echo three >>"$mnt2/left"
remount
equal 'a mount of another mode makes it a file like any' 'part two three ' "$(tr '\n' ' ' <"$mnt/left")"
ok 'umount the second' "$t" umount "$mnt2"
stop
