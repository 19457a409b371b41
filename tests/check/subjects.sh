#!/bin/sh
# Checks the messages of commits since the last release: "ROOM: verb ...", at most 72 characters, and a body with the reason. A room is a
# folder or a file (without its ending) of the tree, or "fix". Begins at the tag of the release, or at the commit that added this file if
# that is later. A shallow clone has fewer commits; without git there are none.
set -eu
cd "$(dirname "$0")/../.."
if ! git rev-parse -q --verify HEAD >/dev/null 2>&1 || [ "$(git rev-parse --show-prefix)" ]; then
    echo "skip subjects: this is no git repository of its own"
    exit 0
fi
rule=$(git log -1 --format=%H --diff-filter=A -- tests/check/subjects.sh)
release=$(git describe --tags --abbrev=0 --match 'v[0-9]*' --match '[0-9]*' 2>/dev/null || true)
commits=$(git rev-list --no-merges HEAD ${rule:+"^$rule"} ${release:+"^$release"})
[ "$rule" ] || commits= # this file is not committed yet
rooms=$(git ls-files | tr '/' '\n' | sed 's/^\.//; s/\.[^.]*$//' | sort -u)

faults() {
    room=${1%%: *} rest=${1#*: }
    [ ${#1} -le 72 ] || echo "has ${#1} characters: shorten it to 72"
    [ "$room" != "$1" ] || echo "names no room: begin with the folder or file that changes, as in \"monitor: read long lists in place\""
    [ "$room" = "$1" ] || for part in $(echo "$room" | tr ',/' '  '); do
        [ "$part" = fix ] || echo "$rooms" "$(git show --format= --name-only "$2" | tr '/' '\n' | sed 's/\.[^.]*$//')" | tr ' ' '\n' |
            grep -qxF -- "$part" || echo "\"$part\" is no folder or file of the tree: name the room that changes"
    done
    case $rest in
    [!a-z]* | a\ * | an\ * | the\ * | no\ * | one\ * | two\ * | each\ * | every\ * | this\ * | it\ *) echo "does not begin with a verb behind the room: say what the commit does" ;;
    esac
    case $rest in *\;*) echo "joins two changes: make two commits, or name what both are for" ;; esac
    case $rest in *.) echo "ends with a full stop: remove it" ;; esac
    [ "$(git log -1 --format=%b "$2")" ] || echo "has no body: add the reason"
}

count=0
offences=$(for commit in $commits; do
    subject=$(git log -1 --format=%s "$commit")
    faults "$subject" "$commit" | sed "s|^|commit $(git rev-parse --short "$commit"): |"
done)
for commit in $commits; do count=$((count + 1)); done
if [ "$offences" ]; then
    echo "$offences"
    exit 1
fi
echo "ok   subjects: $count commits"
