#!/bin/sh
# Checks the version of a build. Between releases it names the commit, in a clone and in a source archive; a release is a number.
set -eu
cd "$(dirname "$0")/../.."
[ -e .git ] || { echo "version: skipped: this tree is not in git" && exit; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
is() { # expected, tree, version
    found=$(make -s --no-print-directory -C "$2" version VERSION="$3" MAKEFLAGS= 2>/dev/null)
    [ "$found" = "$1" ] && return
    echo "sidecar/commit.sh:1: a build of $3 in $2 says $found: it must say $1"
    exit 1
}
commit=$(git rev-parse HEAD | cut -c 1-9)
mkdir "$dir/archive" "$dir/copy"
git archive HEAD Makefile sidecar .commit | tar -xf - -C "$dir/archive"
git clone -q --shared --no-checkout . "$dir/clone"
git -C "$dir/clone" reset -q --hard
cp -R "$dir/archive/Makefile" sidecar .commit "$dir/copy"
is "1.2.3-dev+g$commit" "$dir/archive" 1.2.3-dev
is "1.2.3-dev+g$commit" "$dir/clone" 1.2.3-dev
is 1.2.3-dev "$dir/copy" 1.2.3-dev
is 1.2.3 "$dir/clone" 1.2.3
echo >>"$dir/clone/README.md"
is "1.2.3-dev+g$commit-dirty" "$dir/clone" 1.2.3-dev
echo "version: ok"
