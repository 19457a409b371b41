#!/bin/sh
# Makes the root directory of the image: the program with its libraries, its user, its data directory, and package data for image
# scanners. Runs as root in the build stage of the Dockerfile, on Debian.
#
#   sh deploy/image/root.sh PROGRAM DIRECTORY
set -eu
program=$1
root=$2
cd "$(dirname "$0")/../.."
uid=65532

fail() {
    echo "root.sh: $1" >&2
    exit 1
}

mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64"
for name in bin lib lib64; do ln -s "usr/$name" "$root/$name"; done
install -m 755 "$program" "$root/usr/bin/queue-sidecar"

# The libraries that the program links or loads by name (dlopen), and the libraries of those.
by_name=$(grep -rhoE '"lib[A-Za-z0-9_+-]+\.so\.[0-9.]+"' sidecar | tr -d '"' | sort -u)
paths=
for name in $by_name; do
    path=$(ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }')
    [ -n "$path" ] || fail "$name, which the program loads by name, is not installed"
    paths="$paths $path"
done
needs() { # file
    ldd "$1" | sed -n 's/^[[:space:]]*\(.* => \)\{0,1\}\(\/[^ ]*\) (0x.*/\2/p'
}
# shellcheck disable=SC2086 # no library of Debian has a space in its path
all=$( (
    needs "$program"
    for path in $paths; do echo "$path" && needs "$path"; done
) | sort -u)
packages="ca-certificates tzdata"
for path in $all; do
    # On Debian /lib is a link to /usr/lib; dpkg knows a file by one of the two paths.
    install -D -m 755 "$path" "$root/usr/${path#/usr/}"
    real=$(readlink -f "$path")
    owner=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}") || fail "no package has $real"
    packages="$packages ${owner%%: *}"
done

# CA certificates, and time zones for printed times and `--since`.
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
mkdir -p "$root/usr/share"
cp -a /usr/share/zoneinfo "$root/usr/share/zoneinfo"

# The user, and the lookup of host names.
mkdir -p "$root/etc/queue-sidecar"
{
    echo "root:x:0:0:root:/:/sbin/nologin"
    echo "queue-sidecar:x:$uid:$uid:queue-sidecar:/var/lib/queue-sidecar:/sbin/nologin"
} >"$root/etc/passwd"
printf 'root:x:0:\nqueue-sidecar:x:%s:\n' $uid >"$root/etc/group"
echo "hosts: files dns" >"$root/etc/nsswitch.conf"
cp -L /etc/os-release "$root/etc/os-release"

# Package data for image scanners, one file a package, as in the distroless images; and the licences.
mkdir -p "$root/var/lib/dpkg/status.d"
for package in $(echo "$packages" | tr ' ' '\n' | sort -u); do
    name=${package%%:*}
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$name"
    copyright=/usr/share/doc/$name/copyright
    [ -e "$copyright" ] || fail "no $copyright: libraries must not be passed on without it"
    install -D -m 644 "$copyright" "$root$copyright"
done
install -D -m 644 LICENSE "$root/usr/share/doc/queue-sidecar/copyright"
install -D -m 644 conf/queue-sidecar.cfg "$root/usr/share/doc/queue-sidecar/queue-sidecar.cfg.sample"

# The only directory that the program may write to.
install -d -m 750 -o $uid -g $uid "$root/var/lib/queue-sidecar"

# Check: the program starts in the image's root, and the loader finds the libraries that are loaded by name.
chroot "$root" /usr/bin/queue-sidecar version
loader=$(echo "$all" | grep '/ld-linux')
for name in $by_name; do
    found=$(chroot "$root" "$loader" --preload "$name" --list /usr/bin/queue-sidecar 2>&1) || fail "$found"
    case $found in
    *"not found"* | *"cannot be preloaded"*) fail "$found" ;;
    *"$name => "*) ;;
    *) fail "$name is not among: $found" ;;
    esac
done
