/* The preflight: its results on good and bad servers, and its scratch key. */
#include "fixture.h"
#include "inspect/preflight.h"
#include "redis/socket/reply_guard.h"
#include "wait.h"

typedef struct {
    buffer_t text;                          /* one line "level queue: text" for each result; "-" = no queue */
    int counts[PREFLIGHT_QUEUE_MOVING + 1]; /* by preflight_level_t */
} results_t;

static results_t results; /* of the last run */

static void add_result(void *self, preflight_level_t level, const char *queue, const char *text) {
    static const char *const levels[] = {"fact", "note", "warn", "queue", "refused", "disabled", "moving"};
    (void)self;
    results.counts[level]++;
    cr_assert_null(strchr(text, '\n'));
    buffer_printf(&results.text, "%s %s: %s\n", levels[level], queue ? queue : "-", text);
}

static outcome_t run_preflight(fixture_t *f) {
    buffer_free(&results.text);
    results = (results_t){0};
    return preflight(&(preflight_call_t){f->conn, f->keys, add_result, NULL, &f->error});
}

/* Expects these numbers of warnings, of refused queues and of refusals, and a line with `text` (NULL: any text). */
static void expect_results(fixture_t *f, int warnings, int queues, int faults, const char *text) {
    long long keys = redis_int(f->r, "DBSIZE");
    cr_assert_eq(run_preflight(f), OUTCOME_OK, "%s", f->error.text);
    const char *all = buffer_text(&results.text);
    cr_assert(results.counts[PREFLIGHT_WARNING] == warnings && results.counts[PREFLIGHT_QUEUE_REFUSED] == queues &&
                  results.counts[PREFLIGHT_REFUSED] == faults,
              "%s", all);
    if (text) cr_assert_not_null(strstr(all, text), "\"%s\" is not in:\n%s", text, all);
    cr_assert_eq(redis_int(f->r, "DBSIZE"), keys, "scratch keys are left");
}

static fixture_t f;
SUITE(redis_preflight, , fixture_stop(&f));

Test(redis_preflight, passes_on_a_good_server_and_leaves_no_trace) {
    f = fixture_start(NULL);
    bool valkey;
    char *version = server_version(f.server, &valkey),
         *line = kept_printf("server is %s %s at ", valkey ? "valkey" : "redis", version);
    expect_results(&f, 0, 0, 0, line);
    redis_ok(f.r, "LPUSH email a");
    redis_ok(f.r, "ZADD email:delayed 1 a");
    redis_ok(f.r, "SET sidecar:app:lock T PX 60000");
    redis_ok(f.r, "HSET sidecar:email:meta group app");
    redis_ok(f.r, "HSET sidecar:app:queues email T");
    char *before = fixture_digest(f.r);
    expect_results(&f, 0, 0, 0, NULL);
    redis_expect(f.r, before, "DEBUG DIGEST");
}

/* A dry run of delayed_queue's scripts once left scratch keys that went only when they expired. */
Test(redis_preflight, leaves_no_scratch_key_of_any_dialect) {
    static const char *const settings[] = {
        "dialect = \"list\";",
        "dialect = \"bull\";",
        "dialect = \"bullmq\";",
        "dialect = \"delayed_queue\"; types = [\"a.B\"];",
        "dialect = \"kmqueue\"; queues = [\"one:safe\"];",
        "dialect = \"private_queues\"; main = \"m\"; private = \"queue-*\"; dlq = \"dead\"; heartbeat = \"off\";"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char *config = kept_printf("group = \"app\"; queues = ( { name = \"q\"; %s } );", settings[i]);
        f = fixture_start(&(fixture_options_t){.config = config});
        cr_assert_eq(run_preflight(&f), OUTCOME_OK, "%s", f.error.text);
        cr_assert_eq(redis_int(f.r, "DBSIZE"), 0, "%s", settings[i]);
        cr_assert_eq(
            preflight_again(&(preflight_call_t){f.conn, f.keys, add_result, NULL, &f.error}, (bool[]){true}, (bool[]){true}),
            OUTCOME_OK);
        cr_assert_eq(redis_int(f.r, "DBSIZE"), 0, "%s", settings[i]);
        fixture_stop(&f);
    }
}

