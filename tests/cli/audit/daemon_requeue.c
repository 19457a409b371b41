/* `audit requeue` and `audit discard` beside real sidecars: each failure is answered at most once. */
#include "requeue_fixture.h"

static cluster_t s;
SUITE(daemon_requeue, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_requeue, every_log_records_requeuer_time_and_reason) {
    daemon_t *one = sidecar(&s), *two = sidecar(&s);
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(one)) == 3 && audit_log_rows(daemon_audit_path(two)) == 3, COPY_MS);
    char *ref = ref_of(one, "job 1");
    const daemon_output_t *done = cli(one, "requeue", ref, "--because", "address corrected", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s", done->err);
    cr_assert(has(done->out, ref) && has(done->out, "put back into q"), "%s", done->out);
    redis_expect(s.r, "job 1", "LINDEX q 0");
    await(&s, answers(one, 1) && answers(two, 1), COPY_MS);
    const daemon_output_t *list = cli(two, "list"), *show = cli(two, "show", ref), *again = cli(two, "requeue", ref);
    cr_assert(has(list->out, " by ann: address corrected"), "%s", list->out);
    cr_assert(has(show->out, "state     requeued\n") && has(show->out, "by        ann\n") &&
                  has(show->out, "because   address corrected\n"),
              "%s", show->out);
    cr_assert(has(again->err, "was answered before: requeued ") && has(again->err, "by ann"), "%s", again->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 1);
    const daemon_output_t *more = cli(two, "requeue", ref, "--again", "--reason", "once more", "--by", "bob");
    cr_assert_eq(more->code, 0, "%s", more->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 2);
    await(&s, answers(one, 2), COPY_MS);
    cr_assert(has(cli(one, "list", "-o", "json")->out, "\"answered_by\":\"bob\""));
    free(ref);
}

/* Redis has the requeue marker before a log has the event. */
Test(daemon_requeue, a_lagging_log_requeues_nothing_twice) {
    daemon_t *one = sidecar(&s), *two = sidecar(&s);
    feed(s.r, 0, 5);
    await(&s, audit_log_rows(daemon_audit_path(one)) == 5 && audit_log_rows(daemon_audit_path(two)) == 5, COPY_MS);
    daemon_pause(two);
    cr_assert_eq(cli(one, "requeue", "--where", "-q", "q", "--yes", "--by", "ann")->code, 0);
    const daemon_output_t *late = cli(two, "discard", "--where", "-q", "q", "--yes");
    cr_assert_eq(late->code, 0, "%s", late->err);
    cr_assert(has(late->out, "0 discarded") && has(late->out, "besides, 5: was answered before"), "%s", late->out);
    cr_assert(has(late->err, "requeued ") && has(late->err, "by ann"), "%s", late->err);
    cr_assert_eq(distinct(s.r, "q"), 5);
    daemon_continue(two);
    await(&s, answers(two, 5), COPY_MS);
}

/* The record of a failure number `n` of a job, which was made at 1700000000000. `id` NULL = the job has none. */
static void feed_life(int n, const char *id, const char *payload) {
    char sha256[DIGEST_HEX_SIZE], event[DIGEST_HEX_SIZE], *number = kept_printf("%d", n);
    digest_t digest = digest_of(payload, strlen(payload)), own = digest_of(number, strlen(number));
    digest_hex(&digest, sha256);
    digest_hex(&own, event);
    redis_ok(s.r,
             "XADD sidecar:q:failures * event %s kind failed dialect list queue q job %s reason reported error no attempts %s "
             "created 1700000000000 at %s size %s sha256 %s payload %s",
             event, id ? id : sha256, number, kept_printf("%lld", redis_ms(s.r) - 100 + n), kept_printf("%zu", strlen(payload)),
             sha256, payload);
}

