#include "http/api/questions/search.h"

#include "base/json/json.h"
#include "base/text/time_text.h"
#include "base/utf8.h"
#include "http/api/request.h"
#include "operate/filter.h"
#include "operate/hide.h"

// ---- The filter.

static const char *search_value(const param_t *table, size_t count, const params_t *params, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return params->values[i];
    return NULL;
}

bool search_read_time(const char *word, const char *name, int64_t *ms, answer_t *answer) {
    buffer_t why = {0};
    bool good = filter_read_time(word, true, ms, &why);
    if (!good) answer_problem(answer, 400, NULL, "bad `%s`: %s", name, buffer_text(&why));
    buffer_free(&why);
    return good;
}

bool search_read_filter(const param_t *table, size_t count, const params_t *params, audit_filter_t *filter, answer_t *answer) {
#define VALUE(name) search_value(table, count, params, name)
    const char *state = VALUE("state"), *ignore_case = VALUE("ignore_case");
    *filter = (audit_filter_t){.queue = VALUE("queue"),
                               .reason = VALUE("reason"),
                               .state = state && strcmp(state, "open") == 0 ? "failed" : state,
                               .type = VALUE("type"),
                               .worker = VALUE("worker"),
                               .job = VALUE("job"),
                               .group = VALUE("group"),
                               .trace = VALUE("trace"),
                               .grep = VALUE("text"),
                               .ignore_case = ignore_case && strcmp(ignore_case, "true") == 0};
    if (!search_read_time(VALUE("since"), "since", &filter->since_ms, answer) ||
        !search_read_time(VALUE("until"), "until", &filter->until_ms, answer))
        return false;
#undef VALUE
    if (filter->ignore_case && !filter->grep)
        answer_problem(answer, 400, NULL, "`ignore_case` is for `text`, which is missing");
    else if (filter->since_ms && filter->until_ms && filter->since_ms >= filter->until_ms)
        answer_problem(answer, 400, NULL, "`since` must be before `until`");
    else
        return true;
    return false;
}

static bool search_read_cursor(const request_t *request, search_job_t *search, answer_t *answer) {
    const char *text = request_param(request, "cursor");
    cursor_t cursor;
    if (!text) return true;
    if (!cursor_read(text, &cursor)) {
        answer_problem(answer, 400, NULL, "bad `cursor`: send the member next of an answer as it is");
        return false;
    }
    memcpy(search->log, cursor.log, sizeof search->log);
    search->place = (audit_place_t){.at = cursor.at, .seq = cursor.seq};
    return true;
}

bool search_begin(request_t *request, search_job_t *search) {
    const route_t *route = request->route;
    return search_read_filter(route->params, route->param_count, &request->params, &search->filter, &request->answer) &&
           search_read_cursor(request, search, &request->answer);
}

// ---- What a client may see.

// A queue that the config no longer has may have been renamed: what any queue hides is hidden there.
static const strings_t *viewer_hide(const viewer_t *viewer, slice_t queue) {
    const config_t *config = viewer->config;
    for (size_t i = 0; i < config->queue_count; i++)
        if (slice_is(queue, config->queues[i].name)) return &config->queues[i].policy.hide;
    return &config->all_hidden;
}

// The payload of an event without one may be in another event.
sight_t viewer_look(const viewer_t *viewer, slice_t queue, slice_t payload, buffer_t *memory) {
    const strings_t *hide = viewer_hide(viewer, queue);
    slice_t shown = payload.len ? hide_payload(hide, payload, memory) : payload;
    bool hidden = hide->count && (!payload.len || shown.data != payload.data);
    return (sight_t){viewer->payloads ? shown : (slice_t){0}, viewer->payloads && !hidden, hidden};
}

static slice_t viewer_see(void *self, slice_t queue, slice_t payload, buffer_t *memory) {
    const viewer_t *viewer = self;
    return viewer->payloads ? viewer_look(viewer, queue, payload, memory).payload : (slice_t){0};
}

static bool viewer_sees_whole(void *self, slice_t queue, slice_t payload) {
    buffer_t memory = {0};
    bool whole = viewer_look(self, queue, payload, &memory).whole;
    buffer_free(&memory);
    return whole;
}

bool viewer_sees_queue(const viewer_t *viewer, slice_t queue) { return viewer->payloads && !viewer_hide(viewer, queue)->count; }

bool viewer_sees_all(const viewer_t *viewer) { return viewer->payloads && !viewer->config->all_hidden.count; }

void viewer_init(viewer_t *viewer, bool payloads, const config_t *config) {
    *viewer = (viewer_t){.view = {viewer_see, viewer_sees_whole, viewer}, .payloads = payloads, .config = config};
}

// ---- Slices.

typedef struct search_taker {
    search_job_t *search;
    audit_row_fn *take;
    void *self;
    bool enough;
} search_taker_t;

