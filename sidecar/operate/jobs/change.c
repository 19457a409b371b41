#include "operate/jobs/change.h"

#include "base/failpoint.h"
#include "base/json/json.h"
#include "base/text/time_text.h"
#include "model/event.h"
#include "queue/stamps.h"

enum { MAX_LATE_MS = 100 }; // longest delay that a rate makes up for, or a pause would end in a burst

const struct jobs_word jobs_words[JOBS_RESULT_COUNT] = {
#define X(name, word_, fails_, text_) [JOBS_RESULT_##name] = {.word = (word_), .text = (text_), .fails = (fails_)},
    JOBS_RESULT_LIST(X)
#undef X
};

bool jobs_may_change(const queue_config_t *queue, buffer_t *why) {
    const jobs_ops_t *ops = dialect_ops(queue->dialect)->jobs;
    if (!ops->changes)
        buffer_printf(why, "delayed jobs of dialect %s are only shown: %s", config_dialect_word(queue->dialect), ops->advice);
    return ops->changes;
}

static void action_report(jobs_action_t *action, const jobs_target_t *target, jobs_result_t result, const char *detail) {
    action->of[result]++;
    action->caller.result(action->caller.self, target, result, detail);
}

static jobs_target_t target_of(const jobs_item_t *item) {
    jobs_target_t target = {.due = item->due};
    snprintf(target.job, sizeof target.job, "%.*s", (int)item->job.len, item->job.data);
    snprintf(target.sha256, sizeof target.sha256, "%.*s", (int)item->sha256.len, item->sha256.data);
    return target;
}

// ---- The plan.

typedef struct planning {
    jobs_action_t *action;
    size_t *named; // by operand: jobs that it names; owned
} planning_t;

static bool id_names(const char *id, const jobs_item_t *item) {
    size_t len = strlen(id);
    if (slice_is(item->job, id)) return true;
    return len >= JOBS_MIN_DIGEST && len <= item->sha256.len && memcmp(id, item->sha256.data, len) == 0;
}

static void plan_add(jobs_action_t *action, const jobs_item_t *item, size_t id) {
    action->plan = mem_grown(action->plan, action->planned, sizeof *action->plan);
    action->plan[action->planned++] = (jobs_planned_t){.digest = *item->digest, .score = item->score, .id = id};
    if (action->planned == 1) action->first_due = item->due;
    action->last_due = item->due;
}

static bool plan_add_item(void *self, const jobs_item_t *item) {
    planning_t *planning = self;
    jobs_action_t *action = planning->action;
    if (action->limit && (int64_t)action->planned >= action->limit) return false;
    if (item->entry_cut) {
        jobs_target_t target = target_of(item);
        if (!action->id_count) action_report(action, &target, JOBS_RESULT_LARGE, "");
        return true;
    }
    if (!action->id_count) plan_add(action, item, 0);
    for (size_t i = 0; i < action->id_count; i++) {
        if (!id_names(action->ids[i], item)) continue;
        planning->named[i]++;
        plan_add(action, item, i);
    }
    return !action->limit || (int64_t)action->planned < action->limit;
}

static int planned_compare(const void *a, const void *b) { return memcmp(a, b, sizeof(digest_t)); }

// Two operands may name one job.
static void plan_sort(jobs_action_t *action) {
    size_t kept = 0;
    if (action->planned) qsort(action->plan, action->planned, sizeof *action->plan, planned_compare);
    for (size_t i = 0; i < action->planned; i++)
        if (!kept || planned_compare(&action->plan[kept - 1], &action->plan[i]) != 0) action->plan[kept++] = action->plan[i];
    action->planned = kept;
}

// Reports the operands that name no job or several, and removes their jobs from the plan.
static void plan_check_ids(planning_t *planning) {
    jobs_action_t *action = planning->action;
    size_t kept = 0;
    for (size_t i = 0; i < action->planned; i++)
        if (planning->named[action->plan[i].id] == 1) action->plan[kept++] = action->plan[i];
    action->planned = kept;
    for (size_t i = 0; i < action->id_count; i++) {
        jobs_target_t target = {.due = 0};
        snprintf(target.job, sizeof target.job, "%s", action->ids[i]);
        if (planning->named[i] == 0) action_report(action, &target, JOBS_RESULT_NOT_FOUND, "");
        if (planning->named[i] > 1) action_report(action, &target, JOBS_RESULT_AMBIGUOUS, "");
    }
}

// Bytes that no JSON writer escapes, so that an id is in the payload as it was typed.
static bool id_is_plain(const char *id) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    return id[strspn(id, plain)] == '\0';
}

static bool id_may_be_digest(const char *id) {
    return strlen(id) >= JOBS_MIN_DIGEST && id[strspn(id, "0123456789abcdef")] == '\0';
}

// Lets Redis look for the ids, where it can.
static void plan_look_for_ids(jobs_action_t *action) {
    bool plain = action->id_count <= JOBS_TEXTS_MAX && *action->keys->queues[action->queue].config->policy.id_path;
    for (size_t i = 0; i < action->id_count; i++)
        plain = plain && id_is_plain(action->ids[i]) && !id_may_be_digest(action->ids[i]);
    if (!plain || !action->id_count) return;
    action->query.texts = action->ids;
    action->query.text_count = action->id_count;
}

