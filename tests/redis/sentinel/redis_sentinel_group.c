/* Real sentinels are asked for the primary. */
#include "fixture.h"
#include "redis/sentinel/group.h"
#include "sentinels.h"
#include "tempdir.h"
#include "wait.h"

enum { SOON_MS = 3000, LONGEST_ASK_US = 900000 };

static config_t *config_with(const char *settings) {
    return fixture_config("redis = { %s }; queues = ( { name = \"q\"; } );", settings);
}

typedef struct {
    sentinels_t *s;
    config_t *config;
    sentinel_group_t *group;
    redis_error_t error;
} asker_t;

static asker_t asker_begin(const sentinels_options_t *options, const char *more) {
    asker_t a = {.s = sentinels_begin(options)};
    char *settings = sentinels_settings(a.s);
    char *all = kept_printf("%s %s", settings, more);
    a.config = config_with(all);
    a.group = sentinel_group_new(&a.config->redis);
    free(settings);
    return a;
}

static asker_t a;

/* Changed settings hold for new connections. */
static void asker_renew(void) {
    sentinel_group_free(a.group);
    a.group = sentinel_group_new(&a.config->redis);
}

static void asker_end(void) {
    sentinel_group_free(a.group);
    config_free(a.config);
    sentinels_end(a.s);
}

/* The number of the server that the group names; -1 = none. */
static int asker_ask(void) {
    const address_t *primary = sentinel_group_ask(a.group, NULL, &a.error);
    for (int i = 0; primary && i < SENTINEL_SERVERS; i++)
        if (sentinels_port(a.s, i) == primary->port) return i;
    return -1;
}

SUITE(redis_sentinel_group, , asker_end());

static size_t answering(void) {
    size_t known, count = 0;
    const sentinel_answer_t *answers = sentinel_group_answers(a.group, &known);
    for (size_t i = 0; i < known; i++) count += answers[i].error.outcome == OUTCOME_OK;
    return count;
}

Test(redis_sentinel_group, follows_a_failover_and_learns_the_other_sentinels) {
    a = asker_begin(NULL, "");
    size_t count;
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_eq(answering(), SENTINELS);
    cr_assert_eq(asker_ask(), 0);
    cr_assert_eq(sentinel_group_answers(a.group, &count)->quorum, 2);
    cr_assert_eq(count, SENTINELS, "a sentinel of the configuration was learned again");
    sentinel_group_free(a.group);

    /* A configuration with one sentinel finds the other two, and does without the first. */
    free(a.config->redis.sentinels.items[1]);
    free(a.config->redis.sentinels.items[2]);
    a.config->redis.sentinels.count = 1;
    a.group = sentinel_group_new(&a.config->redis);
    cr_assert_eq(asker_ask(), 0);
    cr_assert_eq(asker_ask(), 0);
    cr_assert_eq(answering(), SENTINELS);
    sentinel_kill(a.s, 0);
    cr_assert_eq(asker_ask(), 0);
    cr_assert_eq(answering(), SENTINELS - 1);

    server_kill(a.s->servers[0]);
    int now = -1;
    cr_assert(wait_for((now = asker_ask()) > 0, 20000), "the group does not follow the failover");
    long long epoch = 0;
    cr_assert_eq(now, sentinels_primary(a.s, &epoch));
    cr_assert_eq(sentinel_group_epoch(a.group), epoch);
    cr_assert_gt(epoch, 0);
}

Test(redis_sentinel_group, dead_and_frozen_sentinels_cost_half_a_second_at_most) {
    a = asker_begin(NULL, "");
    sentinel_kill(a.s, 0);
    sentinel_freeze(a.s, 1);
    int64_t began = wait_now_us();
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_lt(wait_now_us() - began, wait_scaled_ms(LONGEST_ASK_US / 1000) * 1000);
    cr_assert_eq(answering(), 1);
    began = wait_now_us();
    for (int i = 0; i < 4; i++) cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_lt(wait_now_us() - began, wait_scaled_ms(LONGEST_ASK_US / 1000) * 1000, "a silent sentinel delays each ask");
    sentinel_kill(a.s, 2);
    cr_assert_eq(asker_ask(), -1);
    cr_assert_eq(a.error.outcome, OUTCOME_DISCONNECTED);
    cr_assert(strstr(a.error.text, "none of 3 sentinels answers: "), "%s", a.error.text);
    sentinel_thaw(a.s, 1);
    cr_assert(wait_for(asker_ask() == 0, SOON_MS), "%s", a.error.text);
}

