#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each mode mounts, says what it is and keeps a file; marks are inherited and beat the mount; what
# contradicts is refused; the cache options of DFuse do what they say.
. tests/mount/functions.bash
start
ok 'umount' "$t" umount "$mnt"

# MODE VISIBLE REFRESH LOCKS DIRECT-IO
while read -r mode visible refresh locks direct; do
	ok "mount $mode" "$t" mount "$fs" "$mnt" -o "mode=$mode"
	json "v['mode'] == '$mode' and v['visible'] == '$visible' and v['refresh'] == '$refresh' and v['locks'] == '$locks'
		and v['direct-io'] == '$direct' and v['from'] == 'mount' and v['mountpoint'] == '$mnt'" "$t" mode show "$mnt" --json
	head -c 200000 /dev/urandom >"$TESS_TMP/src"
	ok "$mode: a file" cp "$TESS_TMP/src" "$mnt/f-$mode"
	ok "$mode: comes back" cmp "$TESS_TMP/src" "$mnt/f-$mode"
	ok "$mode: at once" python3 - "$mnt/w-$mode" <<'P'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'x' * 5000, 100)
assert os.fstat(fd).st_size == 5100 and os.pread(fd, 6000, 0) == b'\0' * 100 + b'x' * 5000
os.fsync(fd)
os.close(fd)
assert os.stat(sys.argv[1]).st_size == 5100
P
	ok "$mode: umount" "$t" umount "$mnt"
done <<'E2'
strict write read global on
commit fsync read global on
session close open global off
laminate laminate open local off
lazy interval interval global off
private never never local off
E2
remount
ok 'of the others, all are there' ls "$mnt/f-strict" "$mnt/f-commit" "$mnt/f-session" "$mnt/f-laminate" "$mnt/f-lazy"
fails 'but a private one' ls "$mnt/f-private"
json "v['mode'] == 'session' and v['from'] == 'default' and v['fsync'] == 'local' and v['lease'] == '30s'" "$t" mode show "$mnt" --json

# ---- marks ----
mkdir "$mnt/d"
ok 'mark a directory' "$t" setlayout "$mnt/d" -M strict
mkdir "$mnt/d/sub"
echo x >"$mnt/d/sub/f"
equal 'inherited' strict "$(getfattr --absolute-names --only-values -n tessera.mode "$mnt/d/sub/f")"
json "v['mode'] == 'strict' and v['mark'] == 'strict' and v['from'] == 'directory, inherited' and v['direct-io'] == 'on'
	and v['path'] == '/d/sub/f'" "$t" mode show "$mnt" "$mnt/d/sub/f" --json
json "v['from'] == 'directory'" "$t" mode show "$mnt" "$mnt/d" --json
json "v['mode'] == 'strict'" "$t" layout --json "$mnt/d/sub/f"
shows 'mode strict' "$t" layout "$mnt/d/sub/f"
ok 'by attribute' setfattr -n tessera.mode -v lazy "$mnt/d/sub/f"
json "v['mode'] == 'lazy' and v['from'] == 'file'" "$t" mode show "$mnt" "$mnt/d/sub/f" --json
ok 'by a spec' setfattr -n tessera.layout -v mode=commit,segment=1M "$mnt/d/sub/f"
json "v['mode'] == 'commit' and v['segment_size'] == 1 << 20" "$t" layout --json "$mnt/d/sub/f"
ok 'off again' setfattr -x tessera.mode "$mnt/d/sub/f"
json "v['mode'] == 'session' and v['mark'] == 'none' and v['from'] == 'default'" "$t" mode show "$mnt" "$mnt/d/sub/f" --json
ok 'none by name' "$t" setlayout "$mnt/d" -M none
json "v['mark'] == 'none'" "$t" mode show "$mnt" "$mnt/d" --json
equal 'a mark changes no byte' x "$(cat "$mnt/d/sub/f")"
says 1 'whole mount' "$t" setlayout "$mnt/d" -M private
says 1 'strict, commit' "$t" setlayout "$mnt/d" -M posix
fails 'private by attribute' setfattr -n tessera.mode -v private "$mnt/d"
fails 'nonsense by attribute' setfattr -n tessera.mode -v posix "$mnt/d"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 777 "$mnt/d/sub/f"
	fails 'only the owner' setpriv --reuid 12345 --clear-groups setfattr -n tessera.mode -v lazy "$mnt/d/sub/f"
