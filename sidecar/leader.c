#include "leader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/buffer.h"
#include "base/log.h"
#include "leader_census.h"
#include "leader_preflight.h"
#include "queue/conn.h"
#include "queue/lock.h"

enum {
    RENEWALS_PER_TTL = 3,
    MARGIN_DIVISOR = 10,   // the lease ends a tenth of the TTL before the lock can
    JITTER_DIVISOR = 20,   // standbys look up to a twentieth of the TTL apart
    VACANT_JITTER_MS = 10, // and this far apart after a release
    PREFLIGHT_AGAIN_S = 5, // after a preflight that found a fault
    LEAST_PATIENCE_MS = 100,
    SAY_CONNECTED_S = 10,
    LOCK_WITHOUT_TTL = -1,
};

static const char ROLE[] = "leader";

typedef enum seat_state { SEAT_STANDBY, SEAT_LEADING } seat_state_t;

// What this instance knows of one lock.
typedef struct stand {
    seat_state_t state;
    char token[TOKEN_SIZE];    // of the term that is, or of the one that would begin
    mono_t deadline;           // leading: end of the lease
    mono_t next;               // when to renew, or to look again
    mono_t claim_at;           // leading: when to try again for queues that other groups own
    bool maybe_held;           // an acquire was sent and its outcome is not known to be "no"
    char overlong[TOKEN_SIZE]; // holder whose lock was seen to live longer than its TTL; "" = none
    mono_t overlong_at;        // when that was first seen
    char holder[TOKEN_SIZE];   // last holder seen, to log a change once
    size_t unserved;           // our queues that nobody serves for us
    foreign_t *foreign;        // leading: queues that other groups own; owned
    size_t foreign_count;
    bool inherited; // leading goes on from before a new configuration
} stand_t;

struct leader {
    const keyspace_t *keys;
    int64_t ttl_ms;
    leases_t *leases;
    metrics_t *metrics;
    conn_t *conn;
    conn_t *ear; // listens for vacancies while a seat is not ours
    buffer_t heard;
    backoff_t backoff;
    mono_t retry_at;     // no request before this
    mono_t ear_retry_at; // the same for the ear, whose faults must not keep us from leading
    unsigned checked;    // generation of the connection that had its preflight; 0 = none
    bool was_connected;
    mono_t said_connected; // when the log was last told of a connection: one that comes and goes must not fill it
    findings_t *findings;  // of the preflight
    counting_t *counting;
    stand_t *stands;
    atomic_bool heir; // somebody is to take the locks over within this process
};

leader_t *leader_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    leader_t *leader = mem_alloc(sizeof *leader);
    *leader = (leader_t){.keys = keys, .leases = leases, .metrics = metrics, .backoff = BACKOFF_REDIS};
    leader->ttl_ms = keys->config->lock.ttl_ms;
    leader->conn = conn_new(&keys->config->redis, "queue-sidecar-leader", stop);
    // A server that answers later than this is of no use to a lease, and waiting for it must not hide that the lease ran out.
    int64_t patience_ms = leader->ttl_ms / RENEWALS_PER_TTL;
    conn_limit_timeout(leader->conn, (int)(patience_ms > LEAST_PATIENCE_MS ? patience_ms : LEAST_PATIENCE_MS));
    leader->ear = conn_new(&keys->config->redis, "queue-sidecar-vacant", stop);
    leader->findings = findings_new(keys, leases, metrics);
    leader->counting = counting_new(keys, leases, metrics);
    leader->stands = mem_array(keys->seat_count, sizeof *leader->stands);
    return leader;
}

void leader_free(leader_t *leader) {
    if (!leader) return;
    for (size_t i = 0; i < leader->keys->seat_count; i++) free(leader->stands[i].foreign);
    free(leader->stands);
    findings_free(leader->findings);
    counting_free(leader->counting);
    buffer_free(&leader->heard);
    conn_free(leader->conn);
    conn_free(leader->ear);
    free(leader);
}

static const char *seat_name(const leader_t *leader, size_t seat) { return leader->keys->seats[seat].name; }

