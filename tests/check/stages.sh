#!/bin/sh
# What `make test` runs after its dependencies are there: builds, checks, the tests under sanitizers, and last the whole suite in the
# plain build, whose summary ends the output. A stage that fails does not keep the others from running; the exit code tells.
# With the argument `ci` also the whole suite in a Debian 13 root, and the container image; with `long` only the
# whole suite, TEST_ROUNDS times, the tests that QS_LONG=1 makes ten times as long or longer, and the image.
set -u
cd "$(dirname "$0")/../.." || exit 1
make=${MAKE:-make}
# Tests mostly wait: for a timeout that they are about, for a process that they have started. Those with clients of many
# languages less so.
jobs=$(($(nproc) + 1))
[ "$jobs" -le 8 ] || jobs=8
in_process_jobs=$((jobs + 1))

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
trap 'exit 130' HUP INT TERM

# The sanitizers of older compilers cannot live with the address space layout of newer kernels.
fixed=
! setarch -R true 2>/dev/null || fixed="setarch -R"

# Criterion's --timeout replaces the limits that tests have of their own, and sets none where there is none: it gives sanitized ones
# more time. Against a test that hangs each stage has a limit.
failed=
summary=
stage() { # name, command
    name=$1
    shift
    echo "== $name"
    start=$(date +%s)
    verdict=ok
    "$@" </dev/null || {
        verdict=FAILED
        failed="$failed $name"
    }
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

build() {
    $make -s -j2 SANITIZER= suite && $make -s -j2 SANITIZER=address,undefined suite && $make -s -j2 SANITIZER=thread all
}

# Reads one report; 0 = it tells of something but of what Criterion itself has now and then lost, below no function of a test.
is_ours() {
    awk '/^(Direct|Indirect) leak of/ { block = "leak"; own = 0; leaks++ }
        /runtime error|ERROR: .*Sanitizer|WARNING: .*Sanitizer/ && !/LeakSanitizer: detected memory leaks/ { other = 1 }
        block && /^ *#/ && !/libcriterion|libasan|asan_malloc/ && !own { own = 1; ours++ }
        /^$/ { block = "" }
        END { exit !(other || ours || !leaks) }' "$1"
}

# A leak in a test leaves Criterion's exit code 0, so every sanitizer writes to files, and any file fails the stage. Criterion itself
# loses some bytes where a test is skipped, and that must not become its exit code. LeakSanitizer's note that a forked child does
# not know its parent's threads is no report.
in_process() {
    log=log_path=$reports/report:print_stacktrace=1
    ASAN_OPTIONS=$log:detect_leaks=1:detect_stack_use_after_return=1 LSAN_OPTIONS=$log:exitcode=0 UBSAN_OPTIONS=$log \
        QS_DAEMON=build/address-undefined/queue-sidecar QS_TEST_SLOW=3 \
        $fixed timeout --foreground -k 10 900 build/address-undefined/tests/suite -j"$in_process_jobs" --timeout 240 --filter '@(unit|redis)_*/*'
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

# The whole suite with the libraries of that system, with its Redis 8.0, and what talks to Redis also with its Valkey 8.1.
inside_debian13() { timeout --foreground -k 10 1200 sh tests/check/debian13_suite.sh; }

documents() { QS_LONG=1 timeout --foreground -k 10 1800 build/tests/suite -j"$jobs" --filter 'unit_json_splice/*'; }

# What takes minutes: sidecars that die under 10,000 jobs with the workers of README, or while jobs fall due; a role that hangs.
storms() {
    QS_LONG=1 timeout --foreground -k 10 1800 build/tests/suite -j"$jobs" --timeout 900 \
        --filter '@(daemon_loop|daemon_promises|daemon_notify)/*'
}

clients() { QS_LONG=1 timeout --foreground -k 10 3600 build/tests/suite -j"$jobs" --timeout 900 --filter 'daemon_clients*/*'; }

# The container image, and a pod of it: needs rights that CI has, and else a machine of one's own.
image() { timeout --foreground -k 10 900 sh tests/image/run.sh; }

whole() { timeout --foreground -k 10 1500 build/tests/suite -j"$jobs"; }

stage "servers of Debian 13" debian13
stage "workers of README" sh tests/clients/install.sh
stage promtool sh tests/support/promtool.sh
if [ "${1:-}" = long ]; then
    stage build "$make" -s -j2 SANITIZER= suite
    round=1
    while [ $round -lt "${TEST_ROUNDS:-10}" ]; do
        stage "round $round" whole
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
    if [ "${1:-}" = ci ]; then
        stage "Redis, Valkey and libraries of Debian 13" inside_debian13
        stage image image
    fi
fi
echo "== stages:$summary the whole suite follows"
[ -z "$failed" ] || echo "FAILED:$failed (above)"
whole </dev/null && [ -z "$failed" ]
