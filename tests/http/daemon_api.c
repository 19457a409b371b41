/* The API of a running sidecar: who may do what, what is refused, and that lists and single failures are those of the CLI. */
#include "api_fixture.h"
#include "child.h"
#include "http/api/routes.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api, , cluster_end(&cluster));

Test(daemon_api, without_a_token_only_what_metrics_tell_is_shown) {
    daemon_t *d = leading(&cluster, (sidecar_t){0}, &port);
    audit_log_feed(cluster.r, "q", 0, 3, NULL);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 3, 10000));
    redis_ok(cluster.r, "CONFIG SET maxmemory-policy allkeys-lru"); /* so that there is a finding */
    char *session = call(port, "/session", (call_t){0}), *status = call(port, "/status", (call_t){0});
    expect_code(200, session);
    expect_says(session, "{\"name\":null,\"rights\":[],\"tokens\":false,\"group\":\"g\",\"instance\":\"");
    expect_code(200, status);
    expect_says(status, "\"queues\":[{\"name\":\"q\",");
    expect_says(status, "\"findings\":[{\"severity\":\"");
    static const char *const hidden[] = {"address", "audit.db", "what", "why", "leader", "path", "position", "copies", "error"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        cr_expect_not(strstr(body_of(status), kept_printf("\"%s\"", hidden[i])), "%s", status);
    cr_expect(strstr(status, "check -c CONFIG --redis") && !strstr(status, daemon_config_path(d)), "%s", status);
    static const char *const paths[] = {"/config", "/failures", "/failures/groups?by=reason", "/failures/abc",
                                        "/failures/abc/payload"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *answer = call(port, paths[i], (call_t){0});
        expect_code(401, answer);
        expect_says(answer, "WWW-Authenticate: Bearer\r\n");
        expect_says(answer, "set http.token_file");
    }
    expect_code(401, call(port, "/answers", (call_t){.method = "POST", .body = "{}"}));
    expect_code(401, call(port, "/session", (call_t){.token = ALL}));
}

Test(daemon_api, rights_decide_what_a_token_sees_and_does) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE job = '1'");
    expect_says(look(port, "/session"), "\"name\":\"alice\",\"rights\":[\"look\",\"payloads\",\"act\"],\"tokens\":true");
    char *mine = look(port, "/failures"), *theirs = call(port, "/failures", (call_t){.token = LOOK});
    expect_code(200, mine);
    expect_code(200, theirs);
    expect_says(mine, "\"payload\":\"ppp");
    cr_expect_not(strstr(theirs, "payload"), "%s", theirs);
    cr_expect_eq(count_of(theirs, "\"error\":\"no route to host\""), 3);
    char *path = kept_printf("/failures/%s/payload", ref), *refused = call(port, path, (call_t){.token = LOOK});
    expect_code(403, refused);
    expect_says(refused, "this needs the right payloads, which the token of bob lacks");
    char *payload = look(port, path);
    expect_code(200, payload);
    expect_says(payload, "Content-Type: application/octet-stream\r\n");
    expect_says(payload, kept_printf("Content-Disposition: attachment; filename=\"%s.bin\"\r\n", ref));
    cr_expect(strlen(body_of(payload)) == 100 && strstr(payload, "ppp00000001"));
    cr_expect_not(strstr(call(port, kept_printf("/failures/%s", ref), (call_t){.token = LOOK}), "payload"));
    expect_code(403, call(port, "/answers", (call_t){.method = "POST", .token = LOOK, .body = "{}"}));
    expect_says(call(port, "/failures?text=ppp", (call_t){.token = LOOK}), "{\"items\":[],");
    cr_expect_eq(count_of(look(port, "/failures?text=ppp"), "\"ref\""), 3);
    cr_expect_eq(count_of(call(port, "/failures?text=ROUTE&ignore_case=true", (call_t){.token = LOOK}), "\"ref\""), 3);
}

