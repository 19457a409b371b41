/* Dialect sidekiq takes keys of Sidekiq for its own and refuses others by name and version; records its dead jobs, also 20,000;
 * and requeues them. */
#include "dialects/failed/failed_reader.h"
#include "dialects/registry.h"
#include "dialects/sidekiq/internal.h"
#include "dialects/sidekiq/scripts.h"
#include "sidekiq_jobs.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; queues = ( { name = \"video\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; "               \
    "max_payload = \"1KiB\"; } );"
#define INFO(version) "'{\"hostname\":\"h\",\"pid\":1,\"labels\":[]" version "}'"

static setup_t setup;
static redis_t *r;
SUITE(redis_sidekiq, setup = setup_open(&(fixture_options_t){.config = CONFIG}, &sidekiq_dead_task);
      r = setup.f.r, setup_stop(&setup));

static char *refusal(void) {
    buffer_t text = {0};
    const call_t call = fixture_call(&setup.f, NULL);
    cr_assert_eq(dialect_sidekiq.adopt(&call, &text), OUTCOME_OK, "%s", setup.f.error.text);
    char *said = kept_printf("%s", buffer_text(&text));
    buffer_free(&text);
    return said;
}

static void process(const char *name, const char *version, bool rtt) {
    redis_ok(r, "SADD processes %s", name);
    redis_ok(r, "HSET %s info %s", name,
             kept_printf("{\"hostname\":\"h\"%s%s%s}", *version ? ",\"version\":\"" : "", version, *version ? "\"" : ""));
    if (rtt) redis_ok(r, "HSET %s rtt_us 90", name);
}

