#include "leader/sizes.h"

#include "base/condition.h"
#include "base/log.h"
#include "inspect/sizes.h"
#include "leader/history.h"
#include "model/anomaly.h"

enum {
    PERIOD_S = 5,      // between two rounds over all queues
    PERIOD_TIMES = 50, // or this multiple of a round's time, if longer
    PERIOD_MAX_S = 30, // but at most this, to keep the numbers fresh
    STEP = 16,         // queues in one step
    TELL_MAX = 64,     // anomalies in one round trip of a tick; the next tick tells the others
    QUIET_S = 60,      // between two counts of ready lists while nobody scrapes
    GROWS_S = 300,     // after so long without a shorter ready list, tell `status`
};

static const char ROLE[] = "leader";

// The time in which no count of the ready list was below the one before.
typedef struct growth {
    mono_t since, counted; // the first and the last count
    int64_t first, last;   // the lengths at these times
} growth_t;

typedef struct counted_queue {
    metrics_queue_t *metrics;
    growth_t growth;
    bool counted_elsewhere; // another group measures this queue
    condition_t error;
} counted_queue_t;

struct queue_sizes {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    counted_queue_t *queues;   // owned
    history_writer_t *history; // owned
    size_t from;               // first queue of the next step
    mono_t at;                 // when the next step is due
    mono_t quiet_at;           // the same while nobody scrapes
    int64_t took_ns;           // spent on the current round
    size_t tell_from;          // first queue whose anomalies the next tick tells
};

queue_sizes_t *queue_sizes_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    queue_sizes_t *c = mem_alloc(sizeof *c);
    *c = (queue_sizes_t){.keys = keys, .leases = leases, .metrics = metrics};
    c->quiet_at = mono_add(mono_now(), keys->config->history == HISTORY_OFF ? QUIET_S * NS_PER_S : 0);
    c->queues = mem_array(keys->queue_count, sizeof *c->queues);
    c->history = history_writer_new(keys, leases, metrics);
    for (size_t i = 0; i < keys->queue_count; i++) c->queues[i].metrics = metrics_queue(metrics, keys->queues[i].config->name);
    return c;
}

void queue_sizes_free(queue_sizes_t *c) {
    if (!c) return;
    for (size_t i = 0; i < c->keys->queue_count; i++) condition_free(&c->queues[i].error);
    history_writer_free(c->history);
    free(c->queues);
    free(c);
}

void queue_sizes_lead(queue_sizes_t *c, size_t queue) { metric_set(&c->queues[queue].metrics->led, 1); }

void queue_sizes_cede(queue_sizes_t *c, size_t queue, bool counted_elsewhere) {
    c->queues[queue].counted_elsewhere = counted_elsewhere;
    metric_set(&c->queues[queue].metrics->counted_ns, 0);
    history_writer_restart(c->history, queue);
}

static bool queue_sizes_leads(const queue_sizes_t *c, size_t queue) {
    lease_t lease;
    return !c->queues[queue].counted_elsewhere && lease_get(c->leases, c->keys->queues[queue].lock, &lease);
}

static bool queue_sizes_leads_any(const queue_sizes_t *c) {
    lease_t lease;
    for (size_t i = 0; i < c->keys->lock_count; i++)
        if (lease_get(c->leases, i, &lease)) return true;
    return false;
}

mono_t queue_sizes_next(const queue_sizes_t *c) {
    if (!queue_sizes_leads_any(c)) return mono_never();
    return metrics_wanted(c->metrics, mono_now()) ? c->at : c->quiet_at;
}

static void queue_sizes_log_error(queue_sizes_t *c, size_t queue, const char *error) {
    const char *name = c->keys->queues[queue].config->name;
    if (*error) metric_add(&c->queues[queue].metrics->faults, 1);
    condition_change_t change = condition_update_reason(&c->queues[queue].error, error);
    if (change == CONDITION_BEGAN) log_warn(ROLE, name, "cannot read some queue sizes", F_STR("reason", error));
    if (change == CONDITION_ENDED) log_info(ROLE, name, "all queue sizes are readable again");
}

// ms by Redis's clock; INT64_MAX = nothing is due.
static int64_t sizes_due_since(const sizes_t *sizes) {
    if (sizes->delayed < 0) return SIZES_UNKNOWN;
    return sizes->delayed == 0 ? INT64_MAX : sizes->next_due_ms;
}

