#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Keys of a role that live for seconds: a load that outlives many of them sees no error and no refusal;
# when STS fails for longer than a key lives, writers wait and the mount heals by itself; and the key
# that asks for the role is found nowhere.
# KEYS_SECONDS: of load, default 10. KEYS_LIFE: ms that a key lives, default 3000.
. tests/mount/functions.bash
: "${KEYS_SECONDS:=10}" "${KEYS_LIFE:=3000}"
server=$TESS_PROGS/servers/fakeobj
[ -x "$server" ] || { echo 'tests/servers/fakeobj is not built'; exit 77; }
command -v curl >/dev/null || { echo 'curl is not on the PATH'; exit 77; }
mkfifo "$TESS_TMP/quit"
"$server" -l "$KEYS_LIFE" -i <>"$TESS_TMP/quit" >"$TESS_TMP/port" &
server_pid=$!
trap 'end_daemon; kill $server_pid' EXIT
wait_for 5 test -s "$TESS_TMP/port" || exit 1
at=http://127.0.0.1:$(sed -n 's/^FAKEOBJ_PORT=//p' "$TESS_TMP/port")
for v in $(compgen -e | grep '^AWS_'); do unset "$v"; done
export HOME=$TESS_TMP/home no_proxy='*' AWS_ENDPOINT_URL=$at
secret=fake+secret/KEY0of1the2object3server4xyz
mkdir -p "$HOME/.aws"
cat >"$HOME/.aws/credentials" <<END
[base]
aws_access_key_id = AKIAFAKEOBJECTSERVER
aws_secret_access_key = $secret
END
chmod 600 "$HOME/.aws/credentials"
cat >"$HOME/.aws/config" <<END
[profile lab]
role_arn = arn:aws:iam::1:role/lab
source_profile = base
END
count() { # OUTCOME [VERB]: of all verbs
	curl -s "$at/_stats" | python3 -c "
import json, sys
print(sum(n['$1'] for v, n in json.load(sys.stdin)['requests'].items() if v == '${2:-}' or not '${2:-}'))"
}
rules() { curl -s -X POST "$at/_control?$1" >/dev/null; }

ok 'mkfs' "$t" mkfs "$fs" -t 's3://bucket/keys?profile=lab'
"$t" mount "$fs" "$mnt" --foreground -o seal-idle=200ms >"$TESS_TMP/log" 2>&1 &
ok 'mount' wait_for 20 mountpoint -q "$mnt"
head -c 1500000 /dev/urandom >"$TESS_TMP/data"
before=$(count ok creds)
end=$((SECONDS + KEYS_SECONDS)) rounds=0 errors=0
while [ $SECONDS -lt $end ]; do
	dd if="$TESS_TMP/data" of="$mnt/$((rounds % 7))" bs=100k conv=fsync 2>>"$TESS_TMP/errors" || errors=$((errors + 1))
	cmp "$TESS_TMP/data" "$mnt/$((rounds % 7))" >>"$TESS_TMP/errors" 2>&1 || errors=$((errors + 1))
	rounds=$((rounds + 1))
	sleep 0.05
done
equal 'errors' 0 "$errors"
ok 'there was a load' test "$rounds" -gt 3
issued=$(($(count ok creds) - before))
ok "keys were renewed ($issued)" test "$issued" -ge $((KEYS_SECONDS * 1000 / (KEYS_LIFE + 1000) / 2))
equal 'refusals' 0 "$(count denied)"

# Longer without STS than a key lives, in which something is written and waits.
rules 'rules=creds:every=1:500'
sleep $((KEYS_LIFE / 1000 + 2))
dd if="$TESS_TMP/data" of="$mnt/waits" bs=100k conv=fsync 2>"$TESS_TMP/waits" &
writer=$!
sleep 2
ok 'it waits' kill -0 $writer
rules 'rules='
ok 'and is written' wait $writer
ok 'as it was' cmp "$TESS_TMP/data" "$mnt/waits"
# Once it began and once it was over, however often it was tried.
equal 'failures told' 1 "$(grep -c 'not renewed' "$TESS_TMP/log")"
ok 'recovery is told' wait_for 5 grep -q 'renew credentials.*: renewed' "$TESS_TMP/log"

pid=$(daemons)
{
	cat "/proc/$pid/cmdline" "/proc/$pid/environ" "/proc/$pid/mountinfo" "$TESS_TMP/log"
	"$t" stats "$mnt" --json
	"$t" stats "$mnt" --errors
} >"$TESS_TMP/seen" 2>&1
ok 'umount' "$t" umount "$mnt"
cat "$TESS_TMP/log" >>"$TESS_TMP/seen"
ok 'the secret is seen nowhere' sh -c "! grep -qaF '$secret' '$TESS_TMP/seen'"
ok 'nor kept' sh -c "! grep -rqaF '$secret' '$fs'"
ok 'fsck' "$t" fsck "$fs"
finish
