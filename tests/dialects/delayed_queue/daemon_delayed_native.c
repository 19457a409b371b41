/* Real workers (tests/clients/delayed_queue): without their application for some delays, and beside the library's own scheduler,
 * as docs/dialects/delayed_queue.md describes. QS_NATIVE=on runs the library's algorithm every 500 ms, with the library's lock,
 * which excludes nobody. */
#include "audit_log.h"
#include "cluster.h"
#include "native.h"

#include <signal.h>

enum { EVENTS = 300, POISONS = 12, WORKERS = 2, ALL_MS = 60000 };

static const char QUEUE[] =
    "{ name = \"story\"; dialect = \"delayed_queue\"; types = [\"example.PaymentCheck\"]; retry_attempts = 4; "
    "delays = [\"*: 1s\"]; roles = [\"dispatcher\", \"monitor\"]; }";
static const char *const ENV[] = {"QS_NATIVE=on", "QS_ATTEMPTS=4", "QS_DELAY_MS=1000", "QS_THREADS=2", NULL};

/* Lines for the producer. One event of 25 fails each time, one of 20 fails the first time; a third is delayed. Kept. */
static char *events(void) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out);
    for (int i = 0; i < EVENTS; i++)
        fprintf(out, "%d %s %d text\n", i % 3 ? 0 : i * 5, i % 25 == 7 ? "poison" : i % 20 == 3 ? "flaky" : "ok", i);
    fclose(out);
    return kept(text);
}

/* Returns the number of events with this word in the workers' output. *all: the number of lines with this word. */
static int distinct(const native_t *native, const char *word, int *all) {
    native_lines_t lines = native_lines(native);
    bool seen[EVENTS] = {false};
    int count = 0;
    *all = 0;
    for (size_t i = 0; i < lines.count; i++) {
        if (strcmp(lines.lines[i].word, word) != 0) continue;
        size_t number = strtoul(strchr(lines.lines[i].key, '-') + 1, NULL, 10);
        cr_assert_lt(number, EVENTS);
        ++*all;
        if (!seen[number]) count++;
        seen[number] = true;
    }
    native_free_lines(&lines);
    return count;
}

static cluster_t s;
SUITE(daemon_delayed_beside, s = cluster_begin(&(server_options_t){.tcp = true}), cluster_end(&s));
TestSuite(daemon_delayed_native, .init = suite_start, .fini = suite_stop);

Test(daemon_delayed_beside, no_event_is_lost_and_no_failure_is_recorded_twice, .timeout = 120) {
    scoped(native_end) native_t native = native_begin("delayed_queue", s.server);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE});
    child_t *workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        workers[i] = native_start(&native, (const char *const[]){"work", "example.PaymentCheck", NULL}, ENV, NULL);
    if (!wait_for(native_count(&native, "ready", NULL) == WORKERS, ALL_MS)) native_fail(&native, "the workers do not start");
    char *in = events();
    daemon_pause(d); /* the library sends alone */
    native_finish(&native, (const char *const[]){"produce", "example.PaymentCheck", NULL}, ENV, in);
    int taken, done;
    if (!wait_for(distinct(&native, "taken", &taken) > 50, ALL_MS)) native_fail(&native, "the library sends nothing");
    for (int i = 0; i < 3; i++) { /* both send; the pause stops the sidecar at any point */
        daemon_continue(d);
        int before = taken;
        if (!wait_for((distinct(&native, "taken", &taken), taken > before + 10) ||
                          distinct(&native, "done", &done) == EVENTS - POISONS,
                      ALL_MS))
            cluster_fail(&s, "the workers get no further event");
        daemon_pause(d);
    }
    daemon_continue(d);
    if (!wait_for(distinct(&native, "done", &done) == EVENTS - POISONS, ALL_MS)) cluster_fail(&s, "not every event is done");
    if (!wait_for(redis_int(s.r, "EXISTS de_events de_delayed_events de_paymentcheck sidecar:story:aside") == 0, ALL_MS))
        cluster_fail(&s, "the queue's keys are not empty");
    if (!wait_for(daemon_log_count(d, "the scheduler of delayedQueue runs too") == 1, ALL_MS))
        cluster_fail(&s, "nothing warns of the library's scheduler");
    for (int i = 0; i < WORKERS; i++) {
        child_signal(workers[i], SIGTERM);
        cr_expect(child_wait(workers[i], ALL_MS) && workers[i]->exit_code == 0, "a worker did not exit with 0");
        child_free(workers[i]);
    }
    cr_assert_eq(distinct(&native, "taken", &taken), EVENTS);
    /* The scheduler that pushes an event last ends the event. The library writes no record. */
    const char *log = daemon_audit_path(d);
    long long records = redis_int(s.r, "XLEN sidecar:story:failures");
    cr_assert(wait_for(audit_log_rows(log) == records, ALL_MS));
    cr_expect(records > 0 && records <= POISONS, "%lld", records);
    cr_expect_eq(audit_log_int(log, "SELECT count(*) FROM events WHERE reason != 'retries_exhausted' OR job NOT LIKE 'poison-%'"),
                 0);
    cr_expect_eq(audit_log_int(log, "SELECT count(*) - count(DISTINCT job) FROM events"), 0);
    cr_expect_eq(daemon_log_count(d, "\"level\":\"error\""), 0);
    fprintf(stderr, "beside: %d events were sent %d times and done %d times; %lld of %d failures are recorded\n", EVENTS, taken,
            done, records, POISONS);
}