Test(redis_sidekiq, adopts_only_what_it_knows) {
    static const struct {
        const char *version, *said;
        bool rtt, names, jobs;
    } rows[] = {
        {NULL, "", false, false, false},
        {NULL, "", false, true, true},
        {"", "", true, true, false}, /* 6.4 to 7.2 */
        {"7.3.9", "", true, true, true},
        {"8.1.7", "", true, true, true},
        {"8.9.0", "", true, true, true},
        {NULL,
         "the queue does not belong to Sidekiq: there are jobs in queue:default, but no set queues, in which Sidekiq notes its "
         "queues",
         false, false, true},
        {"", "the process \"h:1:a\" is of Sidekiq before 6.4: dialect sidekiq serves Sidekiq 6.4 to 8", false, true, true},
        {"9.0.0", "the process \"h:1:a\" is of Sidekiq \"9.0.0\": dialect sidekiq serves Sidekiq 6.4 to 8", true, true, true},
        {"x\\\"y", "the process \"h:1:a\" is of Sidekiq \"x\\\"y\": dialect sidekiq serves Sidekiq 6.4 to 8", true, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(r, "FLUSHALL");
        if (rows[i].version) process("h:1:a", rows[i].version, rows[i].rtt);
        if (rows[i].names) redis_ok(r, "SADD queues default");
        if (rows[i].jobs) redis_ok(r, "LPUSH queue:default {}");
        char *said = refusal();
        cr_expect_str_eq(said, rows[i].said, "row %zu: %s", i, said);
    }
}

Test(redis_sidekiq, keys_of_another_type_are_an_error_that_names_the_type) {
    buffer_t text = {0};
    const call_t call = fixture_call(&setup.f, NULL);
    redis_ok(r, "SET processes 1");
    cr_assert_eq(dialect_sidekiq.adopt(&call, &text), OUTCOME_REFUSED);
    cr_expect_not_null(strstr(setup.f.error.text, "WRONGTYPE"), "%s", setup.f.error.text);
    cr_expect_eq(text.len, 0);
}

static void add_note(void *self, bool lost, size_t queue, const char *text) {
    buffer_printf(self, "%s%zu %s\n", lost ? "lost " : "", queue, text);
}

Test(redis_sidekiq, notes_a_version_that_was_not_tested) {
    static const char *const known[] = {"", "7.3.9", "8.1.7", "8.1.9", "9.9.9"};
    scoped(buffer_free) buffer_t said = {0};
    const call_t call = fixture_call(&setup.f, NULL);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        process("h:1:a", known[i], true);
        cr_assert_eq(dialect_sidekiq.survey(&call, add_note, &said), OUTCOME_OK);
        cr_assert_eq(said.len, 0, "%s: %s", known[i], buffer_text(&said));
    }
    process("h:1:a", "8.2.0", true);
    cr_assert_eq(dialect_sidekiq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_str_eq(buffer_text(&said), "0 Sidekiq 8.2 of the process h:1:a is newer than 8.1, the newest that dialect sidekiq "
                                         "was tested with\n");
}

/* Its killed processes' jobs would be lost without a word. */
Test(redis_sidekiq, notes_queues_that_the_config_lacks) {
    scoped(buffer_free) buffer_t said = {0};
    const call_t call = fixture_call(&setup.f, NULL);
    redis_ok(r, "SADD queues default mailers");
    cr_assert_eq(dialect_sidekiq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_str_eq(buffer_text(&said), "");
    redis_ok(r, "SADD queues low %s z", "a b");
    cr_assert_eq(dialect_sidekiq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_str_eq(
        buffer_text(&said),
        "0 Sidekiq has the queue \"a b\", and 2 more, which `queues` lacks: due jobs stay there for Sidekiq's poller, and "
        "jobs of killed processes are lost: add it, if processes serve it\n");
    redis_ok(r, "DEL queues");
    redis_ok(r, "SET queues x");
    cr_expect_eq(dialect_sidekiq.survey(&call, add_note, &said), OUTCOME_OK);
}

static void die(const char *job, long long ahead_ms) {
    redis_ok(r, "ZADD dead %.6f %s", (double)(redis_ms(r) + ahead_ms) / 1000, job);
}

Test(redis_sidekiq, records_dead_jobs) {
    const char *job = JOB_6("j6", FAILED("0", "1700000001.5"));
    read_failures(&setup);
    die(job, -2);
    die(JOB_8("j8", FAILED("24", "1700000001500")), -1);
    die("{\"jid\":\"twice\",\"jid\":\"b\"}", 0);
    read_failures(&setup);
    expect_jobs(&setup, kept_printf("j6 j8 %s", redis_str(r, "EVAL %s 0 %s", "return redis.sha1hex(ARGV[1])",
                                                          "{\"jid\":\"twice\",\"jid\":\"b\"}")));
    expect_records(r, "type", "Mail WelcomeMail");
    expect_records(r, "reason", "worker_failed worker_failed worker_failed");
    expect_records(r, "error", "RuntimeError: boom \xc3\xa9 RuntimeError: boom \xc3\xa9");
    expect_records(r, "attempts", "1 25");
    expect_records(r, "created", "1700000000123 1700000000123");
    expect_records(r, "payload",
                   kept_printf("%s %s {\"jid\":\"twice\",\"jid\":\"b\"}", job, JOB_8("j8", FAILED("24", "1700000001500"))));
    cr_expect_eq(redis_int(r, "ZCARD dead"), 3);
}

/* Sidekiq drops the oldest of more than 10,000; other settings of dead_max_jobs keep more. */
Test(redis_sidekiq, records_20000_dead_jobs, .timeout = 120) {
    read_failures(&setup);
    redis_ok(r, "EVAL %s 1 dead %s",
             "for i = 1, 20000 do redis.call('ZADD', KEYS[1], (ARGV[1] + i / 1000) / 1000, '{\"class\":\"C\",\"jid\":\"' .. i .. "
             "'\"}') end",
             kept_printf("%lld", redis_ms(r)));
    read_failures(&setup);
    cr_expect_eq(redis_int(r, "XLEN sidecar:video:failures"), 20000);
    forget_state(&setup); /* another leader */
    read_failures(&setup);
    cr_expect_eq(redis_int(r, "XLEN sidecar:video:failures"), 20000);
}

/* ---- Requeue. */

#define EVENT "0123456789abcdef"
static eval_t requeue_call(const char *again) {
    eval_t call = call_begin(&script_sidekiq_requeue, "6");
    const char *const words[] = {SIDECAR "requeued",
                                 SIDECAR "failures",
                                 SIDECAR "meta",
                                 "queue:mailers",
                                 "queues",
                                 "dead",
                                 EVENT,
                                 "ann@host",
                                 again,
                                 "{\"new\":1}",
                                 "mailers",
                                 "{\"old\":1}",
                                 "9",
                                 "kind",
                                 "requeued"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) call_text(&call, words[i]);
    return call;
}

Test(redis_sidekiq, a_requeue_pushes_once_and_takes_the_job_from_dead) {
    redis_ok(r, "ZADD dead 1 %s 2 %s", "{\"old\":1}", "{\"other\":1}");
    redis_ok(r, "LPUSH queue:mailers before");
    eval_t call = requeue_call("0");
    expect_word(call_end(&call, r), "done");
    redis_expect(r, "{\"new\":1}", "LINDEX queue:mailers 0");
    cr_expect_eq(redis_int(r, "ZCARD dead"), 1);
    redis_expect(r, "2", "ZSCORE dead {\"other\":1}");
    cr_expect_eq(redis_int(r, "SISMEMBER queues mailers"), 1);
    call = requeue_call("0");
    expect_word(call_in_vain(&call, r), "known");
    call = requeue_call("1"); /* the member is gone: the log has the job */
    expect_word(call_end(&call, r), "done");
    cr_expect_eq(redis_int(r, "LLEN queue:mailers"), 3);
}

Test(redis_sidekiq, a_requeue_changes_nothing_beside_a_key_of_the_wrong_type) {
    static const char *const keys[][2] = {{SIDECAR "requeued", "hash"},
                                          {SIDECAR "failures", "stream"},
                                          {SIDECAR "meta", "hash"},
                                          {"queue:mailers", "list"},
                                          {"queues", "set"},
                                          {"dead", "zset"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k][1]) {
            redis_ok(r, "FLUSHALL");
            fixture_make_key(r, keys[k][0], type);
            eval_t call = requeue_call("0");
            expect_type(call_in_vain(&call, r), keys[k][0], type);
        }
}

Test(redis_sidekiq, a_requeue_refuses_rows_that_name_no_queue_of_the_config) {
    static const struct {
        const char *payload, *why;
    } rows[] = {{JOB_8("a", ""), ""},
                {"{\"queue\":\"other\",\"jid\":\"a\"}",
                 "its queue `other` is not in `queues` of the config: add it there, if processes serve it"},
                {"{\"jid\":\"a\"}", "its queue `` is not in `queues` of the config: add it there, if processes serve it"},
                {"{\"queue\":\"default\",\"queue\":\"mailers\"}", "its payload in the audit log is not a job of Sidekiq"},
                {"x", "its payload in the audit log is not a job of Sidekiq"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(buffer_free) buffer_t bytes = {0}, why = {0};
        requeue_push_t push = {0};
        event_t row = {.payload = slice_text(rows[i].payload)};
        bool good = sidekiq_requeue.prepare(setup.f.keys->queues[0].config, &row, 1800000000007, &push, &bytes, &why);
        cr_expect_eq(good, *rows[i].why == '\0');
        cr_expect_str_eq(buffer_text(&why), rows[i].why, "row %zu: %s", i, buffer_text(&why));
        if (good) cr_expect_str_eq(push.ready, "queue:mailers");
    }
}
