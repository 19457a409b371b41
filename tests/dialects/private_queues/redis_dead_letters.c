/* private_queues: the monitor records each entry of the workers' dead letter list once. The entries stay in the list. */
#include "private_fixture.h"

#define LETTERS(settings) FIGHTS("dlq = \"fights-dlq\"; " settings)

#define TRACE_TEXT        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define LETTER            "{\"id\":\"a1\",\"type\":\"fight\",\"t\":\"" TRACE_TEXT "\"}"

static setup_t d;
SUITE(redis_dead_letters, , close_setup(&d));

Test(redis_dead_letters, are_recorded_once_and_stay) {
    open_fights(&d, LETTERS("id_path = \"/id\"; type_path = \"/type\"; trace_path = \"/t\"; on_failure = \"told\";"));
    redis_ok(d.f.r, "LPUSH fights-dlq old older"); /* from before the first start of the sidecar */
    until(&d, reasons(&d, "dead_letter") == 2);
    redis_ok(d.f.r, "LPUSH fights-dlq %s", LETTER);
    until(&d, reasons(&d, "dead_letter") == 3);
    expect_value(&d, "failed", "traceparent", TRACE_TEXT);
    cr_expect_eq(count(&d, "LLEN told"), 3);
    expect_value(&d, "failed", "job", "a1");
    expect_value(&d, "failed", "type", "fight");
    expect_value(&d, "failed", "dialect", "private_queues");
    expect_value(&d, "failed", "payload", LETTER);
    expect_value(&d, "failed", "size", "88");
    cr_assert_eq(count(&d, "LLEN fights-dlq"), 3);
    cr_assert_eq(metric_get(&of(&d)->failed_recorded), 3);
    cr_assert_eq(metric_get(&of(&d)->ended_by[REASON_dead_letter]), 3);
}

Test(redis_dead_letters, tracking_triggers_a_read) {
    open_fights(&d, "group = \"app\"; monitor = { scan_interval = \"1h\"; }; queues = ( " FIGHTS_QUEUE(
                        "dlq = \"fights-dlq\"; protected_timeout = \"1h\"; retry_window = \"24h\";") " );");
    driver_settle(&d.instance.driver, d.f.r);
    fixture_hold_boottime(); /* so that no read happens without tracking */
    redis_ok(d.f.r, "LPUSH fights-dlq job");
    until(&d, reasons(&d, "dead_letter") == 1);
    cr_assert_eq(count(&d, "LLEN fights-dlq"), 1, "the dead letter stays in its list");
}

Test(redis_dead_letters, records_many_at_both_ends_of_the_list) {
    open_fights(&d, LETTERS(""));
    redis_ok(d.f.r, "EVAL %s 0", "for i = 1, 1000 do redis.call('RPUSH', 'fights-dlq', 'job' .. i) end");
    until(&d, reasons(&d, "dead_letter") == 1000);
    redis_ok(d.f.r, "EVAL %s 0", "for i = 1, 500 do redis.call('LPUSH', 'fights-dlq', 'new' .. i) end");
    redis_ok(d.f.r, "RPUSH fights-dlq at-the-other-end");
    until(&d, reasons(&d, "dead_letter") == 1501);
    redis_ok(d.f.r, "LPUSH fights-dlq unknown job1"); /* a recorded entry before a new entry does not hide it */
    until(&d, reasons(&d, "dead_letter") == 1502);
    cr_assert_eq(count(&d, "LLEN fights-dlq"), 1503);
}

/* 100 such entries exceed the bytes of one read. */
Test(redis_dead_letters, records_large_entries_at_the_tail_at_once, .timeout = 60) {
    open_fights(&d, LETTERS(""));
    redis_ok(d.f.r, "EVAL %s 0", "for i = 1, 120 do redis.call('RPUSH', 'fights-dlq', i .. string.rep('x', 10000)) end");
    until(&d, reasons(&d, "dead_letter") == 120);
    driver_run(&d.instance.driver, 100);
    redis_ok(d.f.r, "RPUSH fights-dlq at-the-other-end");
    until(&d, reasons(&d, "dead_letter") == 121);
    cr_assert_eq(count(&d, "LLEN fights-dlq"), 121);
}

Test(redis_dead_letters, another_leader_and_a_reconnect_record_nothing_anew) {
    open_fights(&d, LETTERS(""));
    redis_ok(d.f.r, "LPUSH fights-dlq one two");
    until(&d, reasons(&d, "dead_letter") == 2);
    instance_lead(&d.instance, d.f.r);
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    redis_ok(d.f.r, "LPUSH fights-dlq three");
    until(&d, reasons(&d, "dead_letter") == 3);
    passes(&d, 4);
    cr_assert_eq(records(&d), 3);
}

Test(redis_dead_letters, a_shortened_list_records_only_new_entries) {
    open_fights(&d, LETTERS(""));
    redis_ok(d.f.r, "LPUSH fights-dlq one two three");
    until(&d, reasons(&d, "dead_letter") == 3);
    redis_ok(d.f.r, "LTRIM fights-dlq 0 0");
    redis_ok(d.f.r, "LPUSH fights-dlq four");
    until(&d, reasons(&d, "dead_letter") == 4);
    redis_ok(d.f.r, "DEL fights-dlq");
    redis_ok(d.f.r, "LPUSH fights-dlq five");
    until(&d, reasons(&d, "dead_letter") == 5);
    cr_assert_eq(records(&d), 5);
}

