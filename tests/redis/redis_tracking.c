/* Wake-ups: which messages Redis sends about registered keys, and when. */
#include <limits.h>

#include "dialects/registry.h"
#include "fixture.h"
#include "queue/next_due.h"
#include "redis/tracking.h"
#include "wait.h"

#define THREE_QUEUES "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; }, { name = \"push\"; } );"

/* A tracking pair, and the messages that it has received. */
typedef struct {
    fixture_t f;
    conn_t *subscriber;
    int received, received_all;
    char last[64];
} pair_t;

static void changed(void *self, const char *key, size_t len) {
    pair_t *pair = self;
    if (!key)
        pair->received_all++;
    else
        snprintf(pair->last, sizeof pair->last, "%.*s", (int)len, key);
    pair->received++;
}

static pair_t begin(fixture_options_t options) {
    if (!options.config) options.config = THREE_QUEUES;
    pair_t pair = {.f = fixture_start(&options)};
    pair.subscriber = conn_new(pair.f.shard, "subscriber", NULL);
    cr_assert_eq(tracking_start(pair.f.conn, pair.subscriber, &pair.f.error), OUTCOME_OK, "%s", pair.f.error.text);
    redis_ok(pair.f.r, "SET sidecar:app:lock T");
    return pair;
}

static void end(pair_t *pair) {
    conn_free(pair->subscriber);
    fixture_stop(&pair->f);
}

static outcome_t read_messages(pair_t *pair) { return tracking_read(pair->subscriber, changed, NULL, pair, &pair->f.error); }

/* Counts the messages that Redis has sent until now. A message of the test marks the end: it arrives after them. */
static int received(pair_t *pair) {
    int before = pair->received;
    redis_ok(pair->f.r, "PUBLISH %s mark", INVALIDATE_CHANNEL); /* not a list of keys, so it counts as "any key" */
    int all = pair->received_all;
    cr_assert(wait_for(read_messages(pair) == OUTCOME_OK && pair->received_all > all, 5000));
    pair->received_all--;
    pair->received--;
    return pair->received - before;
}

static pair_t pair;

static void arm(size_t count) {
    next_due_request_t requests[3] = {{.queue = 0}, {.queue = 1}, {.queue = 2}};
    next_due_t heads[3];
    int64_t now_us;
    next_due_append(pair.f.conn, pair.f.keys, requests, count, true);
    cr_assert_eq(next_due_read(pair.f.conn, count, true, heads, &now_us, &pair.f.error), OUTCOME_OK, "%s", pair.f.error.text);
}

/* Sends the requests of the dispatcher: a promote, and behind it a read of the head, which registers the key if `armed`. */
static int64_t promote(pair_t *of, bool armed) {
    const promote_request_t ask = {.batch = 10, .bytes = PROMOTE_BYTES};
    const call_t call = fixture_call(&of->f, "T");
    promote_reply_t reply;
    next_due_request_t request = {.queue = 0};
    next_due_t head;
    int64_t now_us;
    dialect_list.promote->append_many(&call, &ask, 1, 100000);
    next_due_append(of->f.conn, of->f.keys, &request, 1, armed);
    cr_assert_eq(promote_read_replies(of->f.conn, &reply, 1, &of->f.error), OUTCOME_OK, "%s", of->f.error.text);
    cr_assert_eq(reply.error.outcome, OUTCOME_OK, "%s", reply.error.text);
    cr_assert_eq(next_due_read(of->f.conn, 1, armed, &head, &now_us, &of->f.error), OUTCOME_OK, "%s", of->f.error.text);
    cr_assert_not(reply.full);
    return reply.moved;
}

SUITE(redis_tracking, , end(&pair));

Test(redis_tracking, one_message_for_each_registration) {
    pair = begin((fixture_options_t){0});
    redis_ok(pair.f.r, "ZADD email:delayed 1 a");
    cr_assert_eq(received(&pair), 0, "nothing is registered yet");
    arm(3);
    for (int i = 0; i < 5; i++) redis_ok(pair.f.r, "ZADD sms:delayed %d a", i);
    cr_assert_eq(received(&pair), 1);
    cr_assert_str_eq(pair.last, "sms:delayed");
    redis_ok(pair.f.r, "ZREM email:delayed a");
    redis_ok(pair.f.r, "DEL push:delayed");
    redis_ok(pair.f.r, "ZADD push:delayed 1 a");
    cr_assert_eq(received(&pair), 2);
    arm(1);
    redis_ok(pair.f.r, "ZADD sms:delayed 9 b");
    cr_assert_eq(received(&pair), 0, "sms is not registered again");
    redis_ok(pair.f.r, "ZADD email:delayed 9 b");
    cr_assert_eq(received(&pair), 1);
}

