/* The bytes of jobs of Sidekiq: read, and changed in place for a push. */
#include "dialects/sidekiq/internal.h"
#include "fixture.h"
#include "kept.h"
#include "sidekiq_jobs.h"
#include "suite.h"

#include <criterion/criterion.h>

static char *pushed(const char *text, bool again) {
    scoped(buffer_free) buffer_t out = {0};
    sidekiq_job_t job;
    cr_assert(sidekiq_job_read(slice_text(text), &job), "%s", text);
    sidekiq_job_push(slice_text(text), &job, 1800000000007, again, &out);
    buffer_str(&out, "");
    return kept(buffer_text(&out) ? mem_str(buffer_text(&out)) : NULL);
}

Test(unit_sidekiq, reads_jobs_of_each_version) {
    sidekiq_job_t job;
    cr_assert(sidekiq_job_read(slice_text(JOB_6("b4a577edbccf1d805744efa9", FAILED("0", "1700000001.5"))), &job));
    cr_expect(slice_is(job.jid, "b4a577edbccf1d805744efa9") && slice_is(job.type, "Mail") && slice_is(job.queue, "default"));
    cr_expect(slice_is(job.error_class, "RuntimeError") && slice_is(job.retry_count, "0"));
    cr_expect_eq(sidekiq_time_ms(job.created_at), 1700000000123);
    cr_assert(sidekiq_job_read(slice_text(JOB_8("a1", "")), &job));
    cr_expect(slice_is(job.type, "WelcomeMail") && slice_is(job.queue, "mailers") && job.retry_count.len == 0);
    cr_expect_eq(sidekiq_time_ms(job.created_at), 1700000000123);
    cr_expect_eq(sidekiq_time_ms(slice_text("1700000000")), 1700000000000);
    cr_expect_eq(sidekiq_time_ms(slice_text("1.7e9")), 1700000000000);
    cr_expect_eq(sidekiq_time_ms(slice_text("-5")), 0);
}

Test(unit_sidekiq, entries_that_are_no_jobs_are_left_alone) {
    static const char *const texts[] = {"",
                                        "x",
                                        "[]",
                                        "{",
                                        "{\"jid\":\"a\",\"jid\":\"b\"}",
                                        "{\"queue\":\"a\",\"queue\":\"b\"}",
                                        "{\"enqueued_at\":1,\"enqueued_at\":2}",
                                        "{\"jid\":5}",
                                        "{\"queue\":[]}",
                                        "{\"created_at\":\"2023\"}",
                                        "{\"retry_count\":true}",
                                        "{\"jid\":\"a\"} {}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sidekiq_job_t job;
        cr_expect_not(sidekiq_job_read(slice_text(texts[i]), &job), "%s", texts[i]);
    }
}

/* One enqueued_at, in the unit of the job; all other bytes as they were. */
Test(unit_sidekiq, a_push_changes_only_its_tokens) {
    static const struct {
        const char *job, *pushed;
        bool again;
    } rows[] = {
        {"{\"a\": 1 ,\"created_at\":1.5,\"enqueued_at\":2.5}", "{\"a\": 1 ,\"created_at\":1.5,\"enqueued_at\":1800000000.007}",
         false},
        {"{\"created_at\":1700000000123,\"x\":{\"enqueued_at\":3}}",
         "{\"created_at\":1700000000123,\"x\":{\"enqueued_at\":3},\"enqueued_at\":1800000000007}", false},
        {"{\"created_at\":1700000000,\"x\":\"}\"} \n", "{\"created_at\":1700000000,\"x\":\"}\",\"enqueued_at\":1800000000.007}",
         false},
        {"{\"enqueued_at\":1700000000123}", "{\"enqueued_at\":1800000000007}", false},
        {"{\"created_at\":1.5,\"retry_count\":0,\"enqueued_at\":2.5}",
         "{\"created_at\":1.5,\"retry_count\":-1,\"enqueued_at\":1800000000.007}", true},
        {"{\"retry_count\":10,\"enqueued_at\":2.5}", "{\"retry_count\":9,\"enqueued_at\":1800000000.007}", true},
        {"{\"retry_count\":10,\"enqueued_at\":2.5}", "{\"retry_count\":10,\"enqueued_at\":1800000000.007}", false},
        {"{\"retry_count\":-9223372036854775808,\"enqueued_at\":2.5}",
         "{\"retry_count\":-9223372036854775808,\"enqueued_at\":1800000000.007}", true},
        {"{\"created_at\":1700000000123,\"enqueued_at\":null}", "{\"created_at\":1700000000123,\"enqueued_at\":1800000000007}",
         true},
        {"{\"retry_count\":null,\"enqueued_at\":2.5}", "{\"retry_count\":null,\"enqueued_at\":1800000000.007}", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *out = pushed(rows[i].job, rows[i].again);
        cr_expect_str_eq(out, rows[i].pushed, "row %zu: %s", i, out);
    }
}

/* The first failure of a job writes 0; -1 is a dead job that was put back. */
Test(unit_sidekiq, people_see_how_often_a_job_has_failed) {
    static const struct {
        const char *job;
        int64_t retries; /* -1: unknown */
    } rows[] = {{"{\"retry_count\":0}", 1},
                {"{\"retry_count\":24}", 25},
                {"{\"retry_count\":-1}", 0},
                {"{}", -1},
                {"{\"retry_count\":9223372036854775807}", -1},
                {"{\"retry_count\":-9223372036854775808}", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_t job;
        sidekiq_job_describe(slice_text(rows[i].job), &job);
        cr_expect_eq(job.retries_in_job, rows[i].retries, "%s", rows[i].job);
    }
}

/* Both entries have the lists. */
Test(unit_sidekiq, jobs_that_wait_count_for_one_of_two_entries) {
    config_t *config = fixture_config("queues = ( { name = \"a\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; }, "
                                      "{ name = \"b\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; "
                                      "set = \"retry\"; roles = [\"dispatcher\"]; } );");
    static const int lists[] = {2, 0};
    for (size_t i = 0; i < 2; i++) {
        redis_keys_t keys = config_redis_keys(&config->queues[i]);
        int ready = 0, delayed = 0;
        for (size_t k = 0; k < keys.count; k++) {
            ready += keys.items[k].size == SIZE_READY;
            delayed += keys.items[k].size == SIZE_DELAYED;
        }
        cr_expect_eq(ready, lists[i], "%d", ready);
        cr_expect_eq(delayed, 1);
        config_redis_keys_free(&keys);
    }
    config_free(config);
}
