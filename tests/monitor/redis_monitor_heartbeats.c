/* Two queues have jobs of the same id. A heartbeat speaks for the job of one queue. */
#include "monitor_fixture.h"

#define QUEUE_WITH(name, heartbeat) "{ name = \"" name "\"; protected_timeout = \"100ms\"; id_path = \"/id\"; " heartbeat " }"
#define CONFIG(email, orders)                                                                                                    \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( " QUEUE_WITH("email", email) ", " QUEUE_WITH(          \
        "orders", orders) " );"
#define JOB "{\"id\":7}"

static setup_t d;
SUITE(redis_monitor_heartbeats, , close_setup(&d));

static bool orders_wait(void) { return in_list(d.f.r, "orders", slice_text(JOB)); }

/* Lets the monitor look at the heartbeats of a queue in this many more scans. */
static void scans(int queue, int more) {
    metric_t *passes = &d.instance.metrics->queues[queue].passes;
    int64_t wanted = metric_get(passes) + more;
    until(&d, metric_get(passes) >= wanted);
}

Test(redis_monitor_heartbeats, the_worker_of_one_queue_does_not_speak_for_the_other) {
    open_setup(&d, (fixture_options_t){.config = CONFIG("heartbeat = \"email:*_alive\";", "heartbeat = \"orders:*_alive\";")});
    redis_ok(d.f.r, "SET orders:7_alive worker");
    redis_ok(d.f.r, "LPUSH orders:backup %s", JOB);
    work_on(&d, JOB); /* its worker is dead */
    until(&d, waiting(&d, JOB));
    scans(1, 4);
    cr_assert(!orders_wait(), "the job of a living worker was given to another");
}

Test(redis_monitor_heartbeats, the_end_of_a_job_does_not_take_the_other_one_from_its_worker) {
    open_setup(&d, (fixture_options_t){.config = CONFIG("heartbeat = \"email:*_alive\";", "heartbeat = \"orders:*_alive\";")});
    redis_ok(d.f.r, "SET email:7_alive worker");
    work_on(&d, JOB);
    for (int i = 0; i < 5; i++) { /* workers of the other queue end their jobs */
        redis_ok(d.f.r, "SET orders:7_alive worker");
        scans(0, 2);
        redis_ok(d.f.r, "DEL orders:7_alive");
        scans(0, 2);
        cr_assert_eq(working(&d, JOB), 1, "the job of a living worker was given to another");
    }
}

/* Workers of before write <id>_alive, and their configs do not name it. */
Test(redis_monitor_heartbeats, a_config_without_the_key_sees_the_heartbeats_of_before) {
    open_setup(&d, (fixture_options_t){.config = CONFIG("", "heartbeat = \"orders:*_alive\";")});
    redis_ok(d.f.r, "SET 7_alive worker");
    redis_ok(d.f.r, "LPUSH orders:backup %s", JOB);
    work_on(&d, JOB);
    until(&d, orders_wait());
    scans(0, 4);
    cr_assert_eq(working(&d, JOB), 1);
    redis_ok(d.f.r, "DEL 7_alive");
    until(&d, waiting(&d, JOB));
}
