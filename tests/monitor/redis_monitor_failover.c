/* The monitor after a failover to a replica that has lost heartbeats. */
#include "monitor_fixture.h"
#include "replica.h"
#include "wait.h"

enum { INTERVAL_MS = 1000 };
#define JOB "{\"id\":7}"

/* An overdue job whose missing heartbeat is noted; the note is on a replica, which then leads. A heartbeat that comes now is
 * lost. */
static server_t *lose_heartbeat(setup_t *d, const char *settings) {
    char *config =
        mem_printf("group = \"app\"; monitor = { scan_interval = \"%dms\"; }; queues = ( { name = \"email\"; "
                   "protected_timeout = \"100ms\"; retry_times = 1; heartbeat = \"*_alive\"; id_path = \"/id\"; %s } );",
                   INTERVAL_MS, settings);
    open_setup(d, (fixture_options_t){.proxy = true, .tcp = true, .config = config});
    free(config);
    work_on(d, JOB);
    until(d, stamp_of(d->f.r, slice_text(JOB)).missing);
    server_t *replica = replica_start(d->f.server, NULL);
    replica_promote(replica);
    redis_ok(d->f.r, "SET 7_alive me");
    until(d, !stamp_of(d->f.r, slice_text(JOB)).missing);
    return replica;
}

static void fail_over(setup_t *d, server_t *replica) {
    redis_close(d->f.r);
    d->f.r = redis_open(replica);
    proxy_lead_to(d->f.proxy, server_socket(replica));
}

static void end(setup_t *d, server_t *replica) {
    close_setup(d);
    server_free(replica);
}

/* G5: the worker beats again within an interval. */
static void expect_kept(const char *settings) {
    setup_t d;
    server_t *replica = lose_heartbeat(&d, settings);
    cr_assert(stamp_of(d.f.r, slice_text(JOB)).seen);
    fail_over(&d, replica);
    cr_assert(stamp_of(d.f.r, slice_text(JOB)).missing, "the note of the former primary is there");
    passes(&d, 1);
    redis_ok(d.f.r, "SET 7_alive me");
    passes(&d, 3);
    cr_assert_eq(working(&d, JOB), 1);
    cr_assert_eq(records(&d), 0);
    end(&d, replica);
}

Test(redis_monitor_failover, a_lost_heartbeat_takes_no_job_from_a_living_worker) { expect_kept(""); }
Test(redis_monitor_failover, a_lost_heartbeat_ends_no_job_of_a_living_worker) { expect_kept("alive_timeout = \"200ms\";"); }

/* A worker that died in the failover beats no more. */
Test(redis_monitor_failover, a_dead_worker_is_noticed_after_one_interval) {
    setup_t d;
    server_t *replica = lose_heartbeat(&d, "");
    fail_over(&d, replica);
    until(&d, waiting(&d, JOB));
    expect_reason(&d, "retried", "stalled 1 -");
    end(&d, replica);
}

/* Each reconnect to the same server would put the decision off for ever. */
Test(redis_monitor_failover, a_reconnect_to_the_same_server_is_no_failover) {
    setup_t d;
    server_t *replica = lose_heartbeat(&d, "");
    redis_ok(d.f.r, "DEL 7_alive");
    int64_t end_us = wait_now_us() + wait_scaled_ms(10000) * 1000;
    while (!waiting(&d, JOB) && wait_now_us() < end_us) {
        proxy_disconnect(d.f.proxy);
        driver_run(&d.instance.driver, INTERVAL_MS / 4);
    }
    cr_assert_eq(waiting(&d, JOB), 1);
    end(&d, replica);
}
