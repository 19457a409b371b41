#!/bin/sh
# Includes go downwards only, and a library is known in one room only. A room is a directory of sidecar/, or the files there whose
# names begin alike (config.c, config_table.c). A file may include its own room and rooms of a lower rank; rooms of equal rank, such
# as the roles, do not know each other.
set -eu
cd "$(dirname "$0")/../.."

# rank room; design: main -> app, cli -> roles, http -> queue, audit -> config, verdict, metrics, lease -> base.
# `cli` stands above `app`, because `run` starts it. `line` is the dispatcher's view of one queue, `health` is what http shows.
ranks='
9 main
8 cli
7 app
6 leader
6 dispatcher
6 monitor
6 auditor
6 http
5 line
5 link
5 ward
5 terms
5 health
4 queue
4 audit
3 verdict
3 metrics
3 lease
3 event
3 job
3 role
2 config
1 base'

# header, and where it may be included: a prefix of the path
libraries='
hiredis sidecar/queue/
sqlite3.h sidecar/audit/
libconfig.h sidecar/config
microhttpd.h sidecar/http
jsmn.h sidecar/base/json
nettle/ sidecar/base/digest'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# file line kind target, one include each; target is a path below sidecar/ where kind is "own".
# shellcheck disable=SC2016 # awk's own $
find sidecar -name '*.[ch]' | sort | xargs awk '
    function there(path,    line, found) {
        found = (getline line < path) >= 0
        close(path)
        return found
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, part, "\"")
        if (part[2] == "paths.h") next # made by the Makefile, in no room
        dir = FILENAME
        sub(/[^\/]*$/, "", dir)
        path = there(dir part[2]) && !there("sidecar/" part[2]) ? dir part[2] : "sidecar/" part[2]
        print FILENAME, FNR, "own", path
    }
    /^[ \t]*#[ \t]*include[ \t]*</ {
        split($0, part, /[<>]/)
        print FILENAME, FNR, "library", part[2]
    }' >"$work/includes"

{
    echo "$ranks" | sed '/./s/^/rank /'
    echo "$libraries" | sed '/./s/^/library /'
    cat "$work/includes"
} | awk '
    function room(path) {
        sub(/^sidecar\//, "", path)
        if (!sub(/\/.*/, "", path)) sub(/[_.].*/, "", path)
        return path
    }
    function offence(text) { print $1 ":" $2 ": " text }
    $1 == "rank" { rank[$3] = $2; next }
    $1 == "library" { home[$2] = $3; next }
    NF < 4 { next }
    $3 == "library" {
        for (name in home)
            if (index($4, name) == 1 && index($1, home[name]) != 1)
                offence("includes <" $4 ">, which only " home[name] "* may: ask that room for what you need")
        next
    }
    {
        from = room($1)
        to = room($4)
        if (!(from in rank)) offence("room \"" from "\" has no rank: give it one in tests/check/layers.sh")
        else if (!(to in rank)) offence("includes " $4 ", whose room has no rank: give it one in tests/check/layers.sh")
        else if (from != to && rank[to] == rank[from]) offence("includes " $4 ": \"" from "\" and \"" to "\" must not know each other")
        else if (rank[to] > rank[from]) offence("includes " $4 " upwards: move what is needed down, or pass it in")
        if ($4 ~ /queue\/dialects\// && $4 !~ /\/dialect\.h$/ && $1 !~ /queue\/dialects\//)
            offence("names a dialect: only queue/dialects/dialect.h is for others")
    }' >"$work/offences"

# A name of a dialect anywhere but in its own room, the config that reads it from the file, and cli.
for file in sidecar/queue/dialects/*.c; do
    name=$(basename "$file" .c)
    [ "$name" != dialect ] || continue
    upper=$(echo "$name" | tr '[:lower:]' '[:upper:]')
    grep -rnE "\b(dialect_$name|DIALECT_$upper)\b" sidecar --include='*.[ch]' --exclude='config*' --exclude-dir=dialects --exclude-dir=config \
        --exclude-dir=cli | sed "s/^\([^:]*:[0-9]*\):.*/\1: names the dialect $name: ask dialect_ops() for what differs/" \
        >>"$work/offences" || true
done

# No cycles between units (a .c with its .h); all of config is one unit.
awk '$3 == "own" {
    for (i = 1; i <= 4; i += 3) {
        sub(/^sidecar\//, "", $i)
        sub(/\.[ch]$/, "", $i)
        sub(/^config[_\/].*/, "config", $i)
    }
    if ($1 != $4) print $1, $4
}' "$work/includes" >"$work/edges"
tsort "$work/edges" >/dev/null 2>"$work/loops" ||
    grep -v 'contains a loop' "$work/loops" | sed 's/^tsort: /sidecar\/: in a cycle of includes: /' >>"$work/offences"

if [ -s "$work/offences" ]; then
    cat "$work/offences"
    exit 1
fi
echo "ok   layers: $(wc -l <"$work/edges") includes go downwards"