// How many of our queues nobody serves, over all seats.
static void count_unserved(leader_t *leader) {
    size_t unserved = 0;
    for (size_t i = 0; i < leader->keys->seat_count; i++)
        unserved += leader->stands[i].state == SEAT_LEADING ? leader->stands[i].foreign_count : leader->stands[i].unserved;
    for (size_t i = 0; i < leader->keys->queue_count; i++)
        if (leader->stands[leader->keys->queues[i].seat].state == SEAT_LEADING && lease_barred(leader->leases, i)) unserved++;
    metric_set(&leader->metrics->unserved, (int64_t)unserved);
}

static void begin_term(leader_t *leader, size_t seat) {
    stand_t *stand = &leader->stands[seat];
    lease_begin(leader->leases, seat, stand->token, stand->deadline);
    metric_add(&leader->metrics->leading, 1);
    if (!stand->inherited) metric_add(&leader->metrics->terms, 1);
    log_info(ROLE, NULL, stand->inherited ? "still leading" : "leading", F_STR("seat", seat_name(leader, seat)),
             F_STR("token", stand->token));
    stand->inherited = false;
}

static void end_term(leader_t *leader, size_t seat, const char *reason) {
    stand_t *stand = &leader->stands[seat];
    lease_end(leader->leases, seat);
    counting_forget(leader->counting, leader->keys->seats[seat].first_queue, leader->keys->seats[seat].queue_count);
    metric_add(&leader->metrics->leading, -1);
    metric_add(&leader->metrics->terms_lost, 1);
    log_warn(ROLE, NULL, "no longer leading", F_STR("seat", seat_name(leader, seat)), F_STR("reason", reason),
             F_STR("token", stand->token));
    stand->token[0] = '\0';
    stand->foreign_count = 0;
}

// The one place where a seat changes its state.
static void seat_become(leader_t *leader, size_t seat, seat_state_t state, const char *reason) {
    stand_t *stand = &leader->stands[seat];
    if (stand->state == state) return;
    stand->state = state;
    switch (state) {
    case SEAT_LEADING: begin_term(leader, seat); break;
    case SEAT_STANDBY: end_term(leader, seat, reason); break;
    }
    count_unserved(leader);
}

// Says why a request (of a seat, or NULL) failed and sets the time of the next attempt. A fault of rights or keys waits longest.
static void put_off(leader_t *leader, const seat_t *seat, const fault_t *fault) {
    int64_t ns = backoff_next_ns(&leader->backoff);
    if (fault->outcome == OUTCOME_FAULT) ns = BACKOFF_REDIS.most_ms * NS_PER_MS;
    leader->retry_at = mono_add(mono_now(), ns);
    metric_set(&leader->metrics->redis_up, conn_is_open(leader->conn));
    if (fault->outcome == OUTCOME_FAULT)
        log_error(ROLE, NULL, "redis refuses the lock", F_STR("key", seat ? seat->lock : NULL), F_STR("reason", fault->text));
    else if (fault->outcome == OUTCOME_LATER)
        log_warn(ROLE, NULL, "redis is not ready", F_STR("reason", fault->text));
    else
        log_warn(ROLE, NULL, "redis is out of reach", F_STR("reason", fault->text));
}

static bool connected(leader_t *leader, fault_t *fault) {
    bool was_open = conn_is_open(leader->conn);
    if (conn_open(leader->conn, fault) != OUTCOME_OK) return false;
    if (was_open) return true;
    mono_t now = mono_now();
    bool said = leader->was_connected && mono_diff(now, leader->said_connected) < SAY_CONNECTED_S * NS_PER_S;
    LOG_AT(said ? LOG_DEBUG : LOG_INFO, ROLE, NULL, "connected", F_STR("redis", conn_target(leader->conn)),
           F_STR("server", conn_server(leader->conn)));
    if (!said) leader->said_connected = now;
    if (leader->was_connected) metric_add(&leader->metrics->reconnects, 1);
    metric_set(&leader->metrics->redis_up, 1);
    leader->was_connected = true;
    return true;
}

// Runs the preflight and notes that this connection has had it. *allowed: nothing found forbids to lead.
static outcome_t look_over(leader_t *leader, bool *allowed, fault_t *fault) {
    outcome_t outcome = findings_look(leader->findings, leader->conn, allowed, fault);
    count_unserved(leader);
    if (outcome == OUTCOME_OK || outcome == OUTCOME_FAULT) leader->checked = conn_generation(leader->conn);
    return outcome;
}

