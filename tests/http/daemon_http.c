/* Health, readiness and metrics over HTTP, and hostile clients. */
#include "http_fixture.h"

static cluster_t cluster;
static int port;
SUITE(daemon_http, , cluster_end(&cluster));

Test(daemon_http, health_readiness_and_metrics_of_leader_and_standby) {
    cluster = cluster_begin(NULL);
    int first, second;
    daemon_t *leader = serving(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"a\\\"b\"; }"}, &first);
    await_says(leader, first, "/readyz", "\"state\": \"leading\"");
    daemon_t *standby = serving(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"a\\\"b\"; }"}, &second);
    await_says(standby, second, "/readyz", "\"state\": \"standing by\"");
    cr_assert(says(first, "/healthz", "HTTP/1.1 200") && says(first, "/healthz", "\r\n\r\nok\n"));
    cr_assert(says(second, "/readyz", "HTTP/1.1 200") && says(second, "/readyz", "\"ready\": true"));
    for (int i = 0; i < 7; i++) cluster_round(&cluster, "q", 0);
    await_says(leader, first, "/metrics", "\nqueue_sidecar_promoted_total{queue=\"q\"} 7\n");
    await_says(leader, first, "/metrics", "\nqueue_sidecar_lateness_seconds_count{queue=\"q\"} 7\n");
    cr_assert(says(first, "/metrics", "\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    cr_assert(says(first, "/metrics", "\nqueue_sidecar_leader 1\n") && says(second, "/metrics", "\nqueue_sidecar_leader 0\n"));
    cr_assert(says(first, "/metrics", "promoted_total{queue=\"a\\\"b\"} 0\n"), "%s", get(first, "/metrics"));
}

Test(daemon_http, without_redis_alive_but_not_ready) {
    daemon_t *d = leading(&cluster, (sidecar_t){0}, &port);
    server_kill(cluster.server);
    await_says(d, port, "/readyz", "HTTP/1.1 503");
    await_says(
        d, port, "/readyz",
        "\"check\": \"redis\", \"ok\": false, \"why\": \"cannot reach Redis, or it refuses the connection: cannot connect");
    await_says(d, port, "/readyz", "\"neither leading nor standing by yet: cannot connect");
    cr_assert(says(port, "/healthz", "HTTP/1.1 200"), "a probe of health must not depend on Redis");
    await_says(d, port, "/metrics", "\nqueue_sidecar_redis_up 0\n");
    server_restart(cluster.server, SERVER_LOSE_DATA);
    cluster_reopen(&cluster);
    await_says(d, port, "/readyz", "HTTP/1.1 200");
    cr_assert(!says(port, "/readyz", "cannot connect"));
}

Test(daemon_http, refused_configuration_is_shown_and_a_good_one_counted) {
    daemon_t *d = leading(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }"}, &port);
    cluster_reconfigure(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; colour = 1; }", .port = port});
    await_says(d, port, "/readyz", "\"check\": \"config\", \"ok\": false, \"why\": \"");
    await_says(d, port, "/readyz", "colour");
    cr_assert(says(port, "/readyz", "HTTP/1.1 200"), "the old config is in effect");
    cr_assert(says(port, "/metrics", "\nqueue_sidecar_config_refused 1\n"));
    cluster_reconfigure(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"new\"; }", .port = port});
    await_says(d, port, "/metrics", "\nqueue_sidecar_reloads_total 1\n");
    await_says(d, port, "/metrics", "\nqueue_sidecar_promoted_total{queue=\"new\"} 0\n");
    cr_assert(says(port, "/readyz", "\"check\": \"config\", \"ok\": true"));
    cluster_reconfigure(&cluster, d, (sidecar_t){.queues = "{ name = \"new\"; }", .port = port});
    cr_assert(wait_for(!says(port, "/metrics", "{queue=\"q\"}"), 10000), "a removed queue has no metrics");
}

