/* `audit erase` beside real sidecars: one person's data leave every log and the failure stream, whatever happens meanwhile. */
#include "requeue_fixture.h"
#include "rights.h"

#include <sqlite3.h>

#define SECRET   "ann@example.org"
#define RETRYING "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; retry_times = 1; }"

static cluster_t s;
SUITE(daemon_erase, s = cluster_begin(NULL), cluster_end(&s));

static bool in_file(const char *path, const char *text) {
    const char *const argv[] = {"grep", "-qaF", text, path, NULL};
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .err = "/dev/null"});
    cr_assert(child_wait(child, RUN_MS));
    return child->exit_code == 0;
}

static bool in_log(const daemon_t *d, const char *text) {
    const char *path = daemon_audit_path(d);
    return in_file(path, text) || in_file(kept_printf("%s-wal", path), text);
}

static bool in_stream(const char *text) {
    return redis_int(s.r, "EVAL %s 1 sidecar:q:failures %s",
                     "for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                     "if table.concat(entry[2], ' '):find(ARGV[1], 1, true) then return 1 end end return 0",
                     text) == 1;
}

static long long count(const daemon_t *d, const char *where) {
    return audit_log_int(daemon_audit_path(d), kept_printf("SELECT count(*) FROM events WHERE %s", where));
}

/* The bytes of all values of the stream. */
static long long stream_bytes(void) {
    return redis_int(s.r, "EVAL %s 1 sidecar:q:failures",
                     "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                     "for i = 2, #e[2], 2 do n = n + #e[2][i] end end return n");
}

/* Records of tests are not counted, so count them as the scripts would. */
static void count_bytes(void) {
    redis_ok(s.r, "HSET sidecar:q:meta bytes %lld entries %lld", stream_bytes(), redis_int(s.r, "XLEN sidecar:q:failures"));
}

static void expect_bytes_counted(void) {
    cr_expect_eq(redis_int(s.r, "EVAL %s 1 sidecar:q:meta", "return tonumber(redis.call('HGET', KEYS[1], 'bytes'))"),
                 stream_bytes());
    cr_expect_eq(redis_int(s.r, "EVAL %s 1 sidecar:q:meta", "return tonumber(redis.call('HGET', KEYS[1], 'entries'))"),
                 redis_int(s.r, "XLEN sidecar:q:failures"));
}

/* A failure number `n` with the person's address in payload and error. */
static void feed_secret(int n) {
    feed_one(s.r, (failure_t){.number = n, .error = "no mailbox " SECRET, .payload = slice_text("{\"to\":\"" SECRET "\"}")});
}

static void expect_erased(const daemon_t *d, const char *ref) {
    await(&s, count(d, "kind = 'erased'") == 1 && !in_log(d, SECRET), COPY_MS);
    const daemon_output_t *show = cli(d, "show", ref), *requeue = cli(d, "requeue", ref);
    cr_expect(has(show->out, "state     failed\n") && has(show->out, "by        bob\n") &&
                  has(show->out, "because   asked for by letter\n") && has(show->out, " bytes, erased\n"),
              "%s%s", show->out, show->err);
    cr_expect(requeue->code == 1 && has(requeue->err, "has no payload any more: erased ") && has(requeue->err, " by bob"), "%s%s",
              requeue->out, requeue->err);
    cr_expect_eq(count(d, "kind = 'failed' AND length(sha256) = 64 AND size > 0"), 2);
    cr_expect_eq(count(d, "kind = 'gap'"), 0);
}

/* The job was retried once, so its error is in the event of the retry, too. */
Test(daemon_erase, every_log_and_the_stream_lose_payload_and_errors) {
    daemon_t *d[2];
    for (int i = 0; i < 2; i++) d[i] = cluster_sidecar_up(&s, (sidecar_t){.queues = RETRYING, .scan = "50ms"});
    redis_ok(s.r, "LPUSH q {\"to\":\"" SECRET "\"}");
    for (int execution = 1; execution <= 2; execution++) {
        await(&s, redis_int(s.r, "LLEN q") == 1, COPY_MS);
        char *job = redis_str(s.r, "LMOVE q q:backup RIGHT LEFT");
        redis_ok(s.r, "HSET q:errors %s %s", job, "no mailbox " SECRET);
        free(job);
    }
    feed(s.r, 0, 1);
    for (int i = 0; i < 2; i++) await(&s, audit_log_rows(daemon_audit_path(d[i])) == 2, COPY_MS);
    cr_assert_eq(count(d[1], "kind = 'retried' AND error <> ''"), 1);
    char *ref = kept(ref_of(d[0], SECRET));
    const char *stats = cli(d[1], "stats", "-o", "json")->out;
    count_bytes();
    const daemon_output_t *done = cli(d[0], "erase", ref, "--because", "asked for by letter", "--by", "bob");
    cr_assert(done->code == 0 && has(done->out, kept_printf("%s  erased: ", ref)), "%s%s", done->out, done->err);
    cr_expect_not(in_stream(SECRET));
    expect_bytes_counted();
    for (int i = 0; i < 2; i++) expect_erased(d[i], ref);
    cr_expect(in_log(d[0], "job 0") && in_stream("job 0"), "the other failure is there");
    cr_expect_str_eq(cli(d[1], "stats", "-o", "json")->out, stats);
    const daemon_output_t *list = cli(d[1], "list", "-q", "q"), *history = cli(d[1], "show", ref);
    cr_expect(has(list->out, "by bob: asked for by letter"), "%s", list->out);
    cr_expect(has(history->out, "erased"), "%s", history->out);
    cr_expect_eq(cli(d[1], "discard", ref)->code, 0);
    await(&s, has(cli(d[0], "show", ref)->out, "state     discarded\n"), COPY_MS);
}

/* The marker in Redis says it, before the other log hears of it. */
Test(daemon_erase, a_lagging_log_requeues_no_erased_job) {
    daemon_t *one = sidecar(&s), *two = sidecar(&s);
    feed_secret(1);
    await(&s, audit_log_rows(daemon_audit_path(one)) == 1 && audit_log_rows(daemon_audit_path(two)) == 1, COPY_MS);
    char *ref = kept(ref_of(one, SECRET));
    daemon_pause(two);
    cr_assert_eq(cli(one, "erase", ref, "--by", "bob")->code, 0);
    for (int again = 0; again < 2; again++) {
        const daemon_output_t *back = again ? cli(two, "requeue", ref, "--again") : cli(two, "requeue", ref);
        cr_expect(back->code == 1 && has(back->err, "has no payload any more: erased ") && has(back->err, "by bob"), "%s",
                  back->err);
    }
    const daemon_output_t *second = cli(two, "erase", ref);
    cr_expect(second->code == 0 && has(second->err, "was answered before: erased ") && has(second->err, "by bob"), "%s",
              second->err);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 0);
    daemon_continue(two);
    await(&s, count(two, "kind = 'erased'") == 1 && !in_log(two, SECRET), COPY_MS);
}

