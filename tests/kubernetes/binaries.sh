#!/bin/sh
# Builds the programs of Kubernetes from the Go module proxy into build/kubernetes/bin, once: 11 minutes of one core, with niceness 19.
# Meanwhile it needs 5 GB below build/kubernetes; 490 MB stay.
#
#   binaries.sh           builds what is missing
#   binaries.sh --have    only says by its exit code whether they are there
#
# Exit codes: 0 they are there, 77 not possible on this machine (one line says why), 1 `--have`: they are not there.
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$PWD
place=${QS_KUBERNETES_DIR:-$PWD/build/kubernetes}
# shellcheck source=deploy/again.sh
. deploy/again.sh

impossible() {
    echo "kubernetes: skipped: $1" >&2
    exit 77
}
sources() { cksum <tests/kubernetes/go.mod; }
[ "$(cat "$place/bin/built" 2>/dev/null)" != "$(sources)" ] || exit 0
[ "${1:-}" != --have ] || exit 1

command -v go >/dev/null || impossible "this machine has no go"
minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
[ "${minor:-0}" -ge 24 ] || impossible "Kubernetes 1.34 needs Go 1.24; this machine has $(go env GOVERSION)"

mkdir -p "$place/bin"
version=$(sed -n 's|^require k8s.io/kubernetes v||p' tests/kubernetes/go.mod)
export GOPATH="$place/go" GOCACHE="$place/cache" GOFLAGS="-modcacherw -mod=readonly" GOTOOLCHAIN=local CGO_ENABLED=0
cd tests/kubernetes || exit 1
echo "kubernetes: downloading the modules of Kubernetes $version"
again "$place/log" timeout 900 go mod download -x || impossible "$(grep -v '^#' "$place/log" | tail -n 1 | cut -c1-200)"
echo "kubernetes: compiling Kubernetes $version with niceness 19; on two free cores this takes six minutes"
about=k8s.io/component-base/version
flags="-s -w -X $about.gitVersion=v$version -X $about.gitMajor=${version%%.*} -X $about.gitMinor=$(echo "$version" | cut -d. -f2)"
programs=$(sed -n 's/^\t_ "\(.*\)"$/\1/p' tools.go)
{
    # shellcheck disable=SC2086 # words
    nice -n 19 go build -v -trimpath -ldflags "$flags" -o "$place/bin/" $programs 2>&1
    echo "exit code $?"
} | awk -v log_file="$place/log" '{ print >log_file } NR % 300 == 0 { print "kubernetes: " NR " packages of about 2000"; fflush() }'
[ "$(tail -n 1 "$place/log")" = "exit code 0" ] || {
    tail -n 20 "$place/log" >&2
    echo "kubernetes: it was not built (above, or $place/log)" >&2
    exit 1
}
(cd "$here" && sources) >"$place/bin/built"
rm -rf "$place/go" "$place/cache" # sources and build cache
