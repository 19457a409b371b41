/* Answers of the API stay small, whatever the log holds. */
#include "api_fixture.h"
#include "audit_case.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api_sizes, , cluster_end(&cluster));

static int length_of(const char *answer) { return atoi(strstr(answer, "Content-Length: ") + strlen("Content-Length: ")); }

/* Of a log with large payloads, an answer takes little memory, and says what is cut. */
Test(daemon_api_sizes, answers_are_small_whatever_the_rows_hold, .timeout = 60) {
    enum { ROWS = 8, MIB = 1 << 20 };
    daemon_t *d = api_begin(&cluster, ROWS, &port, (sidecar_t){0});
    const char *log = daemon_audit_path(d);
    char *ref = audit_log_word(log, "SELECT ref FROM events WHERE job = '1'");
    audit_case_sql(log,
                   kept_printf("UPDATE events SET size = %d, job = '1', payload = iif(job = '2', zeroblob(%d), '{\"a\":\"' || "
                               "replace(hex(zeroblob(%d)), '00', 'ł') || '\"}')",
                               8 * MIB, 8 * MIB, 4 * MIB));
    expect_code(200, look(port, "/failures?job=none"));
    long before = daemon_peak_kib(d);
    char *list = look(port, "/failures"), *one = look(port, kept_printf("/failures/%s", ref));
    long more = daemon_peak_kib(d) - before;
    cr_expect(daemon_is_sanitized(d) || more < 8 * 1024, "%ld KiB", more);
    expect_code(200, list);
    cr_expect_eq(count_of(list, "\"payload_cut\":true"), ROWS);
    cr_expect(strlen(list) > ROWS * 4096 && strlen(list) < ROWS * 8192, "%zu", strlen(list));
    expect_says(list, "łł\",\"payload_encoding\":\"text\""); /* a whole letter */
    expect_says(list, "AA==\",\"payload_encoding\":\"base64\"");
    expect_code(200, one);
    cr_expect(length_of(one) > MIB && length_of(one) < 2 * MIB, "%d", length_of(one));
    cr_expect_eq(length_of(look(port, kept_printf("/failures/%s/payload", ref))), 8 * MIB + 8);
}

Test(daemon_api_sizes, a_history_is_of_the_newest_events) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    const char *log = daemon_audit_path(d);
    audit_case_sql(
        log,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) INSERT INTO events SELECT 100 + i, "
        "'r' || i, 'e' || i, 'retried', dialect, queue, job, type, 'w' || i, reason, term, sha256, '', '', i, 0, 0, at - i, 0, "
        "'', '', \"group\", '' FROM n, (SELECT * FROM events WHERE job = '1' AND kind = 'failed')");
    char *answer = look(
        port, kept_printf("/failures/%s", audit_log_word(log, "SELECT ref FROM events WHERE job = '1' AND kind = 'failed'")));
    expect_says(answer, "\"history_cut\":true}");
    int retried = count_of(answer, "\"kind\":\"retried\"");
    cr_expect(retried == 999 || (daemon_is_sanitized(d) && retried < 999), "%d", retried); /* as many as a second allows */
    cr_expect(strstr(answer, "\"worker\":\"w999\"") < strstr(answer, "\"worker\":\"w1\"") &&
              !strstr(answer, "\"worker\":\"w1000\""));
}
