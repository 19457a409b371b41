#!/bin/sh
# The stages that `make test-all` runs after `make test`: downloads for tests with other languages and servers, all checks, manifests,
# the tests under sanitizers, the suite in a Debian 13 root, Redis 6.2, the container image, and last the tests that `make test` has skipped.
# After a failed stage the other stages still run; the exit code is 1.
# With the argument `long`: the suite TEST_ROUNDS times, the tests that QS_LONG=1 makes at least ten times as long, and the image.
set -u
cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
jobs=$((4 * $(nproc)))
[ "$jobs" -le 8 ] || jobs=8

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM

# The sanitizers of older compilers fail under the address space layout of newer kernels.
fixed=
! setarch -R true 2>/dev/null || fixed="setarch -R"

failed=
summary=
stage() { # name, command
    name=$1
    shift
    echo "== $name"
    start=$(date +%s)
    verdict=ok
    { "$@" </dev/null 2>&1 || : >"$scratch/failed"; } | tee "$scratch/output"
    if [ -e "$scratch/failed" ]; then
        rm "$scratch/failed"
        verdict=FAILED
        failed="$failed $name;"
        grep -aE '^(\[FAIL\]|\[----\] +[^ ]|FAILED|not ok)' "$scratch/output" | cut -c1-300 | head -n 12 >>"$scratch/reasons"
    fi
    took=$(($(date +%s) - start))
    summary="$summary  $name: $verdict, $took s;"
    echo "-- $name: $verdict, $took s"
}

debian13() {
    sh tests/support/debian13.sh
    code=$?
    if [ $code = 77 ] && [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]; then
        echo "tests with the servers of Debian 13 will be skipped"
        code=0
    fi
    return $code
}

redis62() {
    server=$(sh tests/support/redis62.sh)
    code=$?
    if [ $code = 77 ] && [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]; then
        echo "tests with Redis 6.2 will be skipped"
        return 0
    fi
    [ $code = 0 ] && echo "$server"
}

build() {
    $make -s -j2 SANITIZER= suite && $make -s -j2 SANITIZER=address,undefined suite && $make -s -j2 SANITIZER=thread all
}

# Reads one report. Exit code 1 = the report has only leaks of Criterion itself, without a function of a test in the stack.
is_ours() {
    awk '/^(Direct|Indirect) leak of/ { block = "leak"; own = 0; leaks++ }
        /runtime error|ERROR: .*Sanitizer|WARNING: .*Sanitizer/ && !/LeakSanitizer: detected memory leaks/ { other = 1 }
        block && /^ *#/ && !/libcriterion|libasan|asan_malloc/ && !own { own = 1; ours++ }
        /^$/ { block = "" }
        END { exit !(other || ours || !leaks) }' "$1"
}

