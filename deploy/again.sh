# shellcheck shell=sh
# Source this file. It retries downloads, because registries and mirrors sometimes fail for a moment.
#
#   again LOG COMMAND...    runs a program or function that downloads something; LOG gets the output of the last try
#
# In CI (QS_CLIENTS_REQUIRED=1) up to three tries, but no new try after ten minutes; stderr names each further try. Elsewhere one try,
# because the next run tries again. Returns the exit code of the last try.
again() {
    again_log=$1
    again_end=$(($(date +%s) + 600))
    shift
    for again_s in ${QS_AGAIN_S:-5 20} last; do # seconds until the next try
        again_code=0
        "$@" >"$again_log" 2>&1 </dev/null || again_code=$?
        [ $again_code != 0 ] && [ "${QS_CLIENTS_REQUIRED:-}" = 1 ] && [ "$again_s" != last ] && [ "$(date +%s)" -lt $again_end ] || return $again_code
        echo "not fetched, tried again in $again_s s: $(tail -n 1 "$again_log" | cut -c1-200)" >&2
        sleep "$again_s"
    done
}
