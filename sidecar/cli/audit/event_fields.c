#include "cli/audit/event_fields.h"

#include <inttypes.h>

#include "base/base64.h"
#include "base/json/write.h"
#include "cli/terminal.h"
#include "cli/time_text.h"

const event_field_t event_fields[EVENT_FIELDS] = {
#define FIELD(name, kind, member)                                                                                                \
    { name, FIELD_##kind, offsetof(audit_row_t, member) }
    FIELD("ref", TEXT, ref),
    FIELD("queue", TEXT, event.queue),
    FIELD("dialect", TEXT, event.dialect),
    FIELD("job_id", TEXT, event.job),
    FIELD("type", TEXT, event.type),
    FIELD("worker", TEXT, event.worker),
    FIELD("reason", TEXT, event.reason),
    FIELD("error", BYTES, event.error),
    FIELD("error_encoding", ENCODING, event.error),
    FIELD("attempts", NUMBER, event.attempts),
    FIELD("created_at", TIME, event.created),
    FIELD("started_at", TIME, event.started),
    FIELD("failed_at", FAILED_AT, event.at),
    FIELD("state", TEXT, state),
    FIELD("kind", TEXT, event.kind),
    FIELD("at", TIME, event.at),
    FIELD("size", NUMBER, event.size),
    FIELD("sha256", TEXT, event.sha256),
    FIELD("event", TEXT, event.event),
    FIELD("answers", TEXT, event.answers),
    FIELD("term", TEXT, event.term),
    FIELD("answered_at", TIME, answered_at),
    FIELD("answered_by", TEXT, answered_by),
    FIELD("answer_reason", TEXT, answer_reason),
    FIELD("payload", BYTES, event.payload),
    FIELD("payload_encoding", ENCODING, event.payload),
#undef FIELD
};

static bool field_is_text(const audit_row_t *row, const event_field_t *field) {
    return field->offset == offsetof(audit_row_t, event.payload) ? row->payload_is_text : row->error_is_text;
}

static bool field_is_time(const event_field_t *field) { return field->kind == FIELD_TIME || field->kind == FIELD_FAILED_AT; }

// Appends nothing for a time that is unknown.
static void field_add_text(buffer_t *out, const audit_row_t *row, const event_field_t *field) {
    const void *value = (const char *)row + field->offset;
    char time[TIME_TEXT_SIZE];
    switch (field->kind) {
    case FIELD_BYTES:
        if (!field_is_text(row, field)) {
            base64_encode(out, *(const slice_t *)value);
            return;
        } // fall through
    case FIELD_TEXT: buffer_add(out, ((const slice_t *)value)->data, ((const slice_t *)value)->len); return;
    case FIELD_ENCODING: buffer_str(out, field_is_text(row, field) ? "text" : "base64"); return;
    case FIELD_NUMBER: buffer_printf(out, "%" PRId64, *(const int64_t *)value); return;
    case FIELD_FAILED_AT:
        if (!slice_is(row->event.kind, "failed")) return; // fall through
    case FIELD_TIME:
        if (*(const int64_t *)value == 0) return;
        time_format_rfc3339(*(const int64_t *)value, time);
        buffer_str(out, time);
        return;
    }
}

void event_write_json(buffer_t *out, const audit_row_t *row) {
    buffer_t text = {0};
    for (const event_field_t *field = event_fields; field < event_fields + EVENT_FIELDS; field++) {
        buffer_clear(&text);
        field_add_text(&text, row, field);
        buffer_printf(out, "%s\"%s\":", field > event_fields ? "," : "{", field->name);
        if (field->kind == FIELD_NUMBER)
            buffer_str(out, buffer_text(&text));
        else if (field_is_time(field) && text.len == 0)
            buffer_str(out, "null");
        else
            json_write_string(out, (slice_t){buffer_text(&text), text.len});
    }
    buffer_str(out, "}");
    buffer_free(&text);
}

void event_write_csv(buffer_t *out, const audit_row_t *row) {
    buffer_t text = {0};
    for (const event_field_t *field = event_fields; field < event_fields + EVENT_FIELDS; field++) {
        buffer_clear(&text);
        field_add_text(&text, row, field);
        if (field > event_fields) buffer_str(out, ",");
        csv_write_field(out, (slice_t){buffer_text(&text), text.len});
    }
    buffer_free(&text);
}

void event_write_csv_header(buffer_t *out) {
    for (size_t i = 0; i < EVENT_FIELDS; i++) buffer_printf(out, "%s%s", i ? "," : "", event_fields[i].name);
    buffer_str(out, "\r\n");
}
