#include "queue/record.h"

#include "base/log.h"
#include "model/job.h"

// The fields of a record, first the texts.
enum {
#define X(name, help) FIELD_##name,
    EVENT_TEXTS(X) FIELD_TEXTS,
    FIELD_LAST_TEXT = FIELD_TEXTS - 1,
    EVENT_NUMBERS(X)
#undef X
        FIELD_COUNT
};

static const struct {
    const char *name;
    size_t at; // offset in event_t
} FIELDS[FIELD_COUNT] = {
#define X(name, help) {#name, offsetof(event_t, name)},
    EVENT_TEXTS(X) EVENT_NUMBERS(X)
#undef X
};

enum {
    NUMBER_SIZE = 24,
    BY_SCRIPT = 1 << FIELD_error | 1 << FIELD_at, // fields that no request holds
};

static slice_t record_text(const event_t *event, int field) {
    return *(const slice_t *)(const void *)((const char *)event + FIELDS[field].at);
}
static int64_t record_number(const event_t *event, int field) {
    return *(const int64_t *)(const void *)((const char *)event + FIELDS[field].at);
}

static bool record_has(const event_t *event, int field) {
    return field < FIELD_TEXTS ? record_text(event, field).len > 0 : record_number(event, field) != 0;
}

static bool record_equal(const event_t *a, const event_t *b, int field) {
    if (field < FIELD_TEXTS) return slice_equal(record_text(a, field), record_text(b, field));
    return record_number(a, field) == record_number(b, field);
}

// The value of a field; an empty one = the record does not have the field. A number is written to `number`.
static slice_t record_value(const event_t *event, int field, char number[NUMBER_SIZE]) {
    if (field < FIELD_TEXTS) return record_text(event, field);
    if (!record_has(event, field)) return (slice_t){0};
    snprintf(number, NUMBER_SIZE, "%" PRId64, record_number(event, field));
    return slice_text(number);
}

static uint32_t record_fields(const event_t *event) {
    uint32_t fields = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (record_has(event, i)) fields |= 1U << i;
    return fields & ~(uint32_t)BY_SCRIPT;
}

static void record_append_fields(conn_t *conn, const event_t *event, uint32_t fields) {
    char number[NUMBER_SIZE];
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!(fields & 1U << i)) continue;
        slice_t value = record_value(event, i, number);
        request_text(conn, FIELDS[i].name);
        request_bytes(conn, value.data, value.len);
    }
}

void record_append(conn_t *conn, const event_t *event) { record_append_fields(conn, event, record_fields(event)); }

void record_form_add(record_form_t *form, const event_t *first, const event_t *event) {
    uint32_t fields = record_fields(event) & ~((uint32_t)form->no_payload << FIELD_payload),
             all = form->shared | form->own | fields;
    if (event == first) form->shared = fields;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (form->shared & 1U << i && !record_equal(first, event, i)) form->shared &= ~(1U << i);
    form->own = all & ~form->shared;
}

void record_append_form(conn_t *conn, const record_form_t *form, const event_t *first) {
    request_int(conn, 2 * (int64_t)__builtin_popcount(form->shared));
    if (form->shared) record_append_fields(conn, first, form->shared);
    request_int(conn, __builtin_popcount(form->own));
    for (int i = 0; i < FIELD_COUNT; i++)
        if (form->own & 1U << i) request_text(conn, FIELDS[i].name);
}

void record_append_values(conn_t *conn, const record_form_t *form, const event_t *event) {
    char number[NUMBER_SIZE];
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!(form->own & 1U << i)) continue;
        slice_t value = record_value(event, i, number);
        request_bytes(conn, value.data, value.len);
    }
}

size_t record_bytes(const event_t *event) {
    char number[NUMBER_SIZE];
    uint32_t fields = record_fields(event);
    size_t bytes = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (fields & 1U << i) bytes += record_value(event, i, number).len;
    return bytes;
}

void record_log_failure(const char *role, const char *queue, const event_t *event) {
    char ref[EVENT_REF_SIZE];
    if (!event_ref(event->event, ref)) *ref = '\0';
    log_warn(role, queue, "a job has failed for good", F_STR("ref", ref), F_SLICE("reason", event->reason),
             F_SLICE("job", slice_cut(event->job, MAX_JOB_ID)), F_SLICE("type", slice_cut(event->type, MAX_JOB_TYPE)),
             F_INT("attempts", event->attempts));
}