/* The preflight runs scripts on a scratch key. They must log nothing. */
Test(redis_preflight, does_not_report_scratch_jobs) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"video\"; dialect = \"bull\"; } );"});
    expect_results(&f, 0, 0, 0, NULL);
    char *log = fixture_log();
    cr_expect_str_empty(log);
}

Test(redis_preflight, warns_of_eviction) {
    static const char *const policies[] = {"allkeys-lru", "volatile-ttl", "allkeys-random"};
    f = fixture_start(NULL);
    for (size_t i = 0; i < 3; i++) {
        redis_ok(f.r, "CONFIG SET maxmemory-policy %s", policies[i]);
        char *named = kept_printf("maxmemory-policy of %s is %s:", conn_target(f.conn), policies[i]);
        expect_results(&f, 1, 0, 0, named);
    }
}

Test(redis_preflight, warns_of_streams_that_can_fill_redis) {
    enum { MIB = 1 << 20 };
    f = fixture_start(&(fixture_options_t){.config = "group = \"app\"; stream = { max_bytes = \"8MiB\"; }; "
                                                     "queues = ( { name = \"email\"; }, { name = \"sms\"; } );"});
    redis_ok(f.r, "CONFIG SET maxmemory %d", 16 * MIB + 1);
    expect_results(&f, 0, 0, 0, NULL);
    redis_ok(f.r, "CONFIG SET maxmemory %d", 16 * MIB);
    char *named =
        kept_printf("stream.max_bytes (8.0 MiB) times 2 queues is not below maxmemory of %s (16.0 MiB):", conn_target(f.conn));
    expect_results(&f, 1, 0, 0, named);
}

Test(redis_preflight, refuses_a_replica) {
    f = fixture_start(NULL);
    redis_ok(f.r, "REPLICAOF 127.0.0.1 1");
    outcome_t outcome = run_preflight(&f);
    cr_assert(outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED, "a replica refuses the probe with READONLY");
    cr_assert_not_null(strstr(buffer_text(&results.text), "refused -: "), "%s", buffer_text(&results.text));
    cr_assert_not_null(strstr(buffer_text(&results.text), "is a replica: the sidecar must talk to the primary"));
}

/* Runs the preflight as on a node of a Cluster that answers this request with ASK. */
static void run_while_moving(const char *config, const char *match) {
    f = fixture_start(&(fixture_options_t){.proxy = true, .config = config});
    f.config->redis.mode = REDIS_MODE_CLUSTER;
    scoped(topology_drop) topology_t *cluster = topology_new(&f.config->redis);
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(cluster, 0), "test", NULL);
    cr_assert_eq(conn_open(conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = match, .error = "-ASK 7 10.0.0.5:6379", .times = 1});
    cr_assert_eq(preflight(&(preflight_call_t){conn, f.keys, add_result, &results, &f.error}), OUTCOME_OK);
    cr_assert_eq(proxy_fired(f.proxy), 1);
}

Test(redis_preflight, a_slot_that_is_being_moved_refuses_no_right) {
    run_while_moving(NULL, "TYPE sidecar:preflight");
    cr_assert_null(strstr(buffer_text(&results.text), "is refused"), "%s", buffer_text(&results.text));
}

/* `check` and `status` leave such a result out, because they tell of the slot. */
Test(redis_preflight, a_queue_whose_slot_is_being_moved_has_a_level_of_its_own) {
    run_while_moving("group = \"app\"; queues = ( { name = \"video\"; dialect = \"bull\"; } );", "HMGET bull:");
    cr_assert_eq(results.counts[PREFLIGHT_QUEUE_MOVING], 1, "%s", buffer_text(&results.text));
    cr_assert_eq(results.counts[PREFLIGHT_QUEUE_DISABLED], 0, "%s", buffer_text(&results.text));
}

