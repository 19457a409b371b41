/* An archive: an instance with lock.lead = false. It copies failures, serves page and API, and leaves the lock to others. */
#include "audit_log.h"
#include "http/http_fixture.h"
#include "text.h"

static cluster_t s;
static daemon_t *archive;
static int port;
SUITE(daemon_archive, s = cluster_begin(NULL), cluster_end(&s));

#define QUEUE "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; heartbeat = \"off\"; retry_times = 0; id_path = \"/id\"; }"

static const sidecar_t LEADS = {.ttl = "1s", .queues = QUEUE};
static const sidecar_t NEVER = {.ttl = "1s", .queues = QUEUE, .never_leads = true};

static void begin_archive(void) {
    archive = serving(&s, NEVER, &port);
    await_says(archive, port, "/readyz", "HTTP/1.1 200");
}

static const char *status(const char *format) {
    sidecar_t spec = NEVER;
    spec.port = port;
    char *audit = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(archive));
    const daemon_options_t options = {.env = (const char *const[]){audit, NULL}};
    return daemon_run_argv(&options, (const char *const[]){"status", "-c", cluster_config_file(&s, spec), "-o", format, NULL})
        ->out;
}

Test(daemon_archive, it_copies_failures_serves_the_page_and_outlives_every_leader) {
    begin_archive();
    daemon_t *leader = cluster_sidecar_up(&s, LEADS);
    redis_ok(s.r, "HSET q:errors %s no", "{\"id\":7}");
    redis_ok(s.r, "LPUSH q:backup %s", "{\"id\":7}");
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(archive)) == 1, 15000), "%s", daemon_log(archive));
    cr_assert(has(ask(port, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), "HTTP/1.1 200"), "the page");
    cr_assert(wait_for(has(get(port, "/metrics"), "\nqueue_sidecar_standby 1\n"), 10000), "it sees the leader");
    cr_assert_eq(redis_int(s.r, "HLEN sidecar:q:auditors"), 2, "its acknowledgement counts for stream.min_copies");
    cr_assert_eq(daemon_terminate(leader, 5000).code, 0);
    cr_assert(wait_for(has(status("json"), "\"code\":\"no_leader\""), 10000), "%s", status("json"));
    const char *text = status("table");
    cr_expect(has(text, "never leads (lock.lead = false)"), "%s", text);
    cr_expect(has(text, "whose config has lock.lead = true"), "%s", text);
    cr_expect(says(port, "/readyz", "HTTP/1.1 200") && says(port, "/readyz", "never leads"));
    cr_assert(cluster_stays(redis_int(s.r, "EXISTS sidecar:g:lock") == 0, 3000));
    cr_assert_eq(daemon_log_count(archive, "\"msg\":\"leading\""), 0);
    leader = cluster_sidecar_up(&s, LEADS);
    cr_assert(wait_for(!has(status("json"), "\"code\":\"no_leader\""), 10000), "%s", status("json"));
}

Test(daemon_archive, a_reload_does_not_let_it_lead) {
    begin_archive();
    cluster_reconfigure(&s, archive, LEADS);
    cr_assert(daemon_wait_log(archive, "lock.lead", 10000), "%s", daemon_log(archive));
    cr_assert(wait_for(says(port, "/readyz", "lock.lead\""), 5000) || says(port, "/readyz", "restart"), "%s",
              get(port, "/readyz"));
    cr_assert(cluster_stays(redis_int(s.r, "EXISTS sidecar:g:lock") == 0, 2000));
}

Test(daemon_archive, check_says_that_it_never_leads) {
    char *never = cluster_config_file(&s, NEVER);
    const daemon_output_t *check = daemon_run("check", "-c", never);
    cr_expect(check->code == 0 && has(check->out, "lead  = false;") && !*check->err, "%s%s", check->out, check->err);
    check = daemon_run("check", "-c", never, "--redis");
    cr_expect(has(check->err, "note     lock.lead is false: "), "%s", check->err);
    cr_expect(has(check->err, "warning  \"g\" has no leader now, and an instance of this config never leads"), "%s", check->err);
    cr_expect(!has(daemon_run("check", "-c", cluster_config_file(&s, LEADS), "--redis")->err, "never leads"));
}
