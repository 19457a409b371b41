#!/bin/sh
# Runs the recipes of docs/recipes.md with the real thing: run.sh [NAME...] runs only tests/recipes/test_NAME.py. CI runs
# `run.sh quick`: all but Litestream, which takes minutes to build.
#
# pip fetches DuckDB and Datasette, Go's module proxy Litestream, and apt ClickHouse and syslog-ng, once, into build/recipes. A test whose
# tool cannot be had is skipped, unless QS_CLIENTS_REQUIRED=1.
set -u
cd "$(dirname "$0")/../.." || exit 1
python_packages="duckdb==2.0.1 datasette==0.65.5"
litestream=github.com/benbjohnson/litestream/cmd/litestream@v0.5.18
place=$PWD/build/recipes
mkdir -p "$place"
# shellcheck source=deploy/again.sh
. deploy/again.sh
failed=

skip() { # test, reason
    echo "recipes: $1 is skipped: $2"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || failed="$failed $1"
    return 1
}
has_postgres() {
    for initdb in /usr/lib/postgresql/*/bin/initdb; do [ ! -x "$initdb" ] || return 0; done
    skip postgres "this machine has no server of PostgreSQL"
}
fetch_python() {
    # shellcheck disable=SC2086 # words
    python3 -m venv "$place/venv" && timeout 300 "$place/venv/bin/pip" install -q $python_packages
}
has_copies() {
    [ "$(cat "$place/python" 2>/dev/null)" != "$python_packages" ] || return 0
    again "$place/log" fetch_python || skip copies "$(tail -n 1 "$place/log" | cut -c1-200)" || return 1
    echo "$python_packages" >"$place/python"
}
fetch_litestream() {
    GOBIN=$place/bin GOPATH=$place/go GOCACHE=$place/gocache GOFLAGS=-modcacherw GOTOOLCHAIN=local nice -n 19 go install "$litestream"
}
has_litestream() {
    [ "$(cat "$place/litestream" 2>/dev/null)" != "$litestream" ] || return 0
    command -v go >/dev/null || skip litestream "this machine has no go" || return 1
    echo "recipes: building Litestream, which takes some minutes"
    again "$place/log" fetch_litestream || skip litestream "$(tail -n 1 "$place/log" | cut -c1-200)" || return 1
    rm -rf "$place/go" "$place/gocache" # the program needs neither sources nor build cache
    echo "$litestream" >"$place/litestream"
}

# Debian's ClickHouse and syslog-ng, with their libraries, unpacked and not installed: their packages would start services.
clickhouse_packages="clickhouse-server syslog-ng-core syslog-ng-mod-http"
fetch_clickhouse() {
    # shellcheck disable=SC2086 # words
    apt-get install -y -q --no-install-recommends --download-only -o Dir::Cache::archives="$place/clickhouse/debs" \
        -o APT::Sandbox::User=root $clickhouse_packages && return
    apt-get update -q # the lists are missing, or so old that their files are gone
    return 1
}
has_clickhouse() {
    [ "$(cat "$place/clickhouse/fetched" 2>/dev/null)" != "$clickhouse_packages" ] || return 0
    [ "$(id -u)" = 0 ] || skip clickhouse "only root can let apt download packages" || return 1
    apt-cache policy clickhouse-server 2>/dev/null | grep -q 'Candidate: [^(]' || {
        echo "recipes: clickhouse is skipped: this Debian has no clickhouse-server (Debian 12 has)"
        return 1
    }
    rm -rf "$place/clickhouse" && mkdir -p "$place/clickhouse/debs/partial" "$place/clickhouse/root"
    again "$place/log" fetch_clickhouse || skip clickhouse "$(tail -n 1 "$place/log" | cut -c1-200)" || return 1
    for deb in "$place"/clickhouse/debs/*.deb; do
        dpkg-deb -x "$deb" "$place/clickhouse/root" || return 1
    done
    rm -r "$place/clickhouse/debs"
    echo "$clickhouse_packages" >"$place/clickhouse/fetched"
}

case "${1:-}" in
'') set -- postgres clickhouse copies litestream ;;
quick) set -- postgres clickhouse copies ;;
esac
ran=
for name in "$@"; do
    "has_$name" || continue
    ran="$ran $name"
    python3 -B "tests/recipes/test_$name.py" || failed="$failed $name"
done
[ -z "$failed" ] || {
    echo "recipes: FAILED:$failed"
    exit 1
}
echo "recipes: all is well:$ran"
