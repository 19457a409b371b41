#!/bin/sh
# Runs a command within which the kernel starts programs of arm64 by qemu, also in containers and roots:
#
#   emulate.sh COMMAND...    as root; with QEMU_LD_PREFIX=ROOT qemu takes loader and libraries from ROOT
#
# The registration is in a user namespace of its own (Linux 6.7): the rest of the machine does not see it, and it ends with the command.
# Exit code 77 = not possible on this machine (one line says why).
set -eu
impossible() {
    echo "emulate.sh: skipped: $1" >&2
    exit 77
}

rule=/usr/lib/binfmt.d/qemu-aarch64.conf
[ "$(uname -m)" != aarch64 ] || exec "$@"
[ -e $rule ] || impossible "qemu-user-static is not installed"
[ "$(id -u)" = 0 ] || impossible "only the user root can start programs of arm64"
unshare --user --mount true 2>/dev/null || impossible "this machine gives no user namespace (unshare --user)"

# In the namespace each user is the one it is outside; only a process outside can say so. Two ranges, because runc takes one range of all
# users for no namespace, and then wants rights over devices.
outside() { [ "$(readlink "/proc/$1/ns/user")" = "$(readlink /proc/self/ns/user)" ]; }
(
    while outside $$; do sleep 0.05; done
    for map in uid_map gid_map; do printf '0 0 65536\n65536 65536 4294901759\n' >"/proc/$$/$map"; done
) >/dev/null &
# shellcheck disable=SC2016 # expands in the namespace
exec unshare --user --mount --propagation private sh -euc '
    until [ "$(id -u) $(id -g)" = "0 0" ]; do sleep 0.05; done
    place=/proc/sys/fs/binfmt_misc
    rule=$1
    shift
    mount -t binfmt_misc none $place 2>/dev/null && cat "$rule" >$place/register || {
        echo "emulate.sh: skipped: the kernel has no binfmt_misc in a user namespace (Linux 6.7)" >&2
        exit 77
    }
    exec "$@"' - $rule "$@"
