/* The password file changes while connections are open. */
#include "redis/auth.h"

#include "fixture.h"
#include "redis/keepalive.h"
#include "tempdir.h"
#include "wait.h"

enum { RETRY_MS = 5000 };

typedef struct {
    fixture_t f;
    char *path, *settings;
} setup_t;

static setup_t s;

static void write_password(const char *password) {
    char *next = temp_file("next", password);
    cr_assert_eq(rename(next, s.path), 0);
}

static void begin(bool closed) {
    s = (setup_t){.path = temp_file("password", "p0\n")};
    s.settings = mem_printf("password_file = \"%s\";", s.path);
    s.f = fixture_start(&(fixture_options_t){.proxy = true, .redis = s.settings, .closed = true});
    redis_ok(s.f.r, "ACL SETUSER default resetpass >p0");
    if (!closed) cr_assert_eq(conn_open(s.f.conn, &s.f.error), OUTCOME_OK, "%s", s.f.error.text);
    fixture_hold_boottime();
}

static void end(void) {
    fixture_stop(&s.f);
    free(s.path);
    free(s.settings);
}

/* As the main thread does. */
static bool note(topology_t *topology, const char *password) {
    bool changed = topology_note_password(topology, password);
    if (changed) topology_wake(topology);
    return changed;
}

static outcome_t keep(void) { return conn_keep_alive(s.f.conn, &s.f.error); }
static long auths(void) { return proxy_requests(s.f.proxy, "AUTH"); }

SUITE(redis_auth, , end());

Test(redis_auth, a_new_password_is_sent_once_on_the_open_connection) {
    begin(false);
    unsigned generation = conn_generation(s.f.conn);
    cr_assert_not(note(s.f.topology, "p0"), "the first look");
    cr_assert_eq(keep(), OUTCOME_OK);
    cr_assert_eq(auths(), 1);
    for (int i = 1; i <= 3; i++) {
        char password[8];
        snprintf(password, sizeof password, "p%d", i);
        redis_ok(s.f.r, "ACL SETUSER default >%s", password);
        write_password(password);
        cr_assert(note(s.f.topology, password));
        cr_assert_leq(conn_keep_alive_at(s.f.conn).ns, mono_now().ns, "it is due at once");
        for (int n = 0; n < 3; n++) cr_assert_eq(keep(), OUTCOME_OK);
        cr_assert_eq(auths(), 1 + i);
    }
    cr_assert_eq(conn_generation(s.f.conn), generation);
    char *log = proxy_log(s.f.proxy);
    cr_assert_not_null(strstr(log, "AUTH p3"));
    free(log);
}

static void open_other(conn_t *conn) {
    conn_close(conn);
    cr_assert_eq(conn_open(conn, &s.f.error), OUTCOME_OK, "%s", s.f.error.text);
}

/* A connection may read a new password before the main thread does, which reads the file once a second. The subscriber must not
 * be replaced again and again until then, nor the password be sent twice. */
Test(redis_auth, a_password_that_a_connection_has_read_first_is_not_old) {
    begin(false);
    scoped(conn_drop) conn_t *subscriber = conn_like(s.f.conn, "subscriber");
    note(s.f.topology, "p0");
    open_other(subscriber);
    for (int i = 1; i <= 3; i++) {
        char password[8];
        snprintf(password, sizeof password, "p%d", i);
        redis_ok(s.f.r, "ACL SETUSER default >%s", password);
        write_password(password);
        open_other(subscriber);
        cr_assert_not(auth_is_outdated(s.f.conn, subscriber), "round %d", i);
        long before = auths();
        cr_assert_eq(conn_keep_alive(subscriber, &s.f.error), OUTCOME_OK);
        cr_assert_eq(auths(), before);
        cr_assert(note(s.f.topology, password));
        cr_assert_not(auth_is_outdated(s.f.conn, subscriber));
        cr_assert_eq(conn_keep_alive(subscriber, &s.f.error), OUTCOME_OK);
        cr_assert_eq(auths(), before, "the subscriber has it already");
        cr_assert_eq(keep(), OUTCOME_OK);
        cr_assert_eq(auths(), before + 1);
        cr_assert_not(auth_is_outdated(s.f.conn, subscriber));
    }
    write_password("p1");
    note(s.f.topology, "p1");
    cr_assert_eq(keep(), OUTCOME_OK);
    cr_assert(auth_is_outdated(s.f.conn, subscriber), "a password that comes back is new");
}

