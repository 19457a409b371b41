// The jobs of a queue by state.
#include "operate/jobs/jobs.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json.h"
#include "http/api/api.h"
#include "http/api/questions/questions.h"
#include "http/api/questions/search.h"

enum { LIMIT = 50 };

typedef struct jobs {
    jobs_query_t query;
    const char *text; // of the request; NULL = any
    int64_t limit, count;
    bool more; // behind the cursor
    bool missing;
    buffer_t cursor; // where the reader begins; empty = at the beginning; owned
    jobs_reader_t *reader;
    uint64_t version; // of the keys that the reader borrows
    buffer_t items;   // owned
    viewer_t viewer;  // of the slice
} jobs_t;

static void jobs_free(void *self) {
    jobs_t *jobs = self;
    jobs_close(jobs->reader);
    buffer_free(&jobs->cursor);
    buffer_free(&jobs->items);
    free(jobs);
}

// The fields of a job for those who may not see payloads.
static const field_t *jobs_fields_of(bool payloads, size_t *count) {
    static field_t open[JOBS_FIELDS]; // made by the one thread of the role
    size_t open_count = 0;
    for (size_t i = 0; !payloads && i < JOBS_FIELDS; i++)
        if (strncmp(jobs_fields[i].name, "payload", strlen("payload")) != 0) open[open_count++] = jobs_fields[i];
    *count = payloads ? JOBS_FIELDS : open_count;
    return payloads ? jobs_fields : open;
}

static bool jobs_has(slice_t text, const char *wanted) {
    return text.len && memmem(text.data, text.len, wanted, strlen(wanted)) != NULL;
}

static bool jobs_take(void *self, const jobs_item_t *item) {
    jobs_t *jobs = self;
    jobs_item_t shown = *item;
    buffer_t memory = {0};
    size_t count;
    const field_t *fields = jobs_fields_of(jobs->viewer.payloads, &count);
    sight_t sight = viewer_look(&jobs->viewer, item->queue, item->payload, &memory);
    shown.payload = sight.payload;
    if (shown.payload.data != item->payload.data) shown.payload_is_text = true;
    if (!sight.whole && slice_equal(shown.job, shown.sha256)) shown.job = (slice_t){0};
    if (!sight.whole) shown.sha256 = (slice_t){0};
    if (sight.hidden) shown.size = -1;
    bool found =
        !jobs->text || viewer_sees_all(&jobs->viewer) || jobs_has(shown.job, jobs->text) || jobs_has(shown.payload, jobs->text);
    if (found) {
        if (jobs->count++) buffer_str(&jobs->items, ",\n ");
        record_write_json(&jobs->items, fields, count, &shown);
    }
    buffer_free(&memory);
    return jobs->count < jobs->limit && jobs->items.len < LIST_BYTES_MAX;
}

// ---- The cursor has the size and a digest of the last job. Who may not see all of the queue gets them under a key of this
// process. Another instance goes on from the place alone.

enum { COVERS = 2 };

// Returns where size and digest begin: behind the third bar.
static size_t cursor_secret(const buffer_t *cursor) {
    const char *text = buffer_text(cursor), *at = text;
    for (int bars = 0; bars < 3 && *at; at++) bars += *at == '_';
    return (size_t)(at - text);
}

static void cursor_toggle(const digest_t *nonce, char secret[COVERS * DIGEST_BYTES]) {
    static digest_t key; // of the one thread of the role
    static bool has_key;
    if (!has_key) random_bytes(&key, sizeof key);
    has_key = true;
    for (int i = 0; i < COVERS * DIGEST_BYTES; i += DIGEST_BYTES) {
        const slice_t parts[] = {{(const char *)&key, sizeof key}, {(const char *)nonce, sizeof *nonce}, {i ? "1" : "0", 1}};
        digest_t cover = digest_of_parts(parts, 3);
        for (int k = 0; k < DIGEST_BYTES; k++) secret[i + k] = (char)(secret[i + k] ^ (char)cover.bytes[k]);
    }
}

static void cursor_cover(buffer_t *cursor) {
    digest_t parts[1 + COVERS] = {0};
    char secret[COVERS * DIGEST_BYTES] = {0}, hex[DIGEST_HEX_SIZE];
    size_t at = cursor_secret(cursor);
    random_bytes(&parts[0], sizeof parts[0]);
    snprintf(secret, sizeof secret, "%s", buffer_text(cursor) + at);
    cursor_toggle(&parts[0], secret);
    memcpy(&parts[1], secret, sizeof secret);
    cursor->len = at;
    for (int i = 0; i <= COVERS; i++) {
        digest_hex(&parts[i], hex);
        buffer_str(cursor, hex);
    }
}

