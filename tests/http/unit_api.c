/* Pure parts of the API: queries, bodies, tokens, hosts and origins, cursors, plans, routes. */
#include "http/api/answers/order.h"
#include "http/api/answers/plan.h"
#include "http/api/guard.h"
#include "http/api/questions/cursor.h"
#include "http/api/routes.h"
#include "suite.h"

static const param_t table[] = {
    {"queue", PARAM_TEXT, 1, 8, NULL, false, ""},
    {"state", PARAM_WORD, 0, 0, "failed requeued", false, ""},
    {"limit", PARAM_NUMBER, 1, 1000, NULL, false, ""},
    {"ignore_case", PARAM_BOOL, 0, 0, NULL, false, ""},
};
enum { ROWS = sizeof table / sizeof *table };

static answer_t answer;
SUITE(unit_api, , answer_free(&answer));

/* The part of the problem; the status must be `status`. */
static bool problem_says(unsigned status, const char *part) {
    bool says = answer.status == status && strstr(buffer_text(&answer.body), part);
    if (!says) fprintf(stderr, "%u, not %u with %s: %s\n", answer.status, status, part, buffer_text(&answer.body));
    answer_free(&answer);
    return says;
}

Test(unit_api, query_is_decoded_by_the_table) {
    params_t params;
    cr_assert(params_read("queue=a%2Bb+c&limit=50&ignore_case=true", table, ROWS, &params, &answer));
    cr_expect_str_eq(params.values[0], "a+b c");
    cr_expect_null(params.values[1]);
    cr_expect_str_eq(params.values[2], "50");
    cr_expect_str_eq(params.values[3], "true");
    params_free(&params);
    cr_assert(params_read(NULL, table, ROWS, &params, &answer));
    cr_assert(params_read("", table, ROWS, &params, &answer));
}

