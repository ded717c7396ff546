#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A user without rights mounts a file system of his own through fusermount3, and nobody else gets in.
# Where users may not use /dev/fuse (a container), they may in a mount namespace of this case's own.
if [ "$(id -u)" = 0 ] && [ -c /dev/fuse ] && [ "$(stat -c %a /dev/fuse)" != 666 ] && [ -z "${TESS_UNSHARED:-}" ]; then
	unshare -m true 2>/dev/null || { echo '/dev/fuse is closed to users'; exit 77; }
	TESS_UNSHARED=1 exec unshare -m --propagation private "$0"
fi
. tests/mount/functions.bash
[ "$(id -u)" = 0 ] || { echo 'not root: cannot become somebody else'; exit 77; }
[ -u "$(command -v fusermount3)" ] || { echo 'fusermount3 is not setuid'; exit 77; }
chmod 755 "$TESS_TMP"
as() { setpriv --reuid=1000 --regid=1000 --clear-groups "$@"; }
# The program may be in a directory that others cannot enter.
cp "$t" "$TESS_TMP/tessera"
t=$TESS_TMP/tessera
mkdir "$TESS_TMP/home"
rmdir "$mnt"
fs=$TESS_TMP/home/fs mnt=$TESS_TMP/home/mnt
chown 1000:1000 "$TESS_TMP/home"
as mkdir "$mnt"
if [ -n "${TESS_UNSHARED:-}" ]; then
	mknod -m 666 "$TESS_TMP/fuse" c 10 229 && mount --bind "$TESS_TMP/fuse" /dev/fuse
fi
as test -w /dev/fuse || { echo 'users cannot mount'; exit 77; }
ok 'mkfs' as "$t" mkfs "$fs"
ok 'mount' as "$t" mount "$fs" "$mnt"
ok 'write' as sh -c "echo mine >'$mnt/f'"
equal 'read' mine "$(as cat "$mnt/f")"
equal 'owner' 1000 "$(as stat -c %u "$mnt/f")"
fails 'root stays outside' ls "$mnt"
ok 'umount' as "$t" umount "$mnt"
ok 'again' as "$t" mount "$fs" "$mnt"
equal 'still there' mine "$(as cat "$mnt/f")"
pid=$(daemons)
kill -9 "$pid"
wait_for 2 gone "$pid"
ok 'heals a dead mount' as "$t" mount "$fs" "$mnt"
equal 'still there' mine "$(as cat "$mnt/f")"
ok 'umount' as "$t" umount "$mnt"
ok 'fsck' as "$t" fsck "$fs"
finish
