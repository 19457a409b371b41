// status for people: who leads, a row for each queue, and what is wrong, in the width that there is.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/status/checks.h"
#include "cli/status/status.h"
#include "cli/status/units.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/time_text.h"
#include "queue/lock.h"

enum {
    INDENT = 9,
    NAME_MAX_COLUMNS = 40,
    LEADERS_MAX = 3,
    STANDBYS_MAX = 4,
    RECORDS_MIN_WIDTH = 100, // columns from which on RECORDS are shown
    RETRIED_MIN_WIDTH = 88,  // and RETRIED
    ROWS_MIN = 3,
    TERM_DIGITS = 8
};

// ---- Lines.

static void text_indent(buffer_t *out, size_t count) {
    while (count--) buffer_str(out, " ");
}

// Appends text, made safe for a terminal and broken into lines; its first word stands in column `indent`, as the other lines
// begin. A word that is longer than a line is left whole, as people copy it, but for a screen, which has no room for what is
// wider.
static void text_wrap(buffer_t *out, const char *text, size_t indent, const status_view_t *view) {
    buffer_t safe = {0};
    terminal_escape(&safe, slice_text(text), false);
    size_t at = indent;
    for (const char *word = buffer_text(&safe); *word;) {
        size_t len = strcspn(word, " "), wide = terminal_width((slice_t){word, len});
        if (at > indent && at + 1 + wide > view->width) {
            buffer_str(out, "\n");
            text_indent(out, at = indent);
        } else if (at > indent) {
            buffer_str(out, " ");
            at++;
        }
        if (view->rows && at + wide > view->width && view->width > indent + 1) {
            len = terminal_fit((slice_t){word, len}, view->width - at); // the rest is the next word
            wide = terminal_width((slice_t){word, len});
        }
        buffer_add(out, word, len);
        at += wide;
        word += len;
        while (*word == ' ') word++;
    }
    buffer_str(out, "\n");
    buffer_free(&safe);
}

// How much of a line that is too wide is shown before the sign that it goes on: whole words, for half a number is another one.
static size_t text_fitting(slice_t line, size_t width) {
    size_t fits = terminal_fit(line, width - 1), at = fits;
    while (at > 0 && line.data[at] != ' ' && line.data[at - 1] != ' ') at--;
    return at > 0 ? at : fits;
}

// Lines that are no sentences, cut where they are too wide.
static void text_clip(buffer_t *out, const char *text, size_t width) {
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        slice_t line = {text, len};
        bool whole = width == 0 || terminal_width(line) <= width;
        buffer_add(out, text, whole ? len : text_fitting(line, width));
        buffer_str(out, whole ? "\n" : "\u2026\n");
    }
}

static size_t text_count_lines(const buffer_t *text) {
    size_t lines = 0;
    for (const char *at = buffer_text(text); (at = strchr(at, '\n')); at++) lines++;
    return lines;
}

// ---- The head: where, when, who leads.

static void text_leader(const overview_lock_t *lock, int64_t now_ms, buffer_t *line) {
    char span[UNITS_TEXT_SIZE];
    if (!*lock->holder) {
        buffer_str(line, "nobody");
        return;
    }
    if (token_ttl_ms(lock->holder) == 0) {
        buffer_str(line, "nobody: the lock holds what no sidecar wrote");
        return;
    }
    buffer_str(line, *lock->leader ? lock->leader : "an instance of unknown name");
    if (lock->since_ms) buffer_printf(line, ", for %s", duration_text(now_ms - lock->since_ms, span));
    buffer_printf(line, ", term %.*s", TERM_DIGITS, lock->holder);
    if (lock->pttl_ms >= 0) buffer_printf(line, ", lock TTL %s", duration_text(lock->pttl_ms, span));
}

typedef struct holders {
    const char *leader; // borrowed
    int64_t locks;
} holder_t;

static int text_by_locks(const void *a, const void *b) {
    const holder_t *one = a, *other = b;
    if (one->locks != other->locks) return one->locks < other->locks ? 1 : -1;
    return strcmp(one->leader, other->leader);
}

