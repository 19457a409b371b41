/* Storms of final failures, many times as large as stream.max_bytes: copied records make room for new ones, whatever their age.
 * QS_LONG=1: 60,000 jobs and 8 MiB. */
#include "audit_log.h"
#include "base/buffer.h"
#include "cluster.h"
#include "tempdir.h"

enum { STORM_MS = 240000, FEW = 10, MIB = 1024 * 1024 };

#define EARLY "trimming copied records before stream.retain"

static int storm_jobs(void) { return getenv("QS_LONG") ? 60000 : 8000; }
static long long storm_max(void) { return getenv("QS_LONG") ? 8 * MIB : MIB; }

/* Every job in backup ends in the second scan that sees it. */
static sidecar_t storm_spec(int min_copies) {
    static char more[120];
    snprintf(more, sizeof more, "stream = { max_bytes = \"%lldMiB\"; min_copies = %d; };", storm_max() / MIB, min_copies);
    return (sidecar_t){.scan = "50ms",
                       .queues = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"50ms\"; "
                                 "retry_times = 0; }",
                       .more = more};
}

static cluster_t s;

/* Workers take `count` jobs and die. */
static void take_jobs(int first, int count) {
    redis_ok(s.r, "EVAL %s 1 q:backup %d %d %s",
             "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do redis.call('LPUSH', KEYS[1], 'job ' .. i .. ' ' .. ARGV[3]) end", first,
             count, "{\"to\":\"somebody@example.com\",\"template\":\"welcome\",\"locale\":\"en\"}");
}

static long long rows(const daemon_t *d) { return audit_log_rows(daemon_audit_path(d)); }
static long long gaps(const daemon_t *d) {
    return audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'gap'");
}
static long long records(cluster_t *of) { return redis_int(of->r, "XLEN sidecar:q:failures"); }

/* Jobs in backup and records in the stream at one moment: a job that ends between two reads would be in neither. */
static long long jobs_and_records(void) {
    return redis_int(s.r, "EVAL %s 2 q:backup sidecar:q:failures",
                     "return redis.call('LLEN', KEYS[1]) + redis.call('XLEN', KEYS[2])");
}

static void await_rows(const daemon_t *d, int wanted) {
    if (wait_for(rows(d) >= wanted, STORM_MS)) return;
    fprintf(stderr, "%lld rows of %d, %lld jobs in backup\n", rows(d), wanted, redis_int(s.r, "LLEN q:backup"));
    cluster_fail(&s, "jobs of the storm were not ended");
}

/* Each job has ended, with exactly one row; none is held. */
static void expect_all(const daemon_t *d, int jobs) {
    cr_assert_eq(rows(d), jobs);
    cr_assert_eq(audit_log_int(daemon_audit_path(d), "SELECT count(DISTINCT payload) FROM failed_jobs"), jobs);
    cr_assert_leq(redis_int(s.r, "LLEN q:backup"), 1, "jobs other than the sentinel are held");
    cr_assert_leq(redis_int(s.r, "EVAL %s 1 sidecar:q:meta", "return tonumber(redis.call('HGET', KEYS[1], 'bytes'))"),
                  storm_max());
}

SUITE(daemon_auditor_storm, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_auditor_storm, every_job_ends_and_is_in_the_log, .timeout = 300) {
    char *config = cluster_config_file(&s, storm_spec(1));
    daemon_t *d = cluster_sidecar_up(&s, storm_spec(1));
    take_jobs(0, storm_jobs());
    await_rows(d, storm_jobs());
    expect_all(d, storm_jobs());
    cr_assert_lt(records(&s), storm_jobs());
    cr_assert_eq(gaps(d), 0);
    cr_assert_eq(daemon_log_count(d, EARLY), 1, "it is told once");
    const daemon_output_t *status = cluster_status(d, config);
    cr_assert(strstr(status->out, "\"code\":\"trimmed_early\"") && strstr(status->out, "\"trimmed_early\":\"20"), "%s",
              status->out);
    if (!daemon_is_sanitized(d)) cr_assert_leq(daemon_peak_kib(d), 24 * 1024, "%ld KiB", daemon_peak_kib(d));
}

Test(daemon_auditor_storm, an_instance_that_was_away_notes_a_gap, .timeout = 300) {
    daemon_t *here = cluster_sidecar_up(&s, storm_spec(1)), *away = cluster_sidecar_up(&s, storm_spec(1));
    take_jobs(0, FEW);
    await_rows(here, FEW);
    await_rows(away, FEW);
    daemon_kill(away);
    take_jobs(FEW, storm_jobs());
    await_rows(here, FEW + storm_jobs());
    expect_all(here, FEW + storm_jobs());
    daemon_restart(away);
    if (!wait_for(rows(away) >= FEW + records(&s), STORM_MS)) cluster_fail(&s, "records were not copied");
    cr_assert(gaps(away) >= 1 && gaps(here) == 0);
    cr_assert_eq(audit_log_int(daemon_audit_path(away), "SELECT count(*) FROM events WHERE kind = 'gap' AND reason <> 'trimmed'"),
                 0);
    cr_assert_lt(rows(away), FEW + storm_jobs());
    const daemon_output_t *import = daemon_run("audit", "import", daemon_audit_path(here), "--db", daemon_audit_path(away));
    cr_assert_eq(import->code, 0, "%s%s", import->out, import->err);
    expect_all(away, FEW + storm_jobs());
    cr_assert_eq(audit_log_int(daemon_audit_path(away), "SELECT count(*) FROM events WHERE kind = 'filled'"), gaps(away));
}

/* Records that too few logs have fill the stream, and then jobs stay in backup. The second log makes room again. */
Test(daemon_auditor_storm, records_without_enough_copies_hold_jobs_back, .timeout = 300) {
    daemon_t *here = cluster_sidecar_up(&s, storm_spec(2)), *away = cluster_sidecar_up(&s, storm_spec(2));
    take_jobs(0, FEW);
    await_rows(here, FEW);
    await_rows(away, FEW);
    daemon_kill(away);
    take_jobs(FEW, storm_jobs());
    if (!daemon_wait_log(here, "the failure stream is full", STORM_MS)) cluster_fail(&s, "the stream is not full");
    await_rows(here, (int)records(&s));
    cr_assert_gt(redis_int(s.r, "LLEN q:backup"), 1);
    cr_assert_geq(jobs_and_records(), storm_jobs());
    cr_assert_geq(records(&s), rows(here) - FEW, "a record went that only one log has");
    daemon_restart(away);
    await_rows(here, FEW + storm_jobs());
    await_rows(away, FEW + storm_jobs());
    expect_all(here, FEW + storm_jobs());
    expect_all(away, FEW + storm_jobs());
    cr_assert(gaps(here) == 0 && gaps(away) == 0);
}

/* Nobody copies: the stream fills, and no record of it goes. */
Test(daemon_auditor_storm, a_stream_that_nobody_copies_holds_jobs_back, .timeout = 300) {
    char *config = cluster_config(&s, storm_spec(1)),
         *path = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s/missing/a.db", temp_root());
    scoped(daemon_end) daemon_t *d =
        daemon_start_with(&(daemon_options_t){.env = (const char *const[]){path, NULL}}, "%s", config);
    take_jobs(0, storm_jobs());
    if (!daemon_wait_log(d, "the failure stream is full", STORM_MS)) cluster_fail(&s, "the stream is not full");
    cr_assert_eq(redis_int(s.r, "HEXISTS sidecar:q:meta trimmed"), 0);
    cr_assert_geq(jobs_and_records(), storm_jobs());
}
