/* A server closes connections that are idle for a second or two (`timeout`): the program replaces them, and then sends PING in
 * time, in every role. */
#include "daemon.h"
#include "server.h"
#include "suite.h"
#include "wait.h"

enum { CALM_MS = 4000, LONGEST_MS = 60000 };

static server_t *server;
static daemon_t *leader, *standby;
static long long asked;

static daemon_t *start(void) {
    return daemon_start(
        "group = \"app\"; redis = { socket = \"%s\"; }; http = { port = 0; }; log = { format = \"json\"; }; "
        "lock = { ttl = \"1m\"; }; queues = ( { name = \"email\"; }, { name = \"video\"; dialect = \"bull\"; } );",
        server_socket(server));
}

/* Without the connections that ask for the number. */
static long long connections(void) { return server_info_int(server, "stats", "total_connections_received") - ++asked; }

static bool is_calm(void) {
    long long before = connections();
    return !wait_for(connections() > before, CALM_MS);
}

static void end(void) {
    daemon_free(leader);
    daemon_free(standby);
    server_free(server);
    leader = standby = NULL;
    server = NULL;
}

SUITE(daemon_idle, , end());

/* Returns whether nobody had to warn. */
static bool is_calm_at(const char *timeout) {
    asked = 0;
    server = server_start(NULL);
    leader = start();
    cr_assert(daemon_wait_log(leader, "\"msg\":\"leading\"", 10000), "%s", daemon_log(leader));
    standby = start();
    cr_assert(daemon_wait_log(standby, "standing by", 10000), "%s", daemon_log(standby));
    redis_t *r = redis_open(server);
    redis_ok(r, "CONFIG SET timeout %s", timeout);
    redis_close(r);
    cr_assert(daemon_wait_log(leader, "sending PING sooner", 30000), "%s", daemon_log(leader));
    cr_assert(wait_for(is_calm(), LONGEST_MS), "%s%s", daemon_log(leader), daemon_log(standby));
    int warnings = 0;
    for (int i = 0; i < 2; i++) {
        daemon_t *d = i ? standby : leader;
        warnings += daemon_log_count(d, "\"level\":\"warn\"") + daemon_log_count(d, "\"level\":\"error\"");
        cr_assert_eq(daemon_log_count(d, "redis closed an idle connection"), 1, "%s", daemon_log(d));
    }
    return warnings == 0;
}

/* A request may meet the close of its connection, which is a warning. That is seldom. */
static void expect_calm(const char *timeout) {
    for (int round = 1; !is_calm_at(timeout); round++) {
        cr_assert_lt(round, 3, "%s%s", daemon_log(leader), daemon_log(standby));
        end();
    }
}

Test(daemon_idle, a_timeout_of_1_second_is_no_trouble, .timeout = 300) { expect_calm("1"); }
Test(daemon_idle, a_timeout_of_2_seconds_is_no_trouble, .timeout = 300) { expect_calm("2"); }