// Runs the preflight once for each connection. False: not allowed to lead now.
static bool may_lead(leader_t *leader, fault_t *fault) {
    bool allowed;
    if (leader->checked == conn_generation(leader->conn)) return true;
    outcome_t outcome = look_over(leader, &allowed, fault);
    if (outcome == OUTCOME_OK && allowed) return true;
    if (outcome == OUTCOME_LOST || outcome == OUTCOME_LATER) {
        put_off(leader, NULL, fault);
        return false;
    }
    // It may be another server by the next time, so ask again on a new connection.
    conn_close(leader->conn);
    leader->retry_at = mono_add(mono_now(), PREFLIGHT_AGAIN_S * NS_PER_S);
    return false;
}

// Once the lock is renewed there is time to see what has become of the server; what is found is only said.
static void look_over_again(leader_t *leader) {
    bool allowed;
    fault_t fault;
    if (!conn_is_open(leader->conn) || leader->checked == conn_generation(leader->conn)) return;
    outcome_t outcome = look_over(leader, &allowed, &fault);
    if (outcome == OUTCOME_LOST || outcome == OUTCOME_LATER) put_off(leader, NULL, &fault);
}

// Queues that are barred are looked at from time to time: who mends a right need not restart anything.
static void look_again_at_barred(leader_t *leader, mono_t now) {
    fault_t fault;
    if (!mono_reached(findings_again_at(leader->findings), now) || !mono_reached(leader->retry_at, now)) return;
    if (metric_get(&leader->metrics->leading) == 0) return;
    outcome_t outcome = connected(leader, &fault) ? findings_look_again(leader->findings, leader->conn, &fault) : OUTCOME_LOST;
    if (outcome == OUTCOME_LOST || outcome == OUTCOME_LATER) put_off(leader, NULL, &fault);
    count_unserved(leader);
}

static int64_t ttl_part_ns(const leader_t *leader, int parts) { return leader->ttl_ms * NS_PER_MS / parts; }

static mono_t lease_deadline(const leader_t *leader, mono_t sent) {
    return mono_add(sent, leader->ttl_ms * NS_PER_MS - ttl_part_ns(leader, MARGIN_DIVISOR));
}

static void take_foreign(stand_t *stand, lock_state_t *state, mono_t now) {
    free(stand->foreign);
    stand->foreign = state->foreign;
    stand->foreign_count = state->foreign_count;
    stand->claim_at = now;
    state->foreign = NULL;
}

static void claim_foreign(leader_t *leader, size_t seat, mono_t now) {
    stand_t *stand = &leader->stands[seat];
    stand->claim_at = mono_add(now, leader->ttl_ms * NS_PER_MS);
    for (size_t i = 0; i < stand->foreign_count;) {
        foreign_t *foreign = &stand->foreign[i];
        const char *queue = leader->keys->queues[foreign->queue].config->name;
        bool ours = false;
        fault_t fault;
        outcome_t outcome = lock_claim(leader->conn, leader->keys, seat, stand->token, foreign, &ours, &fault);
        if (outcome == OUTCOME_LOST || outcome == OUTCOME_LATER) {
            put_off(leader, &leader->keys->seats[seat], &fault);
            return;
        }
        counting_cede(leader->counting, foreign->queue, !ours);
        if (outcome == OUTCOME_FAULT)
            log_error(ROLE, queue, "cannot claim this queue", F_STR("reason", fault.text));
        else if (!ours)
            log_warn(ROLE, queue, "another group owns this queue: it is not served here", F_STR("group", foreign->owner));
        else
            log_info(ROLE, queue, "took this queue over from a group that nobody leads", F_STR("group", foreign->owner));
        if (ours) *foreign = stand->foreign[--stand->foreign_count];
        if (!ours) i++;
    }
    count_unserved(leader);
}