static bool search_take(void *self, const audit_row_t *row) {
    search_taker_t *taker = self;
    taker->search->count++;
    taker->enough = !taker->take(taker->self, row);
    return !taker->enough;
}

// The place of another log: only its time is known here, so what is of the same time comes once more.
static void search_move(search_job_t *search, const char *log) {
    if (*search->log && strcmp(search->log, log) != 0)
        search->place = (audit_place_t){.at = search->place.at + 1, .seq = INT64_MAX};
    snprintf(search->log, sizeof search->log, "%s", log);
}

audit_t *search_prepare(api_t *api, request_t *request, search_job_t *search) {
    audit_t *audit = api_log(api, &request->answer);
    if (!audit) return NULL;
    viewer_init(&search->viewer, request_may(request, RIGHT_PAYLOADS), api_config(api));
    bool sees_all = viewer_sees_all(&search->viewer);
    search->filter.view = sees_all || search->knows_job ? NULL : &search->viewer.view;
    audit_set_head(audit, sees_all ? HEAD_BYTES : HIDE_BYTES);
    search_move(search, audit_instance(audit));
    return audit;
}

search_step_t search_slice(api_t *api, request_t *request, search_job_t *search, int64_t limit, audit_row_fn *take, void *self) {
    audit_t *audit = search_prepare(api, request, search);
    if (!audit) return SEARCH_FAILED;
    search_taker_t taker = {.search = search, .take = take, .self = self};
    buffer_t why = {0};
    search->filter.limit = limit ? limit - search->count : 0;
    bool read = audit_search(audit, &search->filter, &search->place, API_SLICE_US, search_take, &taker, &why);
    if (!read) answer_problem(&request->answer, 503, NULL, "the audit log cannot be read: %s", buffer_text(&why));
    buffer_free(&why);
    if (!read) return SEARCH_FAILED;
    if (!search->place.more || taker.enough || (limit && search->count >= limit)) return SEARCH_ENDED;
    return api_is_late(request) ? SEARCH_LATE : SEARCH_AGAIN;
}

// ---- What is written.

void search_write_end(api_t *api, const search_job_t *search, search_step_t step, buffer_t *out) {
    cursor_t cursor = {.at = search->place.at, .seq = search->place.seq};
    char text[CURSOR_SIZE];
    memcpy(cursor.log, search->log, sizeof cursor.log);
    cursor_write(&cursor, text);
    buffer_str(out, "\"next\":");
    buffer_printf(out, search->place.more ? "\"%s\"," : "null,", text);
    api_write_log(api, out);
    buffer_str(out, ",\"searched_to\":");
    if (step == SEARCH_LATE)
        json_write_string(out, slice_text(time_rfc3339(search->place.at).text));
    else
        buffer_str(out, "null");
    buffer_str(out, "}\n");
}

// The fields of an event: for those who may see payloads, those of the command line, and payload_cut where it is true.
static const field_t *search_fields(bool payloads, bool cut, size_t *count) {
    static field_t open[EVENT_FIELDS]; // made by the one thread of the role
    size_t open_count = 0;
    for (size_t i = 0; !payloads && i < EVENT_FIELDS; i++)
        if (strncmp(event_fields[i].name, "payload", strlen("payload")) != 0) open[open_count++] = event_fields[i];
    *count = !payloads ? open_count : cut ? EVENT_HEAD_FIELDS : EVENT_FIELDS;
    return payloads ? event_fields : open;
}

// Nothing can be hidden in a part of JSON: a cut payload of a queue with `hide` is not shown.
void search_write_event(const api_t *api, const request_t *request, const audit_row_t *row, size_t most, buffer_t *out) {
    size_t count;
    bool payloads = request_may(request, RIGHT_PAYLOADS);
    event_record_t record = event_record(row);
    buffer_t memory = {0};
    viewer_t viewer;
    viewer_init(&viewer, payloads, api_config(api));
    sight_t sight = viewer_look(&viewer, row->event.queue, row->event.payload, &memory);
    bool unknown = row->payload_cut && viewer_hide(&viewer, row->event.queue)->count;
    if (unknown) sight = (sight_t){payloads ? slice_text(HIDDEN) : (slice_t){0}, false, true};
    event_t *event = &record.row.event;
    if (sight.payload.data != event->payload.data) record.row.payload_is_text = true; // what is hidden was JSON, or is a word
    event->payload = utf8_head(sight.payload, most);
    record.row.payload_cut |= event->payload.len < sight.payload.len;
    if (!sight.whole && slice_equal(event->job, event->sha256)) event->job = row->ref;
    if (!sight.whole) event->sha256 = (slice_t){0};
    if (sight.hidden) event->size = -1;
    const field_t *fields = search_fields(payloads, record.row.payload_cut, &count);
    record_write_json(out, fields, count, &record);
    buffer_free(&memory);
}
