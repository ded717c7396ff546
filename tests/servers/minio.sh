#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MinIO, over TLS with a certificate of its own. What depends on the store only is enough by default.
: "${PHASES:=contract tree counters mpi killed}"
export SERVER=minio TLS=1
. tests/servers/s3.sh
