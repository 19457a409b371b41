#include "dialects/private_queues/internal.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "dialects/private_queues/config.h"
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
static outcome_t dry_run_command(const dry_run_t *room, const char *const *words) {
    redisReply *reply;
    request_begin(room->conn, words[0]);
    for (size_t i = 1; words[i]; i++) request_text(room->conn, words[i]);
    outcome_t outcome = request_ask(room->conn, &reply, room->error);
    conn_reply_free(reply);
    return outcome;
}

#define DRY_RUN_COMMAND(room, ...) dry_run_command(room, (const char *const[]){__VA_ARGS__, NULL})

static outcome_t dry_run_tails(const dry_run_t *room, const private_scratch_t *keys) {
    redisReply *reply;
    int lists = 1;
    request_script(room->conn, &script_private_tails, lists);
    request_text(room->conn, keys->private);
    request_text(room->conn, "99");
    request_text(room->conn, "99");
    outcome_t outcome = request_ask(room->conn, &reply, room->error);
    conn_reply_free(reply);
    return outcome;
}

// The commands that read the names of lists.
static bool dry_run_lists(const dry_run_t *room, const private_scratch_t *keys) {
    const private_config_t *own = private_config(room->config);
    if (!room->passed(room, &script_private_tails, dry_run_tails(room, keys))) return false;
    outcome_t outcome = *own->registry ? DRY_RUN_COMMAND(room, "SSCAN", keys->done, "0", "COUNT", "1")
                                       : DRY_RUN_COMMAND(room, "SCAN", "0", "MATCH", keys->private, "COUNT", "1", "TYPE", "list");
    return room->passed(room, &script_private_tails, outcome);
}

static outcome_t dry_run_dead_letters(const dry_run_t *room, const private_scratch_t *keys) {
    redisReply *reply;
    request_script(room->conn, &script_dead_letters, 3);
    request_text(room->conn, room->keys->locks[0].key);
    request_text(room->conn, keys->dlq);
    request_text(room->conn, keys->recorded);
    request_text(room->conn, room->token);
    request_text(room->conn, "0");
    request_text(room->conn, "9");
    request_text(room->conn, "99");
    request_text(room->conn, "99");
    request_text(room->conn, "1");
    request_text(room->conn, "1");
    outcome_t outcome = request_ask(room->conn, &reply, room->error);
    conn_reply_free(reply);
    return outcome;
}

static outcome_t dry_run_record(const dry_run_t *room, const private_scratch_t *keys) {
    const queue_keys_t *at = &room->keys->queues[0];
    redisReply *reply;
    request_script(room->conn, &script_record_once, 4);
    request_text(room->conn, room->keys->locks[0].key);
    request_text(room->conn, keys->recorded);
    request_text(room->conn, at->failures);
    request_text(room->conn, at->meta);
    request_text(room->conn, room->token);
    request_text(room->conn, "scratch");
    request_text(room->conn, "9999");
    request_text(room->conn, "event");
    request_text(room->conn, "scratch");
    outcome_t outcome = request_ask(room->conn, &reply, room->error);
    conn_reply_free(reply);
    return outcome;
}

static bool dry_run_dlq(const dry_run_t *room, const private_scratch_t *keys) {
    return room->passed(room, &script_dead_letters, dry_run_dead_letters(room, keys)) &&
           room->passed(room, &script_record_once, dry_run_record(room, keys));
}

// An end that looks into `dedup` and marks what it pushes to the dlq.
static outcome_t dry_run_settle(const dry_run_t *room, const private_scratch_t *keys) {
    const digest_t digest = digest_of("job", 3);
    const event_t event = {.kind = slice_text("scratch")};
    const settle_where_t where = {.from = keys->private,
                                  .ready = room->keys->queues[0].config->ready,
                                  .depth = 1,
                                  .done = *private_config(room->config)->dedup ? keys->done : NULL,
                                  .done_id = slice_text("another"),
                                  .recorded = *room->config->dlq ? keys->recorded : NULL};
    settled_t settled;
    const call_t call = {room->conn, room->keys, 0, room->token, room->error};
    settle_append(
        &call,
        &(settle_ask_t){
            .job = slice_text("job"), .digest = &digest, .where = &where, .from_tail = true, .report = "", .event = &event});
    return settle_read(room->conn, &settled, room->error);
}

static bool dry_run_is_oom(const redis_error_t *error) {
    return error->outcome == OUTCOME_RETRY && strncmp(error->text, "OOM", 3) == 0;
}

// If Redis is out of memory, try the rest without a job: a leader must be able to start there.
static outcome_t dry_run_lay_out(const dry_run_t *room, const private_scratch_t *keys) {
    static const char TTL[] = "60000";
    const char *const requests[][3] = {{"LPUSH", keys->private, "job"}, {"LPUSH", keys->dlq, "letter"}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        outcome_t outcome = DRY_RUN_COMMAND(room, requests[i][0], requests[i][1], requests[i][2]);
        if (outcome == OUTCOME_DISCONNECTED) return outcome;
        if (outcome != OUTCOME_OK && !dry_run_is_oom(room->error)) return outcome;
        if (DRY_RUN_COMMAND(room, "PEXPIRE", requests[i][1], TTL) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
    }
    return redis_error_set(room->error, OUTCOME_OK, "%s", "");
}

unsigned private_dry_run_needs(const queue_config_t *queue) {
    return (*private_config(queue)->registry ? 1U : 0) | (*private_config(queue)->dedup ? 2U : 0) | (*queue->dlq ? 4U : 0);
}

bool private_dry_run(const dry_run_t *room) {
    private_scratch_t keys = {mem_printf("%sprivate", room->prefix), mem_printf("%sletters", room->prefix),
                              mem_printf("%srecorded", room->prefix), mem_printf("%sdone", room->prefix)};
    char *const all[SCRATCH] = {keys.private, keys.dlq, keys.recorded, keys.done};
    bool ok = room->passed(room, &script_private_tails, dry_run_lay_out(room, &keys)) && dry_run_lists(room, &keys) &&
              (!*room->config->dlq || dry_run_dlq(room, &keys)) &&
              room->passed(room, &script_settle, dry_run_settle(room, &keys));
    redis_error_t said = *room->error;
    for (size_t i = 0; i < SCRATCH; i++) {
        if (ok && DRY_RUN_COMMAND(room, "DEL", all[i]) == OUTCOME_DISCONNECTED) ok = false;
        free(all[i]);
    }
    if (ok) *room->error = said;
    return ok;
}
