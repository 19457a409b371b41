#!/bin/sh
# Makes what is served: embed.sh DIRECTORY writes the files of the page into DIRECTORY, and prints C source that holds each of them
# gzipped. Equal sources give equal bytes.
#
# The modules become one script, which takes one request and fewer bytes. They share one scope then, so no two modules may define the
# same name. Comments, indentation and the blanks around operators are left out: no text of the page may have an operator between blanks.
set -eu
here=$(dirname "$0")
out=$1
modules="dom link api plot payload answer config failures failure queues app" # each after those that it uses while it loads
MOST=65536 MOST_GZIPPED=20480

fail() {
    echo "embed.sh: $1" >&2
    exit 1
}
[ "$(for module in $modules; do echo "$module.js"; done | sort)" = "$(cd "$here" && printf '%s\n' *.js | sort)" ] || fail "its list of modules and the folder differ"
twice=$(for module in $modules; do sed -nE 's/^(export )?(async )?(function|const|let|class) ([A-Za-z_0-9]+).*/\4/p' "$here/$module.js"; done | sort | uniq -d)
[ -z "$twice" ] || fail "two modules define $twice"

rm -rf "$out"
mkdir -p "$out"
for module in $modules; do
    sed -E -e '/^import /d' -e 's/^export //' -e 's|(^ *\| )// .*||' -e 's/^ +//' -e '/^$/d' -e 's/ ([-+*/?:<>=!&|]+) /\1/g' \
        -e 's/\) \{/){/g' -e 's/\b(if|for|while|catch) \(/\1(/g' -e 's/\bconst /let /g' "$here/$module.js" |
        sed -E -e ':again' -e "s/^(([^'\"\`]|'[^']*'|\"[^\"]*\"|\`[^\`]*\`)*[,;:]) /\1/" -e 't again' # blanks outside of strings
done >"$out/app.js"
sed -E -e '/^\/\*/d' -e 's/^ +//' -e 's/ \{ /{/' -e 's/; /;/g' -e 's/;? \}$/}/' -e 's/([:,]) /\1/g' -e '/^$/d' "$here/app.css" >"$out/app.css"
cp "$here/index.html" "$here/icon.svg" "$out"

printf '// Made by embed.sh: change the files that embed.sh reads.\n#include "page/page.h"\n\n'
rows='' gzipped=0
while read -r file path type; do
    gzip -9n <"$out/$file" >"$out/$file.gz"
    gzipped=$((gzipped + $(wc -c <"$out/$file.gz")))
    name=page_$(echo "$file" | tr . _)
    printf 'static const unsigned char %s[] = {\n' "$name"
    od -An -v -tu1 "$out/$file.gz" | sed -e 's/  */,/g' -e 's/^,/    /' -e 's/$/,/'
    printf '};\n\n'
    rows="$rows    {\"$path\", \"$type\", $name, sizeof $name},
"
done <<END
index.html / text/html; charset=utf-8
app.css /assets/app.css text/css; charset=utf-8
app.js /assets/app.js text/javascript; charset=utf-8
icon.svg /assets/icon.svg image/svg+xml
END
printf 'const page_file_t page_files[] = {\n%s};\nconst size_t page_file_count = sizeof page_files / sizeof *page_files;\n' "$rows"

size=$(cat "$out/index.html" "$out/app.css" "$out/app.js" "$out/icon.svg" | wc -c)
[ "$size" -le $MOST ] || fail "the page has $size bytes, $MOST is the most"
[ "$gzipped" -le $MOST_GZIPPED ] || fail "the page has $gzipped bytes gzipped, $MOST_GZIPPED is the most"
