#!/bin/sh
# The stages that `make test-all` runs after `make test`: downloads for tests with other languages and servers, all checks, manifests,
# the tests under sanitizers, the suite in a Debian 13 root, Redis 6.2, arm64, the container image, and last the tests that `make test` has
# skipped.
# Builds, checks and manifests run beside stages that mostly wait. After a failed stage the other stages still run; the exit code is 1.
# With the argument `long`: the suite TEST_ROUNDS times, the tests that QS_LONG=1 makes at least ten times as long, broken lines that
# tests must notice, recipes, image, Debian packages, arm64, a whole release, and Kubernetes.
set -u
cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
jobs=$((4 * $(nproc)))
[ "$jobs" -le 8 ] || jobs=8

scratch=$(mktemp -d)
mkdir "$scratch/beside"
finish() {
    for place in "$scratch"/beside/*/; do
        [ -d "$place" ] || continue
        kill -TERM "$(cat "$place/pid")" 2>/dev/null
        wait "$(cat "$place/pid")"
        echo "== $(basename "$place"): its output until now"
        cat "$place/output"
    done
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' HUP INT TERM

# The sanitizers of older compilers fail under the address space layout of newer kernels.
fixed=
! setarch -R true 2>/dev/null || fixed="setarch -R"

failed=
summary=
# Reads the output of `times` and adds user and system time of the children.
processor_seconds() { awk 'NR == 2 { gsub(/s/, ""); for (i = 1; i <= 2; i++) { split($i, t, "m"); sum += 60 * t[1] + t[2] } print int(sum) }' "$1"; }

stage_ended() { # name, file of its output, exit code, seconds, file of `times`
    verdict=ok
    if [ "$3" != 0 ]; then
        verdict=FAILED
        failed="$failed $1;"
        echo "$1:" >>"$scratch/reasons"
        grep -aE '^(\[FAIL\]|\[----\] +[^ ]|FAILED|not ok|  error: |[^ :]+:[0-9]+: )' "$2" | cut -c1-300 | head -n 12 | sed 's/^/    /' >>"$scratch/reasons"
    fi
    took="$4 s ($(processor_seconds "$5") of processors)"
    summary="$summary  $1: $verdict, $took;"
    echo "-- $1: $verdict, $took"
}

stage() { # name, command
    name=$1
    shift
    echo "== $name"
    start=$(date +%s)
    echo 1 >"$scratch/code"
    {
        "$@" </dev/null 2>&1
        echo $? >"$scratch/code"
        times >"$scratch/times"
    } | tee "$scratch/output"
    stage_ended "$name" "$scratch/output" "$(cat "$scratch/code")" $(($(date +%s) - start)) "$scratch/times"
    for place in "$scratch"/beside/*/; do
        [ ! -e "$place/took" ] || collect "$(basename "$place")"
    done
}

limit=3000 # seconds
# Starts a stage beside those that follow, which leave the cores idle for half of the time. A stage that only computes has niceness 19,
# because the others measure time. `collect` waits for its end and prints its output as a whole; `stage` collects those that have
# ended. `timeout` makes a process group, which `finish` ends.
beside() { # name, niceness, program with arguments
    place=$scratch/beside/$1
    niceness=$2
    shift 2
    mkdir "$place"
    # shellcheck disable=SC2016 # expands in the stage
    timeout -k 10 $limit nice -n "$niceness" sh -c 'place=$0
        start=$(date +%s)
        "$@"
        echo $? $(($(date +%s) - start)) >"$place/ended"
        times >"$place/times"
        mv "$place/ended" "$place/took"' "$place" "$@" </dev/null >"$place/output" 2>&1 &
    echo $! >"$place/pid"
}

