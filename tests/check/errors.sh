#!/bin/sh
# Finds code that searches or compares the text of an error, or a reason. Texts are for people: who improves a sentence must not change
# what the program does. Looks at whole statements, because a call may have several lines.
# shellcheck disable=SC2016 # $0 is awk's
set -eu
cd "$(dirname "$0")/../.."
offences=$(find sidecar -name '*.[ch]' -print | sort | xargs awk '
    BEGIN {
        searches = "(str(case)?str|strn?(case)?cmp|strr?chr|strc?spn|mem(mem|cmp)|sscanf|slice_(is|equal))\\("
        finds = "(str(case)?str|strn(case)?cmp|memmem)\\("
        field = "([^;)]*[^a-z_])?(e|[a-z_]*(error|refusal|failure|fault|worst|stop|answer|ignored))(\\[[^]]*\\])?(\\.|->)text[^a-z_]"
        name = "[*&]?([a-z_]*_)?(error|errors|refusal|reason|why|errstr)(\\[[^]]*\\])?[,)]"
        library = "([^;)]*[^a-z_])?([a-z0-9_]*errstr|[a-z0-9_]*errmsg|[a-z_]*strerror)[^a-z_]"
    }
    FNR == 1 { statement = "" }
    { sub(/ *\/\/.*/, "") }
    statement == "" { line = FNR }
    { statement = statement " " $0 }
    /[;{}]$/ || /^#/ || /^$/ {
        if (statement ~ searches field || statement ~ finds name || statement ~ searches library)
            print FILENAME ":" line ": searches the text of an error: give its kind a name in redis/error.h, and ask for the kind"
        statement = ""
    }')
if [ -n "$offences" ]; then
    echo "$offences"
    exit 1
fi
echo "ok   errors: no code reads the text of an error"