/* One instance was killed before it could copy the failure, one after that; one is new. */
Test(daemon_erase, instances_that_were_away_or_are_new_get_the_row_without_texts) {
    daemon_t *one = sidecar(&s), *with = sidecar(&s), *without = sidecar(&s);
    feed(s.r, 0, 1);
    await(&s, audit_log_rows(daemon_audit_path(without)) == 1, COPY_MS);
    daemon_kill(without);
    redis_ok(s.r, "DEL sidecar:q:failures sidecar:q:meta"); /* the erased records are then all that is before a position */
    feed_secret(1);
    await(&s, audit_log_rows(daemon_audit_path(one)) == 2 && audit_log_rows(daemon_audit_path(with)) == 2, COPY_MS);
    daemon_kill(with);
    cr_expect(in_log(with, SECRET), "its log has the texts");
    char *ref = kept(ref_of(one, SECRET));
    cr_assert_eq(cli(one, "erase", ref, "--by", "bob", "--because", "asked for by letter")->code, 0);
    cr_expect_not(in_stream(SECRET));
    long long gaps = count(one, "kind = 'gap'");
    daemon_restart(with);
    daemon_restart(without);
    daemon_t *new = sidecar(&s);
    await(&s, count(new, "kind = 'erased'") == 1 && count(with, "kind = 'erased'") == 1 && count(without, "kind = 'erased'") == 1,
          COPY_MS);
    daemon_t *const all[] = {one, with, without, new};
    for (int i = 0; i < 4; i++) {
        await(&s, !in_log(all[i], SECRET), COPY_MS);
        cr_expect_eq(count(all[i], "kind = 'failed' AND job = '1' AND length(sha256) = 64"), 1, "log %d", i);
    }
    cr_expect_eq(count(with, "kind = 'gap'"), gaps, "an erasure is no loss");
}

