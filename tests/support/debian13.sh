#!/bin/sh
# Makes a Debian 13 root in build/debian13/root, once, and prints the paths of two launchers, one a line:
# build/debian13/redis-server-8.0 and build/debian13/valkey-server-8.1. They run the root's servers through the root's own dynamic
# loader, without chroot: sockets, directories, preloads and signals work as with any server. The root is a complete one: chroot into
# it and apt-get install what a build needs.
#
# Mirror and expiry settings are those of this machine's apt; signatures are checked with the keys of debian-archive-keyring.
# Exit codes: 0 the root exists, 77 not possible on this machine (one line says why), 1 failed.
set -eu

suite=trixie
packages=redis-server,valkey-server
top=$(cd "$(dirname "$0")/../.." && pwd)
dest=${QS_DEBIAN13_DIR:-$top/build/debian13}
# shellcheck source=deploy/again.sh
. "$top/deploy/again.sh"
servers="redis-server:redis-server-8.0 valkey-server:valkey-server-8.1"

impossible() {
    echo "debian13.sh: skipped: $1" >&2
    exit 77
}

show() {
    for pair in $servers; do echo "$dest/${pair#*:}"; done
}

# Prints the site from which this machine's apt fetches a suite; nothing if there is none.
site_of() {
    # shellcheck disable=SC2016 # $(SITE) is apt's own
    apt-get indextargets --format '$(SITE)' "Codename: $1" 2>/dev/null | head -n 1
}

# Prints the apt sources of the new root, in the one-line format.
sources() {
    key=$(find /usr/share/keyrings -name 'debian-archive-keyring.*' | sort | head -n 1)
    # shellcheck disable=SC1091
    own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    main=$(site_of "$own")
    security=$(site_of "$own-security")
    [ -n "$main" ] || return 1
    echo "deb [signed-by=$key] $main $suite main"
    [ -z "$security" ] || echo "deb [signed-by=$key] $security $suite-security main"
}

launcher() { # program, path of the launcher
    cat >"$2" <<EOF
#!/bin/sh
# Made by debian13.sh: $1 of Debian 13, run by that system's own dynamic loader.
root=\$(cd "\$(dirname "\$0")" && pwd)/root
for loader in "\$root"/usr/lib/*/ld-linux*.so.*; do break; done
exec "\$loader" --library-path "\${loader%/*}" --argv0 "$1" "\$root/usr/bin/$1" "\$@"
EOF
    chmod 755 "$2"
}

make_root() { # directory
    rm -rf "$1"
    check=$(apt-config shell v Acquire::Check-Valid-Until | sed "s/^v='\(.*\)'$/\1/")
    set -- "$1" --variant=apt --include="$packages" --mode="$mode" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*'
    [ "$check" != false ] || set -- "$@" --aptopt='Acquire::Check-Valid-Until "false"'
    root=$1
    shift
    sources | mmdebstrap "$@" "$suite" "$root" -
}

command -v mmdebstrap >/dev/null || impossible "mmdebstrap is not installed"
command -v apt-get >/dev/null || impossible "this machine has no apt"
command -v flock >/dev/null || impossible "flock is not installed"
[ "$(id -u)" = 0 ] || impossible "only the user root can make a Debian root"
mode=root

mkdir -p "$dest"
exec 9>"$dest/lock"
flock 9
stamp="$(cksum <"$0")"
if [ "$(cat "$dest/stamp" 2>/dev/null)" = "$stamp" ]; then
    show
    exit 0
fi
sources >/dev/null || impossible "apt knows no mirror of this Debian release (run apt-get update)"

rm -rf "$dest/root" "$dest"/root.tmp.* "$dest/stamp"
if ! again "$dest/log" make_root "$dest/root.tmp.$$"; then
    reason=$(grep -m 1 '^E:' "$dest/log" || tail -n 1 "$dest/log")
    rm -rf "$dest/root.tmp.$$"
    impossible "mmdebstrap failed: $reason (see $dest/log)"
fi
mv "$dest/root.tmp.$$" "$dest/root"
for pair in $servers; do
    launcher "${pair%:*}" "$dest/${pair#*:}"
    "$dest/${pair#*:}" --version >>"$dest/log" 2>&1 || {
        echo "debian13.sh: ${pair#*:} does not run (see $dest/log)" >&2
        exit 1
    }
done
echo "$stamp" >"$dest/stamp"
show
