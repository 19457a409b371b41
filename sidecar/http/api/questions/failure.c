// One failure: all that is known of it with the history of its job, and its payload.
#include "base/json/json.h"
#include "base/text/time_text.h"
#include "http/api/questions/questions.h"
#include "http/api/questions/search.h"
#include "operate/events/ref.h"

typedef struct ref_candidates {
    buffer_t json;
} ref_candidates_t;

static bool failure_add_candidate(void *self, const audit_row_t *row) {
    ref_candidates_t *all = self;
    buffer_str(&all->json, all->json.len ? "," : "[");
    buffer_str(&all->json, "{\"ref\":");
    json_write_string(&all->json, row->ref);
    buffer_str(&all->json, ",\"event\":");
    json_write_string(&all->json, row->event.event);
    buffer_str(&all->json, ",\"kind\":");
    json_write_string(&all->json, row->event.kind);
    buffer_str(&all->json, ",\"queue\":");
    json_write_string(&all->json, row->event.queue);
    buffer_str(&all->json, ",\"at\":");
    json_write_string(&all->json, slice_text(time_rfc3339(row->event.at).text));
    buffer_str(&all->json, "}");
    return true;
}

// Finds the event that the path names. False: the problem is the answer.
static bool failure_find(audit_t *audit, request_t *request, int64_t *seq) {
    static const unsigned statuses[] = {
        [REF_MALFORMED] = 404, [REF_UNKNOWN] = 404, [REF_AMBIGUOUS] = 409, [REF_UNREADABLE] = 503};
    ref_candidates_t candidates = {0};
    ref_event_t found;
    buffer_t why = {0};
    ref_result_t result = ref_find(audit, request->argument, failure_add_candidate, &candidates, &found, &why);
    if (result != REF_FOUND) answer_problem(&request->answer, statuses[result], NULL, "%s", buffer_text(&why));
    buffer_str(&candidates.json, "]");
    if (result == REF_AMBIGUOUS) answer_problem_member(&request->answer, "candidates", buffer_text(&candidates.json));
    buffer_free(&candidates.json);
    buffer_free(&why);
    *seq = found.seq;
    return result == REF_FOUND;
}

// ---- The event, and the history of its job.

enum { FAILURE_BYTES = 1 << 20, HISTORY_MAX = 1000 };

typedef struct failure {
    const api_t *api;
    request_t *request;
    buffer_t event;      // JSON, without its end; empty = not yet read; owned
    char *queue, *job;   // owned
    search_job_t search; // of the history, newest first
    char **history;      // JSON of each event; owned
    size_t count, bytes;
} failure_t;

static void failure_free(void *self) {
    failure_t *failure = self;
    for (size_t i = 0; i < failure->count; i++) free(failure->history[i]);
    free(failure->history);
    buffer_free(&failure->event);
    free(failure->queue);
    free(failure->job);
    free(failure);
}

static bool failure_take(void *self, const audit_row_t *row) {
    failure_t *failure = self;
    search_write_event(failure->api, failure->request, row, FAILURE_BYTES, &failure->event);
    failure->event.len--; // the closing brace
    failure->queue = mem_printf("%.*s", (int)row->event.queue.len, row->event.queue.data);
    failure->job = mem_printf("%.*s", (int)row->event.job.len, row->event.job.data);
    failure->search.knows_job = true;
    failure->search.filter = (audit_filter_t){.all_kinds = true, .queue = failure->queue, .job = failure->job};
    return false;
}

static bool failure_take_history(void *self, const audit_row_t *row) {
    failure_t *failure = self;
    buffer_t item = {0};
    search_write_event(failure->api, failure->request, row, HEAD_BYTES, &item);
    failure->bytes += item.len;
    failure->history = mem_grown(failure->history, failure->count, sizeof *failure->history);
    failure->history[failure->count++] = item.data;
    return failure->bytes < LIST_BYTES_MAX;
}

// Reads the event that the path names. False: the problem is the answer.
static bool failure_read(api_t *api, request_t *request, int head, audit_row_fn *take, void *self) {
    audit_t *audit = api_log(api, &request->answer);
    buffer_t why = {0};
    int64_t seq;
    if (audit) audit_set_head(audit, 1);
    if (!audit || !failure_find(audit, request, &seq)) return false;
    audit_set_head(audit, head);
    bool read = audit_rows(audit, &seq, 1, take, self, &why);
    if (!read) answer_problem(&request->answer, 503, NULL, "the audit log cannot be read: %s", buffer_text(&why));
    buffer_free(&why);
    return read;
}

static void failure_answer(request_t *request, failure_t *failure, bool more) {
    buffer_t *out = &request->answer.body;
    *out = failure->event;
    failure->event = (buffer_t){0};
    buffer_str(out, ",\"history\":[");
    for (size_t i = failure->count; i > 0; i--) {
        buffer_str(out, failure->history[i - 1]);
        if (i > 1) buffer_str(out, ",");
    }
    buffer_str(out, more ? "],\"history_cut\":true}\n" : "]}\n");
    answer_json(&request->answer, 200);
}

static void failure_gone(answer_t *answer) { answer_problem(answer, 404, NULL, "retention has just removed the event"); }

bool failure_work(api_t *api, request_t *request) {
    failure_t *failure = request->work;
    if (!failure) {
        request->work = failure = mem_alloc(sizeof *failure);
        request->free_work = failure_free;
        *failure = (failure_t){.api = api, .request = request};
        if (!failure_read(api, request, FAILURE_BYTES, failure_take, failure)) return true;
        if (!failure->queue) failure_gone(&request->answer);
        return !failure->queue;
    }
    search_step_t step = search_slice(api, request, &failure->search, HISTORY_MAX, failure_take_history, failure);
    if (step == SEARCH_AGAIN || step == SEARCH_FAILED) return step == SEARCH_FAILED;
    failure_answer(request, failure, failure->search.place.more);
    return true;
}

// ---- The payload.

typedef struct payload {
    const api_t *api;
    answer_t *answer;
} payload_t;

static bool payload_write(void *self, const audit_row_t *row) {
    const payload_t *wanted = self;
    answer_t *answer = wanted->answer;
    if (row->erased_at) {
        answer_problem(answer, 410, NULL, "the payload was erased by %.*s at %s", (int)row->erased_by.len, row->erased_by.data,
                       time_rfc3339(row->erased_at).text);
        return false;
    }
    if (row->event.payload.len == 0 && row->event.size) {
        answer_problem(answer, 404, NULL, "the payload of %" PRId64 " bytes was not recorded with this event", row->event.size);
        return false;
    }
    buffer_t memory = {0};
    viewer_t viewer;
    viewer_init(&viewer, true, api_config(wanted->api));
    slice_t payload = viewer_look(&viewer, row->event.queue, row->event.payload, &memory).payload;
    buffer_add(&answer->body, payload.data, payload.len);
    buffer_free(&memory);
    answer->status = 200;
    answer->type = "application/octet-stream";
    answer->disposition = mem_printf("attachment; filename=\"%.*s.bin\"", (int)row->ref.len, row->ref.data);
    return false;
}

bool payload_work(api_t *api, request_t *request) {
    payload_t payload = {api, &request->answer};
    if (failure_read(api, request, 0, payload_write, &payload) && !request->answer.status) failure_gone(&request->answer);
    return true;
}
