#!/bin/sh
# Renders the charts of deploy/helm by Helm's own engine, and checks them: by lint, by schemas, by the rules for the kustomize components,
# and by a comparison with what these render. Without helm or kustomize it is skipped, with one line; in CI that is a failure.
set -u
cd "$(dirname "$0")/../.." || exit 1
place=${QS_DEPLOY_DIR:-$PWD/build/deploy}
code=0
sh tests/deploy/tools.sh kustomize schemas helm || code=1
if [ ! -x "$place/bin/kustomize" ] || [ ! -x "$place/bin/helm" ]; then
    echo "charts: skipped: kustomize or helm is missing"
elif ! python3 -c 'import yaml' 2>/dev/null; then
    echo "charts: skipped: python3-yaml is missing"
    [ "${QS_CLIENTS_REQUIRED:-}" != 1 ] || code=1
else
    PYTHONPATH=tests/deploy python3 -B tests/helm/check.py || code=1
fi
exit $code
