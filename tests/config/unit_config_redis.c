/* Settings of the group `redis` that depend on each other: TLS, sentinels, a Cluster. */

#include "config_dialects.h"
#include "suite.h"

SUITE(unit_config_redis, config_case_begin(), config_case_end());

#define Q            "queues = ( { name = \"q\"; } );\n"
#define REDIS(lines) "redis = {\n" lines "\n};\n" Q
#define SENTINELS    "sentinels = [\"a:1\"]; master = \"m\"; "
#define ADDRESS      "but each text must be host:port or [v6]:port\n"
#define HOST         "but must be a name or an address: write the port in `redis.port`, and an IPv6 address without brackets\n"
#define PAIR         "but each text must be \"announced=reachable\", each of them host:port or [v6]:port\n"
#define IGNORED      "has no effect without TLS: set `redis.tls` to true, or remove it\n"

Test(unit_config_redis, refuses_a_malformed_or_duplicate_address) {
    static const config_case_row_t rows[] = {
        {REDIS("nodes = [\"a\"];"), "F:2: `redis.nodes` has \"a\", " ADDRESS},
        {REDIS("nodes = [\"a:1\", \"::1:7000\"];"), "F:2: `redis.nodes` has \"::1:7000\", " ADDRESS},
        {REDIS("nodes = [\"a:0\", \"b:70000\"];"),
         "F:2: `redis.nodes` has \"a:0\", " ADDRESS "F:2: `redis.nodes` has \"b:70000\", " ADDRESS},
        {REDIS("nodes = [\"redis://a:1\"];"), "F:2: `redis.nodes` has a text that may hold a password, " ADDRESS},
        {REDIS("nodes = [\"a:1\", \"[::1]:2\", \"A:1\"];"), "F:2: `redis.nodes` has A:1 twice: remove one of them\n"},
        {REDIS("master = \"m\";\n sentinels = [\"a:1\", \"b\"];"), "F:3: `redis.sentinels` has \"b\", " ADDRESS},
        {REDIS("master = \"m\"; sentinels = [\"[::1]:1\", \"[::1]:1\"];"),
         "F:2: `redis.sentinels` has [::1]:1 twice: remove one of them\n"},
        {REDIS("nodes = [\"[::1]:7000\", \"[0:0::1]:7000\"];"),
         "F:2: `redis.nodes` has [0:0::1]:7000 twice: remove one of them\n"},
        {REDIS("addresses = [\"a:1\"];"), "F:2: `redis.addresses` has \"a:1\", " PAIR},
        {REDIS("addresses = [\"a=b\"];"), "F:2: `redis.addresses` has \"a=b\", " PAIR},
        {REDIS("addresses = [\"a:1=b:2\", \"a:1=c:2\"];"), "F:2: `redis.addresses` has a:1 twice: remove one of them\n"},
        {REDIS("nodes = [\"\"];"), "F:2: `redis.nodes` is [\"\"], but must be a list of 0 to 32 texts, each of 1 to 256 bytes\n"},
        {REDIS("nodes = \"a:1\";"),
         "F:2: `redis.nodes` is \"a:1\", but must be a list of 0 to 32 texts, each of 1 to 256 bytes\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_redis, refuses_a_host_with_a_port) {
    static const config_case_row_t rows[] = {
        {REDIS("host = \"localhost:6379\";"), "F:2: `redis.host` is \"localhost:6379\", " HOST},
        {REDIS("host = \"[::1]\";"), "F:2: `redis.host` is \"[::1]\", " HOST},
        {REDIS("host = \"::1:x\";"), "F:2: `redis.host` is \"::1:x\", " HOST},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    config_free(config_case_good(REDIS("host = \"::1\";"), NULL));
    config_free(config_case_good(REDIS("host = \"fe80::1%eth0\";"), NULL));
    config_free(config_case_good(REDIS("url = \"rediss://[2001:db8::1]:6380\";"), NULL));
}

Test(unit_config_redis, refuses_more_than_32_addresses) {
    static const char *const keys[] = {"nodes", "sentinels", "addresses"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        scoped(buffer_free) buffer_t text = {0};
        buffer_printf(&text, "redis = { %s = [\"h0:1\"", keys[i]);
        for (int k = 1; k <= 32; k++) buffer_printf(&text, ", \"h%d:1\"", k);
        buffer_str(&text, "]; };\n" Q);
        char *expected = kept_printf("F:1: `redis.%s` is [\"h0:1\", \"h1:1\", \"h2:1\", \"h3:1\", ...], but must be a list of 0 "
                                     "to 32 texts, each of 1 to 256 bytes\n",
                                     keys[i]);
        config_case_expect_fault(buffer_text(&text), expected);
    }
}

Test(unit_config_redis, names_the_key_that_is_missing) {
    static const config_case_row_t rows[] = {
        {REDIS("sentinels = [\"a:1\"];"),
         "F:2: `redis.sentinels` needs `redis.master`, the name under which the sentinels monitor the primary, such as "
         "\"mymaster\"\n"},
        {REDIS("master = \"m\";"),
         "F:2: `redis.master` needs `redis.sentinels`, the addresses of the sentinels, such as [\"10.0.0.1:26379\"]\n"},
        {REDIS("sentinel_username = \"u\";"), "F:2: `redis.sentinel_username` needs `redis.sentinels`, the addresses of the "
                                              "sentinels; the user of Redis is `username`\n"},
        {REDIS("sentinel_password_file = \"/p\";"),
         "F:2: `redis.sentinel_password_file` needs `redis.sentinels`, the addresses of the sentinels; the password of Redis is "
         "in `password_file`\n"},
        {REDIS("sentinel_password = \"p\";"), "F:2: `redis.sentinel_password` needs `redis.sentinels`, the addresses of the "
                                              "sentinels; the password of Redis is `password`\n"},
        {REDIS("sentinel_tls = true;"), "F:2: `redis.sentinel_tls` needs `redis.sentinels`; TLS to Redis itself is `tls`\n"},
        {REDIS("tls = true;\n tls_key_file = \"/k\";"),
         "F:3: `redis.tls_key_file` needs `redis.tls_cert_file`, the file with the key's certificate\n"},
        {REDIS("tls = true;\n tls_cert_file = \"/c\";"),
         "F:3: `redis.tls_cert_file` needs `redis.tls_key_file`, the file with the certificate's key\n"},
        {REDIS("mode = \"sentinel\";"), "F:2: `redis.mode` is \"sentinel\" and needs `redis.sentinels` and `redis.master`\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_redis, refuses_keys_that_exclude_each_other) {
    static const config_case_row_t rows[] = {
        {REDIS("nodes = [\"a:1\"];\n socket = \"/s\";"),
         "F:2: `redis.nodes` and `redis.socket` are both set: remove one of them\n"},
        {REDIS("nodes = [\"a:1\"];\n url = \"unix:///s\";"),
         "F:2: `redis.nodes` and the socket of `redis.url` are both set: remove one of them\n"},
        {REDIS(SENTINELS "\nnodes = [\"a:1\"];"), "F:3: `redis.nodes` and `redis.sentinels` are both set: remove one of them\n"},
        {REDIS(SENTINELS "\nsocket = \"/s\";"), "F:2: `redis.sentinels` and `redis.socket` are both set: remove one of them\n"},
        {REDIS("tls = true; socket = \"/s\";"), "F:2: `redis.tls` and `redis.socket` are both set: TLS is for host and port "
                                                "only, so remove one of them\n"},
        {REDIS(SENTINELS "\nmode = \"single\";"),
         "F:3: `redis.mode` is \"single\", but `redis.sentinels` is set: remove one of them\n"},
        {REDIS("nodes = [\"a:1\"];\n mode = \"single\";"),
         "F:3: `redis.mode` is \"single\", but `redis.nodes` is set: remove one of them\n"},
        {REDIS(SENTINELS "nodes = [\"a:1\"];\n mode = \"sentinel\";"),
         "F:3: `redis.mode` is \"sentinel\", but `redis.nodes` is set: remove one of them\n"},
        {REDIS(SENTINELS "socket = \"/s\";\n mode = \"sentinel\";"),
         "F:3: `redis.mode` is \"sentinel\", but `redis.socket` is set: remove one of them\n"},
        {REDIS(SENTINELS "\nmode = \"cluster\";"),
         "F:3: `redis.mode` is \"cluster\", but `redis.sentinels` is set: remove one of them\n"},
        {REDIS("socket = \"/s\";\n mode = \"cluster\";"),
         "F:3: `redis.mode` is \"cluster\", but `redis.socket` is set: remove one of them\n"},
        {REDIS("url = \"unix:///s\";\n mode = \"cluster\";"),
         "F:3: `redis.mode` is \"cluster\", but the socket of `redis.url` is set: remove one of them\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_redis, refuses_what_no_cluster_has) {
    static const config_case_row_t rows[] = {
        {REDIS("mode = \"cluster\";\n db = 3;"), "F:3: `redis.db` is 3, but a Cluster has database 0 only: remove it\n"},
        {REDIS("nodes = [\"a:1\"];\n db = 3;"), "F:3: `redis.db` is 3, but a Cluster has database 0 only: remove it\n"},
        {REDIS("mode = \"cluster\";\n url = \"redis://h/3\";"),
         "F:3: the db of `redis.url` is 3, but a Cluster has database 0 only: remove it\n"},
        {"redis = { mode = \"cluster\"; };\nlock = { scope = \"group\"; };\n" Q,
         "F:2: `lock.scope` is \"group\", but queues of a Cluster need locks in their own slots: set \"queue\", or remove it\n"},
        {"redis = { mode = \"cluster\"; db = 1; };\n" KM(""),
         "F:1: `redis.db` is 1, but a Cluster has database 0 only: remove it\n"
         "F:2: queue `q`: the keys of KMQueue lie in many slots, so it cannot work in a Cluster: remove the queue\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_redis, warns_of_a_slice_that_is_long_for_the_ttl) {
    static const struct {
        const char *slice, *ttl, *warning;
    } rows[] = {
        {"100ms", "200ms",
         "F:1: `redis.slice` is 100ms, more than a tenth of `lock.ttl`, which is 200ms: no lock can be renewed while one script "
         "runs. Set `slice` to at most \"20ms\", or set a longer `lock.ttl`\n"},
        {"20001us", "200ms",
         "F:1: `redis.slice` is 20001us, more than a tenth of `lock.ttl`, which is 200ms: no lock can be renewed while one "
         "script runs. Set `slice` to at most \"20ms\", or set a longer `lock.ttl`\n"},
        {"20ms", "200ms", ""},
        {"100ms", "1s", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *warnings;
        char *text = kept_printf("redis = { slice = \"%s\"; };\nlock = { ttl = \"%s\"; };\n" Q, rows[i].slice, rows[i].ttl);
        config_free(config_case_good(text, &warnings));
        cr_expect_str_eq(warnings, rows[i].warning);
    }
}

Test(unit_config_redis, refuses_settings_of_tls_without_tls) {
    static const config_case_row_t rows[] = {
        {REDIS("tls_ca_file = \"/ca\";"), "F:2: `redis.tls_ca_file` " IGNORED},
        {REDIS("tls_cert_file = \"/c\";\n tls_key_file = \"/k\";"),
         "F:2: `redis.tls_cert_file` " IGNORED "F:3: `redis.tls_key_file` " IGNORED},
        {REDIS("tls_server_name = \"n\";"), "F:2: `redis.tls_server_name` " IGNORED},
        {REDIS("tls_verify = \"none\";"), "F:2: `redis.tls_verify` " IGNORED},
        {REDIS("tls_min = \"1.3\";"), "F:2: `redis.tls_min` " IGNORED},
        {REDIS("url = \"redis://h\";\n tls_ca_file = \"/ca\";"), "F:3: `redis.tls_ca_file` " IGNORED},
        {REDIS("tls_min = 1.3;"), "F:2: `redis.tls_min` is 1.3, but must be one of \"1.2\", \"1.3\"\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_redis, a_key_with_its_default_asks_for_nothing) {
    scoped(config_drop) config_t *config = config_case_good(
        REDIS("mode = \"auto\"; nodes = []; sentinels = []; master = \"\"; sentinel_username = \"\"; sentinel_password = \"\";"
              "sentinel_password_file = \"\"; sentinel_tls = false; addresses = []; tls = false; tls_ca_file = \"\";"
              "tls_cert_file = \"\"; tls_key_file = \"\"; tls_server_name = \"\"; tls_verify = \"full\"; tls_min = \"1.2\";"),
        NULL);
    cr_expect_eq(config_redis_mode(&config->redis), REDIS_MODE_AUTO);
}

Test(unit_config_redis, the_environment_names_its_variables) {
    setenv("QUEUE_SIDECAR_REDIS_SENTINELS", "a:1,b", 1);
    setenv("QUEUE_SIDECAR_REDIS_TLS_MIN", "1.3", 1);
    config_case_expect_fault(Q, "QUEUE_SIDECAR_REDIS_SENTINELS has \"b\", " ADDRESS
                                "QUEUE_SIDECAR_REDIS_SENTINELS needs `redis.master`, the name under which the sentinels monitor "
                                "the primary, such as \"mymaster\"\n"
                                "QUEUE_SIDECAR_REDIS_TLS_MIN " IGNORED);
    config_case_forget_environment();
}

Test(unit_config_redis, the_mode_decides_the_scope_of_locks) {
    scoped(config_drop) config_t *config = config_case_good(Q, NULL);
    static const struct {
        redis_mode_t mode;
        lock_scope_t given, expected;
    } rows[] = {
        {REDIS_MODE_SINGLE, LOCK_SCOPE_AUTO, LOCK_SCOPE_GROUP},   {REDIS_MODE_SENTINEL, LOCK_SCOPE_AUTO, LOCK_SCOPE_GROUP},
        {REDIS_MODE_CLUSTER, LOCK_SCOPE_AUTO, LOCK_SCOPE_QUEUE},  {REDIS_MODE_SINGLE, LOCK_SCOPE_QUEUE, LOCK_SCOPE_QUEUE},
        {REDIS_MODE_CLUSTER, LOCK_SCOPE_QUEUE, LOCK_SCOPE_QUEUE}, {REDIS_MODE_CLUSTER, LOCK_SCOPE_GROUP, LOCK_SCOPE_GROUP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        config->lock.scope = rows[i].given;
        cr_expect_eq(config_lock_scope(config, rows[i].mode), rows[i].expected, "row %zu", i);
    }
}

/* Each advice, carried out, leads to a config without a warning. */
Test(unit_config_redis, says_where_the_hash_tag_belongs_in_a_cluster) {
    static const struct {
        const char *queue, *advice; /* NULL = good */
    } rows[] = {
        {"name = \"{email}\";", NULL},
        {"name = \"email\";", "put the name into braces: name = \"{email}\""},
        {"name = \"{email}\"; dlq = \"dead\";", "put the hash tag of `name` into `dlq`, which gives the key \"dead\""},
        {"name = \"{email}\"; on_failure = \"told\";",
         "put the hash tag of `name` into `on_failure`, which gives the key \"told\""},
        {"name = \"{email}\"; on_failure = \"{email}:told\";", NULL},
        {"name = \"video\"; dialect = \"bull\";", "give both one hash tag, such as prefix = \"{bull}\" (also for the workers) "
                                                  "and name = \"{bull}:video\", and bull_queue = "
                                                  "\"video\" unless it is set"},
        {"name = \"video\"; dialect = \"bull\"; prefix = \"{bull}\";",
         "put the hash tag of its keys into `name` too: name = \"{bull}:video\", and bull_queue = \"video\" unless it is set"},
        {"name = \"{video}\"; dialect = \"bull\"; prefix = \"{bull}\";",
         "put the hash tag of its keys into `name` too: name = \"{bull}:video\", and bull_queue = \"video\" unless it is set"},
        {"name = \"{bull}:video\"; dialect = \"bull\"; prefix = \"{bull}\"; bull_queue = \"video\";", NULL},
        {"name = \"video\"; dialect = \"bullmq\"; prefix = \"{bull}\";",
         "put the hash tag of its keys into `name` too: name = \"{bull}:video\", and bull_queue = \"video\" unless it is set"},
        {"name = \"{bull}:video\"; dialect = \"bullmq\"; prefix = \"{bull}\"; bull_queue = \"video\";", NULL},
        {"name = \"events\"; dialect = \"delayed_queue\"; types = [\"a.B\"];",
         "give both one hash tag, such as prefix = \"{de_}\" (also for the workers) and name = \"{de_}:events\""},
        {"name = \"events\"; dialect = \"delayed_queue\"; types = [\"a.B\"]; prefix = \"\";",
         "give both one hash tag, such as prefix = \"{events}\" (also for the workers) and name = \"{events}\""},
        {"name = \"{de_}:events\"; dialect = \"delayed_queue\"; types = [\"a.B\"]; prefix = \"{de_}\";", NULL},
        {"name = \"fights\"; dialect = \"private_queues\"; main = \"requests\"; private = \"{requests}:*\";",
         "give both one hash tag, such as main = \"{requests}\" (also for the workers) and name = \"{requests}:fights\""},
        {"name = \"{requests}:fights\"; dialect = \"private_queues\"; main = \"{requests}\"; private = \"{requests}:*\"; dlq = "
         "\"dead\";",
         "put the hash tag of `name` into `dlq`, which gives the key \"dead\""},
        {"name = \"{requests}:fights\"; dialect = \"private_queues\"; main = \"{requests}\"; private = \"{requests}:*\";", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *warnings, *text = kept_printf("redis = { nodes = [\"a:1\"]; };\nqueues = (\n{ %s } );", rows[i].queue);
        config_free(config_case_good(text, &warnings));
        const char *advice = strstr(warnings, "share a slot: ");
        if (rows[i].advice)
            cr_expect(advice && strncmp(advice + 14, rows[i].advice, strlen(rows[i].advice)) == 0, "%s: %s", text, warnings);
        else
            cr_expect_str_empty(warnings, "%s: %s", text, warnings);
    }
}

Test(unit_config_redis, knows_which_config_would_also_work_in_a_cluster) {
    static const struct {
        const char *text;
        bool expected;
    } rows[] = {
        {Q, true},
        {REDIS("host = \"h\";"), true},
        {"lock = { scope = \"queue\"; };\n" Q, true},
        {"lock = { scope = \"group\"; };\n" Q, false},
        {REDIS("db = 1;"), false},
        {REDIS("socket = \"/s\";"), false},
        {REDIS("mode = \"single\";"), false},
        {REDIS("nodes = [\"a:1\"];"), false}, /* is one */
        {REDIS(SENTINELS), false},
        {KM(""), false},
    };
    char *warnings;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(config_drop) config_t *config = config_case_good(rows[i].text, &warnings);
        cr_expect_eq(config_may_be_cluster(config), rows[i].expected, "%s", rows[i].text);
    }
}

Test(unit_config_redis, the_mode_that_was_found_counts_where_the_settings_leave_it_open) {
    scoped(config_drop) config_t *config = config_case_good(Q, NULL);
    config->redis.found = REDIS_MODE_CLUSTER;
    cr_expect_eq(config_redis_mode(&config->redis), REDIS_MODE_CLUSTER);
    config->redis.mode = REDIS_MODE_SINGLE;
    cr_expect_eq(config_redis_mode(&config->redis), REDIS_MODE_SINGLE);
}
