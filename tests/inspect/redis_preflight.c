/* The look at a server before leading. */
#include "fixture.h"
#include "inspect/preflight.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    buffer_t text; /* "kind queue: text" a line */
    int counts[5]; /* by preflight_level_t */
} said_t;

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    static const char *const kinds[] = {"fact", "warn", "queue", "fault", "barred"};
    said_t *said = self;
    said->counts[finding]++;
    cr_assert_null(strchr(text, '\n'));
    buffer_printf(&said->text, "%s %s: %s\n", kinds[finding], queue ? queue : "-", text);
}

static outcome_t look(fixture_t *f, said_t *said) {
    buffer_free(&said->text);
    *said = (said_t){0};
    return preflight(&(preflight_call_t){f->conn, f->keys, note, said, &f->error});
}

/* Expects so many warnings, queue faults and faults, and a line with that text (NULL: any). */
static void expect_look(fixture_t *f, int warnings, int queues, int faults, const char *text) {
    said_t said = {0};
    long long keys = redis_int(f->r, "DBSIZE");
    cr_assert_eq(look(f, &said), OUTCOME_OK, "%s", f->error.text);
    const char *all = buffer_text(&said.text);
    cr_assert(said.counts[PREFLIGHT_WARNING] == warnings && said.counts[PREFLIGHT_QUEUE_REFUSED] == queues &&
                  said.counts[PREFLIGHT_REFUSED] == faults,
              "%s", all);
    if (text) cr_assert_not_null(strstr(all, text), "no \"%s\" in:\n%s", text, all);
    cr_assert_eq(redis_int(f->r, "DBSIZE"), keys, "scratch keys are left");
    buffer_free(&said.text);
}

Test(redis_preflight, passes_on_a_good_server_and_leaves_no_trace) {
    fixture_t f = fixture_start(NULL);
    bool valkey;
    char *version = server_version(f.server, &valkey),
         *line = mem_printf("server is %s %s at ", valkey ? "valkey" : "redis", version);
    expect_look(&f, 0, 0, 0, line);
    redis_ok(f.r, "LPUSH email a");
    redis_ok(f.r, "ZADD email:delayed 1 a");
    redis_ok(f.r, "SET sidecar:app:lock T PX 60000");
    redis_ok(f.r, "HSET sidecar:email:meta group app");
    redis_ok(f.r, "HSET sidecar:app:queues email T");
    char *before = fixture_digest(f.r);
    expect_look(&f, 0, 0, 0, NULL);
    redis_expect(f.r, before, "DEBUG DIGEST");
    free(before);
    free(line);
    free(version);
    fixture_stop(&f);
}

/* The scratch key of the preflight leaves no line in our log. */
Test(redis_preflight, does_not_report_scratch_jobs) {
    fixture_t f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"video\"; dialect = \"bull\"; } );"});
    expect_look(&f, 0, 0, 0, NULL);
    char *log = fixture_log();
    cr_expect_str_empty(log);
    free(log);
    fixture_stop(&f);
}

Test(redis_preflight, warns_of_eviction) {
    static const char *const policies[] = {"allkeys-lru", "volatile-ttl", "allkeys-random"};
    fixture_t f = fixture_start(NULL);
    for (size_t i = 0; i < 3; i++) {
        redis_ok(f.r, "CONFIG SET maxmemory-policy %s", policies[i]);
        expect_look(&f, 1, 0, 0, policies[i]);
    }
    fixture_stop(&f);
}

Test(redis_preflight, refuses_a_replica) {
    fixture_t f = fixture_start(NULL);
    redis_ok(f.r, "REPLICAOF 127.0.0.1 1");
    said_t said = {0};
    outcome_t outcome = look(&f, &said);
    cr_assert(outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED, "the probe meets READONLY");
    cr_assert_not_null(strstr(buffer_text(&said.text), "fault -: "), "%s", buffer_text(&said.text));
    cr_assert_not_null(strstr(buffer_text(&said.text), "is a slave: the sidecar must talk to the primary"));
    buffer_free(&said.text);
    fixture_stop(&f);
}

Test(redis_preflight, refuses_versions_before_6_2) {
    static const struct {
        const char *version;
        bool old;
    } rows[] = {{"6.0.16", true}, {"6.2.0", false}, {"5.0.14", true}, {"7.2.4", false}};
    fixture_t f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true});
    for (size_t i = 0; i < 4; i++) {
        char *bulk = mem_printf("$%zu\r\nredis_version:%s", strlen(rows[i].version) + 14, rows[i].version);
        proxy_pass(f.proxy);
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "INFO server", .error = bulk});
        conn_close(f.conn);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        expect_look(&f, 0, 0, rows[i].old, rows[i].old ? "is too old: Redis 6.2 or Valkey 7.2 is needed" : rows[i].version);
        free(bulk);
    }
    fixture_stop(&f);
}

