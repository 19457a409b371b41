// What is wrong, why it matters and how to mend it: made of what was read, and of nothing else.
#include <stdlib.h>
#include <string.h>

#include "cli/status/checks.h"
#include "cli/status/units.h"

enum {
    CLOCK_OFFSET_MS = 60000, // between Redis and this machine
    MEMORY_PERCENT = 95,     // of maxmemory
    SEPARATE_MAX = 3,        // queues with the same trouble that get a finding each
};

typedef struct diagnosis {
    const status_t *s;
    const bool *wanted;
    status_findings_t *out;
} diagnosis_t;

// ---- From kinds to findings.

static void findings_fill_template(buffer_t *out, const char *text, const status_t *s, const status_check_t *check,
                                   size_t index) {
    size_t lock = check->of_lock ? index : s->keys->queues[index].lock;
    const char *open;
    for (; (open = strchr(text, '{')); text = strchr(open, '}') + 1) {
        buffer_add(out, text, (size_t)(open - text));
        if (strncmp(open, "{queue}", 7) == 0) shell_word(out, s->keys->queues[index].config->name);
        if (strncmp(open, "{config}", 8) == 0) shell_word(out, s->config->path);
        if (strncmp(open, "{lock}", 6) == 0) shell_word(out, s->keys->locks[lock].key);
        if (strncmp(open, "{failures}", 10) == 0) shell_word(out, s->keys->queues[index].failures);
        if (strncmp(open, "{delayed}", 9) == 0) shell_word(out, s->keys->queues[index].config->delayed);
        if (strncmp(open, "{leader}", 8) == 0) buffer_str(out, status_leader(&s->view.locks[lock]));
    }
    buffer_str(out, text);
}

static status_finding_t *findings_add(status_findings_t *out, status_severity_t severity, const char *code) {
    out->items = mem_grown(out->items, out->count, sizeof *out->items);
    out->faults += severity == STATUS_FAULT;
    out->warnings += severity == STATUS_WARNING;
    out->notes += severity == STATUS_NOTE;
    status_finding_t *finding = &out->items[out->count++];
    *finding = (status_finding_t){.severity = severity, .code = code};
    return finding;
}

typedef struct match {
    size_t index;
    int64_t weight;
    char *what; // owned
} match_t;

static int findings_by_weight(const void *a, const void *b) {
    const match_t *one = a, *other = b;
    if (one->weight != other->weight) return one->weight < other->weight ? 1 : -1;
    return one->index < other->index ? -1 : 1;
}

static void findings_add_matches(const diagnosis_t *d, const status_check_t *check, const match_t *matches, size_t count,
                                 bool of_queues) {
    status_finding_t *finding = findings_add(d->out, check->severity, check->code);
    buffer_t text = {0};
    finding->what = mem_str(matches->what);
    findings_fill_template(&text, check->why, d->s, check, matches->index);
    finding->why = mem_str(buffer_text(&text));
    buffer_clear(&text);
    findings_fill_template(&text, check->next, d->s, check, matches->index);
    finding->next = mem_str(buffer_text(&text));
    buffer_free(&text);
    if (!of_queues) return;
    finding->queues = mem_array(count, sizeof *finding->queues);
    for (size_t i = 0; i < count; i++) finding->queues[finding->queue_count++] = matches[i].index;
}

static void findings_of_check(const diagnosis_t *d, const status_check_t *check) {
    bool of_queues = !check->of_lock || d->s->config->lock.scope == LOCK_SCOPE_QUEUE; // then a lock has the index of its queue
    size_t all = check->of_lock ? d->s->keys->lock_count : d->s->keys->queue_count, count = 0;
    match_t *matches = mem_array(all + 1, sizeof *matches);
    for (size_t i = 0; i < all; i++) {
        buffer_t what = {0};
        int64_t weight = 0;
        if (of_queues && d->wanted && !d->wanted[i]) continue;
        if (check->test(d->s, i, &what, &weight)) matches[count++] = (match_t){i, weight, mem_str(buffer_text(&what))};
        buffer_free(&what);
    }
    qsort(matches, count, sizeof *matches, findings_by_weight);
    for (size_t i = 0; count <= SEPARATE_MAX && i < count; i++) findings_add_matches(d, check, &matches[i], 1, of_queues);
    if (count > SEPARATE_MAX) findings_add_matches(d, check, matches, count, of_queues);
    for (size_t i = 0; i < count; i++) free(matches[i].what);
    free(matches);
}

// ---- What is asked once.

