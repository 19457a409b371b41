#!/bin/sh
# Compares the API with its description: schemathesis.sh [SEED] runs schemathesis, with and without a token, against a sidecar whose log
# has failures of all kinds. Another seed makes other requests.
#
# pip fetches schemathesis once, in this version. A machine without it skips the tests, unless QS_CLIENTS_REQUIRED=1.
set -u
cd "$(dirname "$0")/../.." || exit 1
version=4.32.5
place=$PWD/build/schemathesis
# shellcheck source=deploy/again.sh
. deploy/again.sh

skip() { # reason
    echo "schemathesis: the tests are skipped: $1"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
}
for tool in python3 redis-server; do
    command -v $tool >/dev/null || skip "this machine has no $tool"
done
fetch() { python3 -m venv "$place/venv" && timeout 300 "$place/venv/bin/pip" install -q "schemathesis==$version"; }
if [ "$(cat "$place/fetched" 2>/dev/null)" != "$version" ]; then
    mkdir -p "$place"
    again "$place/log" fetch || skip "$(tail -n 1 "$place/log" | cut -c1-200)"
    echo "$version" >"$place/fetched"
fi
exec "$place/venv/bin/python3" tests/http/schemathesis_run.py "$@"