Test(redis_sentinel_group, a_silent_sentinel_that_was_learned_delays_one_ask) {
    a = asker_begin(NULL, "");
    config_free(a.config);
    char *settings = kept_printf("sentinels = [\"127.0.0.1:%d\"]; master = \"" SENTINEL_MASTER "\";", a.s->sentinels[0].port);
    a.config = config_with(settings);
    asker_renew();
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    sentinel_freeze(a.s, 1);
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_eq(answering(), SENTINELS - 1);
    int64_t began = wait_now_us();
    for (int i = 0; i < 4; i++) cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_lt(wait_now_us() - began, wait_scaled_ms(LONGEST_ASK_US / 1000) * 1000, "it delays each ask");
}

Test(redis_sentinel_group, tls) {
    a = asker_begin(&(sentinels_options_t){.tls = true}, "");
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_eq(answering(), SENTINELS);
    a.config->redis.sentinel_tls = false;
    asker_renew();
    cr_assert_eq(asker_ask(), -1);
    cr_assert(strstr(a.error.text, "none of 3 sentinels answers") && strstr(a.error.text, "perhaps the port wants TLS"), "%s",
              a.error.text);
    asker_end();
    a = asker_begin(NULL, "tls = true; tls_verify = \"none\";");
    cr_assert_eq(asker_ask(), -1);
    cr_assert(strstr(a.error.text, "the port speaks no TLS"), "%s", a.error.text);
}

/* A sentinel that does not shake hands may speak another protocol, which takes longer to find out than the others wait. */
Test(redis_sentinel_group, a_frozen_sentinel_with_tls_delays_one_ask) {
    a = asker_begin(&(sentinels_options_t){.tls = true}, "");
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    sentinel_freeze(a.s, 1);
    for (int i = 0; i < 2; i++) cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    int64_t began = wait_now_us();
    for (int i = 0; i < 8; i++) cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
    cr_assert_lt(wait_now_us() - began, wait_scaled_ms(LONGEST_ASK_US / 1000) * 1000, "it delays each ask");
}

/* A network that is slow for a moment must not shorten the time of all sentinels. */
Test(redis_sentinel_group, silence_of_all_hurries_none) {
    a = asker_begin(NULL, "");
    for (int i = 0; i < SENTINELS; i++) sentinel_freeze(a.s, i);
    cr_assert_eq(asker_ask(), -1);
    int64_t began = wait_now_us();
    cr_assert_eq(asker_ask(), -1);
    cr_assert_geq(wait_now_us() - began, 450000);
    for (int i = 0; i < SENTINELS; i++) sentinel_thaw(a.s, i);
    cr_assert(wait_for(asker_ask() == 0, SOON_MS), "%s", a.error.text);
}

static void expect_refusal(const char *one, const char *two) {
    cr_assert_eq(asker_ask(), -1);
    cr_assert_eq(a.error.outcome, OUTCOME_REFUSED, "%s", a.error.text);
    cr_assert(strstr(a.error.text, one) && strstr(a.error.text, two), "%s", a.error.text);
}

