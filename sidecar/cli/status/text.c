// The text that `status` prints: the verdict, a head, a row for each queue, and the findings.
#include <stdarg.h>

#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/status/text_layout.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "operate/status/servers_text.h"

enum {
    PRIMARIES_MAX = 3,
    LEADERS_MAX = 3,
    STANDBYS_MAX = 4,
    TERM_DIGITS = 8,
    NAME_MAX_COLUMNS = 40,
    RETRIED_MIN_WIDTH = 88, // columns of a terminal that has room for RETRIED
    RECORDS_MIN_WIDTH = 100,
    IDLE_ROWS_MAX = 3, // more idle queues share a line
};

// ---- The head: address, time, leader and standbys.

static void text_leader(const snapshot_lock_t *lock, int64_t now_ms, buffer_t *line) {
    if (token_ttl_ms(lock->holder) == 0) {
        buffer_str(line, *lock->holder ? "nobody: no sidecar wrote the value of the lock" : "nobody");
        return;
    }
    buffer_str(line, *lock->leader ? lock->leader : "an instance of unknown name");
    if (lock->since_ms) buffer_printf(line, ", for %s", duration_text(now_ms - lock->since_ms).text);
    buffer_printf(line, ", term %.*s", TERM_DIGITS, lock->holder);
    if (lock->pttl_ms >= 0) buffer_printf(line, ", lock TTL %s", duration_text(lock->pttl_ms).text);
}

// The count of each name; names in the order in which they came first.
typedef struct text_names {
    struct text_name {
        const char *name; // borrowed
        int64_t times;
    } * all; // owned
    size_t count;
} text_names_t;

static void text_count_name(text_names_t *names, const char *name) {
    size_t at = 0;
    while (at < names->count && strcmp(names->all[at].name, name) != 0) at++;
    if (at == names->count) {
        names->all = mem_grown(names->all, names->count++, sizeof *names->all);
        names->all[at].name = name;
    }
    names->all[at].times++;
}

// If each queue has its own lock: adds how many locks are held, and by which instances.
static void text_leaders(const snapshot_t *snapshot, buffer_t *line) {
    text_names_t leaders = {0};
    int64_t held = 0;
    for (size_t i = 0; i < snapshot->lock_count; i++) {
        const snapshot_lock_t *lock = &snapshot->locks[i];
        if (token_ttl_ms(lock->holder) == 0) continue;
        text_count_name(&leaders, *lock->leader ? lock->leader : "unknown");
        held++;
    }
    buffer_printf(line, "%s of %s locks are held", count_text(held).text, count_text((int64_t)snapshot->lock_count).text);
    for (size_t i = 0; i < leaders.count && i < LEADERS_MAX; i++)
        buffer_printf(line, "%s %s %s", i ? "," : ":", leaders.all[i].name, count_text(leaders.all[i].times).text);
    if (leaders.count > LEADERS_MAX) buffer_printf(line, " and %zu more instances", leaders.count - LEADERS_MAX);
    free(leaders.all);
}

// Adds each standby once, even if it stands by for several locks.
static void text_standbys(const snapshot_t *snapshot, buffer_t *line) {
    text_names_t standbys = {0};
    for (size_t i = 0; i < snapshot->lock_count; i++)
        for (size_t n = 0; n < snapshot->locks[i].standby_count; n++)
            if (snapshot->locks[i].standbys[n].lives) text_count_name(&standbys, snapshot->locks[i].standbys[n].instance);
    for (size_t i = 0; i < standbys.count && i < STANDBYS_MAX; i++)
        buffer_printf(line, "%s%s", i ? ", " : "", standbys.all[i].name);
    if (standbys.count > STANDBYS_MAX) buffer_printf(line, " and %zu more", standbys.count - STANDBYS_MAX);
    if (standbys.count == 0) buffer_str(line, "none");
    free(standbys.all);
}

// Adds the path of this machine's audit log, and whether this log lacks records of the streams.
static void text_log(const status_t *s, buffer_t *line) {
    size_t lacks = 0;
    buffer_str(line, s->config->audit.path);
    for (size_t i = 0; s->reached && i < s->snapshot.queue_count; i++) {
        const snapshot_copy_t *copy = status_own_copy(s, i);
        lacks += copy && !status_is_complete(&s->snapshot.queues[i], copy);
    }
    if (!s->log.readable)
        buffer_str(line, s->log.absent ? " does not exist" : " cannot be read");
    else if (lacks)
        buffer_printf(line, " lacks the newest records of %zu %s", lacks, lacks == 1 ? "queue" : "queues");
}

