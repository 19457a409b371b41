#include "dialects/hash_job.h"

#include "base/json/json.h"
#include "base/text/base64.h"
#include "base/utf8.h"
#include "redis/reply.h"

enum { ERROR_MAX = 64 * 1024 };

// The id is the first member of a payload.
static const hash_field_t id_member = HASH_FIELD("id", HASH_TEXT);

bool hash_job_at(const hash_fields_t *table, const redisReply *page, size_t index, size_t head, hash_job_t *out) {
    size_t at = HASH_PAGE_HEAD + index * (head + table->count);
    if (page->type != REDIS_REPLY_ARRAY || at + head + table->count > page->elements) return false;
    out->id = reply_slice(page->element[at]);
    out->score = head == HASH_SCORED ? reply_slice(page->element[at + 1]) : (slice_t){0};
    out->state = reply_text(page->element[at + head - 1]);
    for (size_t i = 0; i < table->count; i++) out->fields[i] = reply_slice(page->element[at + head + i]);
    return true;
}

int64_t hash_job_large_bytes(const hash_job_t *job) {
    return strncmp(job->state, "large ", 6) == 0 ? strtoll(job->state + 6, NULL, 10) : 0;
}

int64_t hash_job_number(slice_t field) {
    int64_t number;
    if (!json_integer(field, &number)) return 0;
    return number >= 0 && number <= (int64_t)1 << 53 ? number : 0;
}

bool hash_job_option(slice_t opts, const char *pointer) {
    json_pick_t option = {.pointer = pointer};
    if (!json_pick(opts, &option, 1) || option.found != JSON_FOUND) return false;
    switch (option.value.type) {
    case JSON_STRING: return option.value.raw.len > 0;
    case JSON_NUMBER: return strtod(option.value.raw.data, NULL) != 0; // a bracket or comma of the object ends it
    case JSON_BOOL: return slice_is(option.value.raw, "true");
    case JSON_NULL: return false;
    default: return true;
    }
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

void hash_job_error(slice_t reason, slice_t stacks, buffer_t *out) {
    slice_t text = slice_cut(reason, ERROR_MAX);
    buffer_t stack = {0};
    buffer_add(out, text.data, text.len);
    if (out->len < ERROR_MAX && json_decode(stack_last(stacks), &stack) && stack.len) {
        buffer_str(out, "\n");
        buffer_add(out, stack.data, slice_cut((slice_t){stack.data, stack.len}, ERROR_MAX - out->len).len);
    }
    buffer_free(&stack);
}

// ---- The payload.

static void payload_add_member(buffer_t *out, const hash_field_t *member, slice_t value) {
    bool plain = member->content == HASH_JSON ? text_is_json(value) : utf8_is_valid(value.data, value.len);
    buffer_str(out, out->data[out->len - 1] == '{' ? "\"" : ",\"");
    buffer_str(out, (plain ? member->plain : member->coded) + 1);
    buffer_str(out, "\":");
    if (!plain) {
        buffer_str(out, "\"");
        base64_encode(out, value);
        buffer_str(out, "\"");
    } else if (member->content == HASH_TEXT) {
        json_write_string(out, value);
    } else {
        buffer_add(out, value.data, value.len);
    }
}

void hash_job_payload(const hash_fields_t *table, const hash_job_t *job, buffer_t *out) {
    buffer_str(out, "{");
    payload_add_member(out, &id_member, job->id);
    for (size_t i = 0; i < table->kept; i++)
        if (job->fields[i].len) payload_add_member(out, &table->all[i], job->fields[i]);
    buffer_str(out, "}");
}

static bool payload_read_member(const hash_field_t *member, const json_pick_t *plain, const json_pick_t *coded, buffer_t *room,
                                slice_t *out) {
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
    } else if (member->content == HASH_JSON) {
        *out = (slice_t){raw.data - quote, raw.len + 2 * quote};
        return true;
    } else if (!quote || !json_decode(raw, room)) {
        return false;
    }
    *out = (slice_t){room->data + from, room->len - from};
    return true;
}

// Member `index` of a payload.
static const hash_field_t *payload_member(const hash_fields_t *table, size_t index) {
    return index ? &table->all[index - 1] : &id_member;
}

// Reads the members from `first` on, at most JSON_MAX_PICKS.
static bool payload_read_members(const hash_fields_t *table, size_t first, size_t count, slice_t payload, hash_job_t *out,
                                 buffer_t *room) {
    json_pick_t plain[JSON_MAX_PICKS], coded[JSON_MAX_PICKS];
    for (size_t i = 0; i < count; i++) {
        plain[i] = (json_pick_t){.pointer = payload_member(table, first + i)->plain};
        coded[i] = (json_pick_t){.pointer = payload_member(table, first + i)->coded};
    }
    if (!json_pick(payload, plain, count) || !json_pick(payload, coded, count)) return false;
    for (size_t i = 0; i < count; i++) {
        slice_t *value = first + i ? &out->fields[first + i - 1] : &out->id;
        if (!payload_read_member(payload_member(table, first + i), &plain[i], &coded[i], room, value)) return false;
    }
    return true;
}

bool hash_job_rebuild(const hash_fields_t *table, slice_t payload, hash_job_t *out, buffer_t *room) {
    *out = (hash_job_t){0};
    // Decoded values are no longer than the payload. Make room for all of them first, because the job borrows from it.
    buffer_clear(room);
    buffer_add(room, payload.data, payload.len);
    buffer_clear(room);
    for (size_t first = 0; first <= table->kept; first += JSON_MAX_PICKS) {
        size_t left = table->kept + 1 - first;
        if (!payload_read_members(table, first, left < JSON_MAX_PICKS ? left : JSON_MAX_PICKS, payload, out, room)) return false;
    }
    return out->id.len && out->fields[table->name].len;
}

void hash_job_append(conn_t *conn, const hash_fields_t *table, const hash_job_t *job) {
    int64_t words = 0;
    for (size_t i = 0; i < table->kept; i++) words += job->fields[i].len ? 2 : 0;
    request_int(conn, words);
    for (size_t i = 0; i < table->kept; i++) {
        if (!job->fields[i].len) continue;
        request_text(conn, table->names[i]);
        request_bytes(conn, job->fields[i].data, job->fields[i].len);
    }
}