Test(redis_preflight, names_each_key_of_the_wrong_type) {
    static const struct {
        const char *key, *type;
        bool shared; /* a key of the lock, not of the queue */
    } keys[] = {{"email", "list", false},
                {"email:delayed", "zset", false},
                {"email:backup", "list", false},
                {"email:errors", "hash", false},
                {"sidecar:email:stamps", "hash", false},
                {"sidecar:email:sentinel", "hash", false},
                {"sidecar:email:failures", "stream", false},
                {"sidecar:email:meta", "hash", false},
                {"sidecar:app:lock", "string", true},
                {"sidecar:app:queues", "hash", true}};
    fixture_t f = fixture_start(&(fixture_options_t){
        .config =
            "group = \"app\"; queues = ( { name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; }, { name = \"sms\"; } );"});
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t t = 0; t < FIXTURE_TYPES; t++) {
            if (strcmp(fixture_types[t], keys[k].type) == 0) continue;
            fixture_make_key(f.r, keys[k].key, fixture_types[t]);
            char *line = mem_printf("key \"%s\" holds a %s where a %s is wanted", keys[k].key, fixture_types[t], keys[k].type);
            expect_look(&f, 0, !keys[k].shared, keys[k].shared, line);
            free(line);
        }
        redis_ok(f.r, "DEL %s", keys[k].key);
    }
    fixture_make_key(f.r, "email", "set");
    fixture_make_key(f.r, "sms:delayed", "list");
    expect_look(&f, 0, 2, 0, "queue sms: delayed key \"sms:delayed\" holds a list where a zset is wanted");
    fixture_stop(&f);
}

Test(redis_preflight, looks_only_at_keys_that_its_roles_use) {
    fixture_t f = fixture_start(
        &(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; roles = [\"dispatcher\"]; } );"});
    fixture_make_key(f.r, "email:backup", "string");
    fixture_make_key(f.r, "email:errors", "string");
    expect_look(&f, 0, 0, 0, NULL);
    fixture_stop(&f);
}

Test(redis_preflight, passes_on_a_full_server) {
    fixture_t f = fixture_start(NULL);
    redis_ok(f.r, "ZADD email:delayed 1 a");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    expect_look(&f, 0, 0, 0, NULL);
    fixture_stop(&f);
}

static const char *const PASSING[] = {"-LOADING x",     "-MASTERDOWN x", "-BUSY x",    "-READONLY x",
                                      "-CLUSTERDOWN x", "-TRYAGAIN x",   "-MISCONF x", "-NOREPLICAS x"};

Test(redis_preflight, a_transient_error_is_no_finding) {
    static const char *const steps[] = {"INFO memory", "ROLE", "INFO cluster", "TYPE", "EVALSHA", "ZADD"};
    fixture_t f = fixture_start(&(fixture_options_t){.proxy = true});
    said_t said = {0};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        for (size_t i = 0; i < sizeof PASSING / sizeof *PASSING; i++) {
            proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = steps[s], .error = PASSING[i]});
            outcome_t outcome = look(&f, &said);
            cr_assert(outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED, "%s at %s", PASSING[i], steps[s]);
            cr_assert_eq(said.counts[PREFLIGHT_REFUSED], 0, "%s", buffer_text(&said.text));
            cr_assert_eq(said.counts[PREFLIGHT_QUEUE_REFUSED], 0, "%s", buffer_text(&said.text));
            proxy_pass(f.proxy);
            cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        }
    }
    buffer_free(&said.text);
    fixture_stop(&f);
}

Test(redis_preflight, no_reply_is_left_over_for_the_next_request) {
    fixture_t f = fixture_start(&(fixture_options_t){.proxy = true});
    said_t said = {0};
    for (int nth = 1; nth <= 5; nth++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "TYPE", .error = "-BUSY x", .nth = nth});
        cr_assert_eq(look(&f, &said), OUTCOME_RETRY);
        proxy_pass(f.proxy);
        redisReply *reply;
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        request_begin(f.conn, "ECHO");
        request_text(f.conn, "mine");
        cr_assert_eq(request_ask(f.conn, &reply, &f.error), OUTCOME_OK);
        cr_assert(reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "mine") == 0, "a reply to another request (TYPE %d)",
                  nth);
        conn_reply_free(reply);
    }
    buffer_free(&said.text);
    fixture_stop(&f);
}

#define SCRATCH_WITHOUT_TTL                                                                                                      \
    "local n = 0 for _, key in ipairs(redis.call('KEYS', 'sidecar:preflight*')) do "                                             \
    "if redis.call('PTTL', key) < 0 then n = n + 1 end end return n"

