#!/bin/sh
# Runs the manifests of deploy/ on a real Kubernetes: one node, with kube-apiserver, controllers, scheduler, kubelet and kube-proxy of
# binaries.sh, and containerd, etcd and CNI plugins of Debian. All of it runs in namespaces of its own, which end with the tests.
#
#   run.sh [test_life.Life.test_is_ready ...]    all tests, or these
#   run.sh --have [...]                          only if Kubernetes was built before: CI does not build it
#
# Exit codes: 0 all passed, or not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1 that is 1), 1 failed.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/image/engine.sh
. deploy/image/engine.sh
place=${QS_KUBERNETES_DIR:-$PWD/build/kubernetes}

impossible() {
    echo "kubernetes: skipped: $1" >&2
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || exit 1
    exit 0
}
progress() { echo "kubernetes: $1"; }

if [ "${1:-}" = --have ]; then
    shift
    sh tests/kubernetes/binaries.sh --have || {
        echo "kubernetes: skipped: build/kubernetes has no Kubernetes (make test-kubernetes builds it)"
        exit 0
    }
fi
for tool in catatonit containerd conntrack curl etcd gcc ip iptables openssl runc; do
    command -v $tool >/dev/null || impossible "$tool is not installed (sh deploy/deps.sh kubernetes)"
done
mkdir -p "$place/images" "$place/pki"
exec 7>"$place/lock"
flock -w 60 7 || impossible "another run uses $place"
case $* in
'' | *test_shapes*) sh tests/deploy/tools.sh helm || exit 1 ;; # the charts
esac
sh tests/kubernetes/binaries.sh || { [ $? = 77 ] && [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] && exit 0 || exit 1; }

progress "images"
engine_start podman runc python3 redis-cli
engine_base
engine_image "$(dpkg --print-architecture)"
sh tests/kubernetes/pki.sh "$place/pki"
context=$place/images/context
rm -rf "$context"
mkdir -p "$context"
cp tests/kubernetes/images/*.py "$place/pki/ca.crt" "$context"
python3 tests/clients/extract.py docs/worker-contract.md "$context/workers"
mv "$context/workers/python/worker.py" "$context"
gcc -O2 -Wall -Wextra -Werror -static -o "$context/pause" tests/kubernetes/images/pause.c
names=
picture() { # stage of the Dockerfile, name
    engine_build "$2" --build-arg SIDECAR="$image" --target "$1" -f tests/kubernetes/images/Dockerfile "$context"
    names="$names $2"
}
# The names of images in deploy/examples. Those with a path or a host of others are what the examples name too.
tag=$(sed -n 's/^ *newTag: //p' deploy/examples/python-deployment/kustomization.yaml)
picture sidecar "registry.example.org/queue-sidecar:$tag"
picture mailer registry.example.org/mailer:1.4.2
picture waits registry.example.org/importer:2.11.0
picture waits registry.example.org/shop:2.7.0
picture waits quay.io/oauth2-proxy/oauth2-proxy:v7.15.6
picture token registry.example.org/redis-token:1.0.3
picture proxy registry.example.org/stunnel:5.75
picture video registry.example.org/video:8.0.1
picture video registry.example.org/photos:3.2.0
picture waits registry.example.org/shop-worker:5.1.0
picture pause registry.k8s.io/pause:3.10
archive=$place/images/all.tar
# shellcheck disable=SC2086 # words
ids=$(podman image inspect --format '{{.Id}} {{.RepoTags}}' $names)
if [ "$(cat "$archive.ids" 2>/dev/null)" != "$ids" ]; then
    rm -f "$archive" "$archive.ids"
    # shellcheck disable=SC2086
    podman save --quiet --multi-image-archive --format docker-archive --output "$archive" $names >/dev/null
    echo "$ids" >"$archive.ids"
fi
exec 8>&- # the lock of the images
unshare --mount --net --uts --ipc --pid --fork true 2>/dev/null || impossible "this machine gives no namespaces (unshare)"

# The kubelet makes its cgroups below one of this run, in each hierarchy, so that nothing is left of them.
export QS_KUBERNETES_DIR="$place" QS_KUBERNETES_CGROUP=qs-kubernetes-$$ PYTHONDONTWRITEBYTECODE=1
progress "the cluster starts"
all=
[ $# -gt 0 ] || {
    all=yes
    set -- discover -s tests/kubernetes
}
fifo=$place/fifo
rm -rf "$fifo" "$place/node"
mkfifo "$fifo"
setsid sh tests/kubernetes/guard.sh "$fifo" "$place/node" "$@" </dev/null &
guard=$!
exec 6>"$fifo"
trap 'exec 6>&-; wait $guard || true; exit 130' HUP INT TERM
code=0
wait $guard || code=$?
exec 6>&- 7>&-
[ $code != 0 ] || [ -z "$all" ] || sh tests/kubernetes/leftovers.sh || code=1
if [ $code = 0 ]; then progress "all tests passed"; else progress "FAILED"; fi
exit $code
