/* The settings that each dialect refuses, and the texts of these errors. */

#include "config_dialects.h"
#include "dialects/delayed_queue/internal.h"
#include "dialects/kmqueue/internal.h"
#include "dialects/list/internal.h"
#include "suite.h"

SUITE(unit_config_refusals, config_case_begin(), config_case_end());

Test(unit_config_refusals, reports_missing_or_wrong_keys_of_kmqueue) {
    static const config_case_row_t rows[] = {
        {ONE("dialect = \"kmqueue\";"),
         F "it has no `queues`: dialect kmqueue needs the names that KMQueueManager is given, such as [\"mail:safe\"]\n"},
        {ONE("dialect = \"kmqueue\"; queues = [];"),
         F "`queues` is [], but must be a list of 1 to 64 texts, each of 1 to 256 bytes\n"},
        {ONE("dialect = \"kmqueue\"; queues = \"mail\";"),
         F "`queues` is \"mail\", but must be a list of 1 to 64 texts, each of 1 to 256 bytes\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"\"];"),
         F "`queues` is [\"\"], but must be a list of 1 to 64 texts, each of 1 to 256 bytes\n"},
        {ONE("dialect = \"kmqueue\"; queues = [1];"),
         F "`queues` is [1], but must be a list of 1 to 64 texts, each of 1 to 256 bytes\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"a:safe\", \" :safe\"];"),
         F "`queues` has \" :safe\", which names no queue: KMQueueManager refuses it, \"The current queue name is empty!\"\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"a:safe\", \"\\x01:\"];"),
         F "`queues` has \"\\x01:\", which names no queue: KMQueueManager refuses it, \"The current queue name is empty!\"\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"a:fast\"];"),
         F "`queues` has \"a:fast\", but KMQueue knows only the modes default and safe: KMQueueManager refuses it, \"The current "
           "queue mode is invalid\"\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"a\", \"b:default\", \"c:safe:x\"];"),
         F "none of `queues` is :safe: KMQueue keeps a list of tasks in progress for safe queues only\n"},
        {ONE("dialect = \"kmqueue\"; queues = [\"a\", \"a:safe\"];"),
         F "none of `queues` is :safe: KMQueue keeps a list of tasks in progress for safe queues only\n"},
        {"redis = { db = 3; };\n" KM(""), "F:2: queue `q`: KMQueue works in database 0 only, but `redis.db` is 3\n"},
        {KM("roles = [\"dispatcher\", \"monitor\"];"),
         F "`roles` must be [\"monitor\"] in dialect kmqueue, which has no delayed jobs\n"},
        {"defaults = { roles = [\"dispatcher\"]; };\n" KM(""),
         "F:2: queue `q`: `roles` of `defaults` leaves dialect kmqueue nothing to do: give the queue roles = [\"monitor\"]\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    char *warnings;
    scoped(config_drop) config_t *config =
        config_case_good(ONE("dialect = \"kmqueue\"; queues = [\"a:safe\", \" a \"];"), &warnings);
    cr_expect_str_eq(
        warnings,
        F "`queues` has \" a \", whose queue is listed before it: KMQueueManager and the sidecar keep the first entry\n");
    cr_expect_eq(kmqueue_config(&config->queues[0])->lists.count, 1);
}

