#!/bin/sh
# Runs shellcheck on every shell script, also on scripts whose name does not end in .sh.
set -eu
cd "$(dirname "$0")/../.."
scripts=$(find sidecar tests deploy sql .ci -type f -size -200k -exec sh -c 'for file; do
    head -n 1 "$file" | grep -qE "^#!.*[/ ](ba|da)?sh( |$)" && echo "$file"; done' sh {} + | sort)
# shellcheck disable=SC2086 # none of ours has a space in its name
shellcheck -x -f gcc $scripts || exit 1
echo "ok   shellcheck: $(echo "$scripts" | wc -l) scripts"
