#!/bin/sh
# Checks the systemd units: systemd-analyze verifies them, their exposure has a limit, and their filter allows all system calls of a
# real run. Without systemd-analyze, strace or redis-server it skips the check that needs the tool, and says so.
set -eu
cd "$(dirname "$0")/../.."
program=${QS_PROGRAM:-build/queue-sidecar}
most=20 # largest exposure, in tenths: 0 is best, 100 worst
work=$(mktemp -d)
redis=
sidecar=
finish() {
    [ -z "$sidecar" ] || pkill -9 -P "$sidecar" || true # SIGKILL of strace alone would leave the sidecar running
    [ -z "$sidecar" ] || kill -9 "$sidecar" 2>/dev/null || true
    [ -z "$redis" ] || kill -9 "$redis" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "deploy/systemd/queue-sidecar.service.in:1: $1"
    exit 1
}
if ! command -v systemd-analyze >/dev/null; then
    echo "ok   systemd: SKIPPED, there is no systemd-analyze"
    exit 0
fi

# A path with a space must stay one word of a command line. The drop-in must not use %d, which came with systemd 250.
mkdir "$work/a place"
BINDIR="$work/a place" MANDIR=$work/man DOCDIR=$work/doc BASHCOMPDIR=$work/bash ZSHCOMPDIR=$work/zsh UNITDIR=$work/units SYSUSERSDIR=$work/users \
    CONFDIR=$work/etc DESTDIR='' sh deploy/install.sh install "$program" "${program%/*}/gen/queue-sidecar.1" "${program%/*}/gen/queue-sidecar.cfg.5" >/dev/null
mv "$work/units/queue-sidecar@.service" "$work/units/queue-sidecar@shop.service"
for unit in queue-sidecar queue-sidecar@shop; do
    systemd-analyze verify --man=no "$work/units/$unit.service" >"$work/said" 2>&1 || echo "refused" >>"$work/said"
    # Ignore reports about other units: machines that were not booted with systemd lack some.
    if grep -q "$unit\|refused" "$work/said"; then
        cat "$work/said"
        fail "systemd-analyze verify says so (above)"
    fi
    systemd-analyze security --offline=true --no-pager --threshold=$most "$work/units/$unit.service" >"$work/exposure" 2>&1 || {
        grep -v '^✓' "$work/exposure" || true
        fail "the service is more exposed than $most tenths (above)"
    }
done
! grep -n '^[A-Z].*%d' deploy/systemd/password.conf || fail "the drop-in has %d, which systemd 247 does not know"
exposure=$(sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p' "$work/exposure")
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers --dry-run "$work/users/queue-sidecar.conf" >"$work/said" 2>&1 || {
        cat "$work/said"
        fail "systemd-sysusers refuses deploy/systemd/sysusers.conf (above)"
    }
fi

unit=$work/units/queue-sidecar.service
expand() { # set
    systemd-analyze syscall-filter "$1" | sed -n 's/^    \([@a-z_0-9-]*\)$/\1/p' | while read -r name; do
        case $name in
        @*) expand "$name" ;;
        *) echo "$name" ;;
        esac
    done
}
sets() { # how the lines of the filter begin
    sed -n "s/^SystemCallFilter=\($1.*\)/\1/p" "$unit" | tr -d '~' | tr ' ' '\n' | while read -r name; do expand "$name"; done
}
calls="no strace, system calls not checked"
if command -v strace >/dev/null && command -v redis-server >/dev/null && strace -f -o "$work/probe" true 2>/dev/null; then
    # Do not run as root: SQLite would make system calls that the service does not make.
    as=
    if [ "$(id -u)" = 0 ]; then
        as="setpriv --reuid=65534 --regid=65534 --clear-groups --"
        chown -R 65534:65534 "$work"
    fi
    # shellcheck disable=SC2086 # words
    $as redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" >"$work/redis.log" 2>&1 &
    redis=$!
    cli() { redis-cli -s "$work/redis.sock" "$@" >/dev/null; }
    wait_for() { # command: waits up to 30 s until it succeeds
        for _ in $(seq 300); do
            "$@" >/dev/null 2>&1 && return
            sleep 0.1
        done
        cat "$work/log"
        fail "no answer to: $*"
    }
    said() { grep -q "$1" "$work/log"; }
    wait_for cli PING
    printf 'redis = { socket = "%s"; }; audit = { path = "%s"; }; http = { port = 0; }; defaults = { heartbeat = "off"; retry_times = 0; protected_timeout = "50ms"; };
        queues = ( { name = "q"; } );\n' "$work/redis.sock" "$work/audit.db" >"$work/q.cfg"
    # shellcheck disable=SC2086 # words
    NOTIFY_SOCKET=@queue-sidecar-nobody WATCHDOG_USEC=100000 $as strace -f -qq -o "$work/trace" "$work/a place/queue-sidecar" run -c "$work/q.cfg" >"$work/log" 2>&1 &
    sidecar=$!
    wait_for said leading
    cli ZADD q:delayed 1 job
    cli LPUSH q:backup dead
    wait_for said 'failed for good'
    sed -i 's/50ms/60ms/' "$work/q.cfg"
    pkill -HUP -P "$sidecar" || true
    wait_for said 'in effect'
    pkill -TERM -P "$sidecar"
    wait "$sidecar" || fail "the sidecar under strace did not end well"
    sidecar=
    sed -n 's/^[0-9]* *\([a-z_0-9]*\)(.*/\1/p' "$work/trace" | sort -u >"$work/used"
    sets '[^~]' | sort -u >"$work/allowed"
    sets '~' | sort -u >"$work/denied"
    comm -23 "$work/allowed" "$work/denied" >"$work/filter"
    # execve is a call of the manager, before it sets the filter.
    grep -vx execve "$work/used" | comm -23 - "$work/filter" >"$work/refused"
    [ ! -s "$work/refused" ] || fail "the filter refuses what a run needs: $(tr '\n' ' ' <"$work/refused")"
    sed -n 's/.* socket(\(AF_[A-Z0-9]*\).*/\1/p' "$work/trace" | sort -u >"$work/families"
    sed -n 's/^RestrictAddressFamilies=//p' "$unit" | tr ' ' '\n' | sort | comm -23 "$work/families" - >"$work/refused"
    [ ! -s "$work/refused" ] || fail "RestrictAddressFamilies refuses $(cat "$work/refused")"
    calls="$(wc -l <"$work/used") system calls of a run pass the filter"
fi
echo "ok   systemd: units verified, exposure $exposure of 10, $calls"
