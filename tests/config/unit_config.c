
#include "config_case.h"
#include "suite.h"

SUITE(unit_config, config_case_begin(), config_case_end());

static char *dump(const config_t *config) {
    buffer_t out = {0};
    config_dump(config, &out);
    return kept(out.data);
}

// Cuts every comment, and the blanks before it.
static void strip_comments(char *text) {
    char *to = text;
    for (char *at = text; *at; at++) {
        if (*at == '#') {
            while (to > text && to[-1] == ' ') to--;
            at += strcspn(at, "\n");
            if (!*at) break;
        }
        *to++ = *at;
    }
    *to = '\0';
}

#define Q "queues = ( { name = \"q\"; } );\n"

Test(unit_config, fills_in_the_defaults) {
    scoped(config_drop) config_t *config = config_case_good(Q, NULL);
    cr_expect_str_eq(config->path, config_case_path);
    cr_expect_str_eq(config->group, "default");
    cr_expect_str_eq(config->redis.host, "127.0.0.1");
    cr_expect_eq(config->redis.port, 6379);
    cr_expect_eq(config->redis.timeout_ms, 5000);
    cr_expect_eq(config->lock.ttl_ms, 5000);
    cr_expect_eq(config->lock.scope, LOCK_SCOPE_AUTO);
    cr_expect(config->lock.lead);
    cr_expect_eq(config->dispatcher.batch, 5000);
    cr_expect_eq(config->redis.slice_us, 500);
    cr_expect_eq(config->dispatcher.safety_poll_ms, 30000);
    cr_expect_eq(config->dispatcher.blind_poll_ms, 500);
    cr_expect_eq(config->monitor.scan_interval_ms, 0);
    cr_expect_eq(config->stream.retain_ms, 86400000);
    cr_expect_eq(config->stream.min_records, 10000);
    cr_expect_eq(config->stream.max_bytes, 256 << 20);
    cr_expect_eq(config->stream.min_copies, 1);
    cr_expect_str_eq(config->audit.path, "/var/lib/queue-sidecar/audit.db");
    cr_expect_eq(config->audit.retain_ms, INT64_C(30) * 86400000);
    cr_expect_eq(config->audit.retain_rows, 0);
    cr_expect_eq(config->audit.retain_bytes, 1 << 30);
    cr_expect_str_eq(config->http.listen, "127.0.0.1");
    cr_expect_eq(config->http.port, 8642);
    cr_expect_eq(config->log.level, LOG_INFO);
    cr_expect_eq(config->log.format, FORMAT_AUTO);
    cr_assert_eq(config->queue_count, 1);
    const queue_config_t *queue = &config->queues[0];
    cr_expect_eq(queue->line, 1);
    cr_expect_str_eq(config_dialect_word(queue->dialect), "list");
    cr_expect_str_eq(queue->ready, "q");
    cr_expect_str_eq(queue->delayed, "q:delayed");
    cr_expect_str_eq(queue->backup, "q:backup");
    cr_expect_str_eq(queue->errors, "q:errors");
    cr_expect_str_eq(queue->dlq, "");
    const queue_policy_t *policy = &queue->policy;
    cr_expect_eq(policy->protected_timeout_ms, 180000);
    cr_expect_eq(policy->alive_timeout_ms, 0);
    cr_expect_not(policy->alive_kills);
    cr_expect_str_eq(policy->heartbeat, "*_alive");
    cr_expect_eq(policy->retry.times, 3);
    cr_expect_eq(policy->retry.window_ms, 86400000);
    cr_expect_eq(policy->retry.backoff, BACKOFF_NONE);
    cr_expect_eq(policy->retry.delay_ms, 10000);
    cr_expect_eq(policy->retry.delay_max_ms, 3600000);
    cr_expect_float_eq(policy->retry.jitter, 0.2, 1e-12);
    cr_expect_eq(policy->ready_limit, 0);
    cr_expect_eq(policy->score_unit, SCORE_MS);
    cr_expect_str_eq(policy->id_path, "");
    cr_expect_not(policy->end_duplicates);
    cr_expect_eq(policy->max_payload, 16 << 20);
    cr_expect_eq(policy->roles, ROLE_DISPATCHER | ROLE_MONITOR);
}

