#!/bin/sh
# Downloads tools into build/deploy: kustomize and helm from the Go module proxy, and from npm (schemas) a TypeScript compiler with the
# schemas of Kubernetes and of the Prometheus operator. Versions: in this file and in package-lock.json. A second run needs no network. If
# a tool cannot be downloaded, prints one line and writes TOOL.skipped; in CI (QS_CLIENTS_REQUIRED=1) that is a failure.
#
#   tools.sh [TOOL...]    default: kustomize schemas
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$PWD/tests/deploy
place=${QS_DEPLOY_DIR:-$PWD/build/deploy}
limit=400 # timeout of one download, in seconds
limit_helm=2700 # seven minutes of one core, which other stages use meanwhile
# shellcheck source=deploy/again.sh
. deploy/again.sh
code=0

mkdir -p "$place/bin" "$place/node"

skip() { # tool, why
    echo "deploy: $1 is skipped: $2"
    echo "$2" >"$place/$1.skipped"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || code=1
}
reason() { grep -v '^go: downloading' "$1" | grep -iE -m 1 'error|cannot|unable|disabled|requires|not in' || tail -n 1 "$1"; }

go_minor() { go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p'; }

# Without optimization the compiler takes a third less time, and the tools run for seconds only.
# Builds that run at the same time share sources and build cache, which the last one removes: half of kustomize is in helm too.
go_tool() { # tool, package, version, timeout, flags of the linker
    rm -f "$place/$1.skipped"
    [ "$(cat "$place/$1.fetched" 2>/dev/null)" != "$3" ] || return 0
    exec 8>"$place/go.lock"
    flock -s 8
    if again "$place/$1.log" env GOPATH="$place/go" GOCACHE="$place/cache" GOBIN="$place/bin" GOFLAGS=-modcacherw timeout "$4" \
        go install -trimpath -gcflags=all="-N -l" -ldflags="-s -w ${5:-}" "$2@$3"; then
        echo "$3" >"$place/$1.fetched"
    else
        skip "$1" "$(reason "$place/$1.log" | cut -c1-200)"
    fi
    ! flock -xn 8 || rm -rf "${place:?}/go" "$place/cache"
    exec 8>&-
}

# An older Go builds only an older kustomize: the version in kubectl 1.27 to 1.29.
kustomize() {
    minor=$(go_minor)
    version=v5.8.1
    [ "${minor:-0}" -ge 24 ] || version=v5.0.3
    if [ -n "$minor" ]; then
        go_tool kustomize sigs.k8s.io/kustomize/kustomize/v5 $version $limit
    else
        skip kustomize "this machine has no go"
    fi
}

helm() {
    minor=$(go_minor)
    if [ "${minor:-0}" -ge 26 ]; then
        go_tool helm helm.sh/helm/v4/cmd/helm v4.3.1 $limit_helm
    elif [ "${minor:-0}" -ge 24 ]; then
        # Helm 3 takes the version of Kubernetes from its own build; without flags that is 1.20.
        kubernetes="-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34"
        go_tool helm helm.sh/helm/v3/cmd/helm v3.19.5 $limit_helm "$kubernetes"
    else
        skip helm "it needs Go 1.24 or later"
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

[ $# -gt 0 ] || set -- kustomize schemas
for tool in "$@"; do
    exec 9>"$place/$tool.lock"
    flock 9
    case $tool in
    kustomize) kustomize ;;
    helm) helm ;;
    *) schemas ;;
    esac
done
exit $code
