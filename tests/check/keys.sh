#!/bin/sh
# Compares the sample with the table of config keys (`help keys`): it must have every key, in its section, with its default. The program
# must accept each shipped config. docs.py checks docs/configuration.md.
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
    function plain(value) { # the value as the table writes it
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

for file in conf/*.cfg; do
    said=$("$program" check -c "$file" 2>&1 >/dev/null) && continue
    printf '%s\n%s:1: is refused (above)\n' "$said" "$file" >>"$found"
done

if [ -s "$found" ]; then
    cat "$found"
    exit 1
fi
echo "ok   keys: all $(wc -l <"$table") are in the sample"
