#!/bin/sh
# Builds the image for amd64 and arm64 with buildah, on a Debian 13 made from the mirror of this machine's apt: an OCI archive of both in
# build/release. That of this machine's architecture also as queue-sidecar:VERSION in the storage that deploy/image/engine.sh sets up,
# and as build/image/queue-sidecar-VERSION.tar for `docker load` or `podman load`.
# Exit codes: 0 built; 0 not possible on this machine (one line says why; with QS_CLIENTS_REQUIRED=1: 1); 1 failed.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=deploy/image/engine.sh
. deploy/image/engine.sh

engine_start podman
engine_base
engine_images
echo "image: $image, $(podman image inspect --format '{{.Size}}' "$image") bytes; docker load -i ${archive#"$PWD/"}"
echo "image: ${oci#"$PWD/"}, for amd64 and arm64, $digest"
