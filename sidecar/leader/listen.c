// The subscription to released locks, so that a standby need not wait until the lock expires.
//
// In a Cluster Redis passes a message on to all nodes (redis src/cluster.c, clusterPropagatePublish), so each leader subscribes
// at the node of its own locks.

#include "base/log.h"
#include "leader/internal.h"
#include "redis/auth.h"
#include "redis/failure.h"
#include "redis/keepalive.h"
#include "redis/tracking.h"

enum { JITTER_MS = 10 }; // after a release all standbys try, each at a random time within this

static const char ROLE[] = "leader";

static bool listen_is_wanted(const leader_t *leader) {
    for (size_t i = 0; leader->keys->config->lock.lead && i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_STANDBY && *leader->elections[i].holder) return true;
    return false;
}

static void listen_on_message(void *self, const char *channel, slice_t lock) {
    leader_t *leader = self;
    (void)channel; // the subscriber has one channel
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        if (leader->elections[i].state != ELECTION_STANDBY || !slice_is(lock, leader_lock_name(leader, i))) continue;
        leader->elections[i].next = mono_add(mono_now(), (int64_t)(JITTER_MS * NS_PER_MS * random_unit()));
    }
}

static void listen_subscribe(leader_t *leader) {
    redis_error_t error;
    if (!mono_reached(leader->subscriber_retry_at, mono_now())) return;
    if (lock_listen(leader->subscriber, leader->keys->vacant, &error) != OUTCOME_OK) {
        leader->subscriber_retry_at = mono_add(mono_now(), BACKOFF_REDIS.most_ms * NS_PER_MS);
        if (error.outcome == OUTCOME_REFUSED)
            log_warn(ROLE, NULL, "cannot subscribe to released locks; takeover waits for the TTL", F_STR("reason", error.text));
        else
            conn_report_failure(leader->conn, ROLE, &error);
        return;
    }
    // A release before the subscription was missed, so try all locks once.
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_STANDBY) leader->elections[i].next = mono_now();
}

// Closes a subscriber that has an old password or does not answer. The next step opens it again.
static void listen_check_subscriber(leader_t *leader) {
    redis_error_t error;
    if (auth_is_outdated(leader->conn, leader->subscriber))
        conn_close(leader->subscriber);
    else if (conn_keep_subscriber_alive(leader->subscriber, &error) != OUTCOME_OK)
        conn_report_failure(leader->conn, ROLE, &error);
}

void leader_listen(leader_t *leader) {
    redis_error_t error;
    listen_check_subscriber(leader);
    if (!mono_reached(leader->retry_at, mono_now())) return;
    if (!listen_is_wanted(leader)) conn_close(leader->subscriber);
    if (listen_is_wanted(leader) && !conn_is_open(leader->subscriber)) listen_subscribe(leader);
    if (conn_is_open(leader->subscriber)) tracking_read(leader->subscriber, NULL, listen_on_message, leader, &error);
}

mono_t leader_listen_at(const leader_t *leader) {
    if (conn_is_open(leader->subscriber)) return conn_keep_subscriber_alive_at(leader->subscriber);
    return listen_is_wanted(leader) ? mono_max(leader->subscriber_retry_at, leader->retry_at) : mono_never();
}
