#!/bin/sh
# Tests the page in a real Chromium: run.sh [PATTERN] runs the tests whose names match. The screenshots are in build/page. QS_LONG=1 adds
# the test with a million failures. run.sh --pictures DIRECTORY makes the pictures of README instead.
#
# npm fetches the driver and axe-core once, in these versions; neither fetches a browser. A machine that lacks Chromium, Node or the
# packages skips the tests, unless QS_CLIENTS_REQUIRED=1.
set -u
cd "$(dirname "$0")/../.." || exit 1
packages="puppeteer-core@24.43.1 axe-core@4.14.1"
place=$PWD/build/page/node
# shellcheck source=deploy/again.sh
. deploy/again.sh

skip() { # reason
    echo "page: the tests are skipped: $1"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
}
for tool in node npm chromium redis-server redis-cli sqlite3; do
    command -v $tool >/dev/null || skip "this machine has no $tool"
done
fetch() {
    # shellcheck disable=SC2086 # words
    (cd "$place" && timeout 300 npm install --no-save --no-audit --no-fund --loglevel=error $packages)
}
if [ "$(cat "$place/fetched" 2>/dev/null)" != "$packages" ]; then
    mkdir -p "$place"
    echo '{"private": true}' >"$place/package.json"
    again "$place/log" fetch || skip "$(tail -n 1 "$place/log" | cut -c1-200)"
    echo "$packages" >"$place/fetched"
fi
CHROMIUM=$(command -v chromium) NODE_PATH=$place/node_modules
export CHROMIUM NODE_PATH
[ "${1:-}" != --pictures ] || exec node tests/page/pictures.js "$2"
failed=
# One file after the other: each has a browser, a redis-server and sidecars, and waits for what is shown.
for file in tests/page/*.test.js; do
    node --test ${1:+--test-name-pattern="$1"} "$file" >"build/page/$(basename "$file" .js).log" 2>&1 || failed=yes
    grep -vE '^ *(---|\.\.\.|duration_ms|type:)|# (Subtest|SKIP|todo|cancelled|suites|duration)|^TAP|^1\.\.' "build/page/$(basename "$file" .js).log"
done
[ -z "$failed" ]
