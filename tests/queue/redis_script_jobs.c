/* The scripts by which an operator changes delayed jobs: each change is made as a whole or not at all. */
#include "fixture.h"
#include "queue/jobs/jobs.h"
#include "queue/stamps.h"
#include "server.h"
#include "suite.h"

static fixture_t f;
SUITE(redis_script_jobs,
      f = fixture_start(&(fixture_options_t){
          .config = "group = \"app\"; queues = ( { name = \"email\"; on_failure = \"told\"; } );"}),
      fixture_stop(&f));

static digest_t digest;
static event_t record;
static char event[EVENT_ID_SIZE];

/* A request to cancel `job`, planned when its score was `score`. */
static jobs_cancel_t cancel(const char *job, double score) {
    digest = digest_of(job, strlen(job));
    record = (event_t){.kind = slice_text("failed"),
                       .queue = slice_text("email"),
                       .reason = slice_text("cancelled"),
                       .worker = slice_text("ann"),
                       .error = slice_text("because")};
    event_id(&record, 0, 1, event);
    return (jobs_cancel_t){.job = slice_text(job), .score = score, .digest = &digest, .record = &record};
}

static jobs_change_t done(jobs_cancel_t ask) {
    const call_t call = fixture_call(&f, NULL);
    jobs_change_t change;
    jobs_cancel_append(&call, &ask);
    cr_assert_eq(jobs_change_read(&call, &change), OUTCOME_OK, "%s", f.error.text);
    return change;
}

static jobs_change_t run(const char *job, double score) {
    const call_t call = fixture_call(&f, NULL);
    jobs_change_t change;
    jobs_run_append(&call, slice_text(job), score);
    cr_assert_eq(jobs_change_read(&call, &change), OUTCOME_OK, "%s", f.error.text);
    return change;
}

static long long delayed(void) { return redis_int(f.r, "ZCARD email:delayed"); }
static long long records(void) { return redis_int(f.r, "XLEN sidecar:email:failures"); }

Test(redis_script_jobs, run_sets_the_score_to_now) {
    redis_ok(f.r, "ZADD email:delayed 4000000000000 job 4000000000001 other");
    long long before = redis_ms(f.r);
    cr_assert_eq(run("job", 4e12), JOBS_DONE);
    long long score = strtoll(redis_str(f.r, "ZSCORE email:delayed job"), NULL, 10);
    cr_expect(score >= before && score <= redis_ms(f.r));
    cr_expect_eq(delayed(), 2);
    cr_expect_eq(run("job", 4e12), JOBS_DUE, "it is due already");
    redis_expect(f.r, "4000000000001", "ZSCORE email:delayed other");
}

/* Otherwise it would run twice. */
Test(redis_script_jobs, run_adds_no_job_that_was_promoted) {
    redis_ok(f.r, "LPUSH email job");
    cr_expect_eq(run("job", 4e12), JOBS_GONE);
    cr_expect_eq(delayed(), 0);
}

Test(redis_script_jobs, run_leaves_a_job_that_was_scheduled_anew) {
    redis_ok(f.r, "ZADD email:delayed 4000000000000.5 job");
    cr_expect_eq(run("job", 4e12), JOBS_CHANGED);
    redis_expect(f.r, "4000000000000.5", "ZSCORE email:delayed job");
    cr_expect_eq(run("job", 4e12 + 0.5), JOBS_DONE);
}

Test(redis_script_jobs, run_keeps_the_lower_score_of_a_job_that_is_due) {
    redis_ok(f.r, "ZADD email:delayed 5 job");
    cr_expect_eq(run("job", 4e12), JOBS_DUE);
    redis_expect(f.r, "5", "ZSCORE email:delayed job");
}

Test(redis_script_jobs, run_counts_in_the_unit_of_the_queue) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; score_unit = \"s\"; } );"});
    redis_ok(f.r, "ZADD email:delayed 4000000000 job");
    cr_assert_eq(run("job", 4e9), JOBS_DONE);
    long long score = strtoll(redis_str(f.r, "ZSCORE email:delayed job"), NULL, 10), now = redis_ms(f.r) / 1000;
    cr_expect(score <= now && score >= now - 5);
}

Test(redis_script_jobs, cancel_removes_the_job_and_adds_its_record) {
    redis_ok(f.r, "ZADD email:delayed 5 job 5 other");
    cr_assert_eq(done(cancel("job", 5)), JOBS_DONE);
    cr_expect_eq(delayed(), 1);
    cr_expect_eq(records(), 1);
    redisReply *reply = redis_do(f.r, "XRANGE sidecar:email:failures - +");
    const redisReply *fields = reply->element[0]->element[1];
    long long bytes = 0;
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        bytes += (long long)fields->element[i + 1]->len;
        if (strcmp(fields->element[i]->str, "payload") == 0) cr_expect_str_eq(fields->element[i + 1]->str, "job");
        if (strcmp(fields->element[i]->str, "error") == 0) cr_expect_str_eq(fields->element[i + 1]->str, "because");
    }
    cr_expect_eq(atoll(redis_str(f.r, "HGET sidecar:email:meta bytes")), bytes);
    redis_expect(f.r, reply->element[0]->element[0]->str, "HGET sidecar:email:meta last");
    cr_expect_eq(redis_int(f.r, "LLEN told"), 1);
}

