#!/bin/sh
# Renders the manifests of deploy/ for Kubernetes and Prometheus, and checks them by schemas, rules, and a comparison with the operator's
# manifests. Without a tool its checks are skipped, with one line; in CI that is a failure (tools.sh).
set -u
cd "$(dirname "$0")/../.." || exit 1
place=${QS_DEPLOY_DIR:-$PWD/build/deploy}
code=0
sh tests/deploy/tools.sh || code=1

if command -v yamllint >/dev/null; then
    if yamllint -s -f parsable -c tests/deploy/yamllint.yaml deploy tests/deploy; then
        echo "ok   deploy: yamllint"
    else
        code=1
    fi
else
    echo "deploy: yamllint is skipped: it is not installed"
fi

tools=
[ -e "$place/schemas.skipped" ] || tools=schemas
sh tests/support/promtool.sh || code=1
[ ! -x build/promtool ] || tools="$tools promtool"
if [ ! -x "$place/bin/kustomize" ]; then
    echo "deploy: renderings are skipped: kustomize is missing"
elif ! python3 -c 'import yaml' 2>/dev/null; then
    echo "deploy: renderings are skipped: python3-yaml is missing"
else
    # shellcheck disable=SC2086 # words
    python3 -B tests/deploy/check.py $tools || code=1
fi
exit $code