// Adds a line for each primary of a Cluster, as far as there is room.
static void text_primaries(const status_t *s, const status_view_t *view, buffer_t *out) {
    for (size_t i = 0; i < s->servers.primary_count && i < PRIMARIES_MAX; i++) {
        buffer_t line = {0};
        servers_text_primary(&s->servers.primaries[i], &line);
        text_labelled(out, view, "", "%s: %s", s->servers.primaries[i].address, buffer_text(&line));
        buffer_free(&line);
    }
    if (s->servers.primary_count > PRIMARIES_MAX)
        text_labelled(out, view, "", "and %zu more", s->servers.primary_count - PRIMARIES_MAX);
}

static void text_servers(const status_t *s, const status_view_t *view, buffer_t *out) {
    const servers_t *servers = &s->servers;
    bool reached = s->reached && servers->primary_count;
    buffer_t line = {0};
    if (servers->mode == REDIS_MODE_AUTO || (servers->mode == REDIS_MODE_SINGLE && !reached)) return;
    servers_text_mode(servers, &s->config->redis, &line);
    if (reached && servers->mode == REDIS_MODE_SINGLE) {
        buffer_str(&line, "; ");
        servers_text_primary(&servers->primaries[0], &line);
    }
    text_labelled(out, view, "redis", "%s", buffer_text(&line));
    if (reached && servers->mode != REDIS_MODE_SINGLE) text_primaries(s, view, out);
    buffer_free(&line);
}

static void text_head(const status_t *s, const status_view_t *view, buffer_t *out) {
    buffer_t leader = {0}, standbys = {0}, log = {0};
    int64_t now_ms = s->reached ? s->snapshot.now_ms : s->wall_ms;
    text_labelled(out, view, "group", "%s, %s at %s, %s %s", s->config->group, s->reached ? s->server : "Redis", s->target,
                  time_text(now_ms, view->utc, TIME_SECONDS).text, time_zone(now_ms, view->utc).text);
    text_servers(s, view, out);
    if (s->reached) {
        if (s->keys->per_tag)
            text_leaders(&s->snapshot, &leader);
        else
            text_leader(&s->snapshot.locks[0], now_ms, &leader);
        text_standbys(&s->snapshot, &standbys);
        text_labelled(out, view, "leader", "%s", buffer_text(&leader));
        text_labelled(out, view, "standby", "%s", buffer_text(&standbys));
    }
    text_log(s, &log);
    text_labelled(out, view, "log", "%s", buffer_text(&log));
    for (size_t i = 0; i < s->local.count; i++) {
        const local_check_t *check = &s->local.checks[i];
        if (*check->state && strcmp(check->name, "config") == 0) text_labelled(out, view, "config", "%s", check->state);
        if (strncmp(check->state, "never leads", 11) == 0) text_labelled(out, view, "here", "%s", check->state);
    }
    buffer_free(&leader);
    buffer_free(&standbys);
    buffer_free(&log);
}

// ---- Queues.

__attribute__((format(printf, 2, 3))) static void text_cell(table_t *table, const char *format, ...) {
    char text[2 * sizeof(units_text_t)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_cell(table, slice_text(text));
}

// Prints an unknown number as "?" if Redis refuses to tell it, as "-" if the dialect has no such number.
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
        text_cell(table, *snapshot->error.text ? "?" : snapshot->stream.length ? "copied" : "-");
}

// The columns, and how wide a terminal must be to have room for each.
static const struct {
    const char *title;
    size_t min_width; // of the terminal
} text_columns[] = {{"DELAYED", 0},     {"NEXT DUE", 0}, {"READY", 0},
                    {"IN PROGRESS", 0}, {"OLDEST", 0},   {"RETRIED", RETRIED_MIN_WIDTH},
                    {"FAILED", 0},      {"AUDIT", 0},    {"RECORDS", RECORDS_MIN_WIDTH}};