Test(redis_script_jobs, cancel_leaves_a_job_that_was_promoted) {
    redis_ok(f.r, "LPUSH email job");
    cr_expect_eq(done(cancel("job", 5)), JOBS_GONE);
    cr_expect_eq(records(), 0);
    cr_expect_eq(redis_int(f.r, "LLEN email"), 1);
}

Test(redis_script_jobs, cancel_leaves_a_job_that_was_scheduled_anew) {
    redis_ok(f.r, "ZADD email:delayed 6 job");
    cr_expect_eq(done(cancel("job", 5)), JOBS_CHANGED);
    redis_ok(f.r, "ZADD email:delayed 5 job");
    digest = digest_of("job", 3);
    redis_ok(f.r, "HSET sidecar:email:stamps %b stamp", digest.bytes, (size_t)STAMP_FIELD_BYTES);
    cr_expect_eq(done(cancel("job", 5)), JOBS_CHANGED, "it has run, failed and been retried");
    cr_expect_eq(delayed(), 1);
    cr_expect_eq(records(), 0);
}

/* The stamp of a copy that runs stays. */
Test(redis_script_jobs, cancel_removes_only_the_stamp_that_ends) {
    digest = digest_of("job", 3);
    for (int ends = 0; ends < 2; ends++) {
        redis_ok(f.r, "ZADD email:delayed 5 job");
        redis_ok(f.r, "HSET sidecar:email:stamps %b stamp", digest.bytes, (size_t)STAMP_FIELD_BYTES);
        jobs_cancel_t ask = cancel("job", 5);
        ask.stamp = slice_text("stamp");
        ask.ends_stamp = ends;
        cr_expect_eq(done(ask), JOBS_DONE);
        cr_expect_eq(redis_int(f.r, "HLEN sidecar:email:stamps"), !ends);
    }
}

Test(redis_script_jobs, cancel_of_a_score_that_is_no_integer_or_infinite) {
    redis_ok(f.r, "ZADD email:delayed 0.1 a inf b -inf c");
    cr_expect_eq(done(cancel("a", 0.1)), JOBS_DONE);
    cr_expect_eq(done(cancel("b", (double)__builtin_inff())), JOBS_DONE);
    cr_expect_eq(done(cancel("c", -(double)__builtin_inff())), JOBS_DONE);
    cr_expect_eq(delayed(), 0);
}

Test(redis_script_jobs, a_full_stream_takes_no_record_and_keeps_the_job) {
    redis_ok(f.r, "ZADD email:delayed 5 job");
    redis_ok(f.r, "XADD sidecar:email:failures 1-1 a b");
    redis_ok(f.r, "HSET sidecar:email:meta bytes 999999999999 entries 1");
    cr_expect_eq(done(cancel("job", 5)), JOBS_FULL);
    redis_ok(f.r, "DEL sidecar:email:meta");
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 a b");
    cr_expect_eq(done(cancel("job", 5)), JOBS_FULL, "the stream is at its last id");
    cr_expect_eq(delayed(), 1);
}

/* Redis 6.2 does both, as it knows no flags of scripts. */
Test(redis_script_jobs, a_full_redis_refuses_both_and_keeps_the_job) {
    bool old = server_major(f.server) < 7;
    redis_ok(f.r, "ZADD email:delayed 4000000000000 job");
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    const call_t call = fixture_call(&f, NULL);
    jobs_change_t change;
    jobs_run_append(&call, slice_text("job"), 4e12);
    cr_expect_eq(jobs_change_read(&call, &change), old ? OUTCOME_OK : OUTCOME_RETRY);
    if (!old) redis_expect(f.r, "4000000000000", "ZSCORE email:delayed job");
    jobs_cancel_t ask = cancel("job", strtod(redis_str(f.r, "ZSCORE email:delayed job"), NULL));
    jobs_cancel_append(&call, &ask);
    cr_expect_eq(jobs_change_read(&call, &change), old ? OUTCOME_OK : OUTCOME_RETRY);
    cr_expect(delayed() == !old && records() == old);
}

Test(redis_script_jobs, a_key_of_the_wrong_type_changes_nothing) {
    static const char *const keys[][2] = {{"email:delayed", "zset"},
                                          {"sidecar:email:failures", "stream"},
                                          {"sidecar:email:meta", "hash"},
                                          {"sidecar:email:stamps", "hash"}};
    const call_t call = fixture_call(&f, NULL);
    for (size_t i = 0; i < 4; i++)
        for_other_types (type, keys[i][1]) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "ZADD email:delayed 5 job");
            fixture_make_key(f.r, keys[i][0], type);
            char *before = fixture_digest(f.r);
            jobs_change_t change;
            jobs_cancel_t ask = cancel("job", 5);
            jobs_cancel_append(&call, &ask);
            cr_expect_eq(jobs_change_read(&call, &change), OUTCOME_REFUSED, "%s is a %s", keys[i][0], type);
            cr_expect_str_eq(fixture_digest(f.r), before, "%s is a %s", keys[i][0], type);
        }
}
