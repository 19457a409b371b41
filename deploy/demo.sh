#!/bin/sh
# make demo: delayed jobs fall due before one's eyes, the leader is killed and another takes over. A private redis-server on a unix
# socket in a temporary directory; nothing outside it is touched, and nothing is left behind.
set -eu

sidecar=${1:?usage: demo.sh PATH-OF-QUEUE-SIDECAR}
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
socket=$dir/redis.sock
export QUEUE_SIDECAR_REDIS_SOCKET="$socket" QUEUE_SIDECAR_LOG_FORMAT=json
pids=

end() {
    status=$?
    trap - EXIT INT TERM
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
    exit "$status"
}
trap end EXIT
trap 'exit 130' INT TERM

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m'); else bold='' dim='' plain=''; fi
step() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
say() { printf '   %s\n' "$@"; }
show() { printf '   %s$ %s%s\n' "$dim" "$*" "$plain"; }
cli() { redis-cli -s "$socket" "$@"; }
now() { date +%s%3N; }

# wait_until SECONDS WHAT COMMAND...: by condition, never by time alone.
wait_until() {
    limit=$(($(now) + $1 * 1000)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$(now)" -gt "$limit" ]; then
            printf 'demo: %s did not happen in time; the logs say:\n' "$what" >&2
            cat "$dir"/*.log >&2
            exit 1
        fi
        sleep 0.01
    done
}

start_sidecar() { # NAME
    QUEUE_SIDECAR_AUDIT_PATH="$dir/$1.db" "$sidecar" run -c "$here/conf/demo.cfg" 2>"$dir/$1.log" &
    pids="$pids $!"
}
says() { grep -q "\"msg\":\"$2\"" "$dir/$1.log"; }

# job NAME DELAY_MS: what a producer does in any language.
job() {
    due=$(($(now) + $2))
    cli zadd email:delayed "$due" "{\"job\":\"$1\",\"due\":$due}" >/dev/null
    say "ZADD email:delayed $due {\"job\":\"$1\",...}   due in $2 ms"
}

# A worker as people write them: it only knows a list. It prints each job with how long after its due time it came.
worker() {
    while :; do
        job=$(cli --raw brpop email 5 2>/dev/null | tail -n 1) || exit 0
        came=$(now)
        [ -n "$job" ] || continue
        due=${job##*\"due\":}
        name=${job#*\"job\":\"}
        printf '   worker got %-16s %4d ms after it was due\n' "\"${name%%\"*}\"" "$((came - ${due%\}}))"
        [ "$came" -ge "${due%\}}" ] || printf '%s came early\n' "${name%%\"*}" >>"$dir/wrong"
        printf '%s\n' "${name%%\"*}" >>"$dir/done"
    done
}
done_count() { [ "$(wc -l <"$dir/done")" -ge "$1" ]; }

printf '%squeue-sidecar demo%s: reliable scheduling beside workers that only know Redis lists\n' "$bold" "$plain"
: >"$dir/done"
redis-server --port 0 --unixsocket "$socket" --dir "$dir" --save '' --appendonly no >"$dir/redis.log" 2>&1 &
pids="$pids $!"
wait_until 5 'the private redis-server' cli ping
worker &
pids="$pids $!"

step '1. Two sidecars start: one leads, the other stands by'
start_sidecar first
first=$!
wait_until 5 'the first sidecar leading' says first leading
start_sidecar second
wait_until 5 'the second sidecar standing by' says second 'standing by'
say "pid $first holds the lock and promotes; the other one asks for nothing but a vacant lock" "(a private redis-server, TTL of the lock 1 s; see conf/demo.cfg)"
show redis-cli get sidecar:demo:lock
say "$(cli get sidecar:demo:lock)   (random token, TTL in ms)"

step '2. A producer delays three jobs; nobody polls, the sidecar knows when the next one is due'
job welcome-mail 1500
job reminder 700
job invoice 1100
wait_until 5 'three promoted jobs' done_count 3
say 'They came in the order of their due times. (The milliseconds are mostly redis-cli starting.)'

step '3. kill -9 the leader, with one job due at once and one falling due later'
kill -9 "$first"
killed=$(now)
job 'due at once' 0
job 'due later' 2500
wait_until 5 'a takeover' says second leading
say "the standby took over $(($(now) - killed)) ms after the kill (promised: TTL + 1 s = 2000 ms)"
wait_until 6 'the last two jobs' done_count 5
if [ -e "$dir/wrong" ] || [ "$(sort -u "$dir/done" | wc -l)" -ne 5 ] || [ "$(wc -l <"$dir/done")" -ne 5 ]; then
    cat "$dir/done" "$dir/wrong" >&2
    exit 1
fi
say 'Five jobs in, five out: none lost, none twice, none early (the demo has just checked).'

step '4. What the log of the sidecar that took over says'
grep -E '"msg":"(standing by|leading)"' "$dir/second.log" | cut -c1-150 | sed 's/^/   /'
printf '\n'
say 'Next: README.md, "Five minutes", with your own queue. Nothing of this demo is left behind.'
