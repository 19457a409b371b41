#compdef queue-sidecar
# Completion of queue-sidecar for zsh.
# In a shell, behind compinit: source <(queue-sidecar completion zsh)
_queue-sidecar() {
    local line program=${(Q)words[1]/#\~\//$HOME/}
    local -a offers
    for line in ${(f)"$($program complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        if [[ $line == '<files>' ]]; then
            compset -P '--[a-z-]##=' || compset -P '-?'
            _files
            return
        fi
        # A colon ends the word that is offered.
        offers+=("${${line%%$'\t'*}//:/\\:}${${line#${line%%$'\t'*}}/$'\t'/:}")
    done
    _describe -t words 'queue-sidecar' offers
}
# As a file of fpath this is the body of the function itself.
if [[ $funcstack[1] == _queue-sidecar ]]; then
    _queue-sidecar "$@"
else
    compdef _queue-sidecar queue-sidecar
fi
