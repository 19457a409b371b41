#include "leader/preflight.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "inspect/preflight.h"

enum {
    RECHECK_S = 5, // between two rechecks of faulty queues
    CHECK_S = 60,  // between two whole preflights while none allows to lead
};

static const char ROLE[] = "leader";

// The faults of one queue; each owned; NULL = none.
typedef struct reasons {
    char *disabled; // why it is disabled
    char *keys;     // what is wrong with its keys
} reasons_t;

struct preflight_results {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    metrics_queue_t **rows; // of each queue; owned
    reasons_t *known;       // of each queue
    reasons_t *found;       // the same, of the check under way
    int64_t general;        // faults of the last whole check that concern no single queue; with one nobody may lead
    int64_t general_found;  // the same, in the look under way
    mono_t recheck_at;      // when the next recheck may run
    mono_t check_at;        // when the next whole check may run
};

preflight_results_t *preflight_results_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    size_t count = keys->queue_count;
    preflight_results_t *results = mem_alloc(sizeof *results);
    *results = (preflight_results_t){.keys = keys, .leases = leases, .metrics = metrics};
    results->rows = mem_array(count, sizeof *results->rows);
    results->known = mem_array(count, sizeof *results->known);
    results->found = mem_array(count, sizeof *results->found);
    for (size_t i = 0; i < count; i++) results->rows[i] = metrics_queue(metrics, keys->queues[i].config->name);
    return results;
}

static void preflight_forget(const preflight_results_t *results, reasons_t *reasons) {
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        free(reasons[i].disabled);
        free(reasons[i].keys);
        reasons[i] = (reasons_t){0};
    }
}

void preflight_results_free(preflight_results_t *results) {
    if (!results) return;
    preflight_forget(results, results->known);
    preflight_forget(results, results->found);
    free(results->rows);
    free(results->known);
    free(results->found);
    free(results);
}

static const char *preflight_queue_name(const preflight_results_t *results, size_t queue) {
    return results->keys->queues[queue].config->name;
}

static void preflight_note_queue(const preflight_results_t *results, preflight_level_t finding, const char *queue,
                                 const char *text) {
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        if (strcmp(preflight_queue_name(results, i), queue) != 0) continue;
        char **at = finding == PREFLIGHT_QUEUE_DISABLED ? &results->found[i].disabled : &results->found[i].keys;
        char *before = *at;
        *at = before ? mem_printf("%s; %s", before, text) : mem_str(text);
        free(before);
    }
}

static void preflight_note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    preflight_results_t *results = self;
    switch (finding) {
    case PREFLIGHT_FACT: log_debug(ROLE, queue, "preflight", F_STR("reason", text)); break;
    case PREFLIGHT_WARNING: log_warn(ROLE, queue, "preflight warning", F_STR("reason", text)); break;
    case PREFLIGHT_REFUSED:
        log_error(ROLE, queue, "preflight: cannot lead", F_STR("reason", text));
        metrics_say(results->metrics, WHY_REDIS, text);
        results->general_found++;
        break;
    case PREFLIGHT_QUEUE_REFUSED:
    case PREFLIGHT_QUEUE_DISABLED: preflight_note_queue(results, finding, queue, text); break;
    }
}

// During a recheck, note queues only: the whole preflight has told the rest.
static void preflight_note_queues_only(void *self, preflight_level_t finding, const char *queue, const char *text) {
    if (finding == PREFLIGHT_QUEUE_REFUSED || finding == PREFLIGHT_QUEUE_DISABLED)
        preflight_note_queue(self, finding, queue, text);
}

static bool preflight_differs(const char *a, const char *b) { return a && (!b || strcmp(a, b) != 0); }

// Logs each reason once, until it changes.
static void preflight_log_changes(const char *queue, const reasons_t *known, const reasons_t *found) {
    if (preflight_differs(found->disabled, known->disabled))
        log_error(ROLE, queue, "preflight: queue disabled", F_STR("reason", found->disabled));
    if (known->disabled && !found->disabled) log_info(ROLE, queue, "queue enabled again");
    if (preflight_differs(found->keys, known->keys))
        log_error(ROLE, queue, "preflight: queue has wrong keys", F_STR("reason", found->keys));
    if (known->keys && !found->keys) log_info(ROLE, queue, "queue keys are right again");
}

// Replaces the known reasons with the found ones, logs changes and enables or disables queues.
static void preflight_adopt(preflight_results_t *results) {
    reasons_t *known = results->known;
    results->known = results->found;
    results->found = known;
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        preflight_log_changes(preflight_queue_name(results, i), &known[i], &results->known[i]);
        lease_disable_queue(results->leases, i, results->known[i].disabled != NULL);
    }
    preflight_forget(results, known);
}

static void preflight_publish(const preflight_results_t *results) {
    int64_t count = results->general;
    for (size_t i = 0; i < results->keys->queue_count; i++)
        count += (results->known[i].disabled != NULL) + (results->known[i].keys != NULL);
    metric_set(&results->metrics->preflight_faults, count);
}

outcome_t preflight_results_check(preflight_results_t *results, conn_t *conn, redis_error_t *error) {
    mono_t now = mono_now();
    preflight_forget(results, results->found);
    results->general_found = 0;
    results->recheck_at = mono_add(now, RECHECK_S * NS_PER_S);
    results->check_at = mono_add(now, CHECK_S * NS_PER_S);
    outcome_t outcome = preflight(conn, results->keys, preflight_note, results, error);
    if (outcome == OUTCOME_OK) {
        results->general = results->general_found;
        preflight_adopt(results);
    }
    preflight_publish(results);
    return outcome;
}

bool preflight_results_allow(const preflight_results_t *results) { return results->general == 0; }

bool preflight_results_check_due(const preflight_results_t *results, mono_t now) {
    return results->general && mono_reached(results->check_at, now);
}

static bool preflight_suspects(const preflight_results_t *results, size_t queue, mono_t now) {
    return results->known[queue].keys || metrics_is_refused(results->rows[queue], now);
}

mono_t preflight_results_recheck_at(const preflight_results_t *results, mono_t now) {
    for (size_t i = 0; i < results->keys->queue_count; i++)
        if (results->known[i].disabled || preflight_suspects(results, i, now)) return results->recheck_at;
    return mono_never();
}

outcome_t preflight_results_recheck(preflight_results_t *results, conn_t *conn, redis_error_t *error) {
    mono_t now = mono_now();
    size_t count = results->keys->queue_count;
    bool *disabled = mem_array(count, sizeof *disabled), *suspected = mem_array(count, sizeof *suspected);
    for (size_t i = 0; i < count; i++) {
        disabled[i] = results->known[i].disabled != NULL;
        suspected[i] = preflight_suspects(results, i, now);
    }
    preflight_forget(results, results->found);
    results->recheck_at = mono_add(now, RECHECK_S * NS_PER_S);
    outcome_t outcome = preflight_again(conn, results->keys, suspected, disabled, preflight_note_queues_only, results, error);
    if (outcome == OUTCOME_OK) preflight_adopt(results);
    preflight_publish(results);
    free(suspected);
    free(disabled);
    return outcome;
}
