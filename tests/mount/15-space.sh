#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a file takes: sparse files take nothing, copies share, deleted and overwritten bytes come back.
. tests/mount/functions.bash
start
cd "$mnt" || exit 1
truncate -s 1T big
equal 'du of a sparse terabyte' 0 "$(du -k big | cut -f1)"
printf x | dd of=big bs=1 seek=$((1 << 39)) conv=notrunc status=none
ok 'one byte in it' test "$(du -k big | cut -f1)" -le 8
cp --sparse=always big big2 2>/dev/null &
cp_pid=$!
wait_for 4 gone $cp_pid || kill $cp_pid
equal 'cp skips the holes' "$((1 << 40))" "$(stat -c %s big2)"
ok 'and copies the byte' test "$(dd if=big2 bs=1 skip=$((1 << 39)) count=1 status=none)" = x
head -c 20000000 /dev/urandom >a
sync
used() { "$t" flush "$mnt" >/dev/null; "$t" df "$mnt" --json | python3 -c '
import json, sys
print(sum(x["used"] for x in json.load(sys.stdin)["targets"]))'; }
one=$(used)
ok 'copy' cp --reflink=auto a b
sync
equal 'a copy takes no space' "$one" "$(used)"
ok 'equal' cmp a b
equal 'but counts as its own blocks' "$(stat -c %b a)" "$(stat -c %b b)"
printf changed | dd of=b bs=1 seek=1000000 conv=notrunc status=none
ok 'the original is as before' test "$(cmp -l a b | wc -l)" -le 7
rm a
sync
ok 'the copy lives' test "$(stat -c %s b)" = 20000000
rm b big big2
back() { [ "$(used)" -lt $((one / 4)) ]; }
ok 'space comes back' wait_for 20 back
df=$(df --output=size,used,avail -k "$mnt" | tail -n 1)
# shellcheck disable=SC2086
set -- $df
ok "df is believable: $df" test "$1" -gt 0 -a "$2" -lt "$1" -a "$3" -le "$1"
cd / || exit 1
stop
