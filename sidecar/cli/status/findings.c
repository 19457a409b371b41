// Turns the facts of `status` into findings. Pure.
#include <stdlib.h>
#include <string.h>

#include "base/text/units.h"
#include "cli/status/checks.h"

enum {
    CLOCK_OFFSET_MS = 60000, // between Redis and this machine
    MEMORY_PERCENT = 95,     // of maxmemory
    SEPARATE_MAX = 3,        // queues with the same trouble that get a finding each; more of them share one
};

typedef struct diagnosis {
    const status_t *s;
    const bool *wanted; // by queue; NULL = all
    status_findings_t *out;
} diagnosis_t;

// One queue or lock with some trouble.
typedef struct match {
    size_t index;
    int64_t weight; // the heaviest comes first
    char *what;     // owned
} match_t;

// ---- Making a finding.

void shell_word(buffer_t *out, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/@%+,=";
    bool quoted = !*text || *text == '-' || text[strspn(text, plain)];
    if (quoted) buffer_str(out, "'");
    for (; *text; text++) buffer_printf(out, *text == '\'' ? "'\\'%c" : "%c", *text);
    if (quoted) buffer_str(out, "'");
}

// Adds the value of a {place} in a text about this queue and lock.
static void findings_fill(const status_t *s, const char *place, size_t queue, size_t lock, buffer_t *out) {
    if (strncmp(place, "{config}", 8) == 0) shell_word(out, s->config->path);
    if (strncmp(place, "{queue}", 7) == 0) shell_word(out, s->keys->queues[queue].config->name);
    if (strncmp(place, "{failures}", 10) == 0) shell_word(out, s->keys->queues[queue].failures);
    if (strncmp(place, "{delayed}", 9) == 0) shell_word(out, s->keys->queues[queue].config->delayed);
    if (strncmp(place, "{lock}", 6) == 0) shell_word(out, s->keys->locks[lock].key);
    if (strncmp(place, "{leader}", 8) == 0) buffer_str(out, status_leader(&s->snapshot.locks[lock]));
}

// Owned.
static char *findings_filled(const status_t *s, const char *text, size_t queue, size_t lock) {
    buffer_t out = {0};
    const char *open;
    for (; (open = strchr(text, '{')); text = strchr(open, '}') + 1) {
        buffer_add(&out, text, (size_t)(open - text));
        findings_fill(s, open, queue, lock, &out);
    }
    buffer_str(&out, text);
    return out.data;
}

// Adds a finding about a queue, a lock, or neither. Takes `what`.
static status_finding_t *findings_add(const diagnosis_t *d, const status_meaning_t *meaning, char *what, size_t queue,
                                      size_t lock) {
    status_findings_t *out = d->out;
    out->items = mem_grown(out->items, out->count, sizeof *out->items);
    out->faults += meaning->severity == STATUS_FAULT;
    out->warnings += meaning->severity == STATUS_WARNING;
    out->notes += meaning->severity == STATUS_NOTE;
    status_finding_t *finding = &out->items[out->count++];
    *finding = (status_finding_t){.severity = meaning->severity,
                                  .code = meaning->code,
                                  .what = what,
                                  .why = findings_filled(d->s, meaning->why, queue, lock),
                                  .next = findings_filled(d->s, meaning->next, queue, lock)};
    return finding;
}

// Adds a finding about no queue and no lock. Takes `what`.
static void findings_say(const diagnosis_t *d, status_severity_t severity, const char *code, char *what, const char *why,
                         const char *next) {
    findings_add(d, &(status_meaning_t){severity, code, why, next}, what, 0, 0);
}

static int findings_by_weight(const void *a, const void *b) {
    const match_t *one = a, *other = b;
    if (one->weight != other->weight) return one->weight < other->weight ? 1 : -1;
    return one->index == other->index ? 0 : one->index < other->index ? -1 : 1;
}

// One finding about all of these queues, with the words of the first.
static void findings_add_queues(const diagnosis_t *d, const status_meaning_t *meaning, const match_t *matches, size_t count) {
    const size_t first = matches->index;
    status_finding_t *finding = findings_add(d, meaning, mem_str(matches->what), first, d->s->keys->queues[first].lock);
    finding->queues = mem_array(count, sizeof *finding->queues);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || matches[i].index != matches[i - 1].index) finding->queues[finding->queue_count++] = matches[i].index;
}

