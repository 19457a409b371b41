/* Audit logs, failure streams, acknowledgements and requeue markers: each program continues what the other has written. Except
 * that the previous release refuses the audit log of this one. */
#include "audit_log.h"
#include "tempdir.h"
#include "text.h"
#include "upgrade.h"

#include <criterion/parameterized.h>
#include <signal.h>

enum { OLD = 10, FAILURES = 4 };

static const program_t EACH[] = {PREVIOUS, CURRENT};
static const sidecar_t SPEC = {
    .scan = "50ms", .queues = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; }"};

/* A worker reports jobs that must not be retried. Waits until both logs have `rows` rows. */
static void fail_jobs(pair_t *p, const char *name, int count, int rows) {
    for (int i = 0; i < count; i++) {
        redis_ok(p->cluster.r, "HSET q:errors %s-%d !no", name, i);
        redis_ok(p->cluster.r, "LPUSH q:backup %s-%d", name, i);
    }
    for (int i = 0; i < PROGRAMS; i++) await(&p->cluster, audit_log_rows(p->logs[i]) == rows);
}

/* Both programs print the same for a log of the previous release. */
static void expect_same_answers(const char *log) {
    char *ref = audit_log_word(log, "SELECT ref FROM events WHERE kind = 'failed' ORDER BY seq LIMIT 1");
    upgrade_expect_same("for of in 'list -o jsonl' 'stats -o jsonl' 'export --all-kinds' 'show %s -o jsonl'; do "
                        "\"$PROGRAM\" audit $of --db %s || echo fails; done | python3 tests/upgrade/names.py values",
                        ref, log);
}

/* The other program imports the JSON lines that `from` exports. (0.1.0 also imports CSV; later releases need not.) */
static void expect_import(program_t from, const char *log) {
    char *dir = temp_dir("import"), *copy = temp_path(dir, "copy.db"), *file = temp_path(dir, "events.jsonl");
    const daemon_output_t *done = upgrade_shell(from, "\"$PROGRAM\" audit export --all-kinds --db %s >%s", log, file);
    cr_assert_eq(done->code, 0, "%s", done->err);
    done = upgrade_shell(other_than(from), "\"$PROGRAM\" audit import %s --db %s", file, copy);
    cr_assert_eq(done->code, 0, "%s", done->err);
    char *rows = audit_log_text(log), *copied = audit_log_text(copy);
    cr_expect_str_eq(copied, rows);
}

static void expect_refused(const char *log) {
    const daemon_output_t *done = upgrade_shell(PREVIOUS, "\"$PROGRAM\" audit list --db %s", log);
    cr_expect_neq(done->code, 0);
    cr_expect(has(done->err, "has schema 7, this version knows up to 2: run the newer queue-sidecar that wrote it"), "%s",
              done->err);
}

Test(daemon_upgrade, this_release_goes_on_with_the_log_of_the_previous_one) {
    pair_t p = pair_begin(PREVIOUS, SPEC);
    const char *log = p.logs[PREVIOUS];
    fail_jobs(&p, "previous", FAILURES, FAILURES);
    pair_take_over(&p, SIGTERM);
    fail_jobs(&p, "current", FAILURES, 2 * FAILURES);
    pair_stop(&p);
    expect_same_answers(log);
    expect_refused(p.logs[CURRENT]);
    for (program_t of = PREVIOUS; of < PROGRAMS; of++) expect_import(of, p.logs[of]);
    upgrade_sidecar(&p.cluster, CURRENT, SPEC, log);
    p.logs[CURRENT] = log; /* the only one that is written from here on */
    fail_jobs(&p, "upgraded", FAILURES, 3 * FAILURES);
    cr_expect_eq(audit_log_int(log, "SELECT count(*) FROM events"), 3 * FAILURES);
    expect_refused(log);
    cr_expect_eq(redis_int(p.cluster.r, "HLEN sidecar:q:auditors"), PROGRAMS, "a program gives the other's log another name");
    cluster_end(&p.cluster);
}

ParameterizedTestParameters(daemon_upgrade, each_trims_what_the_other_acknowledged) {
    return cr_make_param_array(const program_t, EACH, PROGRAMS);
}

/* A record is trimmed only after both logs, one of each program, have acknowledged it. A new leader trims after its next record.
 */
