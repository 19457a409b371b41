#!/bin/sh
# Makes a release of the last commit in two clones, which differ in path, umask and time zone, and tests the files.
#
#   [PARTS="source chart"] sh tests/release/run.sh [test_release.Signature ...]
#
# The clones stay in build/release-test. Tests of parts that are not in PARTS are skipped. Exit codes: 0 all passed, 1 failed.
set -eu
cd "$(dirname "$0")/../.."
place=$PWD/build/release-test
validator=spdx-tools==0.8.5
export PARTS="${PARTS:-source deb image chart}" MAKE="${MAKE:-make}"
# shellcheck source=deploy/again.sh
. deploy/again.sh

[ -z "$(git status --porcelain)" ] || echo "test-release: it tests the last commit, without the changes of this tree"
mkdir -p "$place"
exec 9>"$place/lock"
flock 9

fetch() { python3 -m venv "$place/venv" && timeout 300 "$place/venv/bin/pip" install -q "$validator"; }
if [ "$(cat "$place/fetched" 2>/dev/null)" != "$validator" ]; then
    if again "$place/log" fetch; then
        echo "$validator" >"$place/fetched"
    else
        echo "test-release: no SBOM will be validated: $(tail -n 1 "$place/log" | cut -c1-200)"
        [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || exit 1
    fi
fi

# The Debian roots of this tree serve the clones, too. Each clone builds in them anew.
export QS_DEBIAN13_DIR="${QS_DEBIAN13_DIR:-$PWD/build/debian13}"
clone() { # directory, umask, time zone
    rm -rf "$1"
    git clone -q --no-tags . "$1"
    mkdir -p "$1/build" build/deb
    ln -s "$PWD/build/deb" "$1/build/deb"
    (umask "$2" && cd "$1" && TZ=$3 nice env -u MAKEFLAGS -u MAKELEVEL "$MAKE" -s release PARTS="$PARTS")
}
clone "$place/one" 022 UTC
clone "$place/of-another/machine" 077 Asia/Kathmandu
export QS_RELEASES="$place/one:$place/of-another/machine" QS_VALIDATOR="$place/venv/bin/pyspdxtools" PYTHONDONTWRITEBYTECODE=1
[ $# -gt 0 ] || set -- discover
cd tests/release
exec python3 -m unittest "$@" </dev/null