/* A reader is in the way, so the erasure is not complete; and 20 erasures need one rewrite. */
Test(daemon_erase, one_rewrite_completes_many_erasures_and_operators_see_what_is_left) {
    enum { ERASED = 20 };
    static const char left[] = "parts may still be in the file of this log", note[] = "\"erased_texts\"";
    sqlite3 *reader;
    daemon_t *d = sidecar(&s);
    for (int i = 0; i < ERASED; i++) feed_secret(i);
    await(&s, audit_log_rows(daemon_audit_path(d)) == ERASED, COPY_MS);
    char *ref = kept(ref_of(d, SECRET));
    cr_assert_eq(sqlite3_open_v2(daemon_audit_path(d), &reader, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
    cr_assert_eq(cli(d, "erase", "--where", "--grep", SECRET, "--yes")->code, 0);
    await(&s, daemon_log_count(d, "erased texts stay in the files of the audit log until") == 1, COPY_MS);
    cr_expect(in_log(d, SECRET));
    cr_expect(has(cli(d, "show", ref)->out, left));
    cr_expect(has(cluster_status(d, daemon_config_path(d))->out, note));
    cr_assert_eq(sqlite3_close(reader), SQLITE_OK);
    await(&s, daemon_log_count(d, "rewrote audit log") == 1, COPY_MS);
    cr_expect_not(in_log(d, SECRET));
    cr_expect_eq(daemon_log_count(d, "\"erasures\":20,"), 1);
    cr_expect_not(has(cli(d, "show", ref)->out, left));
    cr_expect_not(has(cluster_status(d, daemon_config_path(d))->out, note));
}

static const char *const points[] = {"audit_before_commit", "audit_committed", "audit_scrub_before", "audit_scrub_rewritten"};

/* The auditor dies while it erases; after that a kill -9 and a restart are all that is needed. */
Test(daemon_erase, a_kill_does_not_stop_an_erasure) {
    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        scoped(cluster_end) cluster_t own = cluster_begin(NULL);
        daemon_t *d = sidecar(&own);
        feed_one(own.r, (failure_t){.number = 1, .payload = slice_text(SECRET)});
        await(&own, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
        char *ref = kept(ref_of(d, SECRET));
        daemon_terminate(d, COPY_MS);
        const daemon_output_t *done = cli(d, "erase", ref);
        cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
        char *crash = kept_printf("QS_CRASH_AT=%s", points[i]),
             *path = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d));
        daemon_t *dying = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){crash, path, NULL}}, "%s",
                                            temp_read(daemon_config_path(d)));
        cr_expect_eq(daemon_wait_exit(dying, COPY_MS).code, 137, "%s: %s", points[i], daemon_log(dying));
        daemon_free(dying);
        daemon_restart(d);
        cluster_await_leader(&own, "g", NULL, COPY_MS); /* before its end: it blocks signals now */
        await(&own, count(d, "kind = 'erased'") == 1 && !in_log(d, SECRET), COPY_MS);
    }
}

Test(daemon_erase, an_import_of_an_older_export_brings_nothing_back) {
    daemon_t *d = sidecar(&s);
    feed_secret(1);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    char *dir = temp_dir("older"), *export = temp_path(dir, "failures.jsonl"), *backup = temp_path(dir, "backup.db");
    cr_assert_eq(cli(d, "export", export)->code, 0);
    cr_assert_eq(cli(d, "backup", backup)->code, 0);
    cr_assert_eq(cli(d, "erase", "--where", "--grep", SECRET, "--yes")->code, 0);
    await(&s, count(d, "kind = 'erased'") == 1 && !in_log(d, SECRET), COPY_MS);
    const daemon_output_t *known = cli(d, "import", export, backup);
    cr_expect(known->code == 0 && has(known->out, "0 added, 1 known"), "%s%s", known->out, known->err);
    daemon_terminate(d, COPY_MS);
    /* A log that has the erasure alone. */
    char *other = temp_path(dir, "other.db"), *erasure = temp_path(dir, "erasure.jsonl");
    cr_assert_eq(cli(d, "export", erasure, "--kind", "erased")->code, 0);
    const daemon_output_t *added = daemon_run("audit", "import", erasure, export, backup, "--db", other);
    cr_expect_eq(added->code, 0, "%s%s", added->out, added->err);
    cr_expect_eq(audit_log_int(other, "SELECT count(*) FROM events"), 2);
    cr_expect(!in_file(other, SECRET) && !in_file(kept_printf("%s-wal", other), SECRET));
}