/* Runs a command on this machine's log. */
#define command(d, ...)                                                                                                          \
    daemon_run_argv(                                                                                                             \
        &(daemon_options_t){.env = (const char *[]){kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d)), NULL}},    \
        (const char *const[]){__VA_ARGS__, "-c", daemon_config_path(d), NULL})

/* The text with # for each run of digits and dots: two readings differ in times. */
static char *masked(const char *text) {
    char *out = kept(calloc(1, strlen(text) + 1)), *to = out;
    for (; *text; text++)
        if (!strchr("0123456789.", *text))
            *to++ = *text;
        else if (to == out || to[-1] != '#')
            *to++ = '#';
    return out;
}

Test(daemon_api, answers_equal_those_of_the_command_line) {
    daemon_t *d = api_begin(&cluster, 5, &port, (sidecar_t){0});
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE job = '1'");
    char *items = body_of(look(port, "/failures")), *list = command(d, "audit", "list", "-o", "jsonl")->out;
    for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect(strstr(items, line), "%s lacks %s", items, line);
    const daemon_output_t *show = command(d, "audit", "show", ref, "-o", "json");
    cr_expect_str_eq(body_of(look(port, kept_printf("/failures/%s", ref))), show->out, "%s", show->err);
    char *status = masked(body_of(look(port, "/status")));
    char *shown = masked(command(d, "status", "-o", "json")->out);
    cr_expect_str_eq(status, shown, "%s%s", status, shown);
}

Test(daemon_api, tokens_change_with_their_file) {
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    char *path = temp_path(temp_root(), "tokens");
    expect_code(200, look(port, "/session"));
    temp_write(path, "# nobody\ncarol look carol-token-0123456789\n");
    expect_code(401, look(port, "/session"));
    expect_says(call(port, "/session", (call_t){.token = "carol-token-0123456789"}), "\"name\":\"carol\",\"rights\":[\"look\"]");
    cr_assert_eq(unlink(path), 0);
    expect_code(401, call(port, "/session", (call_t){.token = "carol-token-0123456789"}));
    temp_write(path, LINES);
    expect_code(200, look(port, "/session"));
}

Test(daemon_api, refused_token_is_counted_slowed_and_never_logged) {
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){0});
    int64_t began_us = wait_now_us();
    expect_code(401, call(port, "/session", (call_t){.token = "wrong-token-0123456789"}));
    cr_expect_lt(wait_now_us() - began_us, wait_scaled_ms(400) * INT64_C(1000), "one mistake costs no time");
    for (int i = 0; i < 10; i++) expect_code(401, call(port, "/status", (call_t){.token = "wrong-token-0123456789"}));
    began_us = wait_now_us();
    expect_code(401, call(port, "/session", (call_t){.token = "wrong-token-0123456789"}));
    int64_t took_us = wait_now_us() - began_us;
    cr_expect(took_us >= 450000 && took_us < wait_scaled_ms(4000) * INT64_C(1000), "%lld us", (long long)took_us);
    began_us = wait_now_us();
    expect_code(200, look(port, "/session"));
    cr_expect_geq(wait_now_us() - began_us, 450000, "a guess must not be told by the time of its answer");
    began_us = wait_now_us();
    expect_code(200, call(port, "/session", (call_t){0}));
    cr_expect(says(port, "/healthz", "HTTP/1.1 200") && wait_now_us() - began_us < wait_scaled_ms(400) * INT64_C(1000),
              "others do not wait");
    cr_expect(says(port, "/metrics", "\nqueue_sidecar_http_tokens_refused_total 12\n"), "%s", get(port, "/metrics"));
    cr_expect(strstr(daemon_log(d), "refused a token") && strstr(daemon_log(d), "127.0.0.1"));
    cr_expect_not(strstr(daemon_log(d), "wrong-token") || strstr(daemon_log(d), ALL));
}

