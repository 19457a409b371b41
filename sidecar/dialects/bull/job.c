#include "dialects/bull/job.h"

#include <math.h>

#include "base/json/json.h"
#include "base/text/base64.h"
#include "base/utf8.h"
#include "redis/reply.h"

enum { ERROR_MAX = 64 * 1024 };

typedef enum bull_content { BULL_TEXT, BULL_JSON } bull_content_t;

const char *const bull_field_names[BULL_FIELDS] = {
#define X(id, name, content) name,
    BULL_FIELD_LIST(X)
#undef X
};

// The members of a payload: the fields that are kept, and the id.
enum { ID = BULL_KEPT_FIELDS, MEMBERS };
_Static_assert((int)MEMBERS <= (int)JSON_MAX_PICKS, "one json_pick finds all members of a payload");

// JSON pointers of a member. A value that is not JSON, or not UTF-8, is stored in base64 at `coded`, any other value at `plain`.
typedef struct member {
    const char *plain, *coded;
    bull_content_t content;
} payload_member_t;

static const payload_member_t members[BULL_FIELDS] = {
#define X(id, name, content) {"/" name, "/" name "64", content},
    BULL_FIELD_LIST(X)
#undef X
};
static const payload_member_t id_member = {"/id", "/id64", BULL_TEXT};

static const payload_member_t *payload_member(size_t index) { return index == ID ? &id_member : &members[index]; }

int64_t bull_number(const bull_job_t *job, bull_field_t field) {
    int64_t number;
    if (!json_integer(job->fields[field], &number)) return 0;
    return number >= 0 && number <= (int64_t)1 << 53 ? number : 0;
}

// Most fields of a job are such numbers.
static bool text_is_count(slice_t text) {
    if (text.len == 0 || text.len > 16 || (text.len > 1 && text.data[0] == '0')) return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    return true;
}

// Whether the text is one JSON value and nothing else, not even a space. Only then does a reader of the payload get the same
// bytes back.
static bool text_is_json(slice_t text) {
    if (text_is_count(text)) return true;
    buffer_t object = {0};
    json_pick_t pick = {.pointer = "/v"};
    buffer_str(&object, "{\"v\":");
    buffer_add(&object, text.data, text.len);
    buffer_str(&object, "}");
    bool found = json_pick((slice_t){object.data, object.len}, &pick, 1) && pick.found == JSON_FOUND;
    size_t quotes = found && pick.value.type == JSON_STRING ? 2 : 0;
    found = found && pick.value.raw.len + quotes == text.len;
    buffer_free(&object);
    return found;
}

static void payload_add_member(buffer_t *out, const payload_member_t *member, slice_t value) {
    bool plain = member->content == BULL_JSON ? text_is_json(value) : utf8_is_valid(value.data, value.len);
    buffer_str(out, out->data[out->len - 1] == '{' ? "\"" : ",\"");
    buffer_str(out, (plain ? member->plain : member->coded) + 1);
    buffer_str(out, "\":");
    if (!plain) {
        buffer_str(out, "\"");
        base64_encode(out, value);
        buffer_str(out, "\"");
    } else if (member->content == BULL_TEXT) {
        json_write_string(out, value);
    } else {
        buffer_add(out, value.data, value.len);
    }
}

void bull_payload(const bull_job_t *job, buffer_t *out) {
    buffer_str(out, "{");
    payload_add_member(out, &id_member, job->id);
    for (size_t i = 0; i < BULL_KEPT_FIELDS; i++)
        if (job->fields[i].len) payload_add_member(out, &members[i], job->fields[i]);
    buffer_str(out, "}");
}

static bool payload_read_member(const payload_member_t *member, const json_pick_t *plain, const json_pick_t *coded,
                                buffer_t *room, slice_t *out) {
    slice_t raw = plain->value.raw;
    size_t from = room->len, quote = plain->value.type == JSON_STRING; // raw excludes the quotes of a string
    if (coded->found == JSON_FOUND) {
        if (plain->found == JSON_FOUND || coded->value.type != JSON_STRING) return false;
        buffer_add(room, coded->value.raw.data, coded->value.raw.len);
        size_t len = coded->value.raw.len;
        if (len && !base64_decode(room->data + from, &len)) return false;
        room->len = from + len;
    } else if (plain->found != JSON_FOUND) {
        return true;
    } else if (member->content == BULL_JSON) {
        *out = (slice_t){raw.data - quote, raw.len + 2 * quote};
        return true;
    } else if (!quote || !json_decode(raw, room)) {
        return false;
    }
    *out = (slice_t){room->data + from, room->len - from};
    return true;
}

bool bull_rebuild(slice_t payload, bull_job_t *out, buffer_t *room) {
    json_pick_t plain[MEMBERS], coded[MEMBERS];
    *out = (bull_job_t){0};
    for (size_t i = 0; i < MEMBERS; i++) {
        plain[i] = (json_pick_t){.pointer = payload_member(i)->plain};
        coded[i] = (json_pick_t){.pointer = payload_member(i)->coded};
    }
    if (!json_pick(payload, plain, MEMBERS) || !json_pick(payload, coded, MEMBERS)) return false;
    // Decoded values are no longer than the payload. Make room for all of them first, because the job borrows from it.
    buffer_clear(room);
    buffer_add(room, payload.data, payload.len);
    buffer_clear(room);
    for (size_t i = 0; i < MEMBERS; i++)
        if (!payload_read_member(payload_member(i), &plain[i], &coded[i], room, i == ID ? &out->id : &out->fields[i]))
            return false;
    return out->id.len && out->fields[BULL_NAME].len;
}