Test(redis_preflight, refuses_versions_before_6_2) {
    static const struct {
        const char *version;
        bool old;
    } rows[] = {{"6.0.16", true}, {"6.2.0", false}, {"5.0.14", true}, {"7.2.4", false}};
    f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true});
    for (size_t i = 0; i < 4; i++) {
        char *bulk = kept_printf("$%zu\r\nredis_version:%s", strlen(rows[i].version) + 14, rows[i].version);
        proxy_pass(f.proxy);
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "INFO server", .error = bulk});
        conn_close(f.conn);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        expect_results(&f, 0, 0, rows[i].old, rows[i].old ? "is too old: Redis 6.2 or Valkey 7.2 is needed" : rows[i].version);
    }
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
    f = fixture_start(&(fixture_options_t){
        .config =
            "group = \"app\"; queues = ( { name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; }, { name = \"sms\"; } );"});
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for_other_types (type, keys[k].type) {
            fixture_make_key(f.r, keys[k].key, type);
            char *line = kept_printf("key \"%s\" holds a %s where a %s is wanted", keys[k].key, type, keys[k].type);
            expect_results(&f, 0, !keys[k].shared, keys[k].shared, line);
        }
        redis_ok(f.r, "DEL %s", keys[k].key);
    }
    fixture_make_key(f.r, "email", "set");
    fixture_make_key(f.r, "sms:delayed", "list");
    expect_results(&f, 0, 2, 0, "queue sms: delayed key \"sms:delayed\" holds a list where a zset is wanted");
}

Test(redis_preflight, checks_only_keys_that_its_roles_use) {
    f = fixture_start(
        &(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; roles = [\"dispatcher\"]; } );"});
    fixture_make_key(f.r, "email:backup", "string");
    fixture_make_key(f.r, "email:errors", "string");
    expect_results(&f, 0, 0, 0, NULL);
}

Test(redis_preflight, passes_on_a_full_server) {
    f = fixture_start(NULL);
    redis_ok(f.r, "ZADD email:delayed 1 a");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    expect_results(&f, 1, 0, 0, "stream.max_bytes (256 MiB) times 1 queue is not below maxmemory");
}

static const char *const RETRYABLE[] = {"-LOADING x",     "-MASTERDOWN x", "-BUSY x",    "-READONLY x",
                                        "-CLUSTERDOWN x", "-TRYAGAIN x",   "-MISCONF x", "-NOREPLICAS x"};

Test(redis_preflight, a_transient_error_is_no_result) {
    static const char *const steps[] = {"INFO memory", "ROLE", "INFO cluster", "TYPE", "EVALSHA", "ZADD"};
    f = fixture_start(&(fixture_options_t){.proxy = true});
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        for (size_t i = 0; i < sizeof RETRYABLE / sizeof *RETRYABLE; i++) {
            proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = steps[s], .error = RETRYABLE[i]});
            outcome_t outcome = run_preflight(&f);
            cr_assert(outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED, "%s at %s", RETRYABLE[i], steps[s]);
            cr_assert_eq(results.counts[PREFLIGHT_REFUSED], 0, "%s", buffer_text(&results.text));
            cr_assert_eq(results.counts[PREFLIGHT_QUEUE_REFUSED], 0, "%s", buffer_text(&results.text));
            proxy_pass(f.proxy);
            cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        }
    }
}

Test(redis_preflight, no_reply_is_left_over_for_the_next_request) {
    f = fixture_start(&(fixture_options_t){.proxy = true});
    for (int nth = 1; nth <= 5; nth++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "TYPE", .error = "-BUSY x", .nth = nth});
        cr_assert_eq(run_preflight(&f), OUTCOME_RETRY);
        proxy_pass(f.proxy);
        redisReply *reply;
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        request_begin(f.conn, "ECHO");
        request_text(f.conn, "mine");
        cr_assert_eq(request_ask(f.conn, &reply, &f.error), OUTCOME_OK);
        cr_assert(reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "mine") == 0,
                  "the reply belongs to another request (TYPE %d)", nth);
        conn_reply_free(reply);
    }
}

#define SCRATCH_WITHOUT_TTL                                                                                                      \
    "local n = 0 for _, key in ipairs(redis.call('KEYS', 'sidecar:preflight*')) do "                                             \
    "if redis.call('PTTL', key) < 0 then n = n + 1 end end return n"

Test(redis_preflight, the_scratch_key_expires_where_del_is_refused) {
    f = fixture_start(NULL);
    redis_ok(f.r, "ACL SETUSER default -del");
    cr_assert_eq(run_preflight(&f), OUTCOME_OK, "%s", f.error.text);
    cr_assert_not_null(strstr(buffer_text(&results.text), "script acquire is refused: DEL: "), "%s", buffer_text(&results.text));
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 1);
    cr_assert_eq(redis_int(f.r, "EVAL %s 0", SCRATCH_WITHOUT_TTL), 0);
}

