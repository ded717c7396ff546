#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A daemon that is stopped, with as many callers as its socket takes, holds no other mount up.
. tests/mount/functions.bash
mnt2=$TESS_TMP/mnt2
mkdir "$mnt2"
start
pid=$(daemons)
kill -STOP "$pid"
python3 - "$fs/run" "$pid.sock" <<'E2'
import os, socket, sys
os.chdir(sys.argv[1])
for i in range(100):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect(sys.argv[2])
    except BlockingIOError:
        break
    s.close()
E2
ok 'a second mount' timeout 30 "$t" mount "$fs" "$mnt2"
kill -CONT "$pid"
ok 'umount' timeout 30 "$t" umount "$mnt2"
stop
