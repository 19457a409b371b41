#include "redis/sentinel/events.h"

#include <sys/epoll.h>

#include "base/buffer.h"
#include "redis/reply.h"
#include "redis/sentinel/client.h"
#include "redis/sentinel/group.h"

// The leader of a failover knows first that the replica is a primary now; the other sentinels follow when they hear of it, and
// the leader's own +switch-master comes only after all replicas follow the new primary. (redis src/sentinel.c,
// sentinelRefreshInstanceInfo and sentinelFailoverDetectEnd)
#define EVENTS "+switch-master", "+promoted-slave"

static const char CLIENT_NAME[] = "queue-sidecar-watcher";

typedef struct subscription {
    address_t sentinel;
    sentinel_client_t *client; // NULL = none
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
    for (size_t i = 0; i < SENTINELS_MAX; i++) sentinel_client_free(events->subscriptions[i].client);
    close(events->epoll_fd);
    free(events);
}

int sentinel_events_fd(const sentinel_events_t *events) { return events->epoll_fd; }

// Reads the reply to CLIENT SETNAME, which a sentinel may refuse, and the confirmations of the channels.
static bool events_confirm(sentinel_client_t *client, time_limit_t *limit) {
    redis_error_t error = {0};
    redisReply *reply = sentinel_client_read(client, limit, &error);
    if (reply) freeReplyObject(reply);
    for (size_t i = 0; i < sizeof((const char *[]){EVENTS}) / sizeof(const char *); i++) {
        reply = error.outcome == OUTCOME_DISCONNECTED ? NULL : sentinel_client_read(client, limit, &error);
        if (!reply) return false;
        freeReplyObject(reply);
    }
    return true;
}

static sentinel_client_t *events_subscribe(sentinel_events_t *events, const address_t *sentinel) {
    redis_error_t error = {0};
    time_limit_t limit = sentinel_limit(events->stop);
    sentinel_client_t *client = sentinel_client_new(events->redis, sentinel, &limit, &error);
    if (!client) return NULL;
    sentinel_client_add(client, (const char *const[]){"CLIENT", "SETNAME", CLIENT_NAME, NULL});
    sentinel_client_add(client, (const char *const[]){"SUBSCRIBE", EVENTS, NULL});
    struct epoll_event readable = {.events = EPOLLIN};
    if (events_confirm(client, &limit) && epoll_ctl(events->epoll_fd, EPOLL_CTL_ADD, sentinel_client_fd(client), &readable) == 0)
        return client;
    sentinel_client_free(client);
    return NULL;
}

bool sentinel_events_follow(sentinel_events_t *events, const address_t *sentinel) {
    subscription_t *unused = NULL;
    for (size_t i = 0; i < SENTINELS_MAX; i++) {
        subscription_t *at = &events->subscriptions[i];
        if (at->client && address_equal(&at->sentinel, sentinel)) return false;
        if (!at->client && !unused) unused = at;
    }
    if (!unused) return false;
    unused->sentinel = *sentinel;
    unused->client = events_subscribe(events, sentinel);
    return unused->client != NULL;
}

// "+switch-master" tells "<master> <old host> <old port> <new host> <new port>", and "+promoted-slave" tells
// "slave <host>:<port> <host> <port> @ <master> <old host> <old port>". (redis src/sentinel.c, sentinelEvent)
bool sentinel_event_is_news(const char *text, const char *master, const address_t *announced) {
    enum { WORDS = 8, HOST = 3, PROMOTED_HOST = 2, PROMOTED_MASTER = 5 };
    char *copy = mem_str(text), *rest = NULL, *words[WORDS] = {0};
    size_t count = 0;
    for (char *word = strtok_r(copy, " ", &rest); word && count < WORDS; word = strtok_r(NULL, " ", &rest)) words[count++] = word;
    bool promoted = count == WORDS;
    const char *host = words[promoted ? PROMOTED_HOST : HOST];
    const char *port = words[promoted ? PROMOTED_HOST + 1 : HOST + 1];
    const char *name = words[promoted ? PROMOTED_MASTER : 0];
    bool news = !port || (strcmp(name, master) == 0 &&
                          (strcasecmp(host, announced->host) != 0 || strtol(port, NULL, 10) != announced->port));
    free(copy);
    return news;
}

static bool events_read_one(const sentinel_events_t *events, subscription_t *subscription, const address_t *announced) {
    bool heard = false;
    for (;;) {
        redis_error_t error = {0};
        redisReply *message = sentinel_client_try_read(subscription->client, &error);
        if (!message && error.outcome == OUTCOME_OK) return heard;
        if (!message) break;
        const char *text = reply_text(reply_at(message, 2));
        heard = heard || (*text && sentinel_event_is_news(text, events->redis->master, announced));
        freeReplyObject(message);
    }
    sentinel_client_free(subscription->client); // closing the socket removes it from the epoll descriptor
    subscription->client = NULL;
    return true;
}

bool sentinel_events_read(sentinel_events_t *events, const address_t *announced) {
    bool heard = false;
    for (size_t i = 0; i < SENTINELS_MAX; i++)
        if (events->subscriptions[i].client) heard = events_read_one(events, &events->subscriptions[i], announced) || heard;
    return heard;
}
