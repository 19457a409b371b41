/* watch: the monitor records each entry of a dead letter list that workers fill, once. The entries stay in the list. The tests of
 * redis_dead_letters show more of the same code. */
#include "dialects/letters_fixture.h"
#include "inspect/preflight.h"
#include "monitor/tasks.h"
#include "rights.h"

#define WATCHED(settings)                                                                                                        \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; watch = \"email:dead\"; backup = " \
    "\"\"; roles = [\"monitor\"]; " settings " } );"
#define BESIDE(settings) ALONE("watch = \"email:dead\"; " settings)

#define LETTER           "{\"id\":\"a1\",\"type\":\"letter\"}"

static setup_t d;
SUITE(redis_list_watch, , close_setup(&d));

static void open_watch(const char *config) { open_setup(&d, (fixture_options_t){.config = config}); }

Test(redis_list_watch, dead_letters_are_recorded_once_and_stay) {
    open_watch(WATCHED("id_path = \"/id\"; type_path = \"/type\"; on_failure = \"told\";"));
    redis_ok(d.f.r, "LPUSH email:dead old older"); /* from before the first start of the sidecar */
    until(&d, reasons(&d, "dead_letter") == 2);
    redis_ok(d.f.r, "LPUSH email:dead %s", LETTER);
    until(&d, reasons(&d, "dead_letter") == 3);
    cr_expect_eq(count(&d, "LLEN told"), 3);
    expect_value(&d, "failed", "job", "a1");
    expect_value(&d, "failed", "type", "letter");
    expect_value(&d, "failed", "dialect", "list");
    expect_value(&d, "failed", "queue", "email");
    expect_value(&d, "failed", "payload", LETTER);
    instance_lead(&d.instance, d.f.r); /* another leader */
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    redis_ok(d.f.r, "LTRIM email:dead 0 1");
    redis_ok(d.f.r, "RPUSH email:dead at-the-other-end");
    until(&d, reasons(&d, "dead_letter") == 4);
    driver_run(&d.instance.driver, 200);
    cr_assert_eq(records(&d), 4);
    cr_assert_eq(count(&d, "LLEN email:dead"), 3);
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_dead_letter]), 4);
}

Test(redis_list_watch, tracking_triggers_a_read) {
    open_watch("group = \"app\"; monitor = { scan_interval = \"1h\"; }; queues = ( { name = \"email\"; watch = \"email:dead\"; "
               "backup = \"\"; roles = [\"monitor\"]; } );");
    driver_settle(&d.instance.driver, d.f.r);
    fixture_hold_boottime(); /* so that no read happens without tracking */
    redis_ok(d.f.r, "LPUSH email:dead job");
    until(&d, reasons(&d, "dead_letter") == 1);
    cr_assert_eq(reasons(&d, "dead_letter"), 1);
}

/* Nobody has said that the lists of the default names belong to the queue. */
Test(redis_list_watch, without_a_backup_list_nothing_else_is_touched) {
    open_watch(WATCHED("protected_timeout = \"50ms\"; alive_timeout = \"1h\"; created_path = \"/t\";"));
    redis_ok(d.f.r, "RPUSH email:backup foreign1 foreign2");
    redis_ok(d.f.r, "RPUSH email:errors no hash");
    redis_ok(d.f.r, "LPUSH email:dead job");
    until(&d, reasons(&d, "dead_letter") == 1);
    requeue_job(&d, "job", "email");
    driver_run(&d.instance.driver, 500);
    cr_assert_eq(there(&d, "email", "job"), 1);
    redis_expect(d.f.r, "foreign1", "LINDEX email:backup 0");
    redis_expect(d.f.r, "foreign2", "LINDEX email:backup 1");
    cr_assert_eq(count(&d, "LLEN email:backup"), 2);
    cr_assert_eq(count(&d, "EXISTS sidecar:email:stamps sidecar:email:sentinel"), 0, "nobody would remove them");
    cr_assert_eq(metric_get(&of(&d)->passes), 0);
    cr_assert_eq(fixture_log_count("email:errors"), 0);
}

Test(redis_list_watch, jobs_in_progress_are_served_beside_a_watched_list) {
    open_watch(BESIDE("retry_times = 0; dlq = \"email:ended\";"));
    work_on(&d, "stalls");
    redis_ok(d.f.r, "LPUSH email:dead theirs");
    until(&d, reasons(&d, "dead_letter") == 1 && reasons(&d, "retries_exhausted") == 1);
    cr_assert_eq(there(&d, "email:ended", "stalls"), 1);
    cr_assert_eq(there(&d, "email:dead", "stalls"), 0);
}

