#!/bin/sh
# Prints C source that holds every script named on the command line: for a/b/NAME.lua the symbols lua_NAME (text, ends in a NUL)
# and lua_NAME_len (bytes, without the NUL). The line count of the shebang is kept by the caller (script.c strips it for Redis 6).
set -eu
printf '// Made by embed.sh from sidecar/queue/lua/*.lua: change those.\n#include <stddef.h>\n#include "queue/lua/embed.h"\n'
for file in "$@"; do
    name=$(basename "$file" .lua)
    printf '\nconst char lua_%s[] =\n' "$name"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "$file"
    printf '    ;\nconst size_t lua_%s_len = sizeof lua_%s - 1;\n' "$name" "$name"
done