static void findings_say(const diagnosis_t *d, status_severity_t severity, const char *code, char *what, const char *why,
                         const char *next) {
    status_finding_t *finding = findings_add(d->out, severity, code);
    finding->what = what;
    finding->why = mem_str(why);
    finding->next = mem_str(next);
}

static void findings_of_memory(const diagnosis_t *d) {
    const overview_t *view = &d->s->view;
    char used[UNITS_TEXT_SIZE], most[UNITS_TEXT_SIZE];
    if (view->memory_most <= 0 || (double)view->memory_used * 100 < (double)view->memory_most * MEMORY_PERCENT) return;
    bool full = view->memory_used >= view->memory_most;
    findings_say(
        d, full ? STATUS_FAULT : STATUS_WARNING, "redis_full",
        mem_printf("Redis uses %s of its maxmemory, %s", size_text(view->memory_used, used), size_text(view->memory_most, most)),
        "A full Redis refuses what producers add and what workers take, or evicts jobs if its policy allows that.",
        "Raise maxmemory, or find out what fills it: redis-cli --bigkeys");
}

// What a finding of the preflight means for those that it is about.
static const struct {
    status_severity_t severity;
    const char *why, *next;
} preflight_meanings[] = {
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

static bool findings_is_wanted(const diagnosis_t *d, const status_preflight_t *look) {
    return look->queue >= d->s->keys->queue_count || !d->wanted || d->wanted[look->queue];
}

// `queues`: indices of looks of this kind that are about queues; none: it is about the server.
static void findings_say_preflight(const diagnosis_t *d, const status_preflight_t *look, const size_t *queues, size_t count) {
    buffer_t next = {0};
    buffer_printf(&next, "%s; until then this tells the same again: queue-sidecar check -c ",
                  preflight_meanings[look->kind].next);
    shell_word(&next, d->s->config->path);
    buffer_str(&next, " --redis");
    findings_say(d, preflight_meanings[look->kind].severity, "preflight", mem_str(look->text),
                 preflight_meanings[look->kind].why, buffer_text(&next));
    buffer_free(&next);
    status_finding_t *finding = &d->out->items[d->out->count - 1];
    if (count) finding->queues = mem_array(count, sizeof *finding->queues);
    for (size_t i = 0; i < count; i++) finding->queues[finding->queue_count++] = queues[i];
}

// The preflight knows what is wrong. What it finds of many queues is one finding.
static void findings_of_preflight(const diagnosis_t *d) {
    const status_preflight_t *preflight = d->s->preflight;
    size_t *queues = mem_array(d->s->preflight_count + 1, sizeof *queues);
    for (finding_t check = FINDING_WARN; check <= FINDING_BARRED; check++) {
        size_t count = 0, found = 0;
        const status_preflight_t *first = NULL;
        for (size_t i = 0; i < d->s->preflight_count; i++) {
            if (preflight[i].kind != check || !findings_is_wanted(d, &preflight[i])) continue;
            if (preflight[i].queue >= d->s->keys->queue_count) {
                findings_say_preflight(d, &preflight[i], NULL, 0);
                continue;
            }
            if (!first) first = &preflight[i];
            found++;
            if (count == 0 || queues[count - 1] != preflight[i].queue) queues[count++] = preflight[i].queue;
        }
        if (count > SEPARATE_MAX) findings_say_preflight(d, first, queues, count);
        for (size_t i = 0; found && count <= SEPARATE_MAX && i < d->s->preflight_count; i++)
            if (preflight[i].kind == check && preflight[i].queue < d->s->keys->queue_count &&
                findings_is_wanted(d, &preflight[i]))
                findings_say_preflight(d, &preflight[i], &preflight[i].queue, 1);
    }
    free(queues);
}

// What a check of /readyz that is not well means, and where to look.
static void findings_of_local_check(const diagnosis_t *d, const local_check_t *check) {
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
    const status_log_t *log = &d->s->log;
    status_severity_t severity = STATUS_FAULT;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (strcmp(check->name, checks[i].name) == 0) why = checks[i].why, next = checks[i].next, severity = checks[i].severity;
    bool known = strcmp(check->name, "audit") == 0 && !log->there && *log->why;
    findings_say(d, severity, "not_ready",
                 mem_printf("the instance here is not well (%s): %s%s%s", check->name, check->why, known ? ". Here it is: " : "",
                            known ? log->why : ""),
                 why, next);
}

static void findings_of_local_instance(const diagnosis_t *d) {
    const local_instance_t *here = &d->s->here;
    if (!here->asked) return;
    if (here->unresponsive) {
        findings_say(
            d, STATUS_WARNING, "mute", mem_printf("the instance here does not answer on http.port: %s", here->why),
            "It is stopped, hangs, or gets no processor time; or something else has that port.",
            "Look at the process (state T is stopped: kill -CONT); if it lasts, restart it; if it led, another instance takes "
            "over");
        return;
    }
    if (here->unrelated) {
        findings_say(d, STATUS_WARNING, "another", mem_printf("on http.port %s", here->why),
                     "Nothing is known of an instance of ours here, and whoever probes that port asks the other one.",
                     "Give each program of a machine a port of its own; if the group was changed, restart the instance");
        return;
    }
    if (!here->answered) {
        findings_say(d, STATUS_NOTE, "no_answer", mem_printf("no instance answers here on http.port: %s", here->why),
                     "Nothing is known of an instance on this machine.", "Nothing, if none runs here; else look at its log");
        return;
    }
    for (size_t i = 0; i < here->count; i++) {
        const local_check_t *check = &here->checks[i];
        if (check->ok) continue;
        if (strcmp(check->name, "config") == 0)
            findings_say(d, STATUS_FAULT, "config_refused",
                         mem_printf("the instance here refuses the newest config: %s", check->why),
                         "It goes on with the config that it had.",
                         "Mend the file (queue-sidecar check names each fault); it is read again by itself, or at SIGHUP");
        else
            findings_of_local_check(d, check);
    }
}

static void findings_of_log(const diagnosis_t *d) {
    const status_log_t *log = &d->s->log;
    char count[UNITS_TEXT_SIZE];
    if (!log->there && !log->absent && *log->why)
        findings_say(d, STATUS_NOTE, "log_unreadable", mem_printf("the audit log here cannot be read: %s", log->why),
                     "Failures are counted from the failure streams; `audit` commands do not work here.",
                     "Run this as the user of the sidecar; if that is who you are, mend what it names");
    if (!log->there || log->open_gaps <= 0) return;
    findings_say(d, STATUS_NOTE, "gaps",
                 mem_printf("the audit log here has %s %s: it was lost, or records were trimmed before it had them",
                            count_text(log->open_gaps, count), log->open_gaps == 1 ? "gap" : "gaps"),
                 "Final failures of that time may be missing here; other instances may have them.",
                 "queue-sidecar audit list --kind gap names them; a peer's log fills it: queue-sidecar audit import FILE");
}

static void findings_of_clocks(const diagnosis_t *d) {
    int64_t apart = llabs(d->s->wall_ms - d->s->view.now_ms);
    char text[UNITS_TEXT_SIZE];
    if (apart <= CLOCK_OFFSET_MS || d->s->view.now_ms <= 0) return; // 0: Redis does not tell
    findings_say(
        d, STATUS_NOTE, "clocks", mem_printf("the clocks of Redis and of this machine are %s apart", duration_text(apart, text)),
        "Jobs fall due by Redis's clock; a producer or a log with the other one seems early or late.", "Set the wrong one (NTP)");
}

static void findings_of_connection(const diagnosis_t *d) {
    findings_say(d, STATUS_FAULT, "redis_unreachable", mem_printf("Redis at %s: %s", d->s->target, d->s->error.text),
                 "Nothing is known of any queue, and no instance that has lost it can do anything either.",
                 "See that Redis runs, and that address, rights and password in the section `redis` of the config are right");
}

// Stable, as qsort need not be: within a severity the order of the table tells what to look at first.
static void findings_sort(status_findings_t *findings) {
    status_finding_t *sorted = mem_array(findings->count + 1, sizeof *sorted);
    size_t count = 0;
    for (int severity = STATUS_FAULT; severity >= STATUS_NOTE; severity--)
        for (size_t i = 0; i < findings->count; i++)
            if ((int)findings->items[i].severity == severity) sorted[count++] = findings->items[i];
    free(findings->items);
    findings->items = sorted;
}

status_findings_t status_diagnose(const status_t *status, const bool *wanted) {
    status_findings_t out = {0};
    const diagnosis_t d = {.s = status, .wanted = wanted, .out = &out};
    if (status->reached) {
        findings_of_memory(&d);
        findings_of_preflight(&d);
        for (size_t i = 0; i < status_check_count; i++) findings_of_check(&d, &status_checks[i]);
        findings_of_clocks(&d);
    } else {
        findings_of_connection(&d);
    }
    findings_of_local_instance(&d);
    findings_of_log(&d);
    findings_sort(&out);
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
