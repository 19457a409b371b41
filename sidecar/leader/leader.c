#include "leader/leader.h"

#include "base/log.h"
#include "leader/internal.h"
#include "redis/failure.h"
#include "redis/keepalive.h"
#include "redis/service/capability.h"

enum {
    PREFLIGHT_AGAIN_S = 5, // between preflights while they fail
    TIMEOUT_MIN_MS = 100,  // shortest timeout of a reply
    LOG_CONNECTED_S = 10,  // between two lines "connected"
};

static const char ROLE[] = "leader";

leader_t *leader_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    leader_t *leader = mem_alloc(sizeof *leader);
    *leader = (leader_t){.shard = shard, .keys = keys, .leases = leases, .metrics = metrics, .backoff = BACKOFF_REDIS};
    leader->ttl_ms = keys->config->lock.ttl_ms;
    leader->conn = conn_new(shard, "queue-sidecar-leader", stop);
    // A later answer is useless for a lease, and waiting for it must not hide that the lease has expired.
    int64_t timeout_ms = leader->ttl_ms / RENEWALS_PER_TTL;
    conn_limit_timeout(leader->conn, (int)(timeout_ms > TIMEOUT_MIN_MS ? timeout_ms : TIMEOUT_MIN_MS));
    leader->subscriber = conn_new(shard, "queue-sidecar-vacant", stop);
    leader->preflight = preflight_results_new(keys, leases, metrics);
    leader->sizes = queue_sizes_new(keys, leases, metrics);
    leader->elections = mem_array(keys->lock_count, sizeof *leader->elections);
    return leader;
}

void leader_free(leader_t *leader) {
    if (!leader) return;
    leader_set_gauge(&leader->metrics->standing_by, &leader->gauges.standing_by, 0);
    leader_set_gauge(&leader->metrics->unserved, &leader->gauges.unserved, 0);
    leader_set_gauge(&leader->metrics->writes_refused, &leader->gauges.writes_refused, 0);
    metrics_say(leader->metrics, WHY_REDIS, leader->leases, NULL);
    for (size_t i = 0; i < leader->keys->lock_count; i++) free(leader->elections[i].other_owner);
    free(leader->elections);
    preflight_results_free(leader->preflight);
    queue_sizes_free(leader->sizes);
    conn_free(leader->conn);
    conn_free(leader->subscriber);
    free(leader);
}

static bool leader_connect(leader_t *leader, redis_error_t *error) {
    bool was_open = conn_is_open(leader->conn);
    if (conn_open(leader->conn, error) != OUTCOME_OK) return false;
    if (was_open) return true;
    mono_t now = mono_now();
    bool logged = leader->was_connected && mono_diff(now, leader->logged_connected) < LOG_CONNECTED_S * NS_PER_S;
    LOG_AT(logged ? LOG_DEBUG : LOG_INFO, ROLE, NULL, "connected", F_STR("redis", conn_target(leader->conn)),
           F_STR("server", conn_server(leader->conn)));
    if (!logged) leader->logged_connected = now;
    capability_log_refusals(ROLE);
    if (leader->was_connected) metric_add(&leader->metrics->reconnects, 1);
    shard_set_reach(leader->shard, SHARD_REACHED, &leader->metrics->redis_up);
    leader->was_connected = true;
    return true;
}

// Runs the preflight once for this connection.
static outcome_t leader_run_preflight(leader_t *leader, redis_error_t *error) {
    outcome_t outcome = preflight_results_check(leader->preflight, leader->conn, error);
    leader_count_unserved(leader);
    capability_log_refusals(ROLE);
    if (outcome == OUTCOME_OK) leader->checked = conn_generation(leader->conn);
    return outcome;
}

static bool leader_leads_any(const leader_t *leader) {
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_LEADING) return true;
    return false;
}

// Repeat the preflight on a new connection, because a new connection may reach another server. Keep a connection that renews
// other locks; the preflight then follows a renewal. While slots are being moved, a new connection does not help.
static void leader_retry_preflight_later(leader_t *leader, size_t lock, bool moving) {
    int64_t pause_ms = moving ? leader->ttl_ms / RENEWALS_PER_TTL : PREFLIGHT_AGAIN_S * 1000;
    mono_t again = mono_add(mono_now(), pause_ms * NS_PER_MS);
    if (leader_leads_any(leader)) {
        leader->elections[lock].next = again;
        return;
    }
    if (!moving) conn_close(leader->conn);
    leader->retry_at = again;
}