Test(daemon_api, proxy_names_the_person_only_with_its_right) {
    api_begin(&cluster, 0, &port, (sidecar_t){.http = "user_header = \"X-User\";"});
    temp_write(temp_path(temp_root(), "tokens"), LINES "gate proxy,look gate-token-0123456789\n");
    expect_says(call(port, "/session", (call_t){.token = "gate-token-0123456789", .more = "X-User: dave@example\r\n"}),
                "{\"name\":\"dave@example\",\"rights\":[\"look\"],");
    expect_says(call(port, "/session", (call_t){.token = "gate-token-0123456789"}), "{\"name\":\"gate\"");
    expect_says(call(port, "/session", (call_t){.token = ALL, .more = "X-User: dave@example\r\n"}), "{\"name\":\"alice\"");
    expect_says(call(port, "/session", (call_t){.more = "X-User: dave@example\r\n"}), "{\"name\":null");
    expect_code(400, call(port, "/session", (call_t){.token = "gate-token-0123456789", .more = "X-User: \xff\r\n"}));
}

Test(daemon_api, foreign_hosts_and_foreign_pages_are_refused) {
    api_begin(&cluster, 0, &port, (sidecar_t){.http = "hosts = [\"queues.example\"];"});
    static const char body[] = "{\"action\":\"requeue\",\"refs\":[\"abc\"],\"dry_run\":true}";
    expect_code(421, call(port, "/session", (call_t){.host = "rebound.example", .token = ALL}));
    expect_code(200, call(port, "/session", (call_t){.host = "queues.example:8642", .token = ALL}));
    expect_code(200, call(port, "/session", (call_t){.host = "[::1]:1"}));
    cr_expect(says(port, "/healthz", "HTTP/1.1 200"), "probes take any host");
    static const struct {
        int code;
        call_t of;
    } cases[] = {
        {404, {.more = ""}},
        {404, {.more = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"}},
        {403, {.more = "Origin: http://evil.example\r\n"}},
        {403, {.more = "Origin: null\r\n"}},
        {403, {.more = "Sec-Fetch-Site: cross-site\r\n"}},
        {403, {.more = "Sec-Fetch-Site: same-site\r\n"}},
        {415, {.type = "application/x-www-form-urlencoded"}},
        {415, {.type = "text/plain"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        call_t of = cases[i].of;
        of.method = "POST", of.token = ALL, of.body = body;
        char *answer = call(port, "/answers", of);
        expect_code(cases[i].code, answer);
        cr_expect_not(strstr(answer, "Access-Control-"), "%s", answer);
    }
    expect_code(403,
                call(port, "/answers/1", (call_t){.method = "DELETE", .token = ALL, .more = "Origin: http://evil.example\r\n"}));
    expect_code(405, call(port, "/answers", (call_t){.method = "OPTIONS", .more = "Origin: http://evil.example\r\n"}));
}

Test(daemon_api, answers_forbid_frames_caches_and_types) {
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    static const char *const headers[] = {"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n",
                                          "X-Content-Type-Options: nosniff\r\n",
                                          "Cache-Control: no-store\r\n",
                                          "Referrer-Policy: no-referrer\r\n",
                                          "Cross-Origin-Resource-Policy: same-origin\r\n",
                                          "X-Frame-Options: DENY\r\n"};
    static const char *const paths[] = {"/session", "/status", "/failures", "/nothing"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (size_t j = 0; j < sizeof headers / sizeof *headers; j++) expect_says(look(port, paths[i]), headers[j]);
}

Test(daemon_api, bad_requests_get_problems) {
    api_begin(&cluster, 3, &port, (sidecar_t){0});
    char *large = kept(calloc(1, 70000));
    memset(large, ' ', 69999);
    static const struct {
        int code;
        const char *path, *says;
    } cases[] = {
        {400, "/failures?qeue=q", "\"nearest\":\"queue\""},
        {400, "/failures?queue=q&queue=q", "given twice"},
        {400, "/failures?state=faild", "\"nearest\":\"failed\""},
        {400, "/failures?since=soon", "bad `since`: not a time"},
        {400, "/failures?since=2h&until=3h", "`since` must be before `until`"},
        {400, "/failures?ignore_case=true", "`ignore_case` is for `text`"},
        {400, "/failures?cursor=1", "bad `cursor`"},
        {400, "/failures?limit=1001", "from 1 to 1000"},
        {400, "/status?x=1", "none is allowed here"},
        {400, "/failures/groups", "`by` is missing"},
        {404, "/failures/zzzz", "no event has the ref"},
        {404, "/failures/1111", "is not a ref"},
        {404, "/nothing", "nothing is here"},
        {404, "/session/", "nothing is here"},
        {404, "/failures%2Fabc%00", "nothing is here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *answer = look(port, cases[i].path);
        expect_code(cases[i].code, answer);
        expect_says(answer, "Content-Type: application/problem+json\r\n");
        expect_says(answer, kept_printf("{\"type\":\"about:blank\",\"title\":\""));
        expect_says(answer, cases[i].says);
    }
    expect_code(413, order(port, large));
    char *chunked =
        ask(port, kept_printf("POST /api/v1/answers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: "
                              "Bearer " ALL "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "%x\r\n%s\r\n0\r\n\r\n",
                              69999, large));
    expect_code(413, chunked);
    char *put = call(port, "/failures", (call_t){.method = "PUT", .token = ALL});
    expect_code(405, put);
    expect_says(put, "Allow: GET, HEAD\r\n");
    char *head = call(port, "/failures", (call_t){.method = "HEAD", .token = ALL});
    expect_code(200, head);
    cr_expect_str_empty(body_of(head));
}

Test(daemon_api, ambiguous_ref_has_candidates) {
    daemon_t *d = api_begin(&cluster, 200, &port, (sidecar_t){0});
    char *letter = audit_log_word(daemon_audit_path(d), "SELECT substr(ref, 1, 1) FROM events GROUP BY 1 HAVING count(*) > 1");
    char *answer = look(port, kept_printf("/failures/%s", letter));
    expect_code(409, answer);
    expect_says(answer, "several refs begin with");
    expect_says(answer, kept_printf("\"candidates\":[{\"ref\":\"%s", letter));
}

Test(daemon_api, pages_follow_the_cursor_to_the_end) {
    api_begin(&cluster, 25, &port, (sidecar_t){0});
    char *path = kept_printf("/failures?limit=10&queue=q"), *answer = NULL;
    int jobs[25] = {0}, pages = 0;
    for (bool more = true; more; pages++) {
        answer = body_of(look(port, path));
        for (const char *at = answer; (at = strstr(at, "\"job_id\":\"")) != NULL;) jobs[atoi(at += strlen("\"job_id\":\""))]++;
        more = !strstr(answer, "\"next\":null");
        if (more) path = kept_printf("/failures?limit=10&queue=q&cursor=%s", member(answer, "next"));
    }
    cr_expect_eq(pages, 3);
    for (int i = 0; i < 25; i++) cr_expect_eq(jobs[i], 1, "job %d came %d times", i, jobs[i]);
    expect_says(answer, "\"log\":{\"instance\":\"");
    expect_says(answer, "\"open_gaps\":0,\"lag_seconds\":");
    expect_says(answer, "\"searched_to\":null}");
}

/* A slice is far too short for this log. */
Test(daemon_api, search_in_vain_goes_on_for_a_second_and_says_how_far_it_came) {
    api_begin(&cluster, 30000, &port, (sidecar_t){0});
    char *path = kept_printf("/failures?text=nowhere"), *answer;
    for (bool more = true; more;) {
        answer = body_of(look(port, path));
        more = !strstr(answer, "\"next\":null");
        expect_says(answer, "{\"items\":[],");
        expect_says(answer, more ? "\"searched_to\":\"2023-11-14T" : "\"searched_to\":null}");
        if (more) path = kept_printf("/failures?text=nowhere&cursor=%s", member(answer, "next"));
    }
    path = kept_printf("/failures/groups?by=queue");
    long long failures = 0;
    for (bool more = true; more;) {
        answer = body_of(look(port, path));
        more = !strstr(answer, "\"next\":null");
        failures += atoll(strstr(answer, "\"failures\":") + strlen("\"failures\":"));
        if (more) path = kept_printf("/failures/groups?by=queue&cursor=%s", member(answer, "next"));
    }
    cr_expect_eq(failures, 30000);
}

Test(daemon_api, config_has_each_value_its_place_and_no_secret) {
    setenv("QUEUE_SIDECAR_LOG_LEVEL", "debug", 1);
    const char *http = kept_printf("token_file = \"%s\";", temp_file("tokens", LINES));
    cluster = cluster_begin(NULL);
    redis_ok(cluster.r, "CONFIG SET requirepass hunter2");
    daemon_t *d = serving(&cluster, (sidecar_t){.redis = "password = \"hunter2\";", .http = http}, &port);
    char *answer = look(port, "/config");
    expect_code(200, answer);
    expect_says(answer, "{\"key\":\"group\",\"value\":\"\\\"g\\\"\",\"from\":\"");
    expect_says(answer, kept_printf("\"from\":\"%s:1\"", daemon_config_path(d)));
    expect_says(answer, "{\"key\":\"log.level\",\"value\":\"\\\"debug\\\"\",\"from\":\"env QUEUE_SIDECAR_LOG_LEVEL\"}");
    expect_says(answer, "{\"key\":\"stream.min_copies\",\"value\":\"1\",\"from\":\"default\"}");
    expect_says(answer, "{\"key\":\"queues.q.name\",");
    cr_expect_not(strstr(answer, "hunter2"), "%s", answer);
}

Test(daemon_api, log_tells_of_wrong_tokens_before_anybody_asks) {
    char *tokens = temp_file("tokens", "ann look 0123456789abcdef\nbob look short\n");
    cluster = cluster_begin(NULL);
    daemon_t *d = serving(&cluster, (sidecar_t){.http = kept_printf("token_file = \"%s\";", tokens)}, &port);
    cr_expect(daemon_wait_log(d, "\"skipping a line of http.token_file\",\"role\":\"http\",\"line\":2,", 5000), "%s",
              daemon_log(d));
    cr_expect(daemon_wait_log(d, "\"read http.token_file\",\"role\":\"http\",\"tokens\":1", 5000), "%s", daemon_log(d));
}

Test(daemon_api, reload_changes_what_the_api_tells) {
    daemon_t *d = api_begin(&cluster, 1, &port, (sidecar_t){0});
    expect_says(look(port, "/status"), "\"queues\":[{\"name\":\"q\"");
    const char *http = kept_printf("token_file = \"%s\";", temp_path(temp_root(), "tokens"));
    cluster_reconfigure(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"new\"; }", .port = port, .http = http});
    cr_assert(wait_for(strstr(look(port, "/status"), "\"name\":\"new\"") != NULL, 10000), "%s", daemon_log(d));
    expect_says(look(port, "/config"), "queues.new.name");
    expect_code(200, look(port, "/failures"));
}

Test(daemon_api, log_or_redis_away_is_told_and_heals) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    const char *log = daemon_audit_path(d), *aside = kept_printf("%s.aside", log);
    expect_code(200, look(port, "/failures"));
    cr_assert_eq(rename(log, aside), 0);
    char *away = look(port, "/failures");
    expect_code(503, away);
    expect_says(away, "Retry-After: 5\r\n");
    expect_says(away, "the audit log cannot be read");
    cr_expect_not(strstr(away, "--db"), "%s", away);
    cr_assert_eq(rename(aside, log), 0);
    expect_code(200, look(port, "/failures"));
    server_kill(cluster.server);
    cr_assert(wait_for(strstr(look(port, "/status"), "\"reachable\":false") != NULL, 10000));
    expect_code(200, look(port, "/failures"));
    server_restart(cluster.server, SERVER_LOSE_DATA);
    cluster_reopen(&cluster);
    cr_assert(wait_for(strstr(look(port, "/status"), "\"reachable\":true") != NULL, 10000));
}

Test(daemon_api, history_is_of_a_queue_of_the_config) {
    api_begin(&cluster, 0, &port, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"unread\"; }"});
    char *answer = call(port, "/history?queue=q", (call_t){0}), *other = call(port, "/history?queue=qq", (call_t){0});
    expect_code(200, answer);
    expect_says(answer, "{\"queue\":\"q\",\"step_seconds\":60,\"from\":");
    expect_code(400, other);
    expect_says(other, "the config has no queue of this name\",\"nearest\":\"q\"");
    expect_code(400, call(port, "/history", (call_t){0}));
    expect_code(400, call(port, "/history?queue=q&since=soon", (call_t){0}));
    server_kill(cluster.server);
    cr_expect_str_eq(body_of(call(port, "/history?queue=q", (call_t){0})), body_of(answer), "Redis is not asked again so soon");
    int day = count_of(answer, "Z\""), hour = count_of(call(port, "/history?queue=q&since=1h", (call_t){0}), "Z\"");
    cr_expect(day >= 1440 && hour >= 59 && hour <= 62, "%d and %d times", day, hour);
    expect_code(503, call(port, "/history?queue=unread", (call_t){0}));
    server_restart(cluster.server, SERVER_LOSE_DATA);
    cluster_reopen(&cluster);
    cr_assert(wait_for(code_of(call(port, "/history?queue=unread", (call_t){0})) == 200, 10000));
}

Test(daemon_api, jobs_are_listed_by_state) {
    static const char queues[] = "{ name = \"q\"; id_path = \"/id\"; }, { name = \"r\"; hide = [\"/card\"]; id_path = \"/id\"; }";
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){.queues = queues});
    for (int i = 0; i < 120; i++) redis_ok(cluster.r, "ZADD q:delayed %d {\"id\":\"d%d\"}", 2000000000 + i, i);
    redis_ok(cluster.r, "ZADD q:delayed 9000000000000 {\"id\":\"last\"}");
    redis_ok(cluster.r, "RPUSH r {\"id\":\"a\",\"card\":\"5105\"}");
    cr_assert(wait_for(redis_int(cluster.r, "LLEN q") == 120, 10000));
    int pages = 0, jobs = 0;
    char *path = kept_printf("/jobs?queue=q&state=ready"), *answer;
    for (bool more = true; more && pages < 10; pages++) {
        answer = body_of(look(port, path));
        jobs += count_of(answer, "\"job_id\":\"d");
        more = !strstr(answer, "\"next\":null");
        if (more) path = kept_printf("/jobs?queue=q&state=ready&cursor=%s", member(answer, "next"));
    }
    cr_expect(jobs == 120 && pages >= 3, "%d jobs in %d pages", jobs, pages);
    char *delayed = look(port, "/jobs?queue=q&state=delayed");
    expect_says(delayed, "\"job_id\":\"last\"");
    expect_says(body_of(delayed), strtok(command(d, "jobs", "list", "q", "--state", "delayed", "-o", "jsonl")->out, "\n"));
    expect_says(look(port, "/jobs?queue=q&state=ready&text=d77"), "\"job_id\":\"d77\"");
    expect_says(look(port, "/jobs?queue=r&state=ready"), "\\\"card\\\":\\\"(hidden)\\\"");
    expect_says(look(port, "/jobs?queue=r&state=ready&text=5105"), "{\"items\":[],");
    char *theirs = call(port, "/jobs?queue=r&state=ready", (call_t){.token = LOOK});
    cr_expect(strstr(theirs, "\"job_id\":\"a\"") && !strstr(theirs, "payload"), "%s", theirs);
    expect_says(call(port, "/jobs?queue=r&state=ready&text=card", (call_t){.token = LOOK}), "{\"items\":[],");
    expect_code(401, call(port, "/jobs?queue=q&state=ready", (call_t){0}));
    expect_code(400, look(port, "/jobs?queue=q"));
    expect_code(400, look(port, "/jobs?queue=q&state=ready&cursor=x"));
    static const char *const cursors[] = {"0_9223372036854775807_0_0_0",
                                          "0_9223372036854775806_0_0_0",
                                          "0_0_nan_0_0",
                                          "0_0_0x1_0_0",
                                          "+0_0_0_0_0",
                                          "0_0_0_-2_0",
                                          "0_0_0_0_0_",
                                          "9_0_0_0_0"};
    for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++)
        expect_code(400, look(port, kept_printf("/jobs?queue=q&state=ready&cursor=%s", cursors[i])));
    expect_says(look(port, "/jobs?queue=q&state=redy"), "\"nearest\":\"ready\"");
}

