#!/bin/sh
# Process 1 of the node: node.sh DIRECTORY [arguments of unittest]. run.sh gives it mounts, network, host name and processes of its own.
# All that is mounted or started here ends with this process.
set -eu
node=$1
shift
mount --make-rshared / # the kubelet passes mounts on to containers
hostname node1
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock "$node/log" "$node/cni" /var/lib/cni
mount --bind "$node/log" /var/log
mount --bind "$node/cni" /var/lib/cni
# A kubelet sets these. Files in their place have what it wants, so that those of this machine stay.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
    file=$node/$(basename "${setting%=*}")
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
done
# A veth pair is the network card of the node: some kernels have no device of the kind dummy. Nothing is behind it.
ip link set lo up
ip link add eth0 type veth peer name eth0-peer
ip link set eth0-peer up
ip addr add 192.0.2.1/32 dev eth0
ip link set eth0 up
ip route add default dev eth0
echo 1 >/proc/sys/net/ipv4/ip_forward
{ echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables; } 2>/dev/null || true
export PYTHONPATH=tests/kubernetes:tests/helm:tests/deploy # charts.py renders the charts
exec catatonit -- python3 -W ignore::ResourceWarning -m unittest "$@"
