#include "monitor/tasks.h"

#include "base/buffer.h"
#include "base/failpoint.h"
#include "monitor/scan/scan.h"

static void task_names_add(task_names_t *names, const char *name, size_t queue) {
    names->names = mem_grown(names->names, names->count, sizeof *names->names);
    names->queues = mem_grown(names->queues, names->count, sizeof *names->queues);
    names->names[names->count] = name;
    names->queues[names->count++] = queue;
}

void tasks_init(tasks_t *tasks, const keyspace_t *keys) {
    *tasks = (tasks_t){.keys = keys, .of_queue = mem_array(keys->queue_count, sizeof *tasks->of_queue)};
}

void tasks_free(tasks_t *tasks) {
    for (size_t i = 0; i < tasks->keys->queue_count; i++) {
        task_t *task = &tasks->of_queue[i];
        for (size_t part = 0; part < task->count; part++) task->parts[part].ops->close(task->parts[part].state);
        condition_free(&task->refused);
    }
    free(tasks->of_queue);
    free(tasks->watched_keys.names);
    free(tasks->watched_keys.queues);
    free(tasks->channels.names);
    free(tasks->channels.queues);
}

void tasks_add(tasks_t *tasks, size_t queue, const side_task_ops_t *ops, metrics_queue_t *metrics, int64_t poll_ms) {
    const char *names[SIDE_TASK_KEYS_MAX > SIDE_TASK_CHANNELS_MAX ? SIDE_TASK_KEYS_MAX : SIDE_TASK_CHANNELS_MAX];
    void *state = ops->open(&tasks->keys->queues[queue]);
    if (!state) return;
    task_t *task = &tasks->of_queue[queue];
    task->parts[task->count++] = (task_part_t){ops, state};
    task->metrics = metrics;
    task->poll_ms = poll_ms;
    task->changed = true;
    size_t keys = ops->watched_keys ? ops->watched_keys(state, names) : 0;
    for (size_t i = 0; i < keys; i++) task_names_add(&tasks->watched_keys, names[i], queue);
    size_t channels = ops->channels ? ops->channels(state, names) : 0;
    for (size_t i = 0; i < channels; i++) task_names_add(&tasks->channels, names[i], queue);
    tasks->count++;
}

static void task_wake(task_t *task) {
    task->changed = true;
    task->next = (mono_t){0};
}

void tasks_reset(tasks_t *tasks, size_t queue) {
    task_t *task = &tasks->of_queue[queue];
    for (size_t i = 0; i < task->count; i++) task->parts[i].ops->forget(task->parts[i].state);
    task_wake(task);
    task->blocked_until = (mono_t){0};
}

void tasks_changed(tasks_t *tasks, const char *key, size_t len) {
    for (size_t i = 0; !key && i < tasks->keys->queue_count; i++) task_wake(&tasks->of_queue[i]);
    if (!key || strlen(key) != len) return;
    const task_names_t *names = &tasks->watched_keys;
    for (size_t at = 0; at < names->count; at++) {
        if (strcmp(names->names[at], key) != 0) continue;
        task_t *task = &tasks->of_queue[names->queues[at]];
        for (size_t i = 0; i < task->count; i++)
            if (task->parts[i].ops->on_change) task->parts[i].ops->on_change(task->parts[i].state, key);
        task_wake(task);
    }
}

void tasks_on_message(tasks_t *tasks, const char *channel, slice_t message) {
    const task_names_t *names = &tasks->channels;
    for (size_t at = 0; at < names->count; at++) {
        if (strcmp(names->names[at], channel) != 0) continue;
        task_t *task = &tasks->of_queue[names->queues[at]];
        for (size_t i = 0; i < task->count; i++)
            if (task->parts[i].ops->on_message) task->parts[i].ops->on_message(task->parts[i].state, channel, message);
        task->next = (mono_t){0};
    }
}

mono_t task_due(const task_t *task) { return task->count ? mono_max(task->next, task->blocked_until) : mono_never(); }

static side_task_call_t task_call(const task_t *task, const call_t *call, bool arm) {
    return (side_task_call_t){
        .redis = *call, .arm = arm, .changed = task->changed, .metrics = task->metrics, .now = mono_now(), .next = mono_never()};
}

static outcome_t task_refused(task_t *task, const call_t *call) {
    scan_log_refusal(&task->refused, call_queue(call)->config->name, call->error);
    metrics_refused(task->metrics, mono_now());
    task->changed = true;
    task->blocked_until = mono_add(mono_now(), error_kind_pause_ms(call->error->kind, TASK_REFUSED_MS) * NS_PER_MS);
    *call->error = (redis_error_t){0};
    return OUTCOME_OK;
}

outcome_t tasks_step(tasks_t *tasks, const call_t *call, bool arm) {
    task_t *task = &tasks->of_queue[call->queue];
    side_task_call_t of_task = task_call(task, call, arm);
    *call->error = (redis_error_t){0};
    task->changed = false;
    task->begun = true;
    failpoint("watch_before");
    mono_t next = mono_never();
    outcome_t outcome = OUTCOME_OK;
    for (size_t i = 0; i < task->count && outcome == OUTCOME_OK; i++) {
        of_task.next = mono_never();
        outcome = task->parts[i].ops->step(task->parts[i].state, &of_task);
        next = mono_min(next, of_task.next);
    }
    failpoint("watch_answered");
    if (outcome == OUTCOME_REFUSED) return task_refused(task, call);
    if (outcome != OUTCOME_OK) return outcome;
    task->next = next;
    if (!arm) task->next = mono_min(next, mono_add(of_task.now, task->poll_ms * NS_PER_MS));
    scan_log_refusal(&task->refused, call_queue(call)->config->name, NULL);
    return OUTCOME_OK;
}

outcome_t tasks_leave(tasks_t *tasks, const call_t *call) {
    task_t *task = &tasks->of_queue[call->queue];
    side_task_call_t of_task = task_call(task, call, false);
    *call->error = (redis_error_t){0};
    outcome_t outcome = OUTCOME_OK;
    for (size_t i = 0; task->begun && i < task->count && outcome == OUTCOME_OK; i++)
        if (task->parts[i].ops->leave) outcome = task->parts[i].ops->leave(task->parts[i].state, &of_task);
    // Another leader holds the lock: this instance holds no key that it could release.
    if (outcome == OUTCOME_FENCED) return OUTCOME_OK;
    return outcome == OUTCOME_REFUSED ? task_refused(task, call) : outcome;
}
