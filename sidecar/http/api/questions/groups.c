// Failures counted by reason, hour, error or queue.
#include "audit/query/groups.h"

#include "base/json/json.h"
#include "base/text/time_text.h"
#include "http/api/questions/questions.h"
#include "http/api/questions/search.h"

enum { LIMIT = 1000 };

typedef struct groups {
    search_job_t search;
    audit_by_t by;
    audit_groups_t *counts; // owned
} groups_t;

static void groups_free(void *self) {
    groups_t *groups = self;
    audit_groups_free(groups->counts);
    free(groups);
}

static bool groups_begin(request_t *request) {
    static const char *const words[] = {
        [AUDIT_BY_ERROR] = "error", [AUDIT_BY_QUEUE] = "queue", [AUDIT_BY_REASON] = "reason", [AUDIT_BY_HOUR] = "hour"};
    groups_t *groups = request->work = mem_alloc(sizeof *groups);
    request->free_work = groups_free;
    while (strcmp(words[groups->by], request_param(request, "by")) != 0) groups->by++;
    groups->counts = audit_groups_new(groups->by);
    return search_begin(request, &groups->search);
}

static void groups_write_name(const groups_t *groups, const audit_count_t *count, buffer_t *out) {
    switch (groups->by) {
    case AUDIT_BY_ERROR:
        buffer_str(out, "{\"error\":");
        json_write_string(out, count->error);
        break;
    case AUDIT_BY_QUEUE:
        buffer_str(out, "{\"queue\":");
        json_write_string(out, count->queue);
        break;
    case AUDIT_BY_REASON:
        buffer_str(out, "{\"reason\":");
        json_write_string(out, count->reason);
        break;
    case AUDIT_BY_HOUR: buffer_printf(out, "{\"hour\":\"%s\"", time_rfc3339(count->hour_ms).text); break;
    }
}

static void groups_write(const groups_t *groups, const audit_count_t *count, buffer_t *out) {
    groups_write_name(groups, count, out);
    buffer_printf(out, ",\"failures\":%" PRId64 ",\"open\":%" PRId64 ",\"requeued\":%" PRId64 ",\"discarded\":%" PRId64,
                  count->failures, count->open, count->requeued, count->discarded);
    buffer_printf(out, ",\"first\":\"%s\"", time_rfc3339(count->first_ms).text);
    buffer_printf(out, ",\"last\":\"%s\"}", time_rfc3339(count->last_ms).text);
}

// Left out of the items: the groups behind the limit, and those that were dropped while they were counted.
static audit_dropped_t groups_missing(const groups_t *groups, const audit_count_t *behind, size_t count) {
    audit_dropped_t missing = audit_groups_dropped(groups->counts);
    int64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        missing.failures += behind[i].failures;
        if (behind[i].failures > most) most = behind[i].failures;
    }
    missing.too_low += most;
    return missing;
}

static void groups_answer(api_t *api, request_t *request, const groups_t *groups, search_step_t step) {
    const char *given = request_param(request, "limit");
    size_t count, limit = given ? (size_t)atoll(given) : LIMIT;
    const audit_count_t *sorted = audit_groups_sorted(groups->counts, &count);
    buffer_t *out = &request->answer.body;
    if (limit > count) limit = count;
    audit_dropped_t missing = groups_missing(groups, sorted + limit, count - limit);
    buffer_str(out, "{\"items\":[");
    for (size_t i = 0; i < limit; i++) {
        if (i) buffer_str(out, ",\n ");
        groups_write(groups, &sorted[i], out);
    }
    buffer_printf(out, "],\"dropped_failures\":%" PRId64 ",\"too_low\":%" PRId64 ",", missing.failures, missing.too_low);
    search_write_end(api, &groups->search, step, out);
    answer_json(&request->answer, 200);
}

bool groups_work(api_t *api, request_t *request) {
    if (!request->work && !groups_begin(request)) return true;
    groups_t *groups = request->work;
    search_job_t *search = &groups->search;
    buffer_t why = {0};
    audit_t *audit = search_prepare(api, request, search);
    if (!audit) return true;
    bool read = audit_groups_read(groups->counts, audit, &search->filter, &search->place, API_SLICE_US, &why);
    if (!read) answer_problem(&request->answer, 503, NULL, "the audit log cannot be read: %s", buffer_text(&why));
    buffer_free(&why);
    if (read && search->place.more && !api_is_late(request)) return false;
    if (read) groups_answer(api, request, groups, search->place.more ? SEARCH_LATE : SEARCH_ENDED);
    return true;
}
