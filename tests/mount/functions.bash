# SPDX-License-Identifier: Apache-2.0
# For the cases NN-name.sh: a file system that is mounted, and the daemon behind it. Sourced.
. tests/mount/cli.bash
t=$TESSERA
need_fuse
: "${MKFS_ARGS:=}" "${MOUNT_ARGS:=}"

# Also when a case ends early: no daemon outlives it.
end_daemon() {
	local pid
	for pid in $(daemons); do kill -9 "$pid" 2>/dev/null; done
	umount -l "$mnt" 2>/dev/null
	[ -z "${mnt2:-}" ] || umount -l "$mnt2" 2>/dev/null
}
trap end_daemon EXIT

daemons() { # pids of the daemons of $fs
	local s p
	for s in "$fs"/run/*.sock; do
		p=${s##*/}
		p=${p%.sock}
		[ -e "/proc/$p" ] && echo "$p"
	done
}
start() { # mkfs and mount
	# shellcheck disable=SC2086
	"$t" mkfs "$fs" $MKFS_ARGS >"$TESS_TMP/out" 2>&1 || { cat "$TESS_TMP/out"; echo 'FAILED: mkfs'; exit 1; }
	remount
}
remount() {
	# shellcheck disable=SC2086
	"$t" mount "$fs" "$mnt" $MOUNT_ARGS >"$TESS_TMP/out" 2>&1 || { cat "$TESS_TMP/out"; echo 'FAILED: mount'; exit 1; }
}
# The end of a case: the file system is whole.
stop() {
	ok 'umount' "$t" umount "$mnt"
	ok 'fsck' "$t" fsck "$fs"
	finish
}
fails() { # TEXT COMMAND…: it does not succeed
	local text=$1
	shift
	if "$@" >"$TESS_TMP/out" 2>&1; then
		failed=$((failed + 1))
		echo "FAILED: $text: $* succeeded"
	else
		passed=$((passed + 1))
	fi
}
equal() { # TEXT WANT GOT
	ok "$1: '$3', not '$2'" test "$2" = "$3"
}
stat_of() { # NAME: the count of a line of `tessera stats`
	"$t" stats "$mnt" | awk -v n="$1" '$1 == n { print $2 == "n" ? $3 : $2; f = 1 } END { if (!f) print 0 }'
}
wait_for() { # SECONDS COMMAND…
	local n=$(($1 * 20))
	shift
	while ! "$@" >/dev/null 2>&1; do
		n=$((n - 1))
		[ $n -gt 0 ] || return 1
		sleep 0.05
	done
}
gone() { ! kill -0 "$1" 2>/dev/null || [ "$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null)" = Z ]; }
# posix NAME: the checks of a program of tests/mount, counted here.
posix() {
	local line
	mkdir -p "$mnt/posix_$1"
	chmod 755 "$mnt"
	"$TESS_PROGS/mount/posix_$1" "$mnt/posix_$1" >"$TESS_TMP/posix"
	grep -v '^[0-9]* passed' "$TESS_TMP/posix"
	line=$(tail -n 1 "$TESS_TMP/posix")
	case $line in
	*' passed, '*' failed')
		passed=$((passed + ${line%% *}))
		line=${line#*, }
		failed=$((failed + ${line%% *}))
		;;
	*) failed=$((failed + 1)) ;;
	esac
	rm -rf "$mnt/posix_$1"
}
# keep NAME: of a coproc, $from, $to and $of, its process. Its own variables vanish when it has ended.
keep() {
	eval "exec {from}<&\"\${$1[0]}\" {to}>&\"\${$1[1]}\"; of=\$$1_PID"
}