Test(unit_config_refusals, reports_missing_or_wrong_keys_of_delayed_queue) {
    static const config_case_row_t rows[] = {
        {ONE("dialect = \"delayed_queue\";"),
         F "it has no `types`: dialect delayed_queue needs the classes of its events, such as [\"com.example.PaymentCheck\"]\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.B\", \"a b\"];"),
         F "`types` has \"a b\", which is not the name of a Java class, or CLASS=LIST\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.B#\"];"),
         F "`types` has \"a.B#\", which is not the name of a Java class, or CLASS=LIST\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a..B\"];"),
         F "`types` has \"a..B\", which is not the name of a Java class, or CLASS=LIST\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"=b\"];"),
         F "`types` has \"=b\", which is not the name of a Java class, or CLASS=LIST\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.B=\"];"), F "`types` has \"a.B=\" without a list after the =\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.\xc3\x9cnder\"];"),
         F "`types` has \"a.\xc3\x9cnder\", whose list does not follow from its name: write \"a.\xc3\x9cnder=LIST\", without the "
           "prefix\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.Outer$1\"];"),
         F "`types` has \"a.Outer$1\", whose list does not follow from its name: write \"a.Outer$1=LIST\", without the prefix\n"},
        {ONE("dialect = \"delayed_queue\"; types = [\"a.B\", \"a.B=c\"];"), F "`types` names the class \"a.B\" twice\n"},
        {DE("roles = [\"dispatcher\"];"),
         F "dialect delayed_queue needs both roles: the dispatcher sends events, and without the "
           "monitor none is ever ended\n"},
        {"defaults = { roles = [\"monitor\"]; };\n" DE(""), "F:2: queue `q`: dialect delayed_queue needs both roles: the "
                                                            "dispatcher sends events, and without the monitor none is ever "
                                                            "ended\n"},
        {DE("retry_attempts = 101;"), F "`retry_attempts` is 101, but must be an integer from 1 to 100\n"},
        {DE("delays = [];"),
         F "`delays` is [], but must be a list of at most 16 steps, such as [\"10: 10s\", \"*: 1m\"], ascending, "
           "each delay from 1s to 30d and the last for *\n"},
        {DE("delays = [\"10: 10s\"];"),
         F "`delays` is [\"10: 10s\"], but must be a list of at most 16 steps, such as [\"10: 10s\", "
           "\"*: 1m\"], ascending, each delay from 1s to 30d and the last for *\n"},
        {DE("delays = [\"10: 10s\", \"10: 20s\", \"*: 1m\"];"), F
         "`delays` is [\"10: 10s\", \"10: 20s\", \"*: 1m\"], but must be a list of at most 16 steps, such as [\"10: 10s\", \"*: "
         "1m\"], ascending, each delay from 1s to 30d and the last for *\n"},
        {DE("delays = [\"*: 1m\", \"*: 2m\"];"), F "`delays` is [\"*: 1m\", \"*: 2m\"], but must be a list of at most 16 steps, "
                                                   "such as [\"10: 10s\", \"*: 1m\"], ascending, "
                                                   "each delay from 1s to 30d and the last for *\n"},
        {DE("delays = [\"*: 999ms\"];"),
         F "`delays` is [\"*: 999ms\"], but must be a list of at most 16 steps, such as [\"10: 10s\", "
           "\"*: 1m\"], ascending, each delay from 1s to 30d and the last for *\n"},
        {DE("delays = [\"*\"];"),
         F "`delays` is [\"*\"], but must be a list of at most 16 steps, such as [\"10: 10s\", \"*: 1m\"], "
           "ascending, each delay from 1s to 30d and the last for *\n"},
        {ONE("dialect = \"delayed_queue\"; prefix = \"sidecar\"; types = [\"a.B=:x\"];"),
         F "its key `sidecar:x` begins with \"sidecar:\", which is reserved for the sidecar: choose another `types`\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    char *warnings;
    scoped(config_drop) config_t *config =
        config_case_good(ONE("dialect = \"delayed_queue\"; types = [\"a.Mail\", \"b.Mail\"];"), &warnings);
    cr_expect_str_eq(warnings, F "`types` gives the list \"de_mail\" to two classes: their workers take each other's events\n");
    cr_expect_eq(delayed_config(&config->queues[0])->lists.count, 2);
}