// With a lock for each queue: how many are held, and by whom the most.
static void text_leaders(const overview_t *view, buffer_t *line) {
    holder_t *holders = mem_array(view->lock_count + 1, sizeof *holders);
    size_t count = 0;
    int64_t locks = 0;
    char number[UNITS_TEXT_SIZE], all[UNITS_TEXT_SIZE];
    for (size_t i = 0; i < view->lock_count; i++) {
        const overview_lock_t *lock = &view->locks[i];
        if (token_ttl_ms(lock->holder) == 0) continue;
        size_t at = 0;
        const char *name = *lock->leader ? lock->leader : "unknown";
        locks++;
        while (at < count && strcmp(holders[at].leader, name) != 0) at++;
        if (at == count) holders[count++] = (holder_t){.leader = name};
        holders[at].locks++;
    }
    qsort(holders, count, sizeof *holders, text_by_locks);
    buffer_printf(line, "%s of %s locks are held", count_text(locks, number), count_text((int64_t)view->lock_count, all));
    for (size_t i = 0; i < count && i < LEADERS_MAX; i++)
        buffer_printf(line, "%s %s %s", i ? "," : ":", holders[i].leader, count_text(holders[i].locks, number));
    if (count > LEADERS_MAX) buffer_printf(line, " and %zu more instances", count - LEADERS_MAX);
    free(holders);
}

static bool text_is_first_lock_of(const overview_t *view, size_t lock, size_t standby) {
    const char *instance = view->locks[lock].standbys[standby].instance;
    for (size_t i = 0; i < lock; i++)
        for (size_t n = 0; n < view->locks[i].standby_count; n++)
            if (view->locks[i].standbys[n].lives && strcmp(view->locks[i].standbys[n].instance, instance) == 0) return false;
    return true;
}

// Each once, of whichever lock.
static void text_standbys(const overview_t *view, buffer_t *line) {
    size_t count = 0;
    for (size_t i = 0; i < view->lock_count; i++)
        for (size_t n = 0; n < view->locks[i].standby_count; n++) {
            if (!view->locks[i].standbys[n].lives || !text_is_first_lock_of(view, i, n)) continue;
            if (count < STANDBYS_MAX) buffer_printf(line, "%s%s", count ? ", " : "", view->locks[i].standbys[n].instance);
            count++;
        }
    if (count > STANDBYS_MAX) buffer_printf(line, " and %zu more", count - STANDBYS_MAX);
    if (count == 0) buffer_str(line, "none");
}

// The audit log here, and whether it has what the streams have.
static void text_log(const status_t *s, buffer_t *line) {
    size_t lacks = 0;
    buffer_clear(line);
    buffer_str(line, s->config->audit.path);
    for (size_t i = 0; s->reached && i < s->view.queue_count; i++)
        for (size_t n = 0; n < s->view.queues[i].copy_count; n++) {
            const overview_copy_t *copy = &s->view.queues[i].copies[n];
            lacks += strcmp(copy->instance, s->log.instance) == 0 && !status_is_complete(&s->view.queues[i], copy);
        }
    if (!s->log.there)
        buffer_str(line, s->log.absent ? " is not here" : " cannot be read here");
    else if (lacks)
        buffer_printf(line, " lacks the newest records of %zu %s", lacks, lacks == 1 ? "queue" : "queues");
}

static void text_labelled(const char *label, const buffer_t *line, const status_view_t *view, buffer_t *out) {
    buffer_str(out, label);
    text_indent(out, INDENT - strlen(label));
    text_wrap(out, buffer_text(line), INDENT, view);
}

static void text_head(const status_t *s, const status_view_t *view, buffer_t *out) {
    char time[TIME_TEXT_SIZE], zone[TIME_TEXT_SIZE];
    buffer_t line = {0};
    int64_t now_ms = s->reached ? s->view.now_ms : s->wall_ms;
    time_format(now_ms, view->utc, time);
    time_zone_name(now_ms, view->utc, zone);
    buffer_printf(&line, "%s, %s at %s, %s %s", s->config->group, s->reached ? s->server : "Redis", s->target, time, zone);
    text_labelled("group", &line, view, out);
    buffer_clear(&line);
    if (s->reached) {
        if (s->config->lock.scope == LOCK_SCOPE_QUEUE)
            text_leaders(&s->view, &line);
        else
            text_leader(&s->view.locks[0], now_ms, &line);
        text_labelled("leader", &line, view, out);
        buffer_clear(&line);
        text_standbys(&s->view, &line);
        text_labelled("standby", &line, view, out);
    }
    text_log(s, &line);
    text_labelled("log", &line, view, out);
    const local_check_t *config = local_instance_check(&s->here, "config");
    if (config && *config->state) {
        buffer_clear(&line);
        buffer_str(&line, config->state);
        text_labelled("config", &line, view, out);
    }
    buffer_free(&line);
}

// ---- Queues.

// A number that is not known: "?" where it should be, "-" where the dialect has none.
static void text_count_cell(table_t *table, int64_t number, bool error) {
    char text[UNITS_TEXT_SIZE];
    table_cell(table, slice_text(number < 0 && !error ? "-" : count_text(number, text)));
}

