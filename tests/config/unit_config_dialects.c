/* Dialects in the config: the key names that they derive, the keys that they use, and conflicts of these keys. */

#include "config_dialects.h"
#include "dialects/bull/internal.h"
#include "dialects/delayed_queue/internal.h"
#include "dialects/kmqueue/internal.h"
#include "dialects/list/internal.h"
#include "suite.h"

SUITE(unit_config_dialects, config_case_begin(), config_case_end());

/* The keys as lines "role name type how"; `how` is r (read) or w (written), with * for a pattern. Kept. */
static char *keys_of(const config_t *config, size_t queue) {
    buffer_t out = {0};
    scoped(config_redis_keys_free) redis_keys_t keys = config_redis_keys(&config->queues[queue]);
    for (size_t i = 0; i < keys.count; i++) {
        const redis_key_t *key = &keys.items[i];
        buffer_printf(&out, "%s %s %s %s%s\n", key->role, key->name, key->type ? key->type : "any",
                      key->use == KEY_WRITES ? "w" : "r", key->pattern ? "*" : "");
    }
    return kept(out.data);
}

static void expect_keys(const char *text, const char *expected) {
    scoped(config_drop) config_t *config = config_case_good(text, NULL);
    char *got = keys_of(config, 0);
    cr_expect_str_eq(got, expected, "%s\n got:\n%s", text, got);
}

Test(unit_config_dialects, each_dialect_uses_its_own_keys) {
    expect_keys(ONE(""), "ready q list w\ndelayed q:delayed zset w\nbackup q:backup list w\nerrors q:errors hash w\n"
                         "heartbeat *_alive any r*\n");
    expect_keys(ONE("roles = [\"dispatcher\"];"), "ready q list w\ndelayed q:delayed zset w\n");
    expect_keys(ONE("roles = [\"monitor\"]; heartbeat = \"off\"; dlq = \"dead\";"),
                "ready q list w\nbackup q:backup list w\nerrors q:errors hash w\ndlq dead list w\n");
    expect_keys(ONE("watch = \"theirs\"; dlq = \"dead\"; heartbeat = \"off\";"),
                "ready q list w\ndelayed q:delayed zset w\nbackup q:backup list w\nerrors q:errors hash w\ndlq dead list w\n"
                "watch theirs list w\n");
    expect_keys(ONE("roles = [\"monitor\"]; heartbeat = \"off\"; dlq = \"dead\"; watch = \"dead\";"),
                "ready q list w\nbackup q:backup list w\nerrors q:errors hash w\nwatch dead list w\n");
    expect_keys(ONE("roles = [\"monitor\"]; backup = \"\"; dlq = \"dead\"; watch = \"theirs\"; retry_backoff = \"fixed\";"),
                "ready q list w\nwatch theirs list w\n");
    expect_keys(ONE("backup = \"\"; watch = \"theirs\";"), "ready q list w\ndelayed q:delayed zset w\nwatch theirs list w\n");
    expect_keys(ONE("dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; dlq = \"dead\";"),
                "backup back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ== list w\n"
                "ready worker1_queue list w\nunique worker1_queue_unique set w\n"
                "ready worker2_queue list w\nunique worker2_queue_unique set w\n"
                "dlq dead list w\nheartbeat *_alive any r*\n");
    expect_keys(
        ONE("dialect = \"delayed_queue\"; types = [\"com.example.PaymentCheck\", \"a.B$\xc3\x9cnder=under\"];"),
        "delayed de_delayed_events zset w\nevents de_events hash w\nready de_paymentcheck list w\nready de_under list w\n");
    expect_keys(
        ONE("dialect = \"bull\"; prefix = \"{b}\"; bull_queue = \"vid eo\";"),
        "delayed {b}:vid eo:delayed zset w\nwait {b}:vid eo:wait list w\npaused {b}:vid eo:paused list w\n"
        "meta-paused {b}:vid eo:meta-paused any r\npriority {b}:vid eo:priority zset w\nactive {b}:vid eo:active list w\n"
        "failed {b}:vid eo:failed zset w\nstalled {b}:vid eo:stalled set w\nstalled-check {b}:vid eo:stalled-check string w\n"
        "meta {b}:vid eo:meta hash r\nid {b}:vid eo:id string w\n* {b}:vid eo:* hash w*\n*:lock {b}:vid eo:*:lock string r*\n"
        "*:logs {b}:vid eo:*:logs list w*\nde:* {b}:vid eo:de:* string w*\n");
    expect_keys(
        ONE("dialect = \"private_queues\"; main = \"m\"; private = \"w-*\"; registry = \"reg\"; dedup = \"seen\"; id_path = "
            "\"/id\"; "
            "dlq = \"dead\"; heartbeat = \"hb:*\";"),
        "main m list w\nregistry reg any r\ndedup seen set r\ndlq dead list w\nprivate w-* list w*\nheartbeat hb:* any r*\n");
    expect_keys(
        ONE("dialect = \"stream\"; group = \"g\"; dlq = \"dead\"; heartbeat = \"hb:*\";"),
        "stream q stream w\ndelayed q:delayed zset w\nerrors q:errors hash w\ndlq dead stream w\nheartbeat hb:* any r*\n");
    expect_keys(ONE("dialect = \"stream\"; stream = \"s\"; group = \"g\"; roles = [\"dispatcher\"]; heartbeat = \"consumer\";"),
                "stream s stream w\ndelayed q:delayed zset w\n");
}

