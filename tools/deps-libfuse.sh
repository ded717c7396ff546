#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a newer libfuse (>= 3.18, for FUSE over io_uring) from Debian's own source package into a private
# prefix, touching neither the system's libfuse nor its package lists. Then:
#   make BUILD=build-uring CONFIGURE_ARGS=--with-fuse=PREFIX
# usage: deps-libfuse.sh PREFIX
set -eu

prefix=${1:?usage: deps-libfuse.sh PREFIX}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
	meson ninja-build gcc pkg-config liburing-dev libnuma-dev libudev-dev dpkg-dev xz-utils >/dev/null

# A package index of our own: sources of the newest suite, nothing to install from.
mkdir -p lists/partial cache/archives/partial src
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main" >sources.list
apt="-o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$work/lists -o Dir::Cache=$work/cache -o APT::Sandbox::User=root"
# shellcheck disable=SC2086
apt-get $apt update >/dev/null
cd src
# shellcheck disable=SC2086
apt-get $apt source fuse3 >/dev/null
cd fuse3-*/

meson setup build --prefix="$prefix" --libdir=lib --buildtype=release -Denable-io-uring=true \
	-Dutils=false -Dexamples=false -Dtests=false -Ddefault_library=shared >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
ninja -C build >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
# utils=false: fusermount3 stays the system's setuid one.
ninja -C build install >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion fuse3