fi
# A mark survives the mount, and a laxer mount does not weaken it.
ok 'mark' "$t" setlayout "$mnt/d" -M strict
echo y >"$mnt/d/g"
ok 'umount' "$t" umount "$mnt"
ok 'a lax mount' "$t" mount "$fs" "$mnt" -o mode=lazy,actimeo=60,meta=relaxed,append=local,locks=local,data-cache=on
json "v['mode'] == 'strict' and v['visible'] == 'write' and v['refresh'] == 'read' and v['attr-time'] == '0s' and v['append'] == 'atomic'
	and v['locks'] == 'global' and v['meta'] == 'strict' and v['direct-io'] == 'on'" "$t" mode show "$mnt" "$mnt/d/g" --json
json "v['mode'] == 'lazy' and v['attr-time'] == '60s' and v['locks'] == 'local'" "$t" mode show "$mnt" --json
ok 'umount' "$t" umount "$mnt"
# Off refuses, whatever the mark.
ok 'locks=off' "$t" mount "$fs" "$mnt" -o locks=off
json "v['mode'] == 'strict' and v['locks'] == 'off'" "$t" mode show "$mnt" "$mnt/d/g" --json
ok 'umount' "$t" umount "$mnt"

# ---- contradictions: one line that names both ----
while read -r list pattern; do
	says 1 "$pattern" "$t" mount "$fs" "$mnt" -o "$list"
	fails "$list is not mounted" mountpoint -q "$mnt"
done <<'E3'
mode=strict,writeback-cache mode=strict,writeback-cache:.*mode=private
mode=session,writeback-cache mode=session,writeback-cache:
mode=strict,nocto mode=strict,nocto:.*mode=session
mode=strict,attr-time=5s mode=strict,attr-time:.*0
mode=strict,actimeo=3 mode=strict,actimeo:
mode=strict,append=local mode=strict,append=local:
mode=strict,meta=relaxed mode=strict,meta=relaxed:
mode=strict,locks=local mode=strict,locks=local:.*locks=off
mode=strict,size=lazy mode=strict,size=lazy:
mode=commit,data-cache=on mode=commit,data-cache:
mode=private,locks=global mode=private,locks=global:
mode=private,ro mode=private,ro:
mode=private,writeback-cache,direct-io writeback-cache,direct-io:
direct-io,data-cache=otoc direct-io,data-cache=otoc:
size=strict,attr-time=5s size=strict,attr-time:
E3
says 2 'one of default, strict' "$t" mount "$fs" "$mnt" -o mode=posix
says 2 'data-cache' "$t" mount "$fs" "$mnt" -o data-cache=perhaps
# What refuses leaves nothing behind.
equal 'no private tree' '' "$(ls "$fs/private")"

# ---- names of DFuse ----
ok 'dfuse' "$t" mount "$fs" "$mnt" -o dfuse-attr-time=5m,dfuse-data-cache=otoc
json "v['attr-time'] == '300s' and v['dentry-time'] == '0s' and v['page-cache'] == 'while-open'" "$t" mode show "$mnt" --json
ok 'umount' "$t" umount "$mnt"
# How often a file that nobody changes is read from the daemon, opened N times.
reads() { # OPTIONS SLEEP
	local before
	MOUNT_ARGS="-o $1" remount
	cat "$mnt/f-strict" "$mnt/f-strict" >/dev/null
	before=$(stat_of fuse.read)
	sleep "$2"
	cat "$mnt/f-strict" >/dev/null
	echo $(($(stat_of fuse.read) - before))
	"$t" umount "$mnt"
}
equal 'pages kept' 0 "$(reads data-cache=on 0)"
equal 'pages kept for a while' 0 "$(reads data-cache=1h 0)"
ok 'and no longer' test "$(reads data-cache=200ms 0.4)" -gt 0
ok 'otoc' test "$(reads data-cache=otoc 0)" -gt 0
ok 'off' test "$(reads data-cache=off 0)" -gt 0

# ---- a file system of one mode ----
rm -rf "$fs"
says 1 'whole mount' "$t" mkfs "$fs" --mode private
says 1 'strict, commit' "$t" mkfs "$fs" --mode posix
MKFS_ARGS='--mode commit' start
json "v['mode'] == 'commit' and v['from'] == 'file system'" "$t" mode show "$mnt" --json
ok 'umount' "$t" umount "$mnt"
says 1 'mode=commit \(of the file system\),nocto' "$t" mount "$fs" "$mnt" -o nocto
ok 'it beats the mount' "$t" mount "$fs" "$mnt" -o mode=lazy
json "v['mode'] == 'commit' and v['from'] == 'file system'" "$t" mode show "$mnt" --json
echo x >"$mnt/f"
ok 'and a mark beats it' "$t" setlayout "$mnt/f" -M session
json "v['mode'] == 'session' and v['from'] == 'file'" "$t" mode show "$mnt" "$mnt/f" --json
ok 'umount' "$t" umount "$mnt"
ok 'private has its own' "$t" mount "$fs" "$mnt" -o mode=private
json "v['mode'] == 'private'" "$t" mode show "$mnt" --json
stop
