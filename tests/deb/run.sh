#!/bin/sh
# Tests the packages that `make deb` has built: lintian, equal bytes of a second build, and their life on a booted Debian 12 and 13.
# Packages of arm64 are built, judged by lintian, and installed in roots of arm64 under qemu.
#
#   sh tests/deb/run.sh [test_deb.Package.test_an_installation_starts_nothing ...]    with names: only these tests
#
# QS_DEB_RELEASES=13:trixie tests one release only.
# Exit codes: 0 all passed, or not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1 that is 1), 1 failed.
set -eu
cd "$(dirname "$0")/../.."
releases=${QS_DEB_RELEASES:-12:bookworm 13:trixie}
out=$PWD/build/release
arch=$(dpkg --print-architecture)

impossible() {
    echo "test-deb: skipped: $1"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
}
fail() {
    echo "test-deb: FAILED: $1"
    exit 1
}

# Prints what a package depends on, as names with commas.
needs() { dpkg-deb -f "$1" Depends | sed 's/ *([^)]*)//g; s/ *|[^,]*//g; s/ //g'; }

# Prints the path of a package: name, number of the Debian release.
package() { echo "$out/$1"_*+deb"$2"_"$arch".deb; }

# Builds again in another directory of the roots, and judges both builds.
rebuild_and_lint() {
    QS_DEB_DIR=/build/again nice sh deploy/deb.sh
    QS_DEB_DIR=/build/arm64 nice sh deploy/deb.sh arm64
    for release in $releases; do
        root=build/deb/${release#*:}/root
        for first in "$out"/queue-sidecar*+deb"${release%:*}"_"$arch".deb; do
            cmp "$first" "$root/build/again/${first##*/}" || fail "two builds of ${first##*/} differ"
        done
        [ -x "$root/usr/bin/lintian" ] || sh tests/support/in_root.sh "$root" env DEBIAN_FRONTEND=noninteractive sh -euc '
            apt-get -q update
            apt-get -q -y --no-install-recommends install lintian' >"build/deb/${release#*:}/lintian.log" 2>&1 </dev/null ||
            impossible "no lintian: $(tail -n 1 "build/deb/${release#*:}/lintian.log")"
        # Debian 12 misses a script for other init systems. Only systemd is supported.
        known=
        [ "${release%:*}" != 12 ] || known="--suppress-tags package-supports-alternative-init-but-no-init.d-script"
        sh tests/support/in_root.sh "$root" sh -c "lintian --allow-root --fail-on error,warning,info --display-info --tag-display-limit 0 \
            $known /build/again/*.changes /build/arm64/*.changes" || fail "lintian of Debian ${release%:*}"
    done
    echo "test-deb: two builds are equal; lintian says nothing"
}

# Makes a package of an earlier version: another config is in it, and where this machine has the libraries also the program of the
# previous release.
previous() { # number and name of the Debian release, file to write
    work=build/deb/$2/previous
    rm -rf "$work"
    dpkg-deb --raw-extract "$(package queue-sidecar "$1")" "$work"
    sed -i "s/^Version: .*/Version: 0.1.0-1+deb$1/" "$work/DEBIAN/control"
    echo "# as of the previous version" >>"$work/etc/queue-sidecar/queue-sidecar.cfg"
    # shellcheck disable=SC1091
    if [ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = "$2" ] && program=$(sh tests/upgrade/build.sh); then
        cp "$program" "$work/usr/bin/queue-sidecar"
    fi
    (cd "$work" && find etc usr -type f -exec md5sum {} + | grep -v ' etc/' >DEBIAN/md5sums)
    dpkg-deb --root-owner-group --build "$work" "$3" >/dev/null
}

# Installs the package of arm64, runs the program, and purges the package.
# shellcheck disable=SC2016 # expands in the root
in_arm64='
    [ "$(dpkg --print-architecture) $(uname -m)" = "arm64 aarch64" ]
    apt-get -q -y --no-install-recommends install "$1"
    rm "$1"
    queue-sidecar version
    queue-sidecar check
    getent passwd queue-sidecar
    sed "s/host = .*/& tls = true; tls_verify = \"none\";/" /etc/queue-sidecar/queue-sidecar.cfg >tls.cfg
    said=$(queue-sidecar check -c tls.cfg --redis 2>&1) || echo "$said" # also the libraries that it loads by name are there
    case $said in *" refused"*) rm tls.cfg ;; *) exit 1 ;; esac
    apt-get -q -y purge queue-sidecar
    [ ! -e /usr/bin/queue-sidecar ] && [ ! -e /etc/queue-sidecar/queue-sidecar.cfg ]'

emulated() { # number and name of the Debian release
    base=build/deb/$2-arm64
    for file in build/deb/"$2"/*/build/arm64/queue-sidecar_*.deb; do deb=$file; done
    code=0
    sh tests/support/emulate.sh sh tests/support/debian_root.sh "$2" "$base" "$(needs "$deb")" arm64 || code=$?
    [ $code != 77 ] || impossible "no Debian $1 of arm64 (above)"
    [ $code = 0 ] || exit $code
    cp "$deb" "$base/root/root/"
    sh tests/support/emulate.sh sh tests/support/in_root.sh "$base/root" env DEBIAN_FRONTEND=noninteractive \
        sh -euc "$in_arm64" - "/root/${deb##*/}" >"$base/install.log" 2>&1 </dev/null || {
        tail -n 30 "$base/install.log"
        fail "the package of arm64 on Debian $1 (above, or $base/install.log)"
    }
    echo "test-deb: on Debian $2 of arm64: installed, checked, purged"
}

# Runs the tests of test_deb.py.
live() { # number and name of the Debian release, tests
    deb=$(package queue-sidecar "$1") debug=$(package queue-sidecar-dbgsym "$1") name=$2
    [ -e "$deb" ] || impossible "there is no package (make deb)"
    code=0
    sh tests/support/debian_root.sh "$name" "build/deb/$name-machine" "systemd-sysv,redis-server,$(needs "$deb")" || code=$?
    [ $code != 77 ] || impossible "no Debian $1 to boot (above)"
    [ $code = 0 ] || exit $code
    before=$PWD/build/deb/queue-sidecar_previous+deb$1.deb
    previous "$1" "$name" "$before"
    shift 2
    [ $# -gt 0 ] || set -- discover
    echo "test-deb: on Debian $name"
    (cd tests/deb && QS_ROOT=$OLDPWD/build/deb/$name-machine/root QS_DEB=$deb QS_DEB_DEBUG=$debug QS_DEB_PREVIOUS=$before \
        PYTHONDONTWRITEBYTECODE=1 python3 -m unittest "$@" </dev/null)
}

[ "$(id -u)" = 0 ] || impossible "it needs to be root"
unshare --mount --pid --fork --net --cgroup true 2>/dev/null || impossible "this machine gives no namespaces (unshare)"
[ $# -gt 0 ] || rebuild_and_lint
for release in $releases; do
    live "${release%:*}" "${release#*:}" "$@"
    [ $# -gt 0 ] || [ "$arch" = arm64 ] || emulated "${release%:*}" "${release#*:}"
done
echo "test-deb: ok"
