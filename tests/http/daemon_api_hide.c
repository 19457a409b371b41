/* Answers of the API about payloads with hidden values, and about payloads that a token may not see. */
#include "api_fixture.h"
#include "base/digest.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api_hide, , cluster_end(&cluster));

/* Adds a final failure with this payload to the stream of a queue, and waits until the log has it. */
static void add_failure(const daemon_t *d, const char *queue, const char *job, const char *payload) {
    digest_t digest = digest_of(job, strlen(job));
    char id[DIGEST_HEX_SIZE], *size = kept_printf("%zu", strlen(payload));
    digest_hex(&digest, id);
    redis_ok(
        cluster.r,
        "XADD sidecar:%s:failures * event %s kind failed dialect list queue %s job %s reason reported at 1700000000000 size %s "
        "payload %b",
        queue, id, queue, job, size, payload, strlen(payload));
    char *sql = kept_printf("SELECT count(*) FROM events WHERE job = '%s'", job);
    cr_assert(wait_for(audit_log_int(daemon_audit_path(d), sql) == 1, 10000));
}

Test(daemon_api_hide, hidden_values_are_never_shown_nor_found) {
    static const char queues[] = "{ name = \"q\"; hide = [\"/card\"]; }, { name = \"r\"; }";
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){.queues = queues});
    add_failure(d, "q", "j1", "{\"customer\":\"4711\",\"card\":\"5105-1051\"}");
    add_failure(d, "q", "j2", "no JSON 4711 5105-1051");
    add_failure(d, "r", "j3", "{\"customer\":\"4711\",\"card\":\"5105-1051\"}");
    char *found = look(port, "/failures?text=4711");
    cr_expect(count_of(found, "\"ref\"") == 2 && strstr(found, "\"job_id\":\"j1\"") && strstr(found, "\"job_id\":\"j3\""), "%s",
              found);
    expect_says(found, "\"payload\":\"{\\\"customer\\\":\\\"4711\\\",\\\"card\\\":\\\"(hidden)\\\"}\"");
    char *card = look(port, "/failures?text=5105");
    cr_expect(count_of(card, "\"ref\"") == 1 && strstr(card, "\"job_id\":\"j3\""), "%s", card);
    expect_says(look(port, "/failures/groups?by=queue&text=5105"), "{\"items\":[{\"queue\":\"r\",\"failures\":1,");
    expect_says(order(port, "{\"action\":\"discard\",\"filter\":{\"text\":\"5105\"},\"dry_run\":true}"), "\"jobs\":1,");
    expect_says(look(port, "/failures?job=j2"), "\"payload\":\"(hidden)\"");
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE job = 'j1'");
    cr_expect_not(strstr(look(port, kept_printf("/failures/%s", ref)), "5105"));
    cr_expect_str_eq(body_of(look(port, kept_printf("/failures/%s/payload", ref))),
                     "{\"customer\":\"4711\",\"card\":\"(hidden)\"}");
    expect_code(202, order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"]}", ref)));
    cr_assert(wait_for(redis_int(cluster.r, "LLEN q") == 1, 10000));
    cr_expect(strstr(redis_str(cluster.r, "LINDEX q 0"), "5105-1051"), "a requeue keeps every byte");
}

Test(daemon_api_hide, values_of_a_renamed_queue_stay_hidden) {
    static const char before[] = "{ name = \"h\"; hide = [\"/card\", \"/name\"]; }, { name = \"r\"; }",
                      after[] = "{ name = \"h2\"; hide = [\"/card\"]; }, { name = \"r\"; hide = [\"/name\"]; }";
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){.queues = before});
    add_failure(d, "h", "j1", "{\"n\":4711,\"card\":\"5105-1051\",\"name\":\"Ann\"}");
    const char *http = kept_printf("token_file = \"%s\";", temp_path(temp_root(), "tokens"));
    cluster_reconfigure(&cluster, d, (sidecar_t){.queues = after, .port = port, .http = http});
    cr_assert(wait_for(strstr(look(port, "/config"), "queues.h2.name") != NULL, 10000), "%s", daemon_log(d));
    expect_says(look(port, "/failures?queue=h"),
                "\"payload\":\"{\\\"n\\\":4711,\\\"card\\\":\\\"(hidden)\\\",\\\"name\\\":\\\"(hidden)\\\"}\"");
    expect_says(look(port, "/failures?text=5105"), "{\"items\":[],");
    expect_says(look(port, "/failures?text=Ann"), "{\"items\":[],");
    expect_says(order(port, "{\"action\":\"discard\",\"filter\":{\"text\":\"5105\"},\"dry_run\":true}"), "\"jobs\":0,");
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE job = 'j1'");
    cr_expect_not(strstr(look(port, kept_printf("/failures/%s/payload", ref)), "5105"));
}

