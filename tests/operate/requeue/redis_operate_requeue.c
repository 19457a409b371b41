/* A requeue by a thread that no terminal has: it stops by a flag, and tells its caller each result. */
#include "audit/store.h"
#include "audit_case.h"
#include "base/digest.h"
#include "fixture.h"
#include "operate/requeue/requeue.h"
#include "text.h"

#include <pthread.h>

enum { FAILURES = 600, FIRST = 100 };

static fixture_t f;
static char *path;

static void setup(void) {
    path = audit_case_path();
    f = fixture_start(
        &(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; heartbeat = \"off\"; } );"});
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    for (int i = 0; i < FAILURES; i++) {
        audit_case_event_t item;
        char payload[24], sha256[DIGEST_HEX_SIZE];
        int len = snprintf(payload, sizeof payload, "job %d", i);
        digest_t digest = digest_of(payload, (size_t)len);
        digest_hex(&digest, sha256);
        audit_case_event(&item, "failed", i, 1000 + i);
        item.event.queue = slice_text("email");
        item.event.dialect = slice_text("list");
        item.event.payload = (slice_t){payload, (size_t)len};
        item.event.size = len;
        item.event.sha256 = slice_text(sha256);
        cr_assert(audit_case_put(audit, &item.event));
    }
    audit_close(audit);
}

static void teardown(void) {
    fixture_stop(&f);
    free(path);
}

SUITE(redis_operate_requeue, setup(), teardown());

/* A caller of HTTP has a log of its own, a flag, and counts that others read. */
typedef struct {
    atomic_bool stop;
    atomic_int results; /* after this many results the run is told to stop; 0 = never */
    int stop_after;
    requeue_options_t options;
    requeue_counts_t counts;
    requeue_end_t end;
    char *why; /* kept */
} caller_t;

static bool caller_wait(void *self, int64_t ns) {
    caller_t *caller = self;
    mono_t until = mono_add(mono_now(), ns);
    while (!atomic_load(&caller->stop) && !mono_reached(until, mono_now())) sched_yield();
    return atomic_load(&caller->stop);
}

static void caller_result(void *self, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    caller_t *caller = self;
    (void)detail;
    cr_assert(result != RESULT_DONE || strcmp(target->queue, "email") == 0);
    if (atomic_fetch_add(&caller->results, 1) + 1 == caller->stop_after) atomic_store(&caller->stop, true);
}

static void caller_warn(void *self, const char *text) {
    (void)self;
    cr_assert_fail("%s", text);
}

static void *caller_main(void *self) {
    caller_t *caller = self;
    scoped(buffer_free) buffer_t why = {0};
    const char *target;
    redis_error_t error;
    audit_t *audit = audit_open(path, AUDIT_READ, &why);
    requeue_t *requeue = requeue_new(f.config, audit);
    requeue->options = caller->options;
    requeue->caller = (requeue_caller_t){.self = caller, .wait = caller_wait, .result = caller_result, .warn = caller_warn};
    cr_assert(requeue_plan_filter(requeue, &(audit_filter_t){.queue = "email"}, &why), "%s", buffer_text(&why));
    cr_assert_eq(requeue->plan.count, FAILURES);
    cr_assert_eq(requeue_connect(requeue, &target, &error), OUTCOME_OK, "%s", error.text);
    caller->end = requeue_run(requeue, &why);
    caller->counts = requeue->counts;
    caller->why = mem_str(buffer_text(&why));
    requeue_free(requeue);
    audit_close(audit);
    return NULL;
}

