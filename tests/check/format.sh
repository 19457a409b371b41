#!/bin/sh
# Checks that C follows .clang-format; `make format` formats it. Versions of clang-format differ a little: the one of Debian 12 decides.
set -eu
cd "$(dirname "$0")/../.."
version=$(clang-format --version)
case $version in
*" version 14."*) ;;
*)
    echo "skip format: the tree is formatted by clang-format 14, and this is $version"
    exit 0
    ;;
esac
if ! said=$(find sidecar tests -name '*.[ch]' -exec clang-format --dry-run -Werror --ferror-limit=1 {} + 2>&1); then
    echo "$said" | sed -n 's/: error: code should be.*/: is not formatted: run make format/p'
    exit 1
fi
echo "ok   format"
