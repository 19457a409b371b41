// status for people: a row for each queue, and the findings.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/units.h"
#include "cli/status/lines.h"
#include "cli/table.h"
#include "cli/terminal.h"

enum {
    NAME_MAX_COLUMNS = 40,
    RETRIED_MIN_WIDTH = 88, // columns of a terminal that has room for RETRIED
    RECORDS_MIN_WIDTH = 100,
    ROWS_MIN = 3,
};

// ---- Queues.

__attribute__((format(printf, 2, 3))) static void text_cell(table_t *table, const char *format, ...) {
    char text[2 * sizeof(units_text_t)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_cell(table, slice_text(text));
}

// An unknown number: "?" if Redis refuses it, "-" if the dialect has none.
static void text_count_cell(table_t *table, int64_t number, bool error) {
    text_cell(table, "%s", number < 0 && !error ? "-" : count_text(number).text);
}

static void text_due_cell(table_t *table, const sizes_t *sizes) {
    int64_t late = sizes_overdue_ms(sizes);
    if (late > 0)
        text_cell(table, "%s late", duration_text(late).text);
    else if (sizes->next_due_ms >= 0 && sizes->next_due_ms != INT64_MAX)
        text_cell(table, "in %s", duration_text(sizes->next_due_ms - sizes->now_ms).text);
    else
        text_cell(table, sizes->next_due_ms == INT64_MAX ? "never" : "-");
}

static void text_oldest_cell(table_t *table, const sizes_t *sizes) {
    if (sizes->oldest_in_progress_ms < 0)
        text_cell(table, sizes->in_progress > 0 ? "?" : "-");
    else
        text_cell(table, "%s", duration_text(sizes->now_ms - sizes->oldest_in_progress_ms).text);
}

static void text_recent_cell(table_t *table, const status_recent_t *recent, int64_t number) {
    text_cell(table, "%s%s", count_text(number).text, recent->partial ? "+" : "");
}

static void text_audit_cell(table_t *table, const status_t *s, size_t queue) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    if (snapshot->uncopied_ms)
        text_cell(table, "%s late", duration_text(s->snapshot.now_ms - snapshot->uncopied_ms).text);
    else
        text_cell(table, *snapshot->error ? "?" : snapshot->stream.length ? "copied" : "-");
}

// The columns that a terminal of this width has room for.
static const struct {
    const char *title;
    size_t min_width; // of the terminal
} text_columns[] = {{"DELAYED", 0},     {"NEXT DUE", 0}, {"READY", 0},
                    {"IN PROGRESS", 0}, {"OLDEST", 0},   {"RETRIED", RETRIED_MIN_WIDTH},
                    {"FAILED", 0},      {"AUDIT", 0},    {"RECORDS", RECORDS_MIN_WIDTH}};

static bool text_has_room(const status_view_t *view, size_t min_width) { return view->width == 0 || view->width >= min_width; }

static void text_row(table_t *table, const status_t *s, size_t queue, const status_view_t *view) {
    const sizes_t *sizes = &s->sizes[queue];
    const status_recent_t *recent = &s->recent[queue];
    bool error = *sizes->error != '\0';
    table_cell(table, slice_text(s->keys->queues[queue].config->name));
    text_count_cell(table, sizes->delayed, error);
    text_due_cell(table, sizes);
    text_count_cell(table, sizes->ready, error);
    text_count_cell(table, sizes->in_progress, error);
    text_oldest_cell(table, sizes);
    if (text_has_room(view, RETRIED_MIN_WIDTH)) text_recent_cell(table, recent, recent->retried);
    text_recent_cell(table, recent, recent->failed);
    text_audit_cell(table, s, queue);
    if (text_has_room(view, RECORDS_MIN_WIDTH)) text_count_cell(table, sizes->records, error);
}

// Indices of the queues that are asked about, those of findings first where not all fit. Owned.
static size_t *text_choose_rows(const status_t *s, const status_findings_t *findings, const bool *wanted, size_t max_rows,
                                size_t *count) {
    size_t all = s->keys->queue_count, asked = 0;
    size_t *rows = mem_array(all + 1, sizeof *rows);
    bool *taken = mem_array(all, sizeof *taken);
    *count = 0;
    for (size_t i = 0; i < all; i++) asked += !wanted || wanted[i];
    for (size_t f = 0; asked > max_rows && f < findings->count; f++)
        for (size_t q = 0; q < findings->items[f].queue_count; q++) {
            size_t queue = findings->items[f].queues[q];
            if (!taken[queue]) rows[(*count)++] = queue;
            taken[queue] = true;
        }
    for (size_t i = 0; i < all; i++)
        if (!taken[i] && (!wanted || wanted[i])) rows[(*count)++] = i;
    free(taken);
    return rows;
}

