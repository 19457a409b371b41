/* Dialect stream with the rights of docs/acl.md, and with one of these rights missing: no job is lost. */
#include "inspect/preflight.h"
#include "rights.h"
#include "stream_fixture.h"

#define PUBLISHED MAIL("retry_times = 0; dlq = \"mail:dead\";")

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    (void)queue;
    if (finding != PREFLIGHT_FACT && finding != PREFLIGHT_WARNING) buffer_printf(self, "%s\n", text);
}

static void put(setup_t *d) {
    redis_ok(d->f.r, "FLUSHALL");
    instance_lead(&d->instance, d->f.r);
    make_group(d);
    add(d, "job");
    take(d, "w1");
    redis_ok(d->f.r, "ZADD mail:delayed 1 due");
    redis_ok(d->f.r, "HSET mail:errors 1-1 orphan");
}

static setup_t d;
SUITE(redis_groups_acl, , close_setup(&d));

static char *preflight_text(void) {
    scoped(buffer_free) buffer_t said = {0};
    redis_error_t error;
    scoped(conn_drop) conn_t *conn = conn_new(d.f.shard, "test", NULL);
    cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
    cr_assert_eq(preflight(&(preflight_call_t){conn, d.f.keys, note, &said, &error}), OUTCOME_OK, "%s", error.text);
    return kept(mem_str(buffer_text(&said)));
}

Test(redis_groups_acl, the_published_lines_are_enough) {
    scoped(rights_free) rights_t rights = rights_read("stream");
    open_mail_with(&d, (fixture_options_t){.config = PUBLISHED, .redis = RIGHTS_LOGIN});
    rights_grant(d.f.r, &rights, NULL);
    put(&d);
    until(&d, reasons(&d, "retries_exhausted") == 1 && entries(&d, "mail", "due") == 1 && count(&d, "EXISTS mail:errors") == 0);
    cr_assert_eq(entries(&d, "mail:dead", "job"), 1);
    cr_assert_eq(rights_refused(d.f.r), 0);
    cr_assert_str_eq(preflight_text(), "");
}

/* The entry is pending or has ended, and the job is delayed or an entry: never both, never neither. */
Test(redis_groups_acl, without_any_one_right_no_job_is_lost, .timeout = 120) {
    scoped(rights_free) rights_t rights = rights_read("stream");
    for (size_t i = rights.own; i < rights.count; i++) {
        if (strcmp(rights.words[i], "+xinfo|consumers") == 0) continue; /* only heartbeat = "consumer" needs it */
        open_mail_with(&d, (fixture_options_t){.config = PUBLISHED, .redis = RIGHTS_LOGIN});
        rights_grant(d.f.r, &rights, rights.words[i]);
        put(&d);
        until(&d, fixture_log_count("refuses") > 0);
        driver_run(&d.instance.driver, 300);
        cr_assert_eq(pending(&d) + reasons(&d, "retries_exhausted"), 1, "without %s", rights.words[i]);
        cr_assert_eq(entries(&d, "mail:dead", "job"), reasons(&d, "retries_exhausted"), "without %s", rights.words[i]);
        cr_assert_eq(entries(&d, "mail", "due") + count(&d, "ZCARD mail:delayed"), 1, "without %s", rights.words[i]);
        if (rights.words[i][0] == '+') cr_assert_neq(*preflight_text(), '\0', "the preflight does not miss %s", rights.words[i]);
        close_setup(&d);
    }
}

Test(redis_groups_acl, the_preflight_tells_of_the_group) {
    open_mail_with(&d, (fixture_options_t){.config = MAIL("")});
    cr_assert_str_eq(
        preflight_text(),
        "the stream \"mail\" has no group \"workers\": correct `group`, or make it: XGROUP CREATE mail workers 0 MKSTREAM\n");
    make_group(&d);
    cr_assert_str_eq(preflight_text(), "");
    redis_ok(d.f.r, "XGROUP CREATE mail audit 0");
    cr_assert_not_null(strstr(preflight_text(), "has 2 groups"));
}

Test(redis_groups_acl, the_idle_time_of_consumers_needs_a_newer_server) {
    open_mail_with(&d, (fixture_options_t){.config = MAIL("heartbeat = \"consumer\";")});
    make_group(&d);
    bool old = strstr(preflight_text(), "needs Redis 7.2 or Valkey, but this is") != NULL;
    cr_assert_eq(old, server_major(d.f.server) < 8);
}