// Returns whether the preflight of this connection allows to lead; runs it if needed.
static bool leader_may_lead(leader_t *leader, size_t lock, redis_error_t *error) {
    bool checked = leader->checked == conn_generation(leader->conn);
    if (checked && preflight_results_allow(leader->preflight)) return true;
    outcome_t outcome = checked ? OUTCOME_OK : leader_run_preflight(leader, error);
    if (outcome == OUTCOME_OK && preflight_results_allow(leader->preflight)) return true;
    if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY)
        leader_back_off(leader, error);
    else
        leader_retry_preflight_later(leader, lock, outcome == OUTCOME_REFUSED);
    return false;
}

// The lock was renewed, so there is time for a preflight. It may disable queues, but does not end a term.
static void leader_repeat_preflight(leader_t *leader) {
    redis_error_t error;
    bool checked = leader->checked == conn_generation(leader->conn);
    if (!conn_is_open(leader->conn) || (checked && !preflight_results_check_due(leader->preflight, mono_now()))) return;
    outcome_t outcome = leader_run_preflight(leader, &error);
    if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) leader_back_off(leader, &error);
}

// Recheck faulty queues now and then, so that a repaired right or key needs no restart.
static void leader_recheck_queues(leader_t *leader, mono_t now) {
    redis_error_t error;
    if (!mono_reached(preflight_results_recheck_at(leader->preflight), now) || !mono_reached(leader->retry_at, now)) return;
    outcome_t outcome = leader_connect(leader, &error) ? preflight_results_recheck(leader->preflight, leader->conn, &error)
                                                       : OUTCOME_DISCONNECTED;
    if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) leader_back_off(leader, &error);
    leader_count_unserved(leader);
}

static void leader_renew_due(leader_t *leader) {
    redis_error_t error;
    if (!mono_reached(leader->retry_at, mono_now()) || !renewal_is_due(leader)) return;
    if (!leader_connect(leader, &error)) {
        leader_back_off(leader, &error);
        return;
    }
    leader_renew(leader);
    leader_repeat_preflight(leader);
}

static void leader_try_lock(leader_t *leader, size_t lock) {
    redis_error_t error;
    if (!leader_connect(leader, &error))
        leader_back_off(leader, &error);
    else if (!leader->keys->config->lock.lead)
        leader_look(leader, lock);
    else if (leader_may_lead(leader, lock, &error))
        leader_acquire(leader, lock);
}

static void leader_step_locks(leader_t *leader) {
    leader_renew_due(leader); // first: the leases are running out
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        mono_t now = mono_now();
        const election_t *election = &leader->elections[i];
        if (election->state == ELECTION_LEADING || !mono_reached(mono_max(election->next, leader->retry_at), now)) continue;
        leader_try_lock(leader, i);
        leader_renew_due(leader); // each attempt has taken a round trip
    }
}

static void leader_expire_leases(leader_t *leader, mono_t now) {
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        election_t *election = &leader->elections[i];
        if (election->state == ELECTION_LEADING && mono_reached(election->deadline, now)) {
            election->next = now;
            leader_change_state(leader, i, ELECTION_STANDBY, "the lease ran out before it was renewed");
        }
        if (lease_take_suspicion(leader->leases, i)) election->next = now;
    }
}

// The lock may be missing at the new primary, so look at once.
static void leader_notice_move(leader_t *leader) {
    mono_t now = mono_now();
    if (!conn_take_move(leader->conn)) return;
    backoff_reset(&leader->backoff);
    conn_close(leader->subscriber); // a leader does not use it, and would keep it open
    leader->retry_at = leader->subscriber_retry_at = now;
    for (size_t i = 0; i < leader->keys->lock_count; i++) leader->elections[i].next = now;
}

static void leader_keep_connection(leader_t *leader) {
    redis_error_t error;
    if (conn_keep_alive(leader->conn, &error) != OUTCOME_DISCONNECTED) return;
    conn_report_failure(leader->conn, ROLE, &error);
    for (size_t i = 0; i < leader->keys->lock_count; i++) leader->elections[i].next = mono_now();
}

