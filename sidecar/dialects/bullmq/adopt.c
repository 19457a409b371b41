// Whether the keys of a queue are of a BullMQ that the sidecar knows.
#include "base/json/json.h"
#include "dialects/bullmq/internal.h"
#include "redis/reply.h"

enum {
    OLDEST_MAJOR = 5,
    NEWEST_MAJOR = 6,
    SHOWN_MAX = 64, // bytes of an unknown version in a message
};

// The newest minor of each major that the tests run with.
static const int64_t tested_minors[] = {[5] = 81, [6] = 7};

// Reads digits from *at on. False: there are none, or too many.
static bool version_number(slice_t text, size_t *at, int64_t *out) {
    size_t begin = *at;
    for (*out = 0; *at < text.len && text.data[*at] >= '0' && text.data[*at] <= '9' && *at - begin < 9; ++*at)
        *out = *out * 10 + (text.data[*at] - '0');
    return *at > begin;
}

bool bullmq_version_read(slice_t text, bullmq_version_t *out) {
    static const char name[] = "bullmq";
    size_t at = sizeof name - 1;
    if (text.len < at || memcmp(text.data, name, at) != 0) return false;
    while (at < text.len && text.data[at] != ':') at++;
    int64_t *const parts[] = {&out->major, &out->minor, &out->patch};
    for (size_t i = 0; i < 3; i++) {
        if (at >= text.len || text.data[at++] != (i ? '.' : ':')) return false;
        if (!version_number(text, &at, parts[i])) return false;
    }
    return true;
}

// `stc` and `defa` of a job are from 5.53.2 on, and prologue/bullmq_meta.lua says the same.
bool bullmq_version_moves(const bullmq_version_t *version) {
    if (version->major != OLDEST_MAJOR) return version->major > OLDEST_MAJOR && version->major <= NEWEST_MAJOR;
    return version->minor > 53 || (version->minor == 53 && version->patch >= 2);
}

static void adopt_append(conn_t *conn, const queue_keys_t *at) {
    request_begin(conn, "HMGET");
    bull_keys(conn, at, "meta");
    request_text(conn, "version");
    request_end(conn);
    request_begin(conn, "TYPE");
    bull_keys(conn, at, "events");
    request_end(conn);
    request_begin(conn, "EXISTS");
    bull_keys(conn, at, "id", "wait", "active", "delayed", "failed", "completed");
    request_end(conn);
}

static void adopt_refuse_version(buffer_t *refusal, const char *base, slice_t version) {
    buffer_printf(refusal, "%s:meta has the version ", base);
    json_write_string(refusal, (slice_t){version.data, version.len < SHOWN_MAX ? version.len : SHOWN_MAX});
    buffer_str(refusal, ": dialect bullmq serves BullMQ 5 and 6: update the application to one of them, or the sidecar if the "
                        "application is newer");
}

// BullMQ writes its version when an application opens a Queue, and its events whenever something happens to a job. Where only
// workers have run there is no version.
outcome_t bullmq_adopt(const call_t *call, buffer_t *refusal) {
    const queue_keys_t *at = call_queue(call);
    const char *base = bull_config(at->config)->base;
    bullmq_version_t version;
    *call->error = (redis_error_t){0};
    adopt_append(call->conn, at);
    redisReply *meta = conn_read_next(call->conn, NULL, call->error);
    redisReply *events = conn_read_next(call->conn, NULL, call->error);
    redisReply *others = conn_read_next(call->conn, NULL, call->error);
    slice_t text = reply_slice(reply_at(meta, 0));
    if (call->error->outcome != OUTCOME_OK)
        ;
    else if (text.len && (!bullmq_version_read(text, &version) || version.major < OLDEST_MAJOR || version.major > NEWEST_MAJOR))
        adopt_refuse_version(refusal, base, text);
    else if (!text.len && !reply_is(events, "stream") && reply_int(others) > 0)
        buffer_printf(refusal,
                      "the queue does not belong to BullMQ 5 or 6 (%s:meta has no version, and %s:events is no stream): dialect "
                      "bull serves Bull 4",
                      base, base);
    conn_reply_free(meta);
    conn_reply_free(events);
    conn_reply_free(others);
    return call->error->outcome;
}

static char *survey_text(const bullmq_version_t *version) {
    char number[80];
    snprintf(number, sizeof number, "BullMQ %" PRId64 ".%" PRId64 ".%" PRId64, version->major, version->minor, version->patch);
    if (version->major < OLDEST_MAJOR || version->major > NEWEST_MAJOR) return NULL; // adopt refuses it
    if (!bullmq_version_moves(version))
        return mem_printf(
            "%s is older than 5.53.2: its delayed and stalled jobs are left to the workers until you update the application",
            number);
    if (version->minor <= tested_minors[version->major]) return NULL;
    return mem_printf("%s is newer than %" PRId64 ".%" PRId64 ", the newest that dialect bullmq was tested with", number,
                      version->major, tested_minors[version->major]);
}

// Notes each queue whose BullMQ is newer than those of the tests, or too old for more than records, and each one that is paused
// (src/commands/pause-7.lua sets `paused` of meta, and a resume removes it).
outcome_t bullmq_survey(const call_t *call, survey_report_fn *report, void *self) {
    const keyspace_t *keys = call->keys;
    *call->error = (redis_error_t){0};
    for (int read = 0; read < 2; read++) {
        for (size_t i = call->queue; i < keys->queue_count; i++) {
            bullmq_version_t version;
            redis_error_t refusal;
            if (keys->queues[i].config->dialect != &bullmq_settings) continue;
            if (!read) {
                request_begin(call->conn, "HMGET");
                bull_keys(call->conn, &keys->queues[i], "meta");
                request_text(call->conn, "version", "paused");
                request_end(call->conn);
                continue;
            }
            redisReply *reply = conn_read_or_refusal(call->conn, &refusal, call->error); // adopt refuses other systems
            slice_t written = reply_slice(reply_at(reply, 0));
            char *text = bullmq_version_read(written, &version) ? survey_text(&version) : NULL;
            if (text) report(self, !bullmq_version_moves(&version), i, text);
            free(text);
            if (reply_slice(reply_at(reply, 1)).len)
                report(self, false, i, "the application has paused this queue: no worker takes a job until it is resumed");
            conn_reply_free(reply);
        }
    }
    return call->error->outcome;
}
