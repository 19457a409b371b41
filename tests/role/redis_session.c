/* A session on a server that refuses client tracking. */
#include "fixture.h"
#include "role/session.h"
#include "wait.h"

enum { RETRY_MS = 60000 };

typedef struct {
    int resets, messages;
} counts_t;

static void reset(void *self) { ((counts_t *)self)->resets++; }
static void on_change(void *self, const char *key, size_t len) { (void)self, (void)key, (void)len; }
static void on_message(void *self, const char *channel, slice_t message) {
    cr_assert_str_eq(channel, "news");
    ((counts_t *)self)->messages += slice_is(message, "x");
}

static const session_ops_t OPS = {.role = "monitor",
                                  .data_name = "data",
                                  .subscriber_name = "subscriber",
                                  .reset = reset,
                                  .on_change = on_change,
                                  .on_message = on_message};
static const char *const CHANNELS[] = {"news"};

typedef struct {
    fixture_t f;
    metrics_t *metrics;
    session_t session;
    counts_t counts;
    atomic_bool stop;
} setup_t;

static void begin(setup_t *s) {
    *s = (setup_t){.f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true}), .metrics = metrics_new(1)};
    session_init(&s->session, &OPS, &s->counts, s->f.shard, s->metrics, &s->stop);
    session_subscribe(&s->session, CHANNELS, 1);
    proxy_rule(s->f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM x", .times = -1});
    cr_assert(session_ready(&s->session));
}

static void end(setup_t *s) {
    session_free(&s->session);
    metrics_free(s->metrics);
    fixture_stop(&s->f);
}

static setup_t s;
SUITE(redis_session, begin(&s), end(&s));

/* A reset would begin all scans of the monitor anew, each minute. */
Test(redis_session, a_further_refusal_of_tracking_resets_nothing) {
    cr_assert_eq(s.counts.resets, 1);
    for (int tries = 2; tries < 5; tries++) {
        fixture_step_boottime(RETRY_MS);
        cr_assert(session_ready(&s.session));
        cr_assert_eq(proxy_requests(s.f.proxy, "CLIENT TRACKING"), tries);
        cr_assert_eq(s.counts.resets, 1);
    }
    proxy_pass(s.f.proxy);
    fixture_step_boottime(RETRY_MS);
    cr_assert(session_ready(&s.session));
    cr_assert(s.session.tracking);
    cr_assert_eq(s.counts.resets, 2, "what changed without a wake-up must be found");
}

static bool hears(void) {
    int before = s.counts.messages;
    redis_ok(s.f.r, "PUBLISH news x");
    return wait_for((session_ready(&s.session) && session_read_messages(&s.session), s.counts.messages == before + 1), 5000);
}

/* As while the password or the key of the client changes: the next connection is accepted. */
Test(redis_session, a_refused_subscriber_is_tried_again_soon) {
    fixture_capture_log();
    proxy_pass(s.f.proxy);
    fixture_step_boottime(RETRY_MS);
    cr_assert(session_ready(&s.session) && s.session.tracking);
    redis_ok(s.f.r, "CONFIG SET requirepass other");
    redis_ok(s.f.r, "CLIENT KILL TYPE pubsub");
    cr_assert(wait_for((session_ready(&s.session) && session_read_messages(&s.session), s.session.tracking_refused), 5000));
    cr_expect_eq(fixture_log_count("redis refuses the connection"), 1);
    cr_expect_eq(fixture_log_count("redis refuses client tracking"), 1, "setup alone");
    redis_ok(s.f.r, "CONFIG SET requirepass %s", "");
    cr_assert(wait_for((session_ready(&s.session) && session_read_messages(&s.session), s.session.tracking), 5000));
    cr_assert(hears());
}

Test(redis_session, channels_are_heard_without_tracking) {
    cr_assert_not(s.session.tracking);
    cr_assert(hears());
    fixture_step_boottime(RETRY_MS);
    cr_assert(session_ready(&s.session));
    cr_assert(hears(), "the attempt at tracking has replaced the subscriber");
    redis_ok(s.f.r, "CLIENT KILL TYPE pubsub");
    cr_assert(wait_for((session_ready(&s.session) && session_read_messages(&s.session),
                        redis_int(s.f.r, "PUBLISH news y") == 1 && conn_is_open(s.session.subscriber)),
                       5000));
    cr_assert(hears());
}

/* Redis keeps the keys to watch for each data connection. */
Test(redis_session, a_new_data_connection_gets_a_new_subscriber) {
    proxy_pass(s.f.proxy);
    fixture_step_boottime(RETRY_MS);
    cr_assert(session_ready(&s.session) && s.session.tracking);
    unsigned data = conn_generation(s.session.data), subscriber = conn_generation(s.session.subscriber);
    redis_ok(s.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert(wait_for((session_ready(&s.session), conn_generation(s.session.data) != data && s.session.tracking), 5000));
    cr_assert_neq(conn_generation(s.session.subscriber), subscriber);
    cr_assert(hears());
}
