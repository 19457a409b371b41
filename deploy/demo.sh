#!/bin/sh
# make demo: shows the sidecar on a private redis-server. Delayed jobs fall due; a worker is killed and its job comes back; a poison
# job is retried and ends; the leader is killed and another instance takes over; the audit log is queried. All files are in a
# temporary directory, which is removed at the end.
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
    for pid in $pids ${!-}; do kill "$pid" 2>/dev/null || true; done # $! may not be in $pids yet
    for pid in $pids ${!-}; do wait "$pid" 2>/dev/null || true; done
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
fail() {
    printf 'demo: %s; the logs say:\n' "$1" >&2
    cat "$dir"/*.log >&2
    exit 1
}

# wait_until WHAT COMMAND...: waits until the command succeeds; fails after a minute.
wait_until() {
    limit=$(($(now) + 60000)) what=$1
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(now)" -le "$limit" ] || fail "$what did not happen in time"
        sleep 0.01
    done
}

start_sidecar() { # NAME
    QUEUE_SIDECAR_AUDIT_PATH=$dir/$1.db "$sidecar" run -c "$here/conf/demo.cfg" 2>"$dir/$1.log" &
    pids="$pids $!"
}
says() { grep -q "\"msg\":\"$2\"" "$dir/$1.log"; }

# job NAME DELAY_MS: adds a delayed job, as a producer in any language does.
job() {
    due=$(($(now) + $2))
    cli zadd email:delayed "$due" "{\"job\":\"$1\",\"due\":$due}" >/dev/null
    say "ZADD email:delayed $due {\"job\":\"$1\",...}   due in $2 ms"
}

# A usual worker: it uses two lists and a hash. The job's name tells it what to do.
cat >"$dir/worker.sh" <<'WORKER'
socket=$1 dir=$2
cli() { redis-cli -s "$socket" "$@"; }
while :; do
    job=$(cli --raw blmove email email:backup right left 5 2>/dev/null) || exit 0 # the server has ended
    [ -n "$job" ] || continue
    came=$(date +%s%3N) due=${job##*\"due\":} name=${job#*\"job\":\"}
    due=${due%\}} name=${name%%\"*}
    case $name in
    poison*)
        printf '%s\n' "$name" >>"$dir/poisoned"
        printf '   worker got %-16s and fails:  HSET email:errors <the job> "550 no such mailbox"\n' "\"$name\""
        cli hset email:errors "$job" '550 no such mailbox' >/dev/null
        continue
        ;;
    video*)
        if [ ! -e "$dir/videos" ]; then
            printf '   worker got %-16s and works on it, which takes long...\n' "\"$name\""
            printf '%s\n' "$$" >"$dir/videos"
            cli blpop nothing 60 >/dev/null 2>&1 # a long job; it ends with the server, even if the worker is killed
        fi
        printf '   worker got %-16s again, and finishes it\n' "\"$name\""
        ;;
    *) printf '   worker got %-16s %4d ms after it was due\n' "\"$name\"" "$((came - due))" ;;
    esac
    [ "$came" -ge "$due" ] || printf '%s came early\n' "$name" >>"$dir/wrong"
    cli lrem email:backup 1 "$job" >/dev/null
    printf '%s\n' "$name" >>"$dir/done"
done
WORKER
start_worker() {
    sh "$dir/worker.sh" "$socket" "$dir" &
    worker=$!
    pids="$pids $worker"
}
done_count() { [ "$(wc -l <"$dir/done")" -ge "$1" ]; }
has() { [ -s "$dir/$1" ]; }
in_log() { "$sidecar" audit list --db "$dir/$1.db" -o jsonl | grep -q "$2"; }

printf '%squeue-sidecar demo%s: reliable scheduling beside workers that only know Redis lists\n' "$bold" "$plain"
: >"$dir/done"
redis-server --port 0 --unixsocket "$socket" --dir "$dir" --save '' --appendonly no >"$dir/redis.log" 2>&1 &
pids="$pids $!"
wait_until 'the private redis-server' cli ping
start_worker

step '1. Two sidecars start: one leads, the other stands by'
start_sidecar first
first=$!
wait_until 'the first sidecar leading' says first leading
start_sidecar second
wait_until 'the second sidecar standing by' says second 'standing by'
say "pid $first holds the lock; the standby waits for the lock and copies failures into its own audit log" \
    "(a private redis-server, lock TTL 1 s, a job may take 1 s, one retry; see conf/demo.cfg)"

step '2. A producer delays three jobs; nobody polls, the sidecar knows when the next one is due'
job welcome-mail 1200
job reminder 500
job invoice 900
wait_until 'three promoted jobs' done_count 3
say 'They came in the order of their due times. (The milliseconds are mostly redis-cli starting.)'

step '3. A worker is killed in the middle of a job: kill -9'
job video 0
wait_until 'the video taken' has videos
kill -9 "$worker"
wait "$worker" 2>/dev/null || true
say 'The worker is dead; its job is still in the list email:backup, where BLMOVE has put it. Another worker starts.'
start_worker
wait_until 'the video coming back' done_count 4
say 'The monitor found it stalled (a job may take 1 s here) and gave it back.'

step '4. A poison job: its worker reports an error each time'
job poison 0
wait_until 'the poison job in the audit log' in_log first poison
[ "$(wc -l <"$dir/poisoned")" -eq 2 ] || fail 'the poison job was not tried twice'
say 'After one retry it has failed for good: the sidecar removed it from the queue; each audit log has a row.'

step '5. kill -9 the leader, with one job due at once and one falling due later'
kill -9 "$first"
killed=$(now)
job 'due at once' 0
job 'due later' 2000
wait_until 'a takeover' says second leading
say "the standby took over $(($(now) - killed)) ms after the kill (promised: TTL + 1 s = 2000 ms)"
wait_until 'the last two jobs' done_count 6
if [ -e "$dir/wrong" ] || [ "$(sort -u "$dir/done" | wc -l)" -ne 6 ] || [ "$(wc -l <"$dir/done")" -ne 6 ]; then
    cat "$dir/done" "$dir/wrong" >&2
    fail 'a job was lost, doubled or early'
fi
say 'Seven jobs in, six done, one failed for good: none lost, none twice, none early (the demo has just checked).'

step '6. What failed, and why? Query the audit log of the sidecar that still runs'
wait_until 'the second audit log' in_log second poison
show queue-sidecar audit list
"$sidecar" audit list --db "$dir/second.db" | sed 's/^/   /'
ref=$("$sidecar" audit list --db "$dir/second.db" -o jsonl | sed -n 's/.*"ref":"\([^"]*\)".*/\1/p' | head -n 1)
printf '\n'
show queue-sidecar audit show "$ref"
"$sidecar" audit show "$ref" --db "$dir/second.db" | sed 's/^/   /'
printf '\n'
say 'Next: README.md, "Five minutes", with your own queue. The demo has removed all its files.'
