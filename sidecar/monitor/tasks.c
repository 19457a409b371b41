#include "monitor/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/condition.h"
#include "base/failpoint.h"
#include "base/log.h"

static const char ROLE[] = "monitor";

struct task {
    const side_task_ops_t *ops;
    void *state; // owned
    size_t queue;
    metrics_queue_t *metrics;
    int64_t poll_ms;
    mono_t next;          // when the next step is due
    mono_t blocked_until; // no step before this: Redis refused one
    bool changed;         // a key may have changed since the last step
    bool begun;           // the task has made a step in this term
    condition_t refused;
};

// A key or a channel that wakes a task.
typedef struct task_name {
    const char *name; // borrowed from the state
    size_t task;
} task_name_t;

struct tasks {
    const keyspace_t *keys;
    task_t *all;
    size_t count;
    size_t cursor; // index of the task whose turn is next
    task_name_t *watched_keys;
    size_t watched_count;
    task_name_t *subscribed;
    const char **channels; // the names in `subscribed`
    size_t subscribed_count;
};

tasks_t *tasks_new(const keyspace_t *keys) {
    tasks_t *w = mem_alloc(sizeof *w);
    w->keys = keys;
    w->all = mem_array(keys->queue_count, sizeof *w->all);
    w->watched_keys = mem_array(keys->queue_count, SIDE_TASK_KEYS_MAX * sizeof *w->watched_keys);
    w->subscribed = mem_array(keys->queue_count, SIDE_TASK_CHANNELS_MAX * sizeof *w->subscribed);
    w->channels = mem_array(keys->queue_count, SIDE_TASK_CHANNELS_MAX * sizeof *w->channels);
    return w;
}

void tasks_free(tasks_t *w) {
    if (!w) return;
    for (size_t i = 0; i < w->count; i++) {
        w->all[i].ops->close(w->all[i].state);
        condition_free(&w->all[i].refused);
    }
    free(w->all);
    free(w->watched_keys);
    free(w->subscribed);
    free(w->channels);
    free(w);
}

static int tasks_compare_names(const void *a, const void *b) {
    return strcmp(((const task_name_t *)a)->name, ((const task_name_t *)b)->name);
}

void tasks_add(tasks_t *w, size_t queue, const side_task_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms) {
    const char *names[SIDE_TASK_KEYS_MAX > SIDE_TASK_CHANNELS_MAX ? SIDE_TASK_KEYS_MAX : SIDE_TASK_CHANNELS_MAX];
    task_t *task = &w->all[w->count];
    *task = (task_t){.ops = ops, .queue = queue, .metrics = metrics, .poll_ms = poll_ms, .changed = true};
    task->state = ops->open(&w->keys->queues[queue]);
    size_t keys = ops->watched_keys ? ops->watched_keys(task->state, names) : 0;
    for (size_t i = 0; i < keys; i++) w->watched_keys[w->watched_count++] = (task_name_t){names[i], w->count};
    size_t channels = ops->channels ? ops->channels(task->state, names) : 0;
    for (size_t i = 0; i < channels; i++) w->subscribed[w->subscribed_count++] = (task_name_t){names[i], w->count};
    w->count++;
    qsort(w->watched_keys, w->watched_count, sizeof *w->watched_keys, tasks_compare_names);
    qsort(w->subscribed, w->subscribed_count, sizeof *w->subscribed, tasks_compare_names);
    for (size_t i = 0; i < w->subscribed_count; i++) w->channels[i] = w->subscribed[i].name;
}

size_t tasks_count(const tasks_t *w) { return w->count; }

const char *const *tasks_channels(const tasks_t *w, size_t *count) {
    *count = w->subscribed_count;
    return w->channels;
}

static void task_reset(task_t *task) {
    task->ops->forget(task->state);
    task->next = task->blocked_until = (mono_t){0};
    task->changed = true;
}

void tasks_reset(tasks_t *w, size_t queue) {
    for (size_t i = 0; i < w->count; i++)
        if (w->all[i].queue == queue) task_reset(&w->all[i]);
}

void tasks_reset_all(tasks_t *w) {
    for (size_t i = 0; i < w->count; i++) task_reset(&w->all[i]);
}

static void task_wake(task_t *task) {
    task->changed = true;
    task->next = (mono_t){0};
}

