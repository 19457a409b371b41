/* Only the leading auditor prunes requeue markers, and only those older than audit.retain. */
#include "auditor/auditor.h"
#include "auditor/internal.h"
#include "fixture.h"
#include "tempdir.h"

enum { OLD = 1200, RETAIN_MS = 3600000, HOUR_S = 3600 };
#define TWO_QUEUES                                                                                                               \
    "group = \"app\"; audit = { retain = \"1h\"; path = \"%s\"; }; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"

typedef struct {
    fixture_t f;
    instance_t instance;
    char *path, *config;
} setup_t;

static setup_t *open_auditor(void) {
    setup_t *d = calloc(1, sizeof *d);
    char *dir = temp_dir("log");
    d->path = temp_path(dir, "audit.db");
    d->config = mem_printf(TWO_QUEUES, d->path);
    d->f = fixture_start(&(fixture_options_t){.config = d->config, .preload = "shim_clock"});
    instance_start(&d->instance, d->f.keys, 0);
    return d;
}

static void close_auditor(setup_t *d) {
    instance_stop(&d->instance);
    fixture_stop(&d->f);
    free(d->path);
    free(d->config);
    free(d);
}

/* Adds OLD old markers, and one that is a minute too young to be pruned. */
static void add_markers(redis_t *r, const char *queue) {
    redis_ok(r, "EVAL %s 1 sidecar:%s:requeued %d %lld",
             "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'old' .. i, 'requeued ' .. i .. ' ann') end "
             "redis.call('HSET', KEYS[1], 'young', 'discarded ' .. ARGV[2] .. ' ann')",
             queue, OLD, (long long)(redis_ms(r) - RETAIN_MS + 60000));
}

static long long markers_of(redis_t *r, const char *queue) { return redis_int(r, "HLEN sidecar:%s:requeued", queue); }

static outcome_t step(setup_t *d, requeue_markers_t *markers) {
    redis_error_t error;
    return requeue_markers_step(markers, d->f.conn, d->f.keys, d->instance.leases, redis_ms(d->f.r), &error);
}

static setup_t *d;
SUITE(redis_requeue_markers, d = open_auditor(), close_auditor(d));

Test(redis_requeue_markers, pruning_takes_small_steps_through_all_queues) {
    requeue_markers_t markers = {0};
    add_markers(d->f.r, "email");
    add_markers(d->f.r, "sms");
    cr_assert_eq(step(d, &markers), OUTCOME_OK);
    cr_assert_eq(markers_of(d->f.r, "email") + markers_of(d->f.r, "sms"), 2 * OLD + 2, "only the leader prunes");
    cr_assert(!mono_reached(markers.at, mono_now()), "the next attempt must be later");
    instance_lead(&d->instance, d->f.r);
    markers.at = (mono_t){0};
    cr_assert_eq(step(d, &markers), OUTCOME_OK);
    long long left = markers_of(d->f.r, "email");
    cr_assert(left > OLD / 4 && left <= OLD, "%lld", left);
    cr_assert_eq(markers_of(d->f.r, "sms"), OLD + 1);
    cr_assert_eq(step(d, &markers), OUTCOME_OK);
    cr_assert_eq(markers_of(d->f.r, "email"), left, "the next step is not due yet");
    for (int i = 0; i < 50 && markers_of(d->f.r, "sms") > 1; i++) {
        markers.at = (mono_t){0};
        cr_assert_eq(step(d, &markers), OUTCOME_OK);
    }
    cr_assert_eq(markers_of(d->f.r, "email") + markers_of(d->f.r, "sms"), 2);
}

Test(redis_requeue_markers, a_key_of_the_wrong_type_blocks_no_other_queue) {
    requeue_markers_t markers = {0};
    instance_lead(&d->instance, d->f.r);
    redis_ok(d->f.r, "SET sidecar:email:requeued x");
    add_markers(d->f.r, "sms");
    cr_assert_eq(step(d, &markers), OUTCOME_REFUSED);
    for (int i = 0; i < 50 && markers_of(d->f.r, "sms") > 1; i++) {
        markers.at = (mono_t){0};
        cr_assert_eq(step(d, &markers), OUTCOME_OK);
    }
    cr_assert_eq(markers_of(d->f.r, "sms"), 1);
}

Test(redis_requeue_markers, the_auditor_prunes_markers) {
    add_markers(d->f.r, "sms");
    instance_lead(&d->instance, d->f.r);
    auditor_t *auditor =
        auditor_new(d->f.keys, d->instance.shard, d->instance.leases, d->instance.metrics, &d->instance.driver.role.stop);
    driver_add(&d->instance.driver, auditor_tick, auditor);
    cr_assert(driver_until(&d->instance.driver, markers_of(d->f.r, "sms") == 1, 15000));
    add_markers(d->f.r, "email");
    driver_run(&d->instance.driver, 50);
    cr_assert_eq(markers_of(d->f.r, "email"), OLD + 1, "the next round is an hour later");
    fixture_step_boottime(HOUR_S * 1000 + 1000);
    cr_assert(driver_until(&d->instance.driver, markers_of(d->f.r, "email") == 1, 15000));
    auditor_free(auditor);
}

/* A job whose marker is pruned too early could be requeued twice. */
Test(redis_requeue_markers, no_marker_is_pruned_while_the_clocks_disagree) {
    static const int64_t MONTH_MS = INT64_C(30) * 24 * 3600 * 1000;
    add_markers(d->f.r, "sms");
    server_step_clock(d->f.server, MONTH_MS);
    instance_lead(&d->instance, d->f.r);
    auditor_t *auditor =
        auditor_new(d->f.keys, d->instance.shard, d->instance.leases, d->instance.metrics, &d->instance.driver.role.stop);
    driver_add(&d->instance.driver, auditor_tick, auditor);
    driver_run(&d->instance.driver, 300);
    cr_assert_eq(markers_of(d->f.r, "sms"), OLD + 1);
    server_step_clock(d->f.server, -MONTH_MS);
    fixture_step_boottime(61000);
    cr_assert(driver_until(&d->instance.driver, markers_of(d->f.r, "sms") == 1, 15000));
    auditor_free(auditor);
}
