/* The api role, tick by tick: slices take turns, a client that leaves ends its work, and the waiting are limited. */
#include "config_case.h"
#include "http/api/answers/answers.h"
#include "http/api/api.h"
#include "http/api/request.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <dirent.h>
#include <sys/socket.h>

static config_t *config;
static metrics_t *metrics;
static api_t *api;
static char order_of_work[64]; /* the name of the request of each slice */

static void begin(void) {
    config_case_begin();
    const char *text = kept_printf("audit = { path = \"%s/nowhere\"; };\nqueues = ( { name = \"q\"; } );\n", temp_root());
    config = config_case_good(text, NULL);
    metrics = metrics_new(4);
    api = api_new(config, metrics);
}

static void end(void) {
    api_free(api);
    metrics_free(metrics);
    config_free(config);
    config_case_end();
}

SUITE(unit_api_role, begin(), end());

/* Works for ever: notes the first byte of the body. */
static bool work_on(api_t *of, request_t *request) {
    (void)of;
    size_t len = strlen(order_of_work);
    if (len + 1 < sizeof order_of_work) order_of_work[len] = *buffer_text(&request->body);
    return false;
}

static bool work_once(api_t *of, request_t *request) {
    work_on(of, request);
    answer_json(&request->answer, 200);
    return true;
}

static const route_t endless = {.method = "GET", .path = "/endless", .work = work_on};
static const route_t brief = {.method = "GET", .path = "/brief", .work = work_once};

/* Submits a request of a client, whose end of the connection is *client. */
static request_t *submit(const route_t *route, const char *name, int *client) {
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    request_t *request = mem_alloc(sizeof *request);
    request->route = route;
    request->fd = ends[0];
    *client = ends[1];
    buffer_str(&request->body, name);
    cr_assert(api_submit(api, request));
    return request;
}

static void tick(int times) {
    for (int i = 0; i < times; i++) api_tick(api, &(role_wait_t){.until = mono_never()});
}

Test(unit_api_role, slices_take_turns_and_a_brief_question_waits_for_one_turn) {
    int clients[3];
    submit(&endless, "a", &clients[0]);
    submit(&endless, "b", &clients[1]);
    tick(4);
    request_t *late = submit(&brief, "c", &clients[2]);
    tick(3);
    cr_expect_str_eq(order_of_work, "abababc");
    request_t *done = api_next_done(api);
    cr_assert_eq(done, late);
    cr_expect_eq(done->answer.status, 200);
    request_free(done);
    cr_expect_null(api_next_done(api));
}

Test(unit_api_role, client_that_leaves_ends_its_work) {
    int client;
    request_t *request = submit(&endless, "a", &client);
    tick(3);
    cr_expect_str_eq(order_of_work, "aaa");
    cr_expect_null(api_next_done(api));
    close(client);
    tick(1);
    cr_expect_str_eq(order_of_work, "aaa", "no slice for a client that has gone");
    cr_assert_eq(api_next_done(api), request);
    request_free(request);
}

static bool pass_on(api_t *of, request_t *request) {
    (void)of;
    request->route = &brief;
    return true;
}

Test(unit_api_role, request_for_another_role_comes_back_without_an_answer) {
    static const route_t passed = {.method = "GET", .path = "/passed", .work = pass_on};
    int client;
    request_t *request = submit(&passed, "a", &client);
    tick(1);
    cr_assert_eq(api_next_done(api), request);
    cr_expect_eq(request->answer.status, 0);
    cr_expect_eq(request->route, &brief);
    request_free(request);
}

Test(unit_api_role, waiting_requests_are_limited) {
    int client;
    for (int i = 0; i < API_WAITING_MAX; i++) submit(&brief, "a", &client);
    request_t *more = mem_alloc(sizeof *more);
    more->route = &brief;
    more->fd = client;
    cr_expect_not(api_submit(api, more));
    tick(1);
    cr_expect(api_submit(api, more));
    tick(API_WAITING_MAX);
    for (request_t *done; (done = api_next_done(api)) != NULL;) request_free(done);
}

