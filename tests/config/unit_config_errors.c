#include <sys/stat.h>

#include "config_case.h"
#include "libconfig_version.h"
#include "suite.h"

SUITE(unit_config_errors, config_case_begin(), config_case_end());

#define Q "queues = ( { name = \"q\"; } );\n"

static const config_case_row_t value_faults[] = {
    {"group = 5;\n" Q,
     "F:1: `group` is 5, but must be text of 1 to 128 bytes without spaces and control characters, and not begin with "
     "\"sidecar:\"\n"},
    {"group = \"has space\";\n" Q, "F:1: `group` is \"has space\", but must be text of 1 to 128 bytes without spaces and control "
                                   "characters, and not begin with "
                                   "\"sidecar:\"\n"},
    {"group = \"\";\n" Q,
     "F:1: `group` is \"\", but must be text of 1 to 128 bytes without spaces and control characters, and not begin with "
     "\"sidecar:\"\n"},
    {"redis = { port = 70000; };\n" Q, "F:1: `redis.port` is 70000, but must be an integer from 1 to 65535\n"},
    {"redis = {\n port = \"6379\"; };\n" Q, "F:2: `redis.port` is \"6379\", but must be an integer from 1 to 65535\n"},
    {"redis = { port = 1.5; };\n" Q, "F:1: `redis.port` is 1.5, but must be an integer from 1 to 65535\n"},
    {"redis = { host = { a = 1; }; };\n" Q,
     "F:1: `redis.host` is a group, but must be text of 1 to 255 bytes without control characters, "
     ":// and @, as a URL belongs in redis.url\n"},
    {"redis = { password = 7; };\n" Q,
     "F:1: `redis.password` is not right, but must be text of 0 to 4096 bytes without control characters\n"},
    {"redis = { timeout = 5; };\n" Q, "F:1: `redis.timeout` is 5 without a unit (ms, s, m, h or d; such as \"5s\"), but must "
                                      "be a duration from \"100ms\" to \"1m\"\n"},
    {"redis = { timeout = \"90\"; };\n" Q, "F:1: `redis.timeout` is \"90\" without a unit (ms, s, m, h or d; such as "
                                           "\"90s\"), but must be a duration from \"100ms\" to "
                                           "\"1m\"\n"},
    {"lock = { ttl = \"199ms\"; };\n" Q, "F:1: `lock.ttl` is \"199ms\", but must be a duration from \"200ms\" to \"10m\"\n"},
    {"lock = { ttl = \"11m\"; };\n" Q, "F:1: `lock.ttl` is \"11m\", but must be a duration from \"200ms\" to \"10m\"\n"},
    {"lock = { scope = \"quue\"; };\n" Q, "F:1: `lock.scope` is \"quue\", but must be one of \"auto\", \"group\", \"queue\"\n"},
    {"dispatcher = { batch = 0; };\n" Q, "F:1: `dispatcher.batch` is 0, but must be an integer from 1 to 5000\n"},
    {"dispatcher = { batch = 5001; };\n" Q, "F:1: `dispatcher.batch` is 5001, but must be an integer from 1 to 5000\n"},
    {"dispatcher = { safety_poll = \"1h30m\"; };\n" Q,
     "F:1: `dispatcher.safety_poll` is \"1h30m\", but must be a duration from \"50ms\" to \"24h\"; write a whole number and its "
     "unit: ms, s, m, h or d\n"},
    {"monitor = { scan_interval = \"2h\"; };\n" Q,
     "F:1: `monitor.scan_interval` is \"2h\", but must be a duration from \"50ms\" to \"1h\", or \"auto\"\n"},
    {"audit = { retain_bytes = 1; };\n" Q,
     "F:1: `audit.retain_bytes` is 1, but must be a size from \"1MiB\" to \"16TiB\", or 0\n"},
    {"stream = 5;\n" Q, "F:1: `stream` must be a group: stream = { ... };\n"},
    {"defaults = { retry_jitter = 1.1; };\n" Q, "F:1: `defaults.retry_jitter` is 1.1, but must be a number from 0 to 1\n"},
    {"defaults = { max_payload = \"16MB\"; };\n" Q, "F:1: `defaults.max_payload` is \"16MB\", but must be a size from \"1KiB\" "
                                                    "to \"512MiB\"; write a whole number and its unit: KiB, MiB, GiB or TiB\n"},
    {"defaults = { heartbeat = \"alive\"; };\n" Q, "F:1: `defaults.heartbeat` is \"alive\", but must be \"off\", or the name "
                                                   "of a Redis key with one * for the job id, such as "
                                                   "\"email:*_alive\"; for stream also \"consumer\"\n"},
    {"defaults = { heartbeat = \"*:*\"; };\n" Q, "F:1: `defaults.heartbeat` is \"*:*\", but must be \"off\", or the name of "
                                                 "a Redis key with one * for the job id, such as "
                                                 "\"email:*_alive\"; for stream also \"consumer\"\n"},
    {"defaults = { id_path = \"id\"; };\n" Q,
     "F:1: `defaults.id_path` is \"id\", but must be \"\" or a JSON pointer, such as \"/meta/id\"\n"},
    {"defaults = { hide = [\"/a\", \"card\"]; };\n" Q,
     "F:1: `defaults.hide` is [\"/a\", \"card\"], but must be a list of 0 to 16 JSON pointers, each of 1 to 256 bytes, such as "
     "[\"/card/number\"]\n"},
    {"defaults = { hide = \"/a\"; };\n" Q,
     "F:1: `defaults.hide` is \"/a\", but must be a list of 0 to 16 JSON pointers, each of 1 to 256 bytes, such as "
     "[\"/card/number\"]\n"},
    {"defaults = { hide = [\"/a~\"]; };\n" Q,
     "F:1: `defaults.hide` is [\"/a~\"], but must be a list of 0 to 16 JSON pointers, each of 1 to 256 bytes, such as "
     "[\"/card/number\"]\n"},
    {"defaults = { hide = [\"\"]; };\n" Q,
     "F:1: `defaults.hide` is [\"\"], but must be a list of 0 to 16 JSON pointers, each of 1 to 256 bytes, such as "
     "[\"/card/number\"]\n"},
    {"http = { hosts = [\"10.0.0.1\", \"::1\", \"https://q.example\"]; };\n" Q,
     "F:1: `http.hosts` is [\"10.0.0.1\", \"::1\", a text that may hold a password], but must be a list of 0 to 32 host names "
     "without scheme, port and path, such as "
     "[\"queues.example.com\"]\n"},
    {"http = { hosts = [\"10.0.0.1\", \"::1\", \"q.example:443\"]; };\n" Q,
     "F:1: `http.hosts` is [\"10.0.0.1\", \"::1\", \"q.example:443\"], but must be a list of 0 to 32 host names without scheme, "
     "port and path, such as "
     "[\"queues.example.com\"]\n"},
    {"http = { hosts = [\"10.0.0.1\", \"::1\", \"q.example/x\"]; };\n" Q,
     "F:1: `http.hosts` is [\"10.0.0.1\", \"::1\", \"q.example/x\"], but must be a list of 0 to 32 host names without scheme, "
     "port and path, such as "
     "[\"queues.example.com\"]\n"},
    {"http = { hosts = [\"10.0.0.1\", \"::1\", \"*.example\"]; };\n" Q,
     "F:1: `http.hosts` is [\"10.0.0.1\", \"::1\", \"*.example\"], but must be a list of 0 to 32 host names without scheme, port "
     "and path, such as "
     "[\"queues.example.com\"]\n"},
    {"http = { hosts = [\"10.0.0.1\", \"::1\", \"[::1]\"]; };\n" Q,
     "F:1: `http.hosts` is [\"10.0.0.1\", \"::1\", \"[::1]\"], but must be a list of 0 to 32 host names without scheme, port and "
     "path, such as "
     "[\"queues.example.com\"]\n"},
    {"http = { hosts = [\"10.0.0.1\", \"::1\", \"a b\"]; };\n" Q,
     "F:1: `http.hosts` is [\"10.0.0.1\", \"::1\", \"a b\"], but must be a list of 0 to 32 host names without scheme, port and "
     "path, such as "
     "[\"queues.example.com\"]\n"},
    {"http = { user_header = \"X User\"; };\n" Q,
     "F:1: `http.user_header` is \"X User\", but must be the name of a header, 0 to 64 letters, digits and -, such as "
     "\"X-Forwarded-User\", and none that holds a secret\n"},
    {"http = { user_header = \"X-User:\"; };\n" Q,
     "F:1: `http.user_header` is \"X-User:\", but must be the name of a header, 0 to 64 letters, digits and -, such as "
     "\"X-Forwarded-User\", and none that holds a secret\n"},
    {"http = { user_header = \"Authorization\"; };\n" Q,
     "F:1: `http.user_header` is \"Authorization\", but must be the name of a header, 0 to 64 letters, digits and -, such as "
     "\"X-Forwarded-User\", and none that holds a secret\n"},
    {"http = { user_header = \"cookie\"; };\n" Q,
     "F:1: `http.user_header` is \"cookie\", but must be the name of a header, 0 to 64 letters, digits and -, such as "
     "\"X-Forwarded-User\", and none that holds a secret\n"},
    {"queues = ( { name = \"q\"; id_path = \"/meta/id\"; type_path = \"/m\"; hide = [\"/met\", \"/meta\", \"/meta/id/x\"]; } "
     ");\n",
     "F:1: queue `q`: `hide` has \"/meta\", but `id_path` takes the id of a job from there, which everybody sees\n"},
    {"defaults = { hide = [\"/type\"]; };\nqueues = ( { name = \"q\"; type_path = \"/type\"; } );\n",
     "F:2: queue `q`: `hide` has \"/type\", but `type_path` takes the type of a job from there, which everybody sees\n"},
    {"queues = ( { name = \"q\"; trace_path = \"/meta/t\"; hide = [\"/meta\"]; } );\n",
     "F:1: queue `q`: `hide` has \"/meta\", but `trace_path` takes the traceparent of a job from there, which everybody sees\n"},
    {"defaults = { on_failure = \"sidecar:told\"; };\n" Q,
     "F:1: `defaults.on_failure` is \"sidecar:told\", but must be the name of a Redis key, 0 to 1024 bytes, and not begin with "
     "\"sidecar:\"\n"},
    {"defaults = { id_path = \"/a~2\"; };\n" Q,
     "F:1: `defaults.id_path` is \"/a~2\", but must be \"\" or a JSON pointer, such as \"/meta/id\"\n"},
    {"defaults = { roles = [ ]; };\n" Q,
     "F:1: `defaults.roles` is [], but must be [\"dispatcher\"], [\"monitor\"] or [\"dispatcher\", \"monitor\"]\n"},
    {"defaults = { roles = [ \"monitr\" ]; };\n" Q,
     "F:1: `defaults.roles` is [\"monitr\"], but must be [\"dispatcher\"], [\"monitor\"] or [\"dispatcher\", \"monitor\"]\n"},
    {"defaults = { roles = \"monitor\"; };\n" Q,
     "F:1: `defaults.roles` is \"monitor\", but must be [\"dispatcher\"], [\"monitor\"] or [\"dispatcher\", \"monitor\"]\n"},
    {"queues = ( { name = \"q\"; alive_kills = 1; } );", "F:1: queue `q`: `alive_kills` is 1, but must be true or false\n"},
    {"queues = ( { name = \"q\";\n protected_timeout = \"49ms\"; } );",
     "F:2: queue `q`: `protected_timeout` is \"49ms\", but must be a duration from \"50ms\" to \"30d\"\n"},
    {"queues = ( { name = \"q\"; ready = \"sidecar:q\"; } );",
     "F:1: queue `q`: `ready` is \"sidecar:q\", but must be the name of a Redis key, 1 to 1024 bytes, and not begin with "
     "\"sidecar:\"\n"},
    {"http = { listen = \"127.0.0.1:8642\"; };\n" Q,
     "F:1: `http.listen` is \"127.0.0.1:8642\", but must be an address without port and brackets: the port is `http.port`\n"},
    {"http = {\n listen = \"[::1]\"; };\n" Q,
     "F:2: `http.listen` is \"[::1]\", but must be an address without port and brackets: the port is `http.port`\n"},
    {"http = { listen = 8642; };\n" Q,
     "F:1: `http.listen` is 8642, but must be text of 1 to 255 bytes without control characters\n"},
    {"queues = ( { name = \"sidecar:q\"; } );",
     "F:1: queue 1: `name` is \"sidecar:q\", but must be text of 1 to 128 bytes without "
     "spaces and control characters, and not begin with "
     "\"sidecar:\"\n"},
};

