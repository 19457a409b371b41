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
static void ask_add_requests(sentinel_client_t *client, const char *master) {
    sentinel_client_add(client, (const char *const[]){"SENTINEL", "MASTER", master, NULL});
    sentinel_client_add(client, (const char *const[]){"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master, NULL});
    sentinel_client_add(client, (const char *const[]){"SENTINEL", "SENTINELS", master, NULL});
    sentinel_client_add(client, (const char *const[]){"SENTINEL", "MYID", NULL});
}

// Reads the replies that may be missing: an ACL may refuse these commands.
static void ask_read_optional(sentinel_client_t *client, time_limit_t *limit, sentinel_answer_t *answer) {
    redis_error_t refusal = {0};
    redisReply *peers = sentinel_client_read(client, limit, &refusal);
    redisReply *id = refusal.outcome == OUTCOME_DISCONNECTED ? NULL : sentinel_client_read(client, limit, &refusal);
    if (refusal.outcome == OUTCOME_DISCONNECTED) answer->error = refusal;
    sentinel_read_peers(answer, peers);
    sentinel_read_id(answer, id);
    if (peers) freeReplyObject(peers);
    if (id) freeReplyObject(id);
}

static void ask_read(sentinel_client_t *client, const char *name, time_limit_t *limit, sentinel_answer_t *answer) {
    redis_error_t *error = &answer->error;
    redisReply *master = sentinel_client_read(client, limit, error);
    redisReply *address = master ? sentinel_client_read(client, limit, error) : NULL;
    if (address) {
        sentinel_read_master(answer, master);
        if (sentinel_read_address(answer, address))
            ask_read_optional(client, limit, answer);
        else
            redis_error_set(error, OUTCOME_REFUSED, "sentinel %s does not know the address of %s",
                            address_text(&answer->sentinel).text, name);
    }
    if (master) freeReplyObject(master);
    if (address) freeReplyObject(address);
}

static void ask_connect(ask_t *ask, time_limit_t *limit, redis_error_t *error) {
    sentinel_client_t *client = sentinel_client_new(ask->redis, &ask->contact->address, limit, error);
    if (client) {
        sentinel_client_free(ask->contact->client);
        ask->contact->client = client;
    }
    ask->contact->renew_at = mono_add(mono_now(), CERTIFICATE_S * NS_PER_S);
}

// Replaces or renews an open connection. One that cannot be replaced stays.
static void ask_keep(ask_t *ask, time_limit_t *limit) {
    sentinel_contact_t *contact = ask->contact;
    redis_error_t ignored;
    if (ask->redis->sentinel_tls && mono_reached(contact->renew_at, mono_now())) ask_connect(ask, limit, &ignored);
    sentinel_client_renew(contact->client, limit, &ask->answer->auth);
}

static void ask_once(ask_t *ask, time_limit_t *limit) {
    sentinel_contact_t *contact = ask->contact;
    ask->answer->error = (redis_error_t){0};
    if (contact->client)
        ask_keep(ask, limit);
    else
        ask_connect(ask, limit, &ask->answer->error);
    if (!contact->client) return;
    ask_add_requests(contact->client, ask->redis->master);
    ask_read(contact->client, ask->redis->master, limit, ask->answer);
    if (ask->answer->error.outcome == OUTCOME_OK) return;
    sentinel_client_free(contact->client); // replies may still be in flight
    contact->client = NULL;
}

// A connection of an earlier ask may be dead, so a second one is tried.
static void *ask_main(void *arg) {
    ask_t *ask = arg;
    sentinel_contact_t *contact = ask->contact;
    time_limit_t limit = sentinel_limit(ask->stop);
    mono_t now = mono_now(), full = limit.deadline;
    bool reused = contact->client;
    if (ask->hurried) limit.deadline = mono_add(now, HURRIED_MS * NS_PER_MS);
    ask_once(ask, &limit);
    if (reused && ask->answer->error.outcome == OUTCOME_DISCONNECTED) ask_once(ask, &limit);
    now = mono_now();
    if (!ask->hurried && mono_reached(full, now)) contact->hurried_until = mono_add(now, HURRIED_S * NS_PER_S);
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
