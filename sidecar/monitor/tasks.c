#include "monitor/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"

static const char ROLE[] = "monitor";

struct watch {
    const watch_ops_t *ops;
    void *state; // owned
    size_t queue;
    metrics_queue_t *metrics;
    int64_t poll_ms;
    mono_t next;    // when its next step is wanted
    mono_t hold;    // no step before this: at fault
    bool changed;   // since the last step
    bool begun;     // it has stepped
    char said[256]; // the fault that was said last; "" = the last step worked
};

// A wake-up names a key or a channel; here is whose it is.
typedef struct named {
    const char *name; // belongs to the state
    size_t watch;
} named_t;

struct watches {
    const keyspace_t *keys;
    watch_t *all;
    size_t count;
    size_t cursor; // whose turn it is
    named_t *watched;
    size_t watched_count;
    named_t *heard;
    const char **channels; // the names of `heard`
    size_t heard_count;
};

watches_t *watches_new(const keyspace_t *keys) {
    watches_t *w = mem_alloc(sizeof *w);
    w->keys = keys;
    w->all = mem_array(keys->queue_count, sizeof *w->all);
    w->watched = mem_array(keys->queue_count, WATCH_KEYS_MOST * sizeof *w->watched);
    w->heard = mem_array(keys->queue_count, WATCH_CHANNELS_MOST * sizeof *w->heard);
    w->channels = mem_array(keys->queue_count, WATCH_CHANNELS_MOST * sizeof *w->channels);
    return w;
}

void watches_free(watches_t *w) {
    if (!w) return;
    for (size_t i = 0; i < w->count; i++) w->all[i].ops->close(w->all[i].state);
    free(w->all);
    free(w->watched);
    free(w->heard);
    free(w->channels);
    free(w);
}

static int compare_names(const void *a, const void *b) { return strcmp(((const named_t *)a)->name, ((const named_t *)b)->name); }

void watches_add(watches_t *w, size_t queue, const watch_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms) {
    const char *names[WATCH_KEYS_MOST > WATCH_CHANNELS_MOST ? WATCH_KEYS_MOST : WATCH_CHANNELS_MOST];
    watch_t *watch = &w->all[w->count];
    *watch = (watch_t){.ops = ops, .queue = queue, .metrics = metrics, .poll_ms = poll_ms, .changed = true};
    watch->state = ops->open(&w->keys->queues[queue]);
    size_t keys = ops->watched ? ops->watched(watch->state, names) : 0;
    for (size_t i = 0; i < keys; i++) w->watched[w->watched_count++] = (named_t){names[i], w->count};
    size_t channels = ops->channels ? ops->channels(watch->state, names) : 0;
    for (size_t i = 0; i < channels; i++) w->heard[w->heard_count++] = (named_t){names[i], w->count};
    w->count++;
    qsort(w->watched, w->watched_count, sizeof *w->watched, compare_names);
    qsort(w->heard, w->heard_count, sizeof *w->heard, compare_names);
    for (size_t i = 0; i < w->heard_count; i++) w->channels[i] = w->heard[i].name;
}

size_t watches_count(const watches_t *w) { return w->count; }

const char *const *watches_channels(const watches_t *w, size_t *count) {
    *count = w->heard_count;
    return w->channels;
}

static void forget(watch_t *watch) {
    watch->ops->forget(watch->state);
    watch->next = watch->hold = (mono_t){0};
    watch->changed = true;
}

void watches_forget(watches_t *w, size_t queue) {
    for (size_t i = 0; i < w->count; i++)
        if (w->all[i].queue == queue) forget(&w->all[i]);
}

void watches_forget_all(watches_t *w) {
    for (size_t i = 0; i < w->count; i++) forget(&w->all[i]);
}

static void wake(watch_t *watch) {
    watch->changed = true;
    watch->next = (mono_t){0};
}

