/* The reader of Bull's failures against a real server. Each failure that a worker decides gets one record: with wrong clocks of
 * workers, under several leaders, and, if its message arrives, when Bull removed the job at once. */
#include "bull_reader.h"

static setup_t setup;
SUITE(redis_bull_reader, setup = setup_start(), setup_stop(&setup));

Test(redis_bull_reader, a_record_has_the_fields_of_the_job) {
    read_failures(&setup);
    fail(&setup, "7", 0);
    read_failures(&setup);
    redis_t *r = setup.f.r;
    static const char *const expected[][2] = {
        {"kind", "failed"},
        {"dialect", "bull"},
        {"queue", "video"},
        {"job", "7"},
        {"type", "__default__"},
        {"reason", "worker_failed"},
        {"attempts", "2"},
        {"created", "1700000000000"},
        {"started", "1700000000010"},
        {"term", "T"},
        {"group", "app"},
        {"traceparent", BULL_TRACE},
        {"error", "boom\nError: boom\n    at x"},
        {"payload",
         "{\"id\":\"7\",\"name\":\"__default__\",\"data\":" BULL_DATA_OF
         ",\"opts\":{\"attempts\":2,\"delay\":0},\"timestamp\":1700000000000,\"delay\":0,\"priority\":0,\"attemptsMade\":2,"
         "\"stacktrace\":[\"Error: first\",\"Error: boom\\n    at x\"]}"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) expect_records(r, expected[i][0], expected[i][1]);
    char *at = bull_records(r, "at"), *sha256 = bull_records(r, "sha256"), *payload = bull_records(r, "payload"),
         hex[DIGEST_HEX_SIZE];
    cr_expect_leq(llabs(strtoll(at, NULL, 10) - redis_ms(r)), 60000);
    digest_t digest = digest_of(payload, strlen(payload));
    digest_hex(&digest, hex);
    cr_expect_str_eq(sha256, hex);
    cr_expect_eq(redis_int(r, "LLEN told"), 1);
    cr_expect_eq(metric_get(&setup.metrics->queues[0].failed_recorded), 1);
    cr_expect_eq(metric_get(&setup.metrics->queues[0].ended_by[REASON_worker_failed]), 1);
}

Test(redis_bull_reader, records_each_failure_once_over_several_leaders) {
    fail(&setup, "before", -1000);
    read_failures(&setup);
    for (int leader = 0; leader < 3; leader++) {
        read_failures(&setup);
        forget_state(&setup);
    }
    fail(&setup, "1", 0);
    fail(&setup, "2", 0);
    forget_state(&setup); /* the leader died before it read the failures */
    read_failures(&setup);
    read_failures(&setup);
    forget_state(&setup);
    read_failures(&setup);
    fail(&setup, "1", 1); /* requeued, and failed again */
    read_failures(&setup);
    expect_jobs(&setup, "1 2 1");
}

/* A failover may lose the mark, so the failure is recorded again. The record has the same event id: the audit log has one row. */
Test(redis_bull_reader, a_record_made_again_is_the_same_event) {
    read_failures(&setup);
    fail(&setup, "7", 0);
    read_failures(&setup);
    char *first = bull_records(setup.f.r, "event");
    redis_ok(setup.f.r, "EVAL %s 1 " SIDECAR "recorded",
             "for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do if m ~= ':seen' then redis.call('ZREM', KEYS[1], m) "
             "end end");
    redis_ok(setup.f.r, "DEL " SIDECAR "failures");
    forget_state(&setup);
    read_failures(&setup);
    expect_records(setup.f.r, "event", first);
}

Test(redis_bull_reader, clocks_of_workers_may_be_wrong) {
    read_failures(&setup);
    fail(&setup, "ahead", 3600000);
    read_failures(&setup);
    fail(&setup, "right", 0);
    read_failures(&setup);
    expect_jobs(&setup, "ahead right");
    fail(&setup, "minutes_behind", -300000); /* a full-range read finds it, within a minute */
    forget_state(&setup);
    read_failures(&setup);
    expect_jobs(&setup, "ahead right minutes_behind");
    fail(&setup, "an_hour_behind", -3600000);
    forget_state(&setup);
    read_failures(&setup);
    expect_jobs(&setup, "ahead right minutes_behind");
    receive_message(&setup, "an_hour_behind", "boom"); /* only the message shows this failure */
    read_failures(&setup);
    receive_message(&setup, "an_hour_behind", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "ahead right minutes_behind an_hour_behind");
}

Test(redis_bull_reader, a_burst_of_failures) {
    enum { COUNT = 10000 };
    read_failures(&setup);
    redis_ok(setup.f.r, "EVAL %s 1 " BULL "failed %lld %d",
             "for i = 1, ARGV[2] do redis.call('HSET', 'bull:video:' .. i, 'name', 'n', 'data', '{}', 'opts', '{}') "
             "redis.call('ZADD', KEYS[1], ARGV[1] + i % 7, i) end",
             redis_ms(setup.f.r), COUNT);
    read_failures(&setup);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), COUNT);
    cr_expect_eq(redis_int(setup.f.r, "ZCARD " SIDECAR "recorded"), COUNT + 1);
    forget_state(&setup);
    read_failures(&setup);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), COUNT);
}

