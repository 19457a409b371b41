#include "redis/sentinel/client.h"

#include "base/buffer.h"
#include "redis/known/secret.h"
#include "redis/reply.h"
#include "redis/socket/port_probe.h"
#include "redis/socket/reply_guard.h"
#include "redis/socket/socket.h"

enum { RECEIVE_BYTES = TLS_RECORD_MAX };

struct sentinel_client {
    const redis_config_t *redis;
    endpoint_t endpoint;
    channel_t *channel;
    redisReader *reader;
    reply_guard_t guard;
    buffer_t requests;     // not sent yet
    uint64_t password_tag; // of the password that the sentinel has accepted; 0 = none yet
};

time_limit_t sentinel_limit(const atomic_bool *stop) {
    return (time_limit_t){.deadline = mono_add(mono_now(), SENTINEL_TIMEOUT_MS * NS_PER_MS), .stop = stop};
}

void sentinel_client_free(sentinel_client_t *client) {
    if (!client) return;
    channel_free(client->channel);
    if (client->reader) redisReaderFree(client->reader);
    buffer_free(&client->requests);
    free(client);
}

int sentinel_client_fd(const sentinel_client_t *client) { return channel_fd(client->channel); }

int64_t sentinel_client_certificate_end(const sentinel_client_t *client) { return tls_first_end(channel_tls(client->channel)); }

