#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything on MinIO, over TLS with a certificate of its own.
export SERVER=minio TLS=1
. tests/servers/s3.sh
