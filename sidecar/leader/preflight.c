#include "leader/preflight.h"

#include "base/buffer.h"
#include "base/condition.h"
#include "base/log.h"
#include "inspect/preflight.h"

enum {
    RECHECK_S = 5, // between two rechecks of faulty queues
    CHECK_S = 60,  // between two whole preflights while none allows to lead
};

static const char ROLE[] = "leader";

// The faults of one queue. The check under way appends to the *_found texts.
typedef struct queue_faults {
    condition_t disabled;
    condition_t wrong_keys;
    buffer_t disabled_found;
    buffer_t wrong_keys_found;
} queue_faults_t;

struct preflight_results {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    queue_faults_t *faults; // of each queue; owned
    int64_t general;        // faults of the last whole check that concern no single queue; > 0: must not lead
    int64_t told;           // of all faults in the metric, which the leaders of other shards share: those of this one
    int64_t general_found;  // the same, in the check under way
    mono_t recheck_at;      // when the next recheck may run
    mono_t check_at;        // when the next whole check may run
};

preflight_results_t *preflight_results_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    preflight_results_t *results = mem_alloc(sizeof *results);
    *results = (preflight_results_t){.keys = keys, .leases = leases, .metrics = metrics};
    results->faults = mem_array(keys->queue_count, sizeof *results->faults);
    return results;
}

static void preflight_begin(preflight_results_t *results) {
    results->recheck_at = mono_add(mono_now(), RECHECK_S * NS_PER_S);
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        buffer_free(&results->faults[i].disabled_found);
        buffer_free(&results->faults[i].wrong_keys_found);
    }
}

void preflight_results_free(preflight_results_t *results) {
    if (!results) return;
    metric_add(&results->metrics->preflight_faults, -results->told);
    preflight_begin(results);
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        condition_free(&results->faults[i].disabled);
        condition_free(&results->faults[i].wrong_keys);
    }
    free(results->faults);
    free(results);
}

static const char *preflight_queue_name(const preflight_results_t *results, size_t queue) {
    return results->keys->queues[queue].config->name;
}

static void preflight_note_queue(const preflight_results_t *results, preflight_level_t finding, const char *queue,
                                 const char *text) {
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        if (strcmp(preflight_queue_name(results, i), queue) != 0) continue;
        queue_faults_t *faults = &results->faults[i];
        buffer_t *found = finding == PREFLIGHT_QUEUE_REFUSED ? &faults->wrong_keys_found : &faults->disabled_found;
        buffer_printf(found, "%s%s", found->len ? "; " : "", text);
    }
}

static void preflight_note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    preflight_results_t *results = self;
    switch (finding) {
    case PREFLIGHT_NOTE:
    case PREFLIGHT_FACT: log_debug(ROLE, queue, "preflight", F_STR("reason", text)); break;
    case PREFLIGHT_WARNING: log_warn(ROLE, queue, "preflight warning", F_STR("reason", text)); break;
    case PREFLIGHT_REFUSED:
        log_error(ROLE, queue, "preflight: cannot lead", F_STR("reason", text));
        metrics_say(results->metrics, WHY_REDIS, results->leases, text);
        results->general_found++;
        break;
    case PREFLIGHT_QUEUE_REFUSED:
    case PREFLIGHT_QUEUE_MOVING:
    case PREFLIGHT_QUEUE_DISABLED: preflight_note_queue(results, finding, queue, text); break;
    }
}

// During a recheck, note queues only: the whole preflight has logged all other problems.
static void preflight_note_queues_only(void *self, preflight_level_t finding, const char *queue, const char *text) {
    if (finding >= PREFLIGHT_QUEUE_REFUSED && finding != PREFLIGHT_REFUSED) preflight_note_queue(self, finding, queue, text);
}

// Takes over the faults that were found, logs changes and enables or disables queues.
static void preflight_adopt(preflight_results_t *results) {
    int64_t count = results->general;
    for (size_t i = 0; i < results->keys->queue_count; i++) {
        queue_faults_t *faults = &results->faults[i];
        const char *queue = preflight_queue_name(results, i);
        condition_change_t disabled = condition_update_reason(&faults->disabled, faults->disabled_found.data);
        condition_change_t keys = condition_update_reason(&faults->wrong_keys, faults->wrong_keys_found.data);
        if (disabled == CONDITION_BEGAN)
            log_error(ROLE, queue, "preflight: queue disabled", F_STR("reason", faults->disabled.reason));
        if (disabled == CONDITION_ENDED) log_info(ROLE, queue, "queue enabled again");
        if (keys == CONDITION_BEGAN)
            log_error(ROLE, queue, "preflight: queue has wrong keys", F_STR("reason", faults->wrong_keys.reason));
        if (keys == CONDITION_ENDED) log_info(ROLE, queue, "queue keys are right again");
        lease_disable_queue(results->leases, i, faults->disabled.holds);
        count += faults->disabled.holds + faults->wrong_keys.holds;
    }
    metric_add(&results->metrics->preflight_faults, count - results->told);
    results->told = count;
}

outcome_t preflight_results_check(preflight_results_t *results, conn_t *conn, redis_error_t *error) {
    preflight_begin(results);
    results->general_found = 0;
    results->check_at = mono_add(mono_now(), CHECK_S * NS_PER_S);
    outcome_t outcome = preflight(&(preflight_call_t){conn, results->keys, preflight_note, results, error});
    if (outcome != OUTCOME_OK) return outcome;
    results->general = results->general_found;
    preflight_adopt(results);
    return OUTCOME_OK;
}

bool preflight_results_allow(const preflight_results_t *results) { return results->general == 0; }

bool preflight_results_check_due(const preflight_results_t *results, mono_t now) {
    return results->general && mono_reached(results->check_at, now);
}

static bool preflight_suspects(const preflight_results_t *results, size_t queue) {
    return results->faults[queue].wrong_keys.holds || lease_was_refused(results->leases, queue);
}

mono_t preflight_results_recheck_at(const preflight_results_t *results) {
    for (size_t i = 0; i < results->keys->queue_count; i++)
        if (results->faults[i].disabled.holds || preflight_suspects(results, i)) return results->recheck_at;
    return mono_never();
}

outcome_t preflight_results_recheck(preflight_results_t *results, conn_t *conn, redis_error_t *error) {
    size_t count = results->keys->queue_count;
    bool *disabled = mem_array(count, sizeof *disabled), *suspected = mem_array(count, sizeof *suspected);
    for (size_t i = 0; i < count; i++) {
        disabled[i] = results->faults[i].disabled.holds;
        suspected[i] = preflight_suspects(results, i);
    }
    preflight_begin(results);
    const preflight_call_t call = {conn, results->keys, preflight_note_queues_only, results, error};
    outcome_t outcome = preflight_again(&call, suspected, disabled);
    if (outcome == OUTCOME_OK) preflight_adopt(results);
    free(suspected);
    free(disabled);
    return outcome;
}
