# SPDX-License-Identifier: Apache-2.0
# Sourced by the cases here: a real server is started, and what the tests of the other tiers promise on
# a local target is tried on it, phase by phase, each in a place of its own below TESS_URI.
#
#	PHASES="contract tree …"	only these
#	MODEL_OPS=N ROUNDS=N FILES=N SERVERS_BUILD='targets of make'	for longer runs
#
# A case sets `uri`, defines count PLACE, the number of objects there by the service's own means, and
# may define server_kill and server_start, then calls run_phases.
. tests/mount/functions.bash
: "${PHASES:=contract tree counters shared_fsync mpi killed model crash faults programs}"
: "${FILES:=10000}" "${SERVERS_BUILD:=build/libbase.a build/libmappers.a}"
started=()

stop_servers() {
	local s
	for s in "${started[@]}"; do
		# shellcheck disable=SC2086
		tests/servers/${s%% *} stop "${s#* }"
	done
	started=()
}
# Also when a case ends early, or is ended.
trap 'end_daemon; stop_servers' EXIT
trap 'exit 1' HUP INT TERM

# boot SCRIPT DIR ARGUMENT…: starts it and takes over its environment. Skips the case where it is not here.
boot() {
	local rc
	tests/servers/"$1" start "$2" "${@:3}" >"$TESS_TMP/out" 2>"$TESS_TMP/err"
	rc=$?
	[ $rc = 0 ] || cat "$TESS_TMP/err"
	[ $rc != 77 ] || exit 77
	started+=("$1 $2")
	[ $rc = 0 ] || { echo "FAILED: $1 does not start"; exit 1; }
	. "$2/env"
	server=$1 server_dir=$2
}
server_kill() { tests/servers/"$server" kill "$server_dir"; }
server_start() { tests/servers/"$server" start "$server_dir" >/dev/null; }
server_pause() { tests/servers/"$server" pause "$server_dir"; }
server_cont() { tests/servers/"$server" cont "$server_dir"; }