/* Bull removed the jobs in the step that failed them, so only their messages are left. */
Test(redis_bull_reader, a_job_removed_at_once_is_recorded_from_its_message) {
    read_failures(&setup);
    receive_message(&setup, "7", "no such \\\"image\\\"");
    receive_message(&setup, "8", BULL_STALLED_MESSAGE);
    bull_failed_task.on_message(setup.reader, NULL, slice_text("{\"jobId\":\"9\",\"val\":\"x\"," BULL_OUR_MESSAGE "}"));
    read_failures(&setup);
    read_failures(&setup);
    expect_jobs(&setup, "7 8");
    expect_records(setup.f.r, "error", "no such \"image\" " BULL_STALLED_MESSAGE);
    expect_records(setup.f.r, "reason", "worker_failed retries_exhausted");
    expect_records(setup.f.r, "payload", "");
    receive_message(&setup, "7", "again"); /* a new job with the same id */
    read_failures(&setup);
    expect_jobs(&setup, "7 8 7");
}

/* A failure while no instance leads is recorded later. A failure while record_failed is false is never recorded. */
Test(redis_bull_reader, failures_while_record_failed_is_false_are_never_recorded) {
    const side_task_ops_t *ops = &bull_failed_task;
    read_failures(&setup);
    fail(&setup, "1", 0);
    read_failures(&setup);
    forget_state(&setup);
    fail(&setup, "2", 0); /* between two leaders */
    read_failures(&setup);
    expect_jobs(&setup, "1 2");
    bull_config(&setup.f.config->queues[0])->record_failed = false;
    void *off = ops->open(&setup.f.keys->queues[0]);
    for (int i = 0; i < 2; i++) { /* the second step changes nothing */
        side_task_call_t call = {
            .redis = fixture_call(&setup.f, "T"), .metrics = &setup.metrics->queues[0], .now = mono_now(), .next = mono_never()};
        cr_assert_eq(ops->step(off, &call), OUTCOME_OK, "%s", setup.f.error.text);
    }
    fail(&setup, "3", 0);
    fail(&setup, "4", -30000); /* by a worker's clock that is behind */
    forget_state(&setup);      /* record_failed is true again */
    read_failures(&setup);
    fail(&setup, "5", 0);
    read_failures(&setup);
    expect_jobs(&setup, "1 2 5");
    ops->close(off);
}

/* With removeOnFail: 1 Bull removes a job when the next job fails. The sidecar may handle the message of the first job after
 * that. */
Test(redis_bull_reader, a_late_message_is_no_second_failure) {
    read_failures(&setup);
    fail(&setup, "7", 0);
    read_failures(&setup);
    redis_ok(setup.f.r, "DEL " BULL "7 " BULL "failed");
    receive_message(&setup, "7", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "7");
    fail(&setup, "8", 0);
    redis_ok(setup.f.r, "ZREM " BULL "failed 8"); /* requeued at once */
    receive_message(&setup, "8", "boom");
    read_failures(&setup);
    expect_jobs(&setup, "7");
}

/* A message has no date, but Bull sends one for each failure: a second message of an id within a minute is another failure. */
Test(redis_bull_reader, an_id_that_fails_again_is_another_failure) {
    static const bool orders[][2] = {
        {true, false}, {false, true}, {false, false}}; /* message before the read, message before the removal */
    read_failures(&setup);
    char *expected = mem_str("");
    for (size_t i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof id, "mine-%zu", i);
        fail(&setup, id, 0);
        if (orders[i][0]) receive_message(&setup, id, "first");
        read_failures(&setup);
        if (orders[i][1]) {
            receive_message(&setup, id, "first");
            read_failures(&setup);
        }
        redis_ok(setup.f.r, "DEL " BULL "%s " BULL "failed", id); /* Bull removed the job; the application reuses the id, */
        if (!orders[i][0] && !orders[i][1]) receive_message(&setup, id, "first");
        receive_message(&setup, id, "second"); /* and the new job fails and is removed at once, */
        read_failures(&setup);
        receive_message(&setup, id, "third"); /* and a third job, too */
        read_failures(&setup);
        read_failures(&setup);
        char *longer = mem_printf("%s%s%s %s %s", expected, *expected ? " " : "", id, id, id);
        free(expected);
        expected = longer;
        expect_jobs(&setup, expected);
    }
    free(expected);
}