Test(daemon_http, changed_timeout_is_shown_in_effect) {
    daemon_t *d = leading(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"v\"; dialect = \"bull\"; }"}, &port);
    await_says(d, port, "/metrics", "\nqueue_sidecar_protected_timeout_seconds{queue=\"q\"} 180\n");
    cr_assert(says(port, "/metrics", "\nqueue_sidecar_stalled_interval_seconds{queue=\"v\"} 30\n"));
    cr_assert_not(says(port, "/metrics", "stalled_interval_seconds{queue=\"q\"}"), "the dialect list has no stalled_interval");
    cr_assert_not(says(port, "/metrics", "protected_timeout_seconds{queue=\"v\"}"), "the dialect bull has no protected_timeout");
    const char *changed =
        "{ name = \"q\"; protected_timeout = \"1500ms\"; retry_times = 7; }, { name = \"v\"; dialect = \"bull\"; }";
    cluster_reconfigure(&cluster, d, (sidecar_t){.queues = changed, .port = port});
    await_says(d, port, "/metrics", "\nqueue_sidecar_protected_timeout_seconds{queue=\"q\"} 1.5\n");
    cr_assert(says(port, "/metrics", "\nqueue_sidecar_retry_times{queue=\"q\"} 7\n"));
    cr_assert(says(port, "/readyz", "\"check\": \"config\", \"ok\": true, \"state\": \"in effect since 20"));
    await_says(d, port, "/readyz", "Z: q: protected_timeout \\\"3m\\\" -> \\\"1500ms\\\", q: retry_times 3 -> 7\"}");
    const daemon_output_t *out = daemon_run("status", "-c", daemon_config_path(d));
    cr_assert(strstr(out->out, "\nconfig   in effect since 20") && strstr(out->out, "retry_times 3 -> 7\n"), "%s", out->out);
}

Test(daemon_http, port_in_use_is_logged_and_jobs_flow) {
    cluster = cluster_begin(NULL);
    port = server_free_port();
    int holder = listen_at(port);
    daemon_t *d = cluster_sidecar(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }", .port = port});
    static const char CANNOT[] = "cannot serve health and metrics";
    cr_assert(daemon_wait_log(d, CANNOT, 10000));
    char *in_use = kept_printf("http.port %d is in use: set it to a free port, or to 0", port);
    cr_assert(cluster_says(d, CANNOT, in_use));
    cluster_works(&cluster, "q");
    close(holder);
}

Test(daemon_http, check_tells_a_port_in_use) {
    cluster = cluster_begin(NULL);
    port = server_free_port();
    char *path = cluster_config_file(&cluster, (sidecar_t){.port = port}),
         *note = kept_printf("note     http.port %d is in", port);
    int holder = listen_at(port);
    const daemon_output_t *taken = daemon_run("check", "-c", path, "--redis");
    cr_assert(strstr(taken->err, note), "%s%s", taken->out, taken->err);
    close(holder);
    const daemon_output_t *free_now = daemon_run("check", "-c", path, "--redis");
    cr_assert(!strstr(free_now->err, "is in use"), "%s", free_now->err);
}

