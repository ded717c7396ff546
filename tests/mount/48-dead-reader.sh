#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that dies has lost its locks, also those that it took through a description which lives on in another.
. tests/mount/functions.bash
start
echo x >"$mnt/f"
cat >"$TESS_TMP/heir.py" <<'E2'
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)	# before anybody on this mount has locked anything
if os.fork() == 0:
    fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os._exit(0)
os.wait()
if os.fork() == 0:
    w = os.open(sys.argv[1], os.O_RDWR)
    end = time.time() + 10
    while True:
        try:
            fcntl.lockf(w, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os._exit(0)
        except BlockingIOError:
            if time.time() > end:
                os._exit(1)
            time.sleep(0.05)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
E2
ok 'a writer gets what a dead reader had' python3 "$TESS_TMP/heir.py" "$mnt/f"
stop
