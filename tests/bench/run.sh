#!/bin/sh
# Runs the benchmarks against one private redis-server: run.sh SIDECAR TOOLS [NAME...]
#
#   SIDECAR is the program, TOOLS the directory of the tools bench_NAME, NAME a tool to run (default: all)
#   BENCH_ROUNDS=5   BENCH_SECONDS=3 (of one lateness round)   REDIS_SERVER=redis-server
#   BENCH_NICE=-1    nice value of all processes, so that other programs disturb less (needs the right to raise priorities). The
#                    redis-server gets -20: where it has a machine of its own, no client takes its processor
#   BENCH_STRICT=1   a goal that is missed makes the exit code 1
#   BENCH_KEEP=1     keeps the directory with configs and logs
#   BENCH_PLOTS=DIR  draws the curves of the tools that make some (growth) as SVG files
set -eu

sidecar=$(realpath "${1:-build/queue-sidecar}")
tools=$(realpath "${2:-build/tests}")
[ $# -lt 2 ] || shift 2
[ $# -gt 0 ] || set -- promote lateness idle takeover pass workers kmqueue audit query requeue bull bullmq recovery delayed_queue stream sidekiq tls cluster storm fairness
[ -z "${BENCH_NICE:-}" ] || renice -n "$BENCH_NICE" $$ >&2
# With automatic groups of the scheduler a nice value counts only among the processes of one session.
[ -z "${BENCH_NICE:-}" ] || [ ! -w /proc/$$/autogroup ] || echo "$BENCH_NICE" >/proc/$$/autogroup
missed=0
redis=
tool=

dir=$(mktemp -d "${TMPDIR:-/tmp}/bench.XXXXXX")
finish() {
    for pid in $tool $redis; do
        if kill "$pid" 2>/dev/null; then wait "$pid" || true; fi
    done
    if [ -n "${BENCH_KEEP:-}" ]; then echo "kept: $dir" >&2; else rm -rf "$dir"; fi
}
trap finish EXIT
trap 'exit 130' HUP INT PIPE TERM

# In a session of its own, with BENCH_NICE: in one group with this weight the other processes get hardly any of its share.
${BENCH_NICE:+setsid} "${REDIS_SERVER:-redis-server}" --port 0 --unixsocket "$dir/redis.sock" --dir "$dir" --save "" --appendonly no --logfile "$dir/redis.log" &
redis=$!
for _ in $(seq 100); do
    [ ! -S "$dir/redis.sock" ] || break
    sleep 0.05
done
[ -S "$dir/redis.sock" ] || { cat "$dir/redis.log" >&2; exit 2; }
[ -z "${BENCH_NICE:-}" ] || renice -n -20 -p "$redis" >&2
[ -z "${BENCH_NICE:-}" ] || [ ! -w "/proc/$redis/autogroup" ] || echo -20 >"/proc/$redis/autogroup"

stolen() { awk '/^cpu / { print $9 + 0, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat; }
before=$(stolen)
echo "$("${REDIS_SERVER:-redis-server}" --version | cut -d' ' -f1-3), $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg), medians of ${BENCH_ROUNDS:-5} rounds"
for name in "$@"; do
    echo "== $name ($(date +%T))" >&2
    code=0
    "$tools/bench_$name" "$dir" "$sidecar" & # and wait, which a signal interrupts
    tool=$!
    wait "$tool" || code=$?
    tool=
    case $code in
    0) ;;
    1) missed=1 ;;
    *) exit "$code" ;;
    esac
    [ -z "${BENCH_PLOTS:-}" ] || [ ! -e "$dir/$name.json" ] || python3 "$(dirname "$0")/plot.py" "$dir/$name.json" "$BENCH_PLOTS"
done
echo
echo "$before $(stolen)" | awk '{ printf "the hypervisor took %.1f %% of the processors away meanwhile\n", 100 * ($3 - $1) / ($4 - $2) }'
if [ "$missed" = 0 ]; then echo "every goal is met"; else echo "not every goal is met"; fi
[ -z "${BENCH_STRICT:-}" ] || exit "$missed"
