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
# Left out with Valkey, because the server makes no difference. They run with Redis 8.0:
# - daemon_audit_*: commands on audit logs, which are files. daemon_auditor and redis_auditor* copy from streams of Valkey, too;
# - redis_auditor_writer: writes and syncs of the audit log that fail;
# - daemon_completion, daemon_tls_files, daemon_demo: shells and files; the demo starts redis-server by this name;
# - daemon_http, daemon_sd_notify, daemon_status_watch: HTTP clients, the service manager, terminals;
# - daemon_monitor_memory: memory of the sidecar.
if [ "$QS_FILTER" = '*' ]; then
    run valkey-server '@(redis_!(auditor_writer)|daemon_!(audit_*|completion|demo|http|monitor_memory|sd_notify|status_watch|tls_files))/*'
    run redis-server '*'
else
    run valkey-server "$QS_FILTER"
    run redis-server "$QS_FILTER"
fi
[ -z "$failed" ] || echo "FAILED with:$failed"
[ -z "$failed" ]
