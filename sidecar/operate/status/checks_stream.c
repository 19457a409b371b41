// Checks of a queue's failure stream and of the audit logs that copy it.
#include "base/text/units.h"
#include "operate/status/checks.h"

enum {
    UNCOPIED_MS = 60000,                 // longest time until audit logs have a record
    HEARD_RECENTLY_MS = 2 * 3600 * 1000, // instances report once an hour
    NEARLY_FULL_PERCENT = 80,            // of stream.max_bytes
    LOST_MS = 3600 * 1000,               // a lost notification is told for so long
};

int64_t check_stream(const check_subject_t *x, buffer_t *what) {
    const int64_t records = x->sizes->records, held = x->sizes->record_bytes, limit = x->s->config->stream.max_bytes;
    if (records <= 0 || held < 0) return 0;
    bool full = (double)held + (double)held / (double)records > (double)limit; // if the next record has the average size
    bool nearly_full = !full && (double)held * 100 >= (double)limit * NEARLY_FULL_PERCENT;
    if (x->row->variant == CHECK_FULL ? !full : !nearly_full) return 0;
    buffer_printf(what, "its failure stream is %s: %s records, %s of stream.max_bytes (%s)",
                  full ? "full, so no job can end" : "nearly full", count_text(records).text, size_text(held).text,
                  size_text(limit).text);
    return held;
}

// A stream reaches back for stream.retain, unless a trim has removed younger records.
int64_t check_trimmed_early(const check_subject_t *x, buffer_t *what) {
    const int64_t retain_ms = x->s->config->stream.retain_ms;
    const int64_t reach_ms = x->s->snapshot.now_ms - stream_id_ms(x->stream->stream.trimmed);
    if (x->stream->trimmed_early == 0 || reach_ms >= retain_ms) return 0;
    buffer_printf(what,
                  "its failure stream reaches back only %s: the records of stream.retain (%s) take more than half of "
                  "stream.max_bytes (%s), or Redis was nearly full",
                  duration_text(reach_ms).text, duration_text(retain_ms).text, size_text(x->s->config->stream.max_bytes).text);
    return retain_ms - reach_ms;
}

int64_t check_notifications(const check_subject_t *x, buffer_t *what) {
    const int64_t age = x->s->snapshot.now_ms - x->stream->lost_ms;
    if (!*x->policy->on_failure || x->stream->lost_ms == 0 || age > LOST_MS) return 0;
    buffer_printf(what, "notifications of failures were lost, %s ago for the last time; the list %s of `on_failure`: %s",
                  duration_text(age).text, x->policy->on_failure, x->stream->lost_why);
    return LOST_MS + 1 - age;
}

int64_t check_last_id(const check_subject_t *x, buffer_t *what) {
    buffer_str(what, "the last id of its failure stream is the highest possible one, so Redis refuses every further record");
    return stream_id_compare(x->stream->stream.last, STREAM_ID_MAX) == 0;
}

int64_t check_uncopied(const check_subject_t *x, buffer_t *what) {
    const int64_t now_ms = x->s->snapshot.now_ms, age = x->stream->uncopied_ms ? now_ms - x->stream->uncopied_ms : 0;
    size_t active = 0;
    if (age <= UNCOPIED_MS) return 0;
    for (size_t i = 0; i < x->stream->copy_count; i++) active += now_ms - x->stream->copies[i].heard_ms <= STREAM_HEARD_MS;
    buffer_printf(what, "records of the last %s are in fewer than stream.min_copies (%" PRId64 ") audit logs; %zu %s active",
                  duration_text(age).text, x->s->config->stream.min_copies, active, active == 1 ? "log is" : "logs are");
    return age;
}

// Finds logs that lack a record older than UNCOPIED_MS although their instance was heard within HEARD_RECENTLY_MS.
int64_t check_behind(const check_subject_t *x, buffer_t *what) {
    const int64_t now_ms = x->s->snapshot.now_ms, newest = now_ms - stream_id_ms(x->stream->stream.last);
    int64_t behind = 0;
    if (x->stream->stream.length == 0 || newest <= UNCOPIED_MS) return 0;
    for (size_t i = 0; i < x->stream->copy_count; i++)
        behind +=
            now_ms - x->stream->copies[i].heard_ms <= HEARD_RECENTLY_MS && !status_is_complete(x->stream, &x->stream->copies[i]);
    buffer_printf(what, "%" PRId64 " of %zu audit logs %s the newest record, which is %s old", behind, x->stream->copy_count,
                  behind == 1 ? "lacks" : "lack", duration_text(newest).text);
    return behind;
}

// A log in an emptyDir ends with its pod. After a day its entry in Redis counts no more, and within an hour a leader removes it.
int64_t check_silent_log(const check_subject_t *x, buffer_t *what) {
    int64_t silent = 0, longest = 0;
    for (size_t i = 0; i < x->stream->copy_count; i++) {
        int64_t since = x->s->snapshot.now_ms - x->stream->copies[i].heard_ms;
        silent += since > STREAM_HEARD_MS;
        if (since > longest) longest = since;
    }
    buffer_printf(what, "%" PRId64 " of %zu audit logs %s been silent, the longest for %s", silent, x->stream->copy_count,
                  silent == 1 ? "has" : "have", duration_text(longest).text);
    return silent;
}
