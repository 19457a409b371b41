#include "cli/audit/event_table.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/terminal.h"

// Cut a long reason, or it would crowd out the error.
static size_t event_reason_width(FILE *out) {
    enum { ROOMY = 96, LONGEST = 17, BEGINNING = 8 };
    return terminal_columns(out) < ROOMY ? BEGINNING : LONGEST;
}

void event_table_begin(event_table_t *table, const event_column_t *columns, size_t count, unsigned hidden, FILE *out) {
    char zone[TIME_TEXT_SIZE];
    time_zone_name(time_now_ms(), table->utc, zone);
    for (size_t i = 0; i < count; i++) {
        if (hidden & (1U << columns[i].cell)) continue;
        table_column_t *look = &table->columns[table->count];
        table->cells[table->count++] = columns[i].cell;
        *look = columns[i].look;
        if (columns[i].cell == CELL_TIME && strcmp(look->title, "AT") == 0) {
            snprintf(table->time_title, sizeof table->time_title, "%sAT (%s)", table->failures ? "FAILED " : "", zone);
            look->title = table->time_title;
        } else if (columns[i].cell == CELL_REASON && table->narrow && !look->max_width) {
            look->max_width = event_reason_width(out);
            if (look->initial_width) look->initial_width = look->max_width;
        }
    }
    table->table = table_begin(table->columns, table->count, out);
}

static void event_add_by(buffer_t *out, slice_t who, slice_t reason) {
    buffer_printf(out, " by %.*s%s%.*s", (int)who.len, who.data, reason.len ? ": " : "", (int)reason.len, reason.data);
}

// "failed", or "requeued 2026-11-21 12:05:03 by ann@host: the relay is back". An answer itself is "requeued by ann@host"; its
// reason has a column of its own in a wide table.
static void event_add_state(buffer_t *out, const event_table_t *table, const audit_row_t *row) {
    char time[TIME_TEXT_SIZE];
    const event_t *event = &row->event;
    slice_t state = row->state.len ? row->state : event->kind;
    buffer_add(out, state.data, state.len);
    if (slice_is(event->kind, "requeued") || slice_is(event->kind, "discarded"))
        event_add_by(out, event->worker, table->narrow ? event->reason : (slice_t){0});
    if (!row->answered_at) return;
    time_format(row->answered_at, table->utc, time);
    if (table->narrow) time_shorten(time);
    buffer_printf(out, " %s", time);
    event_add_by(out, row->answered_by, row->answer_reason);
}

static void event_add_summary(buffer_t *out, const event_table_t *table, const audit_row_t *row, slice_t what) {
    bool failed = slice_is(row->state, "failed");
    if (!failed) event_add_state(out, table, row);
    if (!failed && row->answered_at) return;
    if (!failed && what.len) buffer_str(out, ": ");
    buffer_add(out, what.data, what.len);
}

// Borrowed from the row, or from `out`, which comes empty.
static slice_t event_cell_text(buffer_t *out, const event_table_t *table, event_cell_t cell, const audit_row_t *row) {
    const event_t *event = &row->event;
    char time[TIME_TEXT_SIZE];
    slice_t what = event->error.len ? event->error : event->payload;
    switch (cell) {
    case CELL_MARK: return slice_text(slice_equal(event->event, table->marked) ? "*" : "");
    case CELL_REF: return row->ref;
    case CELL_QUEUE: return event->queue;
    case CELL_KIND: return event->kind;
    case CELL_REASON: return event->reason;
    case CELL_WORKER: return event->worker;
    case CELL_JOB: return event->job;
    case CELL_ERROR: return event->error;
    case CELL_ERROR_OR_PAYLOAD: return what;
    case CELL_TIME:
        time_format(event->at, table->utc, time);
        if (table->narrow) time_shorten(time);
        buffer_str(out, time);
        break;
    case CELL_STATE: event_add_state(out, table, row); break;
    case CELL_SUMMARY: event_add_summary(out, table, row, what); break;
    case CELL_TRIES:
        if (event->attempts) buffer_printf(out, "%" PRId64, event->attempts);
    }
    return (slice_t){buffer_text(out), out->len};
}

void event_table_add(event_table_t *table, const audit_row_t *row) {
    buffer_t text = {0};
    for (size_t i = 0; i < table->count; i++) {
        buffer_clear(&text);
        table_cell(table->table, event_cell_text(&text, table, table->cells[i], row));
    }
    buffer_free(&text);
}
