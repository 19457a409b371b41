#!/bin/sh
# Makes the files of a release in build/release, from a clean tree, with the same bytes each time. `make release` runs it, and passes:
#
#   VERSION    the version of the Makefile
#   PARTS      what to make: source deb image chart
#   SIGN_KEY   secret key of minisign, or nothing
#   BUILDER    URI of who builds, for provenance.json
#
# Exit codes: 0 everything in PARTS was made, 1 not (the last line says why).
set -eu
cd "$(dirname "$0")/../.."
VERSION=${VERSION:?} PARTS=${PARTS:?} SIGN_KEY=${SIGN_KEY-} BUILDER=${BUILDER:?}
out=build/release
make=${MAKE:-make}

fail() {
    echo "release: $1" >&2
    exit 1
}

# Refuses a tree from which nobody else could make the same files.
examine() {
    commit=$(git rev-parse HEAD 2>/dev/null) || fail "this tree is no git repository: clone it"
    [ -z "$(git rev-parse --show-prefix)" ] || fail "this tree is only a part of a git repository: clone it"
    changed=$(git status --porcelain --untracked-files=all)
    [ -z "$changed" ] || fail "these files differ from the last commit: commit or remove them
$changed"
    for tag in $(git tag --points-at HEAD 'v*'); do
        [ "$tag" = "v$VERSION" ] || fail "the commit has the tag $tag, but VERSION of the Makefile is $VERSION"
    done
    [ -z "$SIGN_KEY" ] || command -v minisign >/dev/null || fail "SIGN_KEY needs minisign (sh deploy/deps.sh release)"
    [ -z "$SIGN_KEY" ] || [ -r "$SIGN_KEY" ] || fail "cannot read SIGN_KEY: $SIGN_KEY"
    # The address of the repository, if it is public and without credentials.
    site=$(git config --get remote.origin.url || true)
    case $site in
    *@*) site= ;;
    https://*) ;;
    *) site= ;;
    esac
}

made() { # part, patterns of its files
    part=$1
    shift
    for pattern; do
        found=
        for file in "$out"/$pattern; do [ ! -s "$file" ] || found=yes; done
        [ "$found" ] || fail "$part: $out/$pattern was not made (see above)"
    done
}

make_source() {
    name=queue-sidecar-$VERSION
    git -c tar.umask=0022 archive --output="$out/$name.tar" --prefix="$name/" HEAD
    gzip -9n "$out/$name.tar"
}

make_deb() {
    for arch in amd64 arm64; do
        "$make" -s deb ARCH=$arch || fail "make deb ARCH=$arch failed"
        made deb "queue-sidecar_*_$arch.deb"
    done
}

# Keeps what the builds of the image had installed: dpkg's status of each build stage that engine.sh has tagged.
image_packages() {
    # shellcheck source=deploy/image/engine.sh
    . deploy/image/engine.sh
    engine_start podman
    for stage in $(podman images --filter reference='localhost/queue-sidecar-build*' --format '{{.ID}}'); do
        cp "$(podman image mount "$stage")/var/lib/dpkg/status" "build/packages/$stage.status"
        podman image unmount "$stage" >/dev/null
    done
}

# The image, and a bundle of its files for each architecture.
make_image() {
    "$make" -s image || fail "make image failed"
    made image "queue-sidecar-$VERSION-oci.tar"
    (image_packages)
    python3 deploy/release/bundle.py "$VERSION" "$out/queue-sidecar-$VERSION-oci.tar" "$out"
}

make_chart() {
    for chart in deploy/helm/*/Chart.yaml; do python3 deploy/release/chart.py "${chart%/*}" "$out"; done
    made chart "queue-sidecar-$VERSION.tgz"
}

# The list of packages that the build of a deb had installed.
buildinfo() { # deb
    name=${1##*/} name=${name%.deb}
    echo build/deb/*/*/build/"${name##*_}/$name.buildinfo"
}

describe() {
    packages=$(find build/packages -type f | sort)
    for file in "$out"/queue-sidecar_*.deb; do
        [ -e "$file" ] || continue
        packages="$packages $(buildinfo "$file")"
        python3 deploy/release/sbom.py "$VERSION" "$file" "$(buildinfo "$file")" >"$file.spdx.json"
    done
    for file in "$out"/*-oci.tar; do
        [ ! -e "$file" ] || python3 deploy/release/sbom.py "$VERSION" "$file" >"$file.spdx.json"
    done
    # shellcheck disable=SC2086 # these paths have no space
    python3 deploy/release/provenance.py "$out" "$VERSION" "$commit" "$site" $packages >build/provenance.json
    mv build/provenance.json "$out/"
    (cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
}

# Signs the sums. The comment has no time, so that the same key gives the same bytes.
sign() {
    minisign -S -s "$SIGN_KEY" -m "$out/SHA256SUMS" -t "queue-sidecar $VERSION, commit $commit" >&2 || fail "minisign failed"
    key=$(sed -n 's/.*minisign .*-P \([^ ]*\).*/\1/p' SECURITY.md | head -n 1)
    [ "$key" = RELEASE-KEY ] || minisign -V -q -P "$key" -m "$out/SHA256SUMS" >&2 || fail "SIGN_KEY is not the key that SECURITY.md names"
}

examine
umask 022
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH BUILDER TZ=UTC LC_ALL=C PYTHONDONTWRITEBYTECODE=1
rm -rf "$out" build/packages
mkdir -p "$out" build/packages
for part in $PARTS; do
    echo "release: $part"
    "make_$part"
done
echo "release: SBOM, provenance, sums"
describe
signed="not signed"
if [ -n "$SIGN_KEY" ]; then
    sign
    signed=signed
fi
echo "release: $VERSION of $commit: $(find "$out" -type f | wc -l) files in $out, $signed"