static int64_t took_ms(const char *answer, int64_t began_us) {
    cr_expect_eq(code_of(answer), 200, "%s", answer);
    return (wait_now_us() - began_us) / 1000;
}

/* The server hangs: every reading of the status waits for redis.timeout. */
Test(daemon_api, redis_that_hangs_delays_no_probe_and_no_question_to_the_log) {
    enum { CLIENTS = 36 };
    api_begin(&cluster, 3, &port, (sidecar_t){.redis = "timeout = \"3s\";"});
    static int clients[CLIENTS];
    server_freeze(cluster.server);
    for (int i = 0; i < CLIENTS; i++) {
        const char *request = "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        clients[i] = connect_to(port);
        cr_assert_eq(write(clients[i], request, strlen(request)), (ssize_t)strlen(request));
    }
    char *crowded = read_all(clients[CLIENTS - 1]);
    expect_code(429, crowded);
    expect_says(crowded, "Retry-After: 1\r\n");
    int64_t began_us = wait_now_us();
    cr_expect_lt(took_ms(get(port, "/healthz"), began_us), wait_scaled_ms(1000));
    began_us = wait_now_us();
    cr_expect_lt(took_ms(look(port, "/failures"), began_us), wait_scaled_ms(1500));
    server_thaw(cluster.server);
    expect_code(200, read_all(clients[0]));
    for (int i = 0; i < CLIENTS; i++) close(clients[i]);
    cr_assert(wait_for(code_of(look(port, "/status")) == 200, 10000));
    cr_expect(says(port, "/metrics", "role=\"api\""), "a hanging api role is seen like the others");
}

