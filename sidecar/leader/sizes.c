#include "leader/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "inspect/sizes.h"

enum {
    PERIOD_S = 5,       // between two counts of all queues
    PERIOD_TIMES = 50,  // and so many times as long as one took,
    PERIOD_MOST_S = 30, // but never so long that numbers are not told any more
    STEP_MOST = 50,     // queues of one step
    STEP_FIRST = 4,     // of the first one: nobody knows what it costs to look at their heads
    STEP_SHORT_US = 1000,
    STEP_LONG_US = 4000,
};

static const char ROLE[] = "leader";

struct counting {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    metrics_queue_t **places; // of each queue; owned
    bool *ceded;              // of each queue: another group counts it; owned
    char **said;              // of each queue: the fault that was said; NULL = none. Owned
    size_t from;              // the queue that the next step begins with
    size_t step;              // queues that it takes
    mono_t at;                // when the next step is wanted
    int64_t took_ns;          // by the count under way
};

counting_t *counting_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    counting_t *c = mem_alloc(sizeof *c);
    *c = (counting_t){.keys = keys, .leases = leases, .metrics = metrics, .step = STEP_FIRST};
    c->places = mem_array(keys->queue_count, sizeof *c->places);
    c->ceded = mem_array(keys->queue_count, sizeof *c->ceded);
    c->said = mem_array(keys->queue_count, sizeof *c->said);
    for (size_t i = 0; i < keys->queue_count; i++) c->places[i] = metrics_queue(metrics, keys->queues[i].config->name);
    return c;
}

void counting_free(counting_t *c) {
    if (!c) return;
    for (size_t i = 0; i < c->keys->queue_count; i++) free(c->said[i]);
    free(c->said);
    free(c->ceded);
    free(c->places);
    free(c);
}

void counting_forget(counting_t *c, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) counting_cede(c, i, false);
}

void counting_cede(counting_t *c, size_t queue, bool ceded) {
    c->ceded[queue] = ceded;
    metric_set(&c->places[queue]->counted_ns, 0);
}

static bool leads(const counting_t *c, size_t queue) {
    lease_t lease;
    return !c->ceded[queue] && lease_get(c->leases, c->keys->queues[queue].lock, &lease);
}

static bool leads_any(const counting_t *c) {
    lease_t lease;
    for (size_t i = 0; i < c->keys->lock_count; i++)
        if (lease_get(c->leases, i, &lease)) return true;
    return false;
}

mono_t counting_next(const counting_t *c) {
    return metrics_wanted(c->metrics, mono_now()) && leads_any(c) ? c->at : mono_never();
}

static void say(counting_t *c, size_t queue, const char *error) {
    const char *name = c->keys->queues[queue].config->name;
    char **said = &c->said[queue];
    if (*error) metric_add(&c->places[queue]->faults, 1);
    if (strcmp(*said ? *said : "", error) == 0) return;
    if (*error)
        log_warn(ROLE, name, "some sizes of this queue are not known", F_STR("reason", error));
    else
        log_info(ROLE, name, "all sizes of this queue are known again");
    free(*said);
    *said = *error ? mem_str(error) : NULL;
}

// In ms; INT64_MAX = nothing is due.
static int64_t due_since(const census_t *census) {
    if (census->delayed < 0) return CENSUS_UNKNOWN;
    return census->delayed == 0 ? INT64_MAX : census->next_due_ms;
}

// Where passes are made they know it, and at no cost.
static int64_t running_since(const census_t *census, int64_t in_progress, const metrics_queue_t *place) {
    int64_t by_pass = metric_get(&place->in_progress_since_ms);
    if (in_progress == 0) return INT64_MAX;
    if (census->oldest_in_progress_ms >= 0) return census->oldest_in_progress_ms;
    return by_pass > 0 ? by_pass : CENSUS_UNKNOWN;
}

static void tell(const counting_t *c, size_t queue, const census_t *census, mono_t now) {
    metrics_queue_t *place = c->places[queue];
    int64_t in_progress = census->in_progress;
    int64_t most = c->keys->config->stream.max_bytes;
    // Workers' own lists are counted by passes alone.
    if (in_progress < 0 && !*census->error && metric_get(&place->passes) > 0) in_progress = metric_get(&place->in_progress);
    metric_set(&place->delayed_jobs, census->delayed);
    metric_set(&place->ready_jobs, census->ready);
    metric_set(&place->in_progress_jobs, in_progress);
    metric_set(&place->next_due_ms, census->next_due_ms == INT64_MAX ? CENSUS_UNKNOWN : census->next_due_ms);
    metric_set(&place->due_since_ms, due_since(census));
    metric_set(&place->running_since_ms, running_since(census, in_progress, place));
    metric_set(&place->stream_records, census->records);
    metric_set(&place->stream_bytes, census->record_bytes);
    metric_set(&place->stream_full_percent, census->record_bytes < 0 || most <= 0
                                                ? CENSUS_UNKNOWN
                                                : (int64_t)((double)census->record_bytes * 100 / (double)most));
    if (census->now_ms > 0) metric_set(&c->metrics->redis_ahead_ms, census->now_ms - now.ns / NS_PER_MS);
    metric_set(&place->counted_ns, now.ns);
}

// When to go on, and with how many queues at once.
static void pace(counting_t *c, mono_t began, mono_t now) {
    int64_t took_ns = mono_diff(now, began);
    c->took_ns += took_ns;
    if (took_ns > STEP_LONG_US * NS_PER_US && c->step > 1) c->step /= 2;
    if (took_ns < STEP_SHORT_US * NS_PER_US) c->step = 2 * c->step < STEP_MOST ? 2 * c->step : STEP_MOST;
    c->at = now;
    if (c->from < c->keys->queue_count) return;
    int64_t pause_ns = PERIOD_TIMES * c->took_ns;
    if (pause_ns < PERIOD_S * NS_PER_S) pause_ns = PERIOD_S * NS_PER_S;
    if (pause_ns > PERIOD_MOST_S * NS_PER_S) pause_ns = PERIOD_MOST_S * NS_PER_S;
    c->at = mono_add(now, pause_ns);
    c->from = 0;
    c->took_ns = 0;
}

outcome_t counting_step(counting_t *c, conn_t *conn, redis_error_t *error) {
    census_t counted[STEP_MOST];
    mono_t began = mono_now();
    *error = (redis_error_t){0};
    if (!mono_reached(counting_next(c), began)) return OUTCOME_OK;
    if (!conn_is_open(conn)) { // who opens it again is not us: its time must not stay in the past
        c->at = mono_add(began, PERIOD_S * NS_PER_S);
        return OUTCOME_OK;
    }
    while (c->from < c->keys->queue_count && !leads(c, c->from)) c->from++;
    size_t count = 0;
    while (count < c->step && c->from + count < c->keys->queue_count && leads(c, c->from + count)) count++;
    if (count && census_take(conn, c->keys, c->from, count, CENSUS_ENDS, counted, error) != OUTCOME_OK) {
        c->at = mono_add(began, PERIOD_S * NS_PER_S);
        return error->outcome;
    }
    mono_t now = mono_now();
    for (size_t i = 0; i < count; i++) {
        tell(c, c->from + i, &counted[i], now);
        say(c, c->from + i, counted[i].error);
    }
    c->from += count;
    pace(c, began, now);
    return OUTCOME_OK;
}
