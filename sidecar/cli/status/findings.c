// What is wrong, why it matters and how to mend it: made of what was read, and of nothing else.
#include <stdlib.h>
#include <string.h>

#include "cli/status/checks.h"
#include "cli/status/units.h"

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
    size_t lock = kind->of_lock ? index : s->keys->queues[index].lock;
    const char *open;
    for (; (open = strchr(text, '{')); text = strchr(open, '}') + 1) {
        buffer_add(out, text, (size_t)(open - text));
        if (strncmp(open, "{queue}", 7) == 0) status_word(out, s->keys->queues[index].config->name);
        if (strncmp(open, "{config}", 8) == 0) status_word(out, s->config->path);
        if (strncmp(open, "{lock}", 6) == 0) status_word(out, s->keys->locks[lock].key);
        if (strncmp(open, "{failures}", 10) == 0) status_word(out, s->keys->queues[index].failures);
        if (strncmp(open, "{delayed}", 9) == 0) status_word(out, s->keys->queues[index].config->delayed);
        if (strncmp(open, "{leader}", 8) == 0) buffer_str(out, status_leader(&s->view.locks[lock]));
    }
    buffer_str(out, text);
}

static status_finding_t *add(status_findings_t *out, status_severity_t severity, const char *code) {
    out->items = mem_grown(out->items, out->count, sizeof *out->items);
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
    bool of_queues = !kind->of_lock || j->s->config->lock.scope == LOCK_SCOPE_QUEUE; // then a lock has the index of its queue
    size_t all = kind->of_lock ? j->s->keys->lock_count : j->s->keys->queue_count, count = 0;
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
    char used[UNITS_TEXT_SIZE], most[UNITS_TEXT_SIZE];
    if (view->memory_most <= 0 || (double)view->memory_used * 100 < (double)view->memory_most * MEMORY_PERCENT) return;
    bool full = view->memory_used >= view->memory_most;
    say(j, full ? STATUS_FAULT : STATUS_WARNING, "redis_full",
        mem_printf("Redis uses %s of its maxmemory, %s", size_text(view->memory_used, used), size_text(view->memory_most, most)),
        "A full Redis refuses what producers add and what workers take, or evicts jobs if its policy allows that.",
        "Raise maxmemory, or find out what fills it: redis-cli --bigkeys");
}

// What a finding of the preflight means for those that it is about.
static const struct {
    status_severity_t severity;
    const char *why, *next;
} LOOKS[] = {
    [FINDING_WARN] = {STATUS_WARNING, "A promise is weakened.", "Mend what it names"},
    [FINDING_QUEUE] =
        {STATUS_FAULT, "What needs this key is not done for this queue; all else is.",
         "See who writes that key, then rename or delete it, or correct the name in the config; it is tried again every "
         "5 s, without a restart"},
    [FINDING_FAULT] = {STATUS_FAULT, "No instance can begin to lead; one that leads goes on until it ends or loses the lock.",
                       "Mend what it names: rename or delete a key of the wrong type, grant a right that is missing"},
    [FINDING_BARRED] = {STATUS_FAULT, "This queue is not served; the others are.",
                        "Mend what it names; it is looked at again every 5 s, without a restart"},
};

static bool is_asked(const judge_t *j, const status_look_t *look) {
    return look->queue >= j->s->keys->queue_count || !j->wanted || j->wanted[look->queue];
}

// `queues`: indices of looks of this kind that are about queues; none: it is about the server.
static void say_look(const judge_t *j, const status_look_t *look, const size_t *queues, size_t count) {
    buffer_t next = {0};
    buffer_printf(&next, "%s; until then this tells the same again: queue-sidecar check -c ", LOOKS[look->kind].next);
    status_word(&next, j->s->config->path);
    buffer_str(&next, " --redis");
    say(j, LOOKS[look->kind].severity, "preflight", mem_str(look->text), LOOKS[look->kind].why, buffer_text(&next));
    buffer_free(&next);
    status_finding_t *finding = &j->out->items[j->out->count - 1];
    if (count) finding->queues = mem_array(count, sizeof *finding->queues);
    for (size_t i = 0; i < count; i++) finding->queues[finding->queue_count++] = queues[i];
}

// The preflight knows what is wrong. What it finds of many queues is one finding.
static void judge_looks(const judge_t *j) {
    const status_look_t *looks = j->s->looks;
    size_t *queues = mem_array(j->s->look_count + 1, sizeof *queues);
    for (finding_t kind = FINDING_WARN; kind <= FINDING_BARRED; kind++) {
        size_t count = 0, found = 0;
        const status_look_t *first = NULL;
        for (size_t i = 0; i < j->s->look_count; i++) {
            if (looks[i].kind != kind || !is_asked(j, &looks[i])) continue;
            if (looks[i].queue >= j->s->keys->queue_count) {
                say_look(j, &looks[i], NULL, 0);
                continue;
            }
            if (!first) first = &looks[i];
            found++;
            if (count == 0 || queues[count - 1] != looks[i].queue) queues[count++] = looks[i].queue;
        }
        if (count > EACH_MOST) say_look(j, first, queues, count);
        for (size_t i = 0; found && count <= EACH_MOST && i < j->s->look_count; i++)
            if (looks[i].kind == kind && looks[i].queue < j->s->keys->queue_count && is_asked(j, &looks[i]))
                say_look(j, &looks[i], &looks[i].queue, 1);
    }
    free(queues);
}