static void text_row(table_t *table, const status_t *s, size_t queue, const status_view_t *view) {
    const sizes_t *sizes = &s->sizes[queue];
    const status_recent_t *recent = &s->recent[queue];
    bool error = *sizes->error.text != '\0';
    table_cell(table, slice_text(s->keys->queues[queue].config->name));
    text_count_cell(table, sizes->delayed, error);
    text_due_cell(table, sizes);
    text_count_cell(table, sizes->ready, error);
    text_count_cell(table, sizes->in_progress, error);
    text_oldest_cell(table, sizes);
    if (view->width >= RETRIED_MIN_WIDTH) text_recent_cell(table, recent, recent->retried);
    text_recent_cell(table, recent, recent->failed);
    text_audit_cell(table, s, queue);
    if (view->width >= RECORDS_MIN_WIDTH) text_count_cell(table, sizes->records, error);
}

// Marks idle queues: nothing waits, runs or has failed, and no finding names them. Returns their number; 0 = few enough for rows.
static size_t text_find_idle(const status_t *s, const status_findings_t *findings, const status_view_t *view, bool *idle) {
    size_t count = 0;
    for (size_t i = 0; i < s->keys->queue_count && !view->wanted; i++) {
        const sizes_t *sizes = &s->sizes[i];
        const status_recent_t *recent = &s->recent[i];
        const snapshot_queue_t *queue = &s->snapshot.queues[i];
        idle[i] = !*sizes->error.text && !*queue->error.text && sizes->delayed <= 0 && sizes->ready <= 0 &&
                  sizes->in_progress <= 0 && recent->retried <= 0 && recent->failed <= 0 && !queue->uncopied_ms;
    }
    for (size_t f = 0; f < findings->count; f++)
        for (size_t q = 0; q < findings->items[f].queue_count; q++) idle[findings->items[f].queues[q]] = false;
    for (size_t i = 0; i < s->keys->queue_count; i++) count += idle[i];
    return count > IDLE_ROWS_MAX ? count : 0;
}

// One line for all idle queues.
static void text_idle(const status_t *s, const bool *idle, size_t count, const status_view_t *view, buffer_t *out) {
    buffer_t line = {0};
    buffer_printf(&line, "%zu idle queues", count);
    for (size_t i = 0, n = 0; i < s->keys->queue_count && line.len < view->width; i++) {
        if (!idle[i]) continue;
        buffer_str(&line, n++ ? ", " : ": ");
        terminal_escape(&line, slice_text(s->keys->queues[i].config->name), false);
    }
    text_clip(out, buffer_text(&line), view->width);
    buffer_free(&line);
}

static void text_queues(const status_t *s, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    table_column_t columns[TABLE_COLUMNS] = {{.title = "QUEUE", .min_width = 6, .max_width = 60}};
    size_t used = 1, size = 0;
    char *text = NULL;
    for (size_t i = 0; i < sizeof text_columns / sizeof *text_columns; i++)
        if (view->width >= text_columns[i].min_width)
            columns[used++] = (table_column_t){.title = text_columns[i].title, .align_right = true};
    FILE *file = open_memstream(&text, &size);
    table_t *table = table_begin(columns, used, view->width, file);
    bool *idle = mem_array(s->keys->queue_count, sizeof *idle);
    size_t folded = text_find_idle(s, findings, view, idle);
    for (size_t i = 0; i < s->keys->queue_count; i++)
        if ((!view->wanted || view->wanted[i]) && !(folded && idle[i])) text_row(table, s, i, view);
    table_end(table);
    fclose(file);
    text_clip(out, text, view->width);
    if (folded) text_idle(s, idle, folded, view, out);
    free(idle);
    free(text);
}

// ---- Findings.

// Adds `queue "email": `, with a long name cut.
static void text_queue_names(const status_t *s, const status_finding_t *finding, buffer_t *out) {
    if (finding->queue_count == 0) return;
    buffer_t safe = {0};
    terminal_escape(&safe, slice_text(s->keys->queues[finding->queues[0]].config->name), false);
    slice_t name = {buffer_text(&safe), safe.len};
    bool cut = terminal_width(name) > NAME_MAX_COLUMNS;
    if (cut) name.len = terminal_fit(name, NAME_MAX_COLUMNS - 1);
    if (finding->queue_count > 1)
        buffer_printf(out, "%s queues, the worst is ", count_text((int64_t)finding->queue_count).text);
    else
        buffer_str(out, "queue ");
    buffer_printf(out, "\"%.*s%s\": ", (int)name.len, name.data, cut ? "…" : "");
    buffer_free(&safe);
}

