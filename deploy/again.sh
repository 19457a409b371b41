# shellcheck shell=sh
# For sourcing. Registries and mirrors fail now and then, for a moment.
#
#   again LOG COMMAND...    runs a program or function that fetches something; what it writes goes into LOG
#
# In CI, which has one run and lacks nothing (QS_CLIENTS_REQUIRED=1), it gets up to three tries, unless ten minutes have passed, and each
# further one is said on stderr. Elsewhere it gets one: the next run tries again. Returns what the last try did.
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