void leader_tick(void *self, role_wait_t *wait) {
    leader_t *leader = self;
    redis_error_t error;
    leader_notice_move(leader);
    leader_keep_connection(leader);
    leader_expire_leases(leader, mono_now());
    leader_listen(leader);
    leader_step_locks(leader);
    leader_recheck_queues(leader, mono_now());
    if (mono_reached(leader->retry_at, mono_now()) &&
        (queue_sizes_tell_anomalies(leader->sizes, leader->conn, &error) != OUTCOME_OK ||
         queue_sizes_step(leader->sizes, leader->conn, &error) != OUTCOME_OK))
        leader_back_off(leader, &error);
    wait->until = mono_min(queue_sizes_next(leader->sizes), preflight_results_recheck_at(leader->preflight));
    wait->until = mono_min(wait->until, conn_keep_alive_at(leader->conn));
    wait->until = mono_min(wait->until, leader_listen_at(leader));
    wait->until = mono_max(wait->until, leader->retry_at);
    int64_t standing_by = 0;
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        const election_t *election = &leader->elections[i];
        mono_t next = mono_max(election->next, leader->retry_at);
        if (election->state == ELECTION_STANDBY && *election->holder && conn_is_open(leader->conn)) standing_by++;
        if (election->state == ELECTION_LEADING) next = mono_min(next, election->deadline);
        wait->until = mono_min(wait->until, next);
    }
    leader_set_gauge(&leader->metrics->standing_by, &leader->gauges.standing_by, standing_by);
    bool well = leader_leads_any(leader) || !leader->keys->config->lock.lead;
    if (standing_by || (well && conn_is_open(leader->conn))) metrics_say(leader->metrics, WHY_REDIS, leader->leases, NULL);
    // While backing off nothing is read, and a readable socket would end each wait at once.
    if (role_backing_off(wait, leader->retry_at)) return;
    role_wait_fd(wait, conn_fd(leader->conn));
    role_wait_fd(wait, conn_fd(leader->subscriber));
}

// False: the lock could not be released (logged).
static bool leader_release(leader_t *leader, size_t lock) {
    redis_error_t error = {0};
    lease_end(leader->leases, lock);
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    if (conn_open(leader->conn, &error) != OUTCOME_OK || lock_release(&call) != OUTCOME_OK) {
        log_warn(ROLE, NULL, "cannot release the lock; it expires by itself", F_STR("lock", leader_lock_name(leader, lock)),
                 F_STR("reason", error.text));
        return false;
    }
    log_info(ROLE, NULL, "released the lock", F_STR("lock", leader_lock_name(leader, lock)));
    return true;
}

static bool leader_may_hold(const leader_t *leader, size_t lock) {
    return leader->elections[lock].state == ELECTION_LEADING || leader->elections[lock].maybe_held;
}

void leader_finish(void *self) {
    leader_t *leader = self;
    conn_close(leader->subscriber);
    if (atomic_load(&leader->handing_over)) return;
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader_may_hold(leader, i) && !leader_release(leader, i)) break; // every other release would time out too
    conn_close(leader->conn);
}

void leader_expect_hand_over(leader_t *leader, bool expected) { atomic_store(&leader->handing_over, expected); }

static election_t *leader_find_election(leader_t *leader, const char *lock) {
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (strcmp(leader->keys->locks[i].key, lock) == 0) return &leader->elections[i];
    return NULL;
}

void leader_hand_over(leader_t *leader, leader_t *old) {
    bool answered = true;
    for (size_t i = 0; i < old->keys->lock_count; i++) {
        if (!leader_may_hold(old, i)) continue;
        election_t *successor = leader_find_election(leader, old->keys->locks[i].key);
        if (old->elections[i].state == ELECTION_LEADING) metric_add(&old->metrics->leading, -1);
        if (successor) {
            assert(successor->state == ELECTION_STANDBY && !*successor->token); // it has not begun
            memcpy(successor->token, old->elections[i].token, sizeof successor->token);
            successor->maybe_held = true;
            successor->handed_over = old->elections[i].state == ELECTION_LEADING ||
                                     old->elections[i].handed_over; // a second reload may come before the first tick
        } else if (answered) {
            answered = leader_release(old, i);
        }
    }
}

void leader_adopt(leader_t *leader, size_t lock, const char *token) {
    election_t *election = &leader->elections[lock];
    assert(election->state == ELECTION_STANDBY && *token);
    snprintf(election->token, sizeof election->token, "%s", token);
    snprintf(election->adopted, sizeof election->adopted, "%s", token);
    election->maybe_held = election->handed_over = true;
}

const char *leader_adopted(const leader_t *leader, size_t lock) { return leader->elections[lock].adopted; }

static bool leader_has_lock(const keyspace_t *keys, const char *lock) {
    for (size_t i = 0; i < keys->lock_count; i++)
        if (strcmp(keys->locks[i].key, lock) == 0) return true;
    return false;
}

void leader_retire(leader_t *leader, const keyspace_t *next) {
    bool answered = true;
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        if (leader->elections[i].state == ELECTION_LEADING) metric_add(&leader->metrics->leading, -1);
        bool removed = next && leader_may_hold(leader, i) && !leader_has_lock(next, leader->keys->locks[i].key);
        if (removed && answered) answered = leader_release(leader, i);
    }
}
