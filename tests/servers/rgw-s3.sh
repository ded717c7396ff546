#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything on radosgw, the S3 server that every Debian has.
. tests/servers/suite.bash
. tests/servers/rgw.bash
uri="s3://$TESS_BUCKET?endpoint=$AWS_ENDPOINT_URL"
count() { tests/servers/objects s3 "$AWS_ENDPOINT_URL" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" "$TESS_BUCKET" count "$1/"; }
run_phases