/* A dead letter of the sidecar has a record already. */
Test(redis_dead_letters, does_not_record_the_sidecars_own) {
    open_fights(&d, LETTERS("retry_times = 0;"));
    passes(&d, 2);
    take(&d, "w1", "poison");
    until(&d, there(&d, "fights-dlq", "poison"));
    redis_ok(d.f.r, "LPUSH fights-dlq theirs");
    until(&d, reasons(&d, "dead_letter") == 1);
    instance_lead(&d.instance, d.f.r);
    redis_ok(d.f.r, "LPUSH fights-dlq another");
    until(&d, reasons(&d, "dead_letter") == 2);
    cr_assert_eq(reasons(&d, "retries_exhausted"), 1);
    cr_assert_eq(records(&d), 3);
}

Test(redis_dead_letters, a_quarter_of_the_stream_is_kept_for_jobs_that_end) {
    open_fights(
        &d,
        "group = \"app\"; stream = { max_bytes = \"1MiB\"; }; monitor = { scan_interval = \"50ms\"; }; queues = ( " FIGHTS_QUEUE(
            "dlq = \"fights-dlq\"; protected_timeout = \"100ms\"; retry_times = 0;") " );");
    redis_ok(d.f.r, "EVAL %s 0", "for i = 1, 20 do redis.call('RPUSH', 'fights-dlq', i .. string.rep('x', 60000)) end");
    until(&d, fixture_log_count("nearly full") > 0);
    long long recorded = reasons(&d, "dead_letter");
    cr_assert(recorded >= 12 && recorded <= 13, "%lld", recorded);
    take(&d, "w1", "poison");
    until(&d, reasons(&d, "retries_exhausted") == 1);
    cr_assert_eq(reasons(&d, "dead_letter"), recorded);
}

/* The stream is full, so the page with the letter is read again every 5 s. */
Test(redis_dead_letters, an_oversized_letter_that_is_read_again_is_one) {
    open_fights(&d, "group = \"app\"; stream = { max_bytes = \"1MiB\"; }; queues = ( " FIGHTS_QUEUE(
                        "dlq = \"fights-dlq\"; max_payload = \"64KiB\";") " );");
    redis_ok(d.f.r, "EVAL %s 0",
             "for i = 1, 20 do redis.call('RPUSH', 'fights-dlq', i .. string.rep('x', i == 14 and 70000 or 60000)) end");
    for (int i = 1; i <= 3; i++) {
        until(&d, fixture_log_count("nearly full") >= i);
        fixture_step_boottime(5000);
    }
    redis_ok(d.f.r, "DEL sidecar:email:failures sidecar:email:meta");
    until(&d, metric_get(&of(&d)->large) > 0);
    cr_assert_eq(metric_get(&of(&d)->large), 1);
}

Test(redis_dead_letters, names_a_list_of_the_wrong_type_and_scans_the_others) {
    open_fights(&d, LETTERS(""));
    redis_ok(d.f.r, "SET fights-dlq text");
    take(&d, "w1", "job");
    until(&d, there(&d, "fights", "job"));
    until(&d, fixture_log_count("fights-dlq holds a string") > 0);
    cr_assert_eq(reasons(&d, "dead_letter"), 0);
}

Test(redis_dead_letters, logs_oversized_entries_without_a_record) {
    char large[3000];
    memset(large, 'L', sizeof large);
    open_fights(&d, LETTERS("max_payload = \"2KiB\";"));
    redis_ok(d.f.r, "RPUSH fights-dlq %b small %b", large, sizeof large, "", (size_t)0);
    until(&d, reasons(&d, "dead_letter") == 2);
    until(&d, fixture_log_count("did not record a dead letter that is larger") > 0);
    cr_assert_eq(metric_get(&of(&d)->large), 1);
    cr_assert_eq(records(&d), 2);
}

Test(redis_dead_letters, a_requeued_job_of_another_queue_removes_no_dead_letter) {
    open_fights(&d, LETTERS(""));
    redis_ok(d.f.r, "LPUSH fights-dlq job");
    until(&d, reasons(&d, "dead_letter") == 1);
    requeue_job(&d, "job", "gone");
    cr_assert_eq(there(&d, "fights", "job"), 1);
    cr_assert_eq(there(&d, "fights-dlq", "job"), 1);
}

Test(redis_dead_letters, a_requeued_job_that_fails_again_has_a_second_record) {
    open_fights(&d, LETTERS("retry_times = 0;"));
    redis_ok(d.f.r, "LPUSH fights-dlq other job");
    until(&d, reasons(&d, "dead_letter") == 2);
    requeue_job(&d, "job", d.f.config->queues[0].name);
    cr_assert_eq(there(&d, "fights", "job"), 1);
    cr_assert_eq(there(&d, "fights-dlq", "job"), 0);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(reasons(&d, "dead_letter"), 2);
    redis_ok(d.f.r, "LMOVE fights fights-dlq RIGHT LEFT"); /* a worker pushes the job to dlq again */
    until(&d, reasons(&d, "dead_letter") == 3);
    requeue_job(&d, "job", d.f.config->queues[0].name);
    redis_ok(d.f.r, "LMOVE fights queue-w1 RIGHT LEFT"); /* the next worker dies with the job, so the sidecar ends the job */
    until(&d, reasons(&d, "retries_exhausted") == 1);
    cr_assert_eq(there(&d, "fights-dlq", "job"), 1);
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(reasons(&d, "dead_letter"), 3, "the sidecar's dead letter counts as a worker's");
}
