#!/bin/sh
# Makes build/promtool, Prometheus's own checker of metrics, rules and their tests: a link to this machine's promtool, or else the
# program out of Debian's package prometheus, which is not installed. If neither can be had, prints why and writes that to
# build/promtool.skipped: tests that need promtool are then skipped, unless QS_CLIENTS_REQUIRED is 1.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=deploy/again.sh
. deploy/again.sh
tool=build/promtool
mkdir -p build
exec 9>"$tool.lock"
flock 9
rm -f "$tool.skipped"
! "$tool" --version >/dev/null 2>&1 || exit 0

skip() {
    echo "promtool: tests that need it are skipped: $1" | tee "$tool.skipped"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ]
    exit
}
if command -v promtool >/dev/null; then
    ln -sf "$(command -v promtool)" "$tool"
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    skip "no promtool in PATH, and no apt-get that could fetch it"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
chmod 777 "$work" # apt fetches as a user of its own
fetch() { (cd "$work" && timeout 300 apt-get download -q prometheus); }
renew() {
    timeout 300 apt-get update -q # the lists are missing, or so old that their files are gone
    fetch
}
if ! fetch >"$work/log" 2>&1 </dev/null && [ "$(id -u)" = 0 ]; then again "$work/log" renew; fi
set -- "$work"/prometheus_*.deb
[ -e "$1" ] || skip "apt-get download prometheus: $(grep '^E:' "$work/log" | head -n 1 | cut -c1-200)"
dpkg-deb --fsys-tarfile "$1" | tar -x -C "$work" ./usr/bin/promtool || skip "Debian's package prometheus has no promtool"
mv "$work/usr/bin/promtool" "$tool"
"$tool" --version >/dev/null 2>&1 || {
    rm -f "$tool"
    skip "promtool of Debian's package prometheus does not run here"
}
