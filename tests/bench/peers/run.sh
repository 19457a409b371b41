#!/bin/sh
# Compares the sidecar with other schedulers: run.sh SIDECAR TOOLS
#
# Gets the packages of the peers once, by the ordinary client of each language, into build/peers. A peer whose language or package is
# missing is left out. Then compare.py runs all of them in turns, and report.py writes docs/benchmarks/.
#
#   BENCH_ROUNDS=3   BENCH_SECONDS=8 (of one steady load, 6 at least)   PEERS=sidecar,asynq (default: all)
#   BENCH_OUT=DIR    in place of docs/benchmarks                        REDIS_SERVER=redis-server
#   BENCH_NICE=-1   nice value of all processes, so that other programs disturb less (needs the right to raise priorities)
set -eu
sidecar=$(realpath "${1:-build/queue-sidecar}")
tools=$(realpath "${2:-build/tests}")
cd "$(dirname "$0")/../../.."
here=tests/bench/peers
packages=$PWD/build/peers
limit=300 # seconds for one fetch
# shellcheck source=deploy/again.sh
. deploy/again.sh

# Runs a command in the new directory $packages/NAME, unless it has done so with the same versions.
fetch() { # name, versions, shell command
    [ "$(cat "$packages/$1/fetched" 2>/dev/null)" != "$2" ] || return 0
    rm -rf "${packages:?}/$1"
    mkdir -p "$packages/$1"
    if (cd "$packages/$1" && again log timeout "$limit" sh -c "$3" "$2"); then
        echo "$2" >"$packages/$1/fetched"
    else
        echo "peers: $1 is left out: $(tail -n 1 "$packages/$1/log" | cut -c1-200)" >&2
        return 1
    fi
}

# shellcheck disable=SC2016 # other shells expand the texts in single quotes
install_packages() {
    fetch python redis==8.1.0 'python3 -m venv . && bin/pip install -q "$0"'
    fetch node 'bull@4.16.5 bullmq@6.7.0' 'echo "{\"private\": true}" >package.json &&
        npm install --no-save --no-audit --no-fund --loglevel=error $0' || true
    if fetch asynq v0.26.0 'go mod init example.org/peer && go get "github.com/hibiken/asynq@$0"'; then
        cp "$here/asynq.go" "$packages/asynq/main.go"
        (cd "$packages/asynq" && go build -o asynq .)
    fi
    clients=$PWD/tests/clients
    if fetch delayed_queue "$(cat "$clients/delayed_queue/pom.xml")" 'echo "$0" >pom.xml &&
        mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=lib'; then
        javac -cp "$packages/delayed_queue/lib/*" -sourcepath "$clients/delayed_queue" -d "$packages/delayed_queue/classes" \
            "$here/DelayedQueue.java" "$clients/story/Story.java" "$clients"/delayed_queue/[ELPS]*.java
    fi
}

install_packages >&2
[ -z "${BENCH_NICE:-}" ] || renice -n "$BENCH_NICE" $$ >&2
out=${BENCH_OUT:-docs/benchmarks}
mkdir -p "$out"
python3 "$here/compare.py" "$sidecar" "$tools/bench_peers" "$packages" "$out/peers.json"
python3 "$here/report.py" write "$out"
cat "$out/peers.txt"