Test(redis_preflight, the_scratch_key_expires_where_del_is_refused) {
    fixture_t f = fixture_start(NULL);
    said_t said = {0};
    redis_ok(f.r, "ACL SETUSER default -del");
    cr_assert_eq(look(&f, &said), OUTCOME_OK, "%s", f.error.text);
    cr_assert_not_null(strstr(buffer_text(&said.text), "script acquire is refused: DEL: "), "%s", buffer_text(&said.text));
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 1);
    cr_assert_eq(redis_int(f.r, "EVAL %s 0", SCRATCH_WITHOUT_TTL), 0);
    buffer_free(&said.text);
    fixture_stop(&f);
}

Test(redis_preflight, a_lost_connection_is_reported_at_every_step) {
    fixture_t f = fixture_start(&(fixture_options_t){.proxy = true});
    said_t said = {0};
    long before = proxy_requests(f.proxy, NULL);
    cr_assert_eq(look(&f, &said), OUTCOME_OK);
    long requests = proxy_requests(f.proxy, NULL) - before;
    for (int nth = 1; nth <= requests; nth++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .nth = nth});
        cr_assert_eq(look(&f, &said), OUTCOME_DISCONNECTED, "request %d of %ld", nth, requests);
        cr_assert_eq(redis_int(f.r, "EVAL %s 0", SCRATCH_WITHOUT_TTL), 0, "killed here it would leave keys: request %d", nth);
        cr_assert_eq(said.counts[PREFLIGHT_REFUSED], 0, "%s", buffer_text(&said.text));
        proxy_pass(f.proxy);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    }
    buffer_free(&said.text);
    fixture_stop(&f);
}

/* What opens beside the first connection may fail while that one is as good as ever: then it is on us to tidy up. Nothing may be
 * left to the TTL of the keys. */
static void expect_no_scratch(fixture_t *f, const char *when) {
    long long left = redis_int(f->r, "EVAL %s 0", "return #redis.call('KEYS', 'sidecar:preflight-*')");
    cr_assert_eq(left, 0, "%lld scratch keys are left: %s", left, when);
    cr_assert_eq(redis_int(f->r, "DBSIZE"), 0);
}

Test(redis_preflight, a_second_connection_that_fails_leaves_no_scratch_keys) {
    fixture_t f = fixture_start(&(fixture_options_t){.proxy = true});
    said_t said = {0};
    for (int nth = 0; nth <= 2; nth++) { /* none is taken; the first of the two is cut; the second is */
        if (nth == 0)
            proxy_refuse_new(f.proxy, true);
        else
            proxy_rule(f.proxy,
                       (proxy_rule_t){.action = PROXY_DROP, .match = "CLIENT SETNAME queue-sidecar-preflight", .nth = nth});
        cr_assert_eq(look(&f, &said), OUTCOME_DISCONNECTED, "connection %d", nth);
        cr_assert_not_null(strstr(f.error.text, proxy_socket(f.proxy)), "%s", f.error.text);
        cr_assert_neq(f.error.text[strlen(proxy_socket(f.proxy))], '\0', "no reason: %s", f.error.text);
        cr_assert(conn_is_open(f.conn));
        expect_no_scratch(&f, f.error.text);
        proxy_pass(f.proxy);
    }
    cr_assert_gt(proxy_requests(f.proxy, "sidecar:preflight-"), 0);
    expect_look(&f, 0, 0, 0, NULL);
    buffer_free(&said.text);
    fixture_stop(&f);
}

Test(redis_preflight, a_server_without_room_for_a_second_connection_is_left_tidy) {
    fixture_t f = fixture_start(NULL);
    said_t said = {0};
    redis_ok(f.r, "CONFIG SET maxclients 2"); /* ours and that of the test */
    outcome_t outcome = look(&f, &said);
    /* The server says why and closes; whether we read that or meet the closed socket first is a matter of luck. */
    bool lost = outcome == OUTCOME_DISCONNECTED && strstr(f.error.text, server_socket(f.server));
    bool told = strstr(buffer_text(&said.text), "max number of clients reached") != NULL;
    cr_assert(lost || told, "%s\n%s", f.error.text, buffer_text(&said.text));
    cr_assert(conn_is_open(f.conn));
    expect_no_scratch(&f, f.error.text);
    redis_ok(f.r, "CONFIG SET maxclients 100");
    expect_look(&f, 0, 0, 0, NULL);
    buffer_free(&said.text);
    fixture_stop(&f);
}

#define CLUSTER_CONFIG(scope, names) "group = \"app\"; lock = { scope = \"" scope "\"; }; queues = ( " names " );"

static fixture_t cluster(const char *config, bool slots) {
    static const char *const args[] = {"--cluster-enabled", "yes", NULL};
    fixture_t f = fixture_start(&(fixture_options_t){.args = args, .config = config, .tcp = true, .closed = true});
    if (!slots) return f;
    redis_ok(f.r, "CLUSTER ADDSLOTSRANGE 0 16383");
    char *info = NULL;
    cr_assert(wait_for((free(info), info = redis_str(f.r, "CLUSTER INFO"), strstr(info, "cluster_state:ok") != NULL), 15000));
    free(info);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    return f;
}

