/* The verdict about one job: every rule, at its boundaries. */
#include "model/verdict.h"
#include "suite.h"

/* All rows begin with a job that was born and seen at T, and with this policy. */
enum { T = 1000000, PROTECTED = 1000, ALIVE = 5000, WINDOW = 100000 };

static queue_policy_t policy(void) {
    return (queue_policy_t){.protected_timeout_ms = PROTECTED,
                            .retry.times = 3,
                            .retry.window_ms = WINDOW,
                            .retry.backoff = BACKOFF_NONE,
                            .retry.delay_ms = 100,
                            .retry.delay_max_ms = 1000};
}

static observation_t at(int64_t now) {
    return (observation_t){
        .stamp = {.born_us = T * INT64_C(1000), .seen = T}, .now = now, .began = now, .heartbeat = HEARTBEAT_NONE};
}

static verdict_t judge(observation_t s, queue_policy_t p) { return verdict(&s, &p); }

static void expect_leave(verdict_t v, int64_t again) {
    cr_assert_eq(v.kind, VERDICT_LEAVE);
    cr_assert_eq(v.again, again);
}

static void expect(verdict_t v, verdict_kind_t kind, const char *reason, int64_t attempts) {
    cr_assert_eq(v.kind, kind);
    cr_assert_str_eq(v.reason, reason);
    cr_assert_eq(v.attempts, attempts);
}

Test(unit_verdict, a_new_job_gets_a_stamp_before_anything_else) {
    observation_t s = at(T + PROTECTED * 100);
    s.stamp = (stamp_t){0};
    cr_assert_eq(judge(s, policy()).kind, VERDICT_STAMP);
    s.report = REPORT_END;
    s.has_duplicates = true;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_STAMP);
}

Test(unit_verdict, first_observation_after_a_retry_begins_an_execution) {
    observation_t s = at(T + PROTECTED * 100);
    s.stamp = (stamp_t){.born_us = 1, .retries = 3, .retried_at = T};
    queue_policy_t p = policy();
    p.alive_timeout_ms = ALIVE; /* over long ago, but this execution is seen for the first time */
    cr_assert_eq(judge(s, p).kind, VERDICT_SEEN);
    s.report = REPORT_RETRY; /* the worker has failed before a scan saw the execution */
    expect(judge(s, p), VERDICT_END, "reported", 4);
}

/* A page may hold a job that the same scan has retried since: no worker has taken the job. */
Test(unit_verdict, the_scan_that_retries_a_job_begins_no_execution) {
    observation_t s = at(T);
    s.stamp = (stamp_t){.born_us = 1, .retries = 1, .retried_at = T};
    s.began = T - 100;
    expect_leave(judge(s, policy()), T + PROTECTED);
    s.began = T;
    expect_leave(judge(s, policy()), T + PROTECTED);
    s.began = T + 1;
    s.now = T + 1;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_SEEN);
}

Test(unit_verdict, stalled_is_strictly_later_than_the_protected_timeout) {
    expect_leave(judge(at(T), policy()), T + PROTECTED);
    expect_leave(judge(at(T + PROTECTED), policy()), T + PROTECTED);
    verdict_t v = judge(at(T + PROTECTED + 1), policy());
    expect(v, VERDICT_RETRY, "stalled", 1);
    cr_assert_eq(v.delay_ms, 0);
    cr_assert_not(v.needs_silence);
}

