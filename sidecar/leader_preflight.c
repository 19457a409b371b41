#include "leader_preflight.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "queue/preflight.h"

enum { BARRED_AGAIN_S = 5 };

static const char ROLE[] = "leader";

struct findings {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    char **barred;  // of each queue, why it is not served; NULL = it may be; all owned
    char **found;   // the same, in the look under way
    int64_t others; // faults of the last whole look that bar no queue
    bool forbidden; // to lead
    mono_t again;
};

findings_t *findings_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    findings_t *findings = mem_alloc(sizeof *findings);
    *findings = (findings_t){.keys = keys, .leases = leases, .metrics = metrics, .again = mono_never()};
    findings->barred = mem_array(keys->queue_count, sizeof *findings->barred);
    findings->found = mem_array(keys->queue_count, sizeof *findings->found);
    return findings;
}

static void forget(const findings_t *findings, char **reasons) {
    for (size_t i = 0; i < findings->keys->queue_count; i++) {
        free(reasons[i]);
        reasons[i] = NULL;
    }
}

void findings_free(findings_t *findings) {
    if (!findings) return;
    forget(findings, findings->barred);
    forget(findings, findings->found);
    free(findings->barred);
    free(findings->found);
    free(findings);
}

static const char *queue_name(const findings_t *findings, size_t queue) { return findings->keys->queues[queue].config->name; }

static void note_barred(const findings_t *findings, const char *queue, const char *text) {
    for (size_t i = 0; i < findings->keys->queue_count; i++) {
        if (strcmp(queue_name(findings, i), queue) != 0) continue;
        char *before = findings->found[i];
        findings->found[i] = before ? mem_printf("%s; %s", before, text) : mem_str(text);
        free(before);
    }
}

static void note(void *self, finding_t finding, const char *queue, const char *text) {
    findings_t *findings = self;
    switch (finding) {
    case FINDING_FACT: log_debug(ROLE, queue, "preflight", F_STR("reason", text)); return;
    case FINDING_WARN: log_warn(ROLE, queue, "preflight: a promise is weakened", F_STR("reason", text)); return;
    case FINDING_QUEUE: log_error(ROLE, queue, "preflight: this queue cannot be served", F_STR("reason", text)); break;
    case FINDING_FAULT:
        log_error(ROLE, queue, "preflight: cannot lead", F_STR("reason", text));
        findings->forbidden = true;
        break;
    case FINDING_BARRED: note_barred(findings, queue, text); return;
    }
    findings->others++;
}

// The same of a look at what bars queues: who may lead was told by the whole one.
static void note_again(void *self, finding_t finding, const char *queue, const char *text) {
    if (finding == FINDING_BARRED) note_barred(self, queue, text);
}

// What was found takes the place of what was known. Each reason is said once, until it is another one.
static void take(findings_t *findings, mono_t now) {
    char **known = findings->barred;
    int64_t count = 0;
    findings->barred = findings->found;
    findings->found = known;
    for (size_t i = 0; i < findings->keys->queue_count; i++) {
        const char *why = findings->barred[i];
        if (why && (!known[i] || strcmp(known[i], why) != 0))
            log_error(ROLE, queue_name(findings, i), "preflight: this queue is not served", F_STR("reason", why));
        if (!why && known[i]) log_info(ROLE, queue_name(findings, i), "nothing bars this queue any more: it is served");
        lease_bar(findings->leases, i, why != NULL);
        if (why) count++;
    }
    forget(findings, known);
    findings->again = count ? mono_add(now, BARRED_AGAIN_S * NS_PER_S) : mono_never();
    metric_set(&findings->metrics->preflight_faults, findings->others + count);
}

outcome_t findings_look(findings_t *findings, conn_t *conn, bool *allowed, fault_t *fault) {
    forget(findings, findings->found);
    findings->others = 0;
    findings->forbidden = false;
    outcome_t outcome = preflight(conn, findings->keys, note, findings, fault);
    *allowed = !findings->forbidden;
    metric_set(&findings->metrics->preflight_faults, findings->others);
    if (outcome == OUTCOME_OK) take(findings, mono_now());
    return outcome;
}

mono_t findings_again_at(const findings_t *findings) { return findings->again; }

outcome_t findings_look_again(findings_t *findings, conn_t *conn, fault_t *fault) {
    size_t count = findings->keys->queue_count;
    bool *barred = mem_array(count, sizeof *barred);
    for (size_t i = 0; i < count; i++) barred[i] = findings->barred[i] != NULL;
    forget(findings, findings->found);
    findings->again = mono_add(mono_now(), BARRED_AGAIN_S * NS_PER_S);
    outcome_t outcome = preflight_barred(conn, findings->keys, barred, note_again, findings, fault);
    if (outcome == OUTCOME_OK) take(findings, mono_now());
    free(barred);
    return outcome;
}
