// Checks events that other programs may have written.

#include "base/utf8.h"
#include "model/event.h"

enum {
    PAYLOAD_MAX_BYTES = 512 * 1024 * 1024, // as Redis and max_payload
    NAME_MAX_BYTES = 4096,                 // bytes of a queue, a job id, ...
    TEXT_MAX_BYTES = 6 * 64 * 1024,        // of an error or a reason: 64 KiB, and each byte may have become \ufffd
    ATTEMPTS_MAX = 1000000000,             // executions
};
static const int64_t AHEAD_MAX_MS = INT64_C(2) * 366 * 24 * 3600 * 1000; // two years: a clock may be a year off
static const int64_t TIME_MAX_MS = 253402300799999;                      // the last millisecond of the year 9999

static const char *const kinds[] = {"failed", "retried", "requeued", "discarded", "erased", "gap", "filled"};

static bool check_kind(slice_t kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (slice_is(kind, kinds[i])) return true;
    return false;
}

static bool check_id(slice_t text) {
    char ref[EVENT_REF_SIZE];
    return event_ref(text, ref);
}

static bool check_failed(buffer_t *why, const char *text) {
    buffer_str(why, text);
    return false;
}

static size_t check_max_bytes(const event_t *event, const slice_t *text) {
    return text == &event->payload                           ? PAYLOAD_MAX_BYTES
           : text == &event->error || text == &event->reason ? TEXT_MAX_BYTES
                                                             : NAME_MAX_BYTES;
}

static bool check_sizes(const event_t *event, buffer_t *why) {
#define X(name, help)                                                                                                            \
    if (event->name.len > check_max_bytes(event, &event->name)) {                                                                \
        buffer_printf(why, #name " has %zu bytes, at most %zu are allowed", event->name.len,                                     \
                      check_max_bytes(event, &event->name));                                                                     \
        return false;                                                                                                            \
    }
    EVENT_TEXTS(X)
#undef X
    return true;
}

bool event_is_erasure(const event_t *event) { return slice_is(event->kind, "erased"); }

bool event_is_answer(const event_t *event) {
    return slice_is(event->kind, "requeued") || slice_is(event->kind, "discarded") || event_is_erasure(event);
}

bool event_is_of_a_log(const event_t *event) { return slice_is(event->kind, "gap") || slice_is(event->kind, "filled"); }

static bool check_attempts(int64_t attempts) { return attempts >= 0 && attempts <= ATTEMPTS_MAX; }

static bool check_time(int64_t ms) { return ms >= 0 && ms <= TIME_MAX_MS; }

void event_clear_impossible(event_t *event) {
    if (!check_attempts(event->attempts)) event->attempts = 0;
    if (!check_time(event->created)) event->created = 0;
    if (!check_time(event->started)) event->started = 0;
    event->worker = slice_cut(event->worker, NAME_MAX_BYTES);
}

static bool check_numbers(const event_t *event, int64_t now_ms, buffer_t *why) {
    if (!check_attempts(event->attempts)) return check_failed(why, "attempts is out of range");
    if (!check_time(event->at)) return check_failed(why, "at is not a time");
    if (event->at - AHEAD_MAX_MS > now_ms)
        return check_failed(why, "at is more than two years ahead of the clock: retention would never remove the row");
    if (!check_time(event->created)) return check_failed(why, "created_at is not a time");
    if (!check_time(event->started)) return check_failed(why, "started_at is not a time");
    return event->size >= 0 || check_failed(why, "size is less than 0");
}

bool event_check(const event_t *event, int64_t now_ms, buffer_t *why) {
    char hex[DIGEST_HEX_SIZE];
    if (!check_id(event->event)) return check_failed(why, "the event id is not 64 hex digits");
    if (!check_kind(event->kind)) {
        buffer_str(why, "is of the unknown kind `");
        utf8_escape(why, event->kind.data, event->kind.len < 32 ? event->kind.len : 32, "");
        return check_failed(why, "`, which a newer version may know");
    }
    if (event->queue.len == 0) return check_failed(why, "has no queue");
    if (!check_sizes(event, why) || !check_numbers(event, now_ms, why)) return false;
    if (event->sha256.len && !check_id(event->sha256)) return check_failed(why, "sha256 is not 64 hex digits");
    bool answer = event_is_answer(event) || slice_is(event->kind, "filled");
    if (event->answers.len ? !check_id(event->answers) : answer) return check_failed(why, "answers is not an event id");
    if (event->payload.len == 0 || event->sha256.len == 0) return true;
    digest_t digest = digest_of(event->payload.data, event->payload.len);
    digest_hex(&digest, hex);
    return slice_is(event->sha256, hex) || check_failed(why, "the payload does not match its sha256: it was damaged on the way");
}