Test(redis_preflight, a_lost_connection_is_reported_at_every_step) {
    f = fixture_start(&(fixture_options_t){.proxy = true});
    long before = proxy_requests(f.proxy, NULL);
    cr_assert_eq(run_preflight(&f), OUTCOME_OK);
    long requests = proxy_requests(f.proxy, NULL) - before;
    for (int nth = 1; nth <= requests; nth++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .nth = nth});
        cr_assert_eq(run_preflight(&f), OUTCOME_DISCONNECTED, "request %d of %ld", nth, requests);
        cr_assert_eq(redis_int(f.r, "EVAL %s 0", SCRATCH_WITHOUT_TTL), 0, "a process killed at request %d would leave keys", nth);
        cr_assert_eq(results.counts[PREFLIGHT_REFUSED], 0, "%s", buffer_text(&results.text));
        proxy_pass(f.proxy);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    }
}

/* The second connection may fail while the first one works. Then the preflight must delete its scratch key at once, and not leave
 * it to the TTL. */
static void expect_no_scratch(const char *when) {
    long long left = redis_int(f.r, "EVAL %s 0", "return #redis.call('KEYS', 'sidecar:preflight-*')");
    cr_assert_eq(left, 0, "%lld scratch keys are left: %s", left, when);
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 0);
}

Test(redis_preflight, a_second_connection_that_fails_leaves_no_scratch_keys) {
    f = fixture_start(&(fixture_options_t){.proxy = true});
    for (int nth = 0; nth <= 2; nth++) { /* 0: no new connection is accepted; 1 or 2: the first or second new one is cut */
        if (nth == 0)
            proxy_refuse_new(f.proxy, true);
        else
            proxy_rule(f.proxy,
                       (proxy_rule_t){.action = PROXY_DROP, .match = "CLIENT SETNAME queue-sidecar-preflight", .nth = nth});
        cr_assert_eq(run_preflight(&f), OUTCOME_DISCONNECTED, "connection %d", nth);
        cr_assert_not_null(strstr(f.error.text, conn_target(f.conn)), "%s", f.error.text);
        cr_assert_neq(f.error.text[strlen(conn_target(f.conn))], '\0', "the error has no reason: %s", f.error.text);
        cr_assert(conn_is_open(f.conn));
        expect_no_scratch(f.error.text);
        proxy_pass(f.proxy);
    }
    cr_assert_gt(proxy_requests(f.proxy, "sidecar:preflight-"), 0);
    expect_results(&f, 0, 0, 0, NULL);
}

Test(redis_preflight, a_server_at_maxclients_keeps_no_scratch_keys) {
    f = fixture_start(NULL);
    redis_ok(f.r, "CONFIG SET maxclients 2"); /* the connection of the preflight and the one of the test */
    outcome_t outcome = run_preflight(&f);
    /* The server sends the reason and closes. The preflight reads the reason or sees the closed socket first. */
    bool lost = outcome == OUTCOME_DISCONNECTED && strstr(f.error.text, conn_target(f.conn));
    bool told = strstr(buffer_text(&results.text), "max number of clients reached") != NULL;
    cr_assert(lost || told, "%s\n%s", f.error.text, buffer_text(&results.text));
    cr_assert(conn_is_open(f.conn));
    expect_no_scratch(f.error.text);
    redis_ok(f.r, "CONFIG SET maxclients 100");
    expect_results(&f, 0, 0, 0, NULL);
}

/* A leader that connects again runs the preflight while the stream begins with the record of a large job. */
Test(redis_preflight, a_large_record_stops_no_preflight) {
    f = fixture_start(NULL);
    redis_ok(f.r, "EVAL %s 1 sidecar:email:failures %d", "redis.call('XADD', KEYS[1], '*', 'payload', string.rep('x', ARGV[1]))",
             MAX_REPLY + 1);
    expect_results(&f, 0, 0, 0, NULL);
    cr_assert_lt(conn_received(f.conn), MAX_REPLY, "reads the record");
}

#define CLUSTER_CONFIG(scope, names) "group = \"app\"; lock = { scope = \"" scope "\"; }; queues = ( " names " );"

static void cluster_fixture(const char *config, bool slots) {
    static const char *const args[] = {"--cluster-enabled", "yes", NULL};
    f = fixture_start(&(fixture_options_t){.args = args, .config = config, .tcp = true, .closed = true});
    if (!slots) return;
    server_serve_all_slots(f.server);
    char *info = NULL;
    cr_assert(wait_for((free(info), info = redis_str(f.r, "CLUSTER INFO"), strstr(info, "cluster_state:ok") != NULL), 15000));
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
}

