/* The auditor has a few MiB and one record in memory, for any number and size of waiting records, because it runs beside a worker
 * in a pod of 64 MiB. */
#include "audit_log.h"
#include "cluster.h"

enum { MIB = 1024 * 1024, LARGE = 4 * MIB, MAX_KIB = 40 * 1024, COPY_MS = 60000 };

/* Adds all records in one script, so that one XREAD can return all of them. */
static void feed_large(redis_t *r, const char *queue, int first, int count) {
    static const char script[] =
        "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local id = redis.sha1hex(KEYS[1] .. i) .. string.format('%024x', i) "
        "redis.call('XADD', KEYS[1], '*', 'event', id, 'kind', 'failed', 'dialect', 'list', 'job', i, 'reason', 'reported', "
        "'at', '1700000002000', 'payload', string.rep('x', tonumber(ARGV[3]))) end return 1";
    redis_ok(r, "EVAL %s 1 sidecar:%s:failures %d %d %d", script, queue, first, first + count - 1, LARGE);
}

static cluster_t s;

static void expect(daemon_t *d, int rows, const char *when) {
    if (!wait_for(audit_log_rows(daemon_audit_path(d)) == rows, COPY_MS)) cluster_fail(&s, when);
    if (daemon_is_sanitized(d)) return;
    cr_assert_leq(daemon_peak_kib(d), MAX_KIB, "%s: %ld KiB", when, daemon_peak_kib(d));
}

SUITE(daemon_auditor_memory, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_auditor_memory, memory_is_bounded_for_any_record_size, .timeout = 180) {
    sidecar_t spec = {.queues = "{ name = \"q\"; }, { name = \"r\"; }, { name = \"s\"; }, { name = \"t\"; }, { name = \"u\"; }",
                      .level = "debug"};
    int rows = 0;
    for (const char *queue = "qrstu"; *queue; queue++, rows += 2) feed_large(s.r, (char[]){*queue, '\0'}, 0, 2);
    daemon_t *d = cluster_sidecar_up(&s, spec);
    expect(d, rows, "large records wait in several queues at the start");
    for (const char *queue = "qrstu"; *queue; queue++, rows += 2) feed_large(s.r, (char[]){*queue, '\0'}, 2, 2);
    expect(d, rows, "large records arrive while the auditor waits");
    audit_log_feed(s.r, "q", 1000, 3000, NULL);
    feed_large(s.r, "q", 4, 12);
    expect(d, rows += 3012, "large records follow many small ones");
    /* The small records before a reply that is aborted must not be read again and again. */
    char *log = daemon_log(d);
    int aborted = 0;
    for (const char *at = log; (at = strstr(at, "reading large records in smaller batches")) != NULL; at++) aborted++;
    free(log);
    cr_assert_leq(aborted, 40, "%d replies", aborted);
}

/* SQLite keeps the pages that it has written, up to 8 MiB, and malloc the memory of the replies. */
Test(daemon_auditor_memory, memory_is_released_after_a_storm, .timeout = 300) {
    enum { RECORDS = 40000, MORE_KIB = 3 * 1024 };
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; }"});
    audit_log_feed(s.r, "q", 0, 100, NULL);
    expect(d, 100, "a few records");
    long before = daemon_rss_kib(d);
    audit_log_feed(s.r, "q", 100, RECORDS, NULL);
    expect(d, 100 + RECORDS, "a storm");
    if (!daemon_is_sanitized(d))
        cr_assert(wait_for(daemon_rss_kib(d) < before + MORE_KIB, COPY_MS), "%ld KiB before, %ld after", before,
                  daemon_rss_kib(d));
}
