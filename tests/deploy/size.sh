#!/bin/sh
# Measures the sizes in deploy/README.md: sh tests/deploy/size.sh [SECONDS]. Starts a private redis-server and one sidecar, scraped each
# second: first idle, then with 1,000 delayed jobs a second, then with 100 final failures a second. Prints resident memory (in brackets
# the anonymous part and the peak), processor time in thousandths of a core, as Kubernetes counts it, requests to Redis while idle, and
# disk space for each final failure. Then starts a standby, and prints connections and series of both.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-30}
program=${QS_PROGRAM:-build/queue-sidecar}
work=$(mktemp -d)
redis=
sidecar=
standby=
finish() {
    [ -z "$sidecar$standby" ] || kill $sidecar $standby 2>/dev/null || true # each is a number or nothing
    [ -z "$redis" ] || kill "$redis" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

redis-server --port 0 --unixsocket "$work/redis" --save '' --dir "$work" >/dev/null &
redis=$!
cli() { redis-cli -s "$work/redis" "$@"; }
until cli ping >/dev/null 2>&1; do
    kill -0 "$redis" || exit 1
    sleep 0.1
done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/size.cfg" <<EOF
group = "size"; redis = { socket = "$work/redis"; }; audit = { path = "$work/audit.db"; }; http = { port = $port; };
queues = ( { name = "email"; retry_times = 0; }, { name = "sms"; } );
EOF
"$program" run -c "$work/size.cfg" 2>"$work/log" &
sidecar=$!
until grep -q '"msg":"leading"' "$work/log"; do
    kill -0 "$sidecar" || exit 1
    sleep 0.1
done

ticks() { awk '{ print $14 + $15 }' "/proc/$sidecar/stat"; }
idle() { :; }
# Adds jobs that fall due during the next second, and empties ready.
delayed() {
    now=$(date +%s)
    awk -v s="$now" -v n="$1" 'BEGIN { for (i = 0; i < 1000; i++) printf "ZADD email:delayed %d%03d job-%d-%d-%080d\r\n", s + 1, i, n, i, 0 }' |
        cli --pipe >/dev/null
    cli ltrim email 1 0 >/dev/null
}
failures() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < 100; i++) {
        job = sprintf("job-%d-%d-%080d", n, i, 0)
        printf "LPUSH email:backup %s\r\nHSET email:errors %s !broken\r\n", job, job } }' | cli --pipe >/dev/null
}
measure() { # function to call each second, label
    ticks=$(ticks)
    from=$(date +%s%N)
    n=0
    while [ $n -lt "$seconds" ]; do
        "$1" $n
        curl -fs "http://127.0.0.1:$port/metrics" >/dev/null
        n=$((n + 1))
        sleep "$(awk -v from="$from" -v now="$(date +%s%N)" -v n=$n 'BEGIN { left = n - (now - from) / 1e9; print (left > 0 ? left : 0) }')"
    done
    to=$(date +%s%N)
    awk -v what="$2" -v ticks="$(($(ticks) - ticks))" -v ns="$((to - from))" -v hz="$(getconf CLK_TCK)" '
        /^VmRSS/ { rss = $2 } /^RssAnon/ { own = $2 } /^VmHWM/ { top = $2 }
        END { printf "%-28s %5.1f MiB resident (%.1f of it its own, %.1f at most), %4.1fm processor time\n",
                  what, rss / 1024, own / 1024, top / 1024, ticks / hz / (ns / 1e9) * 1000 }' "/proc/$sidecar/status"
}
asked() { cli info stats | sed -n 's/^total_commands_processed:\([0-9]*\).*/\1/p'; }
before=$(asked)
measure idle "idle, scraped"
awk -v n="$(($(asked) - before))" -v s="$seconds" 'BEGIN { printf "%-28s %5.1f commands a second\n", "idle, scraped", n / s }'
measure delayed "1,000 delayed jobs a second"
measure failures "100 final failures a second"
sleep 2 # until the auditor has copied the last failures
curl -fs "http://127.0.0.1:$port/metrics" | awk '
    $1 == "queue_sidecar_audit_bytes" { bytes = $2 } $1 == "queue_sidecar_audit_kept_rows" { rows = $2 }
    END { printf "%-28s %5.0f bytes of disk for each of %d, with payloads of 90\n", "final failures", bytes / rows, rows }'

sed "s|$work/audit|$work/second|; s/port = $port/port = $((port + 1))/" "$work/size.cfg" >"$work/second.cfg"
"$program" run -c "$work/second.cfg" 2>"$work/second.log" &
standby=$!
until grep -q '"msg":"standing by"' "$work/second.log"; do
    kill -0 "$standby" || exit 1
    sleep 0.1
done
sleep 1 # until all connections are open
for of in "leader $port $sidecar" "standby $((port + 1)) $standby"; do
    # shellcheck disable=SC2086 # three words
    set -- $of
    series=$(curl -fs "http://127.0.0.1:$2/metrics" | grep -v '^#')
    connections=$(echo "$series" | sed -n 's/^queue_sidecar_redis_connections //p')
    echo "$1, two queues: $connections connections, $(echo "$series" | wc -l) series, $(echo "$series" | grep -c 'queue="sms"') of them for each queue"
done
