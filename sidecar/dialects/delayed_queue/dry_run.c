// The dry run of delayedQueue's own scripts.
#include <stdlib.h>

#include "base/buffer.h"
#include "dialects/delayed_queue/delayed_queue.h"
#include "dialects/delayed_queue/scripts.h"
#include "dialects/requeue.h"
#include "queue/quarantine.h"
#include "queue/scripts.h"

enum { SCRATCH_TTL_MS = 60000, SCRATCH_BATCH = 3 };

#define CLASS      "scratch"
#define ENVELOPE_1 "{\"payload\":{},\"type\":\"" CLASS "\",\"attempt\":1,\"logContext\":{}}"
#define ENVELOPE_2 "{\"payload\":{},\"type\":\"" CLASS "\",\"attempt\":2,\"logContext\":{}}"

// A queue of this dialect on the scratch keys.
typedef struct scratch {
    const dry_run_t *run;
    char *events, *list, *class; // owned
    delay_step_t step;
    delayed_config_t own;  // borrows
    queue_config_t config; // borrows
    queue_keys_t queue;
    keyspace_t keys;
} delayed_scratch_t;

static void scratch_init(delayed_scratch_t *scratch, const dry_run_t *run) {
    *scratch = (delayed_scratch_t){.run = run,
                                   .events = mem_printf("%sevents", run->prefix),
                                   .list = mem_printf("%slist", run->prefix),
                                   .class = mem_str(CLASS),
                                   .step = {.below = INT64_MAX, .delay_ms = SCRATCH_TTL_MS},
                                   .config = *run->keys->queues[0].config,
                                   .queue = run->keys->queues[0],
                                   .keys = *run->keys};
    scratch->own = (delayed_config_t){.events = scratch->events,
                                      .retry_attempts = 2,
                                      .lists = {.items = &scratch->list, .count = 1},
                                      .classes = {.items = &scratch->class, .count = 1},
                                      .delays = {.items = &scratch->step, .count = 1}};
    scratch->config.own = &scratch->own;
    scratch->queue.config = &scratch->config;
    scratch->keys.queues = &scratch->queue;
}

static void scratch_clear(delayed_scratch_t *scratch) {
    free(scratch->events);
    free(scratch->list);
    free(scratch->class);
}

// Sends one command, then a TTL for its key. Ignores a refusal, because Redis refuses the scripts for the same command.
static bool scratch_write(delayed_scratch_t *scratch, const char *command, const char *key, const char *one, const char *two) {
    conn_t *conn = scratch->run->conn;
    request_append(conn, command, key, one, two);
    request_begin(conn, "PEXPIRE", key);
    request_int(conn, SCRATCH_TTL_MS);
    request_end(conn);
    for (int i = 0; i < 2; i++) {
        struct redisReply *reply;
        redis_error_t error;
        outcome_t outcome = conn_read(conn, 0, &reply, &error);
        conn_reply_free(reply);
        if (outcome == OUTCOME_DISCONNECTED) {
            *scratch->run->error = error;
            return scratch->run->passed(scratch->run, &script_delayed_promote, outcome);
        }
    }
    return true;
}

// Three due events: the script sends one, finds no envelope for the second, and quarantines the third.
static bool dry_run_promote(delayed_scratch_t *scratch) {
    const dry_run_t *run = scratch->run;
    const char *delayed = scratch->config.delayed;
    promote_reply_t reply;
    bool laid = scratch_write(scratch, "ZADD", delayed, "1", CLASS "###1") &&
                scratch_write(scratch, "ZADD", delayed, "2", CLASS "###2") &&
                scratch_write(scratch, "ZADD", delayed, "3", CLASS "###3") &&
                scratch_write(scratch, "HSET", scratch->events, CLASS "###1", ENVELOPE_1) &&
                scratch_write(scratch, "HSET", scratch->events, CLASS "###2", "odd");
    if (!laid) return false;
    const call_t call = {run->conn, &scratch->keys, 0, run->token, run->error};
    delayed_promote.append(&call, &(promote_request_t){.batch = SCRATCH_BATCH, .first = SCRATCH_BATCH});
    return run->passed(run, &script_delayed_promote, promote_read_reply(run->conn, &reply, run->error)) &&
           scratch_write(scratch, "ZADD", scratch->queue.quarantine, "1", "scratch") &&
           scratch_write(scratch, "LPUSH", scratch->list, "scratch", "scratch");
}

// Every verdict, each on a fresh member.
static bool dry_run_quarantine(delayed_scratch_t *scratch) {
    static const quarantine_verdict_t verdicts[] = {QUARANTINE_RELEASE, QUARANTINE_PUSH, QUARANTINE_END};
    const dry_run_t *run = scratch->run;
    const event_t event = {.kind = slice_text("scratch")};
    quarantine_page_t page;
    const call_t call = {run->conn, &scratch->keys, 0, run->token, run->error};
    outcome_t outcome = quarantine_read(&call, scratch->events, 0, false, &page);
    quarantine_page_free(&page);
    if (!run->passed(run, &script_quarantine_read, outcome)) return false;
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        quarantined_t job = {.member = slice_text(CLASS "###4"), .score = "4", .envelope = slice_text(ENVELOPE_1)};
        settled_t settled;
        if (!scratch_write(scratch, "ZADD", scratch->config.delayed, job.score, CLASS "###4") ||
            !scratch_write(scratch, "HSET", scratch->events, CLASS "###4", ENVELOPE_1) ||
            !scratch_write(scratch, "ZADD", scratch->queue.quarantine, "1", CLASS "###4"))
            return false;
        quarantine_settle_append(&call, &(quarantine_decision_t){.job = &job,
                                                                 .verdict = verdicts[i],
                                                                 .events = scratch->events,
                                                                 .ready = scratch->list,
                                                                 .next = slice_text(ENVELOPE_2),
                                                                 .delay_ms = SCRATCH_TTL_MS,
                                                                 .event = &event});
        if (!run->passed(run, &script_quarantine_settle, settle_read(run->conn, &settled, run->error))) return false;
    }
    return true;
}

// A full Redis refuses this command. That refusal proves nothing about rights.
static bool dry_run_requeue(delayed_scratch_t *scratch) {
    const dry_run_t *run = scratch->run;
    const digest_t digest = digest_of("delayed_queue", 13);
    const requeue_push_t where = {.mark_id = slice_text(CLASS "###5"), .job = slice_text(ENVELOPE_1)};
    requeue_reply_t reply;
    char id[DIGEST_HEX_SIZE];
    digest_hex(&digest, id);
    const event_t event = {.kind = slice_text("scratch"), .answers = slice_text(id)};
    delayed_requeue.append(run->conn, &scratch->keys, &(requeue_request_t){.by = "preflight", .record = &event}, &where);
    outcome_t outcome = requeue_read(run->conn, &reply, run->error);
    if (outcome == OUTCOME_RETRY && strncmp(run->error->text, "OOM", 3) == 0) outcome = OUTCOME_OK;
    if (outcome == OUTCOME_OK && reply.kind == REQUEUE_FAILED)
        outcome = redis_error_set(run->error, OUTCOME_REFUSED, "%s", reply.why);
    return run->passed(run, &script_delayed_requeue, outcome);
}

bool delayed_dry_run(const dry_run_t *run) {
    delayed_scratch_t scratch;
    scratch_init(&scratch, run);
    bool goes_on = dry_run_promote(&scratch) && dry_run_quarantine(&scratch) && dry_run_requeue(&scratch);
    scratch_clear(&scratch);
    return goes_on;
}
