#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything on the S3 server that is on the PATH: versitygw, or what SERVER says.
. tests/servers/suite.bash
boot s3 "$TESS_TMP/s3"
uri=$TESS_URI
count() { $TESS_COUNT count "$1/"; }
run_phases