// The same truth test as `if (opts.lifo)` in JavaScript.
bool bull_is_lifo(const bull_job_t *job) {
    json_pick_t lifo = {.pointer = "/lifo"};
    if (!json_pick(job->fields[BULL_OPTS], &lifo, 1) || lifo.found != JSON_FOUND) return false;
    switch (lifo.value.type) {
    case JSON_STRING: return lifo.value.raw.len > 0;
    case JSON_NUMBER: return strtod(lifo.value.raw.data, NULL) != 0; // a bracket or comma of the object ends it
    case JSON_BOOL: return slice_is(lifo.value.raw, "true");
    case JSON_NULL: return false;
    default: return true;
    }
}

// The last element of a JSON array of strings, without its quotes; len 0: the array is empty or ends with another type.
static slice_t stack_last(slice_t array) {
    if (array.len < 4 || memcmp(array.data + array.len - 2, "\"]", 2) != 0 || !text_is_json(array)) return (slice_t){0};
    size_t end = array.len - 2, at = end;
    while (at > 0) {
        size_t slashes = 0;
        if (array.data[--at] != '"') continue;
        while (slashes < at && array.data[at - slashes - 1] == '\\') slashes++;
        if (slashes % 2 == 0) return (slice_t){array.data + at + 1, end - at - 1};
    }
    return (slice_t){0};
}

bool bull_job_at(const redisReply *page, size_t index, size_t head, bull_job_t *out) {
    size_t at = BULL_PAGE_HEAD + index * (head + BULL_FIELDS);
    if (page->type != REDIS_REPLY_ARRAY || at + head + BULL_FIELDS > page->elements) return false;
    out->id = reply_slice(page->element[at]);
    out->score = head == BULL_SCORED ? reply_slice(page->element[at + 1]) : (slice_t){0};
    out->state = reply_text(page->element[at + head - 1]);
    for (size_t i = 0; i < BULL_FIELDS; i++) out->fields[i] = reply_slice(page->element[at + head + i]);
    return true;
}

bool bull_reply_begins(const redisReply *reply, const char *word, const char *other, redis_error_t *error) {
    bool good = reply_is(reply_at(reply, 0), word) || reply_is(reply_at(reply, 0), other);
    if (!good) redis_error_set(error, OUTCOME_REFUSED, "unexpected reply: neither \"%s\" nor \"%s\"", word, other);
    return good;
}

int64_t bull_attempts(const bull_job_t *job) {
    return bull_number(job, BULL_ATTEMPTS_MADE) + bull_number(job, BULL_STALLED_COUNTER);
}

int64_t bull_large_bytes(const bull_job_t *job) {
    return strncmp(job->state, "large ", 6) == 0 ? strtoll(job->state + 6, NULL, 10) : 0;
}

void bull_error(const bull_job_t *job, buffer_t *out) {
    slice_t reason = slice_cut(job->fields[BULL_FAILED_REASON], ERROR_MAX);
    buffer_t stack = {0};
    buffer_add(out, reason.data, reason.len);
    // A stall leaves no stack. The last stack belongs to an earlier failure.
    bool stalled = slice_is(reason, BULL_STALLED_REASON);
    if (!stalled && out->len < ERROR_MAX && json_decode(stack_last(job->fields[BULL_STACKTRACE]), &stack) && stack.len) {
        buffer_str(out, "\n");
        buffer_add(out, stack.data, slice_cut((slice_t){stack.data, stack.len}, ERROR_MAX - out->len).len);
    }
    buffer_free(&stack);
}

// The event id has the failure's time as `life`, so each failure is an event of its own. A score that is no date counts as 0.
static int64_t record_life(double finished_ms) {
    return isfinite(finished_ms) && fabs(finished_ms) < 9e15 ? (int64_t)(finished_ms * 1000) : 0;
}

void bull_record_make(bull_record_t *record, const call_t *call, const bull_job_t *job, const char *reason) {
    bull_error(job, &record->error);
    record->event = (event_t){
        .kind = slice_text("failed"),
        .dialect = slice_text("bull"),
        .queue = slice_text(call_queue(call)->config->name),
        .job = slice_cut(job->id, MAX_JOB_ID),
        .type = slice_cut(job->fields[BULL_NAME], MAX_JOB_TYPE),
        .reason = slice_text(reason),
        .error = {record->error.data, record->error.len},
        .term = slice_text(call->token),
        .group = slice_text(call->keys->config->group),
        .attempts = bull_attempts(job),
        .created = bull_number(job, BULL_TIMESTAMP),
        .started = bull_number(job, BULL_PROCESSED_ON),
        .size = bull_large_bytes(job),
    };
    if (*job->state == '\0') {
        bull_payload(job, &record->payload);
        digest_t digest = digest_of(record->payload.data, record->payload.len);
        digest_hex(&digest, record->sha256);
        record->event.payload = (slice_t){record->payload.data, record->payload.len};
        record->event.sha256 = slice_text(record->sha256);
        record->event.size = (int64_t)record->payload.len;
    }
}

void bull_record_date(bull_record_t *record, double finished_ms) {
    event_id(&record->event, record_life(finished_ms), 0, record->id);
}

void bull_record_free(bull_record_t *record) {
    buffer_free(&record->payload);
    buffer_free(&record->error);
}
