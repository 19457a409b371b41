#!/bin/sh
# The manual pages render without a warning, by mandoc and by groff. Each variable that the program asks for
# stands there. (That each command, option, key and metric does is a test: unit_man.)
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
# What the program asks its environment for, but for what only tests set.
for name in $(grep -rhoE 'getenv\("[A-Z_]+"\)' sidecar | tr -dc 'A-Z_\n' | grep -v '^QS_' | sort -u); do
    sed -n '/^\.SH ENVIRONMENT/,/^\.SH FILES/p' "$work/page.1" | sed 's/\\f.//g' | grep -qw "$name" || echo "$name is missing from ENVIRONMENT" >>"$work/said"
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