// Without a measured time, use the time that scans have found.
static int64_t sizes_running_since(const sizes_t *sizes, int64_t in_progress, const metrics_queue_t *row) {
    int64_t by_scan = metric_get(&row->in_progress_since_ms);
    if (in_progress == 0) return INT64_MAX;
    if (sizes->oldest_in_progress_ms >= 0) return sizes->oldest_in_progress_ms;
    return by_scan > 0 ? by_scan : SIZES_UNKNOWN;
}

// sizes_read does not count the workers' private lists, but scans do.
static int64_t sizes_in_progress(const sizes_t *sizes, const metrics_queue_t *row) {
    bool by_scan = sizes->in_progress < 0 && sizes->error.outcome == OUTCOME_OK && metric_get(&row->passes) > 0;
    return by_scan ? metric_get(&row->in_progress) : sizes->in_progress;
}

static void queue_sizes_publish(const queue_sizes_t *c, size_t queue, const sizes_t *sizes, mono_t now) {
    metrics_queue_t *row = c->queues[queue].metrics;
    int64_t in_progress = sizes_in_progress(sizes, row);
    int64_t most = c->keys->config->stream.max_bytes;
    metric_set(&row->delayed_jobs, sizes->delayed);
    metric_set(&row->ready_jobs, sizes->ready);
    metric_set(&row->in_progress_jobs, in_progress);
    metric_set(&row->next_due_ms, sizes->next_due_ms == INT64_MAX ? SIZES_UNKNOWN : sizes->next_due_ms);
    metric_set(&row->due_since_ms, sizes_due_since(sizes));
    metric_set(&row->running_since_ms, sizes_running_since(sizes, in_progress, row));
    metric_set(&row->stream_records, sizes->records);
    metric_set(&row->stream_bytes, sizes->record_bytes);
    metric_set(&row->stream_full_percent, sizes->record_bytes < 0 || most <= 0
                                              ? SIZES_UNKNOWN
                                              : (int64_t)((double)sizes->record_bytes * 100 / (double)most));
    if (sizes->now_ms > 0) metric_set(&c->metrics->redis_ahead_ms, sizes->now_ms - now.ns / NS_PER_MS);
    metric_set(&row->counted_ns, now.ns);
}

// A gap between two counts ends the growth, too: another instance may have led meanwhile.
static bool growth_lasts(growth_t *growth, int64_t ready, mono_t now) {
    bool gap = mono_diff(now, growth->counted) > 3 * QUIET_S * NS_PER_S;
    if (gap || ready <= 0 || ready < growth->last) *growth = (growth_t){.since = now, .first = ready > 0 ? ready : 0};
    growth->counted = now;
    growth->last = ready;
    return ready > growth->first && mono_diff(now, growth->since) >= GROWS_S * NS_PER_S;
}

// Tells `status` of ready lists that only grow. Not fenced: the field is for people, and `status` ignores an old one.
static outcome_t queue_sizes_tell_growth(queue_sizes_t *c, conn_t *conn, const sizes_t *counted, size_t count,
                                         redis_error_t *error) {
    mono_t now = mono_now();
    size_t told = 0;
    for (size_t i = 0; i < count; i++) {
        growth_t *growth = &c->queues[c->from + i].growth;
        char text[64];
        if (!growth_lasts(growth, counted[i].ready, now)) continue;
        snprintf(text, sizeof text, "%" PRId64 " %" PRId64 " %" PRId64, counted[i].now_ms,
                 mono_diff(now, growth->since) / NS_PER_MS, growth->last);
        request_append(conn, "HSET", c->keys->queues[c->from + i].meta, READY_GROWS, text);
        told++;
    }
    for (; told > 0; told--) {
        redis_error_t refusal; // of a key of the wrong type, which the preflight reports
        conn_reply_free(conn_read_or_refusal(conn, &refusal, error));
    }
    if (error->kind == ERROR_FULL) *error = (redis_error_t){0}; // the next count tells
    return error->outcome;
}