Test(redis_sentinel_group, passwords_and_names) {
    a = asker_begin(&(sentinels_options_t){.hostnames = true, .password = "geheim"}, "sentinel_password = \"geheim\";");
    const address_t *primary = sentinel_group_ask(a.group, NULL, &a.error);
    cr_assert_not_null(primary, "%s", a.error.text);
    cr_assert_str_eq(primary->host, "localhost");
    free(a.config->redis.sentinel_password);
    a.config->redis.sentinel_password = strdup("falsch");
    asker_renew();
    expect_refusal("WRONGPASS", "sentinel_password_file");
    *a.config->redis.sentinel_password = '\0';
    expect_refusal("NOAUTH", "set redis.sentinel_password_file");
    free(a.config->redis.sentinel_password_file);
    a.config->redis.sentinel_password_file = strdup("/nowhere");
    expect_refusal("cannot read redis.sentinel_password_file /nowhere", "No such file");
    free(a.config->redis.sentinel_password_file);
    a.config->redis.sentinel_password_file = temp_file("password", "geheim\n");
    cr_assert_eq(asker_ask(), 0, "%s", a.error.text);
}

Test(redis_sentinel_group, errors_name_the_thing) {
    a = asker_begin(NULL, "");
    free(a.config->redis.master);
    a.config->redis.master = strdup("nobody");
    expect_refusal("No such master", "redis.master");
    free(a.config->redis.sentinel_password);
    a.config->redis.sentinel_password = strdup("needless");
    asker_renew();
    expect_refusal("without any password configured", "remove redis.sentinel_password_file");
    *a.config->redis.sentinel_password = '\0';
    sentinel_group_free(a.group);

    char *server = kept_printf("127.0.0.1:%d", server_port(a.s->servers[1])); /* a server in place of a sentinel */
    free(a.config->redis.sentinels.items[0]);
    a.config->redis.sentinels.items[0] = server;
    free(a.config->redis.sentinels.items[1]);
    free(a.config->redis.sentinels.items[2]);
    a.config->redis.sentinels.count = 1;
    a.group = sentinel_group_new(&a.config->redis);
    expect_refusal(server, "this server is no sentinel");
    sentinel_group_free(a.group);
    config_free(a.config);

    char *settings =
        kept_printf("host = \"127.0.0.1\"; port = %d;", a.s->sentinels[0].port); /* a sentinel in place of a server */
    a.config = config_with(settings);
    a.group = sentinel_group_new(&a.config->redis);
    scoped(topology_drop) topology_t *topology = topology_new(&a.config->redis);
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(topology, 0), "test", NULL);
    cr_assert_eq(conn_open(conn, &a.error), OUTCOME_REFUSED);
    cr_assert_not_null(strstr(a.error.text, "this server is a sentinel, not Redis: set redis.sentinels"), "%s", a.error.text);
}

Test(redis_sentinel_group, addresses_are_translated) {
    a = asker_begin(NULL, "");
    int primary = server_port(a.s->servers[0]), sentinel = a.s->sentinels[1].port;
    sentinels_t *s = a.s;
    sentinel_group_free(a.group);
    config_free(a.config);
    char *settings = kept_printf("sentinels = [\"127.0.0.1:%d\"]; master = \"" SENTINEL_MASTER "\"; "
                                 "addresses = [\"127.0.0.1:%d=reachable:7000\", \"127.0.0.1:%d=localhost:%d\"];",
                                 s->sentinels[0].port, primary, sentinel, sentinel);
    a.config = config_with(settings);
    a.group = sentinel_group_new(&a.config->redis);
    for (int i = 0; i < 2; i++) {
        const address_t *found = sentinel_group_ask(a.group, NULL, &a.error);
        cr_assert_not_null(found, "%s", a.error.text);
        cr_assert_str_eq(address_text(found).text, "reachable:7000");
    }
    size_t count;
    bool translated = false;
    const sentinel_answer_t *answers = sentinel_group_answers(a.group, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(answers[i].sentinel.host, "localhost") == 0) translated = answers[i].error.outcome == OUTCOME_OK;
    cr_assert_eq(count, SENTINELS);
    cr_assert(translated, "a learned sentinel is not asked at its reachable address");
}

static bool sentinel_names(redis_t *r, const char *id) {
    redisReply *peers = redis_do(r, "SENTINEL SENTINELS " SENTINEL_MASTER);
    for (size_t i = 0; i < peers->elements; i++)
        for (size_t k = 0; k < peers->element[i]->elements; k++)
            if (strcmp(peers->element[i]->element[k]->str, id) == 0) return true;
    return false;
}