static caller_t run(int stop_after, requeue_options_t options) {
    pthread_t thread;
    static caller_t caller;
    caller = (caller_t){.stop_after = stop_after, .options = options};
    cr_assert_eq(pthread_create(&thread, NULL, caller_main, &caller), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_str_empty(caller.why);
    free(caller.why);
    cr_assert_eq(caller.counts.total, FAILURES);
    return caller;
}

static const requeue_options_t plain = {.by = "ann", .note = "", .to = -1};

Test(redis_operate_requeue, a_stopped_run_is_finished_by_the_next_one_each_job_once) {
    requeue_options_t slow = plain;
    slow.per_minute = 60000;
    caller_t first = run(FIRST, slow);
    long long done = first.counts.of[RESULT_DONE];
    cr_assert_eq(first.end, REQUEUE_STOPPED);
    cr_assert(done >= FIRST && done < FAILURES, "%lld", done);
    cr_assert_eq(redis_int(f.r, "LLEN email"), done);
    caller_t second = run(0, plain);
    cr_assert_eq(second.end, REQUEUE_ENDED);
    cr_assert_eq(second.counts.of[RESULT_ANSWERED], done);
    cr_assert_eq(second.counts.of[RESULT_DONE], FAILURES - done);
    cr_assert_eq(second.counts.tried, FAILURES);
    cr_assert_eq(redis_int(f.r, "LLEN email"), FAILURES);
    cr_assert_not(requeue_has_failed(&second.counts));
}

/* How many connections the server has accepted so far. */
static int connections(void) {
    static const char name[] = "total_connections_received:";
    char *info = redis_str(f.r, "INFO stats"), *at = strstr(info, name);
    cr_assert_not_null(at);
    int count = atoi(at + sizeof name - 1);
    free(info);
    return count;
}

Test(redis_operate_requeue, a_dry_run_asks_redis_nothing) {
    requeue_options_t dry = plain;
    dry.dry_run = true;
    int before = connections();
    caller_t caller = run(0, dry);
    cr_assert_eq(caller.end, REQUEUE_ENDED);
    cr_assert_eq(caller.counts.of[RESULT_WOULD], FAILURES);
    cr_assert_eq(connections(), before);
}

/* The API has no options of a command line. */
Test(redis_operate_requeue, no_text_of_a_result_names_an_option) {
    for (int i = 0; i < RESULT_COUNT; i++) cr_expect_not(strstr(requeue_words[i].text, "--"), "%s", requeue_words[i].text);
}

/* An API hides no part of an answer: the words are those of `audit requeue -o json`. */
Test(redis_operate_requeue, results_are_written_in_the_words_of_the_command) {
    requeue_t *requeue = requeue_new(f.config, NULL);
    scoped(buffer_free) buffer_t out = {0};
    const requeue_target_t target = {.ref = "k3vq", .event = "ab", .queue = "email", .job = "a\"b"};
    requeue_write_result(&out, requeue, &target, RESULT_DONE, "");
    requeue_write_result(&out, requeue, &target, RESULT_REFUSED, "NOPERM");
    cr_assert_str_eq(buffer_text(&out),
                     "{\"ref\":\"k3vq\",\"event\":\"ab\",\"queue\":\"email\",\"job_id\":\"a\\\"b\",\"action\":\"requeue\","
                     "\"result\":\"done\",\"to\":\"email\",\"detail\":\"\"}"
                     "{\"ref\":\"k3vq\",\"event\":\"ab\",\"queue\":\"email\",\"job_id\":\"a\\\"b\",\"action\":\"requeue\","
                     "\"result\":\"refused\",\"detail\":\"NOPERM\"}");
    requeue_free(requeue);
}

typedef struct {
    audit_t *audit;
    int slices, stop_at;
} planner_t;

static bool planner_wait(void *self, int64_t ns) {
    planner_t *planner = self;
    cr_assert_eq(ns, 0);
    cr_assert_eq(sqlite3_txn_state(planner->audit->db, NULL), SQLITE_TXN_NONE);
    return ++planner->slices == planner->stop_at;
}

static slice_t see_slowly(void *self, slice_t queue, slice_t payload, buffer_t *memory) {
    (void)self, (void)queue, (void)memory;
    fixture_step_boottime(1);
    return payload;
}

static size_t plan(planner_t *planner, const audit_filter_t *filter) {
    scoped(buffer_free) buffer_t why = {0};
    planner->audit = audit_open(path, AUDIT_READ, &why);
    requeue_t *requeue = requeue_new(f.config, planner->audit);
    requeue->options = plain;
    requeue->caller = (requeue_caller_t){.self = planner, .wait = planner_wait};
    cr_assert(requeue_plan_filter(requeue, filter, &why), "%s", buffer_text(&why));
    size_t count = requeue->plan.count;
    for (size_t i = 1; i < count; i++) cr_assert_lt(requeue->plan.seqs[i - 1], requeue->plan.seqs[i]);
    requeue_free(requeue);
    audit_close(planner->audit);
    return count;
}

/* The plan looks at each failure for a millisecond. One read transaction of 600 ms would keep the auditor's checkpoints away. */
Test(redis_operate_requeue, a_plan_is_made_in_short_transactions_until_its_caller_stops_it) {
    const audit_view_t slow = {.see = see_slowly};
    planner_t whole = {0}, stopped = {.stop_at = 2};
    cr_expect_eq(plan(&whole, &(audit_filter_t){.grep = "job", .view = &slow}), FAILURES);
    cr_expect_geq(whole.slices, FAILURES / 100);
    cr_expect_lt(plan(&stopped, &(audit_filter_t){.grep = "job", .view = &slow}), FAILURES);
    cr_expect_eq(plan(&(planner_t){0}, &(audit_filter_t){.grep = "job", .limit = 7}), 7);
}
