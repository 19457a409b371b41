#include "model/metrics.h"

#include "base/buffer.h"

enum {
    WANTED_S = 120, // for this long after a scrape the leader reads the sizes
    COUNTED_S = 60, // for this long after they were read the sizes are exposed
    ZERO_S = 30,    // for this long a new leader's counters are exposed as 0, if scrapes have lacked them
    REFUSED_S = 15, // for this long after a refused request the queue counts as refused
};

static const int64_t BOUNDS[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;

metrics_t *metrics_new(size_t places) {
    metrics_t *metrics = mem_alloc(sizeof *metrics);
    metrics->queues = mem_array(places, sizeof *metrics->queues);
    metrics->queue_count = places;
    pthread_mutex_init(&metrics->mutex, NULL);
    return metrics;
}

void metrics_free(metrics_t *metrics) {
    if (!metrics) return;
    for (size_t i = 0; i < metrics->queue_count; i++) {
        free(metrics->queues[i].anomalies);
        free(metrics->queues[i].name);
    }
    for (size_t i = 0; i < metrics->reason_count; i++) free(metrics->reasons[i].text);
    free(metrics->reasons);
    pthread_mutex_destroy(&metrics->mutex);
    free(metrics->queues);
    free(metrics);
}

// Returns the place of that name; else the first free one; else the first whose queue is not configured any more.
static metrics_queue_t *metrics_place_for(metrics_t *metrics, const char *name) {
    metrics_queue_t *gone = NULL;
    metrics_queue_t *free_place = NULL;
    for (size_t i = 0; i < metrics->queue_count; i++) {
        metrics_queue_t *queue = &metrics->queues[i];
        if (queue->name && strcmp(queue->name, name) == 0) return queue;
        if (!queue->name && !free_place) free_place = queue;
        if (queue->name && !queue->served && !gone) gone = queue;
    }
    return free_place ? free_place : gone;
}

// `queue` NULL: no settings are in effect yet.
static void metrics_note_settings(metrics_queue_t *place, const queue_config_t *queue) {
    int64_t value;
#define X(name, family, scale, key, help) metric_set(&place->name, queue &&config_queue_number(queue, key, &value) ? value : -1);
    METRICS_SETTINGS(X)
#undef X
}

metrics_queue_t *metrics_queue(metrics_t *metrics, const char *name) {
    pthread_mutex_lock(&metrics->mutex);
    metrics_queue_t *queue = metrics_place_for(metrics, name);
    if (queue && queue->name && strcmp(queue->name, name) != 0) {
        free(queue->anomalies);
        free(queue->name);
        memset(queue, 0, sizeof *queue); // no role uses the place now, and readers of all places hold the mutex
    }
    if (queue && !queue->name) {
        queue->name = mem_str(name);
        metrics_note_settings(queue, NULL);
        queue->served = true; // until the next metrics_serve no other queue may get the place
    }
    pthread_mutex_unlock(&metrics->mutex);
    return queue;
}

void metrics_serve(metrics_t *metrics, const config_t *config) {
    for (size_t i = 0; i < config->queue_count; i++) metrics_queue(metrics, config->queues[i].name);
    pthread_mutex_lock(&metrics->mutex);
    for (size_t i = 0; i < metrics->queue_count; i++)
        if (metrics->queues[i].name) metrics->queues[i].served = false; // writing to an unused place would make it take memory
    for (size_t i = 0; i < config->queue_count; i++) {
        metrics_queue_t *queue = metrics_place_for(metrics, config->queues[i].name);
        queue->served = true;
        metrics_note_settings(queue, &config->queues[i]);
    }
    pthread_mutex_unlock(&metrics->mutex);
}

void metrics_each(metrics_t *metrics, void (*visit)(void *self, const metrics_queue_t *queue), void *self) {
    pthread_mutex_lock(&metrics->mutex);
    for (size_t i = 0; i < metrics->queue_count; i++)
        if (metrics->queues[i].name && metrics->queues[i].served) visit(self, &metrics->queues[i]);
    pthread_mutex_unlock(&metrics->mutex);
}

static bool metrics_within(int64_t then_ns, mono_t now, int64_t seconds) {
    return then_ns && now.ns - then_ns < seconds * NS_PER_S;
}

bool metrics_scraped(metrics_t *metrics, mono_t now) {
    return !metrics_within(atomic_exchange_explicit(&metrics->scraped_ns, now.ns, memory_order_relaxed), now, WANTED_S / 2);
}

bool metrics_wanted(const metrics_t *metrics, mono_t now) {
    return metrics_within(metric_get(&metrics->scraped_ns), now, WANTED_S);
}

bool metrics_counted(const metrics_queue_t *queue, mono_t now) {
    return metrics_within(metric_get(&queue->counted_ns), now, COUNTED_S);
}

int64_t metrics_age_ms(const metrics_t *metrics, int64_t since_ms, mono_t now) {
    int64_t redis_ms = now.ns / NS_PER_MS + metric_get(&metrics->redis_ahead_ms);
    return since_ms < redis_ms ? redis_ms - since_ms : 0;
}

static metrics_shown_t metrics_show(metrics_queue_t *queue, mono_t now) {
    metrics_shown_t before = (metrics_shown_t)metric_get(&queue->shown);
    if (!metric_get(&queue->led)) return METRICS_WITHHELD;
    if (before == METRICS_WITHHELD) metric_set(&queue->shown_ns, now.ns);
    if (before == METRICS_UNSEEN || before == METRICS_AS_COUNTED) return METRICS_AS_COUNTED;
    return metrics_within(metric_get(&queue->shown_ns), now, ZERO_S) ? METRICS_ZERO : METRICS_AS_COUNTED;
}

void metrics_begin_scrape(metrics_t *metrics, mono_t now) {
    pthread_mutex_lock(&metrics->mutex);
    for (size_t i = 0; i < metrics->queue_count; i++) {
        metrics_queue_t *queue = &metrics->queues[i];
        if (queue->name && queue->served) metric_set(&queue->shown, metrics_show(queue, now));
    }
    pthread_mutex_unlock(&metrics->mutex);
}

void metrics_refused(metrics_queue_t *queue, mono_t now) {
    metric_add(&queue->faults, 1);
    metric_set(&queue->refused_ns, now.ns);
}

// Call it with the mutex held. Returns the place of the teller's reason, or the number of reasons.
static size_t metrics_find_reason(const metrics_t *metrics, metrics_why_t of, const void *teller) {
    size_t i = 0;
    while (i < metrics->reason_count && (metrics->reasons[i].of != of || metrics->reasons[i].teller != teller)) i++;
    return i;
}

// Call it with the mutex held.
static void metrics_remove_reason(metrics_t *metrics, size_t i) {
    free(metrics->reasons[i].text);
    metrics->reason_count--;
    memmove(metrics->reasons + i, metrics->reasons + i + 1, (metrics->reason_count - i) * sizeof *metrics->reasons);
}

void metrics_say(metrics_t *metrics, metrics_why_t of, const void *teller, const char *reason) {
    pthread_mutex_lock(&metrics->mutex);
    size_t i = metrics_find_reason(metrics, of, teller);
    if (reason && i == metrics->reason_count) {
        metrics->reasons = mem_grown(metrics->reasons, metrics->reason_count++, sizeof *metrics->reasons);
        metrics->reasons[i] = (metrics_complaint_t){.of = of, .teller = teller};
    }
    if (reason) {
        free(metrics->reasons[i].text);
        metrics->reasons[i].text = mem_str(reason);
    } else if (i < metrics->reason_count) {
        metrics_remove_reason(metrics, i);
    }
    pthread_mutex_unlock(&metrics->mutex);
}

void metrics_tell(metrics_t *metrics, metrics_why_t of, buffer_t *out) {
    const char *first = NULL;
    size_t more = 0;
    pthread_mutex_lock(&metrics->mutex);
    for (size_t i = 0; i < metrics->reason_count; i++) {
        if (metrics->reasons[i].of != of) continue;
        more += first != NULL;
        if (!first) first = metrics->reasons[i].text;
    }
    buffer_printf(out, ": %s", first ? first : "the log says why");
    if (more) buffer_printf(out, " (and %zu more)", more);
    pthread_mutex_unlock(&metrics->mutex);
}

bool metrics_is_refused(const metrics_queue_t *queue, mono_t now) {
    return metrics_within(metric_get(&queue->refused_ns), now, REFUSED_S);
}

size_t metrics_refusing(metrics_t *metrics, mono_t now, char **first) {
    size_t count = 0;
    *first = NULL;
    pthread_mutex_lock(&metrics->mutex);
    for (size_t i = 0; i < metrics->queue_count; i++) {
        const metrics_queue_t *queue = &metrics->queues[i];
        if (!queue->name || !queue->served || !metrics_is_refused(queue, now)) continue;
        if (count++ == 0) *first = mem_str(queue->name);
    }
    pthread_mutex_unlock(&metrics->mutex);
    return count;
}

void metrics_grow(metrics_t *metrics, mono_t now) {
    int64_t since_ns = metric_get(&metrics->audit_lacks_ns);
    metric_set(&metrics->audit_lag_ms, since_ns && since_ns < now.ns ? (now.ns - since_ns) / NS_PER_MS : 0);
}

void metrics_end(metrics_queue_t *queue, const char *reason, int64_t n) {
    static const char *const reasons[] = {
#define X(value) [REASON_##value] = #value,
        METRICS_REASONS(X)
#undef X
    };
    size_t i = 0;
    while (i < REASON_worker_failed && strcmp(reasons[i], reason) != 0) i++;
    metric_add(&queue->ended, n);
    metric_add(&queue->ended_by[i], n);
}

void metrics_stall(metrics_queue_t *queue, metrics_cause_t cause) {
    metric_add(&queue->stalled, 1);
    metric_add(&queue->stalled_by[cause], 1);
}

void metrics_lateness(metrics_queue_t *queue, int64_t us, int64_t jobs) {
    if (us < 0) us = 0;
    size_t bucket = 0;
    while (bucket < METRICS_LATENESS_BUCKETS - 1 && us > BOUNDS[bucket]) bucket++;
    metric_add(&queue->lateness[bucket], jobs);
    metric_add(&queue->lateness_us, us * jobs);
    if (us > metric_get(&queue->lateness_max_us)) metric_set(&queue->lateness_max_us, us); // only the dispatcher writes it
    if (us > metric_get(&queue->lateness_step_us)) metric_set(&queue->lateness_step_us, us);
}