Test(daemon_erase, a_filter_erases_all_that_match_and_can_be_repeated, .timeout = 120) {
    enum { MATCHES = 300, OTHERS = 20 };
    daemon_t *d = sidecar(&s);
    feed(s.r, 1000, OTHERS);
    for (int i = 0; i < MATCHES; i++) feed_secret(i);
    await(&s, audit_log_rows(daemon_audit_path(d)) == MATCHES + OTHERS, COPY_MS);
    cr_assert_eq(cli(d, "discard", "--where", "--grep", SECRET, "--limit", "50", "--yes")->code, 0);
    const daemon_output_t *dry = cli(d, "erase", "--where", "--grep", SECRET, "--dry-run", "-o", "json");
    cr_expect(dry->code == 0 && has(dry->out, "{\"action\":\"erase\",\"dry_run\":true,\"planned\":300,\"done\":0,\"would\":300,"),
              "%s", dry->out);
    cr_expect(in_stream(SECRET), "a dry run erases nothing");
    cr_expect_eq(cli(d, "erase", "--where", "--grep", SECRET)->code, 2, "without a terminal it needs --yes");
    cr_expect_eq(cli(d, "erase", "--grep", SECRET)->code, 2);
    count_bytes();
    background_t b = cli_start(d, "erase", "--where", "--grep", SECRET, "--yes", "--rate", "100/s");
    await(&s, count(d, "kind = 'erased'") > 10, COPY_MS);
    child_kill(b.child);
    finish(&b, NULL);
    const daemon_output_t *rest =
        cli(d, "erase", "--where", "-q", "q", "--failed-by", "reported", "--until", "0s", "--yes", "-o", "json");
    cr_expect_eq(rest->code, 0, "%s%s", rest->out, rest->err);
    cr_expect_eq(number_of(rest->out, "done") + number_of(rest->out, "answered"), MATCHES + OTHERS);
    await(&s, count(d, "kind = 'erased'") == MATCHES + OTHERS && !in_log(d, SECRET), COPY_MS);
    cr_expect_not(in_stream(SECRET));
    expect_bytes_counted();
    cr_expect_eq(count(d, "kind = 'failed' AND payload = '' AND error = ''"), MATCHES + OTHERS);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 0);
}

/* A filter of a requeue leaves out the earlier of two failures of one life (see daemon_requeue). */
Test(daemon_erase, a_filter_erases_earlier_failures_too) {
    daemon_t *d = sidecar(&s);
    for (int n = 1; n <= 2; n++)
        redis_ok(s.r,
                 "XADD sidecar:q:failures * event %s kind failed dialect list queue q job 17 reason reported error no attempts 1 "
                 "created 1700000000000 at %lld size 15 payload " SECRET,
                 kept_printf("%d%063d", n, 0), redis_ms(s.r) - 10 + n);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 2, COPY_MS);
    cr_expect_eq(number_of(cli(d, "requeue", "--where", "-q", "q", "--dry-run", "-o", "json")->out, "earlier"), 1);
    cr_expect_eq(cli(d, "erase", "--where", "-q", "q", "--yes")->code, 0);
    await(&s, count(d, "kind = 'erased'") == 2 && !in_log(d, SECRET), COPY_MS);
}

