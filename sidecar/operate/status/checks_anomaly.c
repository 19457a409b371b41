// Checks of the anomalies that the leader has told of a queue.
#include "base/text/units.h"
#include "operate/status/checks.h"

bool checks_has_anomaly(const check_subject_t *x, anomaly_kind_t kind, anomaly_seen_t *out) {
    return x->stream->anomalies[kind] && anomaly_read(x->stream->anomalies[kind], x->s->snapshot.now_ms, out);
}

// The row's words: of one, then of several, with | between.
int64_t check_anomaly(const check_subject_t *x, buffer_t *what) {
    anomaly_seen_t seen;
    int64_t now_ms = x->s->snapshot.now_ms;
    const char *one = x->row->words, *several = strchr(one, '|') + 1;
    if (!checks_has_anomaly(x, (anomaly_kind_t)x->row->variant, &seen)) return 0;
    buffer_printf(what, "%s ", count_text(seen.number).text);
    if (seen.number == 1)
        buffer_add(what, one, (size_t)(several - one - 1));
    else
        buffer_str(what, several);
    buffer_printf(what, ", such as %s; first seen %s ago", seen.sample, duration_text(now_ms - seen.since_ms).text);
    return seen.number;
}