enum { HEADS = 500, READS = 20 };

/* Returns the time of Redis that reads of all heads take, in microseconds. */
static long long cost_of_heads(bool armed) {
    static next_due_t heads[HEADS];
    next_due_request_t requests[HEADS];
    int64_t now_us;
    long long cost = 0;
    for (size_t i = 0; i < HEADS; i++) requests[i] = (next_due_request_t){.queue = i};
    redis_ok(pair.f.r, "CONFIG RESETSTAT");
    for (int i = 0; i < READS; i++) {
        next_due_append(pair.f.conn, pair.f.keys, requests, HEADS, armed);
        cr_assert_eq(next_due_read(pair.f.conn, HEADS, armed, heads, &now_us, &pair.f.error), OUTCOME_OK);
    }
    char *info = redis_str(pair.f.r, "INFO commandstats");
    for (const char *at = info; (at = strstr(at, "usec=")); at++) cost += atoll(at + strlen("usec="));
    return cost;
}

/* Redis's time includes the time that others have its core, so only the least of some rounds says what the reads cost. */
static long long least_cost_of_heads(bool armed) {
    long long least = LLONG_MAX;
    for (int i = 0; i < 5; i++) {
        long long cost = cost_of_heads(armed);
        if (cost < least) least = cost;
    }
    return least;
}

/* Redis 7.0 registers all keys of a script at each of its reads: 250,000 registrations for 500 heads. */
Test(redis_tracking, armed_reads_of_many_heads_cost_little_more_than_others) {
    scoped(buffer_free) buffer_t config = {0};
    buffer_str(&config, "group = \"app\"; queues = (");
    for (int i = 0; i < HEADS; i++) buffer_printf(&config, "%s{ name = \"q%d\"; }", i ? "," : "", i);
    buffer_str(&config, ");");
    pair = begin((fixture_options_t){.config = buffer_text(&config)});
    cost_of_heads(false); /* loads the script */
    long long plain = least_cost_of_heads(false), armed = least_cost_of_heads(true);
    cr_assert_lt(armed, 4 * plain, "%lld us, not armed %lld us", armed, plain);
    redis_ok(pair.f.r, "ZADD q%d:delayed 1 a", HEADS - 1);
    cr_assert_eq(received(&pair), 1, "the last key is registered too");
}

Test(redis_tracking, promotes_and_workers_cause_no_message) {
    pair = begin((fixture_options_t){0});
    for (int i = 0; i < 25; i++) redis_ok(pair.f.r, "ZADD email:delayed %d job%d", i, i);
    arm(3);
    for (int i = 0; i < 3; i++) cr_assert_eq(promote(&pair, true), i < 2 ? 10 : 5);
    for (int i = 0; i < 20; i++) redis_ok(pair.f.r, "LMOVE email email:backup RIGHT LEFT");
    redis_ok(pair.f.r, "LREM email:backup 1 job3");
    redis_ok(pair.f.r, "LPUSH email more");
    redis_ok(pair.f.r, "SET sidecar:app:lock T PX 50000");
    redis_ok(pair.f.r, "HSET sidecar:email:meta group app");
    cr_assert_eq(received(&pair), 0);
    redis_ok(pair.f.r, "ZADD email:delayed 1 next");
    cr_assert_eq(received(&pair), 1, "the key is still registered");
}

Test(redis_tracking, the_read_behind_a_promote_registers_its_key) {
    pair = begin((fixture_options_t){0});
    redis_ok(pair.f.r, "ZADD email:delayed 1 a");
    cr_assert_eq(promote(&pair, true), 1);
    redis_ok(pair.f.r, "ZADD email:delayed 1 b");
    cr_assert_eq(received(&pair), 1);
    cr_assert_eq(promote(&pair, false), 1);
    redis_ok(pair.f.r, "ZADD email:delayed 1 c");
    cr_assert_eq(received(&pair), 0, "with OPTIN a read without CLIENT CACHING registers nothing");
}

Test(redis_tracking, an_error_of_one_key_registers_the_others) {
    pair = begin((fixture_options_t){0});
    fixture_make_key(pair.f.r, "email:delayed", "list");
    arm(3);
    redis_ok(pair.f.r, "ZADD push:delayed 1 a");
    cr_assert_eq(received(&pair), 1);
    redis_ok(pair.f.r, "DEL email:delayed");
    cr_assert_eq(received(&pair), 1, "the key of the wrong type is registered too");
}

