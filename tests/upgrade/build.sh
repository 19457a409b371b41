#!/bin/sh
# Builds the previous release from the commit in the file `previous`, if not built yet, and prints the path of its program:
# build/upgrade/COMMIT/queue-sidecar.
#
# Exit codes: 0 built, 77 not possible on this machine (one line says why), 1 failed.
set -eu
cd "$(dirname "$0")/../.."
read -r version commit <tests/upgrade/previous
dest=$PWD/build/upgrade/$commit
program=$dest/queue-sidecar

impossible() {
    echo "upgrade: skipped: $1" >&2
    exit 77
}

failed() {
    echo "upgrade: version $version does not build: $(tail -n 1 "$dest/log") (see $dest/log)" >&2
    exit 1
}

mkdir -p "$dest"
exec 9>"$dest/lock"
flock 9
if [ ! -x "$program" ]; then
    command -v git >/dev/null || impossible "git is not installed"
    git rev-parse --git-dir >/dev/null 2>&1 || impossible "this tree is no git repository, so it has no history"
    git cat-file -e "$commit^{commit}" 2>/dev/null || impossible "the history lacks $commit of version $version (run git fetch --unshallow)"
    rm -rf "$dest/tree"
    mkdir "$dest/tree"
    git archive "$commit" | tar -xf - -C "$dest/tree"
    # A make above this one may have passed variables on, such as SANITIZER.
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL "${MAKE:-make}" -s -j2 -C "$dest/tree" CFLAGS=-O0 all >"$dest/log" 2>&1 9>&- || failed
    mv "$dest/tree/build/queue-sidecar" "$program.new"
    "$program.new" version >"$dest/log" 2>&1 || failed
    grep -qwF "$version" "$dest/log" || failed
    mv "$program.new" "$program"
    rm -rf "$dest/tree"
fi
echo "$program"
