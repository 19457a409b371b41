// An event as JSON and as CSV.
#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "cli/audit/audit.h"
#include "cli/audit/fields.h"
#include "cli/encode.h"
#include "cli/when.h"

const audit_field_t audit_fields[AUDIT_FIELDS] = {
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
#undef FIELD
};

static bool is_text(const audit_row_t *row, slice_t bytes) {
    return bytes.data == row->event.payload.data ? row->payload_is_text : row->error_is_text;
}

// The plain text of a field; "" where it is not known.
static void add_text(buffer_t *out, const audit_row_t *row, size_t field) {
    const void *at = (const char *)row + audit_fields[field].offset;
    char time[WHEN_SIZE];
    switch (audit_fields[field].kind) {
    case FIELD_BYTES:
        if (!is_text(row, *(const slice_t *)at)) {
            base64_encode(out, *(const slice_t *)at);
            return;
        } // fall through
    case FIELD_TEXT: buffer_add(out, ((const slice_t *)at)->data, ((const slice_t *)at)->len); return;
    case FIELD_NUMBER: buffer_printf(out, "%" PRId64, *(const int64_t *)at); return;
    case FIELD_FAILED_AT:
        if (!slice_is(row->event.kind, "failed")) return; // fall through
    case FIELD_TIME:
        if (*(const int64_t *)at == 0) return;
        when_rfc3339(*(const int64_t *)at, time);
        buffer_str(out, time);
        return;
    }
}

static const char *encoding(const audit_row_t *row, size_t field) {
    return is_text(row, *(const slice_t *)(const void *)((const char *)row + audit_fields[field].offset)) ? "text" : "base64";
}

static bool is_time(size_t field) {
    return audit_fields[field].kind == FIELD_TIME || audit_fields[field].kind == FIELD_FAILED_AT;
}

void audit_row_json(buffer_t *out, const audit_row_t *row) {
    buffer_t text = {0};
    for (size_t i = 0; i < AUDIT_FIELDS; i++) {
        buffer_clear(&text);
        add_text(&text, row, i);
        buffer_printf(out, "%s\"%s\":", i ? "," : "{", audit_fields[i].name);
        if (audit_fields[i].kind == FIELD_NUMBER)
            buffer_str(out, buffer_text(&text));
        else if (is_time(i) && text.len == 0)
            buffer_str(out, "null");
        else
            encode_json(out, (slice_t){buffer_text(&text), text.len});
        if (audit_fields[i].kind == FIELD_BYTES)
            buffer_printf(out, ",\"%s_encoding\":\"%s\"", audit_fields[i].name, encoding(row, i));
    }
    buffer_str(out, "}");
    buffer_free(&text);
}

void audit_row_csv(buffer_t *out, const audit_row_t *row) {
    buffer_t text = {0};
    for (size_t i = 0; i < AUDIT_FIELDS; i++) {
        buffer_clear(&text);
        add_text(&text, row, i);
        if (i) buffer_str(out, ",");
        encode_csv(out, (slice_t){buffer_text(&text), text.len});
        if (audit_fields[i].kind == FIELD_BYTES) buffer_printf(out, ",%s", encoding(row, i));
    }
    buffer_free(&text);
}

void audit_csv_titles(buffer_t *out) {
    for (size_t i = 0; i < AUDIT_FIELDS; i++) {
        buffer_printf(out, "%s%s", i ? "," : "", audit_fields[i].name);
        if (audit_fields[i].kind == FIELD_BYTES) buffer_printf(out, ",%s_encoding", audit_fields[i].name);
    }
}