Test(unit_config_dialects, leaves_keys_that_a_dialect_lacks_empty) {
    scoped(config_drop) config_t *config = config_case_good("redis = { db = 3; };" ONE(""), NULL);
    cr_expect_str_eq(config->queues[0].prefix, "");
    config_free(config);
    config = config_case_good(KM(""), NULL);
    const queue_config_t *queue = &config->queues[0];
    cr_expect_str_eq(queue->ready, "");
    cr_expect_str_eq(queue->delayed, "");
    cr_expect_str_eq(queue->errors, "");
    cr_expect_str_eq(queue->policy.heartbeat, "*_alive");
    cr_expect_eq(queue->policy.roles, ROLE_MONITOR);
    config_free(config);
    config = config_case_good(PQ(""), NULL);
    queue = &config->queues[0];
    cr_expect_str_eq(queue->ready, "m");
    cr_expect_str_eq(queue->delayed, "");
    cr_expect_str_eq(queue->backup, "");
    cr_expect_str_eq(queue->policy.heartbeat, "off");
    cr_expect_eq(queue->policy.roles, ROLE_MONITOR);
}

Test(unit_config_dialects, reads_the_settings_of_each_dialect) {
    config_t *config = config_case_good(ONE(""), NULL);
    cr_expect_not(list_takes_left(&config->queues[0]));
    config_free(config);
    config = config_case_good(ONE("take = \"left\";"), NULL);
    cr_expect(list_takes_left(&config->queues[0]));
    config_free(config);
    config = config_case_good(
        DE("prefix = \"\"; retry_attempts = 5; delays = [\"3: 1s\", \"*: 30d\"]; protected_timeout = \"9s\";"), NULL);
    const queue_config_t *queue = &config->queues[0];
    cr_expect_str_eq(queue->delayed, "delayed_events");
    cr_expect_str_eq(delayed_config(queue)->events, "events");
    cr_expect_str_eq(delayed_config(queue)->lists.items[0], "mail");
    cr_expect_str_eq(delayed_config(queue)->classes.items[0], "a.Mail");
    cr_expect_str_eq(queue->backup, "");
    cr_expect_eq(delayed_config(queue)->retry_attempts, 5);
    cr_expect_eq(delayed_config(queue)->delays.count, 2);
    cr_expect_eq(delayed_config(queue)->delays.items[0].below, 3);
    cr_expect_eq(delayed_config(queue)->delays.items[0].delay_ms, 1000);
    cr_expect_eq(delayed_config(queue)->delays.items[1].below, INT64_MAX);
    cr_expect_eq(delayed_config(queue)->delays.items[1].delay_ms, INT64_C(30) * 86400000);
    config_free(config);
    config = config_case_good(DE(""), NULL);
    queue = &config->queues[0];
    cr_expect_eq(delayed_config(queue)->retry_attempts, 70);
    static const delay_step_t native[] = {{10, 10000}, {20, 60000}, {40, 300000}, {INT64_MAX, 1440000}};
    cr_assert_eq(delayed_config(queue)->delays.count, 4);
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(delayed_config(queue)->delays.items[i].below, native[i].below);
        cr_expect_eq(delayed_config(queue)->delays.items[i].delay_ms, native[i].delay_ms);
    }
    config_free(config);
    config =
        config_case_good(BU("stalled_interval = \"1s\"; max_stalled = 0; record_failed = false; alive_timeout = \"1m\";"), NULL);
    queue = &config->queues[0];
    cr_expect_str_eq(bull_config(queue)->base, "bull:q");
    cr_expect_str_eq(queue->delayed, "bull:q:delayed");
    cr_expect_str_eq(queue->ready, "bull:q:wait");
    cr_expect_eq(bull_config(queue)->stalled_interval_ms, 1000);
    cr_expect_eq(bull_config(queue)->max_stalled, 0);
    cr_expect_not(bull_config(queue)->record_failed);
    cr_expect_eq(queue->policy.alive_timeout_ms, 60000);
    config_free(config);
    config = config_case_good(BU(""), NULL);
    queue = &config->queues[0];
    cr_expect_eq(bull_config(queue)->stalled_interval_ms, 30000);
    cr_expect_eq(bull_config(queue)->max_stalled, 1);
    cr_expect(bull_config(queue)->record_failed);
    config_free(config);
    config = config_case_good(BM(""), NULL);
    queue = &config->queues[0];
    cr_expect_str_eq(bull_config(queue)->base, "bull:q");
    cr_expect(bull_config(queue)->record_failed);
    cr_expect_eq(queue->policy.roles, ROLE_MONITOR);
    config_free(config);
    config_free(config_case_good(ONE("dialect = \"private_queues\"; main = \"m\"; registry = \"r\"; score_unit = \"s\";"), NULL));
    config_free(config_case_good(KM("retry_backoff = \"none\"; score_unit = \"ms\"; backup = \"mine\";"), NULL));
}

