#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Modes, owners, times, extended attributes: as POSIX and Linux say.
. tests/mount/functions.bash
start
posix attr
stop