static void cursor_uncover(buffer_t *cursor) {
    enum { HEX = 2 * DIGEST_BYTES };
    digest_t parts[1 + COVERS];
    char secret[COVERS * DIGEST_BYTES + 1] = {0};
    size_t at = cursor_secret(cursor);
    if (cursor->len - at != HEX * (1 + COVERS)) return;
    for (int i = 0; i <= COVERS; i++)
        if (!digest_parse((slice_t){buffer_text(cursor) + at + HEX * i, HEX}, &parts[i])) return;
    memcpy(secret, &parts[1], COVERS * DIGEST_BYTES);
    cursor_toggle(&parts[0], secret);
    cursor->len = at;
    buffer_str(cursor, secret[strspn(secret, "0123456789abcdef_")] ? "-1_0" : secret);
}

// ---- The answer.

static void jobs_begin(request_t *request) {
    static const char *const words[] = {[JOBS_DELAYED] = "delayed", [JOBS_READY] = "ready", [JOBS_IN_PROGRESS] = "in-progress"};
    jobs_t *jobs = request->work = mem_alloc(sizeof *jobs);
    const char *limit = request_param(request, "limit"), *cursor = request_param(request, "cursor");
    request->free_work = jobs_free;
    while (strcmp(words[jobs->query.state], request_param(request, "state")) != 0) jobs->query.state++;
    jobs->text = request_param(request, "text");
    jobs->query.texts = &jobs->text;
    jobs->query.text_count = jobs->text != NULL;
    jobs->limit = limit ? atoll(limit) : LIMIT;
    if (cursor) buffer_str(&jobs->cursor, cursor);
    cursor_uncover(&jobs->cursor);
}

static void jobs_answer(request_t *request, jobs_t *jobs) {
    buffer_t *out = &request->answer.body;
    if (!viewer_sees_queue(&jobs->viewer, slice_text(request_param(request, "queue")))) cursor_cover(&jobs->cursor);
    buffer_printf(out, "{\"items\":[%s],\"next\":", buffer_text(&jobs->items));
    buffer_printf(out, jobs->more ? "\"%s\"" : "null", buffer_text(&jobs->cursor));
    buffer_printf(out, ",\"may_lack\":%s}\n", jobs->missing ? "true" : "false");
    answer_json(&request->answer, 200);
}

// Reads for one slice. False: the problem is the answer.
static bool jobs_slice(api_t *api, request_t *request, jobs_t *jobs) {
    redis_error_t error = {0};
    api_server_t server;
    if (!api_server(api, request_param(request, "queue"), &server, &request->answer)) return false;
    viewer_init(&jobs->viewer, request_may(request, RIGHT_PAYLOADS), api_config(api));
    if (jobs->version != server.version) {
        jobs_close(jobs->reader);
        jobs->reader = jobs_open(server.keys, server.queue, &jobs->query, jobs->cursor.len ? buffer_text(&jobs->cursor) : NULL);
        jobs->version = server.version;
    }
    if (!jobs->reader) {
        answer_problem(&request->answer, 400, NULL, "bad `cursor`: send the member next of an answer as it is");
        return false;
    }
    mono_t end = mono_add(mono_now(), API_SLICE_MS * NS_PER_MS);
    outcome_t outcome = jobs_read(jobs->reader, server.conn, jobs->limit - jobs->count, end, jobs_take, jobs, &error);
    jobs->more = !jobs_ended(jobs->reader);
    jobs->missing = jobs->missing || jobs_missing(jobs->reader);
    buffer_clear(&jobs->cursor);
    jobs_cursor(jobs->reader, &jobs->cursor);
    if (outcome != OUTCOME_OK) api_redis_failed(&error, &request->answer);
    return outcome == OUTCOME_OK;
}

bool jobs_work(api_t *api, request_t *request) {
    if (!request->work) jobs_begin(request);
    jobs_t *jobs = request->work;
    if (!jobs_slice(api, request, jobs)) return true;
    bool enough = jobs->count >= jobs->limit || jobs->items.len >= LIST_BYTES_MAX;
    if (jobs->more && !enough && (jobs_is_behind(jobs->reader) || !api_is_late(request))) return false;
    jobs_answer(request, jobs);
    return true;
}
