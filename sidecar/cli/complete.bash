# Completion of queue-sidecar for bash 4 and later.
# In a shell: source <(queue-sidecar completion bash)
_queue_sidecar() {
    local word description
    COMPREPLY=()
    while IFS=$'\t' read -r word description; do
        if [[ $word == '<files>' ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}")
        else
            printf -v word %q "$word"
            COMPREPLY+=("$word")
        fi
    done < <("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _queue_sidecar queue-sidecar
