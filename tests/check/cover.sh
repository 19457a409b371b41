#!/bin/sh
# Runs the suite in a gcov build and prints, for each file of the program, the share of its lines that ran: cover.sh build/cover
# Lines that ran only in daemons killed by SIGKILL do not count: such a daemon never writes its counts.
set -eu
cd "$(dirname "$0")/../.."
dir=${1:-build/cover}
find "$dir" -name '*.gcda' -delete
QS_DAEMON=$dir/queue-sidecar "$dir/tests/suite" -j2 --timeout 120 || echo "(the suite failed; the figures include only the tests that ran)"
find "$dir/sidecar" -name '*.gcno' -exec gcov -n {} + 2>/dev/null | awk -F "[':% ]+" '
    /^File / { file = $2 }
    /^Lines executed/ && file ~ /^sidecar\/.*\.c$/ {
        printf "%6.1f%% of %4d  %s\n", $3, $5, file
        lines += $5
        hit += $3 * $5 / 100
        file = ""
    }
    END { if (lines) printf "%6.1f%% of %4d  the whole\n", 100 * hit / lines, lines }' | sort -k 4
