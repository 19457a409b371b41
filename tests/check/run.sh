#!/bin/sh
# Runs the named checks, or all checks, also after one has failed. Each check prints one line "ok", or each offence as
# "FILE:LINE: fault: remedy".
set -u
cd "$(dirname "$0")/../.." || exit 1
[ $# -gt 0 ] || set -- hygiene subjects layers size errors mutants keys docs man compdb install version systemd compose again scripts format shell cppcheck tidy selftest
failed=
for name in "$@"; do
    case $name in
    layers | scripts) python3 "tests/check/$name.py" ;;
    docs | mutants) python3 "tests/check/$name.py" --check ;;
    *) sh "tests/check/$name.sh" ;;
    esac || failed="$failed $name"
done
[ -z "$failed" ] || {
    echo "FAILED checks:$failed"
    exit 1
}