Test(daemon_api, description_has_each_route_and_each_route_is_described) {
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    char *answer = call(port, "/openapi.json", (call_t){0}), *json = body_of(answer);
    const char *file = temp_file("openapi.json", json);
    expect_code(200, answer);
    static const char script[] =
        "import json, sys, urllib.request, urllib.error\n"
        "api = json.load(open(sys.argv[1]))\n"
        "names = set(api['components']['schemas'])\n"
        "for ref in __import__('re').findall('#/components/schemas/(\\\\w+)', json.dumps(api)): assert ref in names, ref\n"
        "for path, methods in api['paths'].items():\n"
        "    for method in methods:\n"
        "        url = 'http://localhost:' + sys.argv[2] + '/api/v1' + path.replace('{', '').replace('}', '')\n"
        "        try: urllib.request.urlopen(urllib.request.Request(url, method=method.upper()))\n"
        "        except urllib.error.HTTPError as error: assert error.code in (400, 401), (method, path, error.code)\n"
        "print(sum(len(methods) for methods in api['paths'].values()))\n";
    const char *program = temp_file("check.py", script);
    char *number = kept_printf("%d", port);
    const char *const args[] = {"python3", program, file, number, NULL};
    char *out = temp_path(temp_root(), "out"), *err = temp_path(temp_root(), "err");
    child_t *child = child_start(&(child_spec_t){.argv = args, .out = out, .err = err});
    cr_assert(child_wait(child, 20000) && child->exit_code == 0, "%s", temp_read(err));
    cr_expect_eq((size_t)atoi(temp_read(out)), route_count);
    child_free(child);
}
