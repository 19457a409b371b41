/* private_queues with the rights of docs/acl.md, and with one of these rights missing: no job is lost. */
#include "inspect/preflight.h"
#include "private_fixture.h"
#include "rights.h"

#define PUBLISHED                                                                                                                \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = \"private_queues\"; "    \
    "main = \"fight-requests\"; private = \"queue-*\"; dlq = \"fights-dlq\"; dedup = \"fights-done\"; id_path = \"/id\"; "       \
    "retry_times = 0; protected_timeout = \"100ms\"; heartbeat = \"fights:*_alive\"; } );"

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    (void)queue;
    if (finding != PREFLIGHT_FACT && finding != PREFLIGHT_WARNING) buffer_printf(self, "%s\n", text);
}

static void put(setup_t *d) {
    redis_ok(d->f.r, "FLUSHALL");
    instance_lead(&d->instance, d->f.r);
    redis_ok(d->f.r, "LPUSH queue-w1 %s", "{\"id\":1}");
    redis_ok(d->f.r, "LPUSH queue-w2 %s", "{\"id\":2}");
    redis_ok(d->f.r, "SADD fights-done 2");
    redis_ok(d->f.r, "LPUSH fights-dlq theirs");
}

static setup_t d;
SUITE(redis_private_acl, , close_setup(&d));

Test(redis_private_acl, the_published_lines_are_enough) {
    scoped(rights_free) rights_t rights = rights_read("private_queues");
    open_setup(&d, (fixture_options_t){.config = PUBLISHED, .redis = RIGHTS_LOGIN});
    rights_grant(d.f.r, &rights, NULL);
    put(&d);
    until(&d, reasons(&d, "retries_exhausted") == 1 && reasons(&d, "dead_letter") == 1);
    until(&d, metric_get(&of(&d)->duplicates_dropped) == 1);
    cr_assert_eq(count(&d, "LLEN fights-dlq"), 2);
    cr_assert_eq(rights_refused(d.f.r), 0);
    scoped(buffer_free) buffer_t said = {0};
    redis_error_t error;
    scoped(conn_drop) conn_t *conn = conn_new(d.f.shard, "test", NULL);
    cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
    cr_assert_eq(preflight(&(preflight_call_t){conn, d.f.keys, note, &said, &error}), OUTCOME_OK, "%s", error.text);
    cr_assert_eq(said.len, 0, "%s", buffer_text(&said));
}

/* The job stays in its list or goes to dlq: never both, never neither. */
Test(redis_private_acl, without_any_one_right_no_job_is_lost, .timeout = 120) {
    scoped(rights_free) rights_t rights = rights_read("private_queues");
    for (size_t i = rights.own; i < rights.count; i++) {
        if (strcmp(rights.words[i], "+sscan") == 0) continue; /* only a registry needs it */
        open_setup(&d, (fixture_options_t){.config = PUBLISHED, .redis = RIGHTS_LOGIN});
        rights_grant(d.f.r, &rights, rights.words[i]);
        put(&d);
        until(&d, fixture_log_count("refuses") > 0);
        driver_run(&d.instance.driver, 300);
        long long one = there(&d, "queue-w1", "{\"id\":1}"), ended = reasons(&d, "retries_exhausted");
        cr_assert_eq(one + ended, 1, "without %s: %lld and %lld", rights.words[i], one, ended);
        cr_assert_eq(there(&d, "fights-dlq", "{\"id\":1}"), ended, "without %s", rights.words[i]);
        cr_assert_eq(there(&d, "fights-dlq", "theirs"), 1, "without %s", rights.words[i]);
        close_setup(&d);
    }
}

/* The right to read lists is withdrawn while a job is in progress. A forgotten stamp would give the job all its retries again. */
Test(redis_private_acl, the_retries_of_jobs_are_kept_while_redis_refuses_all_lists) {
    open_setup(&d, (fixture_options_t){.config = FIGHTS_IN("1h", ""), .redis = RIGHTS_LOGIN});
    redis_ok(d.f.r, "ACL SETUSER sidecar reset on >secret +@all ~* &*");
    instance_lead(&d.instance, d.f.r);
    take(&d, "w1", "job");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 1);
    redis_ok(d.f.r, "ACL SETUSER sidecar -lindex");
    redis_ok(d.f.r, "ACL LOG RESET");
    until(&d, rights_refused(d.f.r) > 0);
    driver_run(&d.instance.driver, 500); /* several scans */
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), 1);
    redis_ok(d.f.r, "ACL SETUSER sidecar +lindex");
    redis_ok(d.f.r, "LPOP queue-w1");
    until(&d, count(&d, "HLEN sidecar:email:stamps") == 0);
}

/* The registry names keys that the ACL forbids: the monitor logs these keys and scans the other lists. */
Test(redis_private_acl, a_refused_name_in_the_registry_does_not_stop_the_others) {
    scoped(rights_free) rights_t rights = rights_read("private_queues");
    open_setup(&d,
               (fixture_options_t){
                   .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = "
                             "\"private_queues\"; main = \"fight-requests\"; registry = \"email:workers\"; "
                             "protected_timeout = \"100ms\"; } );",
                   .redis = RIGHTS_LOGIN});
    rights_grant(d.f.r, &rights, NULL);
    redis_ok(d.f.r, "RPUSH bank precious");
    redis_ok(d.f.r, "SADD email:workers queue-w1 bank queue-w2 another-bank");
    redis_ok(d.f.r, "LPUSH queue-w1 one");
    redis_ok(d.f.r, "LPUSH queue-w2 two");
    until(&d, there(&d, "fight-requests", "one") + there(&d, "fight-requests", "two") == 2);
    cr_assert(fixture_log_count("\"reason\":\"bank: ") > 0 && fixture_log_count("\"reason\":\"another-bank: ") > 0);
    cr_assert_eq(count(&d, "LLEN bank"), 1);
}

#define OF "dialect = \"private_queues\"; private = \""
static const char EACH_KIND[] = "group = \"app\"; queues = ( { name = \"a\"; main = \"a-main\"; " OF "a-*\"; }, "
                                "{ name = \"b\"; main = \"b-main\"; dialect = \"private_queues\"; registry = \"workers\"; }, "
                                "{ name = \"c\"; main = \"c-main\"; " OF "c-*\"; }, "
                                "{ name = \"d\"; main = \"d-main\"; " OF "d-*\"; dedup = \"done\"; id_path = \"/id\"; }, "
                                "{ name = \"e\"; main = \"e-main\"; " OF "e-*\"; dlq = \"dead\"; } );";

static void note_disabled(void *self, preflight_level_t finding, const char *queue, const char *text) {
    (void)text;
    if (finding == PREFLIGHT_QUEUE_DISABLED) buffer_str(self, queue);
}

/* Each queue needs the rights of its own settings; the first queue of a dialect does not decide for the others. */
Test(redis_private_acl, disables_only_the_queue_that_needs_a_missing_right) {
    static const char *const rights[][2] = {{"sscan", "b"},   {"sismember", "d"}, {"zscore", "e"},
                                            {"scan", "acde"}, {"lpos", "abcde"},  {"linsert", ""}};
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = EACH_KIND});
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        scoped(buffer_free) buffer_t said = {0};
        redis_ok(f.r, "ACL SETUSER default +@all -%s", rights[i][0]);
        cr_assert_eq(preflight(&(preflight_call_t){f.conn, f.keys, note_disabled, &said, &f.error}), OUTCOME_OK, "%s",
                     f.error.text);
        cr_expect_str_eq(buffer_text(&said), rights[i][1], "without %s: %s", rights[i][0], buffer_text(&said));
    }
}
