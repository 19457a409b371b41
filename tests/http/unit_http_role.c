/* The http role, tick by tick, with an api role that does not work: how it ends. */
#include "config_case.h"
#include "http/http.h"
#include "http_fixture.h"

static config_t *config;
static metrics_t *metrics;
static health_t *health;
static api_t *apis[API_LANES];
static http_t *http;
static int port;

static void begin(void) {
    config_case_begin();
    port = server_free_port();
    config = config_case_good(kept_printf("http = { port = %d; };\nqueues = ( { name = \"q\"; } );\n", port), NULL);
    metrics = metrics_new(4);
    health = health_new(metrics, "g", true);
    for (int i = 0; i < API_LANES; i++) apis[i] = api_new(config, metrics);
    http = http_new(config, health, metrics, apis);
}

static void end(void) {
    http_free(http);
    for (int i = 0; i < API_LANES; i++) api_free(apis[i]);
    health_free(health);
    metrics_free(metrics);
    config_free(config);
    config_case_end();
}

SUITE(unit_http_role, begin(), end());

#define REQUEST(path) "GET /api/v1/" path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

#define WRONG         "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong-token-0123456789\r\n\r\n"

static void say(int client, const char *requests) {
    cr_assert_eq(write(client, requests, strlen(requests)), (ssize_t)strlen(requests));
}

static bool tick_and_look(int client) {
    struct pollfd ready = {.fd = client, .events = POLLIN};
    http_tick(http, &(role_wait_t){.until = mono_never()});
    return poll(&ready, 1, 0) == 1;
}

static void await_answer(int client, const char *request) {
    char answer[4096];
    say(client, request);
    cr_assert(wait_for(tick_and_look(client), 10000));
    cr_assert_gt(read(client, answer, sizeof answer), 0);
}

/* A client whose first request has been answered. */
static int begin_client(void) {
    http_tick(http, &(role_wait_t){.until = mono_never()});
    int client = connect_to(port);
    cr_assert_geq(client, 0);
    await_answer(client, REQUEST("session"));
    return client;
}

/* libmicrohttpd ends the process if a request is suspended when it stops. */
Test(unit_http_role, stop_answers_requests_that_come_with_it) {
    int waits = begin_client(), late = begin_client();
    say(waits, REQUEST("status") REQUEST("status") REQUEST("status"));
    (void)tick_and_look(waits);
    (void)tick_and_look(waits);
    say(late, REQUEST("status") REQUEST("status"));
    http_finish(http);
    char *answers[] = {read_all(waits), read_all(late)};
    for (int i = 0; i < 2; i++) cr_expect(strstr(answers[i], "the sidecar is stopping"), "%d: %s", i, answers[i]);
    close(waits);
    close(late);
}

Test(unit_http_role, stop_holds_no_refused_token) {
    int client = begin_client();
    for (int i = 0; i < 11; i++) await_answer(client, WRONG); /* the last one was held */
    say(client, WRONG);
    http_finish(http);
    cr_expect(strstr(read_all(client), "HTTP/1.1 401"));
    close(client);
}
