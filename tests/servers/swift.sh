#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything on OpenStack Swift.
. tests/servers/suite.bash
boot swift "$TESS_TMP/swift"
uri=$TESS_URI
count() { $TESS_COUNT count "$1/"; }
run_phases
