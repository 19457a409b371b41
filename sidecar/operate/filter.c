#include "operate/filter.h"

#include "base/text/suggest.h"
#include "base/text/time_text.h"

bool filter_read_time(const char *word, bool utc, int64_t *ms, buffer_t *why) {
    if (!word || time_parse(word, utc, time_now_ms(), ms)) return true;
    const char *nearest = suggest_nearest(word, (const char *const[]){"today", "yesterday"}, 2);
    buffer_printf(why, "not a time (like 2h30m, yesterday, 2026-11-21, 2026-11-21T02:00 or 2026-11-21T02:00:00Z): `%s`", word);
    if (nearest) buffer_printf(why, ": did you mean `%s`?", nearest);
    return false;
}

bool filter_read_limit(const char *word, int64_t *limit, buffer_t *why) {
    char *end;
    errno = 0;
    *limit = strtoll(word, &end, 10);
    if (*word >= '0' && *word <= '9' && !*end && !errno && *limit < INT64_MAX) return true;
    buffer_printf(why, "not a number of rows: `%s`", word);
    return false;
}

enum { TRACE_DIGITS = 32 };

// Only final failures have a state. With another kind, nothing would match. An empty trace would match what has no traceparent.
bool filter_check(audit_filter_t *filter, const char *dashes, buffer_t *why) {
    if (filter->state && strcmp(filter->state, "open") == 0) filter->state = "failed";
    if (filter->since_ms && filter->until_ms && filter->since_ms >= filter->until_ms)
        buffer_printf(why, "%ssince must be before %suntil", dashes, dashes);
    else if (filter->grep && !*filter->grep)
        buffer_printf(why, "%sgrep needs a text", dashes);
    else if (filter->trace && (strspn(filter->trace, "0123456789abcdef") != TRACE_DIGITS || filter->trace[TRACE_DIGITS]))
        buffer_printf(why, "%strace needs the %d hex digits of a trace id, in lower case", dashes, TRACE_DIGITS);
    else if (filter->ignore_case && !filter->grep)
        buffer_printf(why, "%signore-case is for %sgrep: add a text", dashes, dashes);
    else if (filter->state && filter->kind && !filter->all_kinds && strcmp(filter->kind, "failed") != 0)
        buffer_printf(why, "%sstate is of final failures: omit %skind %s", dashes, dashes, filter->kind);
    return why->len == 0;
}

bool filter_narrows(const audit_filter_t *filter) {
    return filter->queue || filter->reason || filter->type || filter->job || filter->worker || filter->grep || filter->trace ||
           filter->since_ms || filter->until_ms;
}

bool filter_is_given(const audit_filter_t *filter) { return filter_narrows(filter) || filter->state || filter->group; }