/* One list for people: what the sidecar ends and what workers push. */
Test(redis_list_watch, a_list_that_is_dlq_too_gives_no_second_record) {
    open_watch(BESIDE("retry_times = 0; dlq = \"email:dead\";"));
    work_on(&d, "stalls");
    until(&d, there(&d, "email:dead", "stalls"));
    redis_ok(d.f.r, "LPUSH email:dead theirs");
    until(&d, reasons(&d, "dead_letter") == 1);
    instance_lead(&d.instance, d.f.r);
    redis_ok(d.f.r, "LPUSH email:dead another");
    until(&d, reasons(&d, "dead_letter") == 2);
    driver_run(&d.instance.driver, 200);
    cr_assert_eq(reasons(&d, "retries_exhausted"), 1);
    cr_assert_eq(records(&d), 3);
    requeue_job(&d, "stalls", "email");
    cr_assert_eq(there(&d, "email:dead", "stalls"), 0);
    cr_assert_eq(there(&d, "email", "stalls"), 1);
}

Test(redis_list_watch, a_requeued_job_leaves_the_list_and_may_come_again) {
    open_watch(WATCHED("take = \"left\";"));
    redis_ok(d.f.r, "RPUSH email waits");
    redis_ok(d.f.r, "LPUSH email:dead other job");
    until(&d, reasons(&d, "dead_letter") == 2);
    requeue_job(&d, "job", "email");
    redis_expect(d.f.r, "job", "LINDEX email 1"); /* behind the job that waits */
    cr_assert_eq(there(&d, "email:dead", "job"), 0);
    cr_assert_eq(there(&d, "email:dead", "other"), 1);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(reasons(&d, "dead_letter"), 2);
    redis_ok(d.f.r, "LMOVE email email:dead RIGHT LEFT"); /* the job fails again */
    until(&d, reasons(&d, "dead_letter") == 3);
}

Test(redis_list_watch, a_requeued_job_of_another_queue_removes_no_dead_letter) {
    open_watch(WATCHED(""));
    redis_ok(d.f.r, "LPUSH email:dead job");
    until(&d, reasons(&d, "dead_letter") == 1);
    requeue_job(&d, "job", "gone");
    cr_assert_eq(there(&d, "email", "job"), 1);
    cr_assert_eq(there(&d, "email:dead", "job"), 1);
}

Test(redis_list_watch, an_oversized_entry_is_named_without_a_record) {
    char large[3000];
    memset(large, 'L', sizeof large);
    open_watch(WATCHED("max_payload = \"2KiB\";"));
    redis_ok(d.f.r, "RPUSH email:dead %b small", large, sizeof large);
    until(&d, reasons(&d, "dead_letter") == 1);
    until(&d, fixture_log_count("did not record a dead letter that is larger") > 0);
    cr_assert_eq(metric_get(&of(&d)->large), 1);
    cr_assert_eq(records(&d), 1);
}

Test(redis_list_watch, a_key_of_the_wrong_type_is_named_and_jobs_go_on) {
    open_watch(BESIDE("retry_times = 1;"));
    redis_ok(d.f.r, "ZADD email:dead 1 text");
    work_on(&d, "job");
    until(&d, waiting(&d, "job"));
    until(&d, fixture_log_count("email:dead holds a zset") > 0);
    cr_assert_eq(reasons(&d, "dead_letter"), 0);
}

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    (void)queue;
    if (finding != PREFLIGHT_FACT && finding != PREFLIGHT_WARNING) buffer_printf(self, "%s\n", text);
}

/* With any right missing nothing is moved, and the record comes when the right is back. */
Test(redis_list_watch, the_published_rights_are_enough_and_a_missing_one_waits, .timeout = 60) {
    scoped(rights_free) rights_t rights = rights_read("watch");
    open_setup(&d, (fixture_options_t){.config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = "
                                                 "\"email\"; ready = \"mail\"; watch = \"mail:dead\"; backup = \"\"; roles = "
                                                 "[\"monitor\"]; } );",
                                       .redis = RIGHTS_LOGIN});
    for (size_t i = rights.own; i <= rights.count; i++) {
        const char *without = i < rights.count ? rights.words[i] : NULL;
        if (without && strcmp(without, "~mail") == 0) continue; /* only a requeue needs it */
        redis_ok(d.f.r, "FLUSHALL");
        rights_grant(d.f.r, &rights, without);
        instance_lead(&d.instance, d.f.r);
        redis_ok(d.f.r, "LPUSH mail:dead job");
        if (without) {
            int before = fixture_log_count("refuses");
            until(&d, fixture_log_count("refuses") > before);
            cr_assert_eq(records(&d), 0, "without %s", without);
            rights_grant(d.f.r, &rights, NULL);
            fixture_step_boottime(TASK_REFUSED_MS + 1);
        }
        until(&d, reasons(&d, "dead_letter") == 1);
        cr_assert_eq(there(&d, "mail:dead", "job"), 1);
    }
    scoped(buffer_free) buffer_t said = {0};
    redis_error_t error;
    scoped(conn_drop) conn_t *conn = conn_new(d.f.shard, "test", NULL);
    cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
    cr_assert_eq(preflight(&(preflight_call_t){conn, d.f.keys, note, &said, &error}), OUTCOME_OK, "%s", error.text);
    cr_assert_eq(said.len, 0, "%s", buffer_text(&said));
}
