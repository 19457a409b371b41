#!/bin/sh
# Writes tests/data: the bytes that the real client libraries of build/clients write into Redis. tests/data/README.md explains each
# file. The suite daemon_clients_native compares the files with the present output of these programs.
#
#   sh tests/clients/vectors.sh
set -eu
cd "$(dirname "$0")/../.."
clients=${QS_CLIENTS_DIR:-$PWD/build/clients}
data=$PWD/tests/data
room=$(mktemp -d)
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --unixsocket "$room/redis" --save '' --dir "$room" --logfile "$room/log" &
server=$!
trap 'kill "$server" || true; rm -rf "$room"' EXIT
cli() { redis-cli -s "$room/redis" "$@"; } # by the socket: another server could have the port
until cli ping >/dev/null 2>&1; do
    kill -0 "$server" || exit 1
    sleep 0.1
done
export REDIS_URL="redis://127.0.0.1:$port"

capture() { # client, file, program
    "$clients/$1/run" "$3" >"$room/lines"
    mkdir -p "$data/$1"
    mv "$room/lines" "$data/$1/$2.jsonl"
    echo "$data/$1/$2.jsonl: $(wc -l <"$data/$1/$2.jsonl") lines"
}
capture kmqueue fastjson-1.2.16 capture
capture delayed_queue jackson-2.17.2 capture
for QS_BULL in 4.10.4 4.12.2 4.16.5; do
    export QS_BULL
    capture bull "bull-$QS_BULL" capture
done
for QS_BULLMQ in 5.81.5 6.7.0; do
    export QS_BULLMQ
    cli flushall >/dev/null
    capture bullmq "bullmq-$QS_BULLMQ" capture
done
