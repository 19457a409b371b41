// Acquires a lock, notices its loss, and stands by while another instance holds it.

#include "base/log.h"
#include "leader/internal.h"
#include "queue/heartbeat.h"
#include "redis/failure.h"

enum {
    MARGIN_DIVISOR = 10,   // the lease ends a tenth of the TTL before the lock expires
    JITTER_DIVISOR = 20,   // standbys try at random times within a twentieth of the TTL,
    JITTER_MAX_MS = 500,   // and soon enough for a takeover within TTL + 1 s
    LOCK_WITHOUT_TTL = -1, // reply of PTTL
};

static const char ROLE[] = "leader";

const char *leader_lock_name(const leader_t *leader, size_t lock) { return leader->keys->locks[lock].name; }

lock_call_t leader_lock_call(leader_t *leader, size_t lock, redis_error_t *error) {
    return (lock_call_t){leader->conn, leader->keys, lock, leader->elections[lock].token, leader->ttl_ms, error};
}

void leader_set_gauge(metric_t *metric, int64_t *gauge, int64_t value) {
    metric_add(metric, value - *gauge);
    *gauge = value;
}

void leader_back_off(leader_t *leader, const redis_error_t *error) {
    mono_t now = mono_now(), retry_at = backoff_failed(&leader->backoff, now);
    leader->retry_at = error->outcome == OUTCOME_REFUSED ? mono_add(now, leader->backoff.most_ms * NS_PER_MS) : retry_at;
    shard_set_reach(leader->shard, conn_is_open(leader->conn) ? SHARD_REACHED : SHARD_LOST, &leader->metrics->redis_up);
    leader_set_gauge(&leader->metrics->writes_refused, &leader->gauges.writes_refused, error->kind == ERROR_NO_WRITES);
    metrics_say(leader->metrics, WHY_REDIS, leader->leases, error->text);
    conn_report_failure(leader->conn, ROLE, error);
}

// While a slot is being moved or has moved, Redis refuses the requests for it.
static void election_hold(leader_t *leader, size_t lock, const redis_error_t *error) {
    leader->elections[lock].next = mono_add(mono_now(), leader->ttl_ms * NS_PER_MS / RENEWALS_PER_TTL);
    log_debug(ROLE, NULL, "the slot of a lock is being moved", F_STR("lock", leader_lock_name(leader, lock)),
              F_STR("reason", error->text));
}

static void election_refused(leader_t *leader, size_t lock, const redis_error_t *error) {
    leader->elections[lock].next = mono_add(mono_now(), leader->backoff.most_ms * NS_PER_MS);
    metrics_say(leader->metrics, WHY_REDIS, leader->leases, error->text);
    log_error(ROLE, NULL, "redis refuses the lock", F_STR("key", leader->keys->locks[lock].key), F_STR("reason", error->text));
}

void leader_lock_failed(leader_t *leader, size_t lock, const redis_error_t *error) {
    if (error->outcome != OUTCOME_REFUSED)
        leader_back_off(leader, error);
    else if (error_kind_is_slot(error->kind))
        election_hold(leader, lock, error);
    else
        election_refused(leader, lock, error);
}

void leader_count_unserved(leader_t *leader) {
    size_t unserved = 0;
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        unserved += leader->elections[i].state == ELECTION_LEADING ? leader->elections[i].other_owner_count
                                                                   : leader->elections[i].unserved;
    for (size_t i = 0; i < leader->keys->queue_count; i++)
        if (leader->elections[leader->keys->queues[i].lock].state == ELECTION_LEADING && lease_queue_disabled(leader->leases, i))
            unserved++;
    leader_set_gauge(&leader->metrics->unserved, &leader->gauges.unserved, (int64_t)unserved);
}

static void election_begin_term(leader_t *leader, size_t lock) {
    election_t *election = &leader->elections[lock];
    assert(!election->maybe_held && !*election->holder); // else a leader would also stand by
    const lock_keys_t *keys = &leader->keys->locks[lock];
    for (size_t i = 0; i < keys->queue_count; i++) queue_sizes_lead(leader->sizes, keys->queues[i]);
    lease_begin(leader->leases, lock, election->token, election->deadline);
    metric_add(&leader->metrics->leading, 1);
    if (!election->handed_over) metric_add(&leader->metrics->terms, 1);
    log_info(ROLE, NULL, election->handed_over ? "still leading" : "leading", F_STR("lock", leader_lock_name(leader, lock)),
             F_STR("token", election->token));
    election->handed_over = false;
}

static void election_end_term(leader_t *leader, size_t lock, const char *reason) {
    election_t *election = &leader->elections[lock];
    lease_end(leader->leases, lock);
    const lock_keys_t *keys = &leader->keys->locks[lock];
    for (size_t i = 0; i < keys->queue_count; i++) queue_sizes_cede(leader->sizes, keys->queues[i], false);
    metric_add(&leader->metrics->leading, -1);
    if (reason) metric_add(&leader->metrics->terms_lost, 1);
    if (reason)
        log_warn(ROLE, NULL, "no longer leading", F_STR("lock", leader_lock_name(leader, lock)), F_STR("reason", reason),
                 F_STR("token", election->token));
    election->token[0] = '\0';
    election->other_owner_count = 0;
}