static void text_due_cell(table_t *table, const census_t *counts) {
    char span[UNITS_TEXT_SIZE], text[UNITS_TEXT_SIZE + 8];
    int64_t late = census_overdue_ms(counts);
    if (late > 0)
        snprintf(text, sizeof text, "%s late", duration_text(late, span));
    else if (counts->next_due_ms >= 0 && counts->next_due_ms != INT64_MAX)
        snprintf(text, sizeof text, "in %s", duration_text(counts->next_due_ms - counts->now_ms, span));
    else
        snprintf(text, sizeof text, counts->next_due_ms == INT64_MAX ? "never" : "-");
    table_cell(table, slice_text(text));
}

static void text_oldest_cell(table_t *table, const census_t *counts) {
    char span[UNITS_TEXT_SIZE];
    bool known = counts->oldest_in_progress_ms >= 0;
    const char *none = counts->in_progress > 0 ? "?" : "-";
    table_cell(table, slice_text(known ? duration_text(counts->now_ms - counts->oldest_in_progress_ms, span) : none));
}

static void text_recent_cell(table_t *table, const status_recent_t *recent, int64_t number) {
    char text[UNITS_TEXT_SIZE], more[UNITS_TEXT_SIZE + 2];
    count_text(number, text);
    snprintf(more, sizeof more, "%s%s", text, recent->more ? "+" : "");
    table_cell(table, slice_text(more));
}

static void text_audit_cell(table_t *table, const status_t *s, size_t queue) {
    const overview_queue_t *view = &s->view.queues[queue];
    char span[UNITS_TEXT_SIZE], text[UNITS_TEXT_SIZE + 8];
    if (view->uncopied_ms)
        snprintf(text, sizeof text, "%s late", duration_text(s->view.now_ms - view->uncopied_ms, span));
    else
        snprintf(text, sizeof text, "%s", *view->error ? "?" : view->stream.length ? "copied" : "-");
    table_cell(table, slice_text(text));
}

static bool text_shows_retried(const status_view_t *view) { return view->width == 0 || view->width >= RETRIED_MIN_WIDTH; }

static void text_row(table_t *table, const status_t *s, size_t queue, const status_view_t *view) {
    const census_t *counts = &s->counts[queue];
    const status_recent_t *recent = &s->recent[queue];
    bool error = *counts->error != '\0';
    table_cell(table, slice_text(s->keys->queues[queue].config->name));
    text_count_cell(table, counts->delayed, error);
    text_due_cell(table, counts);
    text_count_cell(table, counts->ready, error);
    text_count_cell(table, counts->in_progress, error);
    text_oldest_cell(table, counts);
    if (text_shows_retried(view)) text_recent_cell(table, recent, recent->retried);
    text_recent_cell(table, recent, recent->failed);
    text_audit_cell(table, s, queue);
    if (view->width >= RECORDS_MIN_WIDTH) text_count_cell(table, counts->records, error);
}

