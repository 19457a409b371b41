#include "queue/dryrun.h"

#include <stdio.h>
#include <stdlib.h>

#include "queue/dialects/dialect.h"
#include "queue/heads.h"
#include "queue/lock.h"
#include "queue/reply.h"

enum { SCRATCH_TTL_MS = 60000, SCRATCH_KEYS = 5 };

typedef struct scratch {
    conn_t *conn;
    keyspace_t *keys;
    config_t config;
    queue_config_t queue;
    const char *all[SCRATCH_KEYS]; // every key that a script may leave, borrowed from the above
    char token[TOKEN_SIZE];
    dryrun_fn *refused;
    void *self;
    fault_t *fault;
} scratch_t;

// A name whose keys fall into the slot of `lock`: its own hash tag, or else all of it as a tag.
static char *scratch_name(const char *lock) {
    char random[TOKEN_SIZE];
    token_new(random, 0);
    random[16] = '\0';
    const char *open = strchr(lock, '{');
    const char *close = open ? strchr(open + 1, '}') : NULL;
    if (close && close > open + 1) return mem_printf("preflight-%s%.*s", random, (int)(close - open + 1), open);
    return mem_printf("preflight-%s{%s}", random, lock);
}

static void scratch_init(scratch_t *scratch, const keyspace_t *keys) {
    queue_config_t *queue = &scratch->queue;
    queue->name = scratch_name(keys->seats[0].lock);
    queue->ready = mem_printf("sidecar:%s:ready", queue->name);
    queue->delayed = mem_printf("sidecar:%s:delayed", queue->name);
    queue->policy = keys->config->queues[0].policy;
    scratch->config = (config_t){.group = queue->name, .queues = queue, .queue_count = 1};
    scratch->keys = keyspace_new(&scratch->config);
    const seat_t *seat = &scratch->keys->seats[0];
    const char *all[SCRATCH_KEYS] = {queue->ready, queue->delayed, seat->lock, seat->served, scratch->keys->queues[0].meta};
    memcpy(scratch->all, all, sizeof all);
    token_new(scratch->token, SCRATCH_TTL_MS);
}

static void scratch_free(scratch_t *scratch) {
    keyspace_free(scratch->keys);
    free(scratch->queue.name);
    free(scratch->queue.ready);
    free(scratch->queue.delayed);
}

// Notes a refusal and says whether the run can go on.
static bool passed(scratch_t *scratch, script_id_t script, outcome_t outcome) {
    if (outcome == OUTCOME_FAULT) scratch->refused(scratch->self, script_name(script), scratch->fault->text);
    return outcome == OUTCOME_OK || outcome == OUTCOME_FAULT;
}

// Sends `command` for every scratch key. Refusals are of no interest: these commands only tidy up.
static outcome_t for_all_keys(scratch_t *scratch, const char *command, int64_t ttl_ms) {
    for (int i = 0; i < SCRATCH_KEYS; i++) {
        request_begin(scratch->conn, command);
        request_text(scratch->conn, scratch->all[i]);
        if (ttl_ms) request_int(scratch->conn, ttl_ms);
        request_end(scratch->conn);
    }
    for (int i = 0; i < SCRATCH_KEYS; i++) {
        redisReply *reply;
        outcome_t outcome = conn_read(scratch->conn, 0, &reply, scratch->fault);
        conn_reply_free(reply);
        if (outcome == OUTCOME_LOST) return outcome;
    }
    return OUTCOME_OK;
}

static bool try_lock(scratch_t *scratch) {
    lock_state_t state = {0};
    bool yes;
    foreign_t foreign = {.queue = 0, .owner = "preflight-nobody"};
    const seat_t *seat = &scratch->keys->seats[0];
    outcome_t outcome = lock_acquire(scratch->conn, scratch->keys, 0, scratch->token, SCRATCH_TTL_MS, &state, scratch->fault);
    lock_state_clear(&state);
    // In Cluster the lock of another group lies in another slot; there every queue has a lock of its own and claim is not needed.
    snprintf(foreign.owner, sizeof foreign.owner, "%s", seat->name);
    return passed(scratch, SCRIPT_acquire, outcome) &&
           passed(scratch, SCRIPT_renew,
                  lock_renew(scratch->conn, seat, scratch->token, SCRATCH_TTL_MS, 0, &yes, scratch->fault)) &&
           passed(scratch, SCRIPT_claim,
                  lock_claim(scratch->conn, scratch->keys, 0, scratch->token, &foreign, &yes, scratch->fault)) &&
           for_all_keys(scratch, "PEXPIRE", SCRATCH_TTL_MS) == OUTCOME_OK;
}

static bool try_queue(scratch_t *scratch) {
    const dialect_ops_t *ops = dialect_ops(scratch->queue.dialect);
    redisReply *reply;
    promote_reply_t promoted;
    head_t head;
    int64_t now_us;
    request_begin(scratch->conn, "ZADD");
    request_text(scratch->conn, scratch->queue.delayed);
    request_text(scratch->conn, "0");
    request_text(scratch->conn, "scratch");
    outcome_t outcome = request_ask(scratch->conn, &reply, scratch->fault);
    conn_reply_free(reply);
    // A full Redis refuses this ZADD, yet we must be able to lead there; then promote is tried without a job.
    bool full = strncmp(scratch->fault->text, "OOM", 3) == 0;
    if (!full && !passed(scratch, SCRIPT_promote, outcome)) return false;
    ops->promote_append(scratch->conn, scratch->keys, &(promote_ask_t){.token = scratch->token, .batch = 1});
    if (!passed(scratch, SCRIPT_promote, ops->promote_read(scratch->conn, &promoted, scratch->fault))) return false;
    heads_append(scratch->conn, scratch->keys, &(head_ask_t){0}, 1, false);
    return passed(scratch, SCRIPT_heads, heads_read(scratch->conn, 1, false, &head, &now_us, scratch->fault));
}

static bool try_end(scratch_t *scratch) {
    bool yes;
    return passed(scratch, SCRIPT_heal,
                  lock_heal(scratch->conn, &scratch->keys->seats[0], scratch->token, &yes, scratch->fault)) &&
           passed(scratch, SCRIPT_release, lock_release(scratch->conn, scratch->keys, 0, scratch->token, scratch->fault));
}

outcome_t dryrun(conn_t *conn, const keyspace_t *keys, dryrun_fn *refused, void *self, fault_t *fault) {
    scratch_t scratch = {.conn = conn, .refused = refused, .self = self, .fault = fault};
    scratch_init(&scratch, keys);
    bool ran = try_lock(&scratch) && try_queue(&scratch) && try_end(&scratch);
    outcome_t outcome = ran ? OUTCOME_OK : fault->outcome;
    if (outcome != OUTCOME_LOST) {
        fault_t tidy = *fault;
        scratch.fault = &tidy;
        if (for_all_keys(&scratch, "DEL", 0) == OUTCOME_LOST) outcome = fault_set(fault, OUTCOME_LOST, "%s", tidy.text);
    }
    scratch_free(&scratch);
    return outcome;
}
