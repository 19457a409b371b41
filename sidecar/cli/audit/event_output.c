#include "cli/audit/event_output.h"

#include "cli/terminal.h"

// The width of a reason in a narrow table; a whole one would leave no room for the error.
static size_t event_reason_width(FILE *out) {
    enum { ROOMY = 96, LONGEST = 17, BEGINNING = 8 };
    return terminal_columns(out) < ROOMY ? BEGINNING : LONGEST;
}

static void event_add_column(event_output_t *output, const event_column_t *column, FILE *out) {
    event_width_t width = output->narrow ? column->narrow : column->wide;
    const char *title = column->title;
    if (column->cell == CELL_TIME && strcmp(title, "AT") == 0) {
        snprintf(output->time_title, sizeof output->time_title, "%sAT (%s)", output->failures ? "FAILED " : "",
                 time_zone(time_now_ms(), output->utc).text);
        title = output->time_title;
    } else if (column->cell == CELL_REASON && output->narrow && !width.max) {
        width.max = event_reason_width(out);
        if (width.initial) width.initial = width.max;
    }
    output->columns[output->count] = (table_column_t){.title = title,
                                                      .min_width = width.min,
                                                      .max_width = width.max,
                                                      .initial_width = width.initial,
                                                      .align_right = column->cell == CELL_TRIES};
    output->cells[output->count++] = column->cell;
}

void event_output_begin(event_output_t *output, const event_column_t *columns, size_t count, unsigned same, FILE *out) {
    if (output->format != FORMAT_TABLE) {
        records_begin(&output->records, output->format, event_fields, EVENT_FIELDS);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool left_out = columns[i].layout == (output->narrow ? ONLY_WIDE : ONLY_NARROW);
        if (!left_out && !(output->narrow && same & (1U << columns[i].cell))) event_add_column(output, &columns[i], out);
    }
    output->table = table_begin(output->columns, output->count, terminal_columns(out), out);
}

static void event_add_time(buffer_t *out, const event_output_t *output, int64_t ms) {
    buffer_str(out, time_text(ms, output->utc, output->narrow ? TIME_SHORT : TIME_SECONDS).text);
}

void event_add_tries(buffer_t *out, const event_t *event) {
    if (event->attempts)
        buffer_printf(out, "%" PRId64, event->attempts);
    else
        buffer_str(out, "-");
}

static void event_add_by(buffer_t *out, slice_t who, slice_t reason) {
    buffer_printf(out, " by %.*s%s%.*s", (int)who.len, who.data, reason.len ? ": " : "", (int)reason.len, reason.data);
}

// Adds "failed", or "requeued 2026-11-21 12:05:03 by ann@host: the relay is back". For an event that is an answer adds
// "requeued by ann@host"; in a wide table its reason has a column of its own.
static void event_add_state(buffer_t *out, const event_output_t *output, const audit_row_t *row) {
    const event_t *event = &row->event;
    slice_t state = row->state.len ? row->state : event->kind;
    buffer_add(out, state.data, state.len);
    if (event_is_answer(event)) event_add_by(out, event->worker, output->narrow ? event->reason : (slice_t){0});
    if (!row->answered_at) return;
    buffer_str(out, " ");
    event_add_time(out, output, row->answered_at);
    event_add_by(out, row->answered_by, row->answer_reason);
}

// Adds "erased 2026-11-21 12:05:03 by ann@host: asked for by letter".
static void event_add_erasure(buffer_t *out, const event_output_t *output, const audit_row_t *row) {
    buffer_str(out, "erased ");
    event_add_time(out, output, row->erased_at);
    event_add_by(out, row->erased_by, row->erase_reason);
}

static void event_add_summary(buffer_t *out, const event_output_t *output, const audit_row_t *row, slice_t what) {
    bool failed = slice_is(row->state, "failed");
    if (!failed) event_add_state(out, output, row);
    if (!failed && row->answered_at) return;
    if (!failed && what.len) buffer_str(out, ": ");
    if (row->erased_at)
        event_add_erasure(out, output, row);
    else
        buffer_add(out, what.data, what.len);
}

static void event_add_queue(buffer_t *out, const event_output_t *output, const event_t *event) {
    bool other = output->group && event->group.len && !slice_is(event->group, output->group);
    if (other) buffer_printf(out, "%.*s/", (int)event->group.len, event->group.data);
    buffer_add(out, event->queue.data, event->queue.len);
}

// Returns the text of a cell, borrowed from the row or from `out`, which must be empty.
static slice_t event_cell_text(buffer_t *out, const event_output_t *output, event_cell_t cell, const audit_row_t *row) {
    const event_t *event = &row->event;
    slice_t what = event->error.len ? event->error : event->payload;
    switch (cell) {
    case CELL_MARK: return slice_text(slice_equal(event->event, output->marked) ? "*" : "");
    case CELL_REF: return row->ref;
    case CELL_QUEUE: event_add_queue(out, output, event); break;
    case CELL_KIND: return event->kind;
    case CELL_REASON: return event->reason;
    case CELL_WORKER: return event->worker;
    case CELL_JOB: return event->job;
    case CELL_ERROR: return event->error;
    case CELL_ERROR_OR_PAYLOAD:
        if (!row->erased_at) return what;
        event_add_erasure(out, output, row);
        break;
    case CELL_TIME: event_add_time(out, output, event->at); break;
    case CELL_STATE: event_add_state(out, output, row); break;
    case CELL_SUMMARY: event_add_summary(out, output, row, what); break;
    case CELL_TRIES: event_add_tries(out, event);
    }
    return (slice_t){buffer_text(out), out->len};
}

static void event_add_cells(event_output_t *output, const audit_row_t *row) {
    buffer_t text = {0};
    for (size_t i = 0; i < output->count; i++) {
        buffer_clear(&text);
        table_cell(output->table, event_cell_text(&text, output, output->cells[i], row));
    }
    buffer_free(&text);
}

void event_output_add(event_output_t *output, const audit_row_t *row) {
    const event_record_t record = event_record(row);
    if (output->table)
        event_add_cells(output, row);
    else
        records_add(&output->records, &record);
}

bool event_output_print(event_output_t *output) {
    return terminal_print(&output->records.text, output->out ? output->out : stdout);
}

void event_output_end(event_output_t *output) {
    if (output->table) {
        table_end(output->table);
        return;
    }
    records_end(&output->records);
    event_output_print(output);
}
