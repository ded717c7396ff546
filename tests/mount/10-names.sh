#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names, links, rename, listings: as POSIX and Linux say.
. tests/mount/functions.bash
start
posix name
equal 'the root is empty again' '' "$(ls -A "$mnt")"
stop
