#!/bin/bash
# Prints bash's completions, one a line: complete.bash PROGRAM LIBRARY WORD... The last word is being typed. LIBRARY is the file of
# the package bash-completion, or - for none.
set -u
program=$1
library=$2
shift 2
set +u # the library fails with set -u
# shellcheck source=/dev/null
[ "$library" = - ] || . "$library"
eval "$("$program" completion bash)"
registered=$(complete -p queue-sidecar) || exit
COMP_WORDS=("$program" "$@")
COMP_CWORD=$#
COMP_LINE=$program
for word in "$@"; do
    case $word in
    = | :) COMP_LINE+=$word ;; # bash splits --name=value and a:b
    *) case $COMP_LINE in
        *[=:]) COMP_LINE+=$word ;;
        *) COMP_LINE+=" $word" ;;
        esac ;;
    esac
done
COMP_POINT=${#COMP_LINE}
COMP_TYPE=9
COMP_KEY=9
function=${registered#*-F }
"${function%% *}" "$program" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
