# SPDX-License-Identifier: Apache-2.0
#
# swift_servers.py DIR MEMCACHED_PORT: Swift's four servers with one device and one replica, as green threads of
# one process or (PROCESSES=4) as a process each. Started by tests/servers/swift.
#
# Swift's own launchers read /etc/swift and want ports that are known beforehand; here every socket is
# bound first, to whatever port is free, and the rings are made of those.
import configparser
import logging
import os
import random
import socket as plain_socket
import sys
import warnings
from array import array

from swift.common import utils

warnings.simplefilter('ignore')
utils.eventlet_monkey_patch()
DIR, MEMCACHED = sys.argv[1], int(sys.argv[2])
with open(DIR + '/swift.conf', 'w') as f:
    f.write('[swift-hash]\nswift_hash_path_suffix = a\nswift_hash_path_prefix = b\n'
            '[storage-policy:0]\nname = only\ndefault = yes\n'
            '[swift-constraints]\nmax_file_size = %s\n' % os.environ['MAX_FILE_SIZE'])
utils.set_swift_dir(DIR)

import eventlet  # noqa: E402
from eventlet import debug, wsgi  # noqa: E402
from eventlet.green import socket, ssl  # noqa: E402
from swift.common import constraints, storage_policy  # noqa: E402
from swift.common.ring import RingData  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp  # noqa: E402

# The modules were loaded before swift_dir was ours.
constraints.reload_constraints()
storage_policy.reload_storage_policies()

DEFAULT = '''[DEFAULT]
bind_ip = 127.0.0.1
bind_port = %(port)d
swift_dir = %(dir)s
devices = %(dir)s/node
mount_check = false
disable_fallocate = true
fallocate_reserve = 0
log_level = WARNING
log_custom_handlers = __main__.log_to_stderr
recon_cache_path = %(dir)s/cache
recon_lock_path = %(dir)s/lock
'''
PROXY = DEFAULT + '''
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk tempurl tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
object_chunk_size = 262144
client_chunk_size = 262144
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:%(memcached)d
# A proxy that hears nothing of memcached for 0.3 s, the default, calls good tokens bad.
conn_timeout = 5
io_timeout = 10
memcache_max_connections = 500
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
delete_container_retry_count = 0
[filter:tempurl]
use = egg:swift#tempurl
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
user_test2_tester2 = testing2 .admin
token_life = %(token_life)s
storage_url_scheme = default
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
min_segment_size = 1
[filter:dlo]
use = egg:swift#dlo
'''
SERVER = DEFAULT + '''
[pipeline:main]
pipeline = %(name)s-server
[app:%(name)s-server]
use = egg:swift#%(name)s
'''
OBJECT = '''network_chunk_size = 262144
disk_chunk_size = 262144
mb_per_sync = 4096
'''


def log_to_stderr(conf, name, to_console, route, fmt, logger, adapted):
    if not any(getattr(h, 'ours', False) for h in logger.handlers):
        h = logging.StreamHandler(sys.__stderr__)
        h.ours = True
        logger.addHandler(h)


def known_ports():
    try:
        with open(DIR + '/ports') as f:
            return dict(line.strip().split('=') for line in f)
    except FileNotFoundError:
        return {}


# Below what the kernel gives to clients: one that connects again and again to a server that is down
# would else meet itself one day.
def bind(port):
    s = socket.socket(plain_socket.AF_INET, plain_socket.SOCK_STREAM)
    s.setsockopt(plain_socket.SOL_SOCKET, plain_socket.SO_REUSEADDR, 1)
    s.setsockopt(plain_socket.IPPROTO_TCP, plain_socket.TCP_NODELAY, 1)
    for tries in range(100):
        try:
            s.bind(('127.0.0.1', port or random.randrange(10000, 32000)))
            break
        except OSError:
            if port or tries == 99:
                raise
    s.listen(4096)
    return s


def write_conf(name, port):
    path = '%s/%s.conf' % (DIR, name)
    text = PROXY if name.startswith('proxy') else SERVER + (OBJECT if name == 'object' else '')
    with open(path, 'w') as f:
        f.write(text % {'port': port, 'dir': DIR, 'name': name, 'memcached': MEMCACHED,
                        'token_life': os.environ['TOKEN_LIFE']})
    return path


def write_ring(i, name, port):
    dev = {'id': 0, 'region': 1, 'zone': 1, 'weight': 1.0, 'ip': '127.0.0.1', 'port': port,
           'replication_ip': '127.0.0.1', 'replication_port': port, 'device': 'd1', 'meta': ''}
    RingData([array('H', [0] * 16)], [dev], 32 - 4).save('%s/%s.ring.gz' % (DIR, name))


def serve(name, sock, path):
    if name == 'proxy_tls':
        sock = ssl.wrap_socket(sock, certfile=DIR + '/server.crt', keyfile=DIR + '/server.key',
                               server_side=True) if hasattr(ssl, 'wrap_socket') else tls_of(sock)
    app = loadapp(path, global_conf={'log_name': name})
    wsgi.server(sock, app, utils.NullLogger(), custom_pool=eventlet.GreenPool(4096),
                protocol=SwiftHttpProtocol, minimum_chunk_size=1, log_output=False,
                capitalize_response_headers=False, keepalive=True)


def tls_of(sock):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(DIR + '/server.crt', DIR + '/server.key')
    return c.wrap_socket(sock, server_side=True)


def start_time(pid):
    with open('/proc/%d/stat' % pid) as f:
        return f.read().rsplit(')', 1)[1].split()[19]


def main():
    names = ['account', 'container', 'object', 'proxy']
    if os.environ['TLS'] != '0':
        names.append('proxy_tls')
    for d in ('node/d1', 'cache', 'lock'):
        os.makedirs('%s/%s' % (DIR, d), exist_ok=True)
    old = known_ports()
    socks = {n: bind(int(old.get(n, 0))) for n in names}
    ports = {n: s.getsockname()[1] for n, s in socks.items()}
    paths = {n: write_conf(n, ports[n]) for n in names}
    for i, n in enumerate(names[:3]):
        write_ring(i, n, ports[n])
    mine = names
    if os.environ['PROCESSES'] != '1':
        mine = names[3:]
        for n in names[:3]:
            pid = os.fork()
            if pid == 0:
                mine = [n]
                break
            with open(DIR + '/pids', 'a') as f:
                f.write('%d %s %s\n' % (pid, start_time(pid), n))
    for n in names:
        if n not in mine:
            socks[n].close()
    eventlet.hubs.use_hub(utils.get_hub())
    debug.hub_exceptions(False)
    for n in mine:
        eventlet.spawn(serve, n, socks[n], paths[n])
    if 'proxy' in mine:
        for f in ('ports', 'ready'):
            with open(DIR + '/.' + f, 'w') as out:
                out.writelines('%s=%d\n' % p for p in ports.items())
            os.rename(DIR + '/.' + f, DIR + '/' + f)
    while True:
        eventlet.sleep(3600)


main()
