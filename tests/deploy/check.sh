#!/bin/sh
# What deploy/ ships for Kubernetes and Prometheus: rendered, held against schemas, rules and the operator's own manifests. What a
# machine has no tool for is left out, with one line; in CI that fails (tools.sh).
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
    echo "deploy: yamllint is skipped: this machine has none"
fi

tools=
[ -e "$place/schemas.skipped" ] || tools=schemas
sh tests/support/promtool.sh || code=1
[ ! -x build/promtool ] || tools="$tools promtool"
if [ ! -x "$place/bin/kustomize" ]; then
    echo "deploy: renderings are skipped: there is no kustomize"
elif ! python3 -c 'import yaml' 2>/dev/null; then
    echo "deploy: renderings are skipped: python3 has no yaml (python3-yaml)"
else
    # shellcheck disable=SC2086 # words
    python3 -B tests/deploy/check.py $tools || code=1
fi
exit $code