bool jobs_plan(jobs_action_t *action, redis_error_t *error) {
    planning_t planning = {.action = action, .named = mem_array(action->id_count + 1, sizeof *planning.named)};
    outcome_t outcome = OUTCOME_OK;
    bool stop = false;
    action->query.state = JOBS_DELAYED;
    action->query.whole = true;
    plan_look_for_ids(action);
    jobs_reader_t *reader = jobs_open(action->keys, action->queue, &action->query, NULL);
    while (outcome == OUTCOME_OK && !stop && !jobs_ended(reader) &&
           (!action->limit || (int64_t)action->planned < action->limit)) {
        stop = action->caller.wait(action->caller.self, 0);
        if (!stop) outcome = jobs_step(reader, action->conn, 0, plan_add_item, &planning, error);
    }
    jobs_close(reader);
    if (action->id_count && outcome == OUTCOME_OK && !stop) plan_check_ids(&planning);
    plan_sort(action);
    free(planning.named);
    return stop;
}

// ---- The run.

typedef struct run {
    jobs_action_t *action;
    redis_error_t *error;
    call_t call;
    jobs_target_t targets[BACKUP_PAGE]; // of the requests without a reply
    size_t sent, answered;
    mono_t due; // when the next request may be sent
    size_t tried;
    bool stopped;
} run_t;

static void run_read_replies(run_t *run) {
    static const jobs_result_t results[] = {[JOBS_DONE] = JOBS_RESULT_DONE,
                                            [JOBS_DUE] = JOBS_RESULT_DUE,
                                            [JOBS_GONE] = JOBS_RESULT_GONE,
                                            [JOBS_CHANGED] = JOBS_RESULT_CHANGED,
                                            [JOBS_FULL] = JOBS_RESULT_FULL};
    redis_error_t error = {0};
    call_t call = run->call;
    call.error = &error;
    if (run->answered < run->sent) conn_flush(call.conn, &error);
    if (run->answered < run->sent) failpoint("jobs_sent");
    for (; run->answered < run->sent; run->answered++) {
        jobs_target_t *target = &run->targets[run->answered];
        jobs_change_t change;
        outcome_t outcome = jobs_change_read(&call, &change);
        if (outcome != OUTCOME_OK && run->error->outcome == OUTCOME_OK) *run->error = error;
        if (outcome == OUTCOME_RETRY) continue; // not done; the next run of the command does it
        jobs_result_t result = outcome == OUTCOME_DISCONNECTED ? JOBS_RESULT_UNKNOWN
                               : outcome != OUTCOME_OK         ? JOBS_RESULT_REFUSED
                                                               : results[change];
        if (result != JOBS_RESULT_DONE) *target->ref = '\0';
        run->tried++;
        action_report(run->action, target, result, outcome == OUTCOME_OK ? "" : error.text);
        failpoint("jobs_answered");
    }
    run->sent = run->answered = 0;
}

static void run_append_cancel(run_t *run, const jobs_item_t *item, double score, jobs_target_t *target) {
    const jobs_action_t *action = run->action;
    const stamp_t *stamp = item->stamp;
    const queue_config_t *queue = call_queue(&run->call)->config;
    bool waits_for_retry = stamp->born_us && !stamp->seen && stamp->retries > 0; // otherwise another copy has the stamp
    char id[EVENT_ID_SIZE];
    uint64_t nth;
    event_t record = {.kind = slice_text("failed"),
                      .dialect = slice_text(config_dialect_word(queue->dialect)),
                      .queue = slice_text(queue->name),
                      .job = item->job,
                      .type = item->type,
                      .worker = slice_text(action->by),
                      .reason = slice_text("cancelled"),
                      .error = slice_text(action->because),
                      .sha256 = item->sha256,
                      .group = slice_text(action->keys->config->group),
                      .traceparent = job_traceparent(&queue->policy, item->entry),
                      .attempts = waits_for_retry ? stamp->retries : 0,
                      .created = item->created,
                      .size = item->size};
    event_clear_impossible(&record);
    random_bytes(&nth, sizeof nth); // random, because the same bytes may be delayed and cancelled again
    event_id(&record, stamp->born_us, (int64_t)(nth >> 1), id);
    event_ref(record.event, target->ref);
    jobs_cancel_append(&run->call, &(jobs_cancel_t){.job = item->entry,
                                                    .score = score,
                                                    .digest = item->digest,
                                                    .stamp = item->stamp_bytes,
                                                    .ends_stamp = waits_for_retry,
                                                    .record = &record});
}

// Waits until one more request may be sent. Returns whether the run is to stop.
static bool run_wait(run_t *run) {
    const jobs_action_t *action = run->action;
    if (!action->per_minute || action->dry_run) return action->caller.wait(action->caller.self, 0);
    int64_t late = mono_diff(mono_now(), run->due);
    if (action->caller.wait(action->caller.self, late < 0 ? -late : 0)) return true;
    if (late > MAX_LATE_MS * NS_PER_MS) run->due = mono_add(run->due, late - MAX_LATE_MS * NS_PER_MS);
    run->due = mono_add(run->due, 60 * NS_PER_S / action->per_minute);
    return false;
}

