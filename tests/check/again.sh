#!/bin/sh
# Tests deploy/again.sh: with QS_CLIENTS_REQUIRED=1 a fetch that fails once or twice is tried again; a fetch that always fails fails.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/again.sh
. deploy/again.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export QS_AGAIN_S="0 0"
fetch() { # number of tries that fail
    echo try >>"$work/tries"
    tried=$(wc -l <"$work/tries")
    echo "this is try $tried"
    [ "$tried" -gt "$1" ] || return 7
}
expect() { # QS_CLIENTS_REQUIRED, number of tries that fail, expected exit code, expected number of tries
    rm -f "$work/tries"
    code=0
    QS_CLIENTS_REQUIRED=$1
    again "$work/log" fetch "$2" 2>"$work/said" || code=$?
    tried=$(wc -l <"$work/tries")
    said=$(wc -l <"$work/said")
    if [ $code != "$3" ] || [ "$tried" != "$4" ] || [ "$said" != $(($4 - 1)) ] || [ "$(cat "$work/log")" != "this is try $4" ]; then
        echo "deploy/again.sh:1: of a command that fails $2 times: code $code, $tried tries, $said lines said; not $3, $4 and $(($4 - 1))"
        exit 1
    fi
}
expect 1 0 0 1
expect 1 1 0 2
expect 1 2 0 3
expect 1 9 7 3
expect '' 1 7 1
echo "ok   again: a required fetch is tried again"