static void became_leader(leader_t *leader, size_t seat, mono_t sent, lock_state_t *state) {
    stand_t *stand = &leader->stands[seat];
    stand->maybe_held = false;
    stand->overlong[0] = '\0';
    stand->holder[0] = '\0';
    stand->unserved = 0;
    stand->deadline = lease_deadline(leader, sent);
    stand->next = mono_add(sent, ttl_part_ns(leader, RENEWALS_PER_TTL));
    take_foreign(stand, state, sent);
    // Before anybody uses the lease: what is claimed now is served from the first moment on.
    if (stand->foreign_count) claim_foreign(leader, seat, sent);
    seat_become(leader, seat, SEAT_LEADING, "acquired");
}

// Two looks at least one TTL apart at a lock that outlives its holder's TTL: only a step of Redis's clock does that.
static void look_at_clock_step(leader_t *leader, size_t seat, const lock_state_t *state, mono_t now) {
    stand_t *stand = &leader->stands[seat];
    int64_t ttl_ms = token_ttl_ms(state->holder);
    bool overlong = ttl_ms > 0 && (state->pttl_ms > ttl_ms || state->pttl_ms == LOCK_WITHOUT_TTL);
    int64_t look_in_ms = overlong ? ttl_ms : state->pttl_ms;
    if (ttl_ms <= 0) look_in_ms = leader->ttl_ms; // not a lock of ours: look at our own pace
    if (!overlong) {
        stand->overlong[0] = '\0';
    } else if (strcmp(stand->overlong, state->holder) != 0) {
        snprintf(stand->overlong, sizeof stand->overlong, "%s", state->holder);
        stand->overlong_at = now;
    } else if (mono_diff(now, stand->overlong_at) >= ttl_ms * NS_PER_MS) {
        fault_t fault;
        bool removed = false;
        stand->overlong[0] = '\0';
        if (lock_heal(leader->conn, &leader->keys->seats[seat], state->holder, &removed, &fault) != OUTCOME_OK) {
            put_off(leader, &leader->keys->seats[seat], &fault);
        } else if (removed) {
            metric_add(&leader->metrics->clock_steps_healed, 1);
            log_warn(ROLE, NULL, "removed a lock that a step of the Redis clock left behind",
                     F_STR("seat", seat_name(leader, seat)), F_INT("pttl_ms", state->pttl_ms), F_INT("ttl_ms", ttl_ms));
            look_in_ms = 0;
        }
    }
    int64_t jitter = look_in_ms ? (int64_t)((double)ttl_part_ns(leader, JITTER_DIVISOR) * random_unit()) : 0;
    stand->next = mono_add(now, look_in_ms * NS_PER_MS + jitter);
}

static void stayed_standby(leader_t *leader, size_t seat, const lock_state_t *state, mono_t now) {
    stand_t *stand = &leader->stands[seat];
    if (stand->inherited) metric_add(&leader->metrics->terms_lost, 1);
    stand->maybe_held = stand->inherited = false;
    if (strcmp(stand->holder, state->holder) != 0) {
        snprintf(stand->holder, sizeof stand->holder, "%s", state->holder);
        log_info(ROLE, NULL, "standing by", F_STR("seat", seat_name(leader, seat)), F_STR("leader", state->holder));
    }
    if (token_ttl_ms(state->holder) == 0)
        log_error(ROLE, NULL, "the lock's key holds what no sidecar wrote: nobody leads until it is deleted",
                  F_STR("key", leader->keys->seats[seat].lock), F_STR("holds", state->holder));
    if (state->unserved_count)
        log_warn(ROLE, NULL, "the leader does not serve queues of ours: instances that serve other queues need another group",
                 F_STR("seat", seat_name(leader, seat)), F_STR("queues", buffer_text(&state->unserved)));
    stand->unserved = state->unserved_count;
    count_unserved(leader);
    look_at_clock_step(leader, seat, state, now);
}

static void try_acquire(leader_t *leader, size_t seat) {
    stand_t *stand = &leader->stands[seat];
    lock_state_t state = {0};
    fault_t fault;
    if (!*stand->token) token_new(stand->token, leader->ttl_ms);
    mono_t sent = mono_now();
    outcome_t outcome = lock_acquire(leader->conn, leader->keys, seat, stand->token, leader->ttl_ms, &state, &fault);
    if (outcome != OUTCOME_OK) {
        if (outcome == OUTCOME_LOST) stand->maybe_held = true;
        put_off(leader, &leader->keys->seats[seat], &fault);
    } else {
        backoff_reset(&leader->backoff);
        if (state.acquired)
            became_leader(leader, seat, sent, &state);
        else
            stayed_standby(leader, seat, &state, mono_now());
    }
    lock_state_clear(&state);
}

