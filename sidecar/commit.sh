#!/bin/sh
# Prints "+g" and the commit of the tree in the working directory, or nothing if nothing tells it. A source archive (git archive)
# has the commit in .commit. Elsewhere git tells it, with "-dirty" if files were changed.
set -eu
commit=$(cut -c 1-9 .commit 2>/dev/null || true)
case $commit in
"" | *Format*) commit=$([ ! -e .git ] || git describe --always --abbrev=9 --dirty --exclude='*' 2>/dev/null || true) ;;
esac
[ -z "$commit" ] || echo "+g$commit"