Test(unit_config_refusals, reports_wrong_keys_of_list) {
    static const config_case_row_t rows[] = {
        {ONE("take = \"top\";"), F "`take` is \"top\", but must be one of \"right\", \"left\"\n"},
        {ONE("backup = \"\";"),
         F "`backup` is \"\" and there is no `watch`, so the monitor has nothing to do: give one of them, or "
           "roles = [\"dispatcher\"]\n"},
        {ONE("watch = \"w\"; roles = [\"dispatcher\"];"), F "`watch` needs the role monitor: add it to `roles`\n"},
        {ONE("watch = \"q\";"), F "its ready and its watch are the same key `q`\n"},
        {ONE("watch = \"q:delayed\";"), F "its delayed and its watch are the same key `q:delayed`\n"},
        {ONE("watch = \"q:backup\";"), F "its backup and its watch are the same key `q:backup`\n"},
        {ONE("watch = \"q:errors\";"), F "its errors and its watch are the same key `q:errors`\n"},
        {ONE("watch = \"told\"; on_failure = \"told\";"), F "its watch and its on_failure are the same key `told`\n"},
        {ONE("watch = \"sidecar:x\";"),
         F "`watch` is \"sidecar:x\", but must be the name of a Redis key, 0 to 1024 bytes, and not "
           "begin with \"sidecar:\"\n"},
        {"queues = ( { name = \"q\"; heartbeat = \"off\"; watch = \"w\"; }, { name = \"p\"; heartbeat = \"off\"; dlq = \"w\"; } "
         ");",
         "F:1: queues `q` and `p` share the key `w`: it is watch of `q` and dlq of `p`\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    /* Queues that are only watched have no heartbeats in common, and no retries. */
    scoped(config_drop) config_t *config = config_case_good(
        "defaults = { retry_backoff = \"fixed\"; }; queues = ( { name = \"q\"; watch = \"w\"; backup = \"\"; roles = "
        "[\"monitor\"]; }, { name = \"p\"; watch = \"v\"; backup = \"\"; roles = [\"monitor\"]; } );",
        NULL);
    cr_expect_str_eq(list_config(&config->queues[1])->watch, "v");
}

Test(unit_config_refusals, reports_missing_or_wrong_keys_of_bull) {
    static const config_case_row_t rows[] = {
        {BU("prefix = \"\";"), F "`prefix` is \"\", but a prefix of Bull has 1 to 256 bytes\n"},
        {BU("prefix = \"sidecar\";"),
         F "its key `sidecar:q:delayed` begins with \"sidecar:\", which is reserved for the sidecar: choose another `prefix`\n"},
        {BU("bull_queue = \"\";"), F "`bull_queue` is \"\", but must be text of 1 to 256 bytes without control characters\n"},
        {BU("stalled_interval = \"2h\";"), F "`stalled_interval` is \"2h\", but must be a duration from \"1s\" to \"1h\"\n"},
        {BU("max_stalled = 1001;"), F "`max_stalled` is 1001, but must be an integer from 0 to 1000\n"},
        {BU("record_failed = 1;"), F "`record_failed` is 1, but must be true or false\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_refusals, reports_missing_or_wrong_keys_of_private_queues) {
    static const config_case_row_t rows[] = {
        {ONE("dialect = \"private_queues\"; private = \"w-*\";"),
         F "it has no `main`: dialect private_queues needs the list that workers move jobs from\n"},
        {ONE("dialect = \"private_queues\"; main = \"m\";"),
         F "it has neither `private` nor `registry`: dialect private_queues needs one of them to find the private lists\n"},
        {ONE("dialect = \"private_queues\"; main = \"m\"; private = \"\";"),
         F "it has neither `private` nor `registry`: dialect private_queues needs one of them to find the private lists\n"},
        {ONE("dialect = \"private_queues\"; main = \"m\"; private = \"w\";"),
         F "`private` is \"w\", but must hold one * for the worker's name, such as \"queue-*\"\n"},
        {ONE("dialect = \"private_queues\"; main = \"m\"; private = \"*-*\";"),
         F "`private` is \"*-*\", but must hold one * for the worker's name, such as \"queue-*\"\n"},
        {ONE("dialect = \"private_queues\"; main = \"m\"; private = \"*\";"),
         F "`private` is \"*\", which matches every list of the database; the entries of all lists would go to `main`: "
           "give a pattern that matches private lists only, such as \"queue-*\", or a `registry`\n"},
        {PQ("dedup = \"seen\";"), F "`dedup` holds ids of jobs, but `id_path` does not say where a job has its id\n"},
        {PQ("dlq = \"m\";"), F "its main and its dlq are the same key `m`\n"},
        {PQ("registry = \"m\";"), F "its main and its registry are the same key `m`\n"},
        {PQ("roles = [\"dispatcher\"];"),
         F "`roles` must be [\"monitor\"] in dialect private_queues, which has no delayed jobs\n"},
        {PQ("retry_window = \"1m\";"),
         F "`retry_window` is 1m, but must be more than 2 x (`protected_timeout` 3m + longest backoff 0) "
           "= 6m, or retries would be forgotten before they are counted\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
    char *warnings;
    scoped(config_drop) config_t *config = config_case_good("defaults = { heartbeat = \"hb:*\"; };\n" PQ(""), &warnings);
    cr_expect_str_eq(warnings,
                     "F:2: queue `q`: `heartbeat` of `defaults` is not for dialect private_queues, where * is the worker's "
                     "name: give it in the queue, or \"off\"\n");
    cr_expect_str_eq(config->queues[0].policy.heartbeat, "off");
}

#define NOT_FOR(dialect, key) F "`" key "` is not for dialect " dialect ": "

Test(unit_config_refusals, kmqueue_and_delayed_queue_name_the_replacement_key) {
    static const config_case_row_t rows[] = {
        {KM("ready = \"x\";"), NOT_FOR("kmqueue", "ready") "`queues` names its lists\n"},
        {KM("delayed = \"x\";"), NOT_FOR("kmqueue", "delayed") "KMQueue delays nothing\n"},
        {KM("errors = \"x\";"),
         NOT_FOR("kmqueue", "errors") "KMQueue's workers report no errors: a task whose handler throws counts as done\n"},
        {KM("retry_backoff = \"fixed\";"),
         F "`retry_backoff` must be \"none\" in dialect kmqueue: KMQueue has no delayed zset, so a "
           "retry goes back at once\n"},
        {KM("retry_delay = \"1s\";"),
         NOT_FOR("kmqueue", "retry_delay") "KMQueue has no delayed zset, so a retry goes back at once\n"},
        {KM("retry_window = \"24h\";"),
         NOT_FOR("kmqueue", "retry_window") "a task counts its retries itself, in taskStatus.retry\n"},
        {KM("ready_limit = 5;"), NOT_FOR("kmqueue", "ready_limit") "KMQueue delays nothing, so nothing is promoted\n"},
        {KM("score_unit = \"s\";"), F "`score_unit` must be \"ms\" in dialect kmqueue: KMQueue's times are milliseconds\n"},
        {KM("id_path = \"/id\";"), NOT_FOR("kmqueue", "id_path") "a task has them in id, taskStatus.genTimestamp and type\n"},
        {DE("ready = \"x\";"), NOT_FOR("delayed_queue", "ready") "`prefix` and `types` name its lists\n"},
        {DE("delayed = \"x\";"), NOT_FOR("delayed_queue", "delayed") "`prefix` names it\n"},
        {DE("backup = \"x\";"), NOT_FOR("delayed_queue", "backup") "delayedQueue has no list of jobs in progress\n"},
        {DE("errors = \"x\";"),
         NOT_FOR("delayed_queue", "errors") "delayedQueue's workers report no errors: an event that was not "
                                            "handled stays where it is\n"},
        {DE("dlq = \"x\";"), NOT_FOR("delayed_queue", "dlq") "the audit log keeps ended events\n"},
        {DE("alive_timeout = \"1h\";"), NOT_FOR("delayed_queue", "alive_timeout") "an event lives as long as it has attempts: "
                                                                                  "`retry_attempts` and `delays`\n"},
        {DE("heartbeat = \"off\";"),
         NOT_FOR("delayed_queue", "heartbeat") "delayedQueue has no heartbeats: an event is sent again after its "
                                               "delay until a handler removes it\n"},
        {DE("retry_times = 3;"), NOT_FOR("delayed_queue", "retry_times") "`retry_attempts` takes its place\n"},
        {DE("retry_window = \"24h\";"), NOT_FOR("delayed_queue", "retry_window") "an event counts its attempts itself\n"},
        {DE("retry_jitter = 0;"), NOT_FOR("delayed_queue", "retry_jitter") "`delays` takes its place\n"},
        {DE("ready_limit = 5;"),
         NOT_FOR("delayed_queue", "ready_limit") "delayedQueue sends due events, however long its lists are\n"},
        {DE("score_unit = \"ms\";"), NOT_FOR("delayed_queue", "score_unit") "its scores are milliseconds\n"},
        {DE("created_path = \"/t\";"), NOT_FOR("delayed_queue", "created_path") "an event's member says its class and id\n"},
        {DE("end_duplicates = true;"), NOT_FOR("delayed_queue", "end_duplicates") "an event is known by its id, so there are no "
                                                                                  "duplicates\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_refusals, sidekiq_names_the_replacement_key) {
    static const config_case_row_t rows[] = {
        {SK("set = \"retry\"; roles = [\"dispatcher\", \"monitor\"];"),
         F "`roles` must be [\"dispatcher\"] where `set` is \"retry\": the other entry has the monitor\n"},
        {"defaults = { roles = [\"monitor\"]; }; " SK("set = \"retry\";"),
         F "`roles` of `defaults` leaves set = \"retry\" nothing to do: give the queue roles = [\"dispatcher\"]\n"},
        {SK("dead_after = \"19s\";"), F "`dead_after` is \"19s\", but must be a duration from \"20s\" to \"55s\"\n"},
        {SK("queues = [\"a\", \"a\"];"), F "`queues` names \"a\" twice\n"},
        {SK("ready = \"x\";"), NOT_FOR("sidekiq", "ready") "`prefix` and `queues` name Sidekiq's keys\n"},
        {SK("retry_times = 1;"), NOT_FOR("sidekiq", "retry_times") "the job option retry takes its place\n"},
        {SK("score_unit = \"ms\";"), NOT_FOR("sidekiq", "score_unit") "Sidekiq's scores are seconds\n"},
        {"redis = { mode = \"cluster\"; }; " SK(""),
         F "the keys of Sidekiq lie in many slots, so it cannot work in a Cluster: remove the queue\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_refusals, sidekiq_warns_of_a_namespace_without_colon) {
    char *warnings;
    config_free(config_case_good(SK("prefix = \"shop\";"), &warnings));
    cr_expect_str_eq(warnings, F "`prefix` has no colon at its end, and redis-namespace puts one there: \"shop:\"\n");
    config_free(config_case_good(SK("prefix = \"shop:\";"), &warnings));
    cr_expect_str_eq(warnings, "");
}

Test(unit_config_refusals, bullmq_names_the_replacement_key) {
    static const config_case_row_t rows[] = {
        {"defaults = { roles = [\"dispatcher\"]; }; " BM(""),
         F "`roles` of `defaults` leaves dialect bullmq nothing to do: give the queue roles = [\"monitor\"]\n"},
        {BM("prefix = \"\";"), F "`prefix` is \"\", but a prefix of Bull has 1 to 256 bytes\n"},
        {BM("ready = \"x\";"), NOT_FOR("bullmq", "ready") "`prefix` and `bull_queue` name BullMQ's keys\n"},
        {BM("dlq = \"x\";"), NOT_FOR("bullmq", "dlq") "BullMQ keeps failed jobs in its set failed\n"},
        {BM("alive_timeout = \"1h\";"),
         NOT_FOR("bullmq", "alive_timeout") "BullMQ's workers fail a job that stalled too often; see `max_stalled`\n"},
        {BM("retry_times = 1;"),
         NOT_FOR("bullmq", "retry_times") "`max_stalled` takes its place for workers that die, and the job "
                                          "option attempts for handlers that fail\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

Test(unit_config_refusals, bull_and_private_queues_name_the_replacement_key) {
    static const config_case_row_t rows[] = {
        {BU("backup = \"x\";"), NOT_FOR("bull", "backup") "`prefix` and `bull_queue` name Bull's keys\n"},
        {BU("errors = \"x\";"),
         NOT_FOR("bull", "errors") "Bull keeps errors in the job and in its set failed; see `record_failed`\n"},
        {BU("dlq = \"x\";"), NOT_FOR("bull", "dlq") "Bull keeps failed jobs in its set failed\n"},
        {BU("protected_timeout = \"3m\";"),
         NOT_FOR("bull", "protected_timeout") "`stalled_interval` takes its place, and the worker's lockDuration says how long a "
                                              "job is safe without a renewal of its lock\n"},
        {BU("alive_kills = true;"),
         NOT_FOR(
             "bull",
             "alive_kills") "a worker that renews the lock of a job could not complete the job after the sidecar had ended it\n"},
        {BU("heartbeat = \"*\";"),
         NOT_FOR("bull", "heartbeat") "the job's lock is its heartbeat: lockDuration and lockRenewTime of "
                                      "the worker's settings\n"},
        {BU("retry_times = 3;"), NOT_FOR("bull", "retry_times") "`max_stalled` takes its place for workers that die, and the job "
                                                                "option attempts for handlers that fail\n"},
        {BU("retry_window = \"1h\";"), NOT_FOR("bull", "retry_window") "Bull counts the stalls of a job for ever, in its hash\n"},
        {BU("retry_backoff = \"none\";"), NOT_FOR("bull", "retry_backoff") "Bull's job option backoff takes its place\n"},
        {BU("ready_limit = 1;"), NOT_FOR("bull", "ready_limit") "Bull's option limiter takes its place\n"},
        {BU("score_unit = \"s\";"), NOT_FOR("bull", "score_unit") "Bull has its own unit of scores\n"},
        {BU("type_path = \"/t\";"), NOT_FOR("bull", "type_path") "Bull keeps id, timestamp and name in the job's hash\n"},
        {BU("end_duplicates = true;"), NOT_FOR("bull", "end_duplicates") "Bull's jobs have ids, so there are no duplicates\n"},
        {PQ("ready = \"x\";"), NOT_FOR("private_queues", "ready") "`main` names it\n"},
        {PQ("delayed = \"x\";"), NOT_FOR("private_queues", "delayed") "nothing is delayed in private lists\n"},
        {PQ("backup = \"x\";"),
         NOT_FOR("private_queues", "backup") "`private` or `registry` names the lists of jobs in progress\n"},
        {PQ("errors = \"x\";"), NOT_FOR("private_queues", "errors") "workers report by the list `dlq`\n"},
        {PQ("retry_backoff = \"exponential\";"),
         F "`retry_backoff` must be \"none\" in dialect private_queues: there is no delayed "
           "zset, so a retry goes back at once\n"},
        {PQ("retry_delay_max = \"1h\";"),
         NOT_FOR("private_queues", "retry_delay_max") "there is no delayed zset, so a retry goes back "
                                                      "at once\n"},
        {PQ("ready_limit = 1;"), NOT_FOR("private_queues", "ready_limit") "nothing is delayed, so nothing is promoted\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}

/* The error for a setting of other dialects names these dialects. */
#define ST(more) ONE("dialect = \"stream\"; group = \"g\"; " more)
Test(unit_config_refusals, reports_missing_or_wrong_keys_of_stream) {
    static const config_case_row_t rows[] = {
        {ONE("dialect = \"stream\";"), F "it has no `group`: dialect stream needs the consumer group that workers read by\n"},
        {ST("ready = \"x\";"), F "`ready` is not for dialect stream: `stream` names the stream that workers read\n"},
        {ST("backup = \"x\";"),
         F "`backup` is not for dialect stream: the pending entries of `group` are the jobs in progress\n"},
        {ST("ready_limit = 5;"),
         F "`ready_limit` is not for dialect stream: the length of a stream counts finished entries too\n"},
        {ST("dlq = \"q\";"), "F:1: queue `q`: its stream and its dlq are the same key `q`\n"},
        {ONE("heartbeat = \"consumer\";"),
         F "`heartbeat` is \"consumer\", but only dialect stream has consumers: use a key with one *, or \"off\"\n"},
        {ST("stream = \"sidecar:x\";"), NULL},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows - 1);
    config_free(config_case_good(ST("heartbeat = \"consumer\";"), NULL));
}

Test(unit_config_refusals, names_the_group_of_a_misplaced_key) {
    static const config_case_row_t rows[] = {
        {ONE("prefix = \"x\";"), F "`prefix` is for delayed_queue, bull, bullmq and sidekiq: remove it, or set `dialect`\n"},
        {ONE("queues = [\"x\"];"), F "`queues` is for kmqueue and sidekiq: remove it, or set `dialect`\n"},
        {ONE("types = 5;"), F "`types` is for delayed_queue: remove it, or set `dialect`\n"},
        {KM("take = \"left\";"), F "`take` is for list: remove it, or set `dialect`\n"},
        {PQ("watch = \"w\";"), F "`watch` is for list: remove it, or set `dialect`\n"},
        {KM("backup = \"\";"), F "`backup` is \"\", but KMQueue always has a backup list\n"},
        {BU("types = [\"a.B\"];"), F "`types` is for delayed_queue: remove it, or set `dialect`\n"},
        {KM("max_stalled = 1;"), F "`max_stalled` is for bull and bullmq: remove it, or set `dialect`\n"},
        {"queues = ( { main = \"m\"; name = \"q\"; } );", F "`main` is for private_queues: remove it, or set `dialect`\n"},
        {ONE("dialect = \"bul\"; max_stalled = 1;"),
         F "`dialect` is \"bul\", but must be one of \"list\", \"kmqueue\", "
           "\"delayed_queue\", \"bull\", \"bullmq\", \"private_queues\", \"stream\", \"sidekiq\"\n"},
        {"defaults = { prefix = \"x\"; };\n" ONE(""), "F:1: `defaults`: unknown key `prefix`: it belongs in a queue\n"},
        {BU("prefx = \"x\";"), F "unknown key `prefx`: did you mean `prefix`?\n"},
        {BM("bul_queue = \"x\";"), F "unknown key `bul_queue`: did you mean `bull_queue`?\n"},
        {BM("queue = \"x\";"), F "unknown key `queue`: `queue-sidecar help keys` lists all\n"}, /* `queues` is of others */
        {BU("zzzzzzzz = 1;"), F "unknown key `zzzzzzzz`: `queue-sidecar help keys` lists all\n"},
    };
    config_case_expect_faults(rows, sizeof rows / sizeof *rows);
}
