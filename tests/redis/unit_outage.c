/* The lines about an outage: one when it begins, one a minute while it lasts, and one when it ends, of all connections together.
 */
#include "fixture.h"
#include "redis/conn.h"
#include "redis/failure.h"

static config_t *config;
static topology_t *topology;
static conn_t *first, *second;

/* The seconds of the only line that the log got since the last call; -1: it got none. */
static long logged(void) {
    static size_t read;
    char *log = fixture_log();
    const char *at = strstr(log + read, "seconds");
    long seconds = at ? strtol(at + strcspn(at, "0123456789"), NULL, 10) : -1;
    cr_assert(!at || !strstr(at + 1, "seconds"), "%s", log + read);
    read = strlen(log);
    return seconds;
}

static long fails(conn_t *conn, outcome_t outcome) {
    redis_error_t error;
    redis_error_set(&error, outcome, "why");
    conn_report_failure(conn, "leader", &error);
    return logged();
}

static long recovers(conn_t *conn) {
    conn_report_unused(conn);
    return logged();
}

Test(unit_outage, all_connections_log_once_a_minute) {
    enum { NONE = -1 };
    config = fixture_config("redis = { socket = \"/none\"; }; queues = ( { name = \"q\"; } );");
    topology = topology_new(&config->redis);
    first = conn_new(topology_shard(topology, 0), "first", NULL);
    second = conn_new(topology_shard(topology, 0), "second", NULL);
    fixture_capture_log();
    logged();
    fixture_hold_boottime();
    cr_assert_eq(fails(first, OUTCOME_DISCONNECTED), 0, "the beginning");
    cr_assert_eq(fails(second, OUTCOME_DISCONNECTED), NONE, "another connection");
    for (int s = 1; s < 60; s++) {
        fixture_step_boottime(1000);
        cr_assert_eq(fails(first, OUTCOME_DISCONNECTED), NONE);
    }
    cr_assert_eq(fails(first, OUTCOME_RETRY), 59, "another kind of error");
    fixture_step_boottime(1000);
    cr_assert_eq(fails(first, OUTCOME_DISCONNECTED), 60, "a minute later");
    cr_assert_eq(fails(first, OUTCOME_RETRY), NONE);
    fixture_step_boottime(5000);
    cr_assert_eq(recovers(first), NONE, "another connection still fails");
    cr_assert_eq(recovers(second), 65, "the end");

    cr_assert_eq(fails(first, OUTCOME_DISCONNECTED), NONE, "a connection that comes and goes fills no log");
    cr_assert_eq(recovers(first), NONE, "the end of what nobody was told");
    fixture_step_boottime(60000);
    cr_assert_eq(fails(first, OUTCOME_DISCONNECTED), 0);
    cr_assert_eq(recovers(first), 0);
    conn_free(first);
    conn_free(second);
    topology_free(topology);
    config_free(config);
}