# A leak in a test leaves Criterion's exit code 0, so each sanitizer writes to files, and a report in a file fails the stage. Criterion
# itself leaks some bytes when a test is skipped; exitcode=0 keeps this from failing the run. LeakSanitizer's note that a forked child
# does not know its parent's threads is no report. Criterion's --timeout gives sanitized tests more time than their own limits.
in_process() {
    reports=$scratch/reports
    mkdir "$reports"
    log=log_path=$reports/report:print_stacktrace=1
    ASAN_OPTIONS=$log:detect_leaks=1:detect_stack_use_after_return=1 LSAN_OPTIONS=$log:exitcode=0 UBSAN_OPTIONS=$log \
        QS_DAEMON=build/address-undefined/queue-sidecar QS_TEST_SLOW=3 \
        $fixed timeout --foreground -k 10 900 build/address-undefined/tests/suite -j"$jobs" --timeout 240 \
        --filter '@(unit|redis)_*/*'
    code=$?
    found=$(grep -lE 'Sanitizer|runtime error' "$reports"/* 2>/dev/null | while IFS= read -r file; do
        ! is_ours "$file" || echo "$file"
    done)
    [ -z "$found" ] || {
        for file in $(echo "$found" | head -n 5); do head -n 60 "$file"; done
        echo "a sanitizer wrote $(echo "$found" | wc -l) reports (the first are above)"
        code=1
    }
    return $code
}

daemons() {
    if ! $fixed build/thread/queue-sidecar version >/dev/null 2>&1; then
        echo "SKIPPED: a program built with -fsanitize=thread does not start on this kernel"
        return 0
    fi
    QS_DAEMON=build/thread/queue-sidecar QS_TEST_SLOW=4 \
        $fixed timeout --foreground -k 10 900 build/tests/suite -j"$jobs" --timeout 240 --filter 'daemon_*/*'
}

# The suite with the libraries and the Redis 8.0 of Debian 13. Tests that use Redis also run with Valkey 8.1.
inside_debian13() { timeout --foreground -k 10 1200 sh tests/check/debian13_suite.sh; }

# What Redis 6.2 cannot do, these tests know by server_major() (support/server.h).
with_redis62() { timeout --foreground -k 10 900 sh tests/check/redis62_suite.sh; }

documents() { QS_LONG=1 timeout --foreground -k 10 1800 build/tests/suite -j"$jobs" --filter 'unit_json_splice/*'; }

# The product connects with TLS: to the server itself, or before a proxy to a relay. Left out:
# - unit_*: functions without a server;
# - daemon_tls*, daemon_sentinel, daemon_cluster*, daemon_completion, daemon_demo: QS_TLS changes nothing, because their configs name
#   no socket. Those of TLS always use it, and half of the failovers of Sentinel do;
# - daemon_monitor_memory: it measures the memory of the plain program;
# - daemon_upgrade: the previous release has no TLS;
# - daemon_chaos, daemon_clients*: they take minutes, and have stages of their own.
over_tls() {
    QS_TLS=1 timeout --foreground -k 10 900 build/tests/suite -j"$jobs" --timeout 180 --filter \
        '@(redis_*|daemon_@(audit*|bull|cli|delayed*|http|kmqueue*|leader|loop|metrics|monitor|password|private|promises|queues|redis|reload|requeue*|sd_notify|services|spread|status*|tasks|workers))/*'
}

# Tests that take minutes: sidecars die during 10,000 jobs with the workers of the docs, or while jobs fall due; a role hangs;
# 60,000 jobs fail.
storms() {
    QS_LONG=1 timeout --foreground -k 10 1800 build/tests/suite -j"$jobs" --timeout 900 \
        --filter '@(daemon_auditor_storm|daemon_loop|daemon_promises|daemon_sd_notify)/*'
}

# Twenty failovers of Sentinel and of a Cluster, with twenty moves of a slot. The quick forms have three.
failovers() {
    QS_LONG=1 timeout --foreground -k 10 900 build/tests/suite -j2 --timeout 600 --filter '@(daemon_sentinel|daemon_cluster_jobs)/*'
}

# `make chaos`, but for a minute.
chaos() { CHAOS_SECONDS=60 timeout --foreground -k 10 600 build/tests/suite -j1 --filter 'daemon_chaos/*'; }

clients() { QS_LONG=1 timeout --foreground -k 10 3600 build/tests/suite -j"$jobs" --timeout 900 --filter 'daemon_clients*/*'; }

# Tests the container image and a pod with it. Needs rights that CI has, or root on your own machine.
image() { timeout --foreground -k 10 900 sh tests/image/run.sh; }

# Runs the tests that the last run of the suite skipped for lack of a tool, which a stage has made since. Without such a run: all tests.
skipped() {
    filter='*'
    [ ! -s build/tests/skipped ] || filter="@($(paste -sd '|' build/tests/skipped))"
    timeout --foreground -k 10 1500 build/tests/suite -j"$jobs" --filter "$filter" </dev/null
}

stage "servers of Debian 13" debian13
stage "Redis 6.2" redis62
stage "workers of the docs" sh tests/clients/install.sh
stage promtool sh tests/support/promtool.sh
if [ "${1:-}" = long ]; then
    stage build "$make" -s -j2 SANITIZER= suite
    round=1
    while [ $round -lt "${TEST_ROUNDS:-10}" ]; do
        stage "round $round" sh tests/check/suite.sh
        round=$((round + 1))
    done
    stage "100,000 documents" documents
    stage "10,000 jobs while sidecars die" storms
    stage "10,000 jobs of each client" clients
    stage image image
else
    stage build build
    stage check sh tests/check/run.sh
    stage manifests timeout --foreground -k 10 900 sh tests/deploy/check.sh
    stage "in-process tests under address,undefined" in_process
    stage "daemon tests under thread" daemons
    stage "tests over TLS" over_tls
    stage "Redis, Valkey and libraries of Debian 13" inside_debian13
    stage "tests with Redis 6.2" with_redis62
    stage "20 failovers of Sentinel and Cluster" failovers
    stage chaos chaos
    stage image image
fi
echo "== stages:$summary tests that were skipped before follow"
if [ -n "$failed" ]; then
    echo "FAILED:$failed"
    cat "$scratch/reasons"
fi
if [ "${1:-}" = long ]; then sh tests/check/suite.sh; else skipped; fi && [ -z "$failed" ]
