#!/bin/sh
# The manual pages render without a warning, by mandoc and by groff. (That each command, option, key and metric stands in them is
# a test: unit_man.)
set -eu
cd "$(dirname "$0")/../.."
program=${QS_PROGRAM:-build/queue-sidecar}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rendered=
for section in 1 5; do
    "$program" help man $section >"$work/page.$section"
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$work/page.$section" >>"$work/said" 2>&1 || true
        rendered="$rendered mandoc"
    fi
    if command -v groff >/dev/null; then
        groff -ww -b -z -man -t -K utf8 "$work/page.$section" >>"$work/said" 2>&1 || true
        rendered="$rendered groff"
    fi
done
if [ -s "$work/said" ]; then
    sed 's/$/: see sidecar\/cli\/man.c and roff.c/' "$work/said"
    exit 1
fi
if [ -z "$rendered" ]; then
    echo "ok   man: SKIPPED, there is neither mandoc nor groff"
else
    echo "ok   man: both pages render without a warning by$(echo "$rendered" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/ $//')"
fi
