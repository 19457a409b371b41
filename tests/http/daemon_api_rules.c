/* Rules of the API one by one: each filter narrows, a requeue obeys `to` and `again`, lists say what their log lacks. */
#include "api_fixture.h"
#include "audit_case.h"
#include "base/digest.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api_rules, , cluster_end(&cluster));

static const char QUEUES[] = "{ name = \"q\"; }, { name = \"r\"; }";

/* Adds the failure of a job to the stream of queue q, with further fields. */
static void add(const char *job, int64_t at, const char *payload, size_t len, const char *more[4]) {
    char id[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(job, strlen(job));
    digest_hex(&digest, id);
    redis_ok(cluster.r,
             "XADD sidecar:q:failures * event %s kind failed dialect list queue q job %s at %lld size %d payload %b %s %s %s %s",
             id, job, (long long)at, (int)len, payload, len, more[0], more[1], more[2], more[3]);
}

static const int64_t AT = 1700000000000; /* 2023-11-14T22:13:20Z */

static daemon_t *begin_two(void) {
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){.queues = QUEUES});
    add("one", AT, "1", 1, (const char *[]){"reason", "reported", "type", "mail"});
    add("two", AT + 60000, "2", 1, (const char *[]){"reason", "cancelled", "worker", "w2"});
    audit_log_feed(cluster.r, "r", 0, 1, NULL);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 3, 20000), "%s", daemon_log(d));
    return d;
}

Test(daemon_api_rules, each_filter_narrows_lists_and_groups) {
    begin_two();
    static const struct {
        const char *filter;
        int failures;
    } cases[] = {
        {"state=failed", 3},
        {"state=open", 3},
        {"state=requeued", 0},
        {"queue=r", 1},
        {"reason=cancelled", 1},
        {"type=mail", 1},
        {"worker=w2", 1},
        {"job=one", 1},
        {"group=nobody", 0},
        {"text=TWO", 0},
        {"text=TWO&ignore_case=true", 1},
        {"text=two&ignore_case=false", 1},
        {"since=2023-11-14T22:14:00Z&queue=q", 1},
        {"until=2023-11-14T22:14:00Z&queue=q", 1},
        {"since=2023-11-14T22:14:00&until=2023-11-14T22:15:00Z", 1},
        {"since=1h", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *list = look(port, kept_printf("/failures?%s", cases[i].filter)),
             *groups = look(port, kept_printf("/failures/groups?by=reason&%s", cases[i].filter));
        int counted = 0;
        for (const char *at = groups; (at = strstr(at, "\"failures\":")) != NULL;) counted += atoi(at += strlen("\"failures\":"));
        cr_expect_eq(count_of(list, "\"ref\""), cases[i].failures, "%s: %s", cases[i].filter, list);
        cr_expect_eq(counted, cases[i].failures, "%s: %s", cases[i].filter, groups);
    }
}

Test(daemon_api_rules, requeue_goes_to_the_named_queue_and_again_repeats_it) {
    daemon_t *d = begin_two();
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE job = 'one'");
    char *body = kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"],\"to\":\"r\",\"again\":true}", ref);
    for (int i = 1; i <= 2; i++) {
        expect_code(202, order(port, body));
        cr_assert(wait_for(redis_int(cluster.r, "LLEN r") == i, 20000), "%s", daemon_log(d));
        cr_assert(
            wait_for(audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'requeued'") == i, 20000));
    }
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 0);
    expect_code(409, order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"],\"to\":\"r\"}", ref)));
}

Test(daemon_api_rules, payload_comes_byte_for_byte) {
    static const char payload[] = "a\0\xff\xfe\r\n\r\n\"</script>\x80";
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){0});
    add("one", AT, payload, sizeof payload, (const char *[]){"reason", "reported", "type", "t"});
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 1, 20000), "%s", daemon_log(d));
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events");
    char *answer = look(port, kept_printf("/failures/%s/payload", ref));
    expect_says(answer, kept_printf("Content-Length: %zu\r\n", sizeof payload));
    cr_expect_eq(memcmp(body_of(answer), payload, sizeof payload), 0);
    expect_says(look(port, kept_printf("/failures/%s", ref)), "\"payload_encoding\":\"base64\"");
}