Test(unit_config_dialects, derives_simple_names_as_java_does) {
    static const struct {
        const char *type, *list;
    } rows[] = {{"PaymentCheck", "de_paymentcheck"}, {"a.b.PaymentCheck", "de_paymentcheck"},
                {"pkg.Outer$Dummy", "de_dummy"},     {"pkg.Outer$1Local", "de_local"},
                {"pkg.Outer$In$Most", "de_most"},    {"p.Q=Some List", "de_Some List"},
                {"p.\xc3\x9cnder=a=b", "de_a=b"},    {"p.Outer$1=anon", "de_anon"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = kept_printf("queues = ( { name = \"q\"; dialect = \"delayed_queue\"; types = [\"%s\"]; } );", rows[i].type);
        scoped(config_drop) config_t *config = config_case_good(text, NULL);
        cr_expect_str_eq(delayed_config(&config->queues[0])->lists.items[0], rows[i].list);
    }
}

/* tests/clients/kmqueue derives the same names by the rules of KMQUtils (tests/data/kmqueue, "names"). */
Test(unit_config_dialects, names_backup_lists_of_kmqueue_as_java_does) {
    static const struct {
        const char *queues, *backup, *first;
    } rows[] = {
        {"\"worker1_queue\", \"worker2_queue:safe\"", "ZkGUZkDe6zIgjH0nGthHgQ==", "worker1_queue"},
        {"\"worker2_queue:safe\", \"worker1_queue\"", "Iv49kCN9zxHEFCEaMjP9YQ==", "worker2_queue"},
        {"\"worker1_queue:default\", \" worker2_queue : safe \"", "sUs1LV82L+rMwjigMkbTHg==", "worker1_queue"},
        {"\"mail:safe\"", "uDqIalxDfM2awVRz/W8XiA==", "mail"},
        {"\" mail:safe\"", "uDqIalxDfM2awVRz/W8XiA==", "mail"},
        {"\"mail :safe\"", "YJtt2Bu6QWuq8IR7p+JCrQ==", "mail"},
        {"\"\\tmail\\x01:safe\\n\"", "34iBLPSsTkSP2er3cWenqw==", "mail"},
        {"\"a\", \"bc:safe\"", "kAFQmDzST7DWlj99KOF/cg==", "a"},
        {"\"ab\", \"c:safe\"", "kAFQmDzST7DWlj99KOF/cg==", "ab"},
        {"\"caf\xc3\xa9:safe\", \"\xe4\xbb\xbb\xe5\x8a\xa1\"", "wGMFkat3c9ZHrTZMFSHCVA==", "caf\xc3\xa9"},
        {"\"\xc2\xa0mail:safe\"", "3L2W6TQkIMYSXG/jZFZafg==", "\xc2\xa0mail"},
        {"\"mail:safe\", \"sms:safe:more\"", "4p0eW9PGGERqT+Tnn1yYeQ==", "mail"},
        {"\"mail:safe:\"", "uDqIalxDfM2awVRz/W8XiA==", "mail"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = kept_printf("queues = ( { name = \"q\"; dialect = \"kmqueue\"; queues = [%s]; } );", rows[i].queues);
        scoped(config_drop) config_t *config = config_case_good(text, NULL);
        const queue_config_t *queue = &config->queues[0];
        char *backup = kept_printf("back_up_queue_%s", rows[i].backup);
        cr_expect_str_eq(queue->backup, backup, "%s: %s", text, queue->backup);
        cr_expect_str_eq(kmqueue_config(queue)->lists.items[0], rows[i].first, "%s", text);
    }
}

Test(unit_config_dialects, defaults_reach_only_keys_of_the_dialect) {
    static const char text[] =
        "defaults = { protected_timeout = \"1h\"; retry_backoff = \"exponential\"; retry_times = 9; alive_timeout = \"2h\"; "
        "id_path = \"/id\"; score_unit = \"s\"; retry_window = \"30d\"; ready_limit = 7; };\n"
        "queues = ( { name = \"k\"; dialect = \"kmqueue\"; queues = [\"a:safe\"]; },\n"
        "{ name = \"d\"; dialect = \"delayed_queue\"; types = [\"a.B\"]; },\n"
        "{ name = \"b\"; dialect = \"bull\"; },\n"
        "{ name = \"p\"; dialect = \"private_queues\"; main = \"m\"; private = \"w-*\"; } );";
    scoped(config_drop) config_t *config = config_case_good(text, NULL);
    static const struct {
        int64_t protected_timeout, alive, times, limit;
        const char *id, *heartbeat;
        score_unit_t unit;
    } rows[] = {{3600000, 7200000, 9, 0, "", "*_alive", SCORE_MS},
                {3600000, 0, 3, 0, "", "off", SCORE_MS},
                {180000, 7200000, 3, 0, "", "off", SCORE_MS},
                {3600000, 7200000, 9, 0, "/id", "off", SCORE_S}};
    for (size_t i = 0; i < 4; i++) {
        const queue_policy_t *policy = &config->queues[i].policy;
        cr_expect_eq(policy->protected_timeout_ms, rows[i].protected_timeout, "%zu", i);
        cr_expect_eq(policy->alive_timeout_ms, rows[i].alive, "%zu", i);
        cr_expect_eq(policy->retry.times, rows[i].times, "%zu", i);
        cr_expect_eq(policy->ready_limit, rows[i].limit, "%zu", i);
        cr_expect_eq(policy->retry.backoff, BACKOFF_NONE, "%zu", i);
        cr_expect_str_eq(policy->id_path, rows[i].id, "%zu", i);
        cr_expect_str_eq(policy->heartbeat, rows[i].heartbeat, "%zu", i);
        cr_expect_eq(policy->score_unit, rows[i].unit, "%zu", i);
    }
}

#define TWO(left, right) "queues = ( { name = \"a\"; " left " },\n { name = \"b\"; " right " } );"

Test(unit_config_dialects, compares_the_keys_of_different_dialects) {
    static const config_case_row_t rows[] = {
        {TWO("dialect = \"bull\"; bull_queue = \"video\";", "dialect = \"bull\"; bull_queue = \"video:2\";"),
         "F:2: queue `b`: its keys begin with `bull:video:2:`; keys of jobs of queue `a` can begin so too, as a job id may hold "
         "a colon: set another `prefix` for one of the queues\n"},
        {TWO("dialect = \"bull\"; bull_queue = \"video:2\";", "dialect = \"bull\"; bull_queue = \"video\";"),
         "F:2: queue `a`: its keys begin with `bull:video:2:`; keys of jobs of queue `b` can begin so too, as a job id may hold "
         "a colon: set another `prefix` for one of the queues\n"},
        {TWO("dialect = \"bull\"; bull_queue = \"video\";", "dialect = \"bull\";\n bull_queue = \"video\";"),
         "F:3: queues `a` and `b` have the same keys, which begin with `bull:video:`\n"},
        {TWO("dialect = \"bull\"; bull_queue = \"video\";", "ready = \"bull:video:7\";"),
         "F:2: queue `b`: its key `bull:video:7` begins with `bull:video:`, which is reserved for jobs of queue `a`: choose "
         "another key\n"},
        {TWO("dialect = \"bull\"; bull_queue = \"video\";", "dialect = \"bullmq\";\n bull_queue = \"video\";"),
         "F:3: queues `a` and `b` have the same keys, which begin with `bull:video:`\n"},
        {TWO("ready = \"bull:b:7\";", "dialect = \"bull\";"), "F:2: queue `a`: its key `bull:b:7` begins with `bull:b:`, which "
                                                              "is reserved for jobs of queue `b`: choose another key\n"},
        {TWO("dialect = \"bull\"; bull_queue = \"video\";", "ready = \"bull:video:wait\";"),
         "F:2: queue `b`: its key `bull:video:wait` begins with `bull:video:`, which is reserved for jobs of queue `a`: choose "
         "another key\n"},
        {TWO("backup = \"mail_unique\";", "dialect = \"kmqueue\";\n queues = [\"mail:safe\"];"),
         "F:3: queues `a` and `b` share the key `mail_unique`: it is backup of `a` and unique of `b`\n"},
        {TWO("dialect = \"kmqueue\"; queues = [\"x:safe\"];", "dialect = \"kmqueue\"; queues = [\"x:safe\", \"y\"];"),
         "F:2: queues `a` and `b` share the key `x`: it is ready of `a` and ready of `b`\n"
         "F:2: queues `a` and `b` share the key `x_unique`: it is unique of `a` and unique of `b`\n"},
        {TWO("dialect = \"delayed_queue\"; types = [\"a.B\"];", "dialect = \"delayed_queue\"; types = [\"a.C\"];"),
         "F:2: queues `a` and `b` share the key `de_delayed_events`: it is delayed of `a` and delayed of `b`\n"
         "F:2: queues `a` and `b` share the key `de_events`: it is events of `a` and events of `b`\n"},
        {TWO("dialect = \"private_queues\"; main = \"m\"; private = \"w-*\"; dedup = \"b\"; id_path = \"/id\";", ""),
         "F:2: queues `a` and `b` share the key `b`: it is dedup of `a` and ready of `b`\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"x:safe\", \"x_unique\"];"),
         F "its unique and its ready are the same key `x_unique`\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.B=events\"];"),
         F "its events and its ready are the same key `de_events`\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    /* Two queues may share a key that both only read. A reserved prefix ends with a colon, so `video2` is outside it. */
    config_free(config_case_good(
        TWO("dialect = \"private_queues\"; main = \"m\"; private = \"w-*\"; dedup = \"seen\"; id_path = \"/id\";",
            "dialect = \"private_queues\"; main = \"n\"; private = \"v-*\"; dedup = \"seen\"; id_path = \"/id\";"),
        NULL));
    config_free(config_case_good(
        TWO("dialect = \"bull\"; bull_queue = \"video\";", "dialect = \"bull\"; bull_queue = \"video2\";"), NULL));
    config_free(config_case_good(TWO("dialect = \"bull\"; bull_queue = \"video\";", "ready = \"bull:video\";"), NULL));
}

#define WORKERS(pattern, more) "dialect = \"private_queues\"; private = \"" pattern "\"; " more

/* No private list may fit the patterns of two queues: each queue would give the list's jobs to its own workers. */
Test(unit_config_dialects, compares_patterns) {
    static const struct {
        const char *a, *b;
    } overlapping[] = {{WORKERS("w-*", "main = \"m\";"), WORKERS("w-*", "main = \"n\";")},
                       {WORKERS("w-*", "main = \"m\";"), WORKERS("w-b*", "main = \"n\";")},
                       {WORKERS("*", "main = \"m\";"), WORKERS("x*y", "main = \"n\";")},
                       {WORKERS("w*z", "main = \"m\"; registry = \"r\";"), WORKERS("w-*-z", "main = \"n\";")}};
    static const struct {
        const char *a, *b;
    } apart[] = {{WORKERS("w-*", "main = \"m\";"), WORKERS("v-*", "main = \"n\";")},
                 {WORKERS("w-*:a", "main = \"m\";"), WORKERS("w-*:b", "main = \"n\";")},
                 {WORKERS("w-*", "main = \"m\"; registry = \"r\";"), WORKERS("w-*", "main = \"n\"; registry = \"s\";")}};
    for (size_t i = 0; i < sizeof overlapping / sizeof *overlapping; i++) {
        char *text = kept_printf("queues = ({ name = \"a\"; %s },\n{ name = \"b\"; %s });", overlapping[i].a, overlapping[i].b);
        scoped(buffer_free) buffer_t messages = {0};
        cr_expect_null(config_case_load(text, &messages), "%s", text);
        cr_expect_not_null(strstr(buffer_text(&messages), "queues `a` and `b`: a list can match both"), "%s",
                           buffer_text(&messages));
    }
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        char *text = kept_printf("queues = ({ name = \"a\"; %s },\n{ name = \"b\"; %s });", apart[i].a, apart[i].b);
        config_free(config_case_good(text, NULL));
    }
    config_case_expect_fault("queues = ({ name = \"a\"; " WORKERS("w-*", "main = \"m\";") " },\n{ name = \"b\"; " WORKERS(
                                 "w-*1", "main = \"n\";") " });",
                             "F:2: queues `a` and `b`: a list can match both `w-*` and `w-*1`: choose patterns that no name "
                             "matches both\n");
}

/* The output of `check` is a config of the same values, and names each Redis key. */
Test(unit_config_dialects, reads_its_dump_back) {
    static const char *const texts[] = {KM("protected_timeout = \"7s\"; dlq = \"dead\";"),
                                        DE("delays = [\"5: 90s\", \"*: 1h\"]; retry_attempts = 7;"),
                                        BU("prefix = \"x\"; max_stalled = 3;"), PQ("registry = \"r\"; heartbeat = \"hb*\";")};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        scoped(config_drop) config_t *config = config_case_good(texts[i], NULL);
        scoped(buffer_free) buffer_t first = {0}, second = {0};
        config_dump(config, &first);
        char *keys = keys_of(config, 0);
        config_free(config);
        config = config_case_good(buffer_text(&first), NULL);
        config_dump(config, &second);
        char *again = keys_of(config, 0);
        cr_expect_str_eq(keys, again);
        for (char *line = strtok(keys, "\n"); line; line = strtok(NULL, "\n")) {
            char name[300], *space = strchr(line, ' ');
            snprintf(name, sizeof name, "# key \"%.*s\"", (int)strcspn(space + 1, " "), space + 1);
            cr_expect_not_null(strstr(buffer_text(&first), name), "%s is not in\n%s", name, buffer_text(&first));
        }
        /* Only the comments differ: in the second dump each value comes from the file. */
        for (char *at = first.data, *other = second.data; *at || *other; at++, other++) {
            if (*at == '#') at += strcspn(at, "\n"), other += strcspn(other, "\n");
            cr_assert_eq(*at, *other, "%s\n differs from\n%s", buffer_text(&first), buffer_text(&second));
            if (!*at) break;
        }
    }
}

static int64_t load_ns(const char *dialect) {
    enum { QUEUES = 1000 };
    scoped(buffer_free) buffer_t text = {0};
    struct timespec from, to;
    for (int i = 0; i < QUEUES; i++)
        buffer_printf(&text, "%s{ name = \"q%d\"; dialect = \"%s\"; }", i ? "," : "queues = (", i, dialect);
    buffer_str(&text, ");");
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    config_drop(&(config_t *){config_case_good(buffer_text(&text), NULL)});
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (to.tv_sec - from.tv_sec) * NS_PER_S + to.tv_nsec - from.tv_nsec;
}

/* Each pair of queues is compared. Whatever only a conflict needs must not be looked up for each of them. */
Test(unit_config_dialects, a_thousand_queues_of_bull_cost_little_more_than_lists) {
    int64_t list = INT64_MAX, bull = INT64_MAX;
    for (int round = 0; round < 3; round++) {
        int64_t one = load_ns("list\"; heartbeat = \"off"), other = load_ns("bull");
        if (one < list) list = one;
        if (other < bull) bull = other;
    }
    cr_expect_lt(bull, 6 * list, "%lld us of processor time, and %lld us for lists", (long long)bull / 1000,
                 (long long)list / 1000);
}