/* A failover can give a job back whose end was recorded. Then it ends again, and is still one job. */
Test(daemon_requeue, of_two_failures_of_one_life_a_filter_takes_the_later) {
    daemon_t *d = sidecar(&s);
    feed_life(1, "17", "one");
    feed_life(2, "17", "one");
    feed_life(3, NULL, "copy");
    feed_life(4, NULL, "copy");
    await(&s, audit_log_rows(daemon_audit_path(d)) == 4, COPY_MS);
    char *earlier = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE attempts = 1");
    const daemon_output_t *dry = cli(d, "requeue", "--where", "-q", "q", "--dry-run", "-o", "json");
    cr_expect(has(dry->out, "\"would\":3,") && has(dry->out, "\"earlier\":1,"), "%s%s", dry->out, dry->err);
    for (int run = 0; run < 2; run++) {
        const daemon_output_t *out = cli(d, "requeue", "--where", "-q", "q", "--yes");
        cr_expect(out->code == 0 && has(out->out, "besides, 1: has a later failure of the same job"), "%s%s", out->out, out->err);
        cr_expect_eq(redis_int(s.r, "LLEN q"), 3, "copies without an id are jobs of their own");
    }
    cr_expect_eq(cli(d, "requeue", earlier)->code, 0);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 4);
}

Test(daemon_requeue, a_requeued_job_that_fails_again_is_a_new_row) {
    daemon_t *d = sidecar(&s);
    redis_ok(s.r, "LPUSH q job");
    for (int life = 1; life <= 2; life++) {
        redis_expect(s.r, "job", "LMOVE q q:backup RIGHT LEFT");
        redis_ok(s.r, "HSET q:errors job !no");
        await(&s, audit_log_rows(daemon_audit_path(d)) == life, COPY_MS);
        if (life == 2) break;
        char *ref = ref_of(d, "job");
        cr_assert_eq(cli(d, "requeue", ref)->code, 0);
        await(&s, answers(d, 1), COPY_MS);
        free(ref);
    }
    const daemon_output_t *list = cli(d, "list", "-o", "jsonl");
    const char *older = strchr(list->out, '\n');
    cr_assert(older && has(older, "\"state\":\"requeued\""), "%s", list->out);
    cr_assert(strstr(list->out, "\"state\":\"failed\"") < older, "%s", list->out);
}

/* The job is too old by its creation date. After the requeue it gets a whole alive timeout, and then ends again. */
Test(daemon_requeue, a_requeued_job_gets_a_whole_alive_timeout) {
    enum { ALIVE_MS = 1500 };
    static const char job[] = "{\"at\":1600000000000}";
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; "
                                                               "protected_timeout = \"1s\"; alive_timeout = \"1500ms\"; "
                                                               "created_path = \"/at\"; retry_times = 9; }",
                                                     .scan = "50ms"});
    redis_ok(s.r, "LPUSH q:backup %s", job);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    char *ref = ref_of(d, "at");
    cr_assert_eq(cli(d, "requeue", ref)->code, 0);
    redis_expect(s.r, job, "LMOVE q q:backup RIGHT LEFT");
    /* The job stalls and is retried meanwhile; each LMOVE is the next worker. */
    await(&s, (freeReplyObject(redis_do(s.r, "LMOVE q q:backup RIGHT LEFT")), audit_log_rows(daemon_audit_path(d)) == 2),
          COPY_MS);
    const char *path = daemon_audit_path(d);
    long long put_back = audit_log_int(path, "SELECT at FROM events WHERE kind = 'requeued'");
    long long ended = audit_log_int(path, "SELECT max(at) FROM events WHERE kind = 'failed' AND reason = 'alive_timeout'");
    cr_assert_geq(ended - put_back, ALIVE_MS, "after %lld ms", ended - put_back);
    free(ref);
}

Test(daemon_requeue, two_operators_requeue_each_failure_once, .timeout = 120) {
    enum { FAILURES = 3000 };
    daemon_t *one = sidecar(&s), *two = sidecar(&s);
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(one)) == FAILURES && audit_log_rows(daemon_audit_path(two)) == FAILURES, COPY_MS);
    background_t b[2] = {cli_start(one, "requeue", "--where", "-q", "q", "--yes", "--by", "ann", "-o", "json"),
                         cli_start(two, "requeue", "--where", "-q", "q", "--yes", "--by", "bob", "-o", "json")};
    int done = 0, known = 0;
    for (int i = 0; i < 2; i++) {
        char *out;
        cr_assert_eq(finish(&b[i], &out), 0);
        done += number_of(out, "done");
        known += number_of(out, "answered");
        free(out);
    }
    cr_assert_eq(done, FAILURES);
    cr_assert_eq(known, FAILURES);
    cr_assert_eq(distinct(s.r, "q"), FAILURES);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 2 * FAILURES);
    await(&s, answers(one, FAILURES) && answers(two, FAILURES), COPY_MS);
}