// The final failures of the last hour that nobody has answered, of the queues that the user asks about. *partial: there may be
// more.
static int64_t text_failures(const status_t *s, const bool *wanted, bool *partial) {
    int64_t failed = 0;
    *partial = false;
    for (size_t i = 0; i < s->keys->queue_count; i++) {
        if ((wanted && !wanted[i]) || s->recent[i].failed <= 0) continue;
        failed += status_open(&s->recent[i]);
        *partial |= s->recent[i].partial;
    }
    return failed;
}

// Adds the numbers of faults, warnings and notes, without the notes on final failures. Returns the worst of them; NULL = none.
static const status_finding_t *text_count_findings(const status_findings_t *findings, buffer_t *line) {
    static const char *const names[] = {"note", "warning", "fault"};
    const status_finding_t *worst = NULL;
    const char *between = line->len ? "; " : "";
    for (int severity = STATUS_FAULT; severity >= STATUS_NOTE; severity--) {
        size_t count = 0;
        for (size_t i = 0; i < findings->count; i++) {
            const status_finding_t *finding = &findings->items[i];
            if (finding->severity != (status_severity_t)severity || strcmp(finding->code, "failures") == 0) continue;
            if (!worst) worst = finding;
            count++;
        }
        if (count) buffer_printf(line, "%s%zu %s%s", between, count, names[severity], count == 1 ? "" : "s");
        if (count) between = ", ";
    }
    return worst;
}

// The first line: whether all is well, and the worst finding. Failed jobs are not well, although nothing is wrong with the
// queues. It is not wrapped in a pipe, where programs read it.
static void text_verdict(const status_t *s, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    buffer_t line = {0};
    bool partial, wrong = findings->of[STATUS_FAULT] + findings->of[STATUS_WARNING] > 0;
    int64_t failed = text_failures(s, view->wanted, &partial);
    if (!wrong && failed > 0)
        buffer_printf(&line, "%s%s final %s in the last hour", partial ? "at least " : "", count_text(failed).text,
                      failed == 1 ? "failure" : "failures");
    else if (!wrong)
        buffer_str(&line, view->wanted ? "nothing is wrong with these queues" : "all is well");
    const status_finding_t *worst = text_count_findings(findings, &line);
    if (worst) {
        buffer_str(&line, ": ");
        text_queue_names(s, worst, &line);
        buffer_str(&line, worst->what);
    }
    const status_view_t whole = {.width = view->piped ? SIZE_MAX : view->width, .rows = view->rows};
    text_wrap(out, buffer_text(&line), 0, &whole);
    buffer_free(&line);
}

static void text_finding(const status_t *s, const status_finding_t *finding, const status_view_t *view, buffer_t *out) {
    static const char *const labels[] = {"note", "warning", "FAULT"}, *const colours[] = {"\x1b[36m", "\x1b[33m", "\x1b[1;31m"};
    const char *label = labels[finding->severity];
    buffer_t line = {0};
    text_queue_names(s, finding, &line);
    buffer_str(&line, finding->what);
    buffer_printf(out, "%s%s%s%*s", view->colour ? colours[finding->severity] : "", label, view->colour ? "\x1b[0m" : "",
                  (int)(TEXT_INDENT - strlen(label)), "");
    text_wrap(out, buffer_text(&line), TEXT_INDENT, view);
    text_labelled(out, view, "", "%s", finding->why);
    buffer_printf(out, "%*s-> ", TEXT_INDENT, "");
    text_wrap(out, finding->next, TEXT_INDENT + strlen("-> "), view);
    buffer_free(&line);
}

static void text_findings(const status_t *s, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    static const char *const sources[] = {"which is not known", "from the local audit log", "from the failure streams"};
    if (s->reached) {
        char *line =
            mem_printf("%s the last hour, %s", view->width >= RETRIED_MIN_WIDTH ? "RETRIED and FAILED count" : "FAILED counts",
                       sources[s->source]);
        text_wrap(out, line, 0, view);
        free(line);
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (view->rows == 0) buffer_str(out, "\n"); // no empty lines with --watch
        text_finding(s, &findings->items[i], view, out);
    }
}

// On a screen of --watch the findings come first, because the end is cut off.
void status_text(const status_t *status, const status_findings_t *findings, const status_view_t *view, buffer_t *out) {
    text_verdict(status, findings, view, out);
    text_head(status, view, out);
    buffer_str(out, "\n");
    if (view->rows) text_findings(status, findings, view, out);
    if (status->reached) text_queues(status, findings, view, out);
    if (view->rows)
        text_cut(out, view->rows, view->width);
    else
        text_findings(status, findings, view, out);
}
