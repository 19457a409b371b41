#include "http/api/log.h"

#include "audit/query/query.h"
#include "base/json/json.h"
#include "base/text/time_text.h"

enum { IDLE_S = 30, GAPS_S = 30, BUSY_MS = 50 };

void log_close(api_log_t *log) {
    audit_close(log->audit);
    *log = (api_log_t){0};
}

audit_t *log_open(api_log_t *log, const char *path, answer_t *answer) {
    buffer_t why = {0};
    if (log->audit && !audit_is_in_place(log->audit)) log_close(log);
    if (!log->audit && (log->audit = audit_open(path, AUDIT_READ, &why)) != NULL) audit_set_busy_timeout(log->audit, BUSY_MS);
    if (!log->audit) answer_problem(answer, 503, NULL, "the audit log cannot be read: %s", buffer_text(&why));
    buffer_free(&why);
    log->used_at = mono_now();
    return log->audit;
}

mono_t log_rest(api_log_t *log) {
    if (!log->audit) return mono_never();
    mono_t close_at = mono_add(log->used_at, IDLE_S * NS_PER_S);
    if (!mono_reached(close_at, mono_now())) return close_at;
    log_close(log);
    return mono_never();
}

static void log_count_gaps(api_log_t *log) {
    buffer_t why = {0};
    if (!mono_reached(log->gaps_at, mono_now())) return;
    if (!audit_open_gaps(log->audit, &log->open_gaps, &why)) log->open_gaps = -1;
    log->gaps_at = mono_add(mono_now(), GAPS_S * NS_PER_S);
    buffer_free(&why);
}

void log_write_facts(api_log_t *log, const metrics_t *metrics, buffer_t *out) {
    int64_t oldest = metric_get(&metrics->audit_oldest_ms), lag_ms = metric_get(&metrics->audit_lag_ms);
    log_count_gaps(log);
    buffer_str(out, "\"log\":{\"instance\":");
    json_write_string(out, slice_text(audit_instance(log->audit)));
    buffer_str(out, ",\"oldest\":");
    if (oldest > 0)
        json_write_string(out, slice_text(time_rfc3339(oldest).text));
    else
        buffer_str(out, "null");
    buffer_str(out, ",\"open_gaps\":");
    buffer_printf(out, log->open_gaps < 0 ? "null" : "%" PRId64, log->open_gaps);
    buffer_printf(out, ",\"lag_seconds\":%" PRId64 ".%03d}", lag_ms / 1000, (int)(lag_ms % 1000));
}
