/* An instance with lock.lead = false: it sees who leads, and writes nothing. */
#include "http/health.h"
#include "leader_fixture.h"

#define ARCHIVE                                                                                                                  \
    "redis = { socket = \"%s\"; }; group = \"app\"; lock = { ttl = \"" TTL_TEXT "\"; lead = false; };"                           \
    "queues = ( { name = \"email\"; }, { name = \"sms\"; } );"

static fixture_t f;
static instance_t leader, archive;
static config_t *config;
static keyspace_t *keys;

static void start(void) {
    f = setup(false);
    config = fixture_config(ARCHIVE, server_socket(f.server));
    keys = keyspace_new(config);
    instance_start(&archive, keys, INSTANCE_LEADER);
}

static void stop(void) {
    instance_stop(&leader);
    instance_stop(&archive);
    keyspace_free(keys);
    config_free(config);
    fixture_stop(&f);
}

SUITE(redis_leader_archive, start(), stop());

static long long writes(void) {
    long long sum = 0;
    static const char *const commands[] = {"set", "hset", "del", "pexpire", "evalsha", "eval", "publish", "subscribe"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) sum += server_commandstat(f.server, commands[i]);
    return sum;
}

Test(redis_leader_archive, free_lock_is_left_free) {
    long long before = writes();
    drive_for(&f, &archive.driver, 3 * RETRY_WITHIN);
    cr_assert_not(leads(&archive));
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 0);
    cr_assert_eq(writes(), before, "it only reads");
    cr_assert_eq(fixture_log_count("no instance leads, and lock.lead keeps this one from it"), 1);
    cr_assert(metric_get(&archive.metrics->leading) == 0 && metric_get(&archive.metrics->standing_by) == 0);
    cr_assert_eq(metric_get(&archive.metrics->redis_up), 1);
}

Test(redis_leader_archive, leader_and_its_missing_queues_are_seen) {
    instance_start(&leader, f.keys, INSTANCE_LEADER);
    cr_leads(&leader);
    long long before = writes();
    for (int i = 0; i < 5; i++) driver_step(&archive.driver, 1); /* one that may lead subscribes then */
    cr_assert_eq(metric_get(&archive.metrics->standing_by), 1);
    cr_assert_eq(metric_get(&archive.metrics->unserved), 1);
    cr_assert_eq(fixture_log_count("watching the leader"), 1);
    cr_assert_eq(fixture_log_count("\"queues\":\"sms\""), 1);
    cr_assert_eq(writes(), before);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:standbys"), 0, "`status` would count it as a standby");
    cr_assert_eq(connections(&f, "queue-sidecar-vacant"), 0, "it need not hear of a released lock");
    leader_finish(leader.leader);
    drive_for(&f, &archive.driver, 2 * RETRY_WITHIN);
    cr_assert_not(leads(&archive));
    cr_assert(metric_get(&archive.metrics->standing_by) == 0 && metric_get(&archive.metrics->unserved) == 0);
    cr_assert_eq(fixture_log_count("no instance leads"), 1);
}

/* The token of a leader that is gone lives for ever; an instance that may lead would remove it. */
Test(redis_leader_archive, stale_lock_is_left_to_others) {
    char token[TOKEN_SIZE];
    token_new(token, TTL);
    redis_ok(f.r, "SET sidecar:app:lock %s", token);
    drive_for(&f, &archive.driver, 4 * RETRY_WITHIN);
    expect_lock(&f, token);
}

Test(redis_leader_archive, refused_look_is_logged_and_tried_again) {
    redis_ok(f.r, "LPUSH sidecar:app:lock x");
    driver_step(&archive.driver, 1);
    cr_assert_eq(fixture_log_count("redis refuses the lock"), 1);
    redis_ok(f.r, "DEL sidecar:app:lock");
    instance_start(&leader, f.keys, INSTANCE_LEADER);
    cr_leads(&leader);
    drive_for(&f, &archive.driver, RETRY_WITHIN);
    cr_assert_eq(metric_get(&archive.metrics->standing_by), 1);
}

Test(redis_leader_archive, it_is_ready_without_a_leader_but_not_without_redis) {
    scoped(health_drop) health_t *health = health_new(archive.metrics, "app", false);
    scoped(buffer_free) buffer_t json = {0}, again = {0};
    driver_step(&archive.driver, 1);
    cr_expect(health_ready(health, &json), "%s", buffer_text(&json));
    cr_expect(strstr(buffer_text(&json), "\"state\": \"never leads (lock.lead = false)\""), "%s", buffer_text(&json));
    server_kill(f.server);
    cr_assert(driver_until(&archive.driver, metric_get(&archive.metrics->redis_up) == 0, 10000));
    cr_expect(!health_ready(health, &again), "%s", buffer_text(&again));
}
