// The context of a request for one queue. Every function of queue/ that serves one queue takes this context first.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

struct redisReply;

// Every member is borrowed. A function that reads a reply sets *error and returns its outcome.
typedef struct call {
    conn_t *conn;
    const keyspace_t *keys;
    size_t queue;      // index in the keyspace
    const char *token; // token of the term; NULL if no fenced function is called
    redis_error_t *error;
} call_t;

const queue_keys_t *call_queue(const call_t *call);
const char *call_lock(const call_t *call);  // key of the lock that fences the queue
const char *call_group(const call_t *call); // name of the lock: the group, or the queue if lock.scope is "queue"

// Microseconds that a script which settles jobs may take: half of redis.slice. To read the request and to free its memory Redis
// needs an eighth of the slice besides, and an auditor reads the records at the same time, for a fourth. Other clients wait for
// all three.
int64_t call_settle_us(const call_t *call);

// Begins a request for a fenced script with `keys` keys. KEYS[1] is the lock. The caller adds the other keys, then call->token.
void call_script(const call_t *call, const script_t *script, int keys);

// Ends the request and waits for its reply. `reply` may be NULL. On OUTCOME_OK *reply is owned. The replies {'fenced'} and
// {'type', key, found} of a script become OUTCOME_FENCED and OUTCOME_REFUSED.
outcome_t call_ask(const call_t *call, struct redisReply **reply);

// Sets *error from a reply {'fenced'} or {'type', key, found}. Any other reply leaves *error unchanged.
outcome_t script_refusal(const struct redisReply *reply, redis_error_t *error);

// Whether the reply of a script begins with one of these words. If not, sets *error to OUTCOME_REFUSED.
bool script_reply_begins(const struct redisReply *reply, const char *word, const char *other, redis_error_t *error);