// Finds the first entry with this name. Tasks may share a key.
static const task_name_t *tasks_find(const task_name_t *all, size_t count, const char *name) {
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

void tasks_changed(tasks_t *w, const char *key, size_t len) {
    for (size_t i = 0; !key && i < w->count; i++) task_wake(&w->all[i]);
    if (!key || strlen(key) != len) return;
    const task_name_t *end = w->watched_keys + w->watched_count;
    for (const task_name_t *at = tasks_find(w->watched_keys, w->watched_count, key); at < end && strcmp(at->name, key) == 0; at++)
        task_wake(&w->all[at->task]);
}

void tasks_on_message(tasks_t *w, const char *channel, slice_t message) {
    const task_name_t *end = w->subscribed + w->subscribed_count;
    for (const task_name_t *at = tasks_find(w->subscribed, w->subscribed_count, channel);
         at < end && strcmp(at->name, channel) == 0; at++) {
        task_t *task = &w->all[at->task];
        if (task->ops->on_message) task->ops->on_message(task->state, channel, message);
        task->next = (mono_t){0};
    }
}

static mono_t task_due(const task_t *task) { return mono_max(task->next, task->blocked_until); }

task_t *tasks_turn(tasks_t *w, task_may_serve_fn *served, void *self, mono_t now, lease_t *lease) {
    for (size_t n = 0; n < w->count; n++) {
        task_t *task = &w->all[(w->cursor + n) % w->count];
        if (!mono_reached(task_due(task), now) || !served(self, task->queue, lease)) continue;
        w->cursor = (w->cursor + n + 1) % w->count;
        return task;
    }
    return NULL;
}

size_t task_queue(const task_t *task) { return task->queue; }

mono_t tasks_next(const tasks_t *w, task_may_serve_fn *served, void *self) {
    mono_t next = mono_never();
    lease_t lease;
    for (size_t i = 0; i < w->count; i++)
        if (served(self, w->all[i].queue, &lease)) next = mono_min(next, task_due(&w->all[i]));
    return next;
}

static side_task_call_t task_call(const tasks_t *w, const task_t *task, const task_context_t *with) {
    return (side_task_call_t){.conn = with->conn,
                              .keys = w->keys,
                              .queue = task->queue,
                              .token = with->token,
                              .arm = with->arm,
                              .changed = task->changed,
                              .metrics = task->metrics,
                              .now = mono_now(),
                              .next = mono_never()};
}

static outcome_t task_refused(const tasks_t *w, task_t *task, redis_error_t *error) {
    metrics_refused(task->metrics, mono_now());
    task->changed = true;
    task->blocked_until = mono_add(mono_now(), TASK_REFUSED_MS * NS_PER_MS);
    if (condition_update_reason(&task->refused, error->text) == CONDITION_BEGAN)
        log_error(ROLE, w->keys->queues[task->queue].config->name, "redis refuses the monitor", F_STR("reason", error->text));
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

outcome_t task_step(tasks_t *w, task_t *task, const task_context_t *with, redis_error_t *error) {
    side_task_call_t call = task_call(w, task, with);
    *error = (redis_error_t){0};
    task->changed = false;
    task->begun = true;
    failpoint("watch_before");
    outcome_t outcome = task->ops->step(task->state, &call, error);
    failpoint("watch_answered");
    if (outcome == OUTCOME_REFUSED) return task_refused(w, task, error);
    if (outcome != OUTCOME_OK) return outcome;
    task->next = call.next;
    if (!with->arm) task->next = mono_min(task->next, mono_add(call.now, task->poll_ms * NS_PER_MS));
    if (condition_update_reason(&task->refused, NULL) == CONDITION_ENDED)
        log_info(ROLE, w->keys->queues[task->queue].config->name, "redis accepts the monitor's requests again");
    return OUTCOME_OK;
}

outcome_t task_leave(tasks_t *w, task_t *task, const task_context_t *with, redis_error_t *error) {
    side_task_call_t call = task_call(w, task, with);
    *error = (redis_error_t){0};
    outcome_t outcome = task->ops->leave(task->state, &call, error);
    // Another leader holds the lock: this instance holds no key that it could release.
    if (outcome == OUTCOME_FENCED) return OUTCOME_OK;
    return outcome == OUTCOME_REFUSED ? task_refused(w, task, error) : outcome;
}

task_t *tasks_leaving(tasks_t *w, const task_t *last) {
    for (size_t i = last ? (size_t)(last - w->all) + 1 : 0; i < w->count; i++)
        if (w->all[i].begun && w->all[i].ops->leave) return &w->all[i];
    return NULL;
}