ParameterizedTest(program_t *leader, daemon_upgrade, each_trims_what_the_other_acknowledged) {
    sidecar_t spec = SPEC;
    spec.more = "stream = { retain = \"1m\"; min_records = 0; min_copies = 2; };";
    pair_t p = pair_begin(*leader, spec);
    audit_log_feed(p.cluster.r, "q", 0, OLD, "5");
    fail_jobs(&p, "none", 0, OLD);
    await(&p.cluster, redis_int(p.cluster.r, "HLEN sidecar:q:auditors") == PROGRAMS);
    pair_take_over(&p, SIGKILL);
    fail_jobs(&p, "later", FAILURES, OLD + FAILURES);
    await(&p.cluster, redis_int(p.cluster.r, "XLEN sidecar:q:failures") == FAILURES);
    for (int i = 0; i < PROGRAMS; i++) cr_expect_eq(audit_log_int(p.logs[i], "SELECT count(*) FROM events"), OLD + FAILURES);
    cluster_end(&p.cluster);
}

/* Requeues from a copy of the log without the requeue event, so only the marker in Redis can prevent a second requeue. */
static const daemon_output_t *requeue(const pair_t *p, program_t by) {
    return upgrade_shell(by, "\"$PROGRAM\" audit requeue --where -q q --yes --by ann -o json -c %s --db %s.copy",
                         daemon_config_path(p->sidecars[by]), p->logs[by]);
}

ParameterizedTestParameters(daemon_upgrade, each_requeues_what_the_other_recorded) {
    return cr_make_param_array(const program_t, EACH, PROGRAMS);
}

ParameterizedTest(program_t *leader, daemon_upgrade, each_requeues_what_the_other_recorded) {
    pair_t p = pair_begin(*leader, SPEC);
    fail_jobs(&p, "job", 1, 1);
    for (program_t of = PREVIOUS; of < PROGRAMS; of++)
        cr_assert_eq(upgrade_shell(of, "\"$PROGRAM\" audit backup %s.copy --db %s", p.logs[of], p.logs[of])->code, 0);
    const daemon_output_t *done = requeue(&p, other_than(*leader)), *again = requeue(&p, *leader);
    cr_expect(done->code == 0 && has(done->out, "\"done\":1"), "%s%s", done->out, done->err);
    cr_expect(again->code == 0 && has(again->out, "\"done\":0") && has(again->out, "\"answered\":1"), "%s%s", again->out,
              again->err);
    redis_expect(p.cluster.r, "job-0", "RPOP q");
    redis_expect(p.cluster.r, NULL, "RPOP q");
    fail_jobs(&p, "job", 1, 2);
    for (int i = 0; i < PROGRAMS; i++)
        await(&p.cluster, audit_log_int(p.logs[i], "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'") == 1);
    expect_same_answers(p.logs[PREVIOUS]);
    cluster_end(&p.cluster);
}

/* The record has another reason, and else nothing new. */
Test(daemon_upgrade, the_previous_release_copies_and_requeues_a_cancelled_job) {
    sidecar_t spec = {.queues = "{ name = \"q\"; }"};
    pair_t p = pair_begin(PREVIOUS, spec);
    redis_ok(p.cluster.r, "ZADD q:delayed 4000000000000 job 4000000000001 other");
    const daemon_output_t *done =
        upgrade_shell(CURRENT, "\"$PROGRAM\" jobs cancel q --where --grep job --yes --by ann --because why -o json -c %s",
                      daemon_config_path(p.sidecars[CURRENT]));
    cr_assert(done->code == 0 && has(done->out, "\"done\":1,"), "%s%s", done->out, done->err);
    for (int i = 0; i < PROGRAMS; i++) await(&p.cluster, audit_log_rows(p.logs[i]) == 1);
    done = upgrade_shell(PREVIOUS, "\"$PROGRAM\" audit list -o jsonl --db %s", p.logs[PREVIOUS]);
    cr_expect(has(done->out, "\"worker\":\"ann\",\"reason\":\"cancelled\",\"error\":\"why\""), "%s%s", done->out, done->err);
    done = upgrade_shell(PREVIOUS, "\"$PROGRAM\" audit requeue --where -q q --yes -c %s --db %s",
                         daemon_config_path(p.sidecars[PREVIOUS]), p.logs[PREVIOUS]);
    cr_expect_eq(done->code, 0, "%s", done->err);
    redis_expect(p.cluster.r, "job", "RPOP q");
    cr_expect_eq(redis_int(p.cluster.r, "ZCARD q:delayed"), 1);
    for (int i = 0; i < PROGRAMS; i++)
        await(&p.cluster, audit_log_int(p.logs[i], "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'") == 1);
}