// The first of those with this name; several watches may have a key in common.
static const named_t *find(const named_t *all, size_t count, const char *name) {
    size_t low = 0;
    for (size_t high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(all[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return all + low;
}

void watches_changed(watches_t *w, const char *key, size_t len) {
    for (size_t i = 0; !key && i < w->count; i++) wake(&w->all[i]);
    if (!key || strlen(key) != len) return;
    const named_t *end = w->watched + w->watched_count;
    for (const named_t *at = find(w->watched, w->watched_count, key); at < end && strcmp(at->name, key) == 0; at++)
        wake(&w->all[at->watch]);
}

void watches_heard(watches_t *w, const char *channel, slice_t message) {
    const named_t *end = w->heard + w->heard_count;
    for (const named_t *at = find(w->heard, w->heard_count, channel); at < end && strcmp(at->name, channel) == 0; at++) {
        watch_t *watch = &w->all[at->watch];
        if (watch->ops->heard) watch->ops->heard(watch->state, channel, message);
        watch->next = (mono_t){0};
    }
}

static mono_t due(const watch_t *watch) { return mono_max(watch->next, watch->hold); }

watch_t *watches_turn(watches_t *w, watch_served_fn *served, void *self, mono_t now, lease_t *lease) {
    for (size_t n = 0; n < w->count; n++) {
        watch_t *watch = &w->all[(w->cursor + n) % w->count];
        if (!mono_reached(due(watch), now) || !served(self, watch->queue, lease)) continue;
        w->cursor = (w->cursor + n + 1) % w->count;
        return watch;
    }
    return NULL;
}

size_t watch_queue(const watch_t *watch) { return watch->queue; }

mono_t watches_next(const watches_t *w, watch_served_fn *served, void *self) {
    mono_t next = mono_never();
    lease_t lease;
    for (size_t i = 0; i < w->count; i++)
        if (served(self, w->all[i].queue, &lease)) next = mono_min(next, due(&w->all[i]));
    return next;
}

static watch_call_t call_of(const watches_t *w, const watch_t *watch, const watch_with_t *with) {
    return (watch_call_t){.conn = with->conn,
                          .keys = w->keys,
                          .queue = watch->queue,
                          .token = with->token,
                          .arm = with->arm,
                          .changed = watch->changed,
                          .metrics = watch->metrics,
                          .json = with->json,
                          .now = mono_now(),
                          .next = mono_never()};
}

// Said once for each reason, until a step works again: a fault of keys or rights lasts until somebody mends it.
static outcome_t at_fault(const watches_t *w, watch_t *watch, redis_error_t *error) {
    metrics_refused(watch->metrics, mono_now());
    watch->changed = true;
    watch->hold = mono_add(mono_now(), WATCH_FAULT_HOLD_MS * NS_PER_MS);
    if (strcmp(watch->said, error->text) != 0)
        log_error(ROLE, w->keys->queues[watch->queue].config->name, "redis refuses the monitor", F_STR("reason", error->text));
    snprintf(watch->said, sizeof watch->said, "%s", error->text);
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

outcome_t watch_step(watches_t *w, watch_t *watch, const watch_with_t *with, redis_error_t *error) {
    watch_call_t call = call_of(w, watch, with);
    *error = (redis_error_t){0};
    watch->changed = false;
    watch->begun = true;
    failpoint("watch_before");
    outcome_t outcome = watch->ops->step(watch->state, &call, error);
    failpoint("watch_answered");
    if (outcome == OUTCOME_REFUSED) return at_fault(w, watch, error);
    if (outcome != OUTCOME_OK) return outcome;
    watch->next = call.next;
    if (!with->arm) watch->next = mono_min(watch->next, mono_add(call.now, watch->poll_ms * NS_PER_MS));
    watch->said[0] = '\0';
    return OUTCOME_OK;
}

outcome_t watch_leave(watches_t *w, watch_t *watch, const watch_with_t *with, redis_error_t *error) {
    watch_call_t call = call_of(w, watch, with);
    *error = (redis_error_t){0};
    outcome_t outcome = watch->ops->leave(watch->state, &call, error);
    if (outcome == OUTCOME_FENCED) return OUTCOME_OK; // there is nothing left to give back
    return outcome == OUTCOME_REFUSED ? at_fault(w, watch, error) : outcome;
}

watch_t *watches_leaving(watches_t *w, const watch_t *last) {
    for (size_t i = last ? (size_t)(last - w->all) + 1 : 0; i < w->count; i++)
        if (w->all[i].begun && w->all[i].ops->leave) return &w->all[i];
    return NULL;
}
