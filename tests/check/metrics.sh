#!/bin/sh
# What /metrics exposes (`help metrics`) and what the README tells of it are the same set, with the same words.
set -eu
cd "$(dirname "$0")/../.."
program=${QS_PROGRAM:-build/queue-sidecar}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
"$program" help metrics >"$table"

awk -F '\t' '
    FILENAME == "README.md" {
        if ($0 !~ /^\| *`queue_sidecar_[a-z_]+`/) next
        split($0, cell, / *\| */)
        name = cell[2]
        gsub(/`/, "", name)
        at[name] = FNR
        kind[name] = cell[3]
        labels[name] = cell[4]
        help[name] = cell[5]
        next
    }
    { exposed[$1] = 1 }
    !($1 in at) { print "README.md:1: lacks a row | `" $1 "` | " $2 " | " $3 " | " $4 " |"; next }
    kind[$1] != $2 || labels[$1] != $3 || help[$1] != $4 {
        print "README.md:" at[$1] ": is not | `" $1 "` | " $2 " | " $3 " | " $4 " |"
    }
    END { for (name in at) if (!(name in exposed)) print "README.md:" at[name] ": `" name "` is not exposed: remove the row" }
' README.md "$table" >"$table.found" || true
if [ -s "$table.found" ]; then
    cat "$table.found"
    rm -f "$table.found"
    exit 1
fi
rm -f "$table.found"
echo "ok   metrics: $(wc -l <"$table") families stand in the README"