/* The ids of the stream hold Redis's time. */
Test(daemon_requeue, rate_spaces_jobs_evenly) {
    enum { FAILURES = 30, EACH_MS = 20 };
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(d)) == FAILURES, COPY_MS);
    cr_assert_eq(cli(d, "requeue", "--where", "-q", "q", "--yes", "--rate", "3000/m")->code, 0);
    redisReply *entries = redis_do(s.r, "XREVRANGE sidecar:q:failures + - COUNT %d", FAILURES);
    cr_assert_eq(entries->elements, FAILURES);
    long long last = strtoll(entries->element[0]->element[0]->str, NULL, 10);
    for (size_t i = 0; i < FAILURES;
         i++) { /* no job comes before its time, except for up to 100 ms of delay that the run makes up for */
        long long at = strtoll(entries->element[i]->element[0]->str, NULL, 10), first_at = 0;
        first_at = strtoll(entries->element[FAILURES - 1]->element[0]->str, NULL, 10);
        cr_assert_geq(at - first_at, (long long)(FAILURES - 1 - i) * EACH_MS - 110 - EACH_MS, "job %zu", i);
        cr_assert_leq(at, last);
    }
    cr_assert_geq(last - strtoll(entries->element[FAILURES - 1]->element[0]->str, NULL, 10), (FAILURES - 1) * EACH_MS - 120);
}

Test(daemon_requeue, requeued_bytes_are_unchanged) {
    enum { HUGE = 4 << 20 };
    char *huge = kept(malloc(HUGE));
    for (size_t i = 0; i < HUGE; i++) huge[i] = (char)(i * 7 + i / 251);
    const slice_t jobs[] = {{"", 0}, {"a\0b", 3}, {"\xff\xfe\xc3", 3}, {"tab\t\r\n\x1b[31m", 11}, {huge, HUGE}};
    enum { JOBS = sizeof jobs / sizeof *jobs };
    daemon_t *d = sidecar(&s);
    for (int i = 0; i < JOBS; i++) feed_one(s.r, (failure_t){.number = i, .payload = jobs[i]});
    await(&s, audit_log_rows(daemon_audit_path(d)) == JOBS, COPY_MS);
    const daemon_output_t *done = cli(d, "requeue", "--where", "-q", "q", "--yes");
    cr_assert_eq(done->code, 0, "%s", done->err);
    for (int i = 0; i < JOBS; i++)
        cr_assert_neq(redis_int(s.r, "LREM q 1 %b", jobs[i].data, jobs[i].len), 0, "job %d is not there", i);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
}

Test(daemon_requeue, discarded_failures_are_not_open) {
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    char *ref = ref_of(d, "job 1");
    cr_assert_eq(cli(d, "discard", ref, "--because", "customer is gone")->code, 0);
    await(&s, answers(d, 1), COPY_MS);
    cr_assert_eq(audit_log_int(daemon_audit_path(d), "SELECT open FROM failures_by_queue"), 2);
    const daemon_output_t *back = cli(d, "requeue", ref);
    cr_assert(back->code == 0 && has(back->err, "discarded "), "%s", back->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    cr_assert_eq(cli(d, "requeue", ref, "--again")->code, 0);
    redis_expect(s.r, "job 1", "LINDEX q 0");
    free(ref);
}

/* The job must be in the list after it has ended, and not before. */
Test(daemon_requeue, an_ended_job_is_in_the_dead_letter_list) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; "
                                                               "protected_timeout = \"1h\"; retry_times = 1; dlq = \"q:dead\"; }",
                                                     .scan = "50ms"});
    redis_ok(s.r, "LPUSH q job");
    for (int execution = 1; execution <= 2; execution++) {
        await(&s, redis_int(s.r, "LLEN q") == 1, COPY_MS);
        cr_assert_eq(redis_int(s.r, "EXISTS q:dead"), 0);
        redis_expect(s.r, "job", "LMOVE q q:backup RIGHT LEFT");
        redis_ok(s.r, "HSET q:errors job no");
    }
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    redis_expect(s.r, "job", "LINDEX q:dead 0");
    cr_assert_eq(redis_int(s.r, "LLEN q:dead"), 1);
}