Test(daemon_http, other_methods_paths_and_sizes_get_an_answer) {
    daemon_t *d = leading(&cluster, (sidecar_t){0}, &port);
    static const struct {
        const char *request, *answer;
    } asked[] = {
        {"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc", "HTTP/1.1 405"},
        {"DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "Allow: GET, HEAD"},
        {"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 404"},
        {"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 421"},
        {"GET /metrics/../healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 404"},
        {"GET /healthz?verbose=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"},
        {"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"},
        {"GET /healthz HTTP/1.0\r\n\r\n", " 200 OK"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char *text = kept(ask(port, asked[i].request));
        cr_expect(strstr(text, asked[i].answer), "%s: %s", asked[i].request, text);
        const char *end = strstr(text, "\r\n\r\n"); /* of the head */
        cr_expect(end && (end[4] == '\0') == (strncmp(asked[i].request, "HEAD", 4) == 0), "%s: %s", asked[i].request, text);
    }
    char *large = kept(calloc(1, 1 << 18));
    strcpy(large, "GET /healthz HTTP/1.1\r\nX: ");
    memset(large + strlen(large), 'x', 1 << 17);
    const char *const bad[] = {large, "\x16\x03\x01\x02\x05 not http at all\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) { /* the response may be lost: the server closes without reading the whole request */
        char *text = kept(ask(port, bad[i]));
        cr_expect(!strstr(text, " 200 "), "%.30s: %s", bad[i], text);
    }
    cr_assert(says(port, "/healthz", "HTTP/1.1 200"));
    cr_assert(daemon_running(d));
}

enum { CROWD = 1000 };

Test(daemon_http, thousand_connections_block_no_probe_and_no_job) {
    daemon_t *d = leading(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }"}, &port);
    static int crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = connect_to(port);
        if (crowd[i] >= 0) (void)!send(crowd[i], "GET /heal", i % 2 ? 9 : 0, MSG_NOSIGNAL);
        if (i % 100 == 0) {
            cluster_round(&cluster, "q", 0);
            cr_assert(says(port, "/healthz", "HTTP/1.1 200"), "after %d", i);
        }
    }
    cluster_works(&cluster, "q");
    cr_assert(says(port, "/healthz", "HTTP/1.1 200"));
    for (int i = 0; i < CROWD; i++) close(crowd[i]);
    cr_assert(daemon_running(d));
}

Test(daemon_http, slow_request_is_closed) {
    leading(&cluster, (sidecar_t){0}, &port);
    int fd = connect_to(port);
    struct pollfd ready = {.fd = fd, .events = POLLIN | POLLRDHUP};
    int64_t began_us = wait_now_us(), end_us = began_us + wait_scaled_ms(40000) * INT64_C(1000);
    bool ended = false;
    cr_assert_eq(send(fd, "GET /healthz HTTP/1.1\r\nX: ", 26, MSG_NOSIGNAL), 26);
    while (!ended && wait_now_us() < end_us) {
        ended =
            send(fd, "x", 1, MSG_NOSIGNAL) != 1 || (poll(&ready, 1, 500) == 1 && ready.revents & (POLLRDHUP | POLLHUP | POLLERR));
    }
    cr_assert(ended, "a slow request stays open while its bytes come");
    cr_assert_geq(wait_now_us() - began_us, 9000000,
                  "closed too early: a request has ten seconds from its accept, which may be a second before the first byte");
    close(fd);
}

Test(daemon_http, healthcheck_asks_the_running_instance) {
    daemon_t *d = leading(&cluster, (sidecar_t){0}, &port);
    cr_assert_eq(daemon_run("healthcheck", "-c", daemon_config_path(d))->code, 0);
    cr_assert_str_eq(daemon_run("healthcheck", "-c", daemon_config_path(d))->out, "ok\n");
    cr_assert(strstr(daemon_run("healthcheck", "--ready", "-c", daemon_config_path(d))->out, "\"ready\": true"));
    server_kill(cluster.server);
    await_says(d, port, "/readyz", "HTTP/1.1 503");
    cr_assert_eq(daemon_run("healthcheck", "-c", daemon_config_path(d))->code, 0);
    cr_assert_eq(daemon_run("healthcheck", "--ready", "-c", daemon_config_path(d))->code, 1);
    cr_assert_eq(daemon_terminate(d, 5000).code, 0);
    const daemon_output_t *gone = daemon_run("healthcheck", "-c", daemon_config_path(d));
    cr_assert_eq(gone->code, 1);
    cr_assert(strstr(gone->err, "refused"), "%s", gone->err);
}

/* A probe that restarted the instance now would stop it for good: it could not start with the refused config. */
Test(daemon_http, refused_config_keeps_the_instance_healthy) {
    cluster = cluster_begin(NULL);
    daemon_t *d = serving(&cluster, (sidecar_t){0}, &port);
    const char *path = daemon_config_path(d);
    await_says(d, port, "/readyz", "\"state\": \"leading\"");
    cluster_reconfigure(&cluster, d, (sidecar_t){.port = port, .queues = "{ name = \"q\"; colour = 1; }"});
    const daemon_output_t *run = daemon_run("healthcheck", "-c", path);
    cr_assert(run->code == 0 && strstr(run->err, "colour"), "%d: %s", run->code, run->err);
    cr_assert_eq(daemon_run("healthcheck", "--ready", "-c", path)->code, 0);
    run = daemon_run("status", "-c", path);
    cr_assert(run->code == 78 && strstr(run->err, "colour"), "%d: %s", run->code, run->err);
    cr_assert(strstr(run->out, "continues with its previous config:\nroles    ok\n"), "%s", run->out);
    cr_assert(strstr(run->out, "\nlock     ok, leading\n"), "%s", run->out);
    cr_assert_str_empty(daemon_run("status", "-c", path, "-o", "json")->out);
    /* A file that cannot be parsed has no port either: the port comes from the environment, or is the default. */
    daemon_write_config(d, "queues = (");
    char *variable = kept_printf("QUEUE_SIDECAR_HTTP_PORT=%d", port);
    const daemon_options_t options = {.env = (const char *const[]){variable, NULL}};
    const char *const args[] = {"healthcheck", "-c", path, NULL}, *const ready[] = {"healthcheck", "--ready", "-c", path, NULL};
    cr_assert_eq(daemon_run_argv(&options, args)->code, 0);
    cr_assert_eq(daemon_run_argv(&options, ready)->code, 0, "although the file names no group");
    cr_assert_eq(daemon_run("healthcheck", "-c", "/nowhere")->code, 78);
    cr_assert_eq(daemon_terminate(d, 5000).code, 0);
    run = daemon_run_argv(&options, args);
    cr_assert(run->code == 78 && strstr(run->err, "refused"), "%d: %s", run->code, run->err);
}
