#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# creds --explain says where credentials come from, in what state each source is, and never what they are.
. tests/mount/cli.bash
t=$TESSERA
for v in $(compgen -e | grep -E '^(AWS_|OS_|ST_|CEPH_)'); do unset "$v"; done
export HOME=$TESS_TMP/home AWS_EC2_METADATA_DISABLED=true
mkdir -p "$HOME/.aws"
secret=wJalrXUtnFEMI/K7MDENG+bPxRfiCYnotShown

# hides COMMAND…: whatever it ends with, no output of it has the secret or a part of it.
hides() {
	"$@" >"$TESS_TMP/out" 2>&1
	if grep -qE 'wJalr|K7MDENG|notShown' "$TESS_TMP/out" || [ ! -s "$TESS_TMP/out" ]; then
		failed=$((failed + 1))
		echo "FAILED: $*: says nothing, or too much:"
		cat "$TESS_TMP/out"
	else
		passed=$((passed + 1))
	fi
}

explain=("$t" creds --explain)
says 2 'missing' "$t" creds
says 2 'what to do' "$t" creds s3://bucket
says 1 'unknown store' "${explain[@]}" nonsense:x
shows 'asks for no credentials' "${explain[@]}" mem:

# Nothing is there.
says 1 '^tessera creds: s3://bucket: no credentials can be used' "${explain[@]}" s3://bucket
"${explain[@]}" s3://bucket >"$TESS_TMP/none" 2>/dev/null
for s in environment key-file web-identity profile container instance anonymous result; do
	ok "a line for $s" grep -qE "^$s +(absent|failed) " "$TESS_TMP/none"
done

# A profile; another by the URI; the environment.
cat >"$HOME/.aws/credentials" <<END
[default]
aws_access_key_id = AKIADEFAULT0000ABCD
aws_secret_access_key = $secret
[lab]
aws_access_key_id = AKIALAB00000000WXYZ
aws_secret_access_key = $secret
aws_session_token = $secret
END
chmod 600 "$HOME/.aws/credentials"
shows '^profile +used +profile default of ' "${explain[@]}" s3://bucket
shows '^result +usable +keys, the id ends in ABCD, no expiry is known' "${explain[@]}" s3://bucket
shows '^result +usable +temporary keys, the id ends in WXYZ' "${explain[@]}" 's3://bucket?profile=lab'
hides "${explain[@]}" s3://bucket
hides "${explain[@]}" 's3://bucket?profile=lab'
hides "${explain[@]}" 's3://bucket?profile=lab' --json
json 'v["usable"] and [l["source"] for l in v["lines"] if l.get("state") == "used"] == ["profile"]' \
	"${explain[@]}" s3://bucket --json
export AWS_ACCESS_KEY_ID=AKIAENV00000000EFGH AWS_SECRET_ACCESS_KEY=$secret
shows '^environment +used ' "${explain[@]}" s3://bucket
shows '^profile +unused ' "${explain[@]}" s3://bucket
hides "${explain[@]}" s3://bucket
shows '^profile +used +profile lab' "${explain[@]}" 's3://bucket?profile=lab'
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

# A file of keys, and what is wrong with it.
printf 'AKIAFILE0000000IJKL\n%s\n' "$secret" >"$TESS_TMP/key"
chmod 600 "$TESS_TMP/key"
shows '^key-file +used ' "${explain[@]}" "s3://bucket?key-file=$TESS_TMP/key"
hides "${explain[@]}" "s3://bucket?key-file=$TESS_TMP/key"
chmod 644 "$TESS_TMP/key"
says 1 'no credentials' "${explain[@]}" "s3://bucket?key-file=$TESS_TMP/key"
hides "${explain[@]}" "s3://bucket?key-file=$TESS_TMP/key"
ok 'the mode is told' sh -c "'$t' creds --explain 's3://bucket?key-file=$TESS_TMP/key' 2>/dev/null | grep -q 'mode 0644'"
printf '%s\n%s\n%s\n' "$secret" "$secret" "$secret" >"$TESS_TMP/key"
chmod 600 "$TESS_TMP/key"
hides "${explain[@]}" "s3://bucket?key-file=$TESS_TMP/key"
hides "${explain[@]}" "s3://bucket?key-file=$TESS_TMP/key" --json
printf '%s\n' "$secret" >"$HOME/.aws/config"
hides "${explain[@]}" s3://bucket
json 'any(l.get("state") == "failed" for l in v["lines"])' \
	sh -c "'$t' creds --explain s3://bucket --json || true"

# A process that fails noisily, and one that works.
cat >"$HOME/.aws/config" <<END
[profile noisy]
credential_process = sh -c 'echo $secret; echo $secret >&2; exit 1'
[profile tidy]
credential_process = cat "$TESS_TMP/a file.json"
END
printf '{"Version":1,"AccessKeyId":"ASIAPROC0000000MNOP","SecretAccessKey":"%s","SessionToken":"%s","Expiration":"%s"}' \
	"$secret" "$secret" 2099-12-31T23:59:59Z >"$TESS_TMP/a file.json"
hides "${explain[@]}" 's3://bucket?profile=noisy'
ok 'its end is told' sh -c "'$t' creds --explain 's3://bucket?profile=noisy' 2>/dev/null | grep -q 'exit status 1'"
shows 'the id ends in MNOP, until 2099-12-31T23:59:59Z, from credential_process' "${explain[@]}" 's3://bucket?profile=tidy'
hides "${explain[@]}" 's3://bucket?profile=tidy'
shows '^result +usable +requests are not signed' "${explain[@]}" 's3://bucket?anonymous=1'

# The other services.
export ST_AUTH=http://127.0.0.1:1/auth/v1.0 ST_USER=u ST_KEY=$secret
hides "${explain[@]}" swift://container
if "$t" mkfs "$TESS_TMP/x" --target nonsense:x 2>&1 | grep -q rados; then
	shows '^keyring +absent +/nowhere' "${explain[@]}" 'rados://pool?keyring=/nowhere&id=joe'
	shows '^user +used +client.joe' "${explain[@]}" 'rados://pool?keyring=/nowhere&id=client.joe'
fi
finish
