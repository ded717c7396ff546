#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a mount that was stopped for longer than its lease loses to one that needs it, other than locks
# (33-two-locks) and by an administrator's hand (32-fence): files it has not laminated yet, by each of the
# calls that need them. And who keeps what he has: one whose lease is not over, whatever the lease of the
# one who asks, and one of whom nothing is needed. LAPSED_ALL=1: by more calls of the same kinds.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
MOUNT_ARGS='-o mode=laminate'
start
state_of() { "$t" session list "$fs" | awk -v m="$1" '$5 == m { print $3 }'; }
silent() { [ "$(state_of "$mnt2")" = silent ]; }
errno_of() { # COMMAND…: its last word on stderr
	LC_ALL=C "$@" 2>&1 >/dev/null | sed 's/.*: //' | tail -n 1
}

# The program of the owner: has written and published one part, written another, and goes on when told to.
cat >"$TESS_TMP/owner.py" <<'P'
import errno, os, sys
fds = []
for name in 'f', 'g':
    fd = os.open(sys.argv[1] + '/' + name, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b'owner')
    os.fsync(fd)
    os.pwrite(fd, b'unpublished', 5)
    fds.append(fd)
print('written', flush=True)
sys.stdin.readline()
out = set()
for fd in fds:
    os.set_blocking(fd, True)
    for what in (lambda: os.fsync(fd), lambda: os.pwrite(fd, b'late', 0), lambda: os.ftruncate(fd, 3), lambda: os.fsync(fd),
                 lambda: os.close(fd)):
        try:
            what()
            out.add('ok')
        except OSError as e:
            out.add(errno.errorcode[e.errno])
print(' '.join(sorted(out)), flush=True)
P

# taken HOW CONTENT COMMAND…: of an owner that was stopped for longer than its lease the command takes f;
# what it leaves there is CONTENT, whatever the owner does when it comes to.
taken() {
	local how=$1 content=$2 said pid id r
	shift 2
	echo "== $how"
	rm -f "$mnt/f" "$mnt/g"
	ok "$how: the owner's mount" "$t" mount "$fs" "$mnt2" -o mode=laminate,lease=1s
	pid=$("$t" session list "$fs" | awk -v m="$mnt2" '$5 == m { print $2 }')
	id=$("$t" session list "$fs" | awk -v m="$mnt2" '$5 == m { print $1 }')
	coproc W { exec python3 "$TESS_TMP/owner.py" "$mnt2"; }
	keep W
	read -r -t 30 said <&"$from"
	equal "$how: the owner wrote" written "$said"
	fails "$how: while it answers it is the owner's" "$@"
	kill -STOP "$pid"
	ok "$how: its lease is over" wait_for 10 silent
	equal "$how: who only looks sees nothing, and shuts nobody out" '0  silent' \
		"$(stat -c %s "$mnt/f") $(cat "$mnt/f") $(state_of "$mnt2")"
	ok "$how" timeout 20 "$@"
	equal "$how: shut out" fenced "$(state_of "$mnt2")"
	equal "$how: what is there" "$content" "$(cat "$mnt/f")"
	kill -CONT "$pid"
	sleep 0.3
	echo >&"$to"
	read -r -t 30 said <&"$from"
	# A write may be taken before the daemon knows; what follows tells.
	case $said in ESTALE | 'ESTALE ok') said=ESTALE ;; esac
	equal "$how: the owner" ESTALE "$said"
	wait "$of" 2>/dev/null
	r=$fs/rescued/$id
	equal "$how: unpublished bytes of f and g" 'unpublished unpublished' \
		"$(cat "$r/$(stat -c %i "$mnt/f").5") $(cat "$r/$(stat -c %i "$mnt/g").5")"
	equal "$how: and nothing of what came later" '/f 5 11 /g 5 11' \
		"$(sort "$r/manifest" | awk -F'\t' '{ printf "%s%s %s %s", s, $1, $2, $3; s = " " }')"
	equal "$how: unharmed" "$content" "$(cat "$mnt/f")"
	equal "$how: the other file is free, too" owner "$(cat "$mnt/g")"
	equal "$how: for everybody" owner "$(cat "$mnt2/g")"
	fails "$how: its umount says that not all is well" "$t" umount "$mnt2"
	ok "$how: its daemon ends" wait_for 10 gone "$pid"
}
cat >"$TESS_TMP/write.py" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
os.pwrite(fd, b'mine', 1)
os.close(fd)
P
taken 'open for writing' omine python3 "$TESS_TMP/write.py" "$mnt/f"
taken 'truncate' own truncate -s 3 "$mnt/f"
if [ -n "${LAPSED_ALL:-}" ]; then
	taken 'open with O_TRUNC' new sh -c "echo new >'$mnt/f'"
	taken 'tessera laminate' owner "$t" laminate "$mnt/f"
	ok 'undone' "$t" laminate --undo "$mnt/f"
fi
taken 'chmod a-w' owner chmod a-w "$mnt/f"
ok 'undone' "$t" laminate --undo "$mnt/f"
ok 'umount' "$t" umount "$mnt"

echo '== leases of two lengths'
# Who is to be silent for long beats seldom. One with a short lease must not take that for silence.
MOUNT_ARGS='-o mode=laminate,locks=global,lease=1s' remount
ok 'one with a long lease' "$t" mount "$fs" "$mnt2" -o mode=laminate,locks=global
rm -f "$mnt/f" "$mnt/g"
echo theirs >"$mnt2/f"
echo shared >"$mnt2/l"
ok 'laminated' "$t" laminate "$mnt2/l"
coproc L { exec python3 -c "
import fcntl, sys
f = open('$mnt2/l')
fcntl.flock(f, fcntl.LOCK_EX)
print('locked', flush=True)
sys.stdin.readline()"; }
keep L
read -r -t 30 said <&"$from"
equal 'a lock' locked "$said"
pid=$("$t" session list "$fs" | awk -v m="$mnt2" '$5 == m { print $2 }')
kill -STOP "$pid"
sleep 2.5
fails 'its lock holds' timeout 10 flock -n "$mnt/l" true
equal 'its file is its own' 'Device or resource busy' "$(errno_of tee "$mnt/f" </dev/null)"
equal 'its state' alive "$(state_of "$mnt2")"
kill -CONT "$pid"
echo >&"$to"
wait "$of" 2>/dev/null
echo more >>"$mnt2/f"
equal 'and it goes on' 'theirs more' "$(tr '\n' ' ' <"$mnt2/f" | sed 's/ $//')"
ok 'umount the second' "$t" umount "$mnt2"
stop
