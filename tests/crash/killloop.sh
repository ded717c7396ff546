#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed at random under load, again and again. ROUNDS=1000 for the long run.
exec "$TESS_PROGS/crash/killloop"
