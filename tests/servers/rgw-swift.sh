#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything on radosgw again, which speaks Swift too, in its own way.
. tests/servers/suite.bash
. tests/servers/rgw.bash
uri="swift://$TESS_CONTAINER"
count() { tests/servers/objects swift "$ST_AUTH" "$ST_USER" "$ST_KEY" "$TESS_CONTAINER" count "$1/"; }
run_phases
