#!/bin/sh
# Makes the root directory of the image: the program with its libraries, its user, its data directory, and package data for image
# scanners. Runs as root in the build stage of the Dockerfile, on Debian.
#
#   sh deploy/image/root.sh PROGRAM DIRECTORY TRIPLET
#
# TRIPLET is the program's architecture, such as aarch64-linux-gnu. It may be another than that of this machine.
set -eu
program=$1
root=$2
triplet=$3
cd "$(dirname "$0")/../.."
uid=65532

fail() {
    echo "root.sh: $1" >&2
    exit 1
}

mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64"
for name in bin lib lib64; do ln -s "usr/$name" "$root/$name"; done
install -m 755 "$program" "$root/usr/bin/queue-sidecar"

# The libraries that the program links or loads by name (dlopen), and the libraries of those. ldd would have to start the program.
by_name=$(grep -rhoE '"lib[A-Za-z0-9_+-]+\.so\.[0-9.]+"' sidecar | tr -d '"' | sort -u)
# readelf is in the compiler's package binutils.
loader=$("$triplet-readelf" -l "$program" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
paths=
add() { # names of libraries
    for name; do
        path=/usr/lib/$triplet/$name
        case "$paths $loader " in *" $path "* | *"/$name "*) continue ;; esac
        [ -e "$path" ] || fail "$name, which the program loads, is not installed"
        paths="$paths $path"
        add_needs "$path"
    done
}
add_needs() { # file
    # shellcheck disable=SC2046 # no library of Debian has a space in its name
    add $("$triplet-readelf" -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)]/\1/p')
}
add_needs "$program"
# shellcheck disable=SC2086 # words
add $by_name
packages="ca-certificates tzdata"
for path in $loader $paths; do
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

# Package data for image scanners and for the SBOM, as in the distroless images: for each package what dpkg knows, and its files that the
# image has. And the licences.
mkdir -p "$root/var/lib/dpkg/status.d"
for package in $(echo "$packages" | tr ' ' '\n' | sort -u); do
    name=${package%%:*}
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$name"
    copyright=/usr/share/doc/$name/copyright
    [ -e "$copyright" ] || fail "no $copyright: libraries must not be passed on without it"
    install -D -m 644 "$copyright" "$root$copyright"
    (cd "$root" && dpkg-query -L "$package" | sed 's|^/||' | while read -r path; do [ ! -f "$path" ] || echo "$path"; done |
        xargs md5sum) >"$root/var/lib/dpkg/status.d/$name.md5sums"
done
# The texts of the GNU and other common licences, to which the packages refer.
grep -rhoE '/usr/share/common-licenses/[A-Z][A-Za-z0-9.-]*[A-Za-z0-9]' "$root/usr/share/doc" | sort -u | while IFS= read -r text; do
    [ ! -e "$text" ] || install -D -m 644 "$text" "$root$text"
done
install -D -m 644 LICENSE "$root/usr/share/doc/queue-sidecar/copyright"
install -D -m 644 conf/queue-sidecar.cfg "$root/usr/share/doc/queue-sidecar/queue-sidecar.cfg.sample"

# The only directory that the program may write to.
install -d -m 750 -o $uid -g $uid "$root/var/lib/queue-sidecar"

# Check, where the program can run: it starts in the image's root, and the loader finds the libraries that are loaded by name.
# For another architecture tests/image does that, under qemu.
[ "$triplet" = "$(uname -m)-linux-gnu" ] || exit 0
chroot "$root" /usr/bin/queue-sidecar version
for name in $by_name; do
    found=$(chroot "$root" "$loader" --preload "$name" --list /usr/bin/queue-sidecar 2>&1) || fail "$found"
    case $found in
    *"not found"* | *"cannot be preloaded"*) fail "$found" ;;
    *"$name => "*) ;;
    *) fail "$name is not among: $found" ;;
    esac
done