void sentinel_client_add(sentinel_client_t *client, const char *const *words) {
    size_t count = 0;
    while (words[count]) count++;
    buffer_printf(&client->requests, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) buffer_printf(&client->requests, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
}

// The texts of a port of the wrong kind name redis.tls, which is the key of Redis.
static void sentinel_client_name_key(redis_error_t *error, const char *sentinel) {
    if (error->kind == ERROR_PORT_IS_PLAIN)
        redis_error_reword(error,
                           "cannot connect to %s by TLS: the sentinel speaks no TLS on this port: use its TLS port, or set "
                           "redis.sentinel_tls to false",
                           sentinel);
    if (error->kind == ERROR_PORT_IS_TLS)
        redis_error_reword(error,
                           "sentinel %s: the sentinel wants TLS on this port: set redis.sentinel_tls to true, or use its "
                           "plain port",
                           sentinel);
}

static bool sentinel_client_lose(const sentinel_client_t *client, redis_error_kind_t kind, const char *why,
                                 redis_error_t *error) {
    redis_error_set_kind(error, OUTCOME_DISCONNECTED, kind, "sentinel %s: %s", client->endpoint.text, why);
    sentinel_client_name_key(error, client->endpoint.text);
    return false;
}

static bool sentinel_client_lose_channel(const sentinel_client_t *client, redis_error_t *error) {
    return sentinel_client_lose(client, channel_error_kind(client->channel), channel_reason(client->channel), error);
}

static bool sentinel_client_wait(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error) {
    wait_result_t result = channel_wait(client->channel, limit);
    return result == WAIT_READY || sentinel_client_lose(client, wait_kind(result), wait_text(result), error);
}

bool sentinel_client_send(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error) {
    size_t sent = 0;
    while (sent < client->requests.len) {
        size_t count = 0;
        channel_state_t state = channel_send(client->channel, client->requests.data + sent, client->requests.len - sent, &count);
        if (state == CHANNEL_LOST) return sentinel_client_lose_channel(client, error);
        if (state == CHANNEL_WAIT && !sentinel_client_wait(client, limit, error)) return false;
        sent += count;
    }
    if (client->requests.data) explicit_bzero(client->requests.data, client->requests.cap); // it may hold a password
    buffer_clear(&client->requests);
    return true;
}

// Advice for an error reply.
static const char *sentinel_client_advice(redis_error_kind_t kind) {
    switch (kind) {
    case ERROR_NO_LOGIN: return "; set redis.sentinel_password_file";
    case ERROR_WRONG_PASSWORD:
        return "; redis.sentinel_username and sentinel_password_file belong to the sentinels, not to Redis";
    case ERROR_NEEDLESS_PASSWORD: return "; remove redis.sentinel_password_file";
    case ERROR_NO_SUCH_PRIMARY: return "; see redis.master";
    case ERROR_NO_COMMAND: return "; this server is no sentinel";
    default: return "";
    }
}

// Frees an error reply.
static redisReply *sentinel_client_check(const sentinel_client_t *client, redisReply *reply, redis_error_t *error) {
    if (!reply || reply->type != REDIS_REPLY_ERROR) return reply;
    redis_error_from_reply(error, reply->str, reply->len);
    redis_error_set_kind(error, OUTCOME_REFUSED, error->kind, "sentinel %s: %.140s%s", client->endpoint.text, error->text,
                         sentinel_client_advice(error->kind));
    freeReplyObject(reply);
    return NULL;
}

// *found is NULL if no whole reply has arrived.
static bool sentinel_client_parse(sentinel_client_t *client, redisReply **found, redis_error_t *error) {
    void *reply = NULL;
    if (redisReaderGetReply(client->reader, &reply) != REDIS_OK)
        return sentinel_client_lose(client, ERROR_OTHER, "broken reply", error);
    *found = reply;
    if (reply) guard_begin_reply(&client->guard, client->reader);
    return true;
}

static channel_state_t sentinel_client_receive(sentinel_client_t *client, redis_error_t *error) {
    char bytes[RECEIVE_BYTES];
    size_t count = 0;
    channel_state_t state = channel_receive(client->channel, bytes, sizeof bytes, &count);
    if (state == CHANNEL_LOST) sentinel_client_lose_channel(client, error);
    if (state != CHANNEL_DONE) return state;
    if (redisReaderFeed(client->reader, bytes, count) == REDIS_OK && guard_receive(&client->guard, client->reader, count))
        return CHANNEL_DONE;
    sentinel_client_lose(client, ERROR_OTHER, "broken reply", error);
    return CHANNEL_LOST;
}

redisReply *sentinel_client_read(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error) {
    redisReply *reply = NULL;
    if (!sentinel_client_send(client, limit, error)) return NULL;
    for (;;) {
        if (!sentinel_client_parse(client, &reply, error)) return NULL;
        if (reply) return sentinel_client_check(client, reply, error);
        channel_state_t state = sentinel_client_receive(client, error);
        if (state == CHANNEL_LOST) return NULL;
        if (state == CHANNEL_WAIT && !sentinel_client_wait(client, limit, error)) return NULL;
    }
}

redisReply *sentinel_client_try_read(sentinel_client_t *client, redis_error_t *error) {
    redisReply *reply = NULL;
    if (!sentinel_client_parse(client, &reply, error)) return NULL;
    if (!reply && sentinel_client_receive(client, error) == CHANNEL_DONE) sentinel_client_parse(client, &reply, error);
    return sentinel_client_check(client, reply, error);
}

static bool sentinel_client_open(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error) {
    client->channel = socket_open(client->redis, &client->endpoint, client->redis->sentinel_tls, limit, error);
    if (!client->channel) {
        sentinel_client_name_key(error, client->endpoint.text);
        return false;
    }
    client->reader = redisReaderCreate();
    if (!client->reader) abort(); // no memory
    guard_install(&client->guard, client->reader);
    guard_begin_reply(&client->guard, client->reader);
    return true;
}

static void sentinel_client_forget(char *password) {
    explicit_bzero(password, strlen(password));
    free(password);
}

static bool sentinel_client_login(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error) {
    const char *username = client->redis->sentinel_username;
    char *password = redis_sentinel_password(client->redis, error);
    if (!password) return false;
    uint64_t tag = secret_tag(password);
    bool login = *password || *username;
    if (login && *username)
        sentinel_client_add(client, (const char *const[]){"AUTH", username, password, NULL});
    else if (login)
        sentinel_client_add(client, (const char *const[]){"AUTH", password, NULL});
    sentinel_client_forget(password);
    redisReply *reply = login ? sentinel_client_read(client, limit, error) : NULL;
    if (login && !reply) return false;
    if (reply) freeReplyObject(reply);
    client->password_tag = tag;
    return true;
}

bool sentinel_client_is_outdated(const sentinel_client_t *client) {
    redis_error_t ignored; // the file is being replaced, or the next connect reports it
    char *password = *client->redis->sentinel_password_file ? redis_sentinel_password(client->redis, &ignored) : NULL;
    if (!password) return false;
    uint64_t tag = secret_tag(password);
    sentinel_client_forget(password);
    return tag != client->password_tag;
}

bool sentinel_client_renew(sentinel_client_t *client, time_limit_t *limit, redis_error_t *error) {
    return !sentinel_client_is_outdated(client) || sentinel_client_login(client, limit, error);
}

sentinel_client_t *sentinel_client_new(const redis_config_t *redis, const address_t *sentinel, time_limit_t *limit,
                                       redis_error_t *error) {
    sentinel_client_t *client = mem_alloc(sizeof *client);
    client->redis = redis;
    client->endpoint.port = sentinel->port;
    snprintf(client->endpoint.host, sizeof client->endpoint.host, "%s", sentinel->host);
    snprintf(client->endpoint.text, sizeof client->endpoint.text, "%s", address_text(sentinel).text);
    if (sentinel_client_open(client, limit, error) && sentinel_client_login(client, limit, error)) return client;
    sentinel_client_free(client);
    return NULL;
}
