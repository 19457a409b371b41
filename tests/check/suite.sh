#!/bin/sh
# Runs the suite of the plain build; Criterion's summary ends the output. An argument is a filter, such as 'unit_scan/*'.
# Tests that lack something (clients in other languages, servers of Debian 13, promtool) are skipped. `make test-all` gets the missing
# things and runs the suites that build/tests/skipped names.
set -u
cd "$(dirname "$0")/../.." || exit 1
tap=build/tests/suite.tap
# Tests mostly wait for timeouts or for processes: with two for each core, the cores idle for most of the time.
jobs=${QS_JOBS:-$((4 * $(nproc)))}
[ "$jobs" -le 8 ] || jobs=8

[ $# -eq 0 ] || exec build/tests/suite -j"$jobs" --filter "$1" </dev/null
rm -f "$tap"
read -r _ previous <tests/upgrade/previous
[ -x "build/upgrade/$previous/queue-sidecar" ] || echo "building the previous release, for the tests of upgrades"
sh tests/upgrade/build.sh >/dev/null || true # builds now, not during tests that measure time; a test reports a missing build
timeout --foreground -k 10 1500 build/tests/suite -j"$jobs" --tap="$tap" </dev/null
code=$?
sed -n 's/^ok - \([a-z0-9_]*\)::.*  # SKIP .*/\1/p' "$tap" | sort -u >build/tests/skipped
exit $code
