#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unlinked on one mount, open on the other: it stays until that one has closed it, whoever dies.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
: "${TESS_MB:=4}"
start
ok 'a second mount' "$t" mount "$fs" "$mnt2"

# A program on a mount that opens a file, and reads and writes it when told to.
coproc HOLD { exec python3 -c '
import os, sys
f = None
for line in sys.stdin:
    w = line.split()
    try:
        if w[0] == "open":
            f = os.open(w[1], os.O_RDWR); r = "ok"
        elif w[0] == "read":
            d = os.pread(f, 1 << 30, 0); r = "%d %d" % (len(d), len(set(d)))
        elif w[0] == "write":
            os.pwrite(f, w[1].encode() * 4096, 0); os.fsync(f); r = "ok"
        elif w[0] == "head":
            r = os.pread(f, 1, 4095).decode()
        elif w[0] == "close":
            os.close(f); r = "ok"
    except OSError as e:
        r = os.strerror(e.errno)
    print(r, flush=True)
'; }
hold() {
	local r
	echo "$@" >&"${HOLD[1]}"
	read -r -t 30 r <&"${HOLD[0]}"
	echo "$r"
}
big() { head -c $((TESS_MB << 20)) /dev/zero | tr '\0' x >"$1"; }
inodes() { df --output=iused "$mnt" | tail -n 1 | tr -d ' '; }
few() { [ "$(inodes)" -le "$1" ]; }
base=$(inodes)
size=$((TESS_MB << 20))

big "$mnt/f"
equal 'open on the other mount' ok "$(hold open "$mnt2/f")"
rm "$mnt/f"
fails 'gone here' test -e "$mnt/f"
fails 'and there' test -e "$mnt2/f"
sleep 0.5
equal 'reads on' "$size 1" "$(hold read)"
equal 'writes on' ok "$(hold write y)"
equal 'and reads that' y "$(hold head)"
ok 'not reclaimed while open' test "$(inodes)" -gt "$base"
equal 'closes' ok "$(hold close)"
ok 'then it is' wait_for 10 few "$base"

# Renamed over.
big "$mnt/f"
equal 'open' ok "$(hold open "$mnt2/f")"
echo other >"$mnt/g"
mv "$mnt/g" "$mnt/f"
equal 'the old one reads on' "$size 1" "$(hold read)"
equal 'the new one is there' other "$(cat "$mnt2/f")"
equal 'closes' ok "$(hold close)"
rm "$mnt2/f"
ok 'both reclaimed' wait_for 10 few "$base"

# Opened by the unlinking mount as well, closed there first and last.
for first in 3 4; do
	big "$mnt/f"
	exec 3<"$mnt/f" 4<"$mnt2/f"
	rm "$mnt/f"
	if [ $first = 3 ]; then exec 3<&-; else exec 4<&-; fi
	sleep 0.3
	if [ $first = 3 ]; then n=$(wc -c <&4); else n=$(wc -c <&3); fi
	equal "closed $first first" "$size" "$n"
	exec 3<&- 4<&-
	ok 'reclaimed' wait_for 10 few "$base"
done

# The one that unlinked is killed; then the one that has it open.
big "$mnt/f"
equal 'open' ok "$(hold open "$mnt2/f")"
rm "$mnt/f"
pid=$("$t" session list "$fs" | awk -v m="$mnt" '$5 == m { print $2 }')
kill -9 "$pid"
ok 'killed' wait_for 5 gone "$pid"
sleep 0.3
equal 'reads on after that' "$size 1" "$(hold read)"
remount
equal 'and after somebody took over' "$size 1" "$(hold read)"
equal 'closes' ok "$(hold close)"
ok 'reclaimed' wait_for 10 few "$base"

big "$mnt/f"
equal 'open' ok "$(hold open "$mnt2/f")"
rm "$mnt/f"
sleep 0.3
pid=$("$t" session list "$fs" | awk -v m="$mnt2" '$5 == m { print $2 }')
kill -9 "$pid"
ok 'killed' wait_for 5 gone "$pid"
ok 'the other one takes over and reclaims' wait_for 15 few "$base"
hold close >/dev/null
one() { [ "$("$t" session list "$fs" | wc -l)" = 2 ]; }
ok 'one session is left' wait_for 10 one
umount -l "$mnt2"
ok 'mount again' "$t" mount "$fs" "$mnt2"

# A file without a name from the start is its own mount's alone.
python3 - "$mnt" <<'P'
import os, sys
try:
    f = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)
except OSError:
    sys.exit(0)
os.write(f, b'x' * 100000)
os.lseek(f, 0, 0)
assert len(os.read(f, 200000)) == 100000
P
equal 'O_TMPFILE' 0 $?
ok 'and it is reclaimed' wait_for 10 few "$base"
exec {HOLD[1]}>&-
ok 'umount the second' "$t" umount "$mnt2"
ok 'nothing is left to collect' "$t" flush "$mnt"
ok 'umount' "$t" umount "$mnt"
ok 'fsck' "$t" fsck "$fs"

