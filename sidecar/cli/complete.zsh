#compdef queue-sidecar
# Completion of queue-sidecar for zsh.
# In a shell, after compinit: source <(queue-sidecar completion zsh)
_queue-sidecar() {
    local line program=${(Q)words[1]/#\~\//$HOME/}
    local -a offers
    for line in ${(f)"$($program complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        if [[ $line == '<files>' ]]; then
            compset -P '--[a-z-]##=' || compset -P '-?'
            _files
            return
        fi
        # For _describe an unescaped colon ends the word.
        offers+=("${${line%%$'\t'*}//:/\\:}${${line#${line%%$'\t'*}}/$'\t'/:}")
    done
    _describe -t words 'queue-sidecar' offers
}
# In a directory of fpath this file is the body of the function; elsewhere it registers the function.
if [[ $funcstack[1] == _queue-sidecar ]]; then
    _queue-sidecar "$@"
else
    compdef _queue-sidecar queue-sidecar
fi
