/* Counts of failures by the API. */
#include "api_fixture.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api_groups, , cluster_end(&cluster));

Test(daemon_api_groups, groups_count_all_failures_of_a_filter) {
    api_begin(&cluster, 7, &port, (sidecar_t){0});
    static const char *const by[][2] = {{"reason", "\"reason\":\"reported\""},
                                        {"hour", "\"hour\":\"2023-11-14T22:00:00.000Z\""},
                                        {"error", "\"error\":\"no route to host\""},
                                        {"queue", "\"queue\":\"q\""}};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        char *answer = look(port, kept_printf("/failures/groups?by=%s", by[i][0]));
        expect_code(200, answer);
        expect_says(
            answer,
            kept_printf("{\"items\":[{%s,\"failures\":7,\"open\":7,\"requeued\":0,\"discarded\":0,\"first\":\"2023", by[i][1]));
        expect_says(answer, "\"next\":null");
    }
    expect_says(look(port, "/failures/groups?by=reason&job=3"), "\"failures\":1,");
}

/* More errors than a count remembers. */
Test(daemon_api_groups, groups_say_how_many_failures_they_lack) {
    enum { FEW = 5, MANY = 11000 };
    daemon_t *d = api_begin(&cluster, FEW, &port, (sidecar_t){0});
    redis_ok(cluster.r, "EVAL %s 1 sidecar:q:failures %d",
             "for i = 1, ARGV[1] do local text = string.gsub(tostring(i), '%d', function(n) return string.char(97 + n) end) "
             "redis.call('XADD', KEYS[1], '*', 'event', redis.sha1hex(text) .. string.format('%024x', i), 'kind', 'failed', "
             "'dialect', 'list', 'queue', 'q', 'job', text, 'reason', 'reported', 'error', text, 'at', "
             "1600000000000 + i) end",
             MANY);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == FEW + MANY, 30000));
    static const char *const limits[] = {"", "&limit=2", "&limit=10000"};
    static const int most[] = {1000, 2, 10000};
    for (int i = 0; i < 3; i++) {
        char *path = kept_printf("/failures/groups?by=error%s", limits[i]), *next = path;
        long long counted = 0, dropped = 0;
        for (int answers = 0; next; answers++) { /* a second answer goes on where the first one had taken its second */
            char *answer = body_of(look(port, next));
            for (const char *at = answer; (at = strstr(at, "\"failures\":")) != NULL;) counted += atoll(at += 11);
            long long here = atoll(strstr(answer, "\"dropped_failures\":") + strlen("\"dropped_failures\":"));
            dropped += here;
            cr_expect_leq(count_of(answer, "{\"error\":"), most[i]);
            cr_expect_eq(strstr(answer, "\"too_low\":0,") != NULL, here == 0, "%.200s", strstr(answer, "\"dropped_failures\""));
            next = strstr(answer, "\"next\":null") ? NULL : kept_printf("%s&cursor=%s", path, member(answer, "next"));
            if (!next && answers == 0) cr_expect_gt(here, 0);
        }
        cr_expect_eq(counted + dropped, FEW + MANY, "%lld and %lld", counted, dropped);
    }
    expect_says(look(port, "/failures/groups?by=queue"), "\"dropped_failures\":0,\"too_low\":0,");
    expect_code(400, look(port, "/failures/groups?by=queue&limit=10001"));
}
