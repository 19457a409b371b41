#!/bin/sh
# Makes a root of a Debian release, once:
#
#   debian_root.sh CODENAME DIRECTORY PACKAGE,... [ARCHITECTURE]    makes DIRECTORY/root, with a log and a stamp beside it
#
# It is a complete root: chroot into it (in_root.sh) and apt-get install what else is needed. It has no documentation of packages.
# Of another architecture than this machine's it is complete only within emulate.sh. Elsewhere it has only the files of the packages and of
# what they depend on, because their scripts could not run: a place of headers and libraries for a compiler (make ARCH=...), and for qemu.
# Mirror and expiry settings are those of this machine's apt; signatures are checked with the keys of debian-archive-keyring.
# Exit codes: 0 the root exists, 77 not possible on this machine (one line says why), 1 failed.
set -eu
suite=$1
mkdir -p "$2"
dest=$(cd "$2" && pwd)
packages=$3
architecture=${4:-$(dpkg --print-architecture 2>/dev/null || true)}
# shellcheck source=deploy/again.sh
. "$(dirname "$0")/../../deploy/again.sh"

impossible() {
    echo "debian_root.sh: skipped: $1" >&2
    exit 77
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

make_root() { # directory
    rm -rf "$1"
    check=$(apt-config shell v Acquire::Check-Valid-Until | sed "s/^v='\(.*\)'$/\1/")
    # shellcheck disable=SC2086 # words
    set -- "$1" --variant=$variant --architectures="$architecture" --include="$packages" --mode=root \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*'
    [ "$check" != false ] || set -- "$@" --aptopt='Acquire::Check-Valid-Until "false"'
    root=$1
    shift
    # mmdebstrap names a pipe to /bin/sh, which takes no number of two digits; so it gets none of the callers' locks.
    sources | mmdebstrap "$@" "$suite" "$root" - 7>&- 8>&- 9>&-
}

command -v mmdebstrap >/dev/null || impossible "mmdebstrap is not installed"
command -v apt-get >/dev/null || impossible "this machine has no apt"
command -v flock >/dev/null || impossible "flock is not installed"
[ "$(id -u)" = 0 ] || impossible "only the user root can make a Debian root"

variant=apt
[ "$architecture" = "$(dpkg --print-architecture)" ] || variant="apt --skip=check/qemu"
[ "$variant" = apt ] || [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || variant=extract
exec 9>"$dest/lock"
flock 9
stamp=$( (cat "$0" && echo "$suite $packages $architecture $variant") | cksum)
[ "$(cat "$dest/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
sources >/dev/null || impossible "apt knows no mirror of this Debian release (run apt-get update)"

rm -rf "$dest/root" "$dest"/root.tmp.* "$dest/stamp"
if ! again "$dest/log" make_root "$dest/root.tmp.$$"; then
    reason=$(grep -m 1 '^E:' "$dest/log" || tail -n 1 "$dest/log")
    rm -rf "$dest/root.tmp.$$"
    impossible "mmdebstrap failed: $reason (see $dest/log)"
fi
mv "$dest/root.tmp.$$" "$dest/root"
echo "$stamp" >"$dest/stamp"
