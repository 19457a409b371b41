#include "dialects/private_queues/private_queues.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "dialects/private_queues/scripts.h"
#include "queue/scripts.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum { SCRATCH = 4 };

// Scratch keys, owned.
typedef struct scratch {
    char *private, *dlq, *recorded, *done;
} private_scratch_t;

// One command with up to six arguments, NULL-terminated.
static outcome_t dry_run_command(const dry_run_t *run, const char *const *words) {
    redisReply *reply;
    request_begin(run->conn, words[0]);
    for (size_t i = 1; words[i]; i++) request_text(run->conn, words[i]);
    outcome_t outcome = request_ask(run->conn, &reply, run->error);
    conn_reply_free(reply);
    return outcome;
}

#define DRY_RUN_COMMAND(run, ...) dry_run_command(run, (const char *const[]){__VA_ARGS__, NULL})

static outcome_t dry_run_tails(const dry_run_t *run, const private_scratch_t *keys) {
    redisReply *reply;
    int lists = 1;
    request_script(run->conn, &script_private_tails, lists);
    request_text(run->conn, keys->private, "99", "99");
    outcome_t outcome = request_ask(run->conn, &reply, run->error);
    conn_reply_free(reply);
    return outcome;
}

// The commands that read the names of lists.
static bool dry_run_lists(const dry_run_t *run, const private_scratch_t *keys) {
    const private_config_t *own = private_config(run->config);
    if (!run->passed(run, &script_private_tails, dry_run_tails(run, keys))) return false;
    outcome_t outcome = *own->registry ? DRY_RUN_COMMAND(run, "SSCAN", keys->done, "0", "COUNT", "1")
                                       : DRY_RUN_COMMAND(run, "SCAN", "0", "MATCH", keys->private, "COUNT", "1", "TYPE", "list");
    return run->passed(run, &script_private_tails, outcome);
}

static outcome_t dry_run_dead_letters(const dry_run_t *run, const private_scratch_t *keys) {
    redisReply *reply;
    request_script(run->conn, &script_dead_letters, 3);
    request_text(run->conn, run->keys->locks[0].key, keys->dlq, keys->recorded, run->token, "0", "9", "99", "99", "1", "1");
    outcome_t outcome = request_ask(run->conn, &reply, run->error);
    conn_reply_free(reply);
    return outcome;
}

static outcome_t dry_run_record(const dry_run_t *run, const private_scratch_t *keys) {
    const queue_keys_t *at = &run->keys->queues[0];
    redisReply *reply;
    request_script(run->conn, &script_record_once, 4);
    request_text(run->conn, run->keys->locks[0].key, keys->recorded, at->failures, at->meta, run->token, "scratch", "9999",
                 "event", "scratch");
    outcome_t outcome = request_ask(run->conn, &reply, run->error);
    conn_reply_free(reply);
    return outcome;
}

static bool dry_run_dlq(const dry_run_t *run, const private_scratch_t *keys) {
    return run->passed(run, &script_dead_letters, dry_run_dead_letters(run, keys)) &&
           run->passed(run, &script_record_once, dry_run_record(run, keys));
}

// An end that reads `dedup` and marks the bytes that it pushes to the dlq.
static outcome_t dry_run_settle(const dry_run_t *run, const private_scratch_t *keys) {
    const digest_t digest = digest_of("job", 3);
    const event_t event = {.kind = slice_text("scratch")};
    const settle_where_t where = {.from = keys->private,
                                  .ready = run->keys->queues[0].config->ready,
                                  .depth = 1,
                                  .done = *private_config(run->config)->dedup ? keys->done : NULL,
                                  .done_id = slice_text("another"),
                                  .recorded = *run->config->dlq ? keys->recorded : NULL};
    settled_t settled;
    const call_t call = {run->conn, run->keys, 0, run->token, run->error};
    settle_append(
        &call,
        &(settle_ask_t){
            .job = slice_text("job"), .digest = &digest, .where = &where, .from_tail = true, .report = "", .event = &event});
    return settle_read(run->conn, &settled, run->error);
}

static bool dry_run_is_oom(const redis_error_t *error) {
    return error->outcome == OUTCOME_RETRY && strncmp(error->text, "OOM", 3) == 0;
}

// If Redis is out of memory, try the rest without a job: a leader must be able to start there.
static outcome_t dry_run_lay_out(const dry_run_t *run, const private_scratch_t *keys) {
    static const char TTL[] = "60000";
    const char *const requests[][3] = {{"LPUSH", keys->private, "job"}, {"LPUSH", keys->dlq, "letter"}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        outcome_t outcome = DRY_RUN_COMMAND(run, requests[i][0], requests[i][1], requests[i][2]);
        if (outcome == OUTCOME_DISCONNECTED) return outcome;
        if (outcome != OUTCOME_OK && !dry_run_is_oom(run->error)) return outcome;
        if (DRY_RUN_COMMAND(run, "PEXPIRE", requests[i][1], TTL) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
    }
    return redis_error_set(run->error, OUTCOME_OK, "%s", "");
}

unsigned private_dry_run_needs(const queue_config_t *queue) {
    return (*private_config(queue)->registry ? 1U : 0) | (*private_config(queue)->dedup ? 2U : 0) | (*queue->dlq ? 4U : 0);
}

bool private_dry_run(const dry_run_t *run) {
    private_scratch_t keys = {mem_printf("%sprivate", run->prefix), mem_printf("%sletters", run->prefix),
                              mem_printf("%srecorded", run->prefix), mem_printf("%sdone", run->prefix)};
    char *const all[SCRATCH] = {keys.private, keys.dlq, keys.recorded, keys.done};
    bool ok = run->passed(run, &script_private_tails, dry_run_lay_out(run, &keys)) && dry_run_lists(run, &keys) &&
              (!*run->config->dlq || dry_run_dlq(run, &keys)) && run->passed(run, &script_settle, dry_run_settle(run, &keys));
    redis_error_t said = *run->error;
    for (size_t i = 0; i < SCRATCH; i++) {
        if (ok && DRY_RUN_COMMAND(run, "DEL", all[i]) == OUTCOME_DISCONNECTED) ok = false;
        free(all[i]);
    }
    if (ok) *run->error = said;
    return ok;
}
