#include "leader/preflight.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "inspect/preflight.h"

enum {
    AGAIN_S = 5,        // between two looks at queues that something is wrong with
    WHOLE_AGAIN_S = 60, // and two whole ones, where it is with all of them
};

static const char ROLE[] = "leader";

// What was found of one queue; owned; NULL = nothing.
typedef struct reasons {
    char *barred; // why it is not served
    char *keys;   // what is wrong with its keys
} reasons_t;

struct findings {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    metrics_queue_t **places; // of each queue; owned
    reasons_t *known;         // of each queue
    reasons_t *found;         // the same, in the look under way
    int64_t others;           // faults of the last whole look that are of no queue: with one nobody may lead
    int64_t others_found;     // the same, in the look under way
    mono_t again;             // when the next look at some queues may come
    mono_t whole_at;          // and the next whole one
};

findings_t *findings_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    size_t count = keys->queue_count;
    findings_t *findings = mem_alloc(sizeof *findings);
    *findings = (findings_t){.keys = keys, .leases = leases, .metrics = metrics};
    findings->places = mem_array(count, sizeof *findings->places);
    findings->known = mem_array(count, sizeof *findings->known);
    findings->found = mem_array(count, sizeof *findings->found);
    for (size_t i = 0; i < count; i++) findings->places[i] = metrics_queue(metrics, keys->queues[i].config->name);
    return findings;
}

static void forget(const findings_t *findings, reasons_t *reasons) {
    for (size_t i = 0; i < findings->keys->queue_count; i++) {
        free(reasons[i].barred);
        free(reasons[i].keys);
        reasons[i] = (reasons_t){0};
    }
}

void findings_free(findings_t *findings) {
    if (!findings) return;
    forget(findings, findings->known);
    forget(findings, findings->found);
    free(findings->places);
    free(findings->known);
    free(findings->found);
    free(findings);
}

static const char *queue_name(const findings_t *findings, size_t queue) { return findings->keys->queues[queue].config->name; }

static void note_queue(const findings_t *findings, finding_t finding, const char *queue, const char *text) {
    for (size_t i = 0; i < findings->keys->queue_count; i++) {
        if (strcmp(queue_name(findings, i), queue) != 0) continue;
        char **at = finding == FINDING_BARRED ? &findings->found[i].barred : &findings->found[i].keys;
        char *before = *at;
        *at = before ? mem_printf("%s; %s", before, text) : mem_str(text);
        free(before);
    }
}

static void note(void *self, finding_t finding, const char *queue, const char *text) {
    findings_t *findings = self;
    switch (finding) {
    case FINDING_FACT: log_debug(ROLE, queue, "preflight", F_STR("reason", text)); break;
    case FINDING_WARN: log_warn(ROLE, queue, "preflight: a promise is weakened", F_STR("reason", text)); break;
    case FINDING_FAULT:
        log_error(ROLE, queue, "preflight: cannot lead", F_STR("reason", text));
        metrics_say(findings->metrics, WHY_REDIS, text);
        findings->others_found++;
        break;
    case FINDING_QUEUE:
    case FINDING_BARRED: note_queue(findings, finding, queue, text); break;
    }
}

// The same of a look at some queues: all else was told by the whole one.
static void note_again(void *self, finding_t finding, const char *queue, const char *text) {
    if (finding == FINDING_QUEUE || finding == FINDING_BARRED) note_queue(self, finding, queue, text);
}

static bool differs(const char *a, const char *b) { return a && (!b || strcmp(a, b) != 0); }

// Each reason is said once, until it is another one.
static void say(const char *queue, const reasons_t *known, const reasons_t *found) {
    if (differs(found->barred, known->barred))
        log_error(ROLE, queue, "preflight: this queue is not served", F_STR("reason", found->barred));
    if (known->barred && !found->barred) log_info(ROLE, queue, "nothing bars this queue any more: it is served");
    if (differs(found->keys, known->keys))
        log_error(ROLE, queue, "preflight: this queue cannot be served", F_STR("reason", found->keys));
    if (known->keys && !found->keys) log_info(ROLE, queue, "nothing is wrong with the keys of this queue any more");
}

// What was found takes the place of what was known.
static void take(findings_t *findings) {
    reasons_t *known = findings->known;
    findings->known = findings->found;
    findings->found = known;
    for (size_t i = 0; i < findings->keys->queue_count; i++) {
        say(queue_name(findings, i), &known[i], &findings->known[i]);
        lease_bar(findings->leases, i, findings->known[i].barred != NULL);
    }
    forget(findings, known);
}

static void tell(const findings_t *findings) {
    int64_t count = findings->others;
    for (size_t i = 0; i < findings->keys->queue_count; i++)
        count += (findings->known[i].barred != NULL) + (findings->known[i].keys != NULL);
    metric_set(&findings->metrics->preflight_faults, count);
}

outcome_t findings_look(findings_t *findings, conn_t *conn, redis_error_t *error) {
    mono_t now = mono_now();
    forget(findings, findings->found);
    findings->others_found = 0;
    findings->again = mono_add(now, AGAIN_S * NS_PER_S);
    findings->whole_at = mono_add(now, WHOLE_AGAIN_S * NS_PER_S);
    outcome_t outcome = preflight(conn, findings->keys, note, findings, error);
    if (outcome == OUTCOME_OK) {
        findings->others = findings->others_found;
        take(findings);
    }
    tell(findings);
    return outcome;
}

bool findings_allow(const findings_t *findings) { return findings->others == 0; }

bool findings_whole_due(const findings_t *findings, mono_t now) {
    return findings->others && mono_reached(findings->whole_at, now);
}

static bool doubtful(const findings_t *findings, size_t queue, mono_t now) {
    return findings->known[queue].keys || metrics_is_refused(findings->places[queue], now);
}

mono_t findings_again_at(const findings_t *findings, mono_t now) {
    for (size_t i = 0; i < findings->keys->queue_count; i++)
        if (findings->known[i].barred || doubtful(findings, i, now)) return findings->again;
    return mono_never();
}

outcome_t findings_look_again(findings_t *findings, conn_t *conn, redis_error_t *error) {
    mono_t now = mono_now();
    size_t count = findings->keys->queue_count;
    bool *barred = mem_array(count, sizeof *barred), *doubted = mem_array(count, sizeof *doubted);
    for (size_t i = 0; i < count; i++) {
        barred[i] = findings->known[i].barred != NULL;
        doubted[i] = doubtful(findings, i, now);
    }
    forget(findings, findings->found);
    findings->again = mono_add(now, AGAIN_S * NS_PER_S);
    outcome_t outcome = preflight_again(conn, findings->keys, doubted, barred, note_again, findings, error);
    if (outcome == OUTCOME_OK) take(findings);
    tell(findings);
    free(doubted);
    free(barred);
    return outcome;
}