/* Adds a failure of a job without an id. */
static char *add_nameless(const daemon_t *d, const char *queue, const char *payload) {
    digest_t digest = digest_of(payload, strlen(payload)), event_digest = digest_of(queue, strlen(queue));
    char sha256[DIGEST_HEX_SIZE], event[DIGEST_HEX_SIZE], *size = kept_printf("%zu", strlen(payload));
    digest_hex(&digest, sha256);
    digest_hex(&event_digest, event);
    redis_ok(cluster.r,
             "XADD sidecar:%s:failures * event %s kind failed dialect list queue %s job %s sha256 %s reason reported at "
             "1700000000000 size %s payload %b",
             queue, event, queue, sha256, sha256, size, payload, strlen(payload));
    char *sql = kept_printf("SELECT count(*) FROM events WHERE queue = '%s'", queue);
    cr_assert(wait_for(audit_log_int(daemon_audit_path(d), sql) == 1, 10000), "%s", daemon_log(d));
    return kept_printf("%s", sha256);
}

/* With the digest of a payload somebody could try hidden values until it fits. */
Test(daemon_api_hide, digest_and_size_of_hidden_payloads_are_not_told) {
    static const char queues[] = "{ name = \"h\"; hide = [\"/pin\"]; }, { name = \"i\"; hide = [\"/other\"]; }";
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){.queues = queues});
    char *hidden = add_nameless(d, "h", "{\"pin\":4711}"), *open = add_nameless(d, "i", "{\"pin\":4711,\"n\":1}");
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE queue = 'h'");
    char *path = kept_printf("/failures/%s", ref), *job = kept_printf("\"job_id\":\"%s\"", ref);
    const char *const answers[] = {look(port, "/failures?queue=h"), look(port, path),
                                   call(port, "/failures?queue=h", (call_t){.token = LOOK}),
                                   call(port, path, (call_t){.token = LOOK})};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        cr_expect_not(strstr(answers[i], hidden), "%s", answers[i]);
        expect_says(answers[i], "\"size\":null,\"sha256\":\"\",");
        expect_says(answers[i], job);
    }
    expect_says(look(port, kept_printf("/failures?job=%s", hidden)), "{\"items\":[],");
    expect_says(look(port, kept_printf("/failures?text=%s", hidden)), "{\"items\":[],");
    char *filter = kept_printf("{\"action\":\"discard\",\"filter\":{\"job\":\"%s\"},\"dry_run\":true}", hidden);
    expect_says(order(port, filter), "\"jobs\":0,");
    expect_says(look(port, "/failures?queue=i"), kept_printf("\"size\":18,\"sha256\":\"%s\"", open));
    cr_expect_eq(count_of(look(port, kept_printf("/failures?job=%s", open)), "\"ref\""), 1);
    cr_expect_eq(count_of(look(port, kept_printf("/failures?text=%s", open)), "\"ref\""), 1);
    char *theirs = call(port, "/failures?queue=i", (call_t){.token = LOOK});
    cr_expect_not(strstr(theirs, open), "a token without the right payloads sees %s", theirs);
    expect_says(theirs, "\"size\":18,\"sha256\":\"\"");
    char *begun = order(port, kept_printf("{\"action\":\"discard\",\"refs\":[\"%s\"]}", ref));
    char *run = kept_printf("/answers/%s", member(begun, "id"));
    cr_assert(wait_for(strstr(look(port, run), "\"state\":\"done\"") != NULL, 20000));
    expect_says(look(port, run), job);
    cr_assert(wait_for(strstr(look(port, path), "\"kind\":\"discarded\"") != NULL, 10000));
    cr_expect_not(strstr(look(port, path), hidden), "the history has it: %s", look(port, path));
}

Test(daemon_api_hide, digest_and_size_of_hidden_jobs_are_not_told) {
    api_begin(&cluster, 0, &port, (sidecar_t){.queues = "{ name = \"h\"; hide = [\"/pin\"]; }"});
    for (int i = 0; i < 3; i++) redis_ok(cluster.r, "LPUSH h {\"pin\":471%d}", i);
    digest_t digest = digest_of("{\"pin\":4710}", 12);
    char sha256[DIGEST_HEX_SIZE], *sha1 = redis_str(cluster.r, "EVAL %s 0", "return redis.sha1hex('{\"pin\":4710}')");
    digest_hex(&digest, sha256);
    char *first = body_of(look(port, "/jobs?queue=h&state=ready&limit=1")), *next = member(first, "next");
    expect_says(first, "\"job_id\":\"\",");
    expect_says(first, "\"size\":null,\"sha256\":\"\",\"payload\":\"{\\\"pin\\\":\\\"(hidden)\\\"}\"");
    cr_expect_not(strstr(first, sha256) || strstr(first, sha1), "%s", first);
    cr_expect_eq(strncmp(next, "0_0_0_", strlen("0_0_0_")), 0, "the cursor holds no size and no time: %s", next);
    expect_says(look(port, kept_printf("/jobs?queue=h&state=ready&text=%s", sha256)), "{\"items\":[],");
    char *rest = look(port, kept_printf("/jobs?queue=h&state=ready&cursor=%s", next));
    cr_expect(count_of(rest, "\"job_id\"") == 2 && strstr(rest, "\"may_lack\":false"), "%s", rest);
    char *key = next + strlen("0_0_0_");
    *key = *key == '0' ? '1' : '0'; /* as if the key were that of another instance */
    rest = look(port, kept_printf("/jobs?queue=h&state=ready&cursor=%s", next));
    cr_expect(count_of(rest, "\"job_id\"") == 2 && strstr(rest, "\"may_lack\":true"), "%s", rest);
}
