/* /metrics of the real binary: the numbers equal those in Redis while jobs flow, Redis gets no requests for them while nobody
 * scrapes, and promtool accepts the output. */
#include "child.h"
#include "http_fixture.h"
#include "tempdir.h"

#include <math.h>

#define M    "queue_sidecar_"
#define BOTH "roles = [\"dispatcher\", \"monitor\"];"

/* The value of a series ("name{label=...}"), NAN where it is absent. */
static double value_of(const char *scrape, const char *series) {
    char *line = kept_printf("\n" M "%s ", series);
    const char *at = strstr(scrape, line);
    return at ? strtod(at + strlen(line), NULL) : NAN;
}

static double value(int port, const char *series) {
    char *scrape = get(port, "/metrics");
    return value_of(scrape, series);
}

#define await_value(d, port, series, wanted)                                                                                     \
    cr_assert(wait_for(value(port, series) == (wanted), 15000), "%s is %g, not %g\n%s", series, value(port, series),             \
              (double)(wanted), daemon_log(d))

/* The number of series, of the instance and of its queues. */
static size_t series_of(const char *scrape, bool of_queues) {
    size_t count = 0;
    for (const char *at = scrape; (at = strstr(at, "\n" M)); at++)
        count += of_queues == (strncmp(strchr(at, ' ') - 1, "}", 1) == 0 && memmem(at, strcspn(at + 1, "\n"), "queue=", 6));
    return count;
}

/* The number of reads of the sizes. Only these reads send XLEN in these tests: no failure stream needs trimming. */
static long long counts(const cluster_t *cluster) { return server_commandstat(cluster->server, "xlen"); }

static cluster_t cluster;
static int port;
SUITE(daemon_metrics, , cluster_end(&cluster));

Test(daemon_metrics, sizes_equal_those_in_redis) {
    cluster = cluster_begin(NULL);
    sidecar_t spec = {.ttl = "6s",
                      .queues = "{ name = \"q\"; heartbeat = \"off\"; " BOTH " }, { name = \"a\\\"b\\\\c\"; }, "
                                "{ name = \"full\"; ready_limit = 1; }"};
    int first, second;
    daemon_t *leader = serving(&cluster, spec, &first);
    await_says(leader, first, "/readyz", "\"state\": \"leading\"");
    daemon_t *standby = serving(&cluster, spec, &second);
    await_says(standby, second, "/readyz", "\"state\": \"standing by\"");
    redis_ok(cluster.r, "ZADD q:delayed 9000000000123 a 9000000000124 b");
    redis_ok(cluster.r, "RPUSH q 1 2 3 4");
    redis_ok(cluster.r, "RPUSH q:backup 5 6");
    redis_ok(cluster.r, "RPUSH %s 1", "a\"b\\c");
    redis_ok(cluster.r, "RPUSH full 1");
    redis_ok(cluster.r, "EVAL %s 1 full:delayed", "redis.call('ZADD', KEYS[1], (redis.call('TIME')[1] - 3600) * 1000, 'late')");
    await_value(leader, first, "delayed_jobs{queue=\"q\"}", 2);
    await_value(leader, first, "ready_jobs{queue=\"q\"}", 4);
    await_value(leader, first, "in_progress_jobs{queue=\"q\"}", 2);
    await_value(leader, first, "ready_jobs{queue=\"a\\\"b\\\\c\"}", 1);
    await_value(leader, first, "delayed_jobs{queue=\"full\"}", 1);
    char *scrape = get(first, "/metrics");
    cr_assert_eq(value_of(scrape, "next_due_timestamp_seconds{queue=\"q\"}"), 9000000000.123);
    cr_assert(isnan(value_of(scrape, "next_due_timestamp_seconds{queue=\"a\\\"b\\\\c\"}")), "the queue has no delayed job");
    cr_assert_eq(value_of(scrape, "oldest_due_age_seconds{queue=\"q\"}"), 0);
    double late = value_of(scrape, "oldest_due_age_seconds{queue=\"full\"}");
    cr_assert(late >= 3600 && late < 3700, "%g", late);
    cr_assert(wait_for(value(first, "oldest_due_age_seconds{queue=\"full\"}") > late, 10000),
              "the age grows between two readings of the sizes");
    /* A scan must see the jobs first. */
    cr_assert(wait_for(value(first, "oldest_in_progress_age_seconds{queue=\"q\"}") >= 0, 20000));
    cr_assert_lt(value(first, "oldest_in_progress_age_seconds{queue=\"q\"}"), 100);
    cr_assert_eq(value_of(scrape, "failure_stream_records{queue=\"q\"}"), 0);
    cr_assert_eq(value_of(scrape, "failure_stream_full_ratio{queue=\"q\"}"), 0);
    scrape = get(second, "/metrics");
    cr_assert(strstr(scrape, "# TYPE " M "delayed_jobs gauge\n") && !strstr(scrape, "\n" M "delayed_jobs{"),
              "a standby exposes no sizes");
    daemon_kill(leader);
    cluster_await_leader(&cluster, "g", leader, 20000);
    await_value(standby, second, "delayed_jobs{queue=\"q\"}", 2);
}