Test(unit_api_role, abandoned_request_is_freed_and_not_handed_back) {
    int client;
    request_t *request = submit(&endless, "a", &client);
    tick(1);
    api_abandon(api, request);
    tick(1);
    cr_expect_null(api_next_done(api));
}

/* The http role closes a connection after the api role has answered it, and before it takes the answer. */
Test(unit_api_role, request_that_is_abandoned_after_its_answer_is_not_handed_back) {
    int clients[2];
    request_t *request = submit(&brief, "a", &clients[0]), *other = submit(&brief, "b", &clients[1]);
    tick(2);
    api_abandon(api, request);
    cr_assert_eq(api_next_done(api), other);
    request_free(other);
    cr_expect_null(api_next_done(api));
}

Test(unit_api_role, request_is_not_late_before_a_second) {
    int client;
    request_t *request = submit(&endless, "a", &client);
    tick(1);
    cr_expect_not(api_is_late(request));
    request->began_at = mono_add(mono_now(), -(API_SEARCH_MS + 1) * NS_PER_MS);
    cr_expect(api_is_late(request));
}

/* A reload replaces the config while requests are worked on. */
Test(unit_api_role, new_config_is_in_effect_at_the_next_tick) {
    config_t *next = config_case_good("queues = ( { name = \"r\"; } );\n", NULL);
    api_use_config(api, next);
    config_free(next);
    cr_expect_str_eq(api_config(api)->queues[0].name, "q");
    tick(1);
    cr_expect_str_eq(api_config(api)->queues[0].name, "r");
}

/* ---- Orders: each is planned by a thread, and its request waits. The log is not there, so each ends with a problem. */

static const char ORDER[] = "{\"action\":\"discard\",\"refs\":[\"aaaaaaaaaaa2\"],\"dry_run\":true}";
static const route_t post = {.method = "POST", .path = "/answers", .work = answers_post};

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count;
}

/* A request that waits for its plan until the test says otherwise. A run may be over before the first look. */
static request_t *order_that_waits(void) {
    for (int client;;) {
        request_t *request = submit(&post, ORDER, &client);
        tick(1);
        request->due = mono_add(mono_now(), 3600 * NS_PER_S);
        if (request->work) return request;
        cr_assert_eq(api_next_done(api), request);
        close(request->fd);
        close(client);
        request_free(request);
    }
}

Test(unit_api_role, plan_stays_until_its_request_has_it) {
    enum { ORDERS = 24 }; /* more than are kept when they are over */
    request_t *requests[ORDERS];
    int before = threads();
    for (int i = 0; i < ORDERS; i++) {
        requests[i] = order_that_waits();
        cr_assert(wait_for(threads() == before, 10000));
    }
    for (int i = 0; i < ORDERS; i++) {
        requests[i]->due = (mono_t){0};
        tick(1);
        cr_assert_eq(api_next_done(api), requests[i]);
        cr_expect(requests[i]->answer.status == 503 && strstr(buffer_text(&requests[i]->answer.body), "audit log"), "%s",
                  buffer_text(&requests[i]->answer.body));
        request_free(requests[i]);
    }
}

Test(unit_api_role, stop_answers_those_who_wait_before_it_forgets_their_runs) {
    int client;
    request_t *order = order_that_waits(), *search = submit(&endless, "a", &client);
    tick(1);
    request_t *late = submit(&brief, "b", &client);
    api_finish(api);
    request_t *const all[] = {order, search, late};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        request_t *done = api_next_done(api);
        cr_assert(done && done->answer.status == 503);
        cr_expect_null(done->work, "it would use a run that is freed");
        cr_expect(strstr(buffer_text(&done->answer.body), "the sidecar is stopping"), "%s", buffer_text(&done->answer.body));
        request_free(done);
    }
}
