#!/bin/sh
# Finds what must not be in the tree: paths of one machine, hosts of package registries, notes to oneself, stray files at the top, tests
# whose name no filter of `make test` finds, and tests with a long form that `make test-long` does not run.
set -eu
cd "$(dirname "$0")/../.."
found=$(mktemp)
trap 'rm -f "$found"' EXIT

files() {
    find . \( -path ./.git -o -path ./build \) -prune -o -type f ! -path ./tests/check/hygiene.sh "$@" -print0 | sort -z
}
look() { # pattern, message
    xargs -0 grep -nIE "$1" /dev/null | sed "s|^\\./\\([^:]*:[0-9]*\\):.*|\\1: $2|" >>"$found" || true
}
files | look '(^|[^A-Za-z0-9_.$})/-])/(home|Users|root|work)/[A-Za-z]' 'a path of one machine: take it from the environment or an argument'
files | look '(registry\.npmjs|npmjs\.org|pypi\.org|pythonhosted\.org|crates\.io|rubygems\.org|proxy\.golang|repo1?\.maven|(deb|ftp|security)[a-z.]*\.debian\.org|archive\.ubuntu)' \
    'the host of a package registry: leave it to the configuration of the machine'
files ! -name '*.md' | look '\b(TODO|FIXME|XXX)\b' 'a note to oneself: do it, or describe the present state and the reason'

for entry in * .[!.]*; do
    case $entry in
    Makefile | README.md | CONTRIBUTING.md | CHANGELOG.md | SECURITY.md | LICENSE | docs | sidecar | sql | conf | deploy | tests | build) ;;
    .*) ;;
    *) echo "$entry:1: does not belong at the top of the tree" >>"$found" ;;
    esac
done
for entry in Makefile README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE docs; do
    [ -e "$entry" ] || echo "$entry:1: is missing" >>"$found"
done

told=$(${MAKE:-make} -s help | wc -l)
[ "$told" = "$(grep -cE '^[a-z].*:.*## ' Makefile)" ] || echo "Makefile:1: make help leaves targets out: mend its pattern" >>"$found"

# `make test` finds suites by the kind of their tests, which is also how a file of tests begins: unit_, redis_ or daemon_.
find tests -name '*.c' -exec awk '
    function kind(name) { return match(name, /^(unit|redis|daemon)_/) ? substr(name, 1, RLENGTH) : "" }
    /^(Parameterized)?Test(Suite)?\(/ {
        suite = $0
        if (/^Param/) sub(/\([^,]*, */, "(", suite) # its first argument is the row
        gsub(/^[^(]*\(|[ ,].*/, "", suite)
        file = FILENAME
        sub(/.*\//, "", file)
        if ((kind(suite) == "" || kind(suite) != kind(file)) && !seen[FILENAME, suite]++)
            print FILENAME ":" FNR ": suite \"" suite "\": begin the names of file and suite with the same of unit_, redis_ or daemon_"
    }' {} + >>"$found" 2>/dev/null || true

# `make test-long` must run each suite that reads QS_LONG: see the filters in stages.sh.
long=$(grep -A2 'QS_LONG=1' tests/check/stages.sh | grep -oE '(unit|redis|daemon)_[a-z_]+' | tr '\n' ' ')
find tests -name '*.c' -exec grep -l '"QS_LONG"' {} + | while IFS= read -r file; do
    sed -n 's/^Test(\([a-z_0-9]*\),.*/\1/p' "$file" | sort -u | while IFS= read -r suite; do
        for begins in $long none; do
            case $suite in "$begins"*) break ;; esac
        done
        [ "$begins" != none ] || echo "$file:1: reads QS_LONG, and no stage of \`make test-long\` sets it for $suite: see stages.sh"
    done
done >>"$found"

if [ -s "$found" ]; then
    cat "$found"
    exit 1
fi
echo "ok   hygiene"
