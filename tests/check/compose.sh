#!/bin/sh
# Checks deploy/compose: the file reads well with the library of docker compose (which go fetches once), the sidecar is as restricted
# as its image promises, the config is valid, and the worker is the one of docs/worker-contract.md.
set -eu
cd "$(dirname "$0")/../.."
program=${QS_PROGRAM:-build/queue-sidecar}
place=build/compose
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=deploy/again.sh
. deploy/again.sh
file=deploy/compose/compose.yaml
code=0

python3 tests/clients/extract.py docs/worker-contract.md "$work/readme"
cmp -s "$work/readme/python/worker.py" deploy/compose/worker/worker.py || {
    echo "deploy/compose/worker/worker.py:1: is not the Python worker of docs/worker-contract.md: copy that"
    code=1
}
"$program" check -c deploy/compose/config/queue-sidecar.cfg >"$work/values" || {
    echo "deploy/compose/config/queue-sidecar.cfg:1: is refused (above)"
    exit 1
}
mib=$(sed -n 's/^ *mem_limit: \([0-9]*\)m$/\1/p' $file)
PYTHONPATH=tests/deploy python3 -B -c 'import sys, configs; sys.exit(configs.need(sys.stdin.read()) > int(sys.argv[1]) << 20)' "$mib" <"$work/values" || {
    echo "deploy/compose/config/queue-sidecar.cfg:1: jobs of its max_payload may take more than the mem_limit of $file"
    code=1
}
# In compose.yaml the sidecar depends on no service, so `run` alone starts no Redis.
awk '/up -d/ { up = 1 } /check --redis/ && !up { exit 1 }' deploy/compose/README.md || {
    echo "deploy/compose/README.md:1: starts no Redis before \`check --redis\`"
    code=1
}

[ $code = 0 ] || exit 1

# Builds the reader if its sources have changed. An existing build needs no network.
skip() {
    echo "ok   compose: the config is good, the worker is that of the docs; SKIPPED reading $file: $1"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || code=1
    exit $code
}
reader() {
    command -v go >/dev/null || skip "this machine has no go"
    mkdir -p "$place"
    cat tests/compose/main.go tests/compose/go.mod tests/compose/go.sum | cksum >"$work/sources"
    ! cmp -s "$work/sources" "$place/sources" || [ ! -x "$place/compose" ] || return 0
    here=$PWD
    (cd tests/compose && again "$work/log" env GOPATH="$here/$place/go" GOCACHE="$here/$place/cache" GOFLAGS="-modcacherw -mod=readonly" \
        GOTOOLCHAIN=local timeout 400 go build -o "$here/$place/compose" .) || skip "$(grep -v '^go: downloading' "$work/log" | tail -n 1 | cut -c1-200)"
    cp "$work/sources" "$place/sources"
    rm -rf "$place/go" "$place/cache" # the program needs neither sources nor build cache
}
reader
env -u QUEUE_SIDECAR_IMAGE "$place/compose" "$file" || code=1

# docs/recipes.md has a second container for this file.
cp -r deploy/compose "$work/tail"
{
    sed -n '/^volumes:$/q; p' $file
    sed -n '/^...yaml tail.yaml$/,/^...$/{/^...yaml/d; /^...$/d; /^services:$/d; p}' docs/recipes.md
    sed -n '/^volumes:$/,$p' $file
} >"$work/tail/compose.yaml"
env -u QUEUE_SIDECAR_IMAGE "$place/compose" "$work/tail/compose.yaml" || {
    echo "docs/recipes.md:1: compose refuses tail.yaml (above)"
    code=1
}
for line in 'user: "65532:65532"' 'read_only: true' 'cap_drop: \[ALL\]' 'no-new-privileges:true' '- audit:/var/lib/queue-sidecar:ro'; do
    [ "$(grep -c -- "$line" "$work/tail/compose.yaml")" -gt "$(grep -c -- "$line" $file)" ] || {
        echo "docs/recipes.md:1: tail.yaml lacks $line"
        code=1
    }
done
rm -rf "$work/tail"

# Tests the reader: it must refuse each of these files.
spoilt() { # name of the fault, sed script
    cp -r deploy/compose "$work/spoilt"
    sed -i "$2" "$work/spoilt/compose.yaml"
    ! cmp -s "$file" "$work/spoilt/compose.yaml" || {
        echo "tests/check/compose.sh:1: $1: changes nothing"
        code=1
    }
    ! "$place/compose" "$work/spoilt/compose.yaml" >/dev/null 2>&1 || {
        echo "tests/check/compose.sh:1: $1: is not noticed"
        code=1
    }
    rm -rf "$work/spoilt"
}
spoilt "a key that compose does not know" 's/read_only:/readonly:/'
spoilt "a value of a wrong type" 's/read_only: true/read_only: perhaps/'
spoilt "a volume that is not declared" 's/^  audit:$//'
spoilt "a dependency that is not there" 's/^      redis:$/      rediss:/'
spoilt "capabilities" 's/cap_drop: .*/cap_drop: [NET_RAW]/'
spoilt "a config file instead of its directory" 's|./config:/etc/queue-sidecar:ro|./config/queue-sidecar.cfg:/etc/queue-sidecar/queue-sidecar.cfg:ro|'
spoilt "another health check" 's|/usr/bin/queue-sidecar, healthcheck|/bin/true|'
[ $code = 0 ] || exit 1
echo "ok   compose: $file reads well and is restricted, its config is good, its worker is that of the docs"
