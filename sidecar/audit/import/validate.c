// Validates events of untrusted files.

#include "audit/import/import.h"
#include "base/utf8.h"

enum {
    NAME_MAX_BYTES = 4096,          // bytes of a queue, a job id, ...
    TEXT_MAX_BYTES = 6 * 64 * 1024, // of an error or a reason: 64 KiB, and each byte may have become \ufffd
    ATTEMPTS_MAX = 1000000000,      // executions
};
static const int64_t AHEAD_MAX_MS = INT64_C(2) * 366 * 24 * 3600 * 1000; // two years: clocks may be wrong by one
static const int64_t TIME_MAX_MS = 253402300799999;                      // the last millisecond of the year 9999

static const char *const kinds[] = {"failed", "retried", "requeued", "discarded", "gap", "filled"};

static bool validate_kind(slice_t kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (slice_is(kind, kinds[i])) return true;
    return false;
}

static bool validate_id(slice_t text) {
    char ref[EVENT_REF_SIZE];
    return event_ref(text, ref);
}

static bool validate_error(buffer_t *why, const char *text) {
    buffer_str(why, text);
    return false;
}

static size_t validate_max_bytes(const event_t *event, const slice_t *text) {
    return text == &event->payload                           ? IMPORT_MAX_PAYLOAD
           : text == &event->error || text == &event->reason ? TEXT_MAX_BYTES
                                                             : NAME_MAX_BYTES;
}

static bool validate_sizes(const event_t *event, buffer_t *why) {
#define X(name, help)                                                                                                            \
    if (event->name.len > validate_max_bytes(event, &event->name)) {                                                             \
        buffer_printf(why, #name " has %zu bytes, at most %zu are allowed", event->name.len,                                     \
                      validate_max_bytes(event, &event->name));                                                                  \
        return false;                                                                                                            \
    }
    EVENT_TEXTS(X)
#undef X
    return true;
}

static bool validate_numbers(const event_t *event, buffer_t *why) {
    if (event->attempts < 0 || event->attempts > ATTEMPTS_MAX) return validate_error(why, "attempts is out of range");
    if (event->at < 0 || event->at > TIME_MAX_MS) return validate_error(why, "at is not a time");
    if (event->at > (int64_t)time(NULL) * 1000 + AHEAD_MAX_MS)
        return validate_error(why,
                              "at is more than two years ahead of this machine's clock: retention would never remove the row");
    if (event->created < 0 || event->created > TIME_MAX_MS) return validate_error(why, "created_at is not a time");
    if (event->started < 0 || event->started > TIME_MAX_MS) return validate_error(why, "started_at is not a time");
    return event->size >= 0 || validate_error(why, "size is less than 0");
}

bool import_validate(const event_t *event, buffer_t *why) {
    char hex[DIGEST_HEX_SIZE];
    if (!validate_id(event->event)) return validate_error(why, "the event id is not 64 hex digits");
    if (!validate_kind(event->kind)) {
        buffer_str(why, "is of the unknown kind `");
        utf8_escape(why, event->kind.data, event->kind.len < 32 ? event->kind.len : 32, "");
        return validate_error(why, "`, which a newer version may know");
    }
    if (event->queue.len == 0) return validate_error(why, "has no queue");
    if (!validate_sizes(event, why) || !validate_numbers(event, why)) return false;
    if (event->sha256.len && !validate_id(event->sha256)) return validate_error(why, "sha256 is not 64 hex digits");
    bool answer = slice_is(event->kind, "requeued") || slice_is(event->kind, "discarded") || slice_is(event->kind, "filled");
    if (event->answers.len ? !validate_id(event->answers) : answer) return validate_error(why, "answers is not an event id");
    if (event->payload.len == 0 || event->sha256.len == 0) return true;
    digest_t digest = digest_of(event->payload.data, event->payload.len);
    digest_hex(&digest, hex);
    return slice_is(event->sha256, hex) ||
           validate_error(why, "the payload does not match its sha256: it was damaged on the way");
}