static void renew(leader_t *leader, size_t seat) {
    stand_t *stand = &leader->stands[seat];
    fault_t fault;
    bool held = false;
    mono_t sent = mono_now();
    outcome_t outcome = lock_renew(leader->conn, &leader->keys->seats[seat], stand->token, leader->ttl_ms, &held, &fault);
    if (outcome != OUTCOME_OK) {
        put_off(leader, &leader->keys->seats[seat], &fault);
    } else if (!held) {
        stand->next = sent;
        seat_become(leader, seat, SEAT_STANDBY, "the lock is gone or another's");
    } else {
        backoff_reset(&leader->backoff);
        stand->deadline = lease_deadline(leader, sent);
        stand->next = mono_add(sent, ttl_part_ns(leader, RENEWALS_PER_TTL));
        lease_extend(leader->leases, seat, stand->deadline);
        if (stand->foreign_count && mono_reached(stand->claim_at, sent)) claim_foreign(leader, seat, sent);
    }
}

static void act(leader_t *leader, size_t seat) {
    fault_t fault;
    if (!connected(leader, &fault)) {
        put_off(leader, &leader->keys->seats[seat], &fault);
    } else if (leader->stands[seat].state == SEAT_LEADING) {
        renew(leader, seat); // first of all: the time of the lease is running
        look_over_again(leader);
    } else if (may_lead(leader, &fault)) {
        try_acquire(leader, seat);
    }
}

// Opens the ear while a seat is not ours, closes it otherwise, and hears what it has.
static void listen_for_vacancies(leader_t *leader) {
    bool wanted = false;
    fault_t fault;
    for (size_t i = 0; i < leader->keys->seat_count; i++)
        if (leader->stands[i].state == SEAT_STANDBY && *leader->stands[i].holder) wanted = true;
    if (!wanted) {
        conn_close(leader->ear);
        return;
    }
    if (!conn_is_open(leader->ear)) {
        if (!mono_reached(leader->ear_retry_at, mono_now())) return;
        if (lock_listen(leader->ear, leader->keys, &fault) != OUTCOME_OK) {
            leader->ear_retry_at = mono_add(mono_now(), BACKOFF_REDIS.most_ms * NS_PER_MS);
            log_warn(ROLE, NULL, "cannot listen for vacancies: a takeover waits for the TTL", F_STR("reason", fault.text));
            return;
        }
        // What was said before we listened is lost, so look once more.
        for (size_t i = 0; i < leader->keys->seat_count; i++)
            if (leader->stands[i].state == SEAT_STANDBY) leader->stands[i].next = mono_now();
    }
    const char *name = NULL;
    while (lock_heard(leader->ear, &leader->heard, &name, &fault) == OUTCOME_OK && name) {
        for (size_t i = 0; i < leader->keys->seat_count; i++) {
            if (leader->stands[i].state != SEAT_STANDBY || strcmp(seat_name(leader, i), name) != 0) continue;
            leader->stands[i].next = mono_add(mono_now(), (int64_t)(VACANT_JITTER_MS * NS_PER_MS * random_unit()));
        }
    }
}

static void expire(leader_t *leader, mono_t now) {
    for (size_t i = 0; i < leader->keys->seat_count; i++) {
        stand_t *stand = &leader->stands[i];
        if (stand->state == SEAT_LEADING && mono_reached(stand->deadline, now)) {
            stand->next = now;
            seat_become(leader, i, SEAT_STANDBY, "the lease ran out before it could be renewed");
        }
        if (lease_doubted(leader->leases, i)) stand->next = now;
    }
}

// An idle connection that has something to read has been closed by the other side.
static void notice_close(leader_t *leader) {
    struct redisReply *reply = NULL;
    fault_t fault;
    if (conn_is_open(leader->conn) && conn_take(leader->conn, &reply, &fault) == OUTCOME_LOST) {
        log_warn(ROLE, NULL, "redis closed the connection", F_STR("reason", fault.text));
        for (size_t i = 0; i < leader->keys->seat_count; i++) leader->stands[i].next = mono_now();
    }
    conn_reply_free(reply);
}

