#!/bin/sh
# Builds the image and tests it under podman with runc: the files of the image, the hardened container, a pod.
#
#   sh tests/image/run.sh [test_container.Story.test_serves_jobs ...]
#
# Exit codes: 0 all passed, or not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1 that is 1), 1 failed.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/image/engine.sh
. deploy/image/engine.sh

clean() {
    podman pod rm --all --force --time 0
    podman rm --all --force --volumes --time 0
    podman volume rm --all --force
    podman secret ls --quiet | xargs -r podman secret rm
} >/dev/null 2>&1

engine_start podman runc python3 redis-server redis-cli readelf nsenter ip
engine_base
engine_images
engine_build localhost/queue-sidecar-pod:latest tests/image
said=$(podman run --rm --network none --memory 32m "$image" version 2>&1) ||
    impossible "podman cannot run a container here: $(echo "$said" | tail -n 1)"
unshare --net true 2>/dev/null || impossible "this machine gives no network namespace (unshare --net)"
echo "image-test: $(podman --version), $(runc --version | head -n 1), storage: $driver; $(podman image inspect --format '{{.Size}}' "$image") bytes"

# Render the component with kustomize, as operators do.
sh tests/deploy/tools.sh || true
kustomize=${QS_DEPLOY_DIR:-$PWD/build/deploy}/bin/kustomize
[ -x "$kustomize" ] || kustomize=
[ -n "$kustomize" ] || [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || exit 1

export QS_IMAGE="$image" QS_ARCHIVE="$oci" QS_KUSTOMIZE="$kustomize" PYTHONDONTWRITEBYTECODE=1
trap clean EXIT
trap 'exit 130' HUP INT TERM
clean || true
# In a network namespace of its own, so that bridges, rules and ports of the pod end with it.
# shellcheck disable=SC2016 # expands in the namespace
tests='ip link set lo up && cd tests/image && exec python3 -m unittest "$@"'
failed=0
[ $# -gt 0 ] || {
    set -- discover
    # That of arm64, under qemu.
    [ "$own" = arm64 ] || sh tests/support/emulate.sh env QS_IMAGE="localhost/queue-sidecar:$name-arm64" QS_NAME="$image" QS_ARCHITECTURE=arm64 \
        unshare --net sh -c "$tests" - emulated </dev/null || failed=$?
    [ $failed != 77 ] || [ "${QS_CLIENTS_REQUIRED:-}" = 1 ] || failed=0
}
unshare --net sh -c "$tests" - "$@" </dev/null && [ $failed = 0 ]