/* A clock that was ahead and is set back must not leave a job unwatched until the clock has come to those times again. */
Test(unit_verdict, a_time_of_the_future_counts_as_now) {
    static const stamp_t rows[] = {{.born_us = T * INT64_C(1000) + 1000, .seen = T},
                                   {.born_us = 1, .seen = T + 1},
                                   {.born_us = 1, .seen = T, .missing = T + 1},
                                   {.born_us = 1, .seen = T, .retries = 1, .retried_at = T + 1},
                                   {.born_us = 1, .retries = 1, .retried_at = T + 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        observation_t s = at(T);
        s.stamp = rows[i];
        s.report = i % 2 ? REPORT_RETRY : REPORT_NONE;
        cr_expect_eq(judge(s, policy()).kind, VERDICT_SEEN, "row %zu", i);
        cr_expect(stamp_correct(&s.stamp, T), "row %zu", i);
        cr_expect(s.stamp.born_us == (i ? 1 : 0) && s.stamp.seen <= T && s.stamp.missing <= T && s.stamp.retried_at <= T,
                  "row %zu", i);
        cr_expect_eq(s.stamp.retries, rows[i].retries, "row %zu", i);
        cr_expect_not(stamp_correct(&s.stamp, T), "row %zu", i);
    }
    stamp_t present = {.born_us = T * INT64_C(1000) + 999, .seen = T, .missing = T, .retried_at = T};
    cr_expect_not(stamp_correct(&present, T));
}

Test(unit_verdict, allows_retry_times_plus_one_executions) {
    for (int64_t retries = 0; retries < 6; retries++) {
        observation_t s = at(T + PROTECTED + 1);
        s.stamp.retries = retries;
        s.stamp.retried_at = retries ? T - 1 : 0;
        if (retries < 3)
            expect(judge(s, policy()), VERDICT_RETRY, "stalled", retries + 1);
        else
            expect(judge(s, policy()), VERDICT_END, "retries_exhausted", retries + 1);
    }
    queue_policy_t none = policy();
    none.retry.times = 0;
    expect(judge(at(T + PROTECTED + 1), none), VERDICT_END, "retries_exhausted", 1);
}

Test(unit_verdict, retries_are_forgotten_after_the_window) {
    observation_t s = at(T + WINDOW);
    s.stamp.retries = 3;
    s.stamp.retried_at = T;
    expect(judge(s, policy()), VERDICT_END, "retries_exhausted", 4);
    s.now = s.began = T + WINDOW + 1;
    expect(judge(s, policy()), VERDICT_RETRY, "stalled", 1);
    queue_policy_t none = policy();
    none.retry.times = 0;
    expect(judge(s, none), VERDICT_END, "retries_exhausted", 1);
}

Test(unit_verdict, asks_for_the_heartbeat_only_when_it_matters) {
    observation_t s = at(T + PROTECTED);
    s.heartbeat = HEARTBEAT_UNKNOWN;
    expect_leave(judge(s, policy()), T + PROTECTED);
    s.now = s.began = T + PROTECTED + 1;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_LOOK);
    s.report = REPORT_RETRY;
    expect(judge(s, policy()), VERDICT_RETRY, "reported", 1);
}

/* A worker's heartbeat alone decides: the worker is gone when its heartbeat has been missing for silence_ms. */
Test(unit_verdict, worker_is_gone_after_its_heartbeat_timeout) {
    enum { SILENCE = 300 };
    observation_t s = at(T + 1);
    s.silence_ms = SILENCE;
    s.heartbeat = HEARTBEAT_UNKNOWN;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_LOOK, "within the protected timeout");
    s.heartbeat = HEARTBEAT_THERE;
    s.now = s.began = T + PROTECTED * 100;
    expect_leave(judge(s, policy()), INT64_MAX); /* and beyond it */
    s.heartbeat = HEARTBEAT_GONE;
    s.now = s.began = T + 1;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_MISSING);
    s.stamp.missing = T + 1;
    s.now = s.began = T + 1 + SILENCE;
    expect_leave(judge(s, policy()), T + 1 + SILENCE);
    s.now = ++s.began;
    expect(judge(s, policy()), VERDICT_RETRY, "stalled", 1);
    cr_assert(judge(s, policy()).needs_silence);
    s.heartbeat = HEARTBEAT_THERE;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_PRESENT);
    s = at(T + PROTECTED); /* without heartbeats only the protected timeout counts */
    s.silence_ms = SILENCE;
    expect_leave(judge(s, policy()), T + PROTECTED);
    s.now = ++s.began;
    expect(judge(s, policy()), VERDICT_RETRY, "stalled", 1);
}

Test(unit_verdict, a_later_scan_acts_on_a_missing_heartbeat) {
    observation_t s = at(T + PROTECTED + 1);
    s.heartbeat = HEARTBEAT_THERE;
    expect_leave(judge(s, policy()), INT64_MAX);
    s.heartbeat = HEARTBEAT_GONE;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_MISSING);
    s.stamp.missing = s.now; /* the same scan sees the job again, a little later */
    s.now += 50;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_LEAVE);
    s.began = s.now;
    verdict_t v = judge(s, policy());
    expect(v, VERDICT_RETRY, "stalled", 1);
    cr_assert(v.needs_silence);
    s.heartbeat = HEARTBEAT_THERE;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_PRESENT);
    s.heartbeat = HEARTBEAT_GONE;
    s.stamp.retries = 3;
    v = judge(s, policy());
    expect(v, VERDICT_END, "retries_exhausted", 4);
    cr_assert(v.needs_silence);
}

