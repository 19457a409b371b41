#!/bin/sh
# Prints C source that holds each file named on the command line as a string: embed.sh NAME=FILE...
set -eu
printf '// Made by embed.sh: change the files that embed.sh reads.\n#include "cli/cli.h"\n'
for pair in "$@"; do
    printf '\nconst char text_%s[] =\n' "${pair%%=*}"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "${pair#*=}"
    printf '    ;\n'
done
