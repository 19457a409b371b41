#!/bin/sh
# embed.sh --join FILE: prints a script as Redis gets it. The parts that the script's header names in a line `-- Uses` follow the
# header. They come from prologue/ beside the script, or else from the only other prologue/ that has them.
#
# embed.sh DIR FILE...: writes DIR/scripts.c, which defines a script_t (redis/script.h) for every a/lua/NAME.lua, and
# DIR/a/scripts.h, which declares the scripts of folder a. Rewrites only the headers that change, to compile no more than needed.
set -eu

join() {
    header=$(awk 'NR > 1 && !/^--/ { exit } { lines = NR } END { print lines }' "$1")
    head -n "$header" "$1"
    for part in $(sed -n 's/^-- Uses *//p' "$1" | tr -d ,); do
        own=$(dirname "$1")/prologue/$part.lua
        [ -e "$own" ] || own=$(find "$(dirname "$0")/../.." -path "*/prologue/$part.lua")
        sed '/^--/d' "$own"
    done
    tail -n +"$((header + 1))" "$1"
}

if [ "$1" = --join ]; then
    join "$2"
    exit
fi
out=$1
shift
source=$out/scripts.c.tmp
rm -rf "$out/headers.tmp"

# Prints the commands that a joined script calls, without those that its header names in a line `-- Optional`.
commands() {
    awk '/^-- Optional/ { gsub(/,/, " "); for (i = 3; i <= NF; i++) optional[$i] }
         { sub(/--.*/, "") }
         { while (match($0, /redis\.p?call\(\047[A-Z]+/)) {
               command = substr($0, RSTART, RLENGTH)
               $0 = substr($0, RSTART + RLENGTH)
               sub(/.*\047/, "", command)
               if (!(command in optional)) print command
           } }' "$1" | sort -u
}

c_string() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/            "/' -e 's/$/\\n"/'; }
sha1() { sha1sum | cut -d ' ' -f 1; }

printf '// Made by embed.sh from *.lua: change the *.lua.\n#include "redis/script.h"\n' >"$source"
for file in "$@"; do
    name=$(basename "$file" .lua)
    folder=${file#sidecar/}
    folder=${folder%/lua/*}
    mkdir -p "$out/headers.tmp/$folder"
    joined=$out/joined.tmp
    join "$file" >"$joined"
    printf 'extern const script_t script_%s;\n' "$name" >>"$out/headers.tmp/$folder/scripts.h"
    {
        printf 'extern const script_t script_%s;\nconst script_t script_%s = {\n    .name = "%s",\n    .text =\n' "$name" "$name" "$name"
        c_string <"$joined"
        printf '    ,\n    .len = %d,\n    .first_line_len = %d,\n' "$(wc -c <"$joined")" "$(head -n 1 "$joined" | wc -c)"
        printf '    .commands = (const char *const[]){'
        commands "$joined" | sed 's/.*/"&", /' | tr -d '\n'
        printf 'NULL},\n    .sha1 = "%s",\n    .sha1_without_flags = "%s",\n};\n' "$(sha1 <"$joined")" "$(tail -n +2 "$joined" | sha1)"
    } >>"$source"
done
printf 'const script_t *const all_scripts[] = {\n' >>"$source"
for file in "$@"; do printf '    &script_%s,\n' "$(basename "$file" .lua)" >>"$source"; done
printf '};\nconst size_t all_script_count = sizeof all_scripts / sizeof *all_scripts;\n' >>"$source"

(cd "$out/headers.tmp" && find . -name scripts.h) | while read -r header; do
    mkdir -p "$out/${header%/*}"
    { printf '// Made by embed.sh.\n#pragma once\n#include "redis/script.h"\n' && cat "$out/headers.tmp/$header"; } >"$out/$header.tmp"
    if cmp -s "$out/$header.tmp" "$out/$header"; then rm "$out/$header.tmp"; else mv "$out/$header.tmp" "$out/$header"; fi
done
rm -rf "$out/headers.tmp" "$joined"
mv "$source" "$out/scripts.c"
