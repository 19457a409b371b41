#!/bin/sh
# Runs a test to its end, and ends a run by SIGTERM and by SIGKILL while pods run. Nothing may be left of them: no process, cgroup,
# mount, interface or file outside of build/. run.sh calls it after all tests.
set -eu
cd "$(dirname "$0")/../.."
place=${QS_KUBERNETES_DIR:-$PWD/build/kubernetes}
out=$place/leftovers
mkdir -p "$out"

state() {
    echo "mounts:" && cut -d' ' -f5 /proc/self/mountinfo | sort
    echo "interfaces:" && ip -o link | cut -d: -f2 | sort
    echo "cgroups:" && find /sys/fs/cgroup -name 'qs-kubernetes-*'
    echo "files:" && find /run /var/lib /var/log /run/netns /var/lib/cni -maxdepth 1 2>/dev/null | sort -u
    echo "below $place:" && find "$place" -maxdepth 1 -name node
    echo "processes:"
    pgrep -af "$place/(bin|node|pki)" || true
}
waits() { # file, text: until the file has the text
    seconds=0
    until grep -q "$2" "$1"; do
        seconds=$((seconds + 1))
        [ $seconds -lt 240 ] || {
            cat "$1" >&2
            echo "leftovers: waited in vain for: $2" >&2
            exit 1
        }
        sleep 1
    done
}

state >"$out/before"
for signal in none TERM KILL; do
    QS_KUBERNETES_CGROUP='' sh tests/kubernetes/run.sh test_life.Removal >"$out/run" 2>&1 </dev/null &
    pid=$!
    if [ $signal = none ]; then
        wait $pid || {
            cat "$out/run" >&2
            exit 1
        }
    else
        waits "$out/run" "the cluster is ready"
        kill -$signal $pid
        wait $pid 2>/dev/null || true
    fi
    flock -w 120 "$place/lock" true || {
        echo "leftovers: after $signal: the guard has not ended" >&2
        exit 1
    }
    state >"$out/after"
    diff "$out/before" "$out/after" || {
        echo "leftovers: after the signal $signal: the lines with > are left" >&2
        exit 1
    }
    echo "leftovers: signal $signal: nothing is left"
done
