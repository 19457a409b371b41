#!/bin/sh
# Builds the Debian packages of the last commit for Debian 12 and 13, each in a root of that release, into build/release:
#
#   sh deploy/deb.sh [ARCHITECTURE]    for this machine, or compiled for another one, such as arm64
#
# Equal commits give equal bytes. Without git, in an unpacked source archive, it builds the tree.
# Exit codes: 0 built; 0 not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1: 1); 1 failed.
# With QS_DEB_DIR=DIRECTORY it builds in that directory of the root, and leaves the packages there (for tests/deb). With
# QS_DEB_RELEASES=13:trixie it builds for one release only.
set -eu
cd "$(dirname "$0")/.."
own=$(dpkg --print-architecture)
arch=${1:-$own}
out=$PWD/build/release

impossible() {
    echo "deb: skipped: $1"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
}

# Writes the tree with its debian directory into a new directory. A file of a git archive has the time of the commit.
source_tree() { # directory, number of the Debian release
    rm -rf "$1"
    mkdir -p "$1"
    if [ -e .git ]; then git archive HEAD; else tar --exclude=./build -cf - .; fi | tar -xf - -C "$1"
    SOURCE_DATE_EPOCH=$(stat -c %Y "$1/.commit")
    export SOURCE_DATE_EPOCH
    cp -R "$1/deploy/debian" "$1/debian"
    (cd "$1" && sh debian/changelog.sh "$2" >debian/changelog)
}

# Builds in a root. Fetches missing packages first, also the compiler: build-dep brings none for another architecture.
# shellcheck disable=SC2016 # expands in the root
in_root='
    cd "$1"
    gcc=$(dpkg-architecture -a "$2" -q DEB_HOST_GNU_TYPE 2>/dev/null)-gcc
    if ! dpkg-checkbuilddeps -a "$2" 2>/dev/null || ! command -v "$gcc"; then
        export DEBIAN_FRONTEND=noninteractive
        [ "$2" = "$(dpkg --print-architecture)" ] || dpkg --add-architecture "$2"
        apt-get -q update
        apt-get -q -y --no-install-recommends build-dep -a "$2" ./
        command -v "$gcc" || apt-get -q -y --no-install-recommends install "gcc-$(echo "${gcc%-gcc}" | tr _ -)"
    fi
    dpkg-buildpackage -a "$2" -b -us -uc'

build() { # number and name of the Debian release
    base=build/deb/$2
    code=0
    sh tests/support/debian_root.sh "$2" "$base" build-essential,ca-certificates || code=$?
    [ $code != 77 ] || impossible "no Debian $1 to build in (above)"
    [ $code = 0 ] || exit $code
    work=${QS_DEB_DIR:-/build/$arch}
    source_tree "$base/root$work/queue-sidecar" "$1"
    rm -f "$base/root$work"/*.*
    echo "deb: Debian $1, $arch: $(sed -n '1s/ unstable.*//p' "$base/root$work/queue-sidecar/debian/changelog")"
    sh tests/support/in_root.sh "$base/root" env SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" DEB_BUILD_OPTIONS="parallel=$(nproc)" \
        sh -euc "$in_root" - "$work/queue-sidecar" "$arch" >"$base/build.log" 2>&1 </dev/null || {
        tail -n 40 "$base/build.log"
        echo "deb: not built for Debian $1 (above, or $base/build.log)"
        exit 1
    }
    rm -rf "$base/root$work/queue-sidecar"
    [ -z "${QS_DEB_DIR:-}" ] || return 0
    mkdir -p "$out"
    rm -f "$out"/queue-sidecar*+deb"$1"_"$arch".deb
    cp "$base/root$work"/*.deb "$out"
}

unshare --mount true 2>/dev/null || impossible "this machine gives no mount namespace (unshare --mount)"
[ -z "$(git status --porcelain 2>/dev/null)" ] || echo "deb: the tree has changes that are not committed; the packages are of the last commit"
for release in ${QS_DEB_RELEASES:-12:bookworm 13:trixie}; do build "${release%:*}" "${release#*:}"; done
[ -z "${QS_DEB_DIR:-}" ] || exit 0
for file in "$out"/*_"$arch".deb; do echo "deb: ${file#"$PWD/"}, $(wc -c <"$file") bytes"; done
