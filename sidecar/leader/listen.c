// Subscribes to released locks. In a Cluster one leader of the process does.

#include "base/log.h"
#include "leader/internal.h"
#include "redis/auth.h"
#include "redis/failure.h"
#include "redis/keepalive.h"
#include "redis/tracking.h"

enum { JITTER_MS = 10 }; // standbys try at random times within this after a release

static const char ROLE[] = "leader";

static void listen_try(void *self, slice_t lock) {
    leader_t *leader = self;
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        if (leader->elections[i].state != ELECTION_STANDBY || !slice_is(lock, leader_lock_name(leader, i))) continue;
        int64_t wait_ms = spread_has_enough(leader) ? leader->ttl_ms / 2 : 0; // others may have less than their part
        mono_t next = mono_add(mono_now(), wait_ms * NS_PER_MS + (int64_t)(JITTER_MS * NS_PER_MS * random_unit()));
        leader->elections[i].next = mono_max(next, leader->elections[i].ceded_until);
    }
}

static void listen_try_all(leader_t *leader) {
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_STANDBY) leader->elections[i].next = mono_now();
}

static bool listen_stands_by(const leader_t *leader) {
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_STANDBY && *leader->elections[i].holder) return true;
    return false;
}

static void listen_tell(const leader_t *leader, const slice_t *lock) {
    vacancies_tell(leader->vacancies, lock);
    topology_wake(shard_topology(leader->shard));
}

static void listen_on_message(void *self, const char *channel, slice_t lock) {
    leader_t *leader = self;
    (void)channel; // the subscriber has one channel
    if (leader->vacancies)
        listen_tell(leader, &lock);
    else
        listen_try(leader, lock);
}

// False: the connection cannot be opened now.
static bool listen_subscribe(leader_t *leader) {
    redis_error_t error;
    if (conn_is_open(leader->subscriber)) return true;
    if (!mono_reached(leader->subscriber_retry_at, mono_now())) return false;
    if (lock_listen(leader->subscriber, leader->keys->vacant, &error) != OUTCOME_OK) {
        leader->subscriber_retry_at = mono_add(mono_now(), BACKOFF_REDIS.most_ms * NS_PER_MS);
        if (error.outcome == OUTCOME_REFUSED)
            log_warn(ROLE, NULL, "cannot subscribe to released locks; takeover waits for the TTL", F_STR("reason", error.text));
        else
            conn_report_failure(leader->conn, ROLE, &error);
        return false;
    }
    // A release before the subscription was missed, so try all locks once.
    if (leader->vacancies)
        listen_tell(leader, NULL);
    else
        listen_try_all(leader);
    return true;
}

// A closed subscriber is opened again at once.
static void listen_keep_subscriber(leader_t *leader) {
    redis_error_t error;
    if (auth_is_outdated(leader->conn, leader->subscriber))
        conn_close(leader->subscriber);
    else if (conn_keep_subscriber_alive(leader->subscriber, &error) != OUTCOME_OK)
        conn_report_failure(leader->conn, ROLE, &error);
}

static bool listen_is_wanted(leader_t *leader) {
    mono_t now = mono_now();
    if (!leader->vacancies) return listen_stands_by(leader);
    // The leader of a node that does not answer leaves it to another.
    bool able = conn_is_open(leader->conn) && mono_reached(leader->retry_at, now) &&
                (conn_is_open(leader->subscriber) || mono_reached(leader->subscriber_retry_at, now));
    if (able) return vacancies_begin(leader->vacancies, leader);
    leader_leave_vacancies(leader);
    return false;
}

void leader_listen(leader_t *leader) {
    redis_error_t error;
    listen_keep_subscriber(leader);
    bool waits = !leader->vacancies && !mono_reached(leader->retry_at, mono_now());
    if (!waits && !listen_is_wanted(leader))
        conn_close(leader->subscriber);
    else if (!waits && listen_subscribe(leader))
        tracking_read(leader->subscriber, NULL, listen_on_message, leader, &error);
    if (leader->vacancies && !vacancies_hear(leader->vacancies, &leader->vacancies_heard, listen_try, leader))
        listen_try_all(leader);
}

mono_t leader_listen_at(const leader_t *leader) {
    if (conn_is_open(leader->subscriber)) return conn_keep_subscriber_alive_at(leader->subscriber);
    bool wanted = leader->vacancies ? conn_is_open(leader->conn) && vacancies_may_listen(leader->vacancies, leader)
                                    : listen_stands_by(leader);
    return wanted ? mono_max(leader->subscriber_retry_at, leader->retry_at) : mono_never();
}