/* removeOnFail: 5 in a burst of failures: Bull removes a job between the read of `failed` and the record. Its message is left. */
Test(redis_bull_reader, a_job_removed_after_the_read_is_recorded_from_its_message) {
    setup_stop(&setup);
    setup = setup_start_as("", true);
    const proxy_rule_t gone = {
        .action = PROXY_REFUSE, .match = SIDECAR "recorded " SIDECAR "failures ", .error = "*1\r\n$4\r\ngone"};
    mono_t next;
    read_failures(&setup);
    fail(&setup, "6", 0);
    cr_assert(
        wait_for((step(&setup, true, &next), redis_int(setup.f.r, "XLEN " SIDECAR "failures") == 1), 5000)); /* a read begins, */
    fail(&setup, "7", 0);
    receive_message(&setup, "7", "seven");
    proxy_rule(setup.f.proxy, gone);
    cr_assert_eq(step(&setup, false, &next), OUTCOME_OK); /* and continues; the proxy replies `gone` */
    cr_assert_eq(proxy_fired(setup.f.proxy), 1);
    redis_ok(setup.f.r, "DEL " BULL "7 " BULL "failed");
    read_failures(&setup);
    fail(&setup, "8", -3600000); /* only the message shows this failure, */
    receive_message(&setup, "8", "eight");
    receive_message(&setup, "9", "nine"); /* and the same request records another job */
    proxy_rule(setup.f.proxy, gone);
    cr_assert_eq(step(&setup, false, &next), OUTCOME_OK);
    cr_assert_eq(proxy_fired(setup.f.proxy), 2);
    redis_ok(setup.f.r, "DEL " BULL "8 " BULL "failed");
    read_failures(&setup);
    read_failures(&setup);
    expect_jobs(&setup, "6 7 9 8");
    expect_records(setup.f.r, "error", "boom\nError: boom\n    at x seven nine eight");
    fail(&setup, "10", 0);
    receive_message(&setup, "10", "ten");
    proxy_rule(setup.f.proxy, gone);
    cr_assert_eq(step(&setup, true, &next), OUTCOME_OK);
    redis_ok(setup.f.r, "DEL " BULL "failed"); /* requeued meanwhile: its hash stays */
    read_failures(&setup);
    expect_jobs(&setup, "6 7 9 8");
}

Test(redis_bull_reader, a_message_without_a_change_is_handled) {
    mono_t next;
    read_failures(&setup);
    fail(&setup, "7", -3600000);
    receive_message(&setup, "7", "boom");
    for (int i = 0; i < 3; i++) cr_assert_eq(step(&setup, false, &next), OUTCOME_OK);
    expect_jobs(&setup, "7");
}

Test(redis_bull_reader, a_full_stream_loses_no_failure) {
    setup_stop(&setup);
    setup = setup_start_with("stream = { max_bytes = \"1MiB\"; };");
    read_failures(&setup);
    redis_ok(setup.f.r, "HSET " SIDECAR "meta bytes 1048576");
    for (int i = 0; i < 200; i++) {
        char id[8];
        snprintf(id, sizeof id, "%d", i);
        fail(&setup, id, 0);
    }
    mono_t next;
    fixture_step_boottime(1000); /* the reader pauses after the read above, longer on a slow machine */
    mono_t began = mono_now();
    cr_assert_eq(step(&setup, true, &next), OUTCOME_OK);
    cr_expect(!mono_reached(next, mono_add(began, NS_PER_S / 2)), "no pause while the stream is full");
    fixture_step_boottime(-10000); /* so the pause is not over, also on a slow machine */
    receive_message(&setup, "gone", "boom");
    long long asked = server_commandstat(setup.f.server, "evalsha");
    cr_assert_eq(step(&setup, false, &next), OUTCOME_OK);
    cr_expect_eq(server_commandstat(setup.f.server, "evalsha"), asked, "a request during the pause");
    cr_expect_eq(redis_int(setup.f.r, "EXISTS " SIDECAR "failures"), 0);
    cr_expect_eq(fixture_log_count("the failure stream is full"), 1);
    redis_ok(setup.f.r, "HSET " SIDECAR "meta bytes 0");
    fixture_step_boottime(11000);
    cr_assert_eq(run_steps_after(&setup, false), OUTCOME_OK);
    cr_expect_eq(redis_int(setup.f.r, "XLEN " SIDECAR "failures"), 201);
}

