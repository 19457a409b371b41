#!/bin/sh
# Runs clang-tidy by .clang-tidy, and clang's own warnings, on the program. It checks a clean file again only when the file or one of
# its includes has changed (the Makefile decides). Arguments: the sources to check; default: all.
set -eu
cd "$(dirname "$0")/../.."
for file in "$@"; do # replaces each source by its stamp
    set -- "$@" "build/tidy/${file%.c}.ok"
    shift
done
[ $# -gt 0 ] || set -- tidy
if ! said=$(${MAKE:-make} -s -k -j2 "$@" 2>&1); then
    offences=$(echo "$said" | sed -n "s|^$PWD/||; s/,-warnings-as-errors//; /: error: /p")
    echo "${offences:-$said}"
    exit 1
fi
echo "ok   clang-tidy"