/* The file may change before the server does. */
Test(redis_auth, a_wrong_password_is_told_once_and_tried_again) {
    begin(false);
    write_password("p1");
    note(s.f.topology, "p1");
    for (int i = 0; i < 4; i++) {
        for (int n = 0; n < 3; n++) cr_assert_eq(keep(), OUTCOME_OK, "what works goes on");
        cr_assert_eq(auths(), 2 + i);
        redisReply *reply;
        request_begin(s.f.conn, "GET", "x");
        cr_assert_eq(request_ask(s.f.conn, &reply, &s.f.error), OUTCOME_OK, "%s", s.f.error.text);
        conn_reply_free(reply);
        cr_assert_leq(mono_diff(conn_keep_alive_at(s.f.conn), mono_now()), RETRY_MS * NS_PER_MS);
        fixture_step_boottime(RETRY_MS);
    }
    cr_assert_eq(fixture_log_count("cannot authenticate with the new password"), 1);
    redis_ok(s.f.r, "ACL SETUSER default >p1");
    cr_assert_eq(keep(), OUTCOME_OK);
    cr_assert_eq(fixture_log_count("redis accepts the new password"), 1);
    fixture_step_boottime(RETRY_MS);
    cr_assert_eq(keep(), OUTCOME_OK);
    cr_assert_eq(auths(), 6);
}

static long long subscriber_id(const char *name) {
    char *list = redis_str(s.f.r, "CLIENT LIST TYPE pubsub");
    const char *line = strstr(list, name);
    while (line && line > list && line[-1] != '\n') line--;
    long long id = line ? strtoll(line + strlen("id="), NULL, 10) : 0;
    return id;
}

/* Under load: no term ends, no connection for requests is lost, and each subscribed connection is replaced. */
Test(redis_auth, twenty_new_passwords_under_load, .timeout = 120) {
    begin(true);
    scoped(instance_stop) instance_t instance, standby;
    instance_start(&instance, s.f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    instance_start(&standby, s.f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&instance.driver, metric_get(&instance.metrics->leading) == 1, 10000));
    cr_assert(driver_until(&standby.driver, subscriber_id("queue-sidecar-vacant"), 10000));
    cr_assert(driver_until(&instance.driver, subscriber_id("queue-sidecar-monitor-s"), 10000));
    int jobs = 0;
    for (int i = 1; i <= 20; i++) {
        char password[8];
        snprintf(password, sizeof password, "p%d", i);
        long long before[] = {subscriber_id("queue-sidecar-vacant"), subscriber_id("queue-sidecar-wakeups"),
                              subscriber_id("queue-sidecar-monitor-s")};
        redis_ok(s.f.r, "ACL SETUSER default >%s", password);
        write_password(password);
        note(instance.topology, password);
        note(standby.topology, password);
        for (int n = 0; n < 5; n++) redis_ok(s.f.r, "ZADD email:delayed 1 job%d", jobs++);
        cr_assert(driver_until(&instance.driver, redis_int(s.f.r, "LLEN email") == jobs, 10000), "round %d", i);
        cr_assert(driver_until(&instance.driver, subscriber_id("queue-sidecar-wakeups") > before[1], 10000));
        cr_assert(driver_until(&instance.driver, subscriber_id("queue-sidecar-monitor-s") > before[2], 10000));
        cr_assert(driver_until(&standby.driver, subscriber_id("queue-sidecar-vacant") > before[0], 10000));
        fixture_step_boottime(200);
        driver_step(&standby.driver, 1);
        driver_step(&instance.driver, 1);
    }
    cr_assert_eq(metric_get(&instance.metrics->terms), 1);
    cr_assert_eq(metric_get(&instance.metrics->terms_lost), 0);
    cr_assert_eq(metric_get(&instance.metrics->reconnects), 0);
    /* 3 connections for requests authenticate anew, and 2 new subscribers; of the standby one and one */
    cr_assert_geq(auths(), 20L * 7);
}
