/* Least privilege at a sentinel: the line that docs/acl.md publishes is enough, and without any of its rights something is
 * missing. */
#include "fixture.h"
#include "redis/sentinel/events.h"
#include "redis/sentinel/group.h"
#include "rights.h"
#include "sentinels.h"
#include "wait.h"

#include <poll.h>

enum { IDLE_MS = 61000, SOON_MS = 5000 };

typedef struct {
    sentinels_t *s;
    redis_t *sentinel; /* the one of the config, as the default user */
    config_t *config;
} world_t;

static world_t begin(void) {
    world_t w = {.s = sentinels_begin(NULL)};
    w.sentinel = sentinel_open(w.s, 0);
    w.config = fixture_config("redis = { sentinels = [\"127.0.0.1:%d\"]; master = \"" SENTINEL_MASTER "\"; "
                              "sentinel_username = \"sidecar\"; sentinel_password = \"secret\"; };\n"
                              "group = \"app\"; queues = ( { name = \"email\"; } );",
                              w.s->sentinels[0].port);
    return w;
}

static void end(world_t *w) {
    redis_close(w->sentinel);
    config_free(w->config);
    sentinels_end(w->s);
}

/* The answer that the sidecar gets from the sentinel with the current rights. */
typedef enum { PRIMARY = 1, PEERS = 2, ID = 4, EVENTS = 8, NAME = 16, PONG = 32, ALL = 63 } got_t;

static world_t w;

static unsigned ask(void) {
    sentinel_group_t *group = sentinel_group_new(&w.config->redis);
    redis_error_t error;
    size_t count;
    unsigned got = sentinel_group_ask(group, NULL, &error) ? PRIMARY : 0;
    const sentinel_answer_t *answers = sentinel_group_answers(group, &count);
    if (answers[0].peer_count == SENTINELS - 1) got |= PEERS;
    if (*answers[0].id.text) got |= ID;
    sentinel_group_free(group);
    return got;
}

/* Whether the subscribed connection may send PING. */
static bool may_ping(sentinel_events_t *events) {
    struct pollfd ready = {.fd = sentinel_events_fd(events), .events = POLLIN};
    size_t refused = rights_refused(w.sentinel);
    fixture_step_boottime(IDLE_MS);
    cr_assert_not(sentinel_events_read(events));
    cr_assert_eq(poll(&ready, 1, wait_scaled_ms(SOON_MS)), 1, "no reply to PING");
    cr_assert_not(sentinel_events_read(events), "the subscription is lost");
    return rights_refused(w.sentinel) == refused;
}

static unsigned subscribe(void) {
    address_t sentinel;
    cr_assert(address_parse(slice_text(w.config->redis.sentinels.items[0]), &sentinel));
    sentinel_events_t *events = sentinel_events_new(&w.config->redis, NULL);
    unsigned got = sentinel_events_follow(events, &sentinel) ? EVENTS : 0;
    char *clients = redis_str(w.sentinel, "CLIENT LIST");
    if (strstr(clients, " name=queue-sidecar-watcher ")) got |= NAME;
    if ((got & EVENTS) && may_ping(events)) got |= PONG;
    sentinel_events_free(events);
    return got;
}

SUITE(redis_sentinel_acl, w = begin(), end(&w));

Test(redis_sentinel_acl, the_published_line_is_enough, .timeout = 60) {
    scoped(rights_free) rights_t line = rights_read_behind("\n## Sentinel\n");
    rights_grant(w.sentinel, &line, NULL);
    cr_assert_eq(ask() | subscribe(), ALL);
    cr_assert_eq(rights_refused(w.sentinel), 0);
}

Test(redis_sentinel_acl, without_any_right_something_is_missing, .timeout = 60) {
    scoped(rights_free) rights_t line = rights_read_behind("\n## Sentinel\n");
    for (size_t i = 0; i < line.count; i++) {
        if (strcmp(line.words[i], "-@all") == 0 || strcmp(line.words[i], "+auth") == 0) continue; /* AUTH is refused to nobody */
        rights_grant(w.sentinel, &line, line.words[i]);
        cr_assert_neq(ask() | subscribe(), ALL, "nothing is missing without %s", line.words[i]);
    }
}
