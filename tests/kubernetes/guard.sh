#!/bin/sh
# Runs the node (node.sh), and removes all that it leaves behind, however run.sh ends: guard.sh FIFO DIRECTORY [arguments of unittest]
# run.sh holds the other end of the FIFO. If that closes, run.sh has ended or was killed, and the node is killed. The guard has a session
# of its own, so no signal for run.sh reaches it. Exit code: that of the tests.
set -u
exec 5<"$1"
node=$2
shift 2

cgroups() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else
        for dir in /sys/fs/cgroup/*/; do [ -h "${dir%/}" ] || echo "${dir%/}"; done
    fi
}
mkdir -p "$node"
cgroups | while IFS= read -r dir; do mkdir "$dir/$QS_KUBERNETES_CGROUP"; done
unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc --propagation private \
    sh tests/kubernetes/node.sh "$node" "$@" </dev/null 5<&- 7>&- &
unshare=$!
# The end of process 1 of the node is the end of all its processes, mounts and interfaces, and unshare waits for that.
{
    cat <&5 >/dev/null 7>&-
    kill -KILL "$(cat "/proc/$unshare/task/$unshare/children")" 2>/dev/null
} &
reader=$!
wait $unshare
code=$?
kill $reader 2>/dev/null
# A cgroup is busy until the kernel has let go of its last process.
cgroups | while IFS= read -r dir; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -d "$dir/$QS_KUBERNETES_CGROUP" ] || break
        find "$dir/$QS_KUBERNETES_CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.3
    done
done
rm -rf "$node"
exit $code
