// Writes events; reads exports: lines, and the event in each.
#include "operate/events/event_json.h"

#include "base/json/json.h"
#include "base/json/walk.h"
#include "base/text/base64.h"
#include "base/text/time_text.h"

const field_t event_fields[EVENT_HEAD_FIELDS] = {
    FIELD("ref", TEXT, event_record_t, row.ref),
    FIELD("queue", TEXT, event_record_t, row.event.queue),
    FIELD("dialect", TEXT, event_record_t, row.event.dialect),
    FIELD("job_id", TEXT, event_record_t, row.event.job),
    FIELD("type", TEXT, event_record_t, row.event.type),
    FIELD("worker", TEXT, event_record_t, row.event.worker),
    FIELD("reason", TEXT, event_record_t, row.event.reason),
    FIELD("error", BYTES, event_record_t, row.event.error),
    FIELD("error_encoding", ENCODING, event_record_t, row.error_is_text),
    FIELD("attempts", POSITIVE, event_record_t, row.event.attempts),
    FIELD("created_at", TIME, event_record_t, row.event.created),
    FIELD("started_at", TIME, event_record_t, row.event.started),
    FIELD("failed_at", TIME, event_record_t, failed_at),
    FIELD("state", TEXT, event_record_t, row.state),
    FIELD("kind", TEXT, event_record_t, row.event.kind),
    FIELD("at", TIME, event_record_t, row.event.at),
    FIELD("size", COUNT, event_record_t, row.event.size),
    FIELD("sha256", TEXT, event_record_t, row.event.sha256),
    FIELD("event", TEXT, event_record_t, row.event.event),
    FIELD("answers", TEXT, event_record_t, row.event.answers),
    FIELD("term", TEXT, event_record_t, row.event.term),
    FIELD("answered_at", TIME, event_record_t, row.answered_at),
    FIELD("answered_by", TEXT, event_record_t, row.answered_by),
    FIELD("answer_reason", TEXT, event_record_t, row.answer_reason),
    FIELD("payload", BYTES, event_record_t, row.event.payload),
    FIELD("payload_encoding", ENCODING, event_record_t, row.payload_is_text),
    FIELD("group", TEXT, event_record_t, row.event.group),
    FIELD("erased_at", TIME, event_record_t, row.erased_at),
    FIELD("erased_by", TEXT, event_record_t, row.erased_by),
    FIELD("erase_reason", TEXT, event_record_t, row.erase_reason),
    FIELD("traceparent", TEXT, event_record_t, row.event.traceparent),
    FIELD("payload_cut", FLAG, event_record_t, row.payload_cut),
};

event_record_t event_record(const audit_row_t *row) {
    return (event_record_t){.row = *row, .failed_at = slice_is(row->event.kind, "failed") ? row->event.at : 0};
}

void event_write_json(buffer_t *out, const audit_row_t *row) {
    const event_record_t record = event_record(row);
    record_write_json(out, event_fields, EVENT_FIELDS, &record);
}

// ---- Reading.

typedef struct event_reader {
    event_record_t record;
    bool given[EVENT_FIELDS];
    buffer_t *text; // of all values
    buffer_t *why;
} event_reader_t;

static bool reader_fail(event_reader_t *reader, const char *name, const char *text) {
    buffer_printf(reader->why, "%s%s%s", name, *name ? " " : "", text);
    return false;
}

// Appends a decoded string and a NUL byte to the text, which never moves: event_read_json has reserved room for the whole line.
static bool reader_decode(event_reader_t *reader, slice_t raw, slice_t *out) {
    size_t from = reader->text->len;
    if (!json_decode(raw, reader->text)) return reader_fail(reader, "", "holds a lone surrogate, which has no UTF-8");
    *out = (slice_t){buffer_text(reader->text) + from, reader->text->len - from};
    buffer_add(reader->text, "", 1);
    return true;
}