Test(unit_config, accepts_values_at_the_bounds) {
    scoped(config_drop) config_t *config =
        config_case_good("redis = { port = 65535; db = 65535; timeout = \"1m\"; }; lock = { ttl = \"200ms\"; };\n"
                         "dispatcher = { batch = 5000; safety_poll = \"50ms\"; }; monitor = { scan_interval = \"1h\"; };\n"
                         "http = { port = 0; };\n"
                         "queues = ( { name = \"q\"; protected_timeout = \"50ms\"; retry_times = 0; retry_jitter = 1; } );",
                         NULL);
    cr_expect_eq(config->redis.port, 65535);
    cr_expect_eq(config->redis.timeout_ms, 60000);
    cr_expect_eq(config->lock.ttl_ms, 200);
    cr_expect_eq(config->dispatcher.batch, 5000);
    cr_expect_eq(config->dispatcher.safety_poll_ms, 50);
    cr_expect_eq(config->monitor.scan_interval_ms, 3600000);
    cr_expect_eq(config->http.port, 0);
    cr_expect_eq(config->queues[0].policy.protected_timeout_ms, 50);
    cr_expect_eq(config->queues[0].policy.retry.times, 0);
    cr_expect_float_eq(config->queues[0].policy.retry.jitter, 1.0, 0);
}

Test(unit_config, accepts_credentials_beside_a_url_without_credentials) {
    config_t *config =
        config_case_good("redis = { url = \"redis://x:1\"; username = \"me\"; password_file = \"/p\"; };\n" Q, NULL);
    cr_expect_str_eq(config->redis.host, "x");
    cr_expect_str_eq(config->redis.username, "me");
    cr_expect_str_eq(config->redis.password_file, "/p");
    config_free(config);
    config_case_expect_fault("redis = { url = \"redis://you@x:1\"; username = \"me\"; };\n" Q,
                             "F:1: `redis.username` and `redis.url` are both set: remove one of them\n");
}

Test(unit_config, a_queue_falls_back_to_defaults_before_or_behind_it) {
    scoped(config_drop) config_t *config = config_case_good(
        "queues = ( { name = \"a\"; protected_timeout = \"30s\"; ready = \"in\"; retry_jitter = 0; },\n"
        "           { name = \"b\"; roles = ( \"monitor\" ); heartbeat = \"off\"; hide = []; } );\n"
        "defaults = { protected_timeout = \"1m\"; retry_jitter = 0.5; score_unit = \"s\"; id_path = \"/id\"; hide = [\"/a\", "
        "\"/b/0\"]; };\n",
        NULL);
    cr_assert_eq(config->queue_count, 2);
    const queue_config_t *a = &config->queues[0], *b = &config->queues[1];
    cr_expect_eq(a->policy.protected_timeout_ms, 30000);
    cr_expect_eq(b->policy.protected_timeout_ms, 60000);
    cr_expect_float_eq(a->policy.retry.jitter, 0.0, 0);
    cr_expect_float_eq(b->policy.retry.jitter, 0.5, 0);
    cr_expect_eq(a->policy.score_unit, SCORE_S);
    cr_expect_str_eq(b->policy.id_path, "/id");
    cr_assert(a->policy.hide.count == 2 && b->policy.hide.count == 0);
    cr_expect_str_eq(a->policy.hide.items[1], "/b/0");
    cr_expect(config->all_hidden.count == 2 && strcmp(config->all_hidden.items[1], "/b/0") == 0);
    cr_expect_eq(a->policy.roles, ROLE_DISPATCHER | ROLE_MONITOR);
    cr_expect_eq(b->policy.roles, ROLE_MONITOR);
    cr_expect_str_eq(a->ready, "in");
    cr_expect_str_eq(a->delayed, "a:delayed");
    cr_expect_eq(b->line, 2);
}