Test(daemon_metrics, key_of_wrong_type_has_no_size_and_spoils_no_other) {
    /* With this TTL the leader sleeps for a minute and more unless it is woken. */
    daemon_t *d = leading(&cluster, (sidecar_t){.ttl = "5m", .queues = "{ name = \"q\"; }, { name = \"r\"; }"}, &port);
    redis_ok(cluster.r, "RPUSH q 1 2");
    redis_ok(cluster.r, "RPUSH r 1 2 3");
    await_value(d, port, "delayed_jobs{queue=\"q\"}", 0);
    redis_ok(cluster.r, "SET q:delayed x");
    cr_assert(wait_for(isnan(value(port, "delayed_jobs{queue=\"q\"}")), 15000));
    cr_assert(value(port, "ready_jobs{queue=\"q\"}") == 2 && value(port, "delayed_jobs{queue=\"r\"}") == 0);
    cr_assert(isnan(value(port, "oldest_due_age_seconds{queue=\"q\"}")));
    cr_assert(wait_for(cluster_says(d, "cannot read some queue sizes", "q:delayed: WRONGTYPE"), 10000));
    redis_ok(cluster.r, "DEL q:delayed");
    await_value(d, port, "delayed_jobs{queue=\"q\"}", 0);
}

Test(daemon_metrics, nothing_is_measured_without_scrapes) {
    leading(&cluster, (sidecar_t){.ttl = "10s"}, &port);
    long long before = counts(&cluster); /* by the preflight */
    /* While /metrics is scraped, the sizes are read every 5 s. */
    cr_assert(cluster_stays(says(port, "/healthz", "HTTP/1.1 200") && says(port, "/readyz", "HTTP/1.1 200"), 7000));
    cr_assert_eq(counts(&cluster), before, "a probe does not count as a scrape");
    long long calls = server_commandstat(cluster.server, "evalsha");
    for (int i = 0; i < 200; i++) free(get(port, "/metrics"));
    cr_assert(wait_for(counts(&cluster) > before, 10000));
    calls = server_commandstat(cluster.server, "evalsha") - calls;
    cr_assert_lt(calls, 100, "many scrapes share one reading of the sizes");
}

/* Returns how many records of kind `failed` with this reason the failure stream holds. */
static long long recorded(const char *reason) {
    return redis_int(cluster.r, "EVAL %s 1 sidecar:q:failures %s",
                     "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == 'failed' and f.reason == ARGV[1] then n = n + 1 end end return n",
                     reason);
}

Test(daemon_metrics, failures_are_counted_by_reason_and_stalls_by_cause) {
    static const char *const reasons[] = {"retries_exhausted", "reported",    "alive_timeout", "unreadable",
                                          "invalid_target",    "dead_letter", "worker_failed"};
    static const char *const causes[] = {"timeout", "heartbeat_lost", "worker_gone", "lock_lost", "alive_timeout"};
    daemon_t *d = leading(&cluster,
                          (sidecar_t){.scan = "50ms",
                                      .queues = "{ name = \"q\"; " BOTH " heartbeat = \"off\"; protected_timeout = \"200ms\"; "
                                                "retry_times = 0; }"},
                          &port);
    for (size_t i = 0; i < 7; i++) {
        char series[100];
        snprintf(series, sizeof series, "final_failures_total{queue=\"q\",reason=\"%s\"}", reasons[i]);
        cr_assert_eq(value(port, series), 0, "%s", series);
        snprintf(series, sizeof series, "stalled_total{queue=\"q\",cause=\"%s\"}", causes[i % 5]);
        cr_assert_eq(value(port, series), 0, "%s", series);
    }
    for (int i = 0; i < 5; i++) redis_ok(cluster.r, "LPUSH q:backup stalled-%d", i);
    await_value(d, port, "final_failures_total{queue=\"q\",reason=\"retries_exhausted\"}", 5);
    redis_ok(cluster.r, "HSET q:errors %s no", "reported");
    redis_ok(cluster.r, "LPUSH q:backup %s", "reported");
    await_value(d, port, "final_failures_total{queue=\"q\",reason=\"reported\"}", 1);
    cr_assert_eq(value(port, "stalled_total{queue=\"q\",cause=\"timeout\"}"), 5);
    cr_assert(recorded("retries_exhausted") == 5 && recorded("reported") == 1);
    await_value(d, port, "failure_stream_records{queue=\"q\"}", 6);
    cr_assert_gt(value(port, "failure_stream_bytes{queue=\"q\"}"), 6 * 64);
    await_value(d, port, "audit_rows_total", 6);
}

Test(daemon_metrics, roles_in_trouble_are_shown) {
    daemon_t *d = leading(&cluster, (sidecar_t){0}, &port);
    static const char *const troubled[] = {"role_trouble_seconds{role=\"leader\"}", "role_trouble_seconds{role=\"auditor\"}"};
    for (size_t i = 0; i < 2; i++) await_value(d, port, troubled[i], 0);
    server_kill(cluster.server);
    for (size_t i = 0; i < 2; i++) cr_assert(wait_for(value(port, troubled[i]) > 0.3, 10000), "%s", troubled[i]);
    cr_assert_eq(value(port, "role_trouble_seconds{role=\"http\"}"), 0);
    server_restart(cluster.server, SERVER_LOSE_DATA);
    cluster_reopen(&cluster);
    for (size_t i = 0; i < 2; i++) await_value(d, port, troubled[i], 0);
}