// *field = EVENT_FIELDS where the key is unknown.
static bool reader_read_key(event_reader_t *reader, slice_t raw, size_t *field) {
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

static bool reader_set_field(event_reader_t *reader, const field_t *field, slice_t value) {
    void *to = (char *)&reader->record + field->offset;
    int64_t *number = to;
    switch (field->kind) {
    case FIELD_BYTES:
    case FIELD_TEXT: *(slice_t *)to = value; return true;
    case FIELD_ENCODING:
        *(bool *)to = slice_is(value, "text");
        return *(bool *)to || slice_is(value, "base64") || reader_fail(reader, field->name, "is not text or base64");
    case FIELD_COUNT:
    case FIELD_POSITIVE:
    case FIELD_NUMBER:
        return value.len == 0 || (slice_integer(value, number) && *number >= 0) ||
               reader_fail(reader, field->name, "is not a number");
    case FIELD_TIME:
        return value.len == 0 || (strlen(value.data) == value.len && time_parse_rfc3339(value.data, number)) ||
               reader_fail(reader, field->name, "is not a time");
    case FIELD_FLAG: break; // events have none
    }
    return false;
}

// Reads null as an empty text.
static bool reader_read_value(event_reader_t *reader, slice_t token, size_t field) {
    json_value_t json = json_token_value(token);
    slice_t value = {0};
    if (json.type == JSON_BOOL) return reader_fail(reader, "", "has a value that is neither text nor number");
    if (json.type != JSON_NULL && !reader_decode(reader, json.raw, &value)) return false;
    return field == EVENT_FIELDS || reader_set_field(reader, &event_fields[field], value);
}

static bool reader_scan(event_reader_t *reader, slice_t line) {
    json_walk_t scan;
    size_t field = EVENT_FIELDS;
    json_walk_begin(&scan, line);
    if (json_walk_next(&scan) != JSON_AT_OPEN || *scan.token.data != '{') return reader_fail(reader, "", "is not a JSON object");
    for (;;) {
        switch (json_walk_next(&scan)) {
        case JSON_AT_KEY:
            if (!reader_read_key(reader, json_unquoted(scan.token), &field)) return false;
            break;
        case JSON_AT_VALUE:
            if (!reader_read_value(reader, scan.token, field)) return false;
            break;
        case JSON_AT_OPEN: return reader_fail(reader, "", "has a value that is neither text nor number");
        case JSON_AT_CLOSE: break;
        case JSON_AT_END: return true;
        case JSON_AT_BAD: buffer_printf(reader->why, "is not valid JSON at byte %td", scan.at - line.data + 1); return false;
        }
    }
}

// Decodes base64 in place. Call it after all members are read: the encoding may stand before or after the bytes.
static bool reader_decode_bytes(event_reader_t *reader) {
    for (size_t i = 1; i < EVENT_FIELDS; i++) {
        const bool *is_text = (const bool *)((char *)&reader->record + event_fields[i].offset);
        slice_t *bytes = (slice_t *)((char *)&reader->record + event_fields[i - 1].offset);
        if (event_fields[i].kind != FIELD_ENCODING || *is_text || bytes->len == 0) continue;
        char *text = reader->text->data + (bytes->data - reader->text->data);
        if (!base64_decode(text, &bytes->len)) return reader_fail(reader, event_fields[i].name, "is base64, the bytes are not");
    }
    return true;
}

bool event_read_json(slice_t line, buffer_t *text, event_t *event, buffer_t *why) {
    event_reader_t reader = {.text = text, .why = why, .record.row = {.error_is_text = true, .payload_is_text = true}};
    const audit_row_t *row = &reader.record.row;
    char ref[EVENT_REF_SIZE];
    buffer_clear(text);
    buffer_add(text, line.data, line.len); // reserves room: no value with its NUL byte is longer than its member
    buffer_clear(text);
    if (!reader_scan(&reader, line) || !reader_decode_bytes(&reader)) return false;
    *event = row->event;
    if (event->event.len == 0 && slice_is(event->kind, EXPORT_END_KIND)) return true;
    if (!event_ref(event->event, ref)) return reader_fail(&reader, "event", "is not 64 hex digits");
    return row->ref.len == 0 || slice_is(row->ref, ref) || reader_fail(&reader, "ref", "is not the ref of this event");
}

// ---- Lines.

static bool line_has_bom(slice_t line) {
    static const char mark[] = "\xef\xbb\xbf";
    return line.len >= sizeof mark - 1 && memcmp(line.data, mark, sizeof mark - 1) == 0;
}

// Whether the input is no export, so that a device or a stream without line ends is not read for ever.
static bool line_is_foreign(const line_reader_t *reader, int byte, size_t skipped) {
    enum { START_BYTES = 4096, ENDLESS = 8 };
    if (reader->number || (byte != '\0' && reader->buffer.len != START_BYTES)) return skipped / ENDLESS >= reader->max_bytes;
    const slice_t start = {buffer_text(&reader->buffer), reader->buffer.len};
    return start.data[line_has_bom(start) ? 3 : 0] != '{';
}

line_result_t line_reader_next(line_reader_t *reader, slice_t *line) {
    int byte;
    size_t skipped = 0;
    bool foreign = false;
    buffer_clear(&reader->buffer);
    while (!foreign && (byte = getc_unlocked(reader->in)) != EOF && byte != '\n') {
        foreign = line_is_foreign(reader, byte, skipped);
        if (reader->buffer.len == reader->max_bytes)
            skipped++;
        else
            buffer_add(&reader->buffer, &(char){(char)byte}, 1);
    }
    *line = (slice_t){buffer_text(&reader->buffer), reader->buffer.len};
    if (ferror(reader->in)) return LINE_FAILED;
    if (byte == EOF && line->len == 0) return LINE_END;
    if (++reader->number == 1 && line_has_bom(*line)) *line = (slice_t){line->data + 3, line->len - 3};
    if (foreign) return LINE_FOREIGN;
    if (skipped) return LINE_TOO_LONG;
    if (line->len && line->data[line->len - 1] == '\r') line->len--;
    return LINE_READ;
}