Test(redis_bull_reader, records_of_malformed_jobs_have_the_readable_fields) {
    char *large = kept(calloc(1, 70001)), *error;
    memset(large, 'x', 70000);
    read_failures(&setup);
    fail(&setup, "large", 0);
    redis_ok(setup.f.r, "HSET " BULL "large data %s", large);
    redis_ok(setup.f.r, "SET " BULL "meta-paused 1");
    long long now = redis_ms(setup.f.r);
    redis_ok(setup.f.r, "ZADD " BULL "failed %lld gone %lld meta-paused inf endless", now + 1, now + 2);
    fail(&setup, "text", 3);
    redis_ok(setup.f.r, "HSET " BULL "text data plain timestamp odd attemptsMade -5 processedOn 1e99 stacktrace [ name %b",
             "\xff\0", (size_t)2);
    read_failures(&setup);
    forget_state(&setup);
    read_failures(&setup);
    expect_jobs(&setup, "large gone meta-paused text endless");
    expect_records(setup.f.r, "size", "70108 165");
    error = bull_records(setup.f.r, "payload");
    cr_expect(strstr(error, "\"data64\":\"cGxhaW4=\""), "%s", error);
    cr_expect_eq(fixture_log_count("larger than max_payload"), 1);
}

/* The record does not show whose stalled check ended the job: the text is Bull's own. */
Test(redis_bull_reader, records_jobs_that_a_workers_check_ended) {
    char finished[32];
    read_failures(&setup);
    snprintf(finished, sizeof finished, "%lld", redis_ms(setup.f.r));
    bull_fail(setup.f.r, "7", finished, BULL_STALLED_REASON);
    redis_ok(setup.f.r, "HSET " BULL "7 stalledCounter 2 attemptsMade 1");
    read_failures(&setup);
    expect_records(setup.f.r, "reason", "retries_exhausted");
    expect_records(setup.f.r, "error", BULL_STALLED_REASON);
    expect_records(setup.f.r, "attempts", "3");
}

Test(redis_bull_reader, a_former_leader_records_nothing) {
    read_failures(&setup);
    fail(&setup, "7", 0);
    redis_ok(setup.f.r, "SET " BULL_LOCK " other");
    cr_assert_eq(run_steps(&setup), OUTCOME_FENCED);
    redis_ok(setup.f.r, "DEL " BULL "failed");
    forget_state(&setup);
    cr_assert_eq(run_steps(&setup), OUTCOME_FENCED);
    cr_expect_eq(redis_int(setup.f.r, "EXISTS " SIDECAR "failures"), 0);
}

Test(redis_bull_reader, recovers_from_a_key_of_the_wrong_type) {
    fixture_make_key(setup.f.r, BULL "failed", "list");
    cr_expect_eq(run_steps(&setup), OUTCOME_REFUSED);
    cr_expect(strstr(setup.f.error.text, "failed") && strstr(setup.f.error.text, "list"), "%s", setup.f.error.text);
    redis_ok(setup.f.r, "DEL " BULL "failed");
    read_failures(&setup);
    fail(&setup, "7", 0);
    fixture_make_key(setup.f.r, SIDECAR "failures", "list");
    cr_expect_eq(run_steps(&setup), OUTCOME_REFUSED);
    redis_ok(setup.f.r, "DEL " SIDECAR "failures");
    read_failures(&setup);
    expect_jobs(&setup, "7");
}

Test(redis_bull_reader, a_lost_connection_records_nothing_twice) {
    read_failures(&setup);
    fail(&setup, "7", 0);
    server_kill(setup.f.server);
    cr_expect_eq(run_steps(&setup), OUTCOME_DISCONNECTED);
}

/* The queue has far more failures than a read after a change covers. The cost of a change does not grow with them. */
Test(redis_bull_reader, a_change_does_not_read_all_failures_again) {
    read_failures(&setup);
    redis_ok(setup.f.r, "EVAL %s 2 " BULL "failed " SIDECAR "recorded %lld",
             "for i = 1, 50000 do redis.call('ZADD', KEYS[1], ARGV[1] - i * 10, i) "
             "redis.call('ZADD', KEYS[2], ARGV[1] - i * 10, i .. ':' .. string.format('%.0f', ARGV[1] - i * 10)) end",
             redis_ms(setup.f.r));
    fail(&setup, "new", 0);
    long long before = server_commandstat(setup.f.server, "zscore");
    read_failures(&setup);
    expect_jobs(&setup, "new");
    cr_expect_lt(server_commandstat(setup.f.server, "zscore") - before, 1000);
}
