#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount that was stopped and shut out publishes nothing when it comes to, and loses nothing.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
ok 'a second mount' "$t" mount "$fs" "$mnt2" -o lease=2s
echo published >"$mnt2/f"
session_of() { "$t" session list "$fs" | awk -v m="$1" '$5 == m { print $'"$2"' }'; }
id=$(session_of "$mnt2" 1)
pid=$(session_of "$mnt2" 2)
equal 'listed' alive "$(session_of "$mnt2" 3)"
ok 'as JSON' grep -q "\"id\":$id," <("$t" session list "$fs" --json)
fails 'no such session' "$t" session fence "$fs" 4711
fails 'no number' "$t" session fence "$fs" x

# Its program has written, and not closed, when it is stopped.
cat >"$TESS_TMP/w.py" <<'P'
import os, sys
f = os.open(sys.argv[1] + '/f', os.O_RDWR)
g = os.open(sys.argv[1] + '/g', os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(f, b'unpublished', 3)
os.pwrite(g, b'q' * 300000, 8192)
print('written', flush=True)
sys.stdin.readline()
out = []
for what in (lambda: os.pwrite(f, b'more', 0), lambda: os.fsync(f), lambda: os.close(f), lambda: os.close(g),
             lambda: open(sys.argv[1] + '/h', 'w').close()):
    try:
        what()
        out.append('ok')
    except OSError as e:
        out.append(str(e.errno))
print(' '.join(out), flush=True)
P
coproc W { exec python3 "$TESS_TMP/w.py" "$mnt2"; }
keep W
read -r -t 30 said <&"$from"
equal 'a program wrote' written "$said"
kill -STOP "$pid"
# What needs it decides by the lease; here an administrator does.
ok 'fenced' "$t" session fence "$fs" "$id"
equal 'listed as fenced' fenced "$(session_of "$mnt2" 3)"
ok 'again is fine' "$t" session fence "$fs" "$id"
echo mine >"$mnt/f"
kill -CONT "$pid"
sleep 0.3
echo >&"$to"
read -r -t 30 said <&"$from"
# A write may have been taken before the daemon knew; fsync, close and create tell. ESTALE is 116.
case $said in
'116 116 '*' 116') ok 'ESTALE' true ;;
*' 116 '*' 116') ok 'ESTALE' true ;;
*) equal 'ESTALE' '116 116 … 116' "$said" ;;
esac
wait "$of" 2>/dev/null
equal 'the published file is the other one'\''s' mine "$(cat "$mnt/f")"
equal 'it reads on' mine "$(cat "$mnt2/f")"
r=$fs/rescued/$id
ok 'rescued' test -s "$r/manifest"
equal 'the bytes of f' unpublished "$(cat "$r/$(stat -c %i "$mnt/f").3")"
equal 'and of g' '300000 q' "$(cat "$r"/*.8192 | wc -c) $(cat "$r"/*.8192 | tr -s q)"
equal 'the manifest names both' '/f 3 11 /g 8192 300000' "$(sort "$r/manifest" | awk -F'\t' '{ printf "%s%s %s %s", s, $1, $2, $3; s = " " }')"
ok 'tessera errors' grep -q 'fence.failed.bytes.* 300011' <("$t" stats "$mnt2")
fails 'umount says that not all is well' "$t" umount "$mnt2"
ok 'the daemon is gone' wait_for 10 gone "$pid"
ok 'the next mount works' "$t" mount "$fs" "$mnt2"
echo again >"$mnt2/h"
equal 'and serves' again "$(cat "$mnt/h")"
fenced() { "$t" session list "$fs" | grep -q fenced; }
gone_too() { ! fenced; }
ok 'its session was taken over' wait_for 10 gone_too
ok 'umount the second' "$t" umount "$mnt2"
stop
