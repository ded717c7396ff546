#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed: what was closed or synced is there, what was unlinked is not, nothing is torn.
. tests/mount/functions.bash
start
head -c 3000000 /dev/urandom >"$TESS_TMP/data"
cp "$TESS_TMP/data" "$mnt/closed"
python3 - "$mnt" "$TESS_TMP/data" <<'P' & holder=$!
import os, sys, time
m, data = sys.argv[1], open(sys.argv[2], 'rb').read()
a = os.open(m + '/synced', os.O_CREAT | os.O_RDWR)
os.write(a, data); os.fsync(a)
u = os.open(m + '/unlinked', os.O_CREAT | os.O_RDWR)
os.write(u, data); os.fsync(u); os.unlink(m + '/unlinked')
# Replaced by rename without a close: the old content or the new, never nothing.
open(m + '/config', 'w').write('old')
t = os.open(m + '/config.tmp', os.O_CREAT | os.O_RDWR)
os.write(t, b'new'); os.rename(m + '/config.tmp', m + '/config')
# A rewrite in place that is not finished
open(m + '/log', 'w').write('old content')
r = os.open(m + '/log', os.O_RDWR | os.O_TRUNC)
open(m + '/ready', 'w').close()
time.sleep(60)
P
ok 'ready' wait_for 10 test -e "$mnt/ready"
kill -9 "$(daemons)"
kill $holder
wait $holder 2>/dev/null
wait_for 2 sh -c "! ls '$mnt'"
remount
ok 'closed' cmp "$TESS_TMP/data" "$mnt/closed"
ok 'synced' cmp "$TESS_TMP/data" "$mnt/synced"
fails 'unlinked' test -e "$mnt/unlinked"
equal 'renamed' new "$(cat "$mnt/config")"
equal 'an unfinished rewrite leaves the old bytes' 'old content' "$(cat "$mnt/log")"
no_orphans() { [ "$("$t" df "$mnt" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["inodes"])')" = 6 ]; }
ok 'the unlinked file is reclaimed' wait_for 10 no_orphans
stop