Test(unit_api, bad_query_is_refused_with_what_is_allowed) {
    static const struct {
        const char *query, *says;
    } cases[] = {
        {"queu=x", "\"unknown parameter `queu`: allowed are queue, state, limit, ignore_case\",\"nearest\":\"queue\""},
        {"queue=x&queue=x", "`queue` is given twice"},
        {"queue", "bad `queue`: it must have 1 to 8 bytes"},
        {"queue=123456789", "it must have 1 to 8 bytes"},
        {"queue=%ff", "it must be UTF-8 without NUL"},
        {"queue=a%00b", "it must be UTF-8 without NUL"},
        {"queue=%4", "a % needs two hexadecimal digits"},
        {"queue=%zz", "a % needs two hexadecimal digits"},
        {"%7", "a % needs two hexadecimal digits"},
        {"state=faild", "bad `state`: allowed are failed, requeued\",\"nearest\":\"failed\""},
        {"state=failed%20requeued", "bad `state`: allowed are"},
        {"limit=0", "a whole number from 1 to 1000"},
        {"limit=1001", "a whole number from 1 to 1000"},
        {"limit=5.0", "a whole number"},
        {"ignore_case=yes", "bad `ignore_case`: allowed are true, false"},
        {"queue=x&", "it ends with &"},
        {"&queue=x", "a parameter is empty"},
        {"=x", "unknown parameter ``"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params_t params;
        cr_expect_not(params_read(cases[i].query, table, ROWS, &params, &answer), "%s", cases[i].query);
        cr_expect(problem_says(400, cases[i].says), "%s", cases[i].query);
        params_free(&params);
    }
}

static token_t token_of(const char *line) {
    token_t token;
    const char *why;
    cr_expect(token_parse(slice_text(line), &token, &why), "%s: %s", line, why);
    return token;
}

Test(unit_api, lines_of_tokens_have_name_and_rights) {
    token_t token = token_of("  alice\tlook,act  0123456789abcdef \r");
    digest_t digest = digest_of("0123456789abcdef", 16);
    cr_expect_str_eq(token.name, "alice");
    cr_expect_eq(token.rights, RIGHT_LOOK | RIGHT_ACT);
    cr_expect_arr_eq(token.digest.bytes, digest.bytes, DIGEST_BYTES);
    cr_expect_eq(token_of("0123456789abcdef").rights, RIGHT_LOOK | RIGHT_PAYLOADS | RIGHT_ACT);
    cr_expect_eq(token_of("p proxy,look 0123456789abcdef").rights, RIGHT_LOOK | RIGHT_PROXY);
    cr_expect_eq(token_of("# alice look 0123456789abcdef").rights, 0);
    cr_expect_eq(token_of("").rights, 0);
    static const char *const bad[] = {"0123456789abcde",
                                      "alice 0123456789abcdef",
                                      "alice look 0123456789abcde",
                                      "alice all 0123456789abcdef",
                                      "alice look, 0123456789abcdef",
                                      "alice look 0123456789abcdef more",
                                      "al\x01ice look 0123456789abcdef",
                                      "al\xffice look 0123456789abcdef"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *why = "";
        cr_expect_not(token_parse(slice_text(bad[i]), &token, &why), "%s", bad[i]);
        cr_expect_str_not_empty(why);
    }
}

Test(unit_api, refused_tokens_slow_down_and_nobody_is_locked_out) {
    tokens_t *tokens = tokens_new("");
    mono_t now = mono_now();
    for (int i = 0; i < 9; i++) tokens_note_refused(tokens, now);
    cr_expect_eq(tokens_delay(tokens, now), 0);
    for (int i = 0; i < 1000000; i++) tokens_note_refused(tokens, now);
    cr_expect_eq(tokens_delay(tokens, now), 500 * NS_PER_MS, "the delay is the same after a million");
    cr_expect_gt(tokens_delay(tokens, mono_add(now, 50 * NS_PER_S)), 0);
    cr_expect_eq(tokens_delay(tokens, mono_add(now, 70 * NS_PER_S)), 0, "it ends within a minute or so");
    tokens_free(tokens);
}

Test(unit_api, host_must_be_an_address_localhost_or_configured) {
    char *names[] = {"queues.example"};
    const strings_t hosts = {names, 1};
    static const char *const good[] = {"127.0.0.1", "10.1.2.3:8642", "[::1]",          "[fe80::1]:80",
                                       "localhost", "LocalHost:1",   "queues.example", "QUEUES.example:443"};
    static const char *const bad[] = {"evil.example",
                                      "queues.example.evil",
                                      "xlocalhost",
                                      "localhost.",
                                      "",
                                      ":80",
                                      "1.2.3",
                                      "[::1",
                                      "::1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:123456",
                                      "[localhost]",
                                      "127.0.0.1.evil.example",
                                      "localhost@evil.example"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) cr_expect(guard_host(good[i], &hosts, &answer), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not(guard_host(bad[i], &hosts, &answer), "%s", bad[i]);
        cr_expect(problem_says(421, "http.hosts"));
    }
    cr_expect_not(guard_host(NULL, &hosts, &answer));
}

Test(unit_api, write_must_come_from_our_page_or_a_program) {
    static const guard_headers_t good[] = {
        {.host = "localhost:8642"},
        {.host = "localhost:8642", .origin = "http://localhost:8642", .fetch_site = "same-origin"},
        {.host = "queues.example", .origin = "https://queues.example"},
        {.host = "queues.example:443", .origin = "https://queues.example"},
        {.host = "[::1]:8642", .origin = "http://[::1]:8642"},
    };
    static const guard_headers_t bad[] = {
        {.host = "localhost", .fetch_site = "cross-site"},
        {.host = "localhost", .fetch_site = "same-site"},
        {.host = "localhost", .fetch_site = "none"},
        {.host = "localhost", .origin = "null"},
        {.host = "localhost", .origin = "http://evil.example"},
        {.host = "localhost", .origin = "http://localhost:1"},
        {.host = "localhost:1", .origin = "http://localhost"},
        {.host = "localhost", .origin = "http://localhost.evil.example"},
        {.host = "localhost", .origin = "localhost"},
        {.host = "localhost", .origin = "ftp://localhost"},
        {.origin = "http://localhost"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) cr_expect(guard_write(&good[i], &answer), "%zu", i);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not(guard_write(&bad[i], &answer), "%zu", i);
        cr_expect(problem_says(403, "a write must come from the page"));
    }
}

Test(unit_api, body_must_be_json) {
    static const char *const good[] = {"application/json", "Application/JSON; charset=utf-8", "application/json ;x"};
    static const char *const bad[] = {"text/plain",
                                      "application/jsonp",
                                      "application/json-patch+json",
                                      "",
                                      "application/json x",
                                      "application/x-www-form-urlencoded",
                                      "text/plain; application/json"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(guard_body(&(guard_headers_t){.content_type = good[i]}, &answer), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not(guard_body(&(guard_headers_t){.content_type = bad[i]}, &answer), "%s", bad[i]);
        cr_expect(problem_says(415, "application/json"));
    }
    cr_expect_not(guard_body(&(guard_headers_t){0}, &answer));
}

Test(unit_api, cursor_comes_back_and_no_other_text_is_one) {
    const cursor_t cursor = {.log = "abc", .at = 1700000000000, .seq = 42};
    cursor_t back;
    char text[CURSOR_SIZE];
    cursor_write(&cursor, text);
    cr_assert(cursor_read(text, &back));
    cr_expect(strcmp(back.log, "abc") == 0 && back.at == cursor.at && back.seq == 42);
    for (char *at = text; *at; at++) { /* any other character in any place */
        char was = *at;
        *at = was == '7' ? '8' : '7';
        cr_expect_not(cursor_read(text, &back), "%s", text);
        *at = was;
    }
    static const char *const bad[] = {"", ".", "...", "50", "abc.1.2", "abc.1.2.", "abc.1.2.00000000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect_not(cursor_read(bad[i], &back), "%s", bad[i]);
    cursor_write(&(cursor_t){.log = "abc", .at = INT64_MAX, .seq = 42}, text);
    cr_expect_not(cursor_read(text, &back), "another log goes on behind that time, and there is none");
}

static bool reads(const char *body, order_t *order) { return order_read(slice_text(body), order, &answer); }

Test(unit_api, order_of_refs_and_order_of_a_filter) {
    scoped(order_free) order_t refs, filter;
    cr_assert(reads(
        "{\"action\": \"requeue\", \"refs\": [\"abc\", \"d\\u0065f\"], \"to\": \"q\", \"rate\": \"50/s\", \"because\": \"\", "
        "\"again\": true}",
        &refs));
    cr_expect(!refs.discard && refs.again && !refs.dry_run && !refs.filtered && refs.ref_count == 2);
    cr_expect_str_eq(refs.refs[1], "def");
    cr_expect_str_eq(refs.to, "q");
    cr_expect_eq(refs.per_minute, 3000);
    cr_assert(reads("{\"action\":\"discard\",\"filter\":{\"queue\":\"q\",\"text\":\"x\",\"ignore_case\":true},\"dry_run\":true}",
                    &filter));
    cr_expect(filter.discard && filter.dry_run && filter.filtered);
    cr_expect_str_eq(filter.filter.values[0], "q");
}

Test(unit_api, bad_order_is_refused_with_what_is_allowed) {
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"", "the body is empty"},
        {" ", "not valid JSON at byte"},
        {"[]", "must be a JSON object"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"]", "not valid JSON at byte"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"]} x", "not valid JSON at byte"},
        {"{\"refs\":[\"a\"]}", "`action` is missing"},
        {"{\"action\":\"requeu\",\"refs\":[\"a\"]}", "allowed are requeue, discard\",\"nearest\":\"requeue\""},
        {"{\"action\":1,\"refs\":[\"a\"]}", "bad `action`: it must be a string"},
        {"{\"action\":\"requeue\",\"action\":\"requeue\",\"refs\":[\"a\"]}", "`action` is given twice"},
        {"{\"acton\":\"requeue\"}", "unknown field `acton`"},
        {"{\"action\":\"requeue\"}", "either `refs` or `filter`"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"],\"filter\":{\"queue\":\"q\"}}", "either `refs` or `filter`"},
        {"{\"action\":\"requeue\",\"refs\":[]}", "a list of 1 to 1000 strings"},
        {"{\"action\":\"requeue\",\"refs\":\"a\"}", "a list of 1 to 1000 strings"},
        {"{\"action\":\"requeue\",\"refs\":[[\"a\"]]}", "a list of 1 to 1000 strings"},
        {"{\"action\":\"requeue\",\"refs\":[\"\"]}", "bad `refs`: it must have 1 to 64 bytes"},
        {"{\"action\":\"requeue\",\"refs\":[\"\\ud800\"]}", "lone surrogate"},
        {"{\"action\":\"requeue\",\"filter\":{},\"dry_run\":true}", "`filter` is empty"},
        {"{\"action\":\"requeue\",\"filter\":{\"ignore_case\":true},\"dry_run\":true}", "`filter` is empty"},
        {"{\"action\":\"requeue\",\"filter\":{\"queu\":\"q\"},\"dry_run\":true}", "unknown filter `queu`"},
        {"{\"action\":\"requeue\",\"filter\":{\"queue\":\"q\",\"queue\":\"r\"},\"dry_run\":true}", "`queue` is given twice"},
        {"{\"action\":\"requeue\",\"filter\":{\"queue\":7},\"dry_run\":true}", "bad `queue`: it must be a string"},
        {"{\"action\":\"requeue\",\"filter\":{\"limit\":\"7\"},\"dry_run\":true}", "unknown filter `limit`"},
        {"{\"action\":\"requeue\",\"filter\":7,\"dry_run\":true}", "bad `filter`: it must be an object"},
        {"{\"action\":\"requeue\",\"filter\":{\"queue\":\"q\"}}", "`plan` is missing"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"],\"plan\":\"x\"}", "`plan` is for a `filter`"},
        {"{\"action\":\"discard\",\"refs\":[\"a\"],\"to\":\"q\"}", "`to` is for requeue"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"],\"rate\":\"fast\"}", "like 50/s"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"],\"rate\":\"0/s\"}", "like 50/s"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"],\"again\":\"true\"}", "bad `again`: it must be true or false"},
        {"{\"action\":\"requeue\",\"refs\":[\"a\"],\"because\":\"a\\u0000b\"}", "it must be UTF-8 without NUL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        order_t order;
        cr_expect_not(reads(cases[i].body, &order), "%s", cases[i].body);
        cr_expect(problem_says(400, cases[i].says), "%s", cases[i].body);
        order_free(&order);
    }
}

Test(unit_api, plan_is_of_one_order) {
    scoped(order_free) order_t one, other;
    cr_assert(reads("{\"action\":\"requeue\",\"filter\":{\"queue\":\"q\"},\"dry_run\":true}", &one));
    cr_assert(reads("{\"action\":\"requeue\",\"filter\":{\"type\":\"q\"},\"dry_run\":true}", &other));
    plan_text_t plan = {.expires = 1, .since = 2, .newest = 3, .seen = 4}, back, differs = plan;
    char text[PLAN_SIZE];
    plan_of_order(&one, &plan);
    plan_of_order(&other, &differs);
    cr_expect_str_neq(plan.order, differs.order);
    plan_write(&plan, text);
    cr_assert(plan_read(text, &back));
    cr_expect(back.expires == 1 && back.since == 2 && back.newest == 3 && back.seen == 4);
    cr_expect_str_eq(back.order, plan.order);
    int64_t *const numbers[] = {&back.expires, &back.since, &back.newest, &back.seen};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ++*numbers[i];
        plan_of_order(&one, &back);
        cr_expect_str_neq(back.order, plan.order, "whoever changes number %zu is not found out", i);
        --*numbers[i];
    }
    static const char *const bad[] = {"", "1.2.3.4", "1.2.3.4.", "1.2.3.x.", "-1.2.3.4."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect_not(plan_read(bad[i], &back), "%s", bad[i]);
    plan = (plan_text_t){.expires = INT64_MAX, .since = INT64_MAX, .newest = INT64_MAX - 1, .seen = INT64_MAX};
    plan_of_order(&one, &plan);
    plan_write(&plan, text);
    cr_expect(plan_read(text, &back) && back.newest == plan.newest && strcmp(back.order, plan.order) == 0);
    plan.newest++;
    plan_write(&plan, text);
    cr_expect_not(plan_read(text, &back), "no time is behind it");
}

Test(unit_api, route_has_the_path_the_method_and_one_argument) {
    char *argument = NULL;
    const route_t *route = route_find("HEAD", "/failures/abc/payload", &argument, &answer);
    cr_assert(route && strcmp(route->path, "/failures/{ref}/payload") == 0);
    cr_expect_str_eq(argument, "abc");
    free(argument);
    route = route_find("GET", "/failures/groups", &argument, &answer);
    cr_expect(route && strcmp(route->path, "/failures/groups") == 0 && !argument);
    static const char *const missing[] = {
        "", "/", "/failures/", "/failures//payload", "/failures/a/b", "/failuresx", "/failures/a/payload/"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        cr_expect_null(route_find("GET", missing[i], &argument, &answer), "%s", missing[i]);
        cr_expect(problem_says(404, "openapi.json"));
    }
    cr_expect_null(route_find("PUT", "/answers/1", &argument, &answer));
    cr_expect_str_eq(answer.allow, "GET, HEAD, DELETE");
    cr_expect(problem_says(405, "allowed are GET, HEAD, DELETE"));
}
