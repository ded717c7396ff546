#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# POSIX ACLs: kept, inherited, checked, in step with the mode.
. tests/mount/functions.bash
command -v setfacl >/dev/null || { echo 'setfacl is missing'; exit 77; }
[ "$(id -u)" = 0 ] || { echo 'not root'; exit 77; }
start
chmod 755 "$mnt"
umask 022
cd "$mnt" || exit 1
acl() { getfacl -cpnE "$1" | tr '\n' ' ' | sed 's/ *$//'; }
as() { setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }

echo x >f
chmod 600 f
fails 'a stranger may not read' as 1000 cat f
ok 'setfacl' setfacl -m u:1000:r f
equal 'as set' 'user::rw- user:1000:r-- group::--- mask::r-- other::---' "$(acl f)"
equal 'the mask is the group class' 640 "$(stat -c %a f)"
ok 'the named user may' as 1000 cat f
fails 'another may not' as 1001 cat f
ok 'chmod' chmod 600 f
equal 'chmod sets the mask' 'user::rw- user:1000:r-- group::--- mask::--- other::---' "$(acl f)"
sleep 1.1
fails 'and takes the right away' as 1000 cat f
ok 'removal' setfacl -b f
equal 'minimal' 'user::rw- group::--- other::---' "$(acl f)"

mkdir d
ok 'default' setfacl -d -m u:1000:rwx,g::r-x,o::--- d
umask 077
echo x >d/f
mkdir d/e
umask 022
equal 'a file inherits, the umask does not count' 'user::rw- user:1000:rwx group::r-x mask::rw- other::---' "$(acl d/f | sed 's/\t#[^ ]*//g')"
equal 'its mode' 660 "$(stat -c %a d/f)"
equal 'a directory inherits both' 1 "$(getfacl -cpnE d/e | grep -c '^default:user:1000:rwx')"
ok 'removal of defaults' setfacl -k d
umask 027
echo x >d/g
equal 'the umask counts again' 640 "$(stat -c %a d/g)"
umask 022
setfacl -m u:1000:rw d/f
cp -a d/f copy
equal 'cp -a copies' "$(acl d/f)" "$(acl copy)"
cd / || exit 1
before=$(getfacl -cpnE "$mnt/d/f" "$mnt/d/e")
ok 'umount' "$t" umount "$mnt"
remount
equal 'after a remount' "$before" "$(getfacl -cpnE "$mnt/d/f" "$mnt/d/e")"
stop
