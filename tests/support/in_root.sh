#!/bin/sh
# Runs a command as root in a root of debian_root.sh, with /proc, /dev and an empty /tmp. The mounts are in a namespace of their own,
# so that they end with it. The command gets no variable of the caller, only what `env` in front of it sets:
#
#   in_root.sh ROOT [env NAME=VALUE...] COMMAND...
set -eu
# shellcheck disable=SC2016 # expands in the namespace
exec unshare --mount --propagation private sh -eu -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc" # within emulate.sh
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    [ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
' - "$@"