// Indices of the queues that are asked about, those of findings first where not all fit. Owned.
static size_t *text_choose_rows(const status_t *s, const status_findings_t *findings, const bool *wanted, size_t most,
                                size_t *count) {
    size_t all = s->keys->queue_count, asked = 0;
    size_t *rows = mem_array(all + 1, sizeof *rows);
    bool *taken = mem_array(all, sizeof *taken);
    *count = 0;
    for (size_t i = 0; i < all; i++) asked += !wanted || wanted[i];
    for (size_t f = 0; asked > most && f < findings->count; f++)
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

static void text_queues(const status_t *s, const status_findings_t *findings, const status_view_t *view, size_t most,
                        buffer_t *out) {
    static const char *const titles[] = {"DELAYED", "NEXT DUE", "READY", "IN PROGRESS", "OLDEST"};
    table_column_t columns[TABLE_COLUMNS] = {{.title = "QUEUE", .min_width = 6, .max_width = 60}};
    size_t used = 1;
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        columns[used++] = (table_column_t){.title = titles[i], .align_right = true};
    if (text_shows_retried(view)) columns[used++] = (table_column_t){.title = "RETRIED", .align_right = true};
    columns[used++] = (table_column_t){.title = "FAILED", .align_right = true};
    columns[used++] = (table_column_t){.title = "AUDIT", .align_right = true};
    if (view->width >= RECORDS_MIN_WIDTH) columns[used++] = (table_column_t){.title = "RECORDS", .align_right = true};
    char *text = NULL;
    size_t size = 0, count;
    size_t *rows = text_choose_rows(s, findings, view->wanted, most, &count);
    FILE *file = open_memstream(&text, &size);
    table_t *table = table_begin(columns, used, file);
    table_set_columns(table, view->width);
    size_t shown = count > most ? most - 1 : count;
    for (size_t i = 0; i < shown; i++) text_row(table, s, rows[i], view);
    table_end(table);
    fclose(file);
    text_clip(out, text, view->width);
    if (shown < count) {
        buffer_t more = {0};
        buffer_printf(&more, "... and %zu queues more: --queue NAME, or without --watch\n", count - shown);
        text_clip(out, buffer_text(&more), view->width);
        buffer_free(&more);
    }
    free(text);
    free(rows);
}

// ---- What is wrong.

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
    char number[UNITS_TEXT_SIZE];
    if (finding->queue_count == 0) return;
    buffer_t safe = {0};
    terminal_escape(&safe, slice_text(s->keys->queues[finding->queues[0]].config->name), false);
    slice_t name = {buffer_text(&safe), safe.len};
    bool cut = terminal_width(name) > NAME_MAX_COLUMNS;
    if (cut) name.len = terminal_fit(name, NAME_MAX_COLUMNS - 1);
    if (finding->queue_count > 1)
        buffer_printf(out, "%s queues, \"%.*s%s\" first of all: ", count_text((int64_t)finding->queue_count, number),
                      (int)name.len, name.data, cut ? "…" : "");
    else
        buffer_printf(out, "queue \"%.*s%s\": ", (int)name.len, name.data, cut ? "…" : "");
    buffer_free(&safe);
}

static void text_finding(const status_t *s, const status_finding_t *finding, const status_view_t *view, buffer_t *out) {
    static const char *const labels[] = {"note", "warning", "FAULT"}, *const colours[] = {"\x1b[36m", "\x1b[33m", "\x1b[1;31m"};
    buffer_t line = {0};
    const char *label = labels[finding->severity];
    if (view->colour) buffer_str(out, colours[finding->severity]);
    buffer_str(out, label);
    if (view->colour) buffer_str(out, "\x1b[0m");
    text_indent(out, INDENT - strlen(label));
    text_queue_names(s, finding, &line);
    buffer_str(&line, finding->what);
    text_wrap(out, buffer_text(&line), INDENT, view);
    text_indent(out, INDENT);
    text_wrap(out, finding->why, INDENT, view);
    text_indent(out, INDENT);
    buffer_str(out, "-> ");
    text_wrap(out, finding->next, INDENT + 3, view);
    buffer_free(&line);
}

static void text_findings(const status_t *s, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    static const char *const sources[] = {"not known", "from the audit log here", "from the failure streams"};
    if (s->reached) {
        buffer_t line = {0};
        buffer_printf(&line, "%s of the last hour, %s", text_shows_retried(view) ? "RETRIED and FAILED are" : "FAILED is",
                      sources[s->source]);
        text_wrap(out, buffer_text(&line), 0, view);
        buffer_str(out, "\n");
        buffer_free(&line);
    }
    text_summary(findings, view->wanted == NULL, out);
    for (size_t i = 0; i < findings->count; i++) {
        if (view->rows == 0) buffer_str(out, "\n"); // a screen has no lines to spare
        text_finding(s, &findings->items[i], view, out);
    }
}

// Cuts what is longer than the screen, and says so in its last line.
static void text_cut(buffer_t *out, size_t most, size_t width) {
    size_t lines = text_count_lines(out);
    if (lines <= most) return;
    buffer_t more = {0};
    char *at = out->data;
    for (size_t i = 0; i + 1 < most; i++) at = strchr(at, '\n') + 1;
    out->len = (size_t)(at - out->data);
    *at = '\0';
    buffer_printf(&more, "... and %zu lines more: a larger window, --queue NAME, or without --watch", lines - most + 1);
    text_clip(out, buffer_text(&more), width);
    buffer_free(&more);
}

void status_text(const status_t *status, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    buffer_t below = {0};
    text_findings(status, findings, view, &below);
    text_head(status, view, out);
    buffer_str(out, "\n");
    if (status->reached) {
        size_t used = text_count_lines(out) + 1 + text_count_lines(&below), most = SIZE_MAX; // with the line of titles
        if (view->rows) most = view->rows > used + ROWS_MIN ? view->rows - used : ROWS_MIN;
        text_queues(status, findings, view, most, out);
    }
    buffer_add(out, buffer_text(&below), below.len);
    buffer_free(&below);
    if (view->rows) text_cut(out, view->rows, view->width);
}