void leader_change_state(leader_t *leader, size_t lock, election_state_t state, const char *reason) {
    election_t *election = &leader->elections[lock];
    if (election->state == state) return;
    election->state = state;
    switch (state) {
    case ELECTION_LEADING: election_begin_term(leader, lock); break;
    case ELECTION_STANDBY: election_end_term(leader, lock, reason); break;
    }
    leader_count_unserved(leader);
}

static int64_t election_ttl_part_ns(const leader_t *leader, int parts) { return leader->ttl_ms * NS_PER_MS / parts; }

void leader_set_deadline(leader_t *leader, size_t lock, mono_t sent) {
    election_t *election = &leader->elections[lock];
    election->deadline = mono_add(sent, leader->ttl_ms * NS_PER_MS - election_ttl_part_ns(leader, MARGIN_DIVISOR));
    election->next = mono_add(sent, election_ttl_part_ns(leader, RENEWALS_PER_TTL));
}

// Stores which queues other groups own. The leaders of those groups measure them until this group owns them.
static void election_take_other_owned(leader_t *leader, size_t lock, lock_state_t *state, mono_t now) {
    election_t *election = &leader->elections[lock];
    free(election->other_owner);
    election->other_owner = state->other_owner;
    election->other_owner_count = state->other_owner_count;
    election->claim_at = now;
    state->other_owner = NULL;
    for (size_t i = 0; i < election->other_owner_count; i++)
        queue_sizes_cede(leader->sizes, election->other_owner[i].queue, true);
}

void leader_claim_queues(leader_t *leader, size_t lock, mono_t now) {
    election_t *election = &leader->elections[lock];
    election->claim_at = mono_add(now, leader->ttl_ms * NS_PER_MS);
    for (size_t i = 0; i < election->other_owner_count;) {
        other_owner_t *other_owner = &election->other_owner[i];
        const char *queue = leader->keys->queues[other_owner->queue].config->name;
        bool ours = false;
        redis_error_t error;
        const lock_call_t call = leader_lock_call(leader, lock, &error);
        outcome_t outcome = lock_claim(&call, other_owner, &ours);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) {
            leader_back_off(leader, &error);
            return;
        }
        if (ours) queue_sizes_cede(leader->sizes, other_owner->queue, false);
        if (outcome == OUTCOME_REFUSED)
            log_error(ROLE, queue, "cannot claim the queue", F_STR("reason", error.text));
        else if (!ours)
            log_warn(ROLE, queue, "another group owns this queue; not serving it", F_STR("group", other_owner->owner));
        else
            log_info(ROLE, queue, "took over the queue of a group without a leader", F_STR("group", other_owner->owner));
        if (ours) *other_owner = election->other_owner[--election->other_owner_count];
        if (!ours) i++;
    }
    leader_count_unserved(leader);
}

static void election_won(leader_t *leader, size_t lock, mono_t sent, lock_state_t *state) {
    election_t *election = &leader->elections[lock];
    election->maybe_held = false;
    election->overlong[0] = '\0';
    election->holder[0] = '\0';
    election->unserved = 0;
    leader_set_deadline(leader, lock, sent);
    election_take_other_owned(leader, lock, state, sent);
    // Claim before the lease begins, so that claimed queues are served from its start.
    if (election->other_owner_count) leader_claim_queues(leader, lock, sent);
    leader_change_state(leader, lock, ELECTION_LEADING, "acquired");
    redis_error_t error;
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    if (heartbeats_tell(&call) != OUTCOME_OK) leader_back_off(leader, &error);
}

