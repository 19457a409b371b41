#!/bin/sh
# Boots a Debian root with its own systemd, in namespaces of its own (processes, mounts, network, cgroups), and waits for its end. It
# cannot change the kernel's settings, clock or modules:
#
#   boot.sh ROOT CGROUP PIDFILE LOG     PIDFILE gets the process id of its systemd; CGROUP is a new name below the root of cgroup v2;
#                                       LOG, a file, gets what systemd says before the journal runs
#
# Without podman, because it gives systemd the hierarchies of cgroup v1 on a machine that has them, and the systemd of Debian 13 refuses
# those.
set -eu
# shellcheck disable=SC2016 # expands in the namespaces
exec unshare --mount --propagation private sh -euc '
    groups=$(mktemp -d)
    mount -t cgroup2 none "$groups"
    group=$groups/$2
    mkdir "$group"
    echo $$ >"$group/cgroup.procs"
    end() {
        echo $$ >"$groups/cgroup.procs"
        for _ in $(seq 100); do # until the kernel has removed the last process
            find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
            sleep 0.1
        done
        umount "$groups"
        rmdir "$groups"
    }
    trap end EXIT
    trap "exit 1" HUP INT TERM
    unshare --mount --uts --ipc --net --cgroup --pid --fork --kill-child sh -euc "
        mount --bind \"\$1\" \"\$1\"
        cd \"\$1\"
        mount -t proc proc proc
        mount --bind proc/sys proc/sys
        mount -o remount,bind,ro proc/sys
        mount -t sysfs -o ro sysfs sys
        mount -t cgroup2 cgroup2 sys/fs/cgroup
        mount -t tmpfs -o mode=755 tmpfs run
        mount -t tmpfs -o mode=755 tmpfs dev
        for device in null zero full random urandom tty; do
            touch dev/\$device
            mount --bind /dev/\$device dev/\$device
        done
        touch dev/kmsg
        mount --bind \"\$2\" dev/kmsg
        ln -s /proc/self/fd dev/fd
        ln -s pts/ptmx dev/ptmx
        mkdir dev/shm dev/pts
        mkdir -p mnt
        pivot_root . mnt
        umount -l mnt
        exec env -i container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
            setpriv --bounding-set=-sys_module,-sys_rawio,-sys_time,-syslog /lib/systemd/systemd --unit=multi-user.target --log-target=journal-or-kmsg
    " - "$1" "$4" &
    child=$!
    echo "$child" >"$3"
    wait "$child"
' - "$@"