// A finding for each match, or one for all where there are many queues. Takes the `what` of each.
static void findings_add_matches(const diagnosis_t *d, const status_meaning_t *meaning, match_t *matches, size_t count,
                                 bool of_queues) {
    size_t queues = 0;
    qsort(matches, count, sizeof *matches, findings_by_weight);
    for (size_t i = 0; i < count; i++) queues += i == 0 || matches[i].index != matches[i - 1].index;
    if (of_queues && queues > SEPARATE_MAX)
        findings_add_queues(d, meaning, matches, count);
    else
        for (size_t i = 0; i < count; i++)
            if (of_queues)
                findings_add_queues(d, meaning, &matches[i], 1);
            else
                findings_add(d, meaning, mem_str(matches[i].what), 0, matches[i].index);
    for (size_t i = 0; i < count; i++) free(matches[i].what);
}

// ---- Queues and locks.

static void findings_of_check(const diagnosis_t *d, const status_check_t *check) {
    const keyspace_t *keys = d->s->keys;
    bool of_queues = !check->of_lock || d->s->config->lock.scope == LOCK_SCOPE_QUEUE; // a lock then has the index of its queue
    size_t all = check->of_lock ? keys->lock_count : keys->queue_count, count = 0;
    match_t *matches = mem_array(all + 1, sizeof *matches);
    for (size_t i = 0; i < all; i++) {
        buffer_t what = {0};
        if (of_queues && d->wanted && !d->wanted[i]) continue;
        int64_t weight = check->find(d->s, i, &what);
        if (weight) matches[count++] = (match_t){i, weight, mem_str(buffer_text(&what))};
        buffer_free(&what);
    }
    findings_add_matches(d, &check->meaning, matches, count, of_queues);
    free(matches);
}

#define UNTIL_THEN "; until then it is also in: queue-sidecar check -c {config} --redis"

static const status_meaning_t findings_preflight[] = {
    [PREFLIGHT_WARNING] = {STATUS_WARNING, "preflight", "A promise is weakened.",
                           "Repair the named key, right or setting" UNTIL_THEN},
    [PREFLIGHT_QUEUE_REFUSED] =
        {STATUS_FAULT, "preflight", "Work that needs this key stops for this queue; all other work goes on.",
         "Find out who writes this key, then rename or delete it, or correct the name in the config. The leader "
         "tries again every 5 s, without a restart" UNTIL_THEN},
    [PREFLIGHT_REFUSED] =
        {STATUS_FAULT, "preflight",
         "No instance can become leader. A leader that already leads goes on until it ends or loses the lock.",
         "Repair the named key, right or setting: rename or delete a key of the wrong type, grant a missing right" UNTIL_THEN},
    [PREFLIGHT_QUEUE_DISABLED] =
        {STATUS_FAULT, "preflight", "This queue is not served; the others are.",
         "Repair the named key, right or setting. The leader checks again every 5 s, without a restart" UNTIL_THEN},
};

static void findings_of_preflight(const diagnosis_t *d, preflight_level_t kind) {
    size_t count = 0;
    match_t *matches = mem_array(d->s->preflight_count + 1, sizeof *matches);
    for (size_t i = 0; i < d->s->preflight_count; i++) {
        const status_preflight_t *result = &d->s->preflight[i];
        if (result->kind != kind) continue;
        if (result->queue >= d->s->keys->queue_count)
            findings_add(d, &findings_preflight[kind], mem_str(result->text), 0, 0);
        else if (!d->wanted || d->wanted[result->queue])
            matches[count++] = (match_t){.index = result->queue, .what = mem_str(result->text)};
    }
    findings_add_matches(d, &findings_preflight[kind], matches, count, true);
    free(matches);
}

// ---- The server, the clocks, and this machine.

static void findings_of_memory(const diagnosis_t *d) {
    const snapshot_t *snapshot = &d->s->snapshot;
    if (snapshot->memory_most <= 0 || (double)snapshot->memory_used * 100 < (double)snapshot->memory_most * MEMORY_PERCENT)
        return;
    findings_say(d, snapshot->memory_used >= snapshot->memory_most ? STATUS_FAULT : STATUS_WARNING, "redis_full",
                 mem_printf("Redis uses %s of its maxmemory, %s", size_text(snapshot->memory_used).text,
                            size_text(snapshot->memory_most).text),
                 "A full Redis refuses writes of producers and workers, or evicts jobs if its policy allows that.",
                 "Raise maxmemory, or find out what fills it: redis-cli --bigkeys");
}

static void findings_of_clocks(const diagnosis_t *d) {
    int64_t apart = llabs(d->s->wall_ms - d->s->snapshot.now_ms);
    if (apart <= CLOCK_OFFSET_MS || d->s->snapshot.now_ms <= 0) return; // 0: Redis does not tell its time
    findings_say(d, STATUS_NOTE, "clocks",
                 mem_printf("the clocks of Redis and of this machine are %s apart", duration_text(apart).text),
                 "Jobs fall due by Redis's clock; a producer or a log with the other clock seems early or late.",
                 "Set the wrong clock (NTP)");
}

