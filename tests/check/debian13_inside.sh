#!/bin/sh
# The part of debian13_suite.sh that runs inside the Debian 13 root.
set -eu
cd "$(dirname "$0")/../.."
QS_CLIENTS_REQUIRED=${QS_ROOT_REQUIRED:-} sh deploy/deps.sh valkey # not for the suite: it would require clients that the root lacks
echo "== building: $(gcc --version | head -n 1), hiredis $(pkg-config --modversion hiredis), libconfig $(pkg-config --modversion libconfig), SQLite $(sqlite3 --version | cut -d' ' -f1)"
make -s -j2 suite
[ "${1:-}" != build ] || exit 0
failed=
jobs=$((4 * $(nproc)))
[ "$jobs" -le 8 ] || jobs=8
run() { # server, filter
    echo "== $2 with $("$1" --version | cut -d' ' -f1-3)"
    QS_REDIS_SERVER_BIN=$(command -v "$1") timeout --foreground -k 10 1200 build/tests/suite -j"$jobs" --filter "$2" </dev/null || failed="$failed $1"
}
# With Valkey run the tests of scripts, and those of whole sidecars in which the server may make a difference: its replies, its tracking,
# its Cluster, its failovers. redis_auditor_writer is left out: it fails writes of the audit log, which is a file.
if [ "$QS_FILTER" = '*' ]; then
    run valkey-server '@(redis_!(auditor_writer)|daemon_@(auditor|bull|clients*|cluster*|delayed*|groups*|kmqueue*|leader|monitor|password|private|promises|redis|requeue*|sentinel|tls))/*'
    run redis-server '*'
else
    run valkey-server "$QS_FILTER"
    run redis-server "$QS_FILTER"
fi
[ -z "$failed" ] || echo "FAILED with:$failed"
[ -z "$failed" ]
