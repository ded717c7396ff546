#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One file system over several services: a local target, RADOS, two S3 endpoints with a key pair each,
# and Swift; files striped over all of them, and over two of them.
. tests/servers/suite.bash
. tests/servers/rgw.bash
ceph_uri=$TESS_URI endpoint=$AWS_ENDPOINT_URL
one=($AWS_ACCESS_KEY_ID "$AWS_SECRET_ACCESS_KEY") two=(secondaccess secondsecretkey9876543210)
# A second user; where a second S3 server is on the PATH, that one's.
if (tests/servers/s3 start "$TESS_TMP/s3") >"$TESS_TMP/out" 2>&1; then
	started+=("s3 $TESS_TMP/s3")
	second=$(. "$TESS_TMP/s3/env" && echo "$TESS_URI")
	two=($(. "$TESS_TMP/s3/env" && echo "$AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY"))
else
	ok 'a second user' radosgw-admin -n client.admin --uid=two user create --display-name=two \
		--access-key="${two[0]}" --secret-key="${two[1]}"
	ok 'its bucket' tests/servers/objects s3 "$endpoint" "${two[@]}" tess-two make
	fails 'is not for the first' tests/servers/objects s3 "$endpoint" "${one[@]}" tess-two list
	second="s3://tess-two?endpoint=$endpoint&region=us-east-1"
fi
(
	umask 077
	printf '[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n' one "${one[@]}" two "${two[@]}" >"$TESS_TMP/keys"
)
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_ENDPOINT_URL
export AWS_SHARED_CREDENTIALS_FILE=$TESS_TMP/keys AWS_CONFIG_FILE=/dev/null
first="s3://tess-s3?endpoint=$endpoint&region=us-east-1&profile=one"
says 1 'tessera mkfs: ' "$t" mkfs "$fs" --target "$(at "$(with "$second" profile=one)" wrong)"
rm -rf "$fs"

# striped CLASS TARGET…: a tree and a large file over these.
striped() {
	local class=$1 n u args=()
	shift
	for u; do args+=(--target "$u"); done
	prog "mkfs $class over $#" "$t" mkfs "$fs" -c "$class" "${args[@]}"
	remount
	cp -r src "$mnt/src"
	head -c 30000001 /dev/urandom >"$TESS_TMP/large"
	cp "$TESS_TMP/large" "$mnt/large"
	cold
	ok "tree, $class" diff -r src "$mnt/src"
	ok "large file, $class" cmp "$TESS_TMP/large" "$mnt/large"
	for ((n = 0; n < $#; n++)); do
		shows "(^|[ ,])$n:[0-9a-f]{16}" "$t" layout "$mnt/large"
	done
	equal 'targets in df' $# "$("$t" df "$mnt" | grep -cE '^ +[0-9]+ .*(kv|rados|s3|swift):')"
	ok 'rm -r' rm -r "$mnt/src"
	close_fs
}
phase 'two S3 endpoints'
striped SX "$(at "$first" sx)" "$(at "$(with "$second" profile=two)" sx)"
phase 'all kinds'
striped SX "kv:$TESS_TMP/kv?size=256M" "$(at "$ceph_uri" mixed)" "$(at "$first" mixed)" \
	"$(at "$(with "$second" profile=two)" mixed)" "$(at "swift://$TESS_CONTAINER" mixed)"
phase ''
stop_servers
finish
