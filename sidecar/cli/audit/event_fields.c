#include "cli/audit/event_fields.h"

const field_t event_fields[EVENT_FIELDS] = {
    FIELD("ref", TEXT, event_record_t, row.ref),
    FIELD("queue", TEXT, event_record_t, row.event.queue),
    FIELD("dialect", TEXT, event_record_t, row.event.dialect),
    FIELD("job_id", TEXT, event_record_t, row.event.job),
    FIELD("type", TEXT, event_record_t, row.event.type),
    FIELD("worker", TEXT, event_record_t, row.event.worker),
    FIELD("reason", TEXT, event_record_t, row.event.reason),
    FIELD("error", BYTES, event_record_t, row.event.error),
    FIELD("error_encoding", ENCODING, event_record_t, row.error_is_text),
    FIELD("attempts", NUMBER, event_record_t, row.event.attempts),
    FIELD("created_at", TIME, event_record_t, row.event.created),
    FIELD("started_at", TIME, event_record_t, row.event.started),
    FIELD("failed_at", TIME, event_record_t, failed_at),
    FIELD("state", TEXT, event_record_t, row.state),
    FIELD("kind", TEXT, event_record_t, row.event.kind),
    FIELD("at", TIME, event_record_t, row.event.at),
    FIELD("size", NUMBER, event_record_t, row.event.size),
    FIELD("sha256", TEXT, event_record_t, row.event.sha256),
    FIELD("event", TEXT, event_record_t, row.event.event),
    FIELD("answers", TEXT, event_record_t, row.event.answers),
    FIELD("term", TEXT, event_record_t, row.event.term),
    FIELD("answered_at", TIME, event_record_t, row.answered_at),
    FIELD("answered_by", TEXT, event_record_t, row.answered_by),
    FIELD("answer_reason", TEXT, event_record_t, row.answer_reason),
    FIELD("payload", BYTES, event_record_t, row.event.payload),
    FIELD("payload_encoding", ENCODING, event_record_t, row.payload_is_text),
};

static event_record_t event_record(const audit_row_t *row) {
    return (event_record_t){.row = *row, .failed_at = slice_is(row->event.kind, "failed") ? row->event.at : 0};
}

records_t event_records(audit_format_t format) {
    return (records_t){.format = format, .fields = event_fields, .field_count = EVENT_FIELDS};
}

void event_records_add(records_t *records, const audit_row_t *row) {
    const event_record_t record = event_record(row);
    records_add(records, &record);
}

void event_write_json(buffer_t *out, const audit_row_t *row) {
    const event_record_t record = event_record(row);
    record_write_json(out, event_fields, EVENT_FIELDS, &record);
}