/* Every state of the heartbeat, before and after the alive timeout, in time and overdue. */
Test(unit_verdict, alive_timeout) {
    static const struct {
        heartbeat_t heartbeat;
        bool kills;
        verdict_kind_t kind;
        bool needs_silence;
    } rows[] = {{HEARTBEAT_NONE, false, VERDICT_END, false},     {HEARTBEAT_NONE, true, VERDICT_END, false},
                {HEARTBEAT_UNKNOWN, false, VERDICT_LOOK, false}, {HEARTBEAT_UNKNOWN, true, VERDICT_END, false},
                {HEARTBEAT_GONE, false, VERDICT_END, true},      {HEARTBEAT_GONE, true, VERDICT_END, false},
                {HEARTBEAT_THERE, false, VERDICT_LEAVE, false},  {HEARTBEAT_THERE, true, VERDICT_END, false}};
    queue_policy_t p = policy();
    p.alive_timeout_ms = ALIVE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int overdue = 0; overdue < 2; overdue++) {
            observation_t s = at(T + ALIVE);
            p.alive_kills = rows[i].kills;
            s.stamp.seen = overdue ? T : s.now;
            s.stamp.retries = 1;
            s.stamp.retried_at = T;
            s.heartbeat = rows[i].heartbeat;
            cr_assert_neq(judge(s, p).kind, VERDICT_END, "row %zu: at the alive timeout the job does not end yet", i);
            s.now = s.began = T + ALIVE + 1;
            verdict_t v = judge(s, p);
            cr_assert_eq(v.kind, rows[i].kind, "row %zu", i);
            if (v.kind != VERDICT_END) continue;
            expect(v, VERDICT_END, "alive_timeout", 2);
            cr_assert_eq(v.needs_silence, rows[i].needs_silence, "row %zu", i);
        }
    }
    p.alive_kills = false;
    expect_leave(judge(at(T), p), T + PROTECTED);
    p.protected_timeout_ms = 2 * ALIVE;
    expect_leave(judge(at(T), p), T + ALIVE);
    observation_t lives = at(T + ALIVE + 1);
    lives.heartbeat = HEARTBEAT_THERE;
    expect_leave(judge(lives, p), T + 2 * ALIVE);
}

Test(unit_verdict, age_in_the_job_counts_unless_in_the_future) {
    queue_policy_t p = policy();
    p.alive_timeout_ms = ALIVE;
    observation_t s = at(T + 10);
    s.created = T - ALIVE;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 1);
    s.created = T + 10 - ALIVE;
    expect_leave(judge(s, p), T + 10);
    s.created = T + 11;
    expect_leave(judge(s, p), T + PROTECTED);
    s.created = -5;
    expect_leave(judge(s, p), T + PROTECTED);
    s.now = s.began = T + ALIVE + 1; /* the job says that it was created just now */
    s.created = s.now;
    s.stamp.seen = s.now;
    expect_leave(judge(s, p), s.now + PROTECTED);
}

/* After a requeue the creation time in the job no longer counts: it has ended the job once. */
Test(unit_verdict, a_requeued_job_gets_a_whole_alive_timeout) {
    queue_policy_t p = policy();
    p.alive_timeout_ms = ALIVE;
    p.protected_timeout_ms = 2 * ALIVE;
    observation_t s = at(T + ALIVE);
    s.created = T - 100 * ALIVE;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 1);
    s.stamp.requeued = true;
    expect_leave(judge(s, p), T + ALIVE);
    s.now = s.began = T + ALIVE + 1;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 1);
    s.stamp = (stamp_t){.born_us = T * INT64_C(1000), .retried_at = T, .requeued = true};
    cr_assert_eq(judge(s, p).kind, VERDICT_SEEN, "the first execution after a requeue is not a retry");
}

Test(unit_verdict, duplicates_are_retried_and_not_ended) {
    queue_policy_t p = policy();
    p.alive_timeout_ms = ALIVE;
    observation_t s = at(T + ALIVE + 1);
    s.has_duplicates = true;
    s.stamp.retries = 3;
    s.stamp.retried_at = T - 1;
    expect(judge(s, p), VERDICT_RETRY, "stalled", 4);
    s.report = REPORT_END;
    expect(judge(s, p), VERDICT_RETRY, "reported", 4);
    s.report = REPORT_NONE;
    s.stamp.seen = s.now;
    expect_leave(judge(s, p), s.now + PROTECTED); /* the alive timeout does not end it either */
    p.end_duplicates = true;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 4);
    s.report = REPORT_END;
    expect(judge(s, p), VERDICT_END, "reported", 4);
    s.report = REPORT_NONE;
    s.stamp.seen = T;
    p.alive_timeout_ms = 0;
    expect(judge(s, p), VERDICT_END, "retries_exhausted", 4);
}

