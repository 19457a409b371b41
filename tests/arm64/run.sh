#!/bin/sh
# Compiles the tree for arm64 and runs the tests of functions under qemu.
#
#   sh tests/arm64/run.sh                 unit_* and redis_*; those of alone.list after the others, one at a time
#   sh tests/arm64/run.sh quick           unit_*, without those of the audit log, which take most of the time
#   sh tests/arm64/run.sh 'unit_json/*'   these
#
# Headers and libraries are those of this machine's Debian release, in build/arm64/root. Programs that a test starts, such as
# redis-server, are those of this machine.
# Exit codes: 0 all passed, or not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1 that is 1), 1 failed.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
filter=${1:-}
packages=libc6-dev,libconfig-dev,libcriterion-dev,libgnutls28-dev,libhiredis-dev,libmicrohttpd-dev,libsqlite3-dev,nettle-dev

possible() { # exit code; 77 = impossible, and a line has said why
    [ "$1" != 77 ] || [ "${QS_CLIENTS_REQUIRED:-}" = 1 ] || exit 0
    [ "$1" = 0 ] || exit 1
}
code=0
# shellcheck disable=SC1091
sh tests/support/debian_root.sh "$(. /etc/os-release && echo "$VERSION_CODENAME")" build/arm64 $packages arm64 || code=$?
possible $code
sh tests/support/emulate.sh true || code=$?
possible $code

names() { sed -n "s|^\\([a-z0-9_]*\\)/\\([a-z0-9_]*\\)  .*|\\$1|p" tests/arm64/alone.list | sort -u | paste -sd '|'; } # 1 suites, 2 tests
alone=
if [ -z "$filter" ]; then
    filter="@(unit|redis)_*/!($(names 2))" alone="@($(names 1))/@($(names 2))"
fi
set -- -s -j2 ARCH=arm64 SANITIZER= PROGRESS=yes suite
if [ "$filter" = quick ]; then
    filter='unit_!(audit*)/*'
    set -- "$@" TEST_SRC="$(find tests -name 'unit_*.c' -o -path 'tests/support/*.c' ! -name 'shim_*' | sort | tr '\n' ' ')"
fi
echo "test-arm64: compiling"
${MAKE:-make} "$@"
export QEMU_LD_PREFIX="$top/build/arm64/root" QS_DAEMON="$top/build/arm64/queue-sidecar" QS_TEST_SLOW="${QS_TEST_SLOW:-5}"
run() { # jobs, filter
    echo "test-arm64: running $2"
    sh tests/support/emulate.sh timeout --foreground -k 10 1800 build/arm64/tests/suite -j"$1" --filter "$2" </dev/null || code=1
}
run $((2 * $(nproc))) "$filter"
[ -z "$alone" ] || run 1 "$alone"
[ $code = 0 ] && echo "test-arm64: ok"