static bool run_is_over(const run_t *run) {
    return run->stopped || run->error->outcome != OUTCOME_OK || run->action->of[JOBS_RESULT_FULL] > 0;
}

static bool run_add_item(void *self, const jobs_item_t *item) {
    run_t *run = self;
    jobs_action_t *action = run->action;
    if (run_is_over(run)) return false;
    if (item->entry_cut) return true;
    const jobs_planned_t key = {.digest = *item->digest};
    jobs_planned_t *planned = bsearch(&key, action->plan, action->planned, sizeof key, planned_compare);
    if (!planned || planned->tried) return true;
    run->stopped = run_wait(run);
    if (run->stopped) return false;
    planned->tried = true;
    jobs_target_t target = target_of(item);
    if (action->dry_run) {
        run->tried++;
        action_report(action, &target, JOBS_RESULT_WOULD, "");
        return true;
    }
    failpoint("jobs_before");
    if (action->cancel)
        run_append_cancel(run, item, planned->score, &target);
    else
        jobs_run_append(&run->call, item->entry, planned->score);
    run->targets[run->sent++] = target;
    if (action->per_minute || run->sent == BACKUP_PAGE) run_read_replies(run);
    return !run_is_over(run);
}

// Jobs that were planned, and promoted or ended before their turn came.
static void action_report_gone(jobs_action_t *action) {
    for (size_t i = 0; i < action->planned; i++) {
        const jobs_planned_t *planned = &action->plan[i];
        jobs_target_t target = {.due = 0};
        if (planned->tried) continue;
        if (action->id_count) snprintf(target.job, sizeof target.job, "%s", action->ids[planned->id]);
        digest_hex(&planned->digest, target.sha256);
        action_report(action, &target, JOBS_RESULT_GONE, "");
    }
}

static void run_read_jobs(run_t *run) {
    jobs_action_t *action = run->action;
    jobs_reader_t *reader = jobs_open(action->keys, action->queue, &action->query, NULL);
    while (!jobs_ended(reader) && !run_is_over(run) && run->tried < action->planned) {
        redis_error_t read = {0};
        jobs_step(reader, action->conn, 0, run_add_item, run, &read);
        run_read_replies(run);
        if (read.outcome != OUTCOME_OK && run->error->outcome == OUTCOME_OK) *run->error = read;
    }
    jobs_close(reader);
}

jobs_end_t jobs_carry_out(jobs_action_t *action, redis_error_t *error) {
    run_t *run = mem_alloc(sizeof *run);
    *run = (run_t){.action = action, .error = error, .due = mono_now()};
    run->call = (call_t){.conn = action->conn, .keys = action->keys, .queue = action->queue, .error = error};
    *error = (redis_error_t){0};
    run_read_jobs(run);
    // A job that was scheduled anew may be out of the range of the filter, or where this has read before.
    action->query.since_ms = action->query.until_ms = 0;
    run_read_jobs(run);
    bool broken = error->outcome != OUTCOME_OK || action->of[JOBS_RESULT_FULL] > 0, stopped = run->stopped;
    free(run);
    if (!broken && !stopped) action_report_gone(action);
    return broken ? JOBS_BROKEN : stopped ? JOBS_STOPPED : JOBS_ENDED;
}

void jobs_action_free(jobs_action_t *action) {
    free(action->plan);
    action->plan = NULL;
}

bool jobs_has_failed(const jobs_action_t *action) {
    for (int i = 0; i < JOBS_RESULT_COUNT; i++)
        if (action->of[i] && jobs_words[i].fails) return true;
    return false;
}

// ---- JSON.

static void write_text(buffer_t *out, const char *name, const char *text) {
    buffer_printf(out, ",\"%s\":", name);
    json_write_string(out, slice_text(text));
}

void jobs_write_result(buffer_t *out, const jobs_action_t *action, const jobs_target_t *target, jobs_result_t result,
                       const char *detail) {
    buffer_printf(out, "{\"action\":\"%s\"", action->cancel ? "cancel" : "run");
    write_text(out, "queue", action->keys->queues[action->queue].config->name);
    write_text(out, "job_id", target->job);
    write_text(out, "sha256", target->sha256);
    buffer_str(out, ",\"due_at\":");
    if (target->due && target->due != INT64_MAX)
        buffer_printf(out, "\"%s\"", time_rfc3339(target->due).text);
    else
        buffer_str(out, "null");
    write_text(out, "result", jobs_words[result].word);
    write_text(out, "ref", target->ref);
    write_text(out, "detail", *detail ? detail : jobs_words[result].text);
    buffer_str(out, "}");
}

void jobs_write_counts(buffer_t *out, const jobs_action_t *action) {
    for (int i = 0; i < JOBS_RESULT_COUNT; i++)
        buffer_printf(out, "%s\"%s\":%" PRId64, i ? "," : "", jobs_words[i].word, action->of[i]);
}
