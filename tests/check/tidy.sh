#!/bin/sh
# clang-tidy by .clang-tidy, and clang's own warnings, on the program. A file that was clean is looked at again only when it, or what
# it includes, has changed (the Makefile knows). Arguments: sources, if not all.
set -eu
cd "$(dirname "$0")/../.."
for file in "$@"; do # now a list of stamps
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
