#include "leader/internal.h"

#include "base/log.h"

static const char ROLE[] = "leader";

const char *leader_lock_name(const leader_t *leader, size_t lock) { return leader->keys->locks[lock].name; }

lock_call_t leader_lock_call(leader_t *leader, size_t lock, redis_error_t *error) {
    return (lock_call_t){leader->conn, leader->keys, lock, leader->elections[lock].token, leader->ttl_ms, error};
}

void leader_back_off(leader_t *leader, const lock_keys_t *lock, const redis_error_t *error) {
    mono_t now = mono_now(), retry_at = backoff_failed(&leader->backoff, now);
    leader->retry_at = error->outcome == OUTCOME_REFUSED ? mono_add(now, leader->backoff.most_ms * NS_PER_MS) : retry_at;
    metric_set(&leader->metrics->redis_up, conn_is_open(leader->conn));
    metrics_say(leader->metrics, WHY_REDIS, error->text);
    if (error->outcome == OUTCOME_REFUSED)
        log_error(ROLE, NULL, "redis refuses the lock", F_STR("key", lock ? lock->key : NULL), F_STR("reason", error->text));
    else if (error->outcome == OUTCOME_RETRY)
        log_warn(ROLE, NULL, "redis is not ready", F_STR("reason", error->text));
    else
        log_warn(ROLE, NULL, "cannot reach redis", F_STR("reason", error->text));
}
