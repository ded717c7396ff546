#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A file that the environment names from where the command is given is found by the daemon, which leaves
# that directory, when it mounts and when it reads the file again; a target URI, which is remembered,
# names none that way.
. tests/mount/functions.bash
server=$TESS_PROGS/servers/fakeobj
[ -x "$server" ] || { echo 'tests/servers/fakeobj is not built'; exit 77; }
command -v curl >/dev/null || { echo 'curl is not on the PATH'; exit 77; }
mkfifo "$TESS_TMP/quit"
"$server" -i <>"$TESS_TMP/quit" >"$TESS_TMP/port" &
server_pid=$!
trap 'end_daemon; kill $server_pid' EXIT
wait_for 5 test -s "$TESS_TMP/port" || exit 1
at=http://127.0.0.1:$(sed -n 's/^FAKEOBJ_PORT=//p' "$TESS_TMP/port")
for v in $(compgen -e | grep '^AWS_'); do unset "$v"; done
export HOME=$TESS_TMP/home no_proxy='*' AWS_ENDPOINT_URL=$at AWS_SHARED_CREDENTIALS_FILE=keys/aws
mkdir -p "$HOME" "$TESS_TMP/here/keys"
cd "$TESS_TMP/here" || exit 1
cat >keys/aws <<'END'
[default]
aws_access_key_id = AKIAFAKEOBJECTSERVER
aws_secret_access_key = fake+secret/KEY0of1the2object3server4xyz
END
chmod 600 keys/aws
ok 'mkfs' "$t" mkfs "$fs" -t s3://bucket/relative
ok 'mount' "$t" mount "$fs" "$mnt"
equal 'the daemon is elsewhere' / "$(readlink "/proc/$(daemons)/cwd")"
ok 'write' dd if=/dev/zero of="$mnt/a" bs=1M count=1 conv=fsync status=none
# The keys are refused once, and looked for where they came from.
curl -s -X POST "$at/_control?rules=put:nth=1:403=InvalidAccessKeyId" >/dev/null
ok 'write again' dd if=/dev/zero of="$mnt/b" bs=1M count=1 conv=fsync status=none
for p in ca cert key key-file; do
	fails "$p" "$t" mkfs "$TESS_TMP/fs-$p" -t "s3://bucket/$p?$p=keys/aws"
	equal 'and named' 1 "$(grep -c ": $p: the path must be absolute" "$TESS_TMP/out")"
done
cd "$TESS_TMP" || exit 1
ok 'umount' "$t" umount "$mnt"
finish
