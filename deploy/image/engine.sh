# shellcheck shell=sh
# Source this file from the top of the tree. It sets up buildah and podman with their own storage in build/image, apart from other
# images of this machine, and a Debian 13 base image.

# shellcheck source=deploy/again.sh
. deploy/again.sh
image_dir=$PWD/build/image

# Says why the image cannot be built, and ends the script. In CI that is a failure.
impossible() {
    echo "image: skipped: $1" >&2
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || exit 1
    exit 0
}

# Sets low ulimits for containers, because this process may not raise its own. Podman runs health checks by systemd timers, which a
# build machine may lack; so they are off, and tests run the health check themselves.
engine_start() {
    [ "$(id -u)" = 0 ] || impossible "it needs to be root"
    for tool in buildah flock "$@"; do command -v "$tool" >/dev/null || impossible "$tool is not installed (sh deploy/deps.sh image)"; done
    mkdir -p "$image_dir/probe/lower" "$image_dir/probe/upper" "$image_dir/probe/work" "$image_dir/probe/merged"
    exec 8>"$image_dir/lock"
    flock 8
    # Some file systems, such as an overlay, refuse to carry an overlay: then use vfs.
    driver=vfs
    if mount -t overlay overlay -o "lowerdir=$image_dir/probe/lower,upperdir=$image_dir/probe/upper,workdir=$image_dir/probe/work" \
        "$image_dir/probe/merged" 2>/dev/null; then
        umount "$image_dir/probe/merged"
        driver=overlay
    fi
    cat >"$image_dir/storage.conf" <<EOF
[storage]
driver = "$driver"
graphroot = "$image_dir/storage-$driver"
runroot = "$image_dir/run"
EOF
    cat >"$image_dir/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
infra_image = ""
lock_type = "file"
runtime = "runc"
tmp_dir = "$image_dir/run/libpod"
[network]
cni_config_dir = "$image_dir/cni"
EOF
    export CONTAINERS_STORAGE_CONF="$image_dir/storage.conf" CONTAINERS_CONF="$image_dir/containers.conf"
    export BUILDAH_ISOLATION=chroot DISABLE_HC_SYSTEMD=true
}

# Sets $base, an image of the Debian 13 root of tests/support/debian13.sh, whose apt has this machine's mirror.
engine_base() {
    code=0
    sh tests/support/debian13.sh >/dev/null || code=$?
    [ $code != 77 ] || impossible "no Debian 13 to build on (above)"
    [ $code = 0 ] || exit $code
    root=${QS_DEBIAN13_DIR:-$PWD/build/debian13}
    base=localhost/queue-sidecar-base:$(cut -d' ' -f1 "$root/stamp")
    buildah inspect --type image "$base" >/dev/null 2>&1 && return
    buildah rmi --all --force >/dev/null 2>&1 || true # images of an older base
    container=$(buildah from scratch)
    cp -a "$root/root/." "$(buildah mount "$container")/"
    buildah umount "$container" >/dev/null
    buildah commit --quiet --format docker --rm "$container" "$base" >/dev/null
}

# Builds an image, from cached layers where possible. The format is docker's, because OCI's has no HEALTHCHECK.
engine_build() { # tag, further arguments of buildah build
    tag=$1
    set -- buildah build --layers --force-rm --network host --format docker --build-arg BASE="$base" --tag "$@"
    "$@" >"$image_dir/log" 2>&1 </dev/null && return
    ! grep -q '^E: ' "$image_dir/log" || ! again "$image_dir/log" "$@" || return 0 # only apt begins an error with E:, so it was a download; retry
    tail -n 40 "$image_dir/log" >&2
    echo "image: $tag was not built (see above, or $image_dir/log)" >&2
    exit 1
}

# Builds $image from this tree for one architecture, and $archive, a file of the image for `docker load` and `podman load`. The image of
# another architecture has its name in the tag. It is compiled on this machine: TARGETARCH is what `docker buildx build --platform` sets.
# (buildah 1.28 would want a base of the other architecture.)
engine_image() { # architecture, as Debian and containers call it
    other=
    [ "$1" = "$(dpkg --print-architecture)" ] || other=-$1
    version=$(make -s version ARCH=)
    name=$(echo "$version" | tr + -) # a tag has no +
    image=localhost/queue-sidecar:$name$other
    archive=$image_dir/queue-sidecar-$name$other.tar
    revision=$(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || true)
    # Label `source` only with an https address without credentials.
    site=$(git config --get remote.origin.url 2>/dev/null || true)
    case $site in
    *@*) site= ;;
    https://*) ;;
    *) site= ;;
    esac
    set -- --build-arg TARGETARCH="$1" --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg SOURCE="$site" \
        -f deploy/image/Dockerfile .
    # Tag the build stage, so that the prune keeps its layers and removes those of earlier trees.
    engine_build "localhost/queue-sidecar-build$other" --target build "$@"
    engine_build "$image" "$@"
    podman image prune --force >/dev/null
    rm -f "$archive"
    podman save --quiet --format docker-archive --output "$archive" "$image" >/dev/null
}

# Builds the images of both architectures, and $oci, an OCI archive with one index for them. Equal commits on equal packages give equal
# bytes. $digest is that of the index; $image and $archive are of this machine's architecture.
engine_images() {
    own=$(dpkg --print-architecture)
    foreign=
    for arch in amd64 arm64; do
        [ $arch != "$own" ] || continue
        engine_image $arch
        foreign="$foreign $arch=$archive"
    done
    engine_image "$own"
    seconds=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y .commit)}
    oci=$PWD/build/release/queue-sidecar-$(sed -n 's/^VERSION := //p' Makefile)-oci.tar
    mkdir -p build/release
    # shellcheck disable=SC2034,SC2086 # build.sh prints it; words
    digest=$(python3 deploy/image/archive.py "$oci" "$image" "$seconds" "$own=$archive" $foreign)
}