Test(daemon_requeue, the_runbook_of_the_docs_works_as_written) {
    enum { TIMEOUTS = 20, OTHERS = 5 };
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"email\"; roles = [\"monitor\"]; }"});
    int64_t two = time(NULL) / 86400 * 86400 * 1000 + 2 * 3600 * 1000;
    for (int i = 0; i < TIMEOUTS; i++)
        feed_one(s.r,
                 (failure_t){.stream = "email", .queue = "email", .number = i, .at = two + i * 1000, .error = "SMTP timeout"});
    for (int i = 0; i < OTHERS; i++) {
        feed_one(s.r, (failure_t){.stream = "email", .queue = "email", .number = 100 + i, .at = two + i, .error = "no mailbox"});
        feed_one(s.r,
                 (failure_t){.stream = "email", .queue = "email", .number = 200 + i, .at = two - 1 - i, .error = "SMTP timeout"});
    }
    await(&s, audit_log_rows(daemon_audit_path(d)) == TIMEOUTS + 2 * OTHERS, COPY_MS);
    char *said = run_block(d, "runbook.sh");
    cr_assert(has(said, "state     failed") && has(said, "20 would be put back") && has(said, "20 put back in") &&
                  has(said, "relay is back"),
              "%s", said);
    cr_assert_eq(distinct(s.r, "email"), TIMEOUTS);
    await(&s, answers(d, TIMEOUTS), COPY_MS);
}

/* Both runs must find the same marker, although --to names different queues. */
Test(daemon_requeue, a_failure_of_no_queue_is_requeued_once_into_different_queues) {
    static const char *const scopes[] = {"group", "queue"};
    for (int i = 0; i < 2; i++) {
        scoped(cluster_end) cluster_t own = cluster_begin(NULL);
        const char *queues = QUEUE ", { name = \"other\"; }, { name = \"third\"; }";
        daemon_t *d = cluster_sidecar_up(&own, (sidecar_t){.queues = queues, .scope = scopes[i]});
        feed_one(own.r, (failure_t){.number = i, .queue = "gone"});
        await(&own, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
        daemon_pause(d);
        cr_assert_eq(cli(d, "requeue", "--where", "-q", "gone", "--yes", "--to", "other")->code, 0);
        const daemon_output_t *second = cli(d, "requeue", "--where", "-q", "gone", "--yes", "--to", "third");
        cr_assert(has(second->out, "besides, 1: was answered before"), "%s: %s%s", scopes[i], second->out, second->err);
        cr_assert_eq(redis_int(own.r, "LLEN other") + redis_int(own.r, "LLEN third"), 1, "%s", scopes[i]);
        daemon_continue(d);
        await(&own, answers(d, 1), COPY_MS);
    }
}

/* During a rollout some instances have a queue that others no longer have, in files of different order. */
Test(daemon_requeue, a_failure_is_answered_once_while_a_rollout_removes_its_queue) {
    static const char *const queues[] = {"{ name = \"gone\"; }, " QUEUE ", { name = \"other\"; }",
                                         QUEUE ", { name = \"other\"; }", "{ name = \"other\"; }, " QUEUE};
    daemon_t *d[3];
    for (int i = 0; i < 3; i++) d[i] = cluster_sidecar_up(&s, (sidecar_t){.queues = queues[i]});
    for (int i = 0; i < 3; i++) feed_one(s.r, (failure_t){.number = i, .queue = "gone"});
    for (int i = 0; i < 3; i++) await(&s, audit_log_rows(daemon_audit_path(d[i])) == 3, COPY_MS);
    for (int i = 0; i < 3; i++) daemon_pause(d[i]); /* no log learns of an answer */
    for (int job = 0; job < 3; job++) {
        char text[24];
        snprintf(text, sizeof(text), "job %d", job);
        char *ref = ref_of(d[0], text);
        for (int i = 0; i < 3; i++) {
            const daemon_t *by = d[(job + i) % 3];
            const char *verb = i == 0 ? "requeue" : "discard";
            const daemon_output_t *out = cli(by, verb, ref, i == 0 ? "--to=other" : "--because=nobody wants it");
            cr_assert(i == 0 ? out->code == 0 : has(out->err, "was answered before: requeued"), "job %d by %d: %s%s", job, i,
                      out->out, out->err);
        }
        free(ref);
    }
    cr_assert_eq(distinct(s.r, "other"), 3);
    for (int i = 0; i < 3; i++) daemon_continue(d[i]);
    await(&s, answers(d[0], 3), COPY_MS); /* it reads the streams of all these queues */
}

Test(daemon_requeue, discard_needs_no_queue) {
    daemon_t *d = sidecar(&s);
    feed_one(s.r, (failure_t){.number = 1, .queue = "gone"});
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    const daemon_output_t *done = cli(d, "discard", "--where", "-q", "gone", "--yes");
    cr_assert(done->code == 0 && has(done->out, "1 discarded"), "%s%s", done->out, done->err);
    await(&s, answers(d, 1), COPY_MS);
    cr_assert(has(cli(d, "list", "-q", "gone")->out, "discarded "));
    cr_assert_eq(redis_int(s.r, "EXISTS q gone"), 0);
}

Test(daemon_requeue, a_ref_given_twice_counts_once) {
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, 2);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 2, COPY_MS);
    char *ref = ref_of(d, "job 1");
    const daemon_output_t *done = cli(d, "requeue", ref, ref, "--again");
    cr_assert(done->code == 0 && !*done->err, "%s%s", done->out, done->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 1);
    free(ref);
}