# Whoever is killed, and whether or not the one that has it open has heard that the name went: inodes,
# extents and bytes on the target come back, and nothing is left that only gc would find.
pid_of() { "$t" session list "$fs" | awk -v m="$1" '$5 == m { print $2 }'; }
up() { # MOUNTPOINT…
	local m
	for m; do
		umount -l "$m" 2>/dev/null
		ok "mount $m" "$t" mount "$fs" "$m" -o commit-interval=200ms
	done
	r=$(pid_of "$mnt") h=$(pid_of "$mnt2")
}
# Files f and g are held on the other mount by a program, which is told what to do; nobody else has a
# descriptor there that would have to be closed. g is removed while that mount is stopped.
cat >"$TESS_TMP/held.py" <<'P'
import os, sys
fds = {}
for line in sys.stdin:
    w = line.split()
    try:
        if w[0] == 'open':
            for name in w[2:]:
                fds[name] = os.open(w[1] + '/' + name, os.O_RDWR)
            r = 'ok'
        elif w[0] == 'size':
            r = str(len(os.pread(fds[w[1]], 1 << 30, 0)))
        elif w[0] == 'write':
            for fd in fds.values():
                os.pwrite(fd, b'y' * 50000, 0)
                os.fsync(fd)
                os.pwrite(fd, b'y' * 50000, 65536)
            r = 'ok'
        elif w[0] == 'close':
            for name in w[1:]:
                os.close(fds.pop(name))
            r = 'ok'
    except OSError as e:
        r = os.strerror(e.errno)
    print(r, flush=True)
P
ask() {
	local r
	echo "$@" >&"${HELD[1]}"
	read -r -t 30 r <&"${HELD[0]}"
	echo "$r"
}
held() {
	rm -f "$mnt/f" "$mnt/g"
	big "$mnt/f"
	big "$mnt/g"
	coproc HELD { exec python3 "$TESS_TMP/held.py"; }
	held=$HELD_PID
	equal 'held' ok "$(ask open "$mnt2" f g)"
	rm "$mnt/f"
	sleep 0.3
	kill -STOP "$h"
	rm "$mnt/g"
}
kills() { # PID…
	local p
	kill -9 "$@"
	for p; do ok 'killed' wait_for 5 gone "$p"; done
}
let_go() { # whose mount is dead
	exec {HELD[1]}>&-
	wait "$held" 2>/dev/null
}
empty() { # MOUNTPOINT
	"$t" df "$1" --json | python3 -c '
import json, sys
v = json.load(sys.stdin)
sys.exit(v["inodes"] != 1 or any(v[k] for k in ("names", "extents", "segments", "staged_segments", "garbage"))
         or any(x["used"] or x["objects"] for x in v["targets"]))'
}
whole() { # WHAT MOUNTPOINT
	ok "$1: all of it comes back" wait_for 20 empty "$2"
	equal "$1: and is not found by gc" '0 0 0' "$("$t" gc "$2" --json | python3 -c '
import json, sys
v = json.load(sys.stdin)
print(v["orphan_objects"], v["garbage_objects"], v["staging_files"])')"
	ok "$1: fsck" "$t" fsck "$2"
}
up "$mnt" "$mnt2"

held
kills "$h"
let_go
whole 'the holder is killed before it hears of one' "$mnt"

up "$mnt2"
held
kill -CONT "$h"
equal 'it writes, synced and not' ok "$(ask write)"
kills "$h"
let_go
whole 'the holder is killed' "$mnt"

up "$mnt2"
held
kills "$r"
kill -CONT "$h"
equal 'the remover is killed: what the holder had heard of' "$size" "$(ask size f)"
equal 'and what it had not' "$size" "$(ask size g)"
one() { [ "$("$t" session list "$fs" | wc -l)" = 2 ]; }
ok 'the holder takes over' wait_for 10 one
equal 'and holds both' 3 "$("$t" df "$mnt2" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["inodes"])')"
equal 'one is closed' ok "$(ask close g)"
up "$mnt"
kills "$h"
let_go
whole 'and then the holder' "$mnt"

up "$mnt2"
held
kill -CONT "$h"
# Of many extents, which are deleted some thousand at a time.
python3 - "$mnt2/h" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for i in range(6000):
    os.pwrite(fd, b'x' * 100, i * 8192)
os.close(fd)
P
equal 'held' ok "$(ask open "$mnt2" h)"
rm "$mnt/h"
kill -STOP "$h"
kills "$h" "$r"
let_go
umount -l "$mnt" "$mnt2"
# Who reclaims is killed in the middle of it.
"$t" mount "$fs" "$mnt" -o faults=kv.del@4500=kill >/dev/null 2>&1
died() { [ -z "$(daemons)" ]; }
ok 'both are killed, and who reclaims' wait_for 10 died
json '0 < v["extents"] < 6000' "$t" df "$fs" --json
ok 'what is left has no broken reference' "$t" fsck "$fs"
up "$mnt"
whole 'all of them are killed' "$mnt"
ok 'umount' "$t" umount "$mnt"
whole 'at the end' "$fs"
finish