Test(redis_preflight, in_a_cluster_each_queue_needs_a_lock_of_its_slot, .timeout = 60) {
    fixture_t f = cluster(CLUSTER_CONFIG("group", "{ name = \"email\"; }, { name = \"{sms}\"; }"), true);
    said_t said = {0};
    cr_assert_eq(look(&f, &said), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(said.counts[PREFLIGHT_QUEUE_REFUSED], 2, "%s", buffer_text(&said.text));
    cr_assert_not_null(strstr(buffer_text(&said.text), "queue email: in Redis Cluster"), "%s", buffer_text(&said.text));
    cr_assert_not_null(strstr(buffer_text(&said.text), "lock.scope = \"queue\""));
    buffer_free(&said.text);
    fixture_stop(&f);
}

Test(redis_preflight, a_cluster_works_with_hash_tags_from_end_to_end, .timeout = 60) {
    fixture_t f =
        cluster(CLUSTER_CONFIG("queue", "{ name = \"{email}\"; heartbeat = \"{email}*_alive\"; protected_timeout = \"100ms\"; }, "
                                        "{ name = \"{sms}\"; heartbeat = \"off\"; protected_timeout = \"100ms\"; }"),
                true);
    expect_look(&f, 0, 0, 0, NULL);
    instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    redis_ok(f.r, "ZADD {email}:delayed 1 a");
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {email}") == 1, 5000));
    redis_ok(f.r, "ZADD {sms}:delayed 1 b");
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {sms}") == 1, 5000));
    redis_ok(f.r, "RPOPLPUSH {email} {email}:backup"); /* their workers die */
    redis_ok(f.r, "RPOPLPUSH {sms} {sms}:backup");
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {email}") == 1, 15000));
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {sms}") == 1, 15000));
    cr_assert_eq(metric_get(&instance.metrics->leading), 2);
    char *errors = server_info(f.server, "errorstats");
    cr_assert_null(strstr(errors, "CROSSSLOT"), "%s", errors);
    free(errors);
    instance_stop(&instance);
    fixture_stop(&f);
}

Test(redis_preflight, in_a_cluster_patterns_without_the_tag_are_warned_of, .timeout = 60) {
    fixture_t f =
        cluster(CLUSTER_CONFIG("queue", "{ name = \"{email}\"; }, { name = \"a{f}\"; dialect = \"private_queues\"; main = "
                                        "\"{f}\"; private = \"queue-*\"; heartbeat = \"{f}*\"; }"),
                true);
    said_t said = {0};
    cr_assert_eq(look(&f, &said), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(said.counts[PREFLIGHT_WARNING], 2, "%s", buffer_text(&said.text));
    cr_assert_eq(said.counts[PREFLIGHT_QUEUE_REFUSED], 0, "%s", buffer_text(&said.text));
    cr_assert_not_null(strstr(buffer_text(&said.text), "`heartbeat`, which is \"*_alive\""), "%s", buffer_text(&said.text));
    cr_assert_not_null(strstr(buffer_text(&said.text), "`private`, which is \"queue-*\""), "%s", buffer_text(&said.text));
    buffer_free(&said.text);
    fixture_stop(&f);
}

Test(redis_preflight, a_cluster_without_slots_is_not_ready) {
    fixture_t f = cluster(CLUSTER_CONFIG("queue", "{ name = \"{email}\"; }"), false);
    said_t said = {0};
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(look(&f, &said), OUTCOME_RETRY);
    cr_assert_eq(strncmp(f.error.text, "CLUSTERDOWN", 11), 0, "%s", f.error.text);
    buffer_free(&said.text);
    fixture_stop(&f);
}

/* A reload looks while it holds the lock, and must be done before that runs out. */
Test(redis_preflight, the_keys_of_many_queues_are_asked_for_before_the_first_answer_is_read) {
    fixture_t f =
        fixture_start(&(fixture_options_t){.proxy = true,
                                           .redis = "timeout = \"3s\";", /* all requests before the held one take less */
                                           .config = "group = \"app\"; queues = ({ name = \"a\"; }, { name = \"b\"; });"});
    said_t said = {0};
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "TYPE sidecar:app:lock"});
    cr_assert_eq(look(&f, &said), OUTCOME_DISCONNECTED);
    cr_assert_eq(proxy_requests(f.proxy, "TYPE a:delayed"), 1);
    cr_assert_eq(proxy_requests(f.proxy, "TYPE sidecar:b:auditors"), 1);
    buffer_free(&said.text);
    fixture_stop(&f);
}