static void check_by_promtool(const char *scrape) {
    static const char TOOL[] = "build/promtool";
    const char *required = getenv("QS_CLIENTS_REQUIRED");
    if (access(TOOL, X_OK) != 0) {
        cr_assert(!required || strcmp(required, "1") != 0, "no %s: run sh tests/support/promtool.sh", TOOL);
        cr_skip("no %s: run sh tests/support/promtool.sh", TOOL);
    }
    char *in = temp_file("scrape", scrape), *out = temp_path(temp_root(), "promtool");
    const char *argv[] = {"sh", "-c", "exec \"$0\" check metrics <\"$1\"", TOOL, in, NULL};
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out, .err = out});
    cr_assert(child_wait(child, 30000));
    char *said = temp_read(out);
    cr_assert(child->exit_code == 0 && *said == '\0', "%d: %s", child->exit_code, said);
}

Test(daemon_metrics, promtool_accepts_the_metrics) {
    daemon_t *d = leading(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"a\\\"b\\\\c\\xc3\\xa9\"; }"}, &port);
    redis_ok(cluster.r, "ZADD q:delayed 9000000000123 a");
    for (int i = 0; i < 5; i++) cluster_round(&cluster, "q", 0);
    await_value(d, port, "delayed_jobs{queue=\"q\"}", 1);
    char *scrape = get(port, "/metrics"), *body = strstr(scrape, "\r\n\r\n");
    cr_assert(body);
    check_by_promtool(body + 4);
}

/* A standby counts nothing in its queues. It reports their settings only. */
Test(daemon_metrics, standby_withholds_the_counters_of_queues_and_begins_its_term_at_zero) {
    cluster = cluster_begin(NULL);
    const sidecar_t spec = {.ttl = "6s", .queues = "{ name = \"q\"; " BOTH " }"};
    int first, second;
    daemon_t *leader = serving(&cluster, spec, &first);
    await_says(leader, first, "/readyz", "\"state\": \"leading\"");
    daemon_t *standby = serving(&cluster, spec, &second);
    await_says(standby, second, "/readyz", "\"state\": \"standing by\"");
    char *leads = get(first, "/metrics"), *stands_by = get(second, "/metrics");
    cr_assert_eq(value_of(leads, "promoted_total{queue=\"q\"}"), 0);
    cr_assert(isnan(value_of(stands_by, "promoted_total{queue=\"q\"}")), "%s", stands_by);
    cr_assert_eq(value_of(stands_by, "retry_times{queue=\"q\"}"), 3);
    cr_assert_eq(series_of(stands_by, true), 3, "%s", stands_by);
    cr_assert_geq(series_of(leads, true), 50, "%s", leads);
    cr_assert_eq(series_of(leads, false), series_of(stands_by, false));
    daemon_kill(leader);
    cluster_await_leader(&cluster, "g", leader, 20000);
    for (int i = 0; i < 3; i++) cluster_round(&cluster, "q", 0);
    leads = get(second, "/metrics");
    cr_assert_eq(value_of(leads, "promoted_total{queue=\"q\"}"), 0, "the scrapes before had no 0");
    cr_assert_eq(value_of(leads, "lateness_seconds_count{queue=\"q\"}"), 0);
    cr_assert_eq(value_of(leads, "final_failures_total{queue=\"q\",reason=\"reported\"}"), 0);
    cr_assert(wait_for(value(second, "promoted_total{queue=\"q\"}") == 3, 45000));
    cr_assert_eq(value(second, "lateness_seconds_count{queue=\"q\"}"), 3);
}

Test(daemon_metrics, group_is_a_label_to_join_with) {
    leading(&cluster, (sidecar_t){.group = "mailer\\\"x"}, &port);
    cr_assert(strstr(get(port, "/metrics"), "\n" M "group_info{group=\"mailer\\\"x\"} 1\n"), "%s", get(port, "/metrics"));
}

/* A scrape holds every family of `help metrics`, with its type and its help text, and no other family. */
Test(daemon_metrics, scrape_holds_every_metric_of_help) {
    leading(&cluster, (sidecar_t){0}, &port);
    char *scrape = get(port, "/metrics"), *help = kept(strdup(daemon_run("help", "metrics")->out)), *rest = help, *line;
    int families = 0, types = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        char *name = strsep(&line, "\t"), *type = strsep(&line, "\t");
        strsep(&line, "\t");
        char *text = kept_printf("# HELP %s %s\n# TYPE %s %s\n", name, line, name, type);
        cr_expect(strstr(scrape, text), "%s", text);
        families++;
    }
    for (const char *at = scrape; (at = strstr(at, "# TYPE ")); at++) types++;
    cr_assert_eq(types, families);
    cr_assert_gt(families, 50);
}
