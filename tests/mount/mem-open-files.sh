#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# 1,000 files open and being written, cache-size=64M: memory stays inside the budget.
exec "$TESS_PROGS/mount/openfiles"