/* 0.1.0 knows no erasure: it skips the record and goes on. This release erases in its log after the upgrade. */
ParameterizedTestParameters(daemon_upgrade, the_previous_release_skips_an_erasure) {
    return cr_make_param_array(const program_t, EACH, PROGRAMS);
}

ParameterizedTest(program_t *leader, daemon_upgrade, the_previous_release_skips_an_erasure) {
    static const char texts[] = "SELECT count(*) FROM events WHERE job <> '' AND payload = 'personal-0'";
    pair_t p = pair_begin(*leader, SPEC);
    fail_jobs(&p, "personal", 1, 1);
    const daemon_output_t *done =
        upgrade_shell(CURRENT, "\"$PROGRAM\" audit erase --where --grep personal-0 --yes --by bob -o json -c %s --db %s",
                      daemon_config_path(p.sidecars[CURRENT]), p.logs[CURRENT]);
    cr_expect(done->code == 0 && has(done->out, "\"done\":1"), "%s%s", done->out, done->err);
    await(&p.cluster, audit_log_int(p.logs[CURRENT], texts) == 0);
    fail_jobs(&p, "later", FAILURES, 1 + FAILURES);
    pair_take_over(&p, SIGTERM);
    fail_jobs(&p, "more", FAILURES, 1 + 2 * FAILURES);
    cr_expect_eq(audit_log_int(p.logs[PREVIOUS], texts), 1);
    pair_stop(&p);
    upgrade_sidecar(&p.cluster, CURRENT, SPEC, p.logs[PREVIOUS]);
    await(&p.cluster, audit_log_int(p.logs[PREVIOUS], texts) == 0);
    cr_expect_eq(audit_log_rows(p.logs[PREVIOUS]), 1 + 2 * FAILURES);
    cr_expect_eq(audit_log_int(p.logs[PREVIOUS], "SELECT count(*) FROM events WHERE kind = 'gap'"), 0);
    cluster_end(&p.cluster);
}

/* As docs/audit.md says: an erasure replaces records, and an absent 0.1.0 takes that for a loss if its last one is among them. */
Test(daemon_upgrade, the_previous_release_notes_a_gap_for_an_erasure_that_an_import_fills) {
    pair_t p = pair_begin(CURRENT, SPEC);
    const char *log = p.logs[PREVIOUS];
    fail_jobs(&p, "personal", 2, 2);
    cr_assert_eq(daemon_terminate(p.sidecars[PREVIOUS], UPGRADE_MS).code, 0);
    redis_ok(p.cluster.r, "HSET q:errors later !no");
    redis_ok(p.cluster.r, "LPUSH q:backup later");
    await(&p.cluster, audit_log_rows(p.logs[CURRENT]) == 3);
    const daemon_output_t *done = upgrade_shell(CURRENT, "\"$PROGRAM\" audit erase --where -q q --yes -c %s --db %s",
                                                daemon_config_path(p.sidecars[CURRENT]), p.logs[CURRENT]);
    cr_assert_eq(done->code, 0, "%s", done->err);
    await(&p.cluster, audit_log_int(p.logs[CURRENT], "SELECT count(*) FROM events WHERE kind = 'erased'") == 3);
    daemon_restart(p.sidecars[PREVIOUS]);
    await(&p.cluster, audit_log_int(log, "SELECT count(*) FROM events WHERE reason = 'removed_by_others'") == 1);
    await(&p.cluster, audit_log_int(log, "SELECT count(*) FROM events WHERE kind = 'failed'") == 3);
    pair_stop(&p);
    done = upgrade_shell(CURRENT, "\"$PROGRAM\" audit import %s --db %s", p.logs[CURRENT], log);
    cr_expect(done->code == 0 && has(done->out, "1 gap filled"), "%s%s", done->out, done->err);
    cr_expect_eq(audit_log_int(p.logs[CURRENT], "SELECT count(*) FROM events WHERE kind = 'gap'"), 0);
    cluster_end(&p.cluster);
}
