#include "leader/vacancies.h"

#include "base/log.h"
#include "leader/internal.h"
#include "redis/auth.h"
#include "redis/keepalive.h"
#include "redis/tracking.h"

enum {
    JITTER_MS = 10,      // standbys try at random times within this after a release
    VACANCIES_KEPT = 64, // a leader that misses more tries all locks
};

static const char ROLE[] = "leader";

struct vacancies {
    pthread_mutex_t mutex; // guards the rest
    const leader_t *listener;
    char *locks[VACANCIES_KEPT]; // the last names that were told, number n at n % VACANCIES_KEPT; NULL = any lock; owned
    uint64_t count;              // of all names that were told
};

vacancies_t *vacancies_new(void) {
    vacancies_t *vacancies = mem_alloc(sizeof *vacancies);
    pthread_mutex_init(&vacancies->mutex, NULL);
    return vacancies;
}

void vacancies_free(vacancies_t *vacancies) {
    if (!vacancies) return;
    for (size_t i = 0; i < VACANCIES_KEPT; i++) free(vacancies->locks[i]);
    pthread_mutex_destroy(&vacancies->mutex);
    free(vacancies);
}

// ---- The locks of one leader.

static void vacancies_try(leader_t *leader, slice_t lock) {
    for (size_t i = 0; i < leader->keys->lock_count; i++) {
        if (leader->elections[i].state != ELECTION_STANDBY || !slice_is(lock, leader_lock_name(leader, i))) continue;
        int64_t wait_ms = spread_has_enough(leader) ? leader->ttl_ms / 2 : 0; // others may have less than their part
        mono_t next = mono_add(mono_now(), wait_ms * NS_PER_MS + (int64_t)(JITTER_MS * NS_PER_MS * random_unit()));
        leader->elections[i].next = mono_max(next, leader->elections[i].ceded_until);
    }
}

static void vacancies_try_all(leader_t *leader) {
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_STANDBY) leader->elections[i].next = mono_now();
}

static bool vacancies_stands_by(const leader_t *leader) {
    for (size_t i = 0; i < leader->keys->lock_count; i++)
        if (leader->elections[i].state == ELECTION_STANDBY && *leader->elections[i].holder) return true;
    return false;
}

// ---- Between the leaders of a Cluster.

// `lock` NULL: any lock may have been released.
static void vacancies_tell(leader_t *leader, const slice_t *lock) {
    vacancies_t *shared = leader->vacancies;
    pthread_mutex_lock(&shared->mutex);
    char **place = &shared->locks[shared->count++ % VACANCIES_KEPT];
    free(*place);
    *place = lock ? mem_printf("%.*s", (int)lock->len, lock->data) : NULL;
    pthread_mutex_unlock(&shared->mutex);
    topology_wake(shard_topology(leader->shard));
}

static void vacancies_hear(leader_t *leader) {
    vacancies_t *shared = leader->vacancies;
    pthread_mutex_lock(&shared->mutex);
    bool missed = shared->count - leader->vacancies_heard > VACANCIES_KEPT;
    for (uint64_t i = leader->vacancies_heard; i < shared->count && !missed; i++) {
        const char *lock = shared->locks[i % VACANCIES_KEPT];
        missed = !lock;
        if (lock) vacancies_try(leader, slice_text(lock));
    }
    leader->vacancies_heard = shared->count;
    pthread_mutex_unlock(&shared->mutex);
    if (missed) vacancies_try_all(leader);
}

// True: this leader is the listener, or nobody is.
static bool vacancies_may_listen(const leader_t *leader) {
    vacancies_t *shared = leader->vacancies;
    pthread_mutex_lock(&shared->mutex);
    bool may = !shared->listener || shared->listener == leader;
    pthread_mutex_unlock(&shared->mutex);
    return may;
}

// Begins or ends to be the listener. Returns whether this leader is it.
static bool vacancies_set_listener(leader_t *leader, bool wanted) {
    vacancies_t *shared = leader->vacancies;
    pthread_mutex_lock(&shared->mutex);
    bool ends = !wanted && shared->listener == leader;
    if (ends || (wanted && !shared->listener)) shared->listener = wanted ? leader : NULL;
    bool is = shared->listener == leader;
    pthread_mutex_unlock(&shared->mutex);
    if (ends) topology_wake(shard_topology(leader->shard)); // another leader listens then
    return is;
}

// ---- The subscription.

static void vacancies_on_message(void *self, const char *channel, slice_t lock) {
    leader_t *leader = self;
    (void)channel; // the subscriber has one channel
    if (leader->vacancies)
        vacancies_tell(leader, &lock);
    else
        vacancies_try(leader, lock);
}

// False: the connection cannot be opened now.
static bool vacancies_subscribe(leader_t *leader) {
    redis_error_t error;
    if (conn_is_open(leader->subscriber)) return true;
    if (!mono_reached(leader->subscriber_retry_at, mono_now())) return false;
    if (lock_listen(leader->subscriber, leader->keys->vacant, &error) != OUTCOME_OK) {
        leader->subscriber_retry_at = mono_add(mono_now(), BACKOFF_REDIS.most_ms * NS_PER_MS);
        log_warn(ROLE, NULL, "cannot subscribe to released locks; takeover waits for the TTL", F_STR("reason", error.text));
        return false;
    }
    // A release before the subscription was missed, so try all locks once.
    if (leader->vacancies)
        vacancies_tell(leader, NULL);
    else
        vacancies_try_all(leader);
    return true;
}

// A closed subscriber is opened again at once.
static void vacancies_keep_subscriber(leader_t *leader) {
    redis_error_t error;
    if (auth_is_outdated(leader->conn, leader->subscriber))
        conn_close(leader->subscriber);
    else if (conn_keep_subscriber_alive(leader->subscriber, &error) != OUTCOME_OK)
        log_warn(ROLE, NULL, "lost the connection that hears of released locks", F_STR("reason", error.text));
}

static bool vacancies_are_wanted(leader_t *leader) {
    mono_t now = mono_now();
    if (!leader->vacancies) return vacancies_stands_by(leader);
    // The leader of a node that does not answer leaves it to another.
    bool able = conn_is_open(leader->conn) && mono_reached(leader->retry_at, now) &&
                (conn_is_open(leader->subscriber) || mono_reached(leader->subscriber_retry_at, now));
    return vacancies_set_listener(leader, able);
}

void vacancies_listen(leader_t *leader) {
    redis_error_t error;
    vacancies_keep_subscriber(leader);
    bool waits = !leader->vacancies && !mono_reached(leader->retry_at, mono_now());
    if (!waits && !vacancies_are_wanted(leader))
        conn_close(leader->subscriber);
    else if (!waits && vacancies_subscribe(leader))
        tracking_read(leader->subscriber, NULL, vacancies_on_message, leader, &error);
    if (leader->vacancies) vacancies_hear(leader);
}

mono_t vacancies_next(const leader_t *leader) {
    mono_t retry_at = mono_max(leader->subscriber_retry_at, leader->retry_at);
    if (conn_is_open(leader->subscriber)) return conn_keep_subscriber_alive_at(leader->subscriber);
    bool wanted = leader->vacancies ? conn_is_open(leader->conn) && vacancies_may_listen(leader) : vacancies_stands_by(leader);
    return wanted ? retry_at : mono_never();
}

void vacancies_stop(leader_t *leader) {
    conn_close(leader->subscriber);
    if (leader->vacancies) vacancies_set_listener(leader, false);
}
