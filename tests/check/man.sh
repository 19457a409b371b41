#!/bin/sh
# Checks the manual pages: their generated blocks match the program, mandoc and groff render them without a warning, and ENVIRONMENT
# names every variable that the program reads.
set -eu
cd "$(dirname "$0")/../.."
program=${QS_PROGRAM:-build/queue-sidecar}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rendered=
python3 tests/check/man.py --check >"$work/said" || true
for section in 1 5; do
    "$program" help man $section >"$work/page.$section"
    if command -v mandoc >/dev/null; then
        # scdoc writes empty paragraphs, which mandoc reports.
        mandoc -T lint -W warning "$work/page.$section" | grep -v 'skipping paragraph macro' >>"$work/said" || true
        rendered="$rendered mandoc"
    fi
    if command -v groff >/dev/null; then
        groff -ww -b -z -man -t -K utf8 "$work/page.$section" >>"$work/said" 2>&1 || true
        rendered="$rendered groff"
    fi
done
# QS_ variables are for tests.
for name in $(grep -rhoE 'getenv\("[A-Z_]+"\)' sidecar | tr -dc 'A-Z_\n' | grep -v '^QS_' | sort -u); do
    sed -n '/^# ENVIRONMENT/,/^# FILES/p' docs/man/queue-sidecar.1.scd | grep -qw "$name" ||
        echo "docs/man/queue-sidecar.1.scd:1: $name is missing from ENVIRONMENT" >>"$work/said"
done
if [ -s "$work/said" ]; then
    cat "$work/said"
    exit 1
fi
if [ -z "$rendered" ]; then
    echo "ok   man: SKIPPED, there is neither mandoc nor groff"
else
    echo "ok   man: both pages render without a warning by$(echo "$rendered" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/ $//')"
fi
