/* The monitor with a thousand refused queues: its log lines, and healthy queues are served meanwhile. */
#include "base/log.h"
#include "inspect/preflight.h"
#include "monitor_fixture.h"

enum { QUEUES = 999, HEALTHY = 500, LINES = 20, WINDOW_MS = 10000, HOLD_MS = 5001, ROUNDS = 5 };

/* Returns a config with the largest number of queues: one healthy queue among refused queues; owned. */
static char *many_queues_config(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputs(
        "group = \"app\"; monitor = { scan_interval = \"1h\"; }; defaults = { protected_timeout = \"1h\"; heartbeat = \"off\"; };"
        "queues = (",
        out);
    for (int i = 0; i <= QUEUES; i++)
        fprintf(out, i == HEALTHY ? "%s{ name = \"email\"; }" : "%s{ name = \"q%d\"; }", i ? ", " : "", i);
    fputs(");", out);
    fclose(out);
    return text;
}

static int64_t all_faults(const setup_t *d) {
    int64_t sum = 0;
    for (size_t i = 0; i < d->f.keys->queue_count; i++) sum += metric_get(&d->instance.metrics->queues[i].faults);
    return sum;
}

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    bool *named = self;
    if (finding == PREFLIGHT_QUEUE_REFUSED)
        named[strtol(queue + 1, NULL, 10)] |= strstr(text, ":backup\" holds a string") != NULL;
}

Test(redis_monitor_many_queues, a_thousand_refused_queues_log_few_lines, .timeout = 120) {
    static bool named[QUEUES + 1];
    setup_t d;
    char *config = many_queues_config();
    open_setup(&d, (fixture_options_t){.config = config});
    redis_ok(d.f.r, "EVAL %s 0 %d %d",
             "for i = 0, ARGV[1] do if i ~= tonumber(ARGV[2]) then redis.call('SET', 'q' .. i .. ':backup', 'x') end end", QUEUES,
             HEALTHY);
    mono_t start = mono_now();
    for (int round = 1; round <= ROUNDS; round++) {
        char *job = kept_printf("job%d", round);
        work_on(&d, job);
        redis_ok(d.f.r, "HSET email:errors %s boom", job); /* without this report the next scan is in an hour */
        until(&d, waiting(&d, job));
        cr_assert(driver_until(&d.instance.driver, all_faults(&d) >= (int64_t)round * QUEUES, 20000), "%lld faults in round %d",
                  (long long)all_faults(&d), round);
        fixture_step_boottime(HOLD_MS);
    }
    fixture_step_boottime(WINDOW_MS);
    log_flush_suppressed();
    int64_t windows = mono_diff(mono_now(), start) / (WINDOW_MS * NS_PER_MS) + 1;
    int lines = fixture_log_count("redis refuses the monitor");
    cr_assert(lines > LINES && lines <= windows * (LINES + 1), "%d lines in %lld windows", lines, (long long)windows);
    cr_assert_leq(fixture_log_count(""), windows * (LINES + 1) + 2 * ROUNDS, "too many other lines");
    cr_assert_geq(fixture_log_count("\"more\":979,\"queues\":\"q"), 1, "the line must count the suppressed queues");
    cr_assert_eq(metric_get(&d.instance.metrics->queues[HEALTHY].faults), 0);
    cr_assert_eq(conn_open(d.f.conn, &d.f.error), OUTCOME_OK);
    cr_assert_eq(preflight(&(preflight_call_t){d.f.conn, d.f.keys, note, named, &d.f.error}), OUTCOME_OK, "%s", d.f.error.text);
    for (int i = 0; i <= QUEUES; i++) cr_assert(named[i] || i == HEALTHY, "q%d is not named", i);
    close_setup(&d);
    free(config);
}