/* Beside a page of the stream's search; a queue that the config has no more; bytes that are no text. */
Test(daemon_erase, large_and_odd_failures_are_erased) {
    enum { HUGE = 4 << 20 };
    char *huge = kept(malloc(HUGE));
    for (size_t i = 0; i < HUGE; i++) huge[i] = SECRET[i % (sizeof(SECRET) - 1)];
    daemon_t *d = sidecar(&s);
    feed_one(s.r, (failure_t){.number = 1, .payload = {huge, HUGE}});
    feed_one(s.r, (failure_t){.number = 2, .payload = {"\xff\0" SECRET, 2 + sizeof(SECRET) - 1}});
    feed_one(s.r, (failure_t){.number = 3, .payload = {"", 0}, .error = SECRET});
    feed_one(s.r, (failure_t){.number = 4, .queue = "gone", .payload = slice_text(SECRET)});
    await(&s, audit_log_rows(daemon_audit_path(d)) == 4, COPY_MS);
    const daemon_output_t *done = cli(d, "erase", "--where", "--since", "1970-01-01", "--yes", "-o", "json");
    cr_expect(done->code == 0 && number_of(done->out, "done") == 4, "%s%s", done->out, done->err);
    await(&s, count(d, "kind = 'erased'") == 4 && !in_log(d, SECRET), COPY_MS);
    cr_expect_not(in_stream(SECRET));
    const daemon_output_t *back = cli(d, "requeue", "--where", "-q", "q", "--yes", "-o", "json");
    cr_expect(back->code == 1 && number_of(back->out, "erased") == 3, "%s%s", back->out, back->err);
    cr_expect_eq(redis_int(s.r, "LLEN q"), 0, "a job without bytes is not requeued either");
}

/* The person's data are gone, the other rows stay, and nobody takes it for a loss. */
Test(daemon_erase, the_erasure_of_the_docs_works_as_written) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"email\"; roles = [\"monitor\"]; }"});
    for (int i = 1; i < 49; i++) feed_one(s.r, (failure_t){.stream = "email", .queue = "email", .number = i});
    feed_one(s.r,
             (failure_t){.stream = "email", .queue = "email", .number = 49, .payload = slice_text("{\"to\":\"" SECRET "\"}")});
    await(&s, audit_log_rows(daemon_audit_path(d)) == 49, COPY_MS);
    char *said = run_block(d, "erase.sh");
    cr_expect(has(said, "1 would be erased\n") && has(said, "1 erased in "), "%s", said);
    await(&s, count(d, "kind = 'erased' AND reason = 'ticket 17'") == 1 && !in_log(d, SECRET), COPY_MS);
    cr_expect_eq(redis_int(s.r, "XLEN sidecar:email:failures"), 50);
    cr_expect_eq(count(d, "kind = 'failed' AND payload = ''"), 1);
    cr_expect(in_log(d, "job 1"));
    redis_ok(s.r, "CLIENT KILL TYPE normal"); /* the auditor then looks for the last record that it has */
    feed_one(s.r, (failure_t){.stream = "email", .queue = "email", .number = 50});
    await(&s, count(d, "job = '50'") == 1, COPY_MS);
    cr_expect_eq(count(d, "kind NOT IN ('failed', 'erased')"), 0);
    cr_expect_eq(count(d, "payload = '' AND kind = 'failed'"), 1);
}

/* docs/acl.md has a right of its own for this command. */
Test(daemon_erase, without_the_right_nothing_is_done) {
    rights_t rights = rights_read(NULL), more = rights_read_behind("`audit erase` also needs");
    rights_leave_out(&rights, "~email");
    rights_grant(s.r, &rights, NULL);
    redis_ok(s.r, "ACL SETUSER sidecar ~q ~q:*");
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE, .redis = RIGHTS_LOGIN, .scan = "50ms"});
    feed_secret(1);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    char *ref = kept(ref_of(d, SECRET));
    const daemon_output_t *refused = cli(d, "erase", ref);
    cr_expect(refused->code == 1 && has(refused->err, "XDEL on the key sidecar:q:failures"), "%s%s", refused->out, refused->err);
    cr_expect(in_stream(SECRET) && redis_int(s.r, "XLEN sidecar:q:failures") == 1);
    for (size_t i = 0; i < more.count; i++) redis_ok(s.r, "ACL SETUSER sidecar %s", more.words[i]);
    cr_expect_eq(cli(d, "erase", ref)->code, 0);
    await(&s, !in_log(d, SECRET), COPY_MS);
    rights_free(&rights);
    rights_free(&more);
}