Test(daemon_requeue, answered_failures_do_not_use_up_the_limit) {
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, 5);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 5, COPY_MS);
    for (int done = 2; done <= 6; done += 2) {
        int most = done < 5 ? done : 5;
        cr_assert_eq(cli(d, "requeue", "--where", "-q", "q", "-n", "2", "--yes")->code, 0);
        cr_assert_eq(distinct(s.r, "q"), most);
        await(&s, answers(d, most), COPY_MS);
    }
}

/* The right to LPUSH is revoked while the job is in progress. */
Test(daemon_requeue, a_refused_dead_letter_list_leaves_no_record) {
    redis_ok(s.r, "ACL SETUSER half on >secret +@all &* ~*");
    daemon_t *d = cluster_sidecar_up(
        &s, (sidecar_t){.redis = "username = \"half\"; password = \"secret\";",
                        .queues = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; dlq = \"q:dead\"; }",
                        .scan = "50ms"});
    redis_ok(s.r, "LPUSH q job");
    redis_expect(s.r, "job", "LMOVE q q:backup RIGHT LEFT");
    await(&s, redis_int(s.r, "LLEN q:backup") == 2 && redis_int(s.r, "HLEN sidecar:q:stamps") == 1, COPY_MS);
    redis_ok(s.r, "ACL SETUSER half -lpush");
    redis_ok(s.r, "HSET q:errors job !no");
    await(&s, daemon_log_count(d, "redis refuses the monitor") > 0, COPY_MS);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 0);
    redis_ok(s.r, "ACL SETUSER half +lpush");
    await(&s, redis_int(s.r, "LLEN q:dead") == 1, COPY_MS);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 1);
}

/* The filters of `list` select here too. A failure that somebody has answered is taken with --again only. */
Test(daemon_requeue, filters_by_job_and_state_select_what_is_put_back) {
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, 5);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 5, COPY_MS);
    cr_assert_eq(cli(d, "requeue", "--where", "--job", "3", "--yes")->code, 0);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 1);
    redis_expect(s.r, "job 3", "LINDEX q 0");
    await(&s, answers(d, 1), COPY_MS);
    cr_assert_eq(cli(d, "requeue", "--where", "-q", "q", "--state", "requeued", "--again", "--yes")->code, 0);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 2);
    redis_expect(s.r, "job 3", "LINDEX q 0");
    await(&s, answers(d, 2), COPY_MS);
    const daemon_output_t *dry = cli(d, "requeue", "--where", "-q", "q", "--state", "open", "--dry-run", "-o", "json");
    cr_expect(number_of(dry->out, "would") == 4 && number_of(dry->out, "answered") == 0, "%s", dry->out);
    cr_assert_eq(cli(d, "discard", "--where", "--grep", "JOB 1", "-i", "--yes")->code, 0);
    await(&s, answers(d, 3), COPY_MS);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 2);
}
