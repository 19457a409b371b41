#include "leader_preflight.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "queue/preflight.h"

static const char ROLE[] = "leader";

// What is found, and what it forbids.
typedef struct findings {
    const keyspace_t *keys;
    metrics_t *metrics;
    bool forbidden; // to lead
    bool *foreign;  // to serve a queue; owned
} findings_t;

static void report(metrics_t *metrics, finding_t finding, const char *queue, const char *text) {
    switch (finding) {
    case FINDING_FACT: log_debug(ROLE, queue, "preflight", F_STR("reason", text)); return;
    case FINDING_WARN: log_warn(ROLE, queue, "preflight: a promise is weakened", F_STR("reason", text)); return;
    case FINDING_QUEUE: log_error(ROLE, queue, "preflight: this queue cannot be served", F_STR("reason", text)); break;
    case FINDING_FAULT: log_error(ROLE, queue, "preflight: cannot lead", F_STR("reason", text)); break;
    case FINDING_FOREIGN: log_error(ROLE, queue, "preflight: this queue is not served", F_STR("reason", text)); break;
    }
    metric_add(&metrics->preflight_faults, 1);
}

static void note_finding(void *self, finding_t finding, const char *queue, const char *text) {
    findings_t *findings = self;
    const keyspace_t *keys = findings->keys;
    if (finding == FINDING_FAULT) findings->forbidden = true;
    for (size_t i = 0; finding == FINDING_FOREIGN && i < keys->queue_count; i++)
        if (strcmp(keys->queues[i].config->name, queue) == 0) findings->foreign[i] = true;
    report(findings->metrics, finding, queue, text);
}

outcome_t leader_preflight(conn_t *conn, const keyspace_t *keys, leases_t *leases, metrics_t *metrics, bool *allowed,
                           fault_t *fault) {
    size_t count = keys->queue_count;
    findings_t findings = {.keys = keys, .metrics = metrics, .foreign = mem_array(count, sizeof *findings.foreign)};
    metric_set(&metrics->preflight_faults, 0);
    outcome_t outcome = preflight(conn, keys, note_finding, &findings, fault);
    *allowed = !findings.forbidden;
    for (size_t i = 0; outcome == OUTCOME_OK && i < count; i++) lease_bar(leases, i, findings.foreign[i]);
    free(findings.foreign);
    return outcome;
}
