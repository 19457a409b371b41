// Failures that Bull's workers decided: Bull's zset `failed`, and the messages of its channel of the same name. A message names
// no database. So a failure is recorded from its message alone only while no other database holds a Bull queue of this name.
#include "dialects/bull/failed.h"

#include "base/json/json.h"
#include "base/log.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "dialects/failed/failed.h"
#include "queue/elsewhere.h"

enum { SHARING_S = 3600 }; // after another database has lost its queue: messages of that queue may be under way

static const char ROLE[] = "monitor";

static void bull_failed_record(job_record_t *record, const call_t *call, const hash_job_t *job) {
    slice_t said = job->fields[BULL_FAILED_REASON];
    bool stalled = slice_is(said, BULL_STALLED_REASON) || slice_is(said, BULL_STALLED_MESSAGE);
    bull_record_make(record, call, job, stalled ? "retries_exhausted" : "worker_failed");
}

// ---- Messages.

// Appends a string decoded, and any other value except null as it is.
static void message_add_value(buffer_t *out, const json_pick_t *pick) {
    bool there = pick->found == JSON_FOUND && pick->value.type != JSON_NULL;
    if (there && (pick->value.type != JSON_STRING || !json_decode(pick->value.raw, out)))
        buffer_add(out, pick->value.raw.data, pick->value.raw.len);
}

bool bull_messages_add(failed_messages_t *messages, slice_t text) {
    json_pick_t picks[] = {{.pointer = "/jobId"}, {.pointer = "/val"}, {.pointer = "/by"}};
    if (!json_pick(text, picks, 3) || picks[0].found != JSON_FOUND) return true;
    if (picks[2].found == JSON_FOUND && slice_is(picks[2].value.raw, "queue-sidecar")) return true;
    bool room = failed_messages_make_room(messages, text.len);
    buffer_t bytes = {0};
    message_add_value(&bytes, &picks[0]);
    size_t id_len = bytes.len;
    message_add_value(&bytes, &picks[1]);
    failed_messages_add(messages, bytes, id_len, 0);
    return room;
}

static void bull_failed_on_message(void *state, const char *channel, slice_t message) {
    (void)channel;
    if (bull_messages_add(failed_messages(state), message)) return;
    log_warn(ROLE, failed_queue(state),
             "too many messages on Bull's channel failed; failures of jobs that Bull removed at once are not recorded");
}

// ---- Other databases.

static void sharing_update(failed_doubt_t *sharing, const side_task_call_t *step, const char *why) {
    const char *queue = call_queue(&step->redis)->config->name;
    if (!*why && !mono_reached(sharing->until, step->now)) return;
    condition_change_t change = condition_update_reason(&sharing->why, why);
    if (change == CONDITION_BEGAN)
        log_warn(ROLE, queue, "failures of jobs that Bull removes at once are not recorded", F_STR("reason", why));
    else if (change == CONDITION_ENDED)
        log_info(ROLE, queue, "failures of jobs that Bull removes at once are recorded again");
}

// Looks whether another database holds a Bull queue of this name. Logs a change.
static outcome_t sharing_look(failed_doubt_t *sharing, const side_task_call_t *step) {
    const call_t *call = &step->redis;
    const char *base = bull_config(call_queue(call)->config)->base;
    char *const names[] = {mem_printf("%s:id", base), mem_printf("%s:failed", base)}; // Bull never deletes `id`
    char why[sizeof call->error->text + 64] = "";
    elsewhere_t found;
    outcome_t outcome = elsewhere_find(call->conn, call->keys, (const char *const *)names, 2, &found, call->error);
    free(names[0]);
    free(names[1]);
    if (outcome == OUTCOME_REFUSED)
        snprintf(why, sizeof why, "redis does not tell about other databases: %s", call->error->text);
    else if (outcome != OUTCOME_OK)
        return outcome;
    else if (found.database >= 0)
        snprintf(why, sizeof why, "database %" PRId64 " holds a Bull queue of this name, and messages tell no database",
                 found.database);
    if (outcome == OUTCOME_OK && found.database >= 0) sharing->until = mono_add(step->now, SHARING_S * NS_PER_S);
    *call->error = (redis_error_t){0};
    sharing_update(sharing, step, why);
    return OUTCOME_OK;
}

// ---- The task.

static const failed_layout_t layout = {
    .unit_ms = 1, .fields = &bull_fields, .error = BULL_FAILED_REASON, .record = bull_failed_record, .look = sharing_look};

static void *bull_failed_open(const queue_keys_t *at) {
    const bull_config_t *own = bull_config(at->config);
    return failed_open(at, (failed_source_t){.layout = &layout,
                                             .key = mem_printf("%s:failed", own->base),
                                             .prefix = mem_printf("%s:", own->base),
                                             .records = own->record_failed});
}

// The channel has the name of the key.
const side_task_ops_t bull_failed_task = {FAILED_TASK, .open = bull_failed_open, .channels = failed_names,
                                          .on_message = bull_failed_on_message};
