// Reads an exported event.
#include <stdio.h>

#include "base/json/json.h"
#include "base/json/walk.h"
#include "base/text/base64.h"
#include "cli/audit/event_output.h"
#include "cli/time_text.h"

enum { MAX_DIGITS = 20 };

typedef struct event_reader {
    slice_t values[EVENT_FIELDS]; // in `text`
    bool given[EVENT_FIELDS];
    buffer_t *text; // of all values
    buffer_t *why;
} event_reader_t;

static bool reader_fail(event_reader_t *reader, const char *name, const char *text) {
    buffer_printf(reader->why, "%s%s%s", name, *name ? " " : "", text);
    return false;
}

// Appends a decoded string to the text. It never moves: event_read_json has reserved room for the whole line.
static bool reader_decode(event_reader_t *reader, slice_t raw, slice_t *out) {
    size_t from = reader->text->len;
    if (!json_decode(raw, reader->text)) return reader_fail(reader, "", "holds a lone surrogate, which has no UTF-8");
    *out = (slice_t){buffer_text(reader->text) + from, reader->text->len - from};
    return true;
}

// *field = EVENT_FIELDS where the key is unknown.
static bool reader_take_key(event_reader_t *reader, slice_t raw, size_t *field) {
    slice_t key;
    size_t before = reader->text->len;
    if (!reader_decode(reader, raw, &key)) return false;
    for (*field = 0; *field < EVENT_FIELDS && !slice_is(key, event_fields[*field].name);) ++*field;
    reader->text->len = before;
    if (*field == EVENT_FIELDS) return true;
    if (reader->given[*field]) return reader_fail(reader, event_fields[*field].name, "is given twice");
    reader->given[*field] = true;
    return true;
}

// Null is an empty text.
static bool reader_take_value(event_reader_t *reader, slice_t token, size_t field) {
    slice_t ignored;
    json_value_t value = json_token_value(token);
    if (value.type == JSON_NULL) return true;
    if (value.type == JSON_BOOL) return reader_fail(reader, "", "has a value that is neither text nor number");
    return reader_decode(reader, value.raw, field < EVENT_FIELDS ? &reader->values[field] : &ignored);
}

static bool reader_scan(event_reader_t *reader, slice_t line) {
    json_walk_t scan;
    size_t field = EVENT_FIELDS;
    json_walk_begin(&scan, line);
    if (json_walk_next(&scan) != JSON_AT_OPEN || *scan.token.data != '{') return reader_fail(reader, "", "is not a JSON object");
    for (;;) {
        switch (json_walk_next(&scan)) {
        case JSON_AT_KEY:
            if (!reader_take_key(reader, json_unquoted(scan.token), &field)) return false;
            break;
        case JSON_AT_VALUE:
            if (!reader_take_value(reader, scan.token, field)) return false;
            break;
        case JSON_AT_OPEN: return reader_fail(reader, "", "has a value that is neither text nor number");
        case JSON_AT_CLOSE: break;
        case JSON_AT_END: return true;
        case JSON_AT_BAD: buffer_printf(reader->why, "is not valid JSON at byte %td", scan.at - line.data + 1); return false;
        }
    }
}

static bool reader_parse_time(slice_t text, int64_t *out) {
    char copy[TIME_TEXT_SIZE];
    *out = 0;
    if (text.len == 0) return true;
    if (text.len >= sizeof copy || memchr(text.data, '\0', text.len)) return false;
    snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.data);
    return time_parse_rfc3339(copy, out);
}

static bool reader_parse_number(slice_t text, int64_t *out) {
    event_t number = {0};
    if (text.len > MAX_DIGITS || (text.len && text.data[0] == '-')) return false;
    if (text.len && !event_set(&number, slice_text("size"), text)) return false;
    *out = number.size;
    return true;
}

// Bytes in base64 are decoded in place.
static bool reader_decode_bytes(event_reader_t *reader, slice_t encoding, slice_t *bytes) {
    if (slice_is(encoding, "text")) return true;
    if (!slice_is(encoding, "base64")) return false;
    return bytes->len == 0 || base64_decode(reader->text->data + (bytes->data - reader->text->data), &bytes->len);
}

static bool reader_set_field(event_reader_t *reader, size_t field, event_record_t *record) {
    void *to = (char *)record + event_fields[field].offset;
    slice_t value = reader->values[field];
    const char *name = event_fields[field].name;
    switch (event_fields[field].kind) {
    case FIELD_BYTES:
    case FIELD_TEXT: *(slice_t *)to = value; return true;
    case FIELD_ENCODING:
        to = (char *)record + event_fields[field - 1].offset;
        return !reader->given[field] || reader_decode_bytes(reader, value, to) ||
               reader_fail(reader, name, "does not fit the bytes");
    case FIELD_NUMBER: return reader_parse_number(value, to) || reader_fail(reader, name, "is not a number");
    case FIELD_TIME: return reader_parse_time(value, to) || reader_fail(reader, name, "is not a time");
    }
    return false;
}

bool event_read_json(slice_t line, buffer_t *text, event_t *event, buffer_t *why) {
    event_reader_t reader = {.text = text, .why = why};
    event_record_t record = {0};
    char ref[EVENT_REF_SIZE];
    buffer_clear(text);
    buffer_add(text, line.data, line.len); // reserves room: decoded values are never longer than their line
    buffer_clear(text);
    if (!reader_scan(&reader, line)) return false;
    for (size_t i = 0; i < EVENT_FIELDS; i++)
        if (!reader_set_field(&reader, i, &record)) return false;
    *event = record.row.event;
    if (event->event.len == 0 && slice_is(event->kind, EXPORT_END_KIND)) return true;
    if (!event_ref(event->event, ref)) return reader_fail(&reader, "event", "is not 64 hex digits");
    return record.row.ref.len == 0 || slice_is(record.row.ref, ref) ||
           reader_fail(&reader, "ref", "is not the ref of this event");
}
