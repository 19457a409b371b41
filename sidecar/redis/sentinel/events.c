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

// The host of a sentinel may vanish without a word, and firewalls forget idle connections.
enum { PING_AFTER_S = 60, PING_TIMEOUT_S = 5 };

typedef struct subscription {
    address_t sentinel;
    sentinel_client_t *client; // NULL = none
    mono_t heard_at;           // when the last message came
    mono_t pinged_at;          // when PING was sent; before heard_at = it was answered
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
    *unused = (subscription_t){.sentinel = *sentinel, .client = events_subscribe(events, sentinel), .heard_at = mono_now()};
    return unused->client != NULL;
}

// The new subscription begins before the old one ends, so no event is lost.
void sentinel_events_renew(sentinel_events_t *events) {
    for (size_t i = 0; i < SENTINELS_MAX; i++) {
        subscription_t *at = &events->subscriptions[i];
        bool outdated = at->client && sentinel_client_is_outdated(at->client);
        sentinel_client_t *fresh = outdated ? events_subscribe(events, &at->sentinel) : NULL;
        if (!fresh) continue;
        sentinel_client_free(at->client);
        *at = (subscription_t){.sentinel = at->sentinel, .client = fresh, .heard_at = mono_now()};
    }
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
                          (!address_host_equal(host, announced->host) || strtol(port, NULL, 10) != announced->port));
    free(copy);
    return news;
}

// *news: an event names another primary. False: the connection is lost.
static bool events_read_all(const sentinel_events_t *events, subscription_t *subscription, const address_t *announced,
                            bool *news) {
    for (;;) {
        redis_error_t error = {0};
        redisReply *message = sentinel_client_try_read(subscription->client, &error);
        if (!message && error.outcome != OUTCOME_REFUSED) return error.outcome == OUTCOME_OK;
        subscription->heard_at = mono_now(); // a refusal of PING is a sign of life, too
        const char *text = reply_text(reply_at(message, 2));
        *news = *news || (*text && sentinel_event_is_news(text, events->redis->master, announced));
        if (message) freeReplyObject(message);
    }
}

// False: the sentinel has not answered PING.
static bool events_keep_alive(subscription_t *subscription) {
    mono_t now = mono_now();
    redis_error_t error;
    if (subscription->pinged_at.ns > subscription->heard_at.ns)
        return mono_diff(now, subscription->pinged_at) < PING_TIMEOUT_S * NS_PER_S;
    if (mono_diff(now, subscription->heard_at) < PING_AFTER_S * NS_PER_S) return true;
    subscription->pinged_at = now;
    sentinel_client_add(subscription->client, (const char *const[]){"PING", NULL});
    return sentinel_client_send(subscription->client, &(time_limit_t){.deadline = now}, &error);
}

bool sentinel_events_read(sentinel_events_t *events, const address_t *announced) {
    bool news = false;
    for (size_t i = 0; i < SENTINELS_MAX; i++) {
        subscription_t *at = &events->subscriptions[i];
        if (!at->client || (events_read_all(events, at, announced, &news) && events_keep_alive(at))) continue;
        sentinel_client_free(at->client); // closing the socket removes it from the epoll descriptor
        at->client = NULL;
        news = true;
    }
    return news;
}
