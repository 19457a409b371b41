#!/bin/sh
# Builds the tree inside a Debian 13 root, with the compiler and libraries of Debian 13 (hiredis 1.2, libconfig 1.7), and runs the
# whole suite there with Redis 8.0. Tests that use Redis also run with Valkey 8.1.
#
#   sh tests/check/debian13_suite.sh          QS_FILTER='daemon_*/*' runs only these tests
#   sh tests/check/debian13_suite.sh build    only builds
#
# The root is build/debian13/suite. Run this as root.
# Exit codes: 0 all passed, or not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1 that is 1), 1 failed.
set -eu
cd "$(dirname "$0")/../.."
top=$(pwd)
base=$top/build/debian13
root=$base/suite

impossible() {
    echo "test-debian13: skipped: $1"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
}
code=0
sh tests/support/debian13.sh >/dev/null || code=$?
[ "$code" != 77 ] || impossible "no root of it (above)"
[ "$code" = 0 ] || exit "$code"
unshare --mount true 2>/dev/null || impossible "this machine gives no mount namespace (unshare --mount)"

if ! cmp -s "$base/stamp" "$root/.made"; then
    echo "== copying the root"
    rm -rf "$root"
    cp -a "$base/root" "$root"
    cp "$base/stamp" "$root/.made"
fi
# Copies the files that git tracks and new files. The objects of the last run stay.
mkdir -p "$root/src"
find "$root/src" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
    [ ! -e "$file" ] || printf '%s\n' "$file"
done | tar -cf - -T - | tar -xf - -C "$root/src"

exec sh tests/support/in_root.sh "$root" env QS_FILTER="${QS_FILTER:-*}" QS_TEST_SLOW="${QS_TEST_SLOW:-1}" \
    QS_ROOT_REQUIRED="${QS_CLIENTS_REQUIRED:-}" sh /src/tests/check/debian13_inside.sh "$@"