void leader_tick(void *self, role_wait_t *wait) {
    leader_t *leader = self;
    fault_t fault;
    notice_close(leader);
    expire(leader, mono_now());
    if (mono_reached(leader->retry_at, mono_now())) listen_for_vacancies(leader);
    for (size_t i = 0; i < leader->keys->seat_count; i++) {
        mono_t now = mono_now();
        if (mono_reached(leader->retry_at, now) && mono_reached(leader->stands[i].next, now)) act(leader, i);
    }
    look_again_at_barred(leader, mono_now());
    if (mono_reached(leader->retry_at, mono_now()) && counting_step(leader->counting, leader->conn, &fault) != OUTCOME_OK)
        put_off(leader, NULL, &fault);
    wait->until = mono_max(counting_next(leader->counting), leader->retry_at);
    int64_t standing_by = 0;
    for (size_t i = 0; i < leader->keys->seat_count; i++) {
        const stand_t *stand = &leader->stands[i];
        mono_t next = mono_max(stand->next, leader->retry_at);
        if (stand->state == SEAT_STANDBY && *stand->holder && conn_is_open(leader->conn)) standing_by++;
        if (stand->state == SEAT_LEADING)
            next = mono_min(mono_min(next, mono_max(findings_again_at(leader->findings), leader->retry_at)), stand->deadline);
        else if (*stand->holder && !conn_is_open(leader->ear))
            next = mono_min(next, mono_max(leader->ear_retry_at, leader->retry_at));
        wait->until = mono_min(wait->until, next);
    }
    metric_set(&leader->metrics->standing_by, standing_by);
    // While we are put off nothing is read, and a socket with news would end every wait at once.
    if (role_put_off(wait, leader->retry_at)) return;
    role_wait_fd(wait, conn_fd(leader->conn));
    role_wait_fd(wait, conn_fd(leader->ear));
}

// False: Redis did not answer.
static bool give_back(leader_t *leader, size_t seat) {
    fault_t fault = {0};
    lease_end(leader->leases, seat);
    if (conn_open(leader->conn, &fault) != OUTCOME_OK ||
        lock_release(leader->conn, leader->keys, seat, leader->stands[seat].token, &fault) != OUTCOME_OK) {
        log_warn(ROLE, NULL, "could not give the lock back: it runs out by itself", F_STR("seat", seat_name(leader, seat)),
                 F_STR("reason", fault.text));
        return false;
    }
    log_info(ROLE, NULL, "gave the lock back", F_STR("seat", seat_name(leader, seat)));
    return true;
}

static bool holds(const leader_t *leader, size_t seat) {
    return leader->stands[seat].state == SEAT_LEADING || leader->stands[seat].maybe_held;
}

void leader_finish(void *self) {
    leader_t *leader = self;
    if (atomic_load(&leader->heir)) return;
    for (size_t i = 0; i < leader->keys->seat_count; i++)
        if (holds(leader, i) && !give_back(leader, i)) break; // the others would only wait as long again
    conn_close(leader->conn);
    conn_close(leader->ear);
}

void leader_expect_heir(leader_t *leader, bool expected) { atomic_store(&leader->heir, expected); }

static stand_t *stand_of_lock(leader_t *leader, const char *lock) {
    for (size_t i = 0; i < leader->keys->seat_count; i++)
        if (strcmp(leader->keys->seats[i].lock, lock) == 0) return &leader->stands[i];
    return NULL;
}

void leader_inherit(leader_t *leader, leader_t *old) {
    bool answered = true;
    for (size_t i = 0; i < old->keys->seat_count; i++) {
        if (!holds(old, i)) continue;
        stand_t *heir = stand_of_lock(leader, old->keys->seats[i].lock);
        if (old->stands[i].state == SEAT_LEADING) metric_add(&old->metrics->leading, -1);
        if (heir) {
            memcpy(heir->token, old->stands[i].token, sizeof heir->token);
            heir->maybe_held = true;
            heir->inherited = old->stands[i].state == SEAT_LEADING || old->stands[i].inherited; // it may not have led yet
        } else if (answered) {
            answered = give_back(old, i);
        }
    }
}