Test(redis_preflight, in_a_cluster_each_queue_needs_a_lock_of_its_slot, .timeout = 60) {
    cluster_fixture(CLUSTER_CONFIG("group", "{ name = \"email\"; }, { name = \"{sms}\"; }"), true);
    cr_assert_eq(run_preflight(&f), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(results.counts[PREFLIGHT_QUEUE_REFUSED], 2, "%s", buffer_text(&results.text));
    cr_assert_not_null(strstr(buffer_text(&results.text), "queue email: in Redis Cluster"), "%s", buffer_text(&results.text));
    cr_assert_not_null(strstr(buffer_text(&results.text), "set lock.scope = \"queue\"; put the name into braces: name = "));
}

Test(redis_preflight, a_cluster_works_with_hash_tags_from_end_to_end, .timeout = 60) {
    cluster_fixture(CLUSTER_CONFIG("queue",
                                   "{ name = \"{email}\"; heartbeat = \"{email}*_alive\"; protected_timeout = \"100ms\"; }, "
                                   "{ name = \"{sms}\"; heartbeat = \"off\"; protected_timeout = \"100ms\"; }"),
                    true);
    expect_results(&f, 0, 0, 0, NULL);
    scoped(instance_stop) instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    redis_ok(f.r, "ZADD {email}:delayed 1 a");
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {email}") == 1, 5000));
    redis_ok(f.r, "ZADD {sms}:delayed 1 b");
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {sms}") == 1, 5000));
    redis_ok(f.r, "RPOPLPUSH {email} {email}:backup"); /* the workers of both jobs die */
    redis_ok(f.r, "RPOPLPUSH {sms} {sms}:backup");
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {email}") == 1, 15000));
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN {sms}") == 1, 15000));
    cr_assert_eq(metric_get(&instance.metrics->leading), 2);
    char *errors = server_info(f.server, "errorstats");
    cr_assert_null(strstr(errors, "CROSSSLOT"), "%s", errors);
}

Test(redis_preflight, warns_of_patterns_without_the_hash_tag_in_a_cluster, .timeout = 60) {
    cluster_fixture(CLUSTER_CONFIG("queue", "{ name = \"{email}\"; }, { name = \"a{f}\"; dialect = \"private_queues\"; main = "
                                            "\"{f}\"; private = \"queue-*\"; heartbeat = \"{f}*\"; }"),
                    true);
    cr_assert_eq(run_preflight(&f), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(results.counts[PREFLIGHT_WARNING], 2, "%s", buffer_text(&results.text));
    cr_assert_eq(results.counts[PREFLIGHT_QUEUE_REFUSED], 0, "%s", buffer_text(&results.text));
    cr_assert_not_null(strstr(buffer_text(&results.text), "`heartbeat`, which is \"*_alive\""), "%s", buffer_text(&results.text));
    cr_assert_not_null(strstr(buffer_text(&results.text), "`private`, which is \"queue-*\""), "%s", buffer_text(&results.text));
}

Test(redis_preflight, a_cluster_without_slots_is_not_ready) {
    cluster_fixture(CLUSTER_CONFIG("queue", "{ name = \"{email}\"; }"), false);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(run_preflight(&f), OUTCOME_RETRY);
    cr_assert_eq(strncmp(f.error.text, "CLUSTERDOWN", 11), 0, "%s", f.error.text);
}

/* A reload runs the preflight while it holds the lock, and must end before the lock expires. */
Test(redis_preflight, sends_the_requests_of_all_queues_before_it_reads_a_reply) {
    f = fixture_start(&(fixture_options_t){.proxy = true,
                                           .redis = "timeout = \"3s\";",
                                           /* all requests before the held one take less */ .config =
                                               "group = \"app\"; queues = ({ name = \"a\"; }, { name = \"b\"; });"});
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "TYPE sidecar:app:lock"});
    cr_assert_eq(run_preflight(&f), OUTCOME_DISCONNECTED);
    cr_assert_eq(proxy_requests(f.proxy, "TYPE a:delayed"), 1);
    cr_assert_eq(proxy_requests(f.proxy, "TYPE sidecar:b:auditors"), 1);
}