static void text_queues(const status_t *s, const status_findings_t *findings, const status_view_t *view, size_t max_rows,
                        buffer_t *out) {
    table_column_t columns[TABLE_COLUMNS] = {{.title = "QUEUE", .min_width = 6, .max_width = 60}};
    size_t used = 1, size = 0, count;
    char *text = NULL;
    for (size_t i = 0; i < sizeof text_columns / sizeof *text_columns; i++)
        if (text_has_room(view, text_columns[i].min_width))
            columns[used++] = (table_column_t){.title = text_columns[i].title, .align_right = true};
    size_t *rows = text_choose_rows(s, findings, view->wanted, max_rows, &count);
    FILE *file = open_memstream(&text, &size);
    table_t *table = table_begin(columns, used, file);
    table_set_columns(table, view->width);
    size_t shown = count > max_rows ? max_rows - 1 : count;
    for (size_t i = 0; i < shown; i++) text_row(table, s, rows[i], view);
    table_end(table);
    if (shown < count) fprintf(file, "... and %zu queues more: use --queue NAME, or omit --watch\n", count - shown);
    fclose(file);
    lines_clip(out, text, view->width);
    free(text);
    free(rows);
}

// ---- Findings.

static void text_severity_count(size_t count, const char *what, const char **between, buffer_t *out) {
    if (count == 0) return;
    buffer_printf(out, "%s%zu %s%s", *between, count, what, count == 1 ? "" : "s");
    *between = ", ";
}

static void text_summary(const status_findings_t *findings, bool whole, buffer_t *out) {
    const char *between = "";
    if (findings->faults + findings->warnings == 0) {
        buffer_str(out, whole ? "all is well" : "nothing is wrong with these queues");
        between = "; ";
    }
    text_severity_count(findings->faults, "fault", &between, out);
    text_severity_count(findings->warnings, "warning", &between, out);
    text_severity_count(findings->notes, "note", &between, out);
    buffer_str(out, "\n");
}

// `queue "email": `, cut where it is long.
static void text_queue_names(const status_t *s, const status_finding_t *finding, buffer_t *out) {
    if (finding->queue_count == 0) return;
    buffer_t safe = {0};
    terminal_escape(&safe, slice_text(s->keys->queues[finding->queues[0]].config->name), false);
    slice_t name = {buffer_text(&safe), safe.len};
    bool cut = terminal_width(name) > NAME_MAX_COLUMNS;
    if (cut) name.len = terminal_fit(name, NAME_MAX_COLUMNS - 1);
    if (finding->queue_count > 1)
        buffer_printf(out, "%s queues, the worst is \"%.*s%s\": ", count_text((int64_t)finding->queue_count).text, (int)name.len,
                      name.data, cut ? "…" : "");
    else
        buffer_printf(out, "queue \"%.*s%s\": ", (int)name.len, name.data, cut ? "…" : "");
    buffer_free(&safe);
}

static void text_finding(const status_t *s, const status_finding_t *finding, const status_view_t *view, buffer_t *out) {
    static const char *const labels[] = {"note", "warning", "FAULT"}, *const colours[] = {"\x1b[36m", "\x1b[33m", "\x1b[1;31m"};
    const char *label = labels[finding->severity];
    buffer_t line = {0};
    text_queue_names(s, finding, &line);
    buffer_str(&line, finding->what);
    buffer_printf(out, "%s%s%s%*s", view->colour ? colours[finding->severity] : "", label, view->colour ? "\x1b[0m" : "",
                  (int)(LINES_INDENT - strlen(label)), "");
    lines_wrap(out, buffer_text(&line), LINES_INDENT, view);
    lines_labelled(out, "", finding->why, view);
    buffer_printf(out, "%*s-> ", LINES_INDENT, "");
    lines_wrap(out, finding->next, LINES_INDENT + strlen("-> "), view);
    buffer_free(&line);
}

static void text_findings(const status_t *s, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    static const char *const sources[] = {"which is not known", "from the audit log here", "from the failure streams"};
    if (s->reached) {
        char *line =
            mem_printf("%s the last hour, %s",
                       text_has_room(view, RETRIED_MIN_WIDTH) ? "RETRIED and FAILED count" : "FAILED counts", sources[s->source]);
        lines_wrap(out, line, 0, view);
        buffer_str(out, "\n");
        free(line);
    }
    text_summary(findings, view->wanted == NULL, out);
    for (size_t i = 0; i < findings->count; i++) {
        if (view->rows == 0) buffer_str(out, "\n"); // a screen has no lines to spare
        text_finding(s, &findings->items[i], view, out);
    }
}

void status_text(const status_t *status, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    buffer_t below = {0};
    text_findings(status, findings, view, &below);
    status_head(status, view, out);
    buffer_str(out, "\n");
    if (status->reached) {
        size_t used = lines_count(out) + 1 + lines_count(&below), max_rows = SIZE_MAX; // with the line of titles
        if (view->rows) max_rows = view->rows > used + ROWS_MIN ? view->rows - used : ROWS_MIN;
        text_queues(status, findings, view, max_rows, out);
    }
    buffer_add(out, buffer_text(&below), below.len);
    buffer_free(&below);
    if (view->rows) lines_cut(out, view->rows, view->width);
}