// A lock that has more time left than its holder's TTL, seen twice at least one TTL apart, means that Redis's clock was stepped.
static void election_check_clock_step(leader_t *leader, size_t lock, const lock_state_t *state, mono_t now) {
    election_t *election = &leader->elections[lock];
    int64_t ttl_ms = token_ttl_ms(state->holder);
    bool overlong = ttl_ms > 0 && (state->pttl_ms > ttl_ms || state->pttl_ms == LOCK_WITHOUT_TTL);
    int64_t look_in_ms = overlong ? ttl_ms : state->pttl_ms;
    if (ttl_ms <= 0) look_in_ms = leader->ttl_ms; // no sidecar wrote this lock: try once a TTL
    if (!overlong) {
        election->overlong[0] = '\0';
    } else if (strcmp(election->overlong, state->holder) != 0) {
        snprintf(election->overlong, sizeof election->overlong, "%s", state->holder);
        election->overlong_at = now;
    } else if (mono_diff(now, election->overlong_at) >= ttl_ms * NS_PER_MS) {
        redis_error_t error;
        bool removed = false;
        election->overlong[0] = '\0';
        const lock_call_t call = leader_lock_call(leader, lock, &error);
        if (lock_break_stale(&call, state->holder, &removed) != OUTCOME_OK) {
            leader_lock_failed(leader, lock, &error);
        } else if (removed) {
            metric_add(&leader->metrics->clock_steps_healed, 1);
            log_warn(ROLE, NULL, "broke a lock left by a clock step", F_STR("lock", leader_lock_name(leader, lock)),
                     F_INT("pttl_ms", state->pttl_ms), F_INT("ttl_ms", ttl_ms));
            look_in_ms = 0;
        }
    }
    int64_t most_ns = election_ttl_part_ns(leader, JITTER_DIVISOR);
    if (most_ns > JITTER_MAX_MS * NS_PER_MS) most_ns = JITTER_MAX_MS * NS_PER_MS;
    int64_t jitter = look_in_ms ? (int64_t)((double)most_ns * random_unit()) : 0;
    election->next = mono_add(now, look_in_ms * NS_PER_MS + jitter);
}

// Returns whether another instance than before holds the lock.
static bool election_holder_changed(election_t *election, const lock_state_t *state) {
    bool changed = strcmp(election->holder, state->holder) != 0;
    snprintf(election->holder, sizeof election->holder, "%s", state->holder);
    return changed;
}

static void election_note_holder(leader_t *leader, size_t lock, const lock_state_t *state) {
    election_t *election = &leader->elections[lock];
    election->unserved = state->unserved_count;
    leader_count_unserved(leader);
    if (token_ttl_ms(state->holder) == 0)
        log_error(ROLE, NULL, "lock key holds a foreign value; delete it", F_STR("key", leader->keys->locks[lock].key),
                  F_STR("holds", state->holder));
    if (state->unserved_count)
        log_warn(ROLE, NULL, "leader does not serve some queues of this instance; give each set of queues its own group",
                 F_STR("lock", leader_lock_name(leader, lock)), F_STR("queues", buffer_text(&state->unserved)));
}

static void election_lost(leader_t *leader, size_t lock, const lock_state_t *state, mono_t now) {
    election_t *election = &leader->elections[lock];
    if (election->handed_over) metric_add(&leader->metrics->terms_lost, 1);
    election->maybe_held = election->handed_over = false;
    if (election_holder_changed(election, state))
        log_info(ROLE, NULL, "standing by", F_STR("lock", leader_lock_name(leader, lock)), F_STR("leader", state->holder));
    election_note_holder(leader, lock, state);
    election_check_clock_step(leader, lock, state, now);
}

static void election_watch(leader_t *leader, size_t lock, const lock_state_t *state) {
    election_t *election = &leader->elections[lock];
    bool is_free = !*state->holder, changed = election_holder_changed(election, state);
    if (is_free && !election->told_free)
        log_warn(ROLE, NULL, "no instance leads, and lock.lead keeps this one from it",
                 F_STR("lock", leader_lock_name(leader, lock)));
    if (!is_free && changed)
        log_info(ROLE, NULL, "watching the leader", F_STR("lock", leader_lock_name(leader, lock)),
                 F_STR("leader", state->holder));
    election->told_free = is_free;
    election->unserved = 0;
    if (is_free)
        leader_count_unserved(leader);
    else
        election_note_holder(leader, lock, state);
}

void leader_look(leader_t *leader, size_t lock) {
    lock_state_t state = {0};
    redis_error_t error;
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    if (lock_look(&call, &state) != OUTCOME_OK) {
        leader_lock_failed(leader, lock, &error);
    } else {
        backoff_reset(&leader->backoff);
        leader->elections[lock].next = mono_add(mono_now(), leader->ttl_ms * NS_PER_MS);
        election_watch(leader, lock, &state);
    }
    lock_state_clear(&state);
}

// Each term has a token of its own: a script of a former term must not pass the fence.
void leader_acquire(leader_t *leader, size_t lock) {
    election_t *election = &leader->elections[lock];
    assert(election->state == ELECTION_STANDBY);
    lock_state_t state = {0};
    redis_error_t error;
    if (!*election->token) token_new(election->token, leader->ttl_ms);
    mono_t sent = mono_now();
    const lock_call_t call = leader_lock_call(leader, lock, &error);
    outcome_t outcome = lock_acquire(&call, &state);
    if (outcome != OUTCOME_OK) {
        if (outcome == OUTCOME_DISCONNECTED) election->maybe_held = true;
        leader_lock_failed(leader, lock, &error);
    } else {
        backoff_reset(&leader->backoff);
        leader_set_gauge(&leader->metrics->writes_refused, &leader->gauges.writes_refused, 0);
        if (state.acquired)
            election_won(leader, lock, sent, &state);
        else
            election_lost(leader, lock, &state, mono_now());
    }
    lock_state_clear(&state);
}