collect() { # name
    place=$scratch/beside/$1
    [ -d "$place" ] || return 0 # collected before
    wait "$(cat "$place/pid")"
    [ -e "$place/took" ] || {
        echo "FAILED: it was killed, or not done within $limit s" >>"$place/output"
        echo 1 "$limit" >"$place/took"
        echo >"$place/times"
    }
    read -r code seconds <"$place/took"
    echo "== $1, beside the stages above"
    cat "$place/output"
    stage_ended "$1" "$place/output" "$code" "$seconds" "$place/times"
    rm -r "$place"
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
# does not know its parent's threads is no report.
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

# Left out: commands in one process and one thread (daemon_audit_*, daemon_check_files, daemon_cli, daemon_completion, daemon_demo,
# daemon_refused_config), the memory of the plain program, and workers of other languages (daemon_bullmq_story, daemon_clients*,
# daemon_sidekiq, daemon_workers), which take more of the processor than the sidecars beside them.
daemons() {
    if ! $fixed build/thread/queue-sidecar version >/dev/null 2>&1; then
        echo "SKIPPED: a program built with -fsanitize=thread does not start on this kernel"
        return 0
    fi
    QS_DAEMON=build/thread/queue-sidecar QS_TEST_SLOW=4 \
        $fixed timeout --foreground -k 10 900 build/tests/suite -j"$jobs" --timeout 240 \
        --filter 'daemon_!(audit_*|bullmq_story|clients*|*_memory|check_files|cli|completion|demo|refused_config|sidekiq|workers)/*'
}

# The suite with the libraries and the Redis 8.0 of Debian 13. Tests that use Redis also run with Valkey 8.1.
inside_debian13() { timeout --foreground -k 10 1200 sh tests/check/debian13_suite.sh; }

# What Redis 6.2 cannot do, these tests know by server_major() (support/server.h).
with_redis62() { timeout --foreground -k 10 900 sh tests/check/redis62_suite.sh; }

documents() { QS_LONG=1 timeout --foreground -k 10 1800 build/tests/suite -j"$jobs" --filter 'unit_json_splice/*'; }

# The product connects with TLS: to the server itself, or before a proxy to a relay. Left out:
# - unit_*: functions without a server;
# - redis_script_* and the suites of dialects: their subject is a script, a reply or a right, of which the connection knows nothing;
# - daemon_tls*, daemon_sentinel, daemon_cluster*, daemon_completion, daemon_demo: QS_TLS changes nothing, because their configs name
#   no socket. Those of TLS always use it, and half of the failovers of Sentinel do;
# - daemon_audit_*, daemon_cli: commands on files, and daemon_monitor_memory: the memory of the plain program;
# - daemon_upgrade: the previous release has no TLS;
# - daemon_chaos, daemon_clients*: they take minutes, and have stages of their own.
over_tls() {
    QS_TLS=1 timeout --foreground -k 10 900 build/tests/suite -j"$jobs" --timeout 180 --filter \
        '@(redis_!(acl_dialects|bull*|dead_letters|delayed*|dialects_hostile|failed*|groups*|kmqueue*|list*|private*|script_*)|daemon_@(auditor|bull|bullmq_moves|delayed*|groups|http|kmqueue*|leader|loop|metrics|monitor|password|private|promises|queues|redis|reload|requeue*|sd_notify|services|sidekiq|status*|tasks|workers))/*'
}

# Tests that take minutes: sidecars die during 10,000 jobs with the workers of the docs, or while jobs fall due; a role hangs;
# 60,000 jobs fail.
storms() {
    QS_LONG=1 timeout --foreground -k 10 1800 build/tests/suite -j"$jobs" --timeout 900 \
        --filter '@(daemon_auditor_storm|daemon_loop|daemon_promises|daemon_sd_notify)/*'
}

clients() {
    QS_LONG=1 timeout --foreground -k 10 3600 build/tests/suite -j"$jobs" --timeout 900 \
        --filter '@(daemon_clients*|daemon_sidekiq_kills)/*'
}

# All parts of a release, twice.
whole_release() { timeout --foreground -k 10 7200 sh tests/release/run.sh; }

# Tests the container image and a pod with it. Needs rights that CI has, or root on your own machine.
image() { timeout --foreground -k 10 900 sh tests/image/run.sh; }

# The manifests on a real Kubernetes. CI does not build it.
kubernetes() { timeout --foreground -k 10 3600 sh tests/kubernetes/run.sh "$@"; }

# Runs the suites of which the last run of the suite skipped tests for lack of a tool, which a stage has made since. Without such a run:
# all suites. Criterion aborts at a filter with 100 alternatives; there are more such tests, but fewer such suites.
skipped() {
    filter='*'
    [ ! -s build/tests/skipped ] || filter="@($(paste -sd '|' build/tests/skipped))/*"
    timeout --foreground -k 10 1500 build/tests/suite -j"$jobs" --filter "$filter" </dev/null
}

downloads() {
    stage "servers of Debian 13" debian13
    stage "Redis 6.2" redis62
    stage "workers of the docs" sh tests/clients/install.sh
    stage promtool sh tests/support/promtool.sh
}

if [ "${1:-}" = long ]; then
    downloads
    stage build "$make" -s -j2 SANITIZER= suite
    round=1
    while [ $round -lt "${TEST_ROUNDS:-10}" ]; do
        stage "round $round" sh tests/check/suite.sh
        round=$((round + 1))
    done
    stage "100,000 documents" documents
    stage "10,000 jobs while sidecars die" storms
    stage "10,000 jobs of each client" clients
    stage "clang-tidy, all paths" "$make" -s -j2 B=build/paths TIDY_NODES=225000 tidy
    stage mutants timeout --foreground -k 10 3600 python3 tests/check/mutants.py
    stage recipes timeout --foreground -k 10 1800 sh tests/recipes/run.sh
    stage image image
    stage "packages for Debian" timeout --foreground -k 10 3600 "$make" -s test-deb
    stage arm64 timeout --foreground -k 10 7200 sh tests/arm64/run.sh
    stage "a release, twice" whole_release
    stage Kubernetes kubernetes
else
    # shellcheck disable=SC2016 # expands in the stage
    beside build 19 sh -c '"$0" -s -j2 SANITIZER= suite && "$0" -s -j2 SANITIZER=address,undefined suite && "$0" -s -j2 SANITIZER=thread all build/thread/tests/queue-sidecar' "$make"
    downloads
    # Seven minutes of one core, where it is not there yet.
    beside helm 19 sh tests/deploy/tools.sh helm
    collect build # before other stages use make here
    beside "build in Debian 13" 19 sh tests/check/debian13_suite.sh build
    beside check 19 sh tests/check/run.sh
    beside manifests 19 sh tests/deploy/check.sh
    beside charts 19 sh tests/helm/check.sh # waits for helm
    stage "in-process tests under address,undefined" in_process
    stage "daemon tests under thread" daemons
    stage "tests over TLS" over_tls
    collect "build in Debian 13"
    # Twenty failovers of Sentinel and of a Cluster, with twenty moves of a slot. The quick forms have three.
    # They mostly wait, and the suites of Debian 13 leave a third of the cores idle.
    beside "20 failovers of Sentinel and Cluster" 0 env QS_LONG=1 build/tests/suite -j2 --timeout 600 \
        --filter '@(daemon_sentinel|daemon_cluster_jobs)/*'
    stage "Redis, Valkey and libraries of Debian 13" inside_debian13
    collect "20 failovers of Sentinel and Cluster"
    # `make chaos`, but for a minute
    beside chaos 0 env CHAOS_SECONDS=60 build/tests/suite -j1 --filter 'daemon_chaos/*'
    beside fuzz 19 "$make" -s fuzz FUZZ_SECONDS=20
    beside recipes 0 sh tests/recipes/run.sh quick # docs/recipes.md, with all but Litestream
    beside "API as described" 0 sh tests/http/schemathesis.sh
    stage "tests with Redis 6.2" with_redis62
    collect fuzz
    beside arm64 19 sh tests/arm64/run.sh quick
    collect "API as described"
    collect recipes
    collect chaos
    collect check
    collect manifests
    beside "a release, twice" 19 env PARTS="source chart" sh tests/release/run.sh # in clones; `make test-release` makes all parts
    beside page 0 sh tests/page/run.sh # in a Chromium: not beside suites that measure time
    stage image image
    collect page
    collect arm64
    collect helm
    collect charts
    collect "a release, twice"
    stage Kubernetes kubernetes --have test_examples.ExamplePythonDeployment test_life.Nightly
fi
echo "== stages:$summary suites with tests that were skipped before follow"
if [ -n "$failed" ]; then
    echo "FAILED:$failed"
    cat "$scratch/reasons"
fi
if [ "${1:-}" = long ]; then sh tests/check/suite.sh; else skipped; fi && [ -z "$failed" ]
