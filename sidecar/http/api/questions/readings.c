// Readings of Redis that all requests share: the status, and the histories of queues.
#include "base/json/json.h"
#include "http/api/api.h"
#include "http/api/questions/questions.h"
#include "http/api/questions/search.h"
#include "operate/history/history.h"
#include "operate/status/status.h"

// A history of a day takes 70 KiB, and changes once a minute.
enum { STATUS_FRESH_MS = 2000, HISTORY_FRESH_MS = 30000, HISTORIES_MAX = 32 };

typedef struct history_reading {
    char *queue; // owned; NULL = none
    history_t history;
    mono_t read_at;
} history_reading_t;

typedef struct readings {
    config_t *config; // shared
    status_t *status; // owned
    buffer_t full, open;
    mono_t fresh_until;
    history_reading_t histories[HISTORIES_MAX];
} readings_t;

static void reading_clear(history_reading_t *reading) {
    history_clear(&reading->history);
    free(reading->queue);
    *reading = (history_reading_t){0};
}

static void readings_clear(readings_t *readings) {
    status_free(readings->status);
    config_free(readings->config);
    buffer_free(&readings->full);
    buffer_free(&readings->open);
    for (size_t i = 0; i < HISTORIES_MAX; i++) reading_clear(&readings->histories[i]);
    *readings = (readings_t){0};
}

static void readings_free(void *self) {
    readings_clear(self);
    free(self);
}

// A reload has replaced the config of earlier readings.
static readings_t *readings_of(api_t *api) {
    if (!*api_kept(api)) api_keep(api, mem_alloc(sizeof(readings_t)), readings_free);
    readings_t *readings = *api_kept(api);
    if (readings->config == api_config(api)) return readings;
    if (readings->config) readings_clear(readings);
    readings->config = config_share(api_config(api));
    readings->status = status_new(readings->config, api_stop(api));
    return readings;
}

// ---- The status.

// A Redis that does not answer must not take all the time of the thread: after a slow reading comes a pause of the same length.
static void readings_read_status(readings_t *readings) {
    mono_t begin = mono_now();
    if (readings->full.len && !mono_reached(readings->fresh_until, begin)) return;
    status_read(readings->status);
    status_findings_t findings = status_diagnose(readings->status, NULL);
    buffer_clear(&readings->full);
    buffer_clear(&readings->open);
    status_json(readings->status, &findings, NULL, &readings->full);
    status_json_open(readings->status, &findings, &readings->open);
    status_findings_free(&findings);
    mono_t end = mono_now();
    int64_t took = mono_diff(end, begin);
    readings->fresh_until = mono_add(begin, STATUS_FRESH_MS * NS_PER_MS);
    if (took > STATUS_FRESH_MS * NS_PER_MS) readings->fresh_until = mono_add(end, took);
}

bool status_work(api_t *api, request_t *request) {
    readings_t *readings = readings_of(api);
    readings_read_status(readings);
    const buffer_t *text = request_may(request, RIGHT_LOOK) ? &readings->full : &readings->open;
    buffer_add(&request->answer.body, text->data, text->len);
    answer_json(&request->answer, 200);
    return true;
}

// ---- Histories.

// The place of the queue's history, or of the oldest reading.
static history_reading_t *readings_find(readings_t *readings, const char *queue) {
    history_reading_t *oldest = readings->histories;
    for (size_t i = 0; i < HISTORIES_MAX; i++) {
        history_reading_t *reading = &readings->histories[i];
        if (reading->queue && strcmp(reading->queue, queue) == 0) return reading;
        if (reading->read_at.ns < oldest->read_at.ns) oldest = reading;
    }
    reading_clear(oldest);
    return oldest;
}

// Reads all of the history, unless it is fresh. False: the problem is the answer.
static bool reading_refresh(api_t *api, const char *queue, history_reading_t *reading, answer_t *answer) {
    api_server_t server;
    redis_error_t error = {0};
    if (reading->queue && !mono_reached(mono_add(reading->read_at, HISTORY_FRESH_MS * NS_PER_MS), mono_now())) return true;
    reading_clear(reading);
    if (!api_server(api, queue, &server, answer)) return false;
    const call_t call = {.conn = server.conn, .keys = server.keys, .queue = server.queue, .error = &error};
    if (history_read(&call, 0, &reading->history) != OUTCOME_OK) {
        reading_clear(reading);
        api_redis_failed(&error, answer);
        return false;
    }
    reading->history.queue = reading->queue = mem_str(queue);
    reading->read_at = mono_now();
    return true;
}

bool history_work(api_t *api, request_t *request) {
    answer_t *answer = &request->answer;
    int64_t since_ms = 0;
    const char *queue = request_param(request, "queue");
    if (!search_read_time(request_param(request, "since"), "since", &since_ms, answer)) return true;
    history_reading_t *reading = readings_find(readings_of(api), queue);
    if (!reading_refresh(api, queue, reading, answer)) return true;
    history_t shown = reading->history;
    for (; shown.count && shown.from_ms < since_ms; shown.count--, shown.slots++) shown.from_ms += shown.step * INT64_C(60000);
    history_json(&shown, &answer->body);
    answer_json(answer, 200);
    return true;
}