# at URI NAME: the same store, a place of its own.
at() {
	local place=${1%%\?*} query=
	case $1 in *\?*) query=?${1#*\?} ;; esac
	case ${place#*//} in
	*/*) echo "$place-$2$query" ;;
	*) echo "$place/$2$query" ;;
	esac
}
with() { # URI PARAMETER
	case $1 in *\?*) echo "$1&$2" ;; *) echo "$1?$2" ;; esac
}

phase() {
	now=$(date +%s%N)
	[ -z "${phase_name:-}" ] || printf -- '-- %s: %d ms\n' "$phase_name" $(((now - phase_at) / 1000000))
	phase_name=$1 phase_at=$now
}
run_phases() {
	local p
	for p in $PHASES; do
		phase "$p"
		"phase_$p"
	done
	phase ''
	stop_servers
	finish
}

# prog TEXT COMMAND…: as ok, with more of what it said.
prog() {
	local text=$1 rc
	shift
	"$@" >"$TESS_TMP/out" 2>&1
	rc=$?
	if [ $rc = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $text: $* (exit $rc)"
		tail -n 30 "$TESS_TMP/out"
	fi
}
drop_caches() { sync && echo 3 2>/dev/null >/proc/sys/vm/drop_caches; }
open_fs() { # PLACE [MKFS_ARGUMENT…]
	"$t" mkfs "$fs" --target "$(at "$uri" "$1")" "${@:2}" >"$TESS_TMP/out" 2>&1 ||
		{ cat "$TESS_TMP/out"; echo 'FAILED: mkfs'; exit 1; }
	remount
}
cold() { # unmount, mount, nothing cached
	ok 'umount' "$t" umount "$mnt"
	drop_caches
	remount
}
close_fs() {
	ok 'umount' "$t" umount "$mnt"
	prog 'fsck --verify' "$t" fsck "$fs" --verify
	rm -rf "$fs"
}
requests() {
	"$t" stats "$mnt" | awk '$1 ~ /^store[.][^.]*[.](put|get|head|del|list)[.][a-z]*$/ && $1 !~ /bytes$/ { n += $2 } END { print n + 0 }'
}
sum_of() { # PATTERN: of the names of counters
	"$t" stats "$mnt" | awk -v p="$1" '$1 ~ p && NF == 2 { n += $2 } END { print n + 0 }'
}
at_most() { # TEXT LIMIT GOT
	ok "$1: $3, at most $2" test "$3" -le "$2"
	echo "   $1: $3 (at most $2)"
}

phase_contract() {
	TESS_STORE_URIS=$(at "$uri" contract) prog 'the contract' "$TESS_PROGS/store/check_contract"
}

# A source tree is copied in and built there; all of it is there after a remount; removed, nothing is left.
phase_tree() {
	local before
	open_fs tree
	before=$(count tree)
	mkdir "$mnt/src"
	tar -cf - Makefile configure.ac src include mappers tools tests/run tests/packages tests/hpc man | tar -C "$mnt/src" -xf -
	ok 'copied as it is' diff -r src "$mnt/src/src"
	prog 'built' env -i PATH="$PATH" HOME="$TESS_TMP" make -C "$mnt/src" -j2 BUILD=build CFLAGS=-O0 nothing $SERVERS_BUILD
	(cd "$mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$TESS_TMP/sums"
	ok 'has files' test "$(wc -l <"$TESS_TMP/sums")" -gt 200
	cold
	prog 'every byte as before' sh -c 'cd "$1" && sha256sum --quiet -c "$2"' - "$mnt" "$TESS_TMP/sums"
	shows 'durable' "$t" layout "$mnt/src/build/libbase.a"
	shows "${uri%%:*}:" "$t" df "$mnt"
	ok 'df' df "$mnt"
	ok 'objects are there' test "$(count tree)" -gt "$before"
	ok 'umount' "$t" umount "$mnt"
	prog 'fsck --verify' "$t" fsck "$fs" --verify
	remount
	ok 'rm -r' rm -r "$mnt/src"
	ok 'umount' "$t" umount "$mnt"
	ok 'gc' "$t" gc "$fs" --delete
	equal 'objects after rm -r and gc' "$before" "$(count tree)"
	prog 'fsck --verify' "$t" fsck "$fs" --verify
	rm -rf "$fs"
}

# What things cost in requests, and who waits for them.
phase_counters() {
	local n bytes worth
	MOUNT_ARGS='-o seal-idle=1h,commit-interval=1h' open_fs counters
	head -c 4194304 /dev/urandom >"$TESS_TMP/4m"
	cp "$TESS_TMP/4m" "$mnt/4m"
	MOUNT_ARGS='-o seal-idle=1h' cold
	n=$(sum_of '^store[.].*[.]get[.]bytes$')
	dd if="$mnt/4m" of="$TESS_TMP/4k" bs=4096 count=1 skip=300 iflag=direct status=none
	ok 'the right 4 KiB' cmp -i 1228800:0 -n 4096 "$TESS_TMP/4m" "$TESS_TMP/4k"
	at_most 'bytes got for a read of 4 KiB' 8192 $(($(sum_of '^store[.].*[.]get[.]bytes$') - n))

	# With the server stopped: no close waits for it.
	n=$(sum_of '^store[.].*[.]put[.]ok$')
	mkdir "$mnt/many"
	server_pause
	prog "$FILES files while the server hangs" timeout 60 python3 - "$mnt/many" "$FILES" <<'P'
import os, sys
for i in range(int(sys.argv[2])):
    fd = os.open('%s/f%d' % (sys.argv[1], i), os.O_CREAT | os.O_WRONLY)
    os.write(fd, (b'%08d' % i) * 512)
    os.close(fd)
P
	server_cont
	ok 'flush' "$t" flush "$mnt"
	worth=$(((FILES * 4096 + 4194303) / 4194304))
	# Segments are open side by side, so that writers need not wait for each other: some end early.
	at_most "PUTs of $FILES files of 4 KiB" $((worth + 4)) $(($(sum_of '^store[.].*[.]put[.]ok$') - n))
	n=$(requests)
	mv "$mnt/many" "$mnt/moved"
	equal "requests of a rename of a directory with $FILES files" "$n" "$(requests)"
	equal 'all moved' "$FILES" "$(ls "$mnt/moved" | wc -l)"
	cold
	equal 'one of them, cold' "$(printf '%08d' 77)" "$(head -c 8 "$mnt/moved/f77")"
	close_fs
}

# 16 processes fsync each of their files; 20 ms away, they wait together.
phase_shared_fsync() {
	local n files=160 uri=$uri
	uri=$(with "$uri" latency=20ms)
	open_fs fsync
	n=$(sum_of '^store[.].*[.]put[.]ok$')
	prog 'fsyncs' python3 - "$mnt" 16 $((files / 16)) <<'P'
import os, sys
kids = []
for p in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        for i in range(int(sys.argv[3])):
            fd = os.open('%s/p%d.%d' % (sys.argv[1], p, i), os.O_CREAT | os.O_WRONLY)
            os.write(fd, b'x' * 4096)
            os.fsync(fd)
            os.close(fd)
        os._exit(0)
    kids.append(pid)
sys.exit(any(os.waitpid(k, 0)[1] for k in kids))
P
	n=$(($(sum_of '^store[.].*[.]put[.]ok$') - n))
	at_most "PUTs of $files fsyncs of 16 processes" $((files / 3)) $n
	ok 'not without any' test $n -ge $((files / 16))
	close_fs
}

phase_mpi() {
	local args=()
	if ! command -v mpiexec >/dev/null || [ ! -x "$TESS_PROGS/hpc/mpi_rw" ]; then
		echo 'mpi: no MPI, so not tested'
		return
	fi
	! mpiexec --version 2>&1 | grep -q 'Open MPI\|OpenRTE' || args=(--allow-run-as-root --oversubscribe)
	open_fs mpi
	prog 'easy: a file for each rank' mpiexec "${args[@]}" -n 2 "$TESS_PROGS/hpc/mpi_rw" -m each -r 1048576 -n 24 "$mnt"
	prog 'hard: 47,008 bytes in turn' mpiexec "${args[@]}" -n 2 "$TESS_PROGS/hpc/mpi_rw" -m strided -r 47008 -n 300 "$mnt"
	if command -v ior >/dev/null; then
		mkdir "$mnt/ior"
		prog 'ior easy' mpiexec "${args[@]}" -n 2 ior -a POSIX -w -r -W -R -C -e -F -t 1m -b 32m -o "$mnt/ior/easy"
		prog 'ior hard' mpiexec "${args[@]}" -n 2 ior -a POSIX -w -r -W -R -C -e -t 47008 -b 47008 -s 300 -o "$mnt/ior/hard"
	fi
	close_fs
}

# The server is killed under load and comes back: nobody gets an error, and what fsync returned for is there.
phase_killed() {
	local n
	open_fs killed
	: >"$TESS_TMP/acked"
	cat >"$TESS_TMP/acked.py" <<'P'
import hashlib, os, sys, time
mnt, log, stop, me = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]
def body(name):
    return hashlib.sha256(name.encode()).digest() * 6000
if stop == 'verify':
    names = open(log).read().split()
    bad = [n for n in names if open(mnt + '/' + n, 'rb').read() != body(n)]
    print(len(names), 'acknowledged,', len(bad), 'wrong', bad[:5])
    sys.exit(bool(bad) or len(names) < 8)
out = os.open(log, os.O_WRONLY | os.O_APPEND)
i = 0
while not os.path.exists(stop):
    name = '%s.%d' % (me, i)
    fd = os.open(mnt + '/' + name, os.O_CREAT | os.O_WRONLY)
    data = body(name)
    while data:
        data = data[os.write(fd, data):]
    os.fsync(fd)
    os.close(fd)
    os.write(out, (name + '\n').encode())
    i += 1
    time.sleep(0.01)
P
	local w pids=()
	for w in 1 2 3 4; do
		python3 "$TESS_TMP/acked.py" "$mnt" "$TESS_TMP/acked" "$TESS_TMP/enough" "w$w" 2>>"$TESS_TMP/writers" & pids+=($!)
	done
	ok 'first files' wait_for 30 sh -c "[ \$(wc -l <'$TESS_TMP/acked') -ge 4 ]"
	ok 'kill' server_kill
	sleep 1
	ok 'restart' server_start
	n=$(($(wc -l <"$TESS_TMP/acked") + 8))
	ok 'it goes on' wait_for 60 sh -c "[ \$(wc -l <'$TESS_TMP/acked') -ge $n ]"
	touch "$TESS_TMP/enough"
	for w in "${pids[@]}"; do ok 'a writer without errors' wait "$w"; done
	cat "$TESS_TMP/writers" 2>/dev/null
	cold
	prog 'what fsync acknowledged' python3 "$TESS_TMP/acked.py" "$mnt" "$TESS_TMP/acked" verify x
	tail -n 1 "$TESS_TMP/out"
	close_fs
}

# program NAME VARIABLE=VALUE… PROGRAM: one of another tier, on this target.
program() {
	local name=$1
	shift
	mkdir -p "$TESS_TMP/$name"
	prog "$name" env TESS_TMP="$TESS_TMP/$name" TESS_TARGET="$(at "$uri" "$name")" "$@"
	tail -n 1 "$TESS_TMP/out"
	rm -rf --one-file-system "${TESS_TMP:?}/$name"
}
phase_model() {
	program model MODEL_OPS="${MODEL_OPS:-400}" "$TESS_PROGS/model/random"
}
phase_crash() {
	program crash ROUNDS="${ROUNDS:-3}" "$TESS_PROGS/crash/killloop"
}
phase_faults() {
	local p
	for p in ${FAULT_POINTS:-store.put store.get}; do
		program "$p" FAULT_POINT="$p" "$TESS_PROGS/fault/daemon"
	done
}
# A case of the mount tier, on this target.
phase_programs() {
	local c
	for c in ${MOUNT_CASES:-14-programs 20-crash}; do
		mkdir -p "$TESS_TMP/$c"
		prog "$c" env TESS_TMP="$TESS_TMP/$c" MKFS_ARGS="--target $(at "$uri" "$c")" "tests/mount/$c.sh"
		rm -rf --one-file-system "${TESS_TMP:?}/$c"
	done
}
