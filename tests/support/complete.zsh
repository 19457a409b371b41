#!/bin/zsh -f
# Prints the completions of zsh for each line, below "== LINE": complete.zsh PROGRAM LINE... The lines call the program
# queue-sidecar; its directory goes to the front of PATH. FPATH_DIR is the directory of an installed _queue-sidecar; without it the
# script is sourced.
zmodload zsh/zpty
program=$1
shift
zpty inner zsh -f -i
feed() { zpty -w inner "$1"; }
# Reads until the text comes; sets $heard to what came before the text.
hear() {
    zpty -r inner heard "*${(b)1}" || exit 1
    heard=${heard%$1}
}
feed 'PS1=PROMPT\> RPS1= PS2=; unsetopt zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste; stty columns 250 rows 200 -echo kill undef; TERM=dumb'
feed "path=(${(q)program:h} \$path)"
[[ -z $FPATH_DIR ]] || feed "fpath=(${(q)FPATH_DIR} \$fpath)"
feed 'autoload -Uz compinit && compinit -u -D'
[[ -n $FPATH_DIR ]] || feed 'source <(queue-sidecar completion zsh)'
# One match a line, none of them inserted.
feed "zstyle ':completion:*' list-packed false; zstyle ':completion:*' insert-tab false; setopt no_list_ambiguous no_always_last_prompt list_rows_first"
feed "zstyle ':completion:*' list-prompt ''; LISTMAX=0; bindkey '^I' list-choices; bindkey '^U' kill-whole-line"
feed 'print READY$((1 + 1))'
hear READY2
for line; do
    hear 'PROMPT>' # the line editor is ready; earlier input would go to the terminal driver
    zpty -w -n inner "$line"$'\t'$'\x15'"print DONE\$((1 + 1))"$'\n'
    hear DONE2
    print -r -- "== $line"
    print -r -- "${heard#*$line}"
done