Test(redis_sentinel_group, one_liar_is_not_believed) {
    a = asker_begin(NULL, "");
    scoped(server_drop) server_t *foreign = server_start(&(server_options_t){.tcp = true});
    sentinel_lie(a.s, 0, server_port(foreign), 0);
    cr_assert_eq(asker_ask(), 0);
    sentinel_lie(a.s, 0, server_port(foreign), 1000);
    char text[512];
    cr_assert_eq(asker_ask(), 0, "an outsider with a high epoch is believed");
    cr_assert(sentinel_group_disagrees(a.group, text, sizeof text));
    cr_assert(strstr(text, "config epoch 1000"), "%s", text);
}

/* The other sentinels believe that this one monitors their primary, with their config epoch. */
static void introduce(int number) {
    scoped(redis_drop) redis_t *liar = sentinel_open(a.s, number);
    scoped(redis_drop) redis_t *honest = sentinel_open(a.s, SENTINELS - 1);
    scoped(redis_drop) redis_t *r = redis_open(a.s->servers[0]);
    char *id = kept(redis_str(liar, "SENTINEL MYID"));
    char *hello = kept_printf("127.0.0.1,%d,%s,0," SENTINEL_MASTER ",127.0.0.1,%d,0", a.s->sentinels[number].port, id,
                              sentinels_port(a.s, 0));
    redis_ok(r, "PUBLISH __sentinel__:hello %s", hello);
    cr_assert(wait_for(sentinel_names(honest, id), 10000), "the others do not know the sentinel");
}

/* A sentinel that is in nobody's configuration, and which an honest one names. */
Test(redis_sentinel_group, one_liar_that_the_others_know_is_not_believed) {
    a = asker_begin(NULL, "");
    cr_assert_eq(asker_ask(), 0);
    scoped(server_drop) server_t *foreign = server_start(&(server_options_t){.tcp = true});
    sentinel_lie(a.s, 0, server_port(foreign), 1000);
    introduce(0);
    char text[512];
    for (int i = 0; i < 2; i++) cr_assert_eq(asker_ask(), 0, "one sentinel alone is believed");
    cr_assert(sentinel_group_disagrees(a.group, text, sizeof text));
    cr_assert(strstr(text, "config epoch 1000"), "%s", text);
    sentinel_lie(a.s, 1, server_port(foreign), 1000);
    introduce(0);
    introduce(1);
    cr_assert_eq(asker_ask(), -1, "two sentinels are not believed");
}

/* The leader of a failover dies after it has told its clients, and before it told the other sentinels. */
Test(redis_sentinel_group, answers_that_are_behind_are_not_believed) {
    a = asker_begin(NULL, "");
    cr_assert_eq(asker_ask(), 0);
    scoped(server_drop) server_t *foreign = server_start(&(server_options_t){.tcp = true});
    for (int i = 0; i < SENTINELS; i++) sentinel_lie(a.s, i, server_port(foreign), 7);
    cr_assert_eq(asker_ask(), -1);
    cr_assert_eq(sentinel_group_epoch(a.group), 7);
    for (int i = 0; i < SENTINELS; i++) sentinel_lie(a.s, i, server_port(a.s->servers[0]), 6);
    cr_assert_eq(asker_ask(), -1, "an answer of a lower epoch is believed");
    sentinel_group_t *successor = sentinel_group_new(&a.config->redis); /* as after a reload */
    sentinel_group_inherit(successor, a.group);
    const address_t *named = sentinel_group_ask(successor, NULL, &a.error);
    cr_assert(!named || named->port == server_port(foreign), "the successor believes an answer of a lower epoch");
    sentinel_group_free(successor);
    fixture_step_boottime((GROUP_BEHIND_S - 2) * 1000);
    cr_assert_eq(asker_ask(), -1);
    fixture_step_boottime(3000);
    cr_assert_eq(asker_ask(), 0, "sentinels that were set up anew are not believed");
    cr_assert_eq(sentinel_group_epoch(a.group), 6);
}