// What a check of /readyz that is not well means, and where to look.
static void judge_check(const judge_t *j, const status_check_t *check) {
    static const struct {
        const char *name, *why, *next;
        status_severity_t severity;
    } checks[] = {
        {"roles", "That role does nothing until it turns again.",
         "Look at its log and at what that role waits for (a disk, a name server); if it lasts, restart the instance",
         STATUS_FAULT},
        {"queues", "What is refused is not done for them; it leads or stands by all the same.",
         "Mend what is said of these queues above, or by: queue-sidecar check --redis", STATUS_FAULT},
        {"wakeups", "Jobs come late by up to that time.", "Give it the rights under \"Least privilege\" in docs/acl.md",
         STATUS_WARNING},
        {"audit", "Its copies of final failures wait; Redis keeps the records meanwhile.", "Mend what it names; its log has more",
         STATUS_FAULT},
    };
    const char *why = "It may neither lead nor stand by.", *next = "Mend what it names; its log has more";
    const status_log_t *log = &j->s->log;
    status_severity_t severity = STATUS_FAULT;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (strcmp(check->name, checks[i].name) == 0) why = checks[i].why, next = checks[i].next, severity = checks[i].severity;
    bool known = strcmp(check->name, "audit") == 0 && !log->there && *log->why;
    say(j, severity, "not_ready",
        mem_printf("the instance here is not well (%s): %s%s%s", check->name, check->why, known ? ". Here it is: " : "",
                   known ? log->why : ""),
        why, next);
}

static void judge_here(const judge_t *j) {
    const status_here_t *here = &j->s->here;
    if (!here->asked) return;
    if (here->mute) {
        say(j, STATUS_WARNING, "mute", mem_printf("the instance here does not answer on http.port: %s", here->why),
            "It is stopped, hangs, or gets no processor time; or something else has that port.",
            "Look at the process (state T is stopped: kill -CONT); if it lasts, restart it; if it led, another instance takes "
            "over");
        return;
    }
    if (here->another) {
        say(j, STATUS_WARNING, "another", mem_printf("on http.port %s", here->why),
            "Nothing is known of an instance of ours here, and whoever probes that port asks the other one.",
            "Give each program of a machine a port of its own; if the group was changed, restart the instance");
        return;
    }
    if (!here->answered) {
        say(j, STATUS_NOTE, "no_answer", mem_printf("no instance answers here on http.port: %s", here->why),
            "Nothing is known of an instance on this machine.", "Nothing, if none runs here; else look at its log");
        return;
    }
    for (size_t i = 0; i < here->count; i++) {
        const status_check_t *check = &here->checks[i];
        if (check->ok) continue;
        if (strcmp(check->name, "config") == 0)
            say(j, STATUS_FAULT, "config_refused", mem_printf("the instance here refuses the newest config: %s", check->why),
                "It goes on with the config that it had.",
                "Mend the file (queue-sidecar check names each fault); it is read again by itself, or at SIGHUP");
        else
            judge_check(j, check);
    }
}

static void judge_log(const judge_t *j) {
    const status_log_t *log = &j->s->log;
    char count[UNITS_TEXT_SIZE];
    if (!log->there && !log->absent && *log->why)
        say(j, STATUS_NOTE, "log_unreadable", mem_printf("the audit log here cannot be read: %s", log->why),
            "Failures are counted from the failure streams; `audit` commands do not work here.",
            "Run this as the user of the sidecar; if that is who you are, mend what it names");
    if (!log->there || log->open_gaps <= 0) return;
    say(j, STATUS_NOTE, "gaps",
        mem_printf("the audit log here has %s %s: it was lost, or records were trimmed before it had them",
                   status_number(log->open_gaps, count), log->open_gaps == 1 ? "gap" : "gaps"),
        "Final failures of that time may be missing here; other instances may have them.",
        "queue-sidecar audit list --kind gap names them; a peer's log fills it: queue-sidecar audit import FILE");
}

static void judge_clocks(const judge_t *j) {
    int64_t apart = llabs(j->s->wall_ms - j->s->view.now_ms);
    char text[UNITS_TEXT_SIZE];
    if (apart <= CLOCKS_MS || j->s->view.now_ms <= 0) return; // 0: Redis does not tell
    say(j, STATUS_NOTE, "clocks", mem_printf("the clocks of Redis and of this machine are %s apart", duration_text(apart, text)),
        "Jobs fall due by Redis's clock; a producer or a log with the other one seems early or late.", "Set the wrong one (NTP)");
}

static void judge_reach(const judge_t *j) {
    say(j, STATUS_FAULT, "redis_unreachable", mem_printf("Redis at %s: %s", j->s->target, j->s->error.text),
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
    if (!status->reached) return status->error.outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    return findings->faults + findings->warnings ? CLI_FAILED : CLI_OK;
}