Test(unit_config_errors, explains_a_wrong_value) {
    config_case_expect_faults(value_faults, sizeof value_faults / sizeof *value_faults);
}

Test(unit_config_errors, reads_a_refused_config_with_an_unknown_key) {
    static const char text[] = "group = \"g\"; frobnicate = 1; http = { port = 99; };";
    config_case_write(config_case_path, text, sizeof text - 1);
    scoped(config_drop) config_t *config = config_load_refused(config_case_path, dialect_settings);
    cr_assert_str_eq(config->group, "g");
    cr_assert_eq(config->http.port, 99);
}

Test(unit_config_errors, names_the_dialects) {
    config_case_expect_fault("queues = ( { name = \"q\"; dialect = \"lst\"; } );",
                             "F:1: queue `q`: `dialect` is \"lst\", but must be one of \"list\", \"kmqueue\", \"delayed_queue\", "
                             "\"bull\", \"bullmq\", \"private_queues\", \"stream\", \"sidekiq\"\n");
}

Test(unit_config_errors, suggests_a_known_key_for_an_unknown_one) {
    static const config_case_row_t rows[] = {
        {"grup = \"x\";\n" Q, "F:1: unknown key `grup`: did you mean `group`?\n"},
        {"\nlocks = { ttl = \"5s\"; };\n" Q, "F:2: unknown key `locks`: did you mean `lock`?\n"},
        {"redis = { hots = \"x\"; };\n" Q, "F:1: `redis`: unknown key `hots`: did you mean `host`?\n"},
        {"ttl = \"5s\";\n" Q, "F:1: unknown key `ttl`: it belongs in `lock`\n"},
        {"retry_times = 1;\n" Q, "F:1: unknown key `retry_times`: it belongs in `defaults` or in a queue\n"},
        {"defaults = { name = \"q\"; };\n" Q, "F:1: `defaults`: unknown key `name`: it belongs in a queue\n"},
        {"queues = ( { name = \"q\"; group = \"g\"; } );",
         "F:1: queue `q`: `group` is for stream: remove it, or set `dialect`\n"},
        {"queues = ( { name = \"q\"; protected_timeuot = \"3m\"; } );",
         "F:1: queue `q`: unknown key `protected_timeuot`: did you mean `protected_timeout`?\n"},
        {"lock = { zzzzzz = 1; };\n" Q, "F:1: `lock`: unknown key `zzzzzz`: `queue-sidecar help keys` lists all\n"},
        {"defaults = { timeout = \"3s\"; };\n" Q, "F:1: `defaults`: unknown key `timeout`: it belongs in `redis`\n"},
        {"queues = ( { name = \"q\"; timeout = \"3s\"; } );",
         "F:1: queue `q`: unknown key `timeout`: `queue-sidecar help keys` lists all\n"},
        {"queues = ( { name = \"q\"; scan_interval = \"1s\"; } );", // not `stalled_interval`, which is near
         "F:1: queue `q`: unknown key `scan_interval`: it belongs in `monitor`\n"},
        {"queues = ( { nam = \"q\"; } );", "F:1: queue 1: unknown key `nam`: did you mean `name`?\n"
                                           "F:1: queue 1: `name` is missing\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_errors, reports_conflicts_between_queues) {
    static const config_case_row_t rows[] = {
        {"", "F: there are no queues: name at least one, queues = ( { name = \"email\"; } );\n"},
        {"\nqueues = ( );", "F:2: there are no queues: name at least one, queues = ( { name = \"email\"; } );\n"},
        {"queues = { };", "F:1: `queues` must be a list of groups: queues = ( { name = \"email\"; } );\n"},
        {"queues = ( { name = \"q\"; },\n 5 );", "F:2: queue 2 must be a group: { name = \"email\"; }\n"},
        {"queues = ( { name = \"q\"; },\n { name = \"q\"; },\n { name = \"r\"; ready = \"q\"; } );",
         "F:2: duplicate queue `q`: the first one is on line 1\n"
         "F:3: queues `q` and `r` share the key `q`: it is ready of `q` and ready of `r`\n"},
        {"queues = ( { name = \"q\"; },\n { name = \"q:delayed\"; } );",
         "F:2: queues `q` and `q:delayed` share the key `q:delayed`: it is delayed of `q` and ready of `q:delayed`\n"},
        {"queues = ( { name = \"q\";\n dlq = \"q:backup\"; } );",
         "F:2: queue `q`: its backup and its dlq are the same key `q:backup`\n"},
        {"queues = ( { name = \"a\"; dlq = \"dead\"; },\n { name = \"b\"; dlq = \"dead\"; } );",
         "F:2: queues `a` and `b` share the key `dead`: it is dlq of `a` and dlq of `b`\n"},
        {"queues = ( { name = \"q\"; ready = \"k\";\n errors = \"k\"; } );",
         "F:2: queue `q`: its ready and its errors are the same key `k`\n"},
        {"group = \"q\";\n" Q,
         "F:2: queue `q` has the name of its group: rename one of them, or their Redis keys are the same\n"},
        {"queues = ( { name = \"q\"; protected_timeout = \"1h\";\n retry_window = \"2h\"; } );",
         "F:2: queue `q`: `retry_window` is 2h, but must be more than 2 x (`protected_timeout` 1h + longest backoff 0) = 2h, or "
         "retries "
         "would be forgotten before they are counted\n"},
        {"defaults = { retry_window = \"1h\"; retry_backoff = \"exponential\"; };\n" Q,
         "F:2: queue `q`: `retry_window` is 1h, but must be more than 2 x (`protected_timeout` 3m + longest backoff 1h) = 126m, "
         "or "
         "retries would be forgotten before they are counted\n"},
        {"queues = ( { name = \"q\"; retry_backoff = \"fixed\"; retry_delay = \"12h\"; retry_jitter = 0; } );",
         "F:1: queue `q`: `retry_window` is 24h, but must be more than 2 x (`protected_timeout` 3m + longest backoff 12h) = "
         "1446m, or "
         "retries would be forgotten before they are counted\n"},
        // A value that is wrong by itself is not compared with others.
        {"queues = ( { name = \"q\"; alive_timeout = \"1m\"; protected_timeout = 5; } );",
         "F:1: queue `q`: `protected_timeout` is 5 without a unit (ms, s, m, h or d; such as \"5s\"), but must be a duration "
         "from \"50ms\" "
         "to \"30d\"\n"},
        {"queues = ( { name = \"q\"; alive_timeout = \"1m\"; } );",
         "F:1: queue `q`: `alive_timeout` is 1m, but must not be less than `protected_timeout`, 3m\n"},
        {"queues = ( { name = \"q\"; retry_backoff = \"exponential\"; retry_delay = \"2h\"; } );",
         "F:1: queue `q`: `retry_delay_max` is 1h, but must not be less than `retry_delay`, 2h\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_errors, ignores_conflicts_of_unused_keys) {
    static const char *const texts[] = {
        // Without the role monitor, backup and errors are not used.
        "queues = ( { name = \"a\"; roles = [\"dispatcher\"]; backup = \"x\"; errors = \"x\"; }, { name = \"x\"; } );",
        // Without the role dispatcher and without a backoff, delayed is not used.
        "queues = ( { name = \"a\"; roles = [\"monitor\"]; delayed = \"x\"; heartbeat = \"off\"; }, { name = \"x\"; } );",
        // Without the role monitor, the retry window is not used.
        "queues = ( { name = \"a\"; roles = [\"dispatcher\"]; retry_window = \"1s\"; } );",
        ("defaults = { retry_delay = \"2h\"; };\n" Q),
        "queues = ( { name = \"q\"; protected_timeout = \"1h\"; retry_window = \"7200001ms\"; } );",
        "queues = ( { name = \"q\"; alive_timeout = \"3m\"; } );",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) config_free(config_case_good(texts[i], NULL));
    config_case_expect_fault(
        "queues = ( { name = \"a\"; roles = [\"monitor\"]; retry_backoff = \"fixed\"; delayed = \"x\"; }, { name = \"x\"; } );",
        "F:1: queues `a` and `x` share the key `x`: it is delayed of `a` and ready of `x`\n");
}

#define LOOP "; the queue that takes notifications needs on_failure = \"\", or each of its failures would be a new job\n"
/* Queues share the list of on_failure. It may be the jobs of a queue that has none itself. */
Test(unit_config_errors, notifications_go_to_no_key_of_other_use) {
    static const char *const good[] = {
        "defaults = { on_failure = \"told\"; heartbeat = \"off\"; }; queues = ( { name = \"a\"; }, { name = \"b\"; } );",
        "defaults = { on_failure = \"told\"; heartbeat = \"off\"; }; "
        "queues = ( { name = \"a\"; }, { name = \"told\"; on_failure = \"\"; } );",
    };
    static const config_case_row_t rows[] = {
        {"queues = ( { name = \"told\"; on_failure = \"told\"; } );",
         "F:1: queue `told`: its ready and its on_failure are the same key `told`" LOOP},
        {"defaults = { on_failure = \"told\"; };\nqueues = ( { name = \"told\"; } );",
         "F:2: queue `told`: its ready and its on_failure are the same key `told`" LOOP},
        {"queues = ( { name = \"a\"; on_failure = \"b\"; },\n { name = \"b\"; on_failure = \"a\"; } );",
         "F:2: queues `a` and `b` share the key `a`: it is ready of `a` and on_failure of `b`" LOOP
         "F:2: queues `a` and `b` share the key `b`: it is on_failure of `a` and ready of `b`" LOOP},
        {"queues = ( { name = \"a\"; on_failure = \"b:backup\"; },\n { name = \"b\"; } );",
         "F:2: queues `a` and `b` share the key `b:backup`: it is on_failure of `a` and backup of `b`\n"},
        {"queues = ( { name = \"a\"; on_failure = \"w\"; },\n { name = \"k\"; dialect = \"kmqueue\"; queues = [\"w:safe\"]; } );",
         "F:2: queues `a` and `k` share the key `w`: it is on_failure of `a` and ready of `k`\n"},
        {"queues = ( { name = \"b\"; dialect = \"bull\";\n on_failure = \"bull:b:7\"; } );",
         "F:2: queue `b`: its key `bull:b:7` begins with `bull:b:`, which is reserved for jobs of queue `b`: choose another "
         "key\n"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) config_free(config_case_good(good[i], NULL));
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_errors, reports_all_errors_in_line_order) {
    config_case_expect_fault(
        "queues = ( { name = \"q\"; retry_times = -1; } );\nlock = { ttl = 5; };\n\ngrup = 1;\nlog = { level = \"loud\"; };",
        "F:1: queue `q`: `retry_times` is -1, but must be an integer from 0 to 1000\n"
        "F:2: `lock.ttl` is 5 without a unit (ms, s, m, h or d; such as \"5s\"), but must be a duration from \"200ms\" to "
        "\"10m\"\n"
        "F:4: unknown key `grup`: did you mean `group`?\n"
        "F:5: `log.level` is \"loud\", but must be one of \"error\", \"warn\", \"info\", \"debug\"\n");
}

Test(unit_config_errors, refuses_too_many_queues) {
    scoped(buffer_free) buffer_t text = {0};
    buffer_str(&text, "queues = (");
    for (int i = 0; i < 1001; i++) buffer_printf(&text, "%s\n{ name = \"q%d\"; }", i ? "," : "", i);
    buffer_str(&text, ");");
    config_case_expect_fault(buffer_text(&text), "F:1002: there are 1001 queues, but at most 1000 may be in one config\n");
}

Test(unit_config_errors, explains_syntax_errors) {
    static const config_case_row_t rows[] = {
        {"lock = { ttl = 5s; };", "F:1: syntax error (write the value in double quotes)\n"},
        {"group = abc;", "F:1: syntax error (write the value in double quotes)\n"},
        {"group \"x\";", "F:1: syntax error (`=` is missing between name and value)\n"},
        {"queues = ( { name = \"a\"; }\n { name = \"b\"; } );", "F:2: syntax error (a comma is missing between two entries)\n"},
        {"group = \"abc;\nlock = { ttl = \"5s\"; };", "F:1: unclosed string: add the closing quote\n"},
        {"redis = { host = \"a\"; port = 1;\n host = \"b\"; };", "F:2: duplicate setting name\n"},
        {"queues = ( { name = \"a\"; },\n { name = \"b\";\n name = \"c\"; } );", "F:3: duplicate setting name\n"},
        {"lock = { ttl = \"1s\"; };\nredis = { };\nlock = { };", "F:3: duplicate setting name\n"},
        {"\n@include \"more.cfg", "F:2: unclosed string: add the closing quote\n"},
        {"redis = {\n \"host\" = \"a\"; };", "F:2: syntax error (write the name of a key without quotes)\n"},
        {"\n/* abc", "F:2: unclosed comment: add */\n"},
        {"group = \"a\\x00b\";", "F:1: a text cannot hold \\x00\n"},
        {"\xef\xbb\xbfgroup = \"x\";",
         "F:1: syntax error (the file begins with a byte order mark: save it as UTF-8 without one)\n"},
        {"redis {\n host = \"a\"; };", "F:1: syntax error (`=` is missing between name and value)\n"},
        {"redis = { host == \"a\"; };", "F:1: syntax error (write one `=` between name and value)\n"},
        {"group = ;", "F:1: syntax error (a value is missing behind `=`)\n"},
        {"group = yes;", "F:1: syntax error (write true or false, or a text in double quotes)\n"},
        {"redis.host = \"a\";", "F:1: syntax error (write keys of a section into its group: redis = { ... };)\n"},
        {"[redis]\nhost = \"a\"", "F:1: syntax error (write a section as a group: NAME = { ... };)\n"},
        {"{ \"group\": \"g\" }", "F:1: syntax error (write the name of a key without quotes)\n"},
        {"queues = [ { name = \"q\"; } ];", "F:1: syntax error (a list of groups has round brackets: ( { ... }, { ... } ))\n"},
        {"queues = (\n{ name = \"q\"; }\n\n", "F:4: syntax error (the `(` of line 1 is not closed)\n"},
        {"queues = (\n{ name = \"q\";\n);", "F:3: syntax error (a `}` must come before this `)`: it closes the `{` of line 2)\n"},
        {"redis = { };\n};", "F:2: syntax error (no bracket is open that this `}` closes)\n"},
        {"queues = ( { name = \"q\"; }; );",
         "F:1: syntax error (write a comma between the entries of a list, or the `)` that closes the `(` of line 1)\n"},
        {"roles = [ \"a\", 1 ];", "F:1: mismatched element type in array: between [ and ] all values must have one type\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

/* Each mark of a good config is left out, written twice, or replaced by another one. */
Test(unit_config_errors, no_slip_of_one_mark_is_only_a_syntax_error) {
    static const char good[] = "group = \"mail\";\nredis = {\n    host = \"a\";\n    port = 6379;\n};\n"
                               "redis_note : \"x\";\nmonitor = { scan_interval = \"1s\"; };\nqueues = (\n"
                               "    { name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; retry_times = 3; },\n"
                               "    { name = \"sms\"; heartbeat = \"off\"; }\n);\n";
    static const char marks[] = "={}()[];:,\".";
    int refused = 0;
    for (size_t at = 0; at < sizeof good - 1; at++) {
        if (!strchr(marks, good[at])) continue;
        for (size_t with = 0; with < sizeof marks + 1; with++) {
            scoped(buffer_free) buffer_t text = {0}, messages = {0};
            buffer_add(&text, good, at);
            if (with < sizeof marks - 1) buffer_add(&text, &marks[with], 1);
            if (with == sizeof marks) buffer_add(&text, (char[]){good[at], good[at]}, 2);
            buffer_str(&text, good + at + 1);
            config_free(config_case_load(buffer_text(&text), &messages));
            refused += strstr(buffer_text(&messages), "syntax error") != NULL;
            cr_expect_null(strstr(buffer_text(&messages), "syntax error\n"), "%s%s", buffer_text(&text), buffer_text(&messages));
        }
    }
    cr_expect_gt(refused, 300, "%d", refused);
}

Test(unit_config_errors, reads_integers_from_the_source_text) {
    static const config_case_row_t rows[] = {
        // Wrapped at 32 bits, each of these numbers would be valid.
        {"dispatcher = { batch = 4294967297; };\n" Q,
         "F:1: `dispatcher.batch` is 4294967297, but must be an integer from 1 to 5000\n"},
        {"dispatcher = { batch = 0x100000001; };\n" Q,
         "F:1: `dispatcher.batch` is 0x100000001, but must be an integer from 1 to 5000\n"},
        {"dispatcher = { /* batch = 1 */ batch =\n # batch = 2\n 4294967297; };\n" Q,
         "F:1: `dispatcher.batch` is 4294967297, but must be an integer from 1 to 5000\n"},
        {"audit = { retain_rows = 5000000000; };\n" Q,
         "F:1: `audit.retain_rows` is 5000000000, out of the range of 32 bits: write 5000000000L\n"},
        {"stream = { max_bytes = 4294967296; };\n" Q,
         "F:1: `stream.max_bytes` is 4294967296, out of the range of 32 bits: write 4294967296L\n"},
        // Three keys of one name on one line: only the second value is out of range.
        {"queues = ( { name = \"a\"; retry_times = 1; }, { name = \"b\"; retry_times = 4294967297; }, { name = \"c\"; "
         "retry_times = 1; } );",
         "F:1: queue `b`: `retry_times` is 4294967297, but must be an integer from 0 to 1000\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    scoped(config_drop) config_t *config =
        config_case_good("audit = { retain_rows = 5000000000L; }; stream = { max_bytes = 0x100000000L; };\n"
                         "dispatcher = { batch = 0x10; };\n" Q,
                         NULL);
    cr_expect_eq(config->audit.retain_rows, INT64_C(5000000000));
    cr_expect_eq(config->stream.max_bytes, INT64_C(4294967296));
    cr_expect_eq(config->dispatcher.batch, 16);
}

/* libconfig 1.5 accepts some texts that 1.7 refuses, and refuses some that 1.7 accepts. */
Test(unit_config_errors, explains_syntax_errors_of_one_libconfig_version) {
    static const char huge[] = "dispatcher = { batch = 99999999999999999999; };\n" Q;
    static const char comma[] = "queues = ( { name = \"a\"; },\n);";
    if (!libconfig_is_old()) {
        config_case_expect_fault(huge, "F:1: syntax error\n");
        config_free(config_case_good(comma, NULL));
        return;
    }
    config_case_expect_fault(huge, "F:1: `dispatcher.batch` is 99999999999999999999, but must be an integer from 1 to 5000\n");
    config_case_expect_fault(comma, "F:2: syntax error (remove the comma before `)`: not every libconfig accepts it there)\n");
}

Test(unit_config_errors, explains_an_unreadable_file) {
    scoped(buffer_free) buffer_t messages = {0};
    cr_expect_null(config_case_read(config_case_path, &messages));
    char *got = config_case_messages(&messages);
    cr_expect_str_eq(got, "F: No such file or directory: name the config with -c FILE or QUEUE_SIDECAR_CONFIG\n");
    buffer_clear(&messages);
    cr_expect_null(config_case_read(config_case_dir, &messages));
    char *expected =
        kept_printf("%s: Is a directory: name the file in it, such as %s/queue-sidecar.cfg\n", config_case_dir, config_case_dir);
    cr_expect_str_eq(buffer_text(&messages), expected);
    buffer_clear(&messages);
    config_case_write(config_case_path, "a\0b", 3);
    cr_expect_null(config_case_read(config_case_path, &messages));
    got = config_case_messages(&messages);
    cr_expect_str_eq(got, "F: byte 2 is NUL: the config must be a text file\n");
    buffer_clear(&messages);
    cr_assert_eq(chmod(config_case_path, 0), 0);
    if (access(config_case_path, R_OK) != 0) { // root reads everything
        cr_expect_null(config_case_read(config_case_path, &messages));
        got = config_case_messages(&messages);
        expected = kept_printf("F: Permission denied: let user %lu read the file\n", (unsigned long)geteuid());
        cr_expect_str_eq(got, expected);
    }
}

/* `docker run -i IMAGE check -c /dev/stdin <queue-sidecar.cfg`: stdin of the container is a pipe. A reload finds it at its end.
 */
Test(unit_config_errors, reads_a_config_from_an_inherited_pipe) {
    char path[32];
    int ends[2];
    scoped(buffer_free) buffer_t messages = {0};
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], Q, sizeof Q - 1), (ssize_t)sizeof Q - 1);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    config_t *config = config_case_read(path, &messages);
    cr_expect(config && config->queue_count == 1, "%s", buffer_text(&messages));
    config_free(config);
    cr_expect_null(config_case_read(path, &messages), "the pipe is empty now");
    close(ends[0]);
}

/* libconfig itself opens an included file, so a FIFO must be found before. */
Test(unit_config_errors, refuses_a_config_that_is_not_a_regular_file) {
    char more[128], deep[128];
    snprintf(more, sizeof more, "%s/more.cfg", config_case_dir);
    snprintf(deep, sizeof deep, "%s/deep.cfg", config_case_dir);
    scoped(buffer_free) buffer_t messages = {0};
    cr_assert_eq(mkfifo(config_case_path, 0600), 0);
    cr_expect_null(config_case_read(config_case_path, &messages));
    char *got = config_case_messages(&messages);
    cr_expect_str_eq(got, "F: not a regular file: write the config into a file\n");
    cr_assert_eq(unlink(config_case_path), 0);
    cr_assert_eq(mkfifo(more, 0600), 0);
    char *expected = kept_printf("F:2: included file %s is not a regular file\n", more);
    config_case_expect_fault("// @include \"this.cfg\"\n@include \"more.cfg\"\n" Q, expected);
    expected = kept_printf("F:1: included file %s is not a regular file\n", more);
    char *text = kept_printf("@include \"%s\"\n" Q, more);
    if (!libconfig_is_old()) config_case_expect_fault(text, expected); // an older libconfig puts its directory before the path
    cr_assert_eq(rename(more, deep), 0);
    config_case_write(more, "@include \"deep.cfg\"\n", 21);
    expected = kept_printf("%s:1: included file %s is not a regular file\n", more, deep);
    config_case_expect_fault("@include \"more.cfg\"\n" Q, expected);
    cr_assert_eq(unlink(deep), 0);
    cr_assert_eq(rename(config_case_path, deep), 0);
    config_case_write(deep, Q, sizeof Q - 1);
    cr_assert_eq(symlink("deep.cfg", config_case_path), 0);
    buffer_clear(&messages);
    scoped(config_drop) config_t *config = config_case_read(config_case_path, &messages);
    cr_expect_not_null(config, "%s", buffer_text(&messages));
    unlink(deep);
}

Test(unit_config_errors, names_the_included_file) {
    char more[128];
    snprintf(more, sizeof more, "%s/more.cfg", config_case_dir);
    const char *text = "\nlock = { ttl = 4294967297; };\n";
    config_case_write(more, text, strlen(text));
    char *expected =
        kept_printf("F:3: unknown key `grup`: did you mean `group`?\n%s:2: `lock.ttl` is 4294967297 without a unit (ms, s, m, h "
                    "or d; such as \"4294967297s\"), but must be a duration from \"200ms\" to \"10m\"\n",
                    more);
    config_case_expect_fault("@include \"more.cfg\"\n" Q "grup = 1;\n", expected);
    expected = kept_printf("F:1: cannot open include file (its path is relative to %s)\n", config_case_dir);
    config_case_expect_fault("@include \"none.cfg\"\n" Q, expected);
    config_case_write(more, "\n@include \"more.cfg\"\n", 21);
    expected = kept_printf(
        "%s:2: include file nesting too deep: libconfig follows 10 at most, and a file must not include itself\n", more);
    config_case_expect_fault("@include \"more.cfg\"\n" Q, expected);
    text = "lock = { ttl = \"7s\"; };\n";
    config_case_write(more, text, strlen(text));
    scoped(config_drop) config_t *config = config_case_good("@include \"more.cfg\"\n" Q, NULL);
    cr_expect_eq(config->lock.ttl_ms, 7000);
}