Test(unit_verdict, acts_on_a_report_at_once) {
    observation_t s = at(T + 1);
    s.report = REPORT_RETRY;
    for (s.stamp.retries = 0; s.stamp.retries < 5; s.stamp.retries++)
        expect(judge(s, policy()), s.stamp.retries < 3 ? VERDICT_RETRY : VERDICT_END, "reported", s.stamp.retries + 1);
    s.stamp.retries = 0;
    s.heartbeat = HEARTBEAT_THERE; /* the report says that the worker has finished */
    expect(judge(s, policy()), VERDICT_RETRY, "reported", 1);
    s.report = REPORT_END;
    verdict_t v = judge(s, policy());
    expect(v, VERDICT_END, "reported", 1);
    cr_assert_not(v.needs_silence);
}

Test(unit_verdict, jitter_stays_within_its_share_and_below_the_longest_delay) {
    queue_policy_t p = policy();
    p.retry.backoff = BACKOFF_EXPONENTIAL;
    p.retry.jitter = 0.2;
    static const struct {
        int64_t delay;
        double share;
        int64_t got;
    } vectors[] = {{0, 1, 0},      {100, -1, 80},    {100, 0, 100},   {100, 1, 120}, {1000, -1, 800},
                   {1000, 1, 800}, {1000, 0.5, 900}, {1000, 0, 1000}, {900, 1, 920}, {1, -1, 1}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        cr_expect_eq(verdict_jitter_ms(&p, vectors[i].delay, vectors[i].share), vectors[i].got, "vector %zu", i);
    p.retry.jitter = 1;
    cr_expect_eq(verdict_jitter_ms(&p, 1000, 1), 1, "the delay stays above 0");
    p.retry.backoff = BACKOFF_FIXED;
    cr_expect_eq(verdict_jitter_ms(&p, 5000, 1), 10000);
}

Test(unit_verdict, backoff) {
    queue_policy_t p = policy();
    for (int64_t retry = 1; retry < 70; retry++) {
        p.retry.backoff = BACKOFF_NONE;
        cr_assert_eq(verdict_delay_ms(&p, retry), 0);
        p.retry.backoff = BACKOFF_FIXED;
        cr_assert_eq(verdict_delay_ms(&p, retry), 100);
        p.retry.backoff = BACKOFF_EXPONENTIAL;
        int64_t delay = retry < 5 ? INT64_C(100) << (retry - 1) : 1000;
        cr_assert_eq(verdict_delay_ms(&p, retry), delay, "retry %d", (int)retry);
    }
    p.retry.delay_max_ms = 50; /* less than the delay */
    cr_assert_eq(verdict_delay_ms(&p, 1), 50);
    p.retry.backoff = BACKOFF_FIXED; /* fixed delays have no maximum */
    cr_assert_eq(verdict_delay_ms(&p, 1), 100);
    p.retry.delay_max_ms = INT64_MAX / 4;
    p.retry.backoff = BACKOFF_EXPONENTIAL;
    cr_assert_eq(verdict_delay_ms(&p, 1000), INT64_MAX / 4);
    observation_t s = at(T + PROTECTED + 1);
    s.stamp.retries = 2;
    s.stamp.retried_at = T - 1;
    cr_assert_eq(judge(s, p).delay_ms, 400);
}

/* An execution begins at the start in the job's bytes or at its first observation, whichever is later. */
Test(unit_verdict, protects_an_execution_from_the_start_in_its_job) {
    static const struct {
        int64_t executed, until;
    } rows[] = {{0, T}, {-5, T}, {T - 500, T}, {T + 700, T + 700}, {T + PROTECTED, T + PROTECTED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        observation_t s = at(rows[i].until + PROTECTED);
        s.executed = rows[i].executed;
        expect_leave(judge(s, policy()), rows[i].until + PROTECTED);
        s.now = s.began = rows[i].until + PROTECTED + 1;
        expect(judge(s, policy()), VERDICT_RETRY, "stalled", 1);
    }
    observation_t s = at(T + PROTECTED + 1);
    s.executed = s.now + 1; /* a start in the future is ignored */
    expect(judge(s, policy()), VERDICT_RETRY, "stalled", 1);
    s.executed = s.now;
    expect_leave(judge(s, policy()), s.now + PROTECTED);
}

Test(unit_verdict, never_forgets_retries_that_the_job_counts) {
    for (int64_t counted = 0; counted < 6; counted++) {
        observation_t s = at(T + WINDOW * 10);
        s.has_retries_in_job = true;
        s.retries_in_job = counted;
        s.stamp.retries = 5 - counted; /* ignored */
        s.stamp.retried_at = T - 1;
        expect(judge(s, policy()), counted < 3 ? VERDICT_RETRY : VERDICT_END, counted < 3 ? "stalled" : "retries_exhausted",
               counted + 1);
    }
    observation_t s = at(T + PROTECTED + 1);
    s.has_retries_in_job = true;
    s.retries_in_job = INT32_MAX;
    expect(judge(s, policy()), VERDICT_END, "retries_exhausted", (int64_t)INT32_MAX + 1);
}

Test(unit_verdict, ends_an_unreadable_job_after_the_protected_timeout) {
    static const heartbeat_t heartbeats[] = {HEARTBEAT_NONE, HEARTBEAT_UNKNOWN, HEARTBEAT_GONE, HEARTBEAT_THERE};
    for (size_t i = 0; i < 4; i++) { /* an unreadable job has no known heartbeat, so none counts */
        queue_policy_t p = policy();
        observation_t s = at(T + PROTECTED);
        s.unreadable = true;
        s.heartbeat = heartbeats[i];
        expect_leave(judge(s, p), T + PROTECTED);
        s.now = s.began = T + PROTECTED + 1;
        verdict_t v = judge(s, p);
        expect(v, VERDICT_END, "unreadable", 1);
        cr_assert_not(v.needs_silence);
        s.has_duplicates = true; /* it ends all the same: there is no list to return it to */
        expect(judge(s, p), VERDICT_END, "unreadable", 1);
    }
    queue_policy_t p = policy();
    p.alive_timeout_ms = PROTECTED / 2; /* an unreadable job has no known age, so it does not count */
    observation_t s = at(T + PROTECTED);
    s.unreadable = true;
    expect_leave(judge(s, p), T + PROTECTED);
    s.report = REPORT_RETRY; /* an unreadable job cannot be retried */
    expect_leave(judge(s, p), T + PROTECTED);
    s.stamp.seen = 0;
    cr_assert_eq(judge(s, p).kind, VERDICT_SEEN);
    s.stamp = (stamp_t){0};
    cr_assert_eq(judge(s, p).kind, VERDICT_STAMP);
}

/* The worker of a foreign job may be alive, so the job ends only when a retry would be due. */
Test(unit_verdict, ends_a_foreign_job_instead_of_a_retry) {
    queue_policy_t p = policy();
    observation_t s = at(T + PROTECTED);
    s.foreign = true;
    expect_leave(judge(s, p), T + PROTECTED);
    s.now = s.began = T + PROTECTED + 1;
    expect(judge(s, p), VERDICT_END, "invalid_target", 1);
    s.heartbeat = HEARTBEAT_UNKNOWN;
    cr_assert_eq(judge(s, p).kind, VERDICT_LOOK);
    s.heartbeat = HEARTBEAT_THERE;
    cr_assert_eq(judge(s, p).kind, VERDICT_LEAVE);
    s.heartbeat = HEARTBEAT_GONE;
    cr_assert_eq(judge(s, p).kind, VERDICT_MISSING);
    s.stamp.missing = T;
    verdict_t v = judge(s, p);
    expect(v, VERDICT_END, "invalid_target", 1);
    cr_assert(v.needs_silence);
    s.stamp.retries = 3;
    s.stamp.retried_at = T - 1;
    expect(judge(s, p), VERDICT_END, "retries_exhausted", 4);
    p.alive_timeout_ms = PROTECTED;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 4);
    p.alive_timeout_ms = 0;
    s.has_duplicates = true; /* it ends all the same: there is no list to return it to */
    expect(judge(s, p), VERDICT_END, "retries_exhausted", 4);
    s.stamp.retries = 0;
    expect(judge(s, p), VERDICT_END, "invalid_target", 1);
}

/* A new primary may have lost heartbeats: a job is left alone until a missing heartbeat is certain. */
Test(unit_verdict, a_missing_heartbeat_counts_once_it_is_certain) {
    observation_t s = at(T + PROTECTED * 2);
    s.heartbeat = HEARTBEAT_GONE;
    s.began = s.now;
    s.certain_at = s.now + 1;
    cr_assert_eq(judge(s, policy()).kind, VERDICT_MISSING);
    s.stamp.missing = s.now - 1000; /* noted on the former primary */
    expect_leave(judge(s, policy()), s.certain_at);
    s.certain_at = s.now;
    expect(judge(s, policy()), VERDICT_RETRY, "stalled", 1);
    queue_policy_t p = policy();
    p.alive_timeout_ms = ALIVE;
    s.now = s.began = T + ALIVE + 1;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 1);
    s.certain_at = s.now + 1;
    expect_leave(judge(s, p), s.certain_at);
    p.alive_kills = true;
    expect(judge(s, p), VERDICT_END, "alive_timeout", 1);
}
