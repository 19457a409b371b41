// What is wrong, why it matters and how to mend it: made of what was read, and of nothing else.
#include <stdlib.h>
#include <string.h>

#include "cli/status_kinds.h"
#include "cli/status_words.h"

enum {
    CLOCKS_MS = 60000,   // between Redis and this machine
    MEMORY_PERCENT = 95, // of maxmemory
    EACH_MOST = 3,       // queues with the same trouble that get a finding each
};

typedef struct judge {
    const status_t *s;
    const bool *wanted;
    status_findings_t *out;
} judge_t;

// ---- From kinds to findings.

static void fill(buffer_t *out, const char *text, const status_t *s, const status_kind_t *kind, size_t index) {
    size_t seat = kind->of_seat ? index : s->keys->queues[index].seat;
    const char *open;
    for (; (open = strchr(text, '{')); text = strchr(open, '}') + 1) {
        buffer_add(out, text, (size_t)(open - text));
        if (strncmp(open, "{queue}", 7) == 0) status_word(out, s->keys->queues[index].config->name);
        if (strncmp(open, "{config}", 8) == 0) status_word(out, s->config->path);
        if (strncmp(open, "{lock}", 6) == 0) status_word(out, s->keys->seats[seat].lock);
        if (strncmp(open, "{delayed}", 9) == 0) buffer_str(out, s->keys->queues[index].config->delayed);
        if (strncmp(open, "{leader}", 8) == 0) buffer_str(out, status_leader(&s->view.seats[seat]));
    }
    buffer_str(out, text);
}

static status_finding_t *add(status_findings_t *out, status_severity_t severity, const char *code) {
    if ((out->count & (out->count - 1)) == 0) { // only powers of two, and 0, are full
        status_finding_t *larger = mem_array(out->count ? 2 * out->count : 1, sizeof *larger);
        if (out->count) memcpy(larger, out->items, out->count * sizeof *larger);
        free(out->items);
        out->items = larger;
    }
    out->faults += severity == STATUS_FAULT;
    out->warnings += severity == STATUS_WARNING;
    out->notes += severity == STATUS_NOTE;
    status_finding_t *finding = &out->items[out->count++];
    *finding = (status_finding_t){.severity = severity, .code = code};
    return finding;
}

typedef struct hit {
    size_t index;
    int64_t weight;
    char *what; // owned
} hit_t;

static int by_weight(const void *a, const void *b) {
    const hit_t *one = a, *other = b;
    if (one->weight != other->weight) return one->weight < other->weight ? 1 : -1;
    return one->index < other->index ? -1 : 1;
}

static void add_hits(const judge_t *j, const status_kind_t *kind, const hit_t *hits, size_t count, bool of_queues) {
    status_finding_t *finding = add(j->out, kind->severity, kind->code);
    buffer_t text = {0};
    finding->what = mem_str(hits->what);
    fill(&text, kind->why, j->s, kind, hits->index);
    finding->why = mem_str(buffer_text(&text));
    buffer_clear(&text);
    fill(&text, kind->next, j->s, kind, hits->index);
    finding->next = mem_str(buffer_text(&text));
    buffer_free(&text);
    if (!of_queues) return;
    finding->queues = mem_array(count, sizeof *finding->queues);
    for (size_t i = 0; i < count; i++) finding->queues[finding->queue_count++] = hits[i].index;
}

static void judge_kind(const judge_t *j, const status_kind_t *kind) {
    bool of_queues = !kind->of_seat || j->s->config->lock.scope == LOCK_SCOPE_QUEUE; // then a seat has the index of its queue
    size_t all = kind->of_seat ? j->s->keys->seat_count : j->s->keys->queue_count, count = 0;
    hit_t *hits = mem_array(all + 1, sizeof *hits);
    for (size_t i = 0; i < all; i++) {
        buffer_t what = {0};
        int64_t weight = 0;
        if (of_queues && j->wanted && !j->wanted[i]) continue;
        if (kind->test(j->s, i, &what, &weight)) hits[count++] = (hit_t){i, weight, mem_str(buffer_text(&what))};
        buffer_free(&what);
    }
    qsort(hits, count, sizeof *hits, by_weight);
    for (size_t i = 0; count <= EACH_MOST && i < count; i++) add_hits(j, kind, &hits[i], 1, of_queues);
    if (count > EACH_MOST) add_hits(j, kind, hits, count, of_queues);
    for (size_t i = 0; i < count; i++) free(hits[i].what);
    free(hits);
}

// ---- What is asked once.

static void say(const judge_t *j, status_severity_t severity, const char *code, char *what, const char *why, const char *next) {
    status_finding_t *finding = add(j->out, severity, code);
    finding->what = what;
    finding->why = mem_str(why);
    finding->next = mem_str(next);
}

static void judge_memory(const judge_t *j) {
    const overview_t *view = &j->s->view;
    char used[SPAN_SIZE], most[SPAN_SIZE];
    if (view->memory_most <= 0 || (double)view->memory_used * 100 < (double)view->memory_most * MEMORY_PERCENT) return;
    bool full = view->memory_used >= view->memory_most;
    say(j, full ? STATUS_FAULT : STATUS_WARNING, "redis_full",
        mem_printf("Redis uses %s of its maxmemory, %s", status_size(view->memory_used, used),
                   status_size(view->memory_most, most)),
        "A full Redis refuses what producers add and what workers take, or evicts jobs if its policy allows that.",
        "Raise maxmemory, or find out what fills it: redis-cli --bigkeys");
}