/* Returns the time at which the next event is due, in ms. */
static long long next_due(void) {
    return redis_int(s.r, "EVAL %s 1 de_delayed_events",
                     "return math.floor(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])");
}

/* No worker takes an event for some delays, as in a deploy or after a crash. Then each event is handled once. */
Test(daemon_delayed_native, events_wait_once_while_no_application_runs, .timeout = 120) {
    enum { DELAYS = 4, DELAY_MS = 1000 };
    scoped(native_end) native_t native = native_begin("delayed_queue", s.server);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE});
    char *in = NULL;
    size_t size;
    FILE *out = open_memstream(&in, &size);
    cr_assert(out);
    for (int i = 0; i < EVENTS; i++) fprintf(out, "0 ok %d text\n", i);
    fclose(out);
    native_finish(&native, (const char *const[]){"produce", "example.PaymentCheck", NULL}, ENV, in);
    if (!wait_for(redis_int(s.r, "LLEN de_paymentcheck") >= EVENTS, ALL_MS)) cluster_fail(&s, "the events are not sent");
    long long due = next_due();
    if (!wait_for(next_due() >= due + DELAYS * DELAY_MS, ALL_MS)) cluster_fail(&s, "the events are not due again");
    cr_assert_eq(redis_int(s.r, "LLEN de_paymentcheck"), EVENTS, "the list has copies");
    daemon_pause(d); /* an event that a slow worker holds for a delay would be sent again */
    static const char *const working[] = {"QS_ATTEMPTS=4", "QS_THREADS=2", NULL};
    child_t *worker = native_start(&native, (const char *const[]){"work", "example.PaymentCheck", NULL}, working, NULL);
    int taken, done;
    if (!wait_for(distinct(&native, "done", &done) == EVENTS, ALL_MS)) cluster_fail(&s, "not every event is done");
    if (!wait_for(redis_int(s.r, "EXISTS de_events de_delayed_events de_paymentcheck") == 0, ALL_MS))
        cluster_fail(&s, "the queue's keys are not empty");
    child_signal(worker, SIGTERM);
    cr_expect(child_wait(worker, ALL_MS) && worker->exit_code == 0, "the worker did not exit with 0");
    child_free(worker);
    cr_assert_eq(distinct(&native, "taken", &taken), EVENTS);
    cr_assert_eq(taken, EVENTS, "%d handler runs", taken);
    cr_assert_eq(audit_log_rows(daemon_audit_path(d)), 0);
    cr_assert_eq(daemon_log_count(d, "the scheduler of delayedQueue runs too"), 0);
    free(in);
}
