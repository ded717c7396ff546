#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs live on the mount: built there, run from there, run as another user, with a script in front.
. tests/mount/functions.bash
start
chmod 755 "$mnt"
cd "$mnt" || exit 1
cat >hello.c <<'C'
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("hello %d\n", (int)geteuid()); return 0; }
C
ok 'compile' "${CC:-cc}" -o hello hello.c
equal 'run' "hello $(id -u)" "$(./hello)"
printf '#!/bin/sh\necho script\n' >s.sh
chmod +x s.sh
equal 'script' script "$(./s.sh)"
chmod -x s.sh
fails 'not executable' ./s.sh
if [ "$(id -u)" = 0 ]; then
	chown 1234 hello
	chmod 4755 hello
	equal 'suid' 'hello 1234' "$(setpriv --reuid=1000 --clear-groups ./hello)"
	cp hello busy
fi
cp /bin/sleep busy
./busy 5 & pid=$!
wait_for 2 grep -q busy "/proc/$pid/comm"
fails 'text busy' sh -c 'echo x >>busy'
kill $pid
wait $pid 2>/dev/null
mkdir many
for i in 1 2 3 4 5 6 7 8; do
	printf 'int f%d(void) { return %d; }\n' $i $i >many/f$i.c
done
printf 'OBJS = f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\nlib.a: $(OBJS)\n\tar rc $@ $(OBJS)\n' >many/Makefile
ok 'make' make -s -j4 -C many
equal 'nothing to be done twice' "make: 'lib.a' is up to date." "$(LC_ALL=C make --no-print-directory -C many)"
equal 'all members' 8 "$(ar t many/lib.a | wc -l)"
cd / || exit 1
stop