// The preflight knows what a fault means and says what to do.
static void judge_looks(const judge_t *j) {
    buffer_t next = {0};
    buffer_str(&next, "queue-sidecar check -c ");
    status_word(&next, j->s->config->path);
    buffer_str(&next, " --redis tells the same again until it is mended");
    for (size_t i = 0; i < j->s->look_count; i++) {
        const status_look_t *look = &j->s->looks[i];
        bool of_queue = look->queue < j->s->keys->queue_count, fault = look->kind != FINDING_WARN;
        if (look->kind == FINDING_FACT || (of_queue && j->wanted && !j->wanted[look->queue])) continue;
        say(j, fault ? STATUS_FAULT : STATUS_WARNING, "preflight", mem_str(look->text),
            !fault     ? "A promise is weakened."
            : of_queue ? "This queue is not served; the others are."
                       : "No instance can lead.",
            buffer_text(&next));
        if (!of_queue) continue;
        status_finding_t *finding = &j->out->items[j->out->count - 1];
        finding->queues = mem_array(1, sizeof *finding->queues);
        finding->queues[finding->queue_count++] = look->queue;
    }
    buffer_free(&next);
}

static void judge_here(const judge_t *j) {
    const status_here_t *here = &j->s->here;
    if (!here->asked) return;
    if (!here->answered) {
        say(j, STATUS_NOTE, "no_answer", mem_printf("no instance answers here on http.port: %s", here->why),
            "Nothing is known of an instance on this machine.", "Nothing, if none runs here; else look at its log");
        return;
    }
    for (size_t i = 0; i < here->count; i++) {
        const status_check_t *check = &here->checks[i];
        bool audit = strcmp(check->name, "audit") == 0;
        if (check->ok) continue;
        if (strcmp(check->name, "config") == 0)
            say(j, STATUS_FAULT, "config_refused", mem_printf("the instance here refuses the newest config: %s", check->why),
                "It goes on with the config that it had.",
                "Mend the file (queue-sidecar check names each fault); it is read again by itself, or at SIGHUP");
        else
            say(j, STATUS_FAULT, "not_ready", mem_printf("the instance here is not well (%s): %s", check->name, check->why),
                audit ? "Its copies of final failures wait." : "It may neither lead nor stand by.", "Look at its log");
    }
}

static void judge_log(const judge_t *j) {
    const status_log_t *log = &j->s->log;
    char count[SPAN_SIZE];
    if (!log->there || log->open_gaps <= 0) return;
    say(j, STATUS_NOTE, "gaps",
        mem_printf("the audit log here has %s %s: records that were trimmed before it had them",
                   status_number(log->open_gaps, count), log->open_gaps == 1 ? "gap" : "gaps"),
        "Final failures of that time may be missing here; other instances may have them.",
        "queue-sidecar audit list --kind gap; a peer's log fills it: queue-sidecar audit import FILE");
}

static void judge_clocks(const judge_t *j) {
    int64_t apart = llabs(j->s->wall_ms - j->s->view.now_ms);
    char text[SPAN_SIZE];
    if (apart <= CLOCKS_MS) return;
    say(j, STATUS_NOTE, "clocks", mem_printf("the clocks of Redis and of this machine are %s apart", status_span(apart, text)),
        "Jobs fall due by Redis's clock; a producer or a log with the other one seems early or late.", "Set the wrong one (NTP)");
}

static void judge_reach(const judge_t *j) {
    say(j, STATUS_FAULT, "redis_unreachable", mem_printf("Redis at %s: %s", j->s->target, j->s->fault.text),
        "Nothing is known of any queue, and no instance that has lost it can do anything either.",
        "See that Redis runs, and that address, rights and password in the section `redis` of the config are right");
}

// Stable, as qsort need not be: within a severity the order of the table tells what to look at first.
static void sort(status_findings_t *findings) {
    status_finding_t *sorted = mem_array(findings->count + 1, sizeof *sorted);
    size_t count = 0;
    for (int severity = STATUS_FAULT; severity >= STATUS_NOTE; severity--)
        for (size_t i = 0; i < findings->count; i++)
            if ((int)findings->items[i].severity == severity) sorted[count++] = findings->items[i];
    free(findings->items);
    findings->items = sorted;
}

status_findings_t status_judge(const status_t *status, const bool *wanted) {
    status_findings_t out = {0};
    const judge_t j = {.s = status, .wanted = wanted, .out = &out};
    if (status->reached) {
        judge_memory(&j);
        judge_looks(&j);
        for (size_t i = 0; i < status_kind_count; i++) judge_kind(&j, &status_kinds[i]);
        judge_clocks(&j);
    } else {
        judge_reach(&j);
    }
    judge_here(&j);
    judge_log(&j);
    sort(&out);
    return out;
}

void status_findings_free(status_findings_t *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        status_finding_t *finding = &findings->items[i];
        free(finding->queues);
        free(finding->what);
        free(finding->why);
        free(finding->next);
    }
    free(findings->items);
    *findings = (status_findings_t){0};
}

int status_exit(const status_t *status, const status_findings_t *findings) {
    if (!status->reached) return status->fault.outcome == OUTCOME_FAULT ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    return findings->faults + findings->warnings ? CLI_FAILED : CLI_OK;
}
