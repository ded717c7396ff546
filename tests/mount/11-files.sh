#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Bytes: as POSIX and Linux say; once in small segments, so that each file has many.
. tests/mount/functions.bash
MKFS_ARGS='-z 64k'
start
posix file
stop
