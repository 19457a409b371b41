#include "redis/sentinel/ask.h"

#include <pthread.h>

#include "base/buffer.h"
#include "redis/reply.h"

enum {
    STACK_BYTES = 256 * 1024,
    HURRIED_MS = 20, // for a sentinel that was silent; its host may have died together with the primary
    HURRIED_S = 30,
    CERTIFICATE_S = 3600, // after it a renewed certificate shows
};

typedef struct ask {
    const redis_config_t *redis;
    const atomic_bool *stop;
    sentinel_contact_t *contact;
    sentinel_answer_t *answer;
    bool hurried; // the others do not wait long for this one
    pthread_t thread;
    bool started;
} ask_t;

// The epoch comes before the address: if the primary changes between both, an old epoch with a new address does no harm, but a
// new epoch would make an old address believed.
static void ask_add_requests(conn_t *conn, const char *master) {
    request_append(conn, "SENTINEL", "MASTER", master);
    request_append(conn, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", master);
    request_append(conn, "SENTINEL", "SENTINELS", master);
    request_append(conn, "SENTINEL", "MYID");
}

// Reads the replies that may be missing: an ACL may refuse these commands.
static void ask_read_optional(conn_t *conn, sentinel_answer_t *answer) {
    redis_error_t refused = {0}, lost = {0};
    redisReply *peers = conn_read_or_refusal(conn, &refused, &lost);
    redisReply *id = conn_read_or_refusal(conn, &refused, &lost);
    sentinel_read_peers(answer, peers);
    sentinel_read_id(answer, id);
    conn_reply_free(peers);
    conn_reply_free(id);
    answer->error = lost;
}

static void ask_read(conn_t *conn, const char *name, sentinel_answer_t *answer) {
    redisReply *master, *address = NULL;
    if (conn_read(conn, 0, &master, &answer->error) == OUTCOME_OK) conn_read(conn, 0, &address, &answer->error);
    if (address) {
        sentinel_read_master(answer, master);
        if (sentinel_read_address(answer, address))
            ask_read_optional(conn, answer);
        else
            redis_error_set(&answer->error, OUTCOME_REFUSED, "the address of %s is unknown", name);
    }
    conn_reply_free(master);
    conn_reply_free(address);
}

static const char *ask_advice(redis_error_kind_t kind) {
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

// Names the sentinel and the settings for sentinels.
static void ask_explain(redis_error_t *error, const address_t *sentinel) {
    const address_text_t at = address_text(sentinel);
    if (error->outcome != OUTCOME_OK && !error->address.len)
        redis_error_reword(error, "sentinel %s: %.240s%s", at.text, error->text, ask_advice(error->kind));
    else if (error->outcome != OUTCOME_OK && error->address.at == 0) // else "cannot connect to ..."
        redis_error_reword(error, "sentinel %s", error->text);
}

static void ask_connect(ask_t *ask, mono_t deadline, redis_error_t *error) {
    conn_t *conn = conn_new_to_sentinel(ask->redis, &ask->contact->address, "queue-sidecar-topology");
    conn_limit_all(conn, deadline, ask->stop);
    bool connected = conn_connect(conn, error) == OUTCOME_OK;
    conn_free(connected ? ask->contact->conn : conn);
    if (connected) ask->contact->conn = conn;
    ask->contact->renew_at = mono_add(mono_now(), CERTIFICATE_S * NS_PER_S);
}

// Replaces an old connection with TLS. One that cannot be replaced stays.
static void ask_keep(ask_t *ask, mono_t deadline) {
    redis_error_t ignored;
    conn_limit_all(ask->contact->conn, deadline, ask->stop);
    if (ask->redis->sentinel_tls && mono_reached(ask->contact->renew_at, mono_now())) ask_connect(ask, deadline, &ignored);
}

static void ask_once(ask_t *ask, mono_t deadline) {
    sentinel_contact_t *contact = ask->contact;
    ask->answer->error = (redis_error_t){0};
    if (contact->conn)
        ask_keep(ask, deadline);
    else
        ask_connect(ask, deadline, &ask->answer->error);
    if (!contact->conn) return;
    ask_add_requests(contact->conn, ask->redis->master);
    ask_read(contact->conn, ask->redis->master, ask->answer);
    if (ask->answer->error.outcome == OUTCOME_OK) return;
    conn_free(contact->conn); // replies may still be in flight
    contact->conn = NULL;
}

// A connection of an earlier ask may be dead, so a second one is tried.
static void *ask_main(void *arg) {
    ask_t *ask = arg;
    sentinel_contact_t *contact = ask->contact;
    mono_t began = mono_now();
    mono_t deadline = mono_add(began, (ask->hurried ? HURRIED_MS : SENTINEL_TIMEOUT_MS) * NS_PER_MS);
    bool reused = contact->conn;
    ask_once(ask, deadline);
    if (reused && ask->answer->error.outcome == OUTCOME_DISCONNECTED) ask_once(ask, deadline);
    ask_explain(&ask->answer->error, &contact->address);
    mono_t now = mono_now();
    if (!ask->hurried && mono_reached(deadline, now)) contact->hurried_until = mono_add(now, HURRIED_S * NS_PER_S);
    return NULL;
}

// Whether some sentinel answered last time. Otherwise the network may have been slow for a moment, and all get their time.
static bool ask_has_answering(const sentinel_contact_t *contacts, size_t count, mono_t now) {
    for (size_t i = 0; i < count; i++)
        if (mono_reached(contacts[i].hurried_until, now)) return true;
    return false;
}

// A connect with TLS takes many steps, so each sentinel gets a thread; the first one gets this thread.
void sentinel_ask_all(const redis_config_t *redis, sentinel_contact_t *contacts, size_t count, const atomic_bool *stop,
                      sentinel_answer_t *answers) {
    ask_t *asks = mem_array(count, sizeof *asks);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    mono_t now = mono_now();
    bool some_answer = ask_has_answering(contacts, count, now);
    for (size_t i = 0; i < count; i++) {
        answers[i] = (sentinel_answer_t){.sentinel = contacts[i].address};
        asks[i] = (ask_t){.redis = redis, .stop = stop, .contact = &contacts[i], .answer = &answers[i]};
        asks[i].hurried = some_answer && !mono_reached(contacts[i].hurried_until, now);
        asks[i].started = i > 0 && pthread_create(&asks[i].thread, &attr, ask_main, &asks[i]) == 0;
    }
    for (size_t i = 0; i < count; i++)
        if (!asks[i].started) ask_main(&asks[i]);
    for (size_t i = 0; i < count; i++)
        if (asks[i].started) pthread_join(asks[i].thread, NULL);
    pthread_attr_destroy(&attr);
    free(asks);
}