Test(unit_config, the_environment_overrides_the_file) {
    setenv("QUEUE_SIDECAR_GROUP", "from-env", 1);
    setenv("QUEUE_SIDECAR_REDIS_PORT", "7000", 1);
    setenv("QUEUE_SIDECAR_LOCK_TTL", "3s", 1);
    setenv("QUEUE_SIDECAR_TEST_ANYTHING", "x", 1);
    setenv("QUEUE_SIDECAR_CONFIG", "/nowhere", 1);
    config_t *config = config_case_good("group = \"from-file\"; redis = { port = 6380; host = \"file\"; };\n" Q, NULL);
    cr_expect_str_eq(config->group, "from-env");
    cr_expect_eq(config->redis.port, 7000);
    cr_expect_str_eq(config->redis.host, "file");
    cr_expect_eq(config->lock.ttl_ms, 3000);
    config_free(config);
    setenv("QUEUE_SIDECAR_REDIS_PASSWORD", "word \r\n", 1); /* as people make it from a file */
    config = config_case_good(Q, NULL);
    cr_expect_str_eq(config->redis.password, "word ");
    config_free(config);
    unsetenv("QUEUE_SIDECAR_REDIS_PASSWORD");
    setenv("QUEUE_SIDECAR_REDIS_PORT", "x", 1);
    setenv("QUEUE_SIDECAR_LOCK_TTL", "5", 1);
    config_case_expect_fault("redis = { port = 0; };\n" Q,
                             "F:1: `redis.port` is 0, but must be an integer from 1 to 65535\n"
                             "QUEUE_SIDECAR_REDIS_PORT is \"x\", but must be an integer from 1 to 65535\n"
                             "QUEUE_SIDECAR_LOCK_TTL is \"5\" without a unit (ms, s, m, h or d; such as "
                             "\"5s\"), but must be a duration from \"200ms\" to \"10m\"\n");
    config_case_forget_environment();
    unsetenv("QUEUE_SIDECAR_TEST_ANYTHING");
    unsetenv("QUEUE_SIDECAR_CONFIG");
}

Test(unit_config, warns_of_unknown_variables) {
    char *warnings;
    setenv("QUEUE_SIDECAR_REDIS_HOTS", "x", 1);
    config_free(config_case_good(Q, &warnings));
    cr_expect_str_eq(warnings, "unknown variable QUEUE_SIDECAR_REDIS_HOTS: did you mean QUEUE_SIDECAR_REDIS_HOST?\n");
    unsetenv("QUEUE_SIDECAR_REDIS_HOTS");
    setenv("QUEUE_SIDECAR_SERVICE_ACCOUNT_THING", "x", 1);
    config_free(config_case_good(Q, &warnings));
    cr_expect_str_eq(warnings, "unknown variable QUEUE_SIDECAR_SERVICE_ACCOUNT_THING\n");
    unsetenv("QUEUE_SIDECAR_SERVICE_ACCOUNT_THING");
    setenv("QUEUE_SIDECAR_REDIS_PORT", "tcp://10.0.0.7:6379", 1);
    config_t *config = config_case_good(Q, &warnings);
    cr_expect_eq(config->redis.port, 6379);
    cr_expect_str_eq(
        warnings,
        "QUEUE_SIDECAR_REDIS_PORT is ignored, as it is the address of a Kubernetes service: set enableServiceLinks: false\n");
    config_free(config);
    config_case_forget_environment();
}

#define USER_ALONE "F:1: the URL of Redis has a user and no password: if the user is a password, write :PASSWORD@\n"

typedef struct url_row {
    const char *url, *host, *socket, *username, *password;
    int64_t port, db;
} url_row_t;

