#!/bin/sh
# The table of config keys (`help keys`) is what the program reads; the sample and the README must say the same: every key, in its
# section, with its default, and in the README its bounds. No shipped config holds anything that the program does not know.
set -eu
cd "$(dirname "$0")/../.."
program=${QS_PROGRAM:-build/queue-sidecar}
sample=conf/queue-sidecar.cfg
table=$(mktemp)
found=$(mktemp)
trap 'rm -f "$table" "$found"' EXIT

if ! "$program" help keys >"$table"; then
    echo "$program: does not print its keys: run make, and see sidecar/cli/help.c"
    exit 1
fi

# The sample: a key may be commented out, as `# url = ...`.
awk -F '\t' -v sample="$sample" '
    function plain(value) { # as the table writes it
        sub(/;.*/, "", value)
        gsub(/[]["]/, "", value)
        gsub(/^ +| +$/, "", value)
        return value
    }
    function note(key, value) { if (!(key in at)) { at[key] = FNR; is[key] = plain(value) } }
    FILENAME == sample {
        if ($0 ~ /^[a-z_]+ *= *[{(]/) { section = $0; sub(/ *=.*/, "", section); next }
        if ($0 ~ /^[})];/) { section = ""; next }
        text = $0
        quoted = sub(/^ *# */, "", text)
        sub(/^ */, "", text)
        while (match(text, /^[a-z_]+ *= */)) {
            key = substr(text, 1, RLENGTH)
            sub(/ *=.*/, "", key)
            text = substr(text, RLENGTH + 1)
            note(section "." key, quoted ? "-" : text)
            if (!sub(/^[^;]*; */, "", text)) break
        }
        next
    }
    {
        section = $1 == "queue" ? "defaults" : $1 == "queue-only" ? "queues" : $1
        key = section "." $2
        if (!(key in at)) print sample ":1: lacks " (section == "" ? $2 : key) ": teach it there"
        else if (section != "queues" && section != "" && is[key] != "-" && is[key] != plain($4))
            print sample ":" at[key] ": " key " = " is[key] ", but its default is " plain($4) ": the sample shows the defaults"
    }' "$sample" "$table" >"$found"

# The README: a row | `section.key` | `default` | bounds |, where a star may follow the key.
awk -F '\t' '
    FILENAME == "README.md" {
        if ($0 !~ /^\| *`[a-z_]+(\[\])?(\.[a-z_]+)?`/) next
        split($0, cell, / *\| */)
        key = cell[2]
        gsub(/[`*]/, "", key)
        if (key in at) next
        at[key] = FNR
        default_of[key] = cell[3]
        bounds_of[key] = cell[4]
        next
    }
    {
        key = $1 == "" ? $2 : $1 == "queue" ? "defaults." $2 : $1 == "queue-only" ? "queues[]." $2 : $1 "." $2
        if (!(key in at)) { print "README.md:1: lacks a row | `" key "` | ... of the table of keys (see help keys)"; next }
        if ($4 != "" && default_of[key] != "`" $4 "`")
            print "README.md:" at[key] ": the default of " key " is `" $4 "`"
        if (bounds_of[key] != $5) print "README.md:" at[key] ": " key " allows: " $5
    }' README.md "$table" >>"$found" || echo "README.md:1: is missing" >>"$found"

for file in conf/*.cfg; do
    said=$("$program" check -c "$file" 2>&1 >/dev/null) && continue
    printf '%s\n%s:1: is refused (above)\n' "$said" "$file" >>"$found"
done

if [ -s "$found" ]; then
    cat "$found"
    exit 1
fi
echo "ok   keys: $(wc -l <"$table") of them stand in the sample and in the README"