/* Its log never gets the entries that leave the stream while the instance is away. */
Test(daemon_api_rules, list_says_what_its_log_lacks) {
    daemon_t *d = api_begin(&cluster, 2, &port, (sidecar_t){0});
    cr_assert(wait_for(strstr(look(port, "/failures"), "\"oldest\":\"2023-11-14T22:13:22.000Z\"") != NULL, 20000), "%s",
              look(port, "/failures?limit=1"));
    expect_says(look(port, "/failures/groups?by=queue"), "\"open_gaps\":0,");
    daemon_kill(d);
    audit_log_feed(cluster.r, "q", 2, 20, NULL);
    redis_ok(cluster.r, "XTRIM sidecar:q:failures MAXLEN 1");
    daemon_restart(d);
    cr_assert(wait_for(daemon_log_count(d, SERVES) == 2, 10000), "%s", daemon_log(d));
    cr_assert(wait_for(audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'gap'") == 1, 30000), "%s",
              daemon_log(d));
    expect_says(look(port, "/failures"), "\"open_gaps\":1,");
}

Test(daemon_api_rules, history_begins_at_since) {
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    char *all = call(port, "/history?queue=q", (call_t){0}), *hour = call(port, "/history?queue=q&since=1h", (call_t){0});
    expect_code(200, hour);
    cr_expect(count_of(hour, "T") < 70 && count_of(all, "T") > 1000, "%d and %d", count_of(hour, "T"), count_of(all, "T"));
}

static long long commands_of_redis(void) {
    char *stats = redis_str(cluster.r, "INFO stats");
    long long commands = atoll(strstr(stats, "total_commands_processed:") + strlen("total_commands_processed:"));
    free(stats);
    return commands;
}

Test(daemon_api_rules, all_viewers_share_one_reading_of_the_status) {
    enum { VIEWS = 100 };
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    expect_code(200, look(port, "/status"));
    long long before = commands_of_redis();
    int64_t began_us = wait_now_us();
    for (int i = 0; i < VIEWS; i++) expect_code(200, look(port, "/status"));
    long long commands = commands_of_redis() - before, readings = 2 + (wait_now_us() - began_us) / 2000000;
    cr_expect_lt(commands, readings * 60, "%lld commands in %lld readings", commands, readings);
}

/* Otherwise a dry run would tell what a payload has. */
Test(daemon_api_rules, order_finds_payloads_only_with_the_right_to_see_them) {
    begin_two();
    add("three", AT, "{\"customer\":4711}", 17, (const char *[]){"reason", "reported", "type", "t"});
    temp_write(temp_path(temp_root(), "tokens"), LINES "erin look,act erin-token-0123456789\n");
    static const char body[] = "{\"action\":\"discard\",\"filter\":{\"text\":\"4711\"},\"dry_run\":true}";
    cr_assert(wait_for(strstr(order(port, body), "\"jobs\":1,") != NULL, 20000));
    char *theirs = call(port, "/answers", (call_t){.method = "POST", .token = "erin-token-0123456789", .body = body});
    expect_code(200, theirs);
    expect_says(theirs, "\"jobs\":0,");
}

/* They take turns, so each of them needs far more than a second. */
Test(daemon_api_rules, search_is_answered_after_a_second_with_how_far_it_came) {
    enum { CLIENTS = 30, MOST_S = 5 };
    static int clients[CLIENTS];
    daemon_t *d = api_begin(&cluster, 1, &port, (sidecar_t){0});
    audit_case_sql(
        daemon_audit_path(d),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) INSERT INTO events SELECT 100 + i, "
        "'r' || i, 'e' || i, kind, dialect, queue, i, type, worker, reason, term, sha256, '', '', attempts, created, started, "
        "at + i, size, error, payload, \"group\", traceparent FROM n, (SELECT * FROM events LIMIT 1)");
    int64_t began_us = wait_now_us();
    int late = 0;
    for (int i = 0; i < CLIENTS; i++) {
        const char *request =
            kept_printf("GET /api/v1/failures%s?%stext=nowhere%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Authorization: Bearer " ALL "\r\n\r\n",
                        i % 2 ? "/groups" : "", i % 2 ? "by=error&" : "", i);
        clients[i] = connect_to(port);
        cr_assert_eq(write(clients[i], request, strlen(request)), (ssize_t)strlen(request));
    }
    for (int i = 0; i < CLIENTS; i++) {
        char *answer = read_all(clients[i]);
        bool ended = strstr(answer, "\"next\":null") != NULL;
        expect_code(200, answer);
        expect_says(answer, ended ? "\"searched_to\":null}" : "\"searched_to\":\"2023-11-14T");
        late += !ended;
        close(clients[i]);
    }
    cr_expect_gt(late, 0, "all have ended within %lld ms", (long long)((wait_now_us() - began_us) / 1000));
    cr_expect_lt(wait_now_us() - began_us, wait_scaled_ms(MOST_S * 1000) * INT64_C(1000));
}