Test(redis_tracking, flushall_names_no_key) {
    pair = begin((fixture_options_t){0});
    redis_ok(pair.f.r, "ZADD email:delayed 1 a");
    arm(3);
    redis_ok(pair.f.r, "FLUSHALL");
    cr_assert(wait_for(read_messages(&pair) == OUTCOME_OK && pair.received_all == 1, 5000));
}

Test(redis_tracking, a_dropped_registration_is_a_change) {
    pair = begin((fixture_options_t){0});
    redis_ok(pair.f.r, "CONFIG SET tracking-table-max-keys 1");
    arm(3);
    cr_assert(wait_for(read_messages(&pair) == OUTCOME_OK && pair.received >= 2, 5000),
              "Redis reports a registration that it drops as a change");
}

Test(redis_tracking, an_expired_or_renamed_key_is_a_change) {
    pair = begin((fixture_options_t){.preload = "shim_clock"});
    redis_ok(pair.f.r, "ZADD email:delayed 1 a");
    redis_ok(pair.f.r, "ZADD sms:delayed 1 a");
    redis_ok(pair.f.r, "EXPIRE email:delayed 3600");
    arm(3);
    cr_assert_eq(received(&pair), 0);
    server_step_clock(pair.f.server, 3600 * 1000);
    cr_assert(wait_for(read_messages(&pair) == OUTCOME_OK && pair.received == 1, 5000));
    redis_ok(pair.f.r, "RENAME sms:delayed push:delayed");
    cr_assert_eq(received(&pair), 2);
}

static void kill_named(redis_t *r, const char *name) {
    char *list = redis_str(r, "CLIENT LIST"), *at = strstr(list, name);
    cr_assert_not_null(at);
    while (at > list && at[-1] != '\n') at--;
    redis_ok(r, "CLIENT KILL ID %lld", strtoll(at + 3, NULL, 10));
}

Test(redis_tracking, a_dead_subscriber_is_noticed_and_replaced) {
    pair = begin((fixture_options_t){0});
    arm(3);
    kill_named(pair.f.r, " name=subscriber ");
    cr_assert(wait_for(read_messages(&pair) == OUTCOME_DISCONNECTED, 5000));
    cr_assert_not(conn_is_open(pair.subscriber));
    unsigned data = conn_generation(pair.f.conn);
    cr_assert_eq(tracking_start(pair.f.conn, pair.subscriber, &pair.f.error), OUTCOME_OK, "%s", pair.f.error.text);
    cr_assert_eq(conn_generation(pair.f.conn), data);
    arm(1);
    redis_ok(pair.f.r, "ZADD email:delayed 1 a");
    cr_assert_eq(received(&pair), 1);
}

Test(redis_tracking, a_refusal_closes_the_subscriber) {
    static const char *const steps[] = {"CLIENT ID", "SUBSCRIBE"};
    pair = begin((fixture_options_t){.proxy = true});
    for (size_t i = 0; i < 2; i++) {
        proxy_rule(pair.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = steps[i], .error = "-NOPERM x"});
        cr_assert_eq(tracking_start(pair.f.conn, pair.subscriber, &pair.f.error), OUTCOME_REFUSED, "%s", steps[i]);
        cr_assert_not(conn_is_open(pair.subscriber));
        proxy_pass(pair.f.proxy);
    }
    proxy_rule(pair.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM x"});
    cr_assert_eq(tracking_start(pair.f.conn, pair.subscriber, &pair.f.error), OUTCOME_REFUSED);
}

static void expect_refusal_reported(const char *command, size_t count) {
    pair = begin((fixture_options_t){.proxy = true});
    next_due_request_t requests[9] = {{.queue = 0}};
    next_due_t heads[9];
    int64_t now_us;
    redis_ok(pair.f.r, "ZADD email:delayed 7 a");
    proxy_rule(pair.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = command, .error = "-NOPERM x"});
    next_due_append(pair.f.conn, pair.f.keys, requests, count, true);
    outcome_t outcome = next_due_read(pair.f.conn, count, true, heads, &now_us, &pair.f.error);
    cr_assert_eq(outcome, OUTCOME_REFUSED, "no wake-up will come");
    cr_assert(heads[0].exists && heads[0].score == 7, "the heads are valid");
    arm(3); /* fails if a reply is left over */
}

Test(redis_tracking, refused_caching_is_reported) { expect_refusal_reported("CLIENT CACHING", 1); }
Test(redis_tracking, refused_registration_is_reported) { expect_refusal_reported("EXISTS", 9); }