// Appends what is to be told of a queue, at most `most` requests. Returns their number.
static size_t queue_sizes_append_anomalies(const queue_sizes_t *c, conn_t *conn, size_t queue, size_t most) {
    char text[ANOMALY_TEXT], field[64];
    const char *name;
    size_t told = 0;
    for (; told < most && anomaly_to_tell(c->queues[queue].metrics, mono_now(), &name, text); told++) {
        snprintf(field, sizeof field, META_ANOMALY "%s", name);
        if (*text)
            request_append(conn, "HSET", c->keys->queues[queue].meta, field, text);
        else
            request_append(conn, "HDEL", c->keys->queues[queue].meta, field);
    }
    return told;
}

outcome_t queue_sizes_tell_anomalies(queue_sizes_t *c, conn_t *conn, redis_error_t *error) {
    size_t told = 0;
    *error = (redis_error_t){0};
    for (size_t i = 0; i < c->keys->queue_count && told < TELL_MAX && conn_is_open(conn); i++) {
        if (queue_sizes_leads(c, c->tell_from)) told += queue_sizes_append_anomalies(c, conn, c->tell_from, TELL_MAX - told);
        if (told < TELL_MAX) c->tell_from = (c->tell_from + 1) % c->keys->queue_count;
    }
    for (; told > 0; told--) {
        redis_error_t refusal; // of a key of the wrong type, which the preflight reports
        conn_reply_free(conn_read_or_refusal(conn, &refusal, error));
    }
    if (error->kind == ERROR_FULL) *error = (redis_error_t){0}; // they are told again within a minute
    return error->outcome;
}

// Schedules the next step.
static void queue_sizes_pace(queue_sizes_t *c, mono_t began, mono_t now) {
    c->took_ns += mono_diff(now, began);
    c->at = c->quiet_at = now;
    if (c->from < c->keys->queue_count) return;
    int64_t pause_ns = PERIOD_TIMES * c->took_ns;
    if (pause_ns < PERIOD_S * NS_PER_S) pause_ns = PERIOD_S * NS_PER_S;
    if (pause_ns > PERIOD_MAX_S * NS_PER_S) pause_ns = PERIOD_MAX_S * NS_PER_S;
    c->at = mono_add(now, pause_ns);
    c->quiet_at = mono_min(mono_add(now, QUIET_S * NS_PER_S), history_writer_next(c->history, now));
    c->from = 0;
    c->took_ns = 0;
}

outcome_t queue_sizes_step(queue_sizes_t *c, conn_t *conn, redis_error_t *error) {
    sizes_t counted[STEP];
    mono_t began = mono_now();
    *error = (redis_error_t){0};
    if (!mono_reached(queue_sizes_next(c), began)) return OUTCOME_OK;
    if (!conn_is_open(conn)) { // another step of the leader opens it; retry later, not at once
        c->at = c->quiet_at = mono_add(began, PERIOD_S * NS_PER_S);
        return OUTCOME_OK;
    }
    while (c->from < c->keys->queue_count && !queue_sizes_leads(c, c->from)) c->from++;
    size_t count = 0;
    while (count < STEP && c->from + count < c->keys->queue_count && queue_sizes_leads(c, c->from + count)) count++;
    const call_t call = {.conn = conn, .keys = c->keys, .queue = c->from, .error = error};
    bool wanted = metrics_wanted(c->metrics, began), whole = wanted;
    for (size_t i = 0; i < count; i++) whole |= history_writer_wants(c->history, c->from + i, began);
    if (count && (sizes_read(&call, count,
                             wanted  ? SIZES_ENDS
                             : whole ? SIZES_JOBS
                                     : SIZES_READY,
                             counted) != OUTCOME_OK ||
                  queue_sizes_tell_growth(c, conn, counted, count, error) != OUTCOME_OK)) {
        c->at = c->quiet_at = mono_add(began, PERIOD_S * NS_PER_S);
        return error->outcome;
    }
    mono_t now = mono_now();
    for (size_t i = 0; i < count; i++) {
        if (wanted) queue_sizes_publish(c, c->from + i, &counted[i], now);
        if (whole || *counted[i].error.text) queue_sizes_log_error(c, c->from + i, counted[i].error.text);
        history_writer_count(c->history, c->from + i, &counted[i], whole,
                             sizes_in_progress(&counted[i], c->queues[c->from + i].metrics), now);
    }
    c->from += count;
    if (c->from == c->keys->queue_count) history_writer_store(c->history, conn, error);
    queue_sizes_pace(c, began, now);
    return error->outcome;
}
