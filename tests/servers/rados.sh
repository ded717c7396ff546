#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything on RADOS.
. tests/servers/suite.bash
boot ceph "$TESS_TMP/ceph"
uri=$TESS_URI
count() { rados -n client.admin -p data -N "$1" ls | wc -l; }
server_kill() { tests/servers/ceph kill "$server_dir" osd.0; }
server_start() { tests/servers/ceph run "$server_dir" osd.0; }
server_pause() { tests/servers/ceph pause "$server_dir" osd.0; }
server_cont() { tests/servers/ceph cont "$server_dir" osd.0; }
run_phases
