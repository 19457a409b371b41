#!/bin/sh
# Runs the tests that call functions against a redis-server, with Redis 6.2: the oldest version that the program takes.
#
#   sh tests/check/redis62_suite.sh          QS_FILTER='redis_conn/*' runs only these tests
#
# Build the suite first. Exit codes: 0 all passed, or not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1
# that is 1), 1 failed.
set -u
cd "$(dirname "$0")/../.." || exit 1
jobs=$((4 * $(nproc)))
[ "$jobs" -le 8 ] || jobs=8

server=$(sh tests/support/redis62.sh)
code=$?
if [ $code = 77 ]; then
    echo "test-redis62: skipped: no Redis 6.2 (above)"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
fi
[ $code = 0 ] || exit $code
QS_REDIS_SERVER_BIN=$server exec build/tests/suite -j"$jobs" --filter "${QS_FILTER:-redis_*/*}" </dev/null
