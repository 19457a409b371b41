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
engine_image
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

export QS_IMAGE="$image" QS_KUSTOMIZE="$kustomize" PYTHONDONTWRITEBYTECODE=1
trap clean EXIT
trap 'exit 130' HUP INT TERM
clean || true
cd tests/image
[ $# -gt 0 ] || set -- discover
# In a network namespace of its own, so that bridges, rules and ports of the pod end with it.
unshare --net sh -c 'ip link set lo up && exec python3 -m unittest "$@"' - "$@" </dev/null