Test(unit_config, splits_a_url_into_its_parts) {
    static const url_row_t rows[] = {
        {"redis://cache", "cache", "", "", "", 6379, 0},
        {"redis://cache/", "cache", "", "", "", 6379, 0},
        {"redis://cache:7000/3", "cache", "", "", "", 7000, 3},
        {"redis://[::1]:7000", "::1", "", "", "", 7000, 0},
        {"redis://[fe80::1]", "fe80::1", "", "", "", 6379, 0},
        {"redis://:secret@cache", "cache", "", "", "secret", 6379, 0},
        {"redis://me:p%40s%3As@cache:1/15", "cache", "", "me", "p@s:s", 1, 15},
        {"redis://me@cache", "cache", "", "me", "", 6379, 0},
        {"redis://a:b@c@cache", "cache", "", "a", "b@c", 6379, 0},
        {"unix:///run/redis.sock", "127.0.0.1", "/run/redis.sock", "", "", 6379, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const url_row_t *row = &rows[i];
        char *text = kept_printf("redis = { url = \"%s\"; };\n" Q, row->url);
        char *warnings;
        scoped(config_drop) config_t *config = config_case_good(text, &warnings);
        cr_expect_str_eq(config->redis.url, "");
        cr_expect_str_eq(config->redis.host, row->host, "%s", row->url);
        cr_expect_eq(config->redis.port, row->port, "%s", row->url);
        cr_expect_str_eq(config->redis.socket, row->socket, "%s", row->url);
        cr_expect_eq(config->redis.db, row->db, "%s", row->url);
        cr_expect_str_eq(config->redis.username, row->username, "%s", row->url);
        cr_expect_str_eq(config->redis.password, row->password, "%s", row->url);
        cr_expect_str_eq(warnings, *row->password   ? "F:1: `redis`: inline secret: use password_file\n"
                                   : *row->username ? USER_ALONE
                                                    : "");
    }
}

#define MUST                                                                                                                     \
    "F:1: `redis.url` must be redis://[user][:password]@host:port/db, rediss://... for TLS, or unix:///path, with %XX for "      \
    "special characters\n"

#define BARE(character, escape)                                                                                                  \
    "F:1: `redis.url` has a bare `" character "` before its `@`: in a user and a password write it as " escape "\n"

Test(unit_config, refuses_bad_urls_without_showing_them) {
    static const char *const bad[] = {"http://x",     "redis://",        "redis://:6379",     "unix://run/x",   "redis://a:%zz@x",
                                      "redis://[::1", "redis://x/1?a=b", "redis://a:%00@x/1", "redis://[::1]x", "localhost:6379"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = kept_printf("redis = { url = \"%s\"; };\n" Q, bad[i]);
        config_case_expect_fault(text, MUST);
    }
    static const config_case_row_t rows[] = {
        {"redis = { url = \"redis://x:70000\"; };\n" Q,
         "F:1: `redis.url`: its port is not right, but must be an integer from 1 to 65535\n"},
        {"redis = { url = \"redis://x/a\"; };\n" Q,
         "F:1: `redis.url`: its db is not right, but must be an integer from 0 to 65535\n"},
        {"redis = { url = \"redis://x\";\n tls = true; };\n" Q,
         "F:2: `redis.tls` and `redis.url` are both set: begin the URL with rediss:// for TLS, and remove `redis.tls`\n"},
        {"redis = { url = \"redis://x\";\n port = 1;\n host = \"y\"; };\n" Q,
         "F:2: `redis.port` and `redis.url` are both set: remove one of them\n"
         "F:3: `redis.host` and `redis.url` are both set: remove one of them\n"},
        {"redis = { url = \"rediss://a:%zz@x\"; tls_ca_file = \"/a\"; tls_cert_file = \"/b\"; tls_key_file = \"/c\"; };\n" Q,
         MUST},
        {"redis = { url = \"redis://:a/b@x:1/0\"; };\n" Q, BARE("/", "%2F")},
        {"redis = { url = \"redis://u:1/b@x:1/0\"; };\n" Q, BARE("/", "%2F")},
        {"redis = { url = \"rediss://u:a?b@x\"; };\n" Q, BARE("?", "%3F")},
        {"redis = { url = \"redis://:#@x\"; };\n" Q, BARE("#", "%23")},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config, a_url_of_the_environment_replaces_the_file) {
    setenv("QUEUE_SIDECAR_REDIS_URL", "redis://env:7000", 1);
    config_t *config = config_case_good("redis = { host = \"file\"; socket = \"/s\"; db = 4; username = \"kept\"; };\n" Q, NULL);
    cr_expect_str_eq(config->redis.host, "env");
    cr_expect_eq(config->redis.port, 7000);
    cr_expect_str_eq(config->redis.socket, "");
    cr_expect_eq(config->redis.db, 0);
    cr_expect_str_eq(config->redis.username, "kept");
    config_free(config);
    setenv("QUEUE_SIDECAR_REDIS_HOST", "y", 1);
    config_case_expect_fault(Q, "QUEUE_SIDECAR_REDIS_HOST and QUEUE_SIDECAR_REDIS_URL are both set: remove one of them\n");
    unsetenv("QUEUE_SIDECAR_REDIS_URL");
    config = config_case_good("redis = { url = \"redis://file:7001\"; };\n" Q, NULL);
    cr_expect_str_eq(config->redis.host, "y");
    cr_expect_eq(config->redis.port, 7001);
    config_free(config);
    config_case_forget_environment();
}

Test(unit_config, settings_of_page_and_api) {
    config_t *config = config_case_good(Q, NULL);
    cr_expect(config->http.page && config->http.hosts.count == 0);
    cr_expect_str_empty(config->http.token_file);
    cr_expect_str_empty(config->http.user_header);
    config_free(config);
    setenv("QUEUE_SIDECAR_HTTP_TOKEN_FILE", "/t", 1);
    config = config_case_good("http = { page = false; hosts = [\"q.example\"]; user_header = \"X-User\"; };\n" Q, NULL);
    cr_expect(!config->http.page && config->http.hosts.count == 1);
    cr_expect_str_eq(config->http.token_file, "/t");
    cr_expect_str_eq(config->http.hosts.items[0], "q.example");
    cr_expect_str_eq(config->http.user_header, "X-User");
    config_free(config);
    config_case_forget_environment();
}

/* The API's thread reads a config that a reload has replaced. */
Test(unit_config, shared_config_lives_until_the_last_sharer_frees_it) {
    config_t *config = config_case_good(Q, NULL), *shared = config_share(config);
    config_free(config);
    cr_expect_str_eq(shared->queues[0].name, "q");
    config_free(shared);
}

Test(unit_config, warns_of_secrets_in_the_file) {
    char *warnings;
    config_free(config_case_good("redis = {\n password = \"hunter2\"; password_file = \"/p\"; };\n" Q, &warnings));
    cr_expect_str_eq(warnings, "F:2: `redis`: inline secret: use password_file\n"
                               "F:2: `redis`: password is ignored, as password_file is set: remove one of them\n");
    setenv("QUEUE_SIDECAR_REDIS_PASSWORD", "hunter2", 1);
    config_t *config = config_case_good(Q, NULL);
    cr_expect_str_eq(config->redis.password, "hunter2");
    config_free(config);
    config_case_forget_environment();
    config_free(
        config_case_good("queues = ( { name = \"q\"; roles = [ \"monitor\" ]; retry_backoff = \"fixed\"; } );", &warnings));
    cr_expect_str_eq(warnings, "F:1: queue `q`: retries wait in `q:delayed`, but this queue lacks the role dispatcher: add it, "
                               "or let another sidecar promote them\n");
    static const char limit[] = "F:1: queue `q`: `retry_delay_max` is 1h, less than `retry_delay`, 2h, and limits it only with "
                                "`retry_backoff` \"exponential\": set it higher, or remove it\n";
    config_free(config_case_good("queues = ( { name = \"q\"; retry_delay = \"2h\"; retry_delay_max = \"1h\"; } );", &warnings));
    cr_expect_str_eq(warnings, limit);
    config_free(config_case_good("defaults = { retry_delay_max = \"1h\"; retry_backoff = \"fixed\"; }; "
                                 "queues = ( { name = \"q\"; retry_delay = \"2h\"; } );",
                                 &warnings));
    cr_expect_str_eq(warnings, limit);
    config_free(config_case_good("queues = ( { name = \"q\"; retry_delay = \"2h\"; retry_backoff = \"fixed\"; } );", &warnings));
    cr_expect_str_eq(warnings, "");
}

Test(unit_config, knows_what_any_queue_hides) {
    scoped(config_drop) config_t *config =
        config_case_good("defaults = { heartbeat = \"off\"; id_path = \"/id\"; hide = [\"/a\"]; };\n"
                         "queues = ( { name = \"x\"; hide = [\"/b\", \"/a\"]; }, { name = \"y\"; hide = [\"/c\"]; } );",
                         NULL);
    cr_assert_eq(config->all_hidden.count, 3);
    for (size_t i = 0; i < 3; i++) cr_expect_str_eq(config->all_hidden.items[i], ((const char *[]){"/a", "/b", "/c"})[i]);
}

Test(unit_config, warns_once_of_ids_that_would_tell_hidden_values) {
    char *warnings;
    config_free(config_case_good(
        "defaults = { heartbeat = \"off\"; hide = [\"/pin\"]; };\nqueues = ( { name = \"a\"; id_path = \"/id\"; },\n"
        "{ name = \"b\"; }, { name = \"c\"; } );",
        &warnings));
    cr_expect_str_eq(warnings,
                     "F:3: queue `b` and 1 more: `hide` without `id_path`: the id of a job is its SHA-256, by which somebody "
                     "could find hidden values, so page and API do not show it, and find no job by it. Set `id_path`\n");
    config_free(config_case_good("queues = ( { name = \"b\"; dialect = \"bull\"; hide = [\"/pin\"]; } );", NULL));
}

Test(unit_config, a_dump_shows_no_password_and_sets_none) {
    char *warnings;
    scoped(config_drop) config_t *first =
        config_case_good("redis = { password = \"hunter2\"; }; queues = ( { name = \"a\"; } );", &warnings);
    char *text = dump(first);
    cr_expect_null(strstr(text, "hunter2"));
    cr_expect_not_null(strstr(text, "# password"));
    scoped(config_drop) config_t *second = config_case_good(text, &warnings);
    cr_expect_str_eq(second->redis.password, "");
}

Test(unit_config, a_dump_loads_again) {
    setenv("QUEUE_SIDECAR_REDIS_PORT", "7000", 1);
    char *warnings;
    scoped(config_drop) config_t *first = config_case_good(
        "redis = { username = \"a\\\"b\\\\c\"; };\n"
        "audit = { retain_rows = 5000000000L; retain_bytes = 0; }; log = { level = \"debug\"; };\n"
        "monitor = { scan_interval = \"1500ms\"; }; stream = { retain = \"48h\"; };\n"
        "defaults = { alive_timeout = \"90m\"; retry_jitter = 0.1; heartbeat = \"off\"; };\n"
        "queues = ( { name = \"a\"; ready = \"tab\\t\\x01 k\"; retry_backoff = \"exponential\"; retry_jitter = 1; },\n"
        "           { name = \"b\"; roles = [\"monitor\"]; max_payload = 1025; score_unit = \"s\"; } );\n",
        &warnings);
    config_case_forget_environment();
    char *text = dump(first);
    cr_expect_null(strstr(text, "url"));
    scoped(config_drop) config_t *second = config_case_good(text, &warnings);
    char *again = dump(second);
    cr_expect_str_eq(second->redis.username, "a\"b\\c");
    cr_expect_str_eq(second->queues[0].ready, "tab\t\x01 k");
    cr_expect_eq(second->audit.retain_rows, INT64_C(5000000000));
    cr_expect_eq(second->queues[1].policy.max_payload, 1025);
    cr_expect_eq(second->queues[1].policy.alive_timeout_ms, 5400000);
    strip_comments(text);
    strip_comments(again);
    cr_expect_str_eq(text, again);
}

Test(unit_config, dumps_where_each_value_came_from) {
    setenv("QUEUE_SIDECAR_REDIS_PORT", "7000", 1);
    config_t *config = config_case_good("lock = { ttl = \"5s\"; }; defaults = { retry_times = 5; };\n"
                                        "queues = ( { name = \"q\"; protected_timeout = \"1m\"; } );\n",
                                        NULL);
    char *text = dump(config);
    static const char *const lines[] = {
        "\ngroup   = \"default\"; # default\n",
        "\nhistory = \"minute\";  # default\n",
        "\n    host                   = \"127.0.0.1\"; # default\n",
        "\n    port                   = 7000;        # environment\n",
        "\n    sentinels              = [];          # default\n",
        "\n    ttl   = \"5s\";   # file\n",
        "\n    scope = \"auto\"; # default\n",
        "\n    retry_times       = 5;                         # file\n",
        "\n        name              = \"q\";                       # file\n",
        "\n        backup            = \"q:backup\";                # default\n",
        "\n        protected_timeout = \"1m\";                      # file\n",
        "\n        retry_times       = 5;                         # defaults\n",
        "\n        roles             = [\"dispatcher\", \"monitor\"]; # default\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect_not_null(strstr(text, lines[i]), "%s not in\n%s", lines[i], text);
    config_free(config);
    config_case_forget_environment();
}

Test(unit_config, lists_every_key_in_eight_columns) {
    scoped(buffer_free) buffer_t out = {0};
    config_list_keys(dialect_settings, &out);
    size_t rows = 0;
    for (const char *line = buffer_text(&out); *line; line = strchr(line, '\n') + 1) {
        size_t tabs = 0;
        for (const char *at = line; *at != '\n'; at++) tabs += *at == '\t';
        cr_expect_eq(tabs, 7);
        rows++;
    }
    cr_expect_eq(rows, 106);
    cr_expect_not_null(strstr(buffer_text(&out), "\nlock\tttl\tduration\t5s\ta duration from \"200ms\" to \"10m\"\trestart\t"));
    cr_expect_not_null(strstr(buffer_text(&out), "\nqueue-only\tbackup\tkey\t<name>:backup\t"));
}

// Tests run in the root of the repository.
Test(unit_config, loads_the_shipped_samples) {
    static const char *const samples[] = {"conf/queue-sidecar.cfg",
                                          "conf/minimal.cfg"}; // unit_config_samples tests the other samples
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        scoped(buffer_free) buffer_t messages = {0};
        scoped(config_drop) config_t *config = config_case_read(samples[i], &messages);
        cr_expect_not_null(config, "%s", buffer_text(&messages));
        cr_expect_str_eq(buffer_text(&messages), "");
        if (config) cr_expect_str_eq(config->queues[0].name, "email");
    }
}

static bool names_key(const char *sample, const char *name) {
    size_t len = strlen(name);
    for (const char *at = sample; (at = strstr(at, name)) != NULL; at += len) {
        const char *end = at + len;
        bool begins = at == sample || strchr(" \n{", at[-1]);
        if (begins && end[strspn(end, " ")] == '=') return true;
    }
    return false;
}

Test(unit_config, teaches_every_key_in_the_sample) {
    scoped(buffer_free) buffer_t keys = {0}, sample = {0};
    char chunk[4096];
    FILE *file = fopen("conf/queue-sidecar.cfg", "r");
    cr_assert_not_null(file);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;) buffer_add(&sample, chunk, got);
    fclose(file);
    config_list_keys(dialect_settings, &keys);
    for (char *line = keys.data; *line; line = strchr(line, '\n') + 1) {
        char section[32], name[32];
        size_t len = strcspn(line, "\t");
        snprintf(section, sizeof section, "%.*s", (int)len, line);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(line + len + 1, "\t"), line + len + 1);
        cr_expect(names_key(buffer_text(&sample), name), "%s.%s", section, name);
    }
}

// In the sample every key except names has its default value.
Test(unit_config, shows_the_defaults_in_the_sample) {
    scoped(buffer_free) buffer_t messages = {0};
    scoped(config_drop) config_t *sample = config_case_read("conf/queue-sidecar.cfg", &messages);
    scoped(config_drop) config_t *plain = config_case_good(
        "group = \"my-application\";\n"
        "queues = ( { name = \"email\"; heartbeat = \"email:*_alive\"; protected_timeout = \"30s\"; id_path = \"/id\"; },\n"
        "{ name = \"reminders\"; score_unit = \"s\"; roles = [\"dispatcher\"]; } );",
        NULL);
    cr_assert_not_null(sample);
    char *left = dump(sample), *right = dump(plain);
    strip_comments(left);
    strip_comments(right);
    cr_expect_str_eq(left, right);
}
