#include "redis/sentinel/events.h"

#include <sys/epoll.h>

#include "base/buffer.h"
#include "redis/keepalive.h"
#include "redis/reply.h"
#include "redis/sentinel/ask.h"
#include "redis/sentinel/group.h"
#include "redis/tracking.h"

// The leader of a failover knows first that the replica is a primary now; the other sentinels follow when they hear of it, and
// the leader's own +switch-master comes only after all replicas follow the new primary. (redis src/sentinel.c,
// sentinelRefreshInstanceInfo and sentinelFailoverDetectEnd)
#define EVENTS "+switch-master", "+promoted-slave"

static const char CLIENT_NAME[] = "queue-sidecar-watcher";

typedef struct subscription {
    address_t sentinel;
    conn_t *conn; // NULL = none
} subscription_t;

struct sentinel_events {
    const redis_config_t *redis;
    const atomic_bool *stop;
    int epoll_fd;
    subscription_t subscriptions[SENTINELS_MAX];
};

sentinel_events_t *sentinel_events_new(const redis_config_t *redis, const atomic_bool *stop) {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) return NULL;
    sentinel_events_t *events = mem_alloc(sizeof *events);
    events->redis = redis;
    events->stop = stop;
    events->epoll_fd = epoll_fd;
    return events;
}

void sentinel_events_free(sentinel_events_t *events) {
    if (!events) return;
    for (size_t i = 0; i < SENTINELS_MAX; i++) conn_free(events->subscriptions[i].conn);
    close(events->epoll_fd);
    free(events);
}

int sentinel_events_fd(const sentinel_events_t *events) { return events->epoll_fd; }

static bool events_confirm(conn_t *conn) {
    static const char *const channels[] = {EVENTS};
    redis_error_t error = {0};
    request_append(conn, "SUBSCRIBE", EVENTS);
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) conn_reply_free(conn_read_next(conn, NULL, &error));
    return error.outcome == OUTCOME_OK;
}

static conn_t *events_subscribe(sentinel_events_t *events, const address_t *sentinel) {
    redis_error_t error;
    struct epoll_event readable = {.events = EPOLLIN};
    conn_t *conn = conn_new_to_sentinel(events->redis, sentinel, CLIENT_NAME);
    conn_limit_all(conn, mono_add(mono_now(), SENTINEL_TIMEOUT_MS * NS_PER_MS), events->stop);
    if (conn_connect(conn, &error) == OUTCOME_OK && events_confirm(conn) &&
        epoll_ctl(events->epoll_fd, EPOLL_CTL_ADD, conn_fd(conn), &readable) == 0)
        return conn;
    conn_free(conn);
    return NULL;
}

bool sentinel_events_follow(sentinel_events_t *events, const address_t *sentinel) {
    subscription_t *unused = NULL;
    for (size_t i = 0; i < SENTINELS_MAX; i++) {
        subscription_t *at = &events->subscriptions[i];
        if (at->conn && address_equal(&at->sentinel, sentinel)) return false;
        if (!at->conn && !unused) unused = at;
    }
    if (!unused) return false;
    *unused = (subscription_t){.sentinel = *sentinel, .conn = events_subscribe(events, sentinel)};
    return unused->conn != NULL;
}

typedef struct look {
    const char *master;
    bool news;
} look_t;

// Both events name the master, among addresses. The sentinels then tell which server it is.
static void events_on_message(void *self, const char *channel, slice_t message) {
    look_t *look = self;
    (void)channel;
    look->news = look->news || strstr(message.data, look->master);
}

bool sentinel_events_read(sentinel_events_t *events) {
    look_t look = {.master = events->redis->master};
    redis_error_t error;
    for (size_t i = 0; i < SENTINELS_MAX; i++) {
        conn_t **conn = &events->subscriptions[i].conn;
        if (!*conn || (tracking_read(*conn, NULL, events_on_message, &look, &error) == OUTCOME_OK &&
                       conn_keep_subscriber_alive(*conn, &error) == OUTCOME_OK))
            continue;
        conn_free(*conn); // closing the socket removes it from the epoll descriptor
        *conn = NULL;
        look.news = true;
    }
    return look.news;
}
