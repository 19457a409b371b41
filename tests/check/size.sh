#!/bin/sh
# Finds files over 500 lines (400 below sidecar/), and functions over 60 lines.
set -eu
cd "$(dirname "$0")/../.."
offences=$(find sidecar tests deploy sql .ci Makefile -name node_modules -prune -o -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.lua' -o -name '*.sql' -o -name run -o -name Makefile \) -print | sort | xargs awk '
    FNR == 1 { close_file(); file = FILENAME; start = 0 }
    { lines = FNR }
    # A function begins at the last line with text in the first column, and ends at a line that is only "}".
    /^}$/ {
        if (start && FNR - start + 1 > 60) print file ":" start ": a function of " FNR - start + 1 " lines, 60 is the most: split it"
        start = 0
    }
    /^[A-Za-z_].*[({,]$/ || /^[A-Za-z_][A-Za-z_0-9 *]*\(/ { start = FNR }
    function close_file() { most = file ~ /^sidecar\// ? 400 : 500; if (lines > most) print file ":" most ": a file of " lines " lines, " most " is the most: split it" }
    END { close_file() }')
if [ -n "$offences" ]; then
    echo "$offences"
    exit 1
fi
echo "ok   size: no file over 500 lines, none below sidecar/ over 400, no function over 60"
