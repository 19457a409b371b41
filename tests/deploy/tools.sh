#!/bin/sh
# Downloads tools into build/deploy: kustomize from the Go module proxy, and from npm a TypeScript compiler with the schemas of Kubernetes
# and of the Prometheus operator. Versions: in this file and in package-lock.json. A second run needs no network. If a tool cannot be
# downloaded, prints one line and writes TOOL.skipped; in CI (QS_CLIENTS_REQUIRED=1) that is a failure.
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$PWD/tests/deploy
place=${QS_DEPLOY_DIR:-$PWD/build/deploy}
limit=400 # timeout of one download, in seconds
# shellcheck source=deploy/again.sh
. deploy/again.sh
code=0

mkdir -p "$place/bin" "$place/node"
exec 9>"$place/lock"
flock 9

skip() { # tool, why
    echo "deploy: $1 is skipped: $2"
    echo "$2" >"$place/$1.skipped"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || code=1
}
reason() { grep -v '^go: downloading' "$1" | grep -iE -m 1 'error|cannot|unable|disabled|requires|not in' || tail -n 1 "$1"; }

# Go before 1.24 builds only an older kustomize: the version in kubectl 1.27 to 1.29.
kustomize() {
    rm -f "$place/kustomize.skipped"
    command -v go >/dev/null || {
        skip kustomize "this machine has no go"
        return
    }
    minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    version=v5.8.1
    [ "${minor:-0}" -ge 24 ] || version=v5.0.3
    [ "$(cat "$place/bin/fetched" 2>/dev/null)" != "$version" ] || return 0
    if again "$place/kustomize.log" env GOPATH="$place/go" GOBIN="$place/bin" GOFLAGS=-modcacherw timeout "$limit" \
        go install "sigs.k8s.io/kustomize/kustomize/v5@$version"; then
        echo "$version" >"$place/bin/fetched"
        rm -rf "$place/go" # sources and build cache
    else
        skip kustomize "$(reason "$place/kustomize.log" | cut -c1-200)"
    fi
}

schemas() {
    rm -f "$place/schemas.skipped"
    command -v npm >/dev/null || {
        skip schemas "this machine has no npm"
        return
    }
    ! cmp -s "$here/package-lock.json" "$place/node/fetched" || return 0
    rm -f "$place/node/fetched"
    cp "$here/package.json" "$here/package-lock.json" "$place/node/"
    if (cd "$place/node" && again "$place/npm.log" timeout "$limit" npm ci --no-audit --no-fund --loglevel=error); then
        cp "$here/package-lock.json" "$place/node/fetched"
    else
        skip schemas "$(reason "$place/npm.log" | cut -c1-200)"
    fi
}

kustomize
schemas
exit $code