static void findings_of_connection(const diagnosis_t *d) {
    findings_say(d, STATUS_FAULT, "redis_unreachable", mem_printf("Redis at %s: %s", d->s->target, d->s->error.text),
                 "The state of the queues is unknown. An instance that has lost Redis can do nothing either.",
                 "See that Redis runs, and that the section `redis` of the config has the right address, user and password");
}

// A failed check of /readyz.
static void findings_of_local_check(const diagnosis_t *d, const local_check_t *check) {
    static const struct {
        const char *name;
        status_meaning_t meaning;
    } known[] = {
        {"roles",
         {STATUS_FAULT, "not_ready", "This role works again only after its tick returns.",
          "Look at its log and at what that role waits for (a disk, a name server); if it lasts, restart the instance"}},
        {"queues",
         {STATUS_FAULT, "not_ready", "Redis refuses some work on these queues; the instance leads or stands by all the same.",
          "Mend the findings about these queues above, or those of: queue-sidecar check --redis"}},
        {"wakeups",
         {STATUS_WARNING, "not_ready", "Jobs come late by up to that time.",
          "Grant the rights under \"Least privilege\" in docs/acl.md"}},
        {"audit",
         {STATUS_FAULT, "not_ready", "Its audit log lacks the newest records; they wait in Redis.",
          "Repair the named key, right or setting; its log has more"}},
        {"",
         {STATUS_FAULT, "not_ready", "It can neither lead nor stand by.",
          "Repair the named key, right or setting; its log has more"}},
    };
    const status_log_t *log = &d->s->log;
    bool known_here = strcmp(check->name, "audit") == 0 && !log->readable && *log->why;
    size_t i = 0;
    while (*known[i].name && strcmp(check->name, known[i].name) != 0) i++;
    findings_add(d, &known[i].meaning,
                 mem_printf("the instance here is not ready (%s): %s%s%s", check->name, check->why,
                            known_here ? ". Here it is: " : "", known_here ? log->why : ""),
                 0, 0);
}

static void findings_of_local_instance(const diagnosis_t *d) {
    const local_instance_t *here = &d->s->local;
    if (!here->asked) return;
    if (here->unresponsive)
        findings_say(d, STATUS_WARNING, "mute", mem_printf("the instance here does not answer on http.port: %s", here->why),
                     "It is stopped, hangs, or gets no processor time; or another program has that port.",
                     "Look at the process (state T is stopped: kill -CONT). If it lasts, restart it; if it led, another instance "
                     "takes over");
    else if (here->unrelated)
        findings_say(d, STATUS_WARNING, "another", mem_printf("on http.port %s", here->why),
                     "The state of our own instance is unknown, and probes of that port ask the other one.",
                     "Give each program of a machine a port of its own; if the group was changed, restart the instance");
    else if (!here->answered)
        findings_say(d, STATUS_NOTE, "no_answer", mem_printf("no instance answers here on http.port: %s", here->why),
                     "The state of an instance on this machine is unknown.",
                     "If none runs here, do nothing. Otherwise look at its log");
    for (size_t i = 0; here->answered && i < here->count; i++) {
        const local_check_t *check = &here->checks[i];
        if (!check->ok && strcmp(check->name, "config") == 0)
            findings_say(
                d, STATUS_FAULT, "config_refused", mem_printf("the instance here refuses the newest config: %s", check->why),
                "It continues with its previous config.",
                "Mend the file; queue-sidecar check names each fault. The instance reads it again by itself, or at SIGHUP");
        else if (!check->ok)
            findings_of_local_check(d, check);
    }
}

static void findings_of_log(const diagnosis_t *d) {
    const status_log_t *log = &d->s->log;
    if (!log->readable && !log->absent && *log->why)
        findings_say(d, STATUS_NOTE, "log_unreadable", mem_printf("the audit log here cannot be read: %s", log->why),
                     "Failures are counted from the failure streams, and `audit` commands do not work here.",
                     "Run this as the user of the sidecar; if you are that user, mend what it names");
    if (!log->readable || log->open_gaps <= 0) return;
    findings_say(d, STATUS_NOTE, "gaps",
                 mem_printf("the audit log here has %s %s: it was lost, or Redis trimmed records before it had them",
                            count_text(log->open_gaps).text, log->open_gaps == 1 ? "gap" : "gaps"),
                 "Final failures of that time may be missing here; other instances may have them.",
                 "List the gaps: queue-sidecar audit list --kind gap. Fill them from the log of another instance: queue-sidecar "
                 "audit import FILE");
}

// Not by qsort, which is not stable: within a severity the checks come in the order in which to act.
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
        for (preflight_level_t kind = PREFLIGHT_WARNING; kind <= PREFLIGHT_QUEUE_DISABLED; kind++)
            findings_of_preflight(&d, kind);
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
