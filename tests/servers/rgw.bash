# SPDX-License-Identifier: Apache-2.0
# Sourced: a radosgw with a cluster of its own; what is killed is the gateway.
boot ceph "$TESS_TMP/ceph" 1 rgw
server_kill() { tests/servers/ceph kill "$server_dir" rgw; }
server_start() { tests/servers/ceph run "$server_dir" rgw; }
server_pause() { tests/servers/ceph pause "$server_dir" rgw; }
server_cont() { tests/servers/ceph cont "$server_dir" rgw; }
