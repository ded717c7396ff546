#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# radosgw again, which speaks Swift too, in its own way. What depends on the store only is enough by default.
: "${PHASES:=contract tree counters mpi killed}"
. tests/servers/suite.bash
. tests/servers/rgw.bash
uri="swift://$TESS_CONTAINER"
count() { tests/servers/objects swift "$ST_AUTH" "$ST_USER" "$ST_KEY" "$TESS_CONTAINER" count "$1/"; }
run_phases
