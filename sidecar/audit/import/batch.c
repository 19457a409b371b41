// Events on their way into the log, and what they must look like.
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "audit/import/internal.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/utf8.h"

// One transaction. The auditor waits for 500 ms at the most (auditor_log.c), and SQLite's way of waiting is to try now and then:
// so it is short, and a pause as long as it was follows.
enum { BATCH_ROWS = 500, BATCH_BYTES = 1024 * 1024, PAUSE_MIN_MS = 1, PAUSE_MAX_MS = 200 };

enum {
    NAME_MAX_BYTES = 4096,          // bytes of a queue, a job id, ...
    TEXT_MAX_BYTES = 6 * 64 * 1024, // of an error: 64 KiB, where each byte may have become \ufffd
    ATTEMPTS_MAX = 1000000000,      // executions
};
static const int64_t AHEAD_MAX_MS = INT64_C(2) * 366 * 24 * 3600 * 1000; // a clock that was wrong by a year is met in life
static const int64_t TIME_MAX_MS = 253402300799999;                      // the last millisecond of the year 9999

static const char *const kinds[] = {"failed", "retried", "requeued", "discarded", "gap", "filled"};

static bool event_kind_is_known(slice_t kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (slice_is(kind, kinds[i])) return true;
    return false;
}

static bool event_id_is_valid(slice_t text) {
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
        buffer_printf(why, #name " has %zu bytes, %zu are the most", event->name.len, validate_max_bytes(event, &event->name));  \
        return false;                                                                                                            \
    }
    EVENT_TEXTS(X)
#undef X
    return true;
}

static bool validate_numbers(const event_t *event, buffer_t *why) {
    if (event->attempts < 0 || event->attempts > ATTEMPTS_MAX) return validate_error(why, "attempts is no number of executions");
    if (event->at < 0 || event->at > TIME_MAX_MS) return validate_error(why, "at is no time");
    if (event->at > (int64_t)time(NULL) * 1000 + AHEAD_MAX_MS)
        return validate_error(
            why, "at is more than two years ahead of this machine's clock: the row would never be the oldest, and stay for ever");
    if (event->created < 0 || event->created > TIME_MAX_MS) return validate_error(why, "created_at is no time");
    if (event->started < 0 || event->started > TIME_MAX_MS) return validate_error(why, "started_at is no time");
    return event->size >= 0 || validate_error(why, "size is less than 0");
}

bool import_validate(const event_t *event, buffer_t *why) {
    char hex[DIGEST_HEX_SIZE];
    if (!event_id_is_valid(event->event)) return validate_error(why, "the event id is not 64 hex digits");
    if (!event_kind_is_known(event->kind)) {
        buffer_str(why, "is of an unknown kind, `");
        utf8_escape(why, event->kind.data, event->kind.len < 32 ? event->kind.len : 32, "");
        return validate_error(why, "`: a newer version may know it");
    }
    if (event->queue.len == 0) return validate_error(why, "names no queue");
    if (!validate_sizes(event, why) || !validate_numbers(event, why)) return false;
    if (event->sha256.len && !event_id_is_valid(event->sha256)) return validate_error(why, "sha256 is not 64 hex digits");
    bool answer = slice_is(event->kind, "requeued") || slice_is(event->kind, "discarded") || slice_is(event->kind, "filled");
    if (event->answers.len ? !event_id_is_valid(event->answers) : answer) return validate_error(why, "answers is no event id");
    if (event->payload.len == 0 || event->sha256.len == 0) return true;
    digest_t digest = digest_of(event->payload.data, event->payload.len);
    digest_hex(&digest, hex);
    return slice_is(event->sha256, hex) ||
           validate_error(why, "the payload is not what its sha256 says: it was damaged on the way");
}

import_t *import_begin(audit_t *audit) {
    import_t *import = mem_alloc(sizeof *import);
    import->audit = audit;
    import->batch = mem_array(BATCH_ROWS, sizeof *import->batch);
    return import;
}

static void import_clear_batch(import_t *import) {
    for (size_t i = 0; i < import->count; i++) free(import->batch[i].block);
    import->count = import->bytes = 0;
}

void import_free(import_t *import) {
    if (!import) return;
    import_clear_batch(import);
    import_clear_gaps(import);
    free(import->batch);
    free(import);
}

void import_copy(import_event_t *copy, const event_t *event) {
    size_t used = 0;
    *copy = (import_event_t){.event = *event};
#define X(name, help) used += event->name.len;
    EVENT_TEXTS(X)
#undef X
    copy->block = mem_array(used, 1);
    used = 0;
#define X(name, help)                                                                                                            \
    if (event->name.len) memcpy(copy->block + used, event->name.data, event->name.len);                                          \
    copy->event.name.data = copy->block + used;                                                                                  \
    used += event->name.len;
    EVENT_TEXTS(X)
#undef X
}

bool import_is_full(const import_t *import) { return import->count == BATCH_ROWS || import->bytes >= BATCH_BYTES; }

bool import_add(import_t *import, const event_t *event, buffer_t *why) {
    if (slice_is(event->kind, "gap") || slice_is(event->kind, "filled")) {
        import_add_gap(import, event);
        return true;
    }
    if (import_is_full(import) && !import_flush(import, why)) return false;
    import_copy(&import->batch[import->count++], event);
    import->bytes += event->payload.len + event->error.len;
    return true;
}

static void import_pause(mono_t began) {
    int64_t ms = mono_diff(mono_now(), began) / NS_PER_MS;
    ms = ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : ms;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

bool import_put(import_t *import, const event_t *event, bool *added, buffer_t *why) {
    bool new = false;
    if (!audit_insert(import->audit, event, &new, why)) return false;
    if (added) *added = new;
    import->pending.added += new;
    import->pending.known += !new;
    return true;
}

bool import_commit(import_t *import, buffer_t *why) {
    failpoint("import_before_commit");
    if (!audit_commit(import->audit, why)) return false;
    failpoint("import_committed");
    import->counts.added += import->pending.added;
    import->counts.known += import->pending.known;
    return true;
}

bool import_flush(import_t *import, buffer_t *why) {
    if (import->count == 0) return true;
    import->pending = (import_counts_t){0};
    bool done = audit_begin(import->audit, why);
    mono_t began = mono_now(); // behind the wait, in which others had their turn
    for (size_t i = 0; done && i < import->count; i++) done = import_put(import, &import->batch[i].event, NULL, why);
    done = done && import_commit(import, why);
    if (!done) audit_rollback(import->audit);
    import_clear_batch(import);
    if (done) import_pause(began);
    return done;
}

void import_count_refused(import_t *import) { import->counts.refused++; }

const import_counts_t *import_counted(const import_t *import) { return &import->counts; }
