// The payload of an entry: the value of its only field, or the JSON [["name","value"],...]. See README.md.
#include "dialects/stream/internal.h"

#include "base/json/walk.h"
#include "base/text/base64.h"
#include "base/utf8.h"

#define LIST_BEGINS "[[" // of every list of fields, and of no payload that is a value

slice_t stream_field(const stream_fields_t *fields, size_t index) {
    size_t from = index ? fields->ends[index - 1] : 0;
    return (slice_t){buffer_text(&fields->bytes) + from, fields->ends[index] - from};
}

void stream_fields_free(stream_fields_t *fields) {
    buffer_free(&fields->bytes);
    free(fields->ends);
    *fields = (stream_fields_t){0};
}

static void stream_fields_end_text(stream_fields_t *fields) {
    fields->ends = mem_grown(fields->ends, fields->count, sizeof *fields->ends);
    fields->ends[fields->count++] = fields->bytes.len;
}

bool stream_is_plain(slice_t value) {
    size_t len = sizeof LIST_BEGINS - 1;
    return value.len < len || memcmp(value.data, LIST_BEGINS, len) != 0;
}

// ---- Writing.

void stream_payload_begin(buffer_t *out) { buffer_str(out, "["); }

void stream_payload_add(buffer_t *out, size_t index, slice_t text) {
    buffer_str(out, index % 2 ? "," : index ? ",[" : "[");
    if (utf8_is_valid(text.data, text.len)) {
        json_write_string(out, text);
    } else {
        buffer_str(out, "{\"base64\":\"");
        base64_encode(out, text);
        buffer_str(out, "\"}");
    }
    if (index % 2) buffer_str(out, "]");
}

void stream_payload_end(buffer_t *out) { buffer_str(out, "]"); }

void stream_payload_deleted(buffer_t *out, const char *id) { buffer_printf(out, LIST_BEGINS "\"%s\"]]", id); }

// ---- Reading.

typedef struct reader {
    json_walk_t walk;
    stream_fields_t *out;
} reader_t;

static bool reader_decode(reader_t *reader) {
    if (*reader->walk.token.data != '"' || !json_decode(json_unquoted(reader->walk.token), &reader->out->bytes)) return false;
    stream_fields_end_text(reader->out);
    return true;
}

// Reads {"base64":"..."} behind its bracket.
static bool reader_read_base64(reader_t *reader) {
    buffer_t *bytes = &reader->out->bytes;
    size_t from = bytes->len;
    if (json_walk_next(&reader->walk) != JSON_AT_KEY || !slice_is(json_unquoted(reader->walk.token), "base64")) return false;
    if (json_walk_next(&reader->walk) != JSON_AT_VALUE || *reader->walk.token.data != '"') return false;
    if (!json_decode(json_unquoted(reader->walk.token), bytes)) return false;
    size_t len = bytes->len - from;
    if (len && !base64_decode(bytes->data + from, &len)) return false;
    bytes->len = from + len;
    stream_fields_end_text(reader->out);
    return json_walk_next(&reader->walk) == JSON_AT_CLOSE;
}

static bool reader_read_text(reader_t *reader) {
    json_event_t event = json_walk_next(&reader->walk);
    if (event == JSON_AT_VALUE) return reader_decode(reader);
    return event == JSON_AT_OPEN && *reader->walk.token.data == '{' && reader_read_base64(reader);
}

static bool reader_read_pair(reader_t *reader) {
    return *reader->walk.token.data == '[' && reader_read_text(reader) && reader_read_text(reader) &&
           json_walk_next(&reader->walk) == JSON_AT_CLOSE;
}

static bool reader_read_list(reader_t *reader) {
    json_event_t event = json_walk_next(&reader->walk);
    while (event == JSON_AT_OPEN && reader->walk.depth <= 2) {
        if (reader->walk.depth == 2 && !reader_read_pair(reader)) return false;
        event = json_walk_next(&reader->walk);
    }
    return event == JSON_AT_CLOSE && json_walk_next(&reader->walk) == JSON_AT_END;
}

bool stream_read_payload(slice_t payload, const char *field, stream_fields_t *out) {
    if (stream_is_plain(payload)) {
        buffer_str(&out->bytes, field);
        stream_fields_end_text(out);
        if (payload.len) buffer_add(&out->bytes, payload.data, payload.len);
        stream_fields_end_text(out);
        return true;
    }
    reader_t reader = {.out = out};
    json_walk_begin(&reader.walk, payload);
    return reader_read_list(&reader) && out->count > 0;
}

// The paths of the config look into the value of `field`. Of an entry without that field nothing is known but the digest.
void stream_read_job(const queue_config_t *queue, slice_t bytes, job_t *out) {
    stream_fields_t fields = {0};
    slice_t value = bytes;
    bool known = true;
    if (!stream_is_plain(bytes)) {
        known = stream_read_payload(bytes, stream_config(queue)->field, &fields);
        value = slice_text("");
        for (size_t i = 0; known && i + 1 < fields.count; i += 2)
            if (slice_is(stream_field(&fields, i), stream_config(queue)->field)) value = stream_field(&fields, i + 1);
    }
    job_read(&queue->policy, value, out);
    if (value.data != bytes.data) {
        char hex[DIGEST_HEX_SIZE];
        digest_hex(&out->digest, hex);
        bool has_id = strcmp(hex, out->id) != 0;
        out->digest = digest_of(bytes.data, bytes.len);
        if (!has_id) digest_hex(&out->digest, out->id);
    }
    if (!known) out->trouble = JOB_UNREADABLE;
    stream_fields_free(&fields);
}
