/* Each script and command of the monitor on every server, called as the monitor calls it. */
#include "dialects/registry.h"
#include "every_server.h"
#include "monitor_call.h"
#include "queue/heartbeat.h"
#include "queue/stream.h"

static fixture_t begin(int number) {
    const char *binary = every_server_binary(number);
    if (binary) setenv("QS_REDIS_SERVER_BIN", binary, 1);
    fixture_t f = fixture_start(NULL);
    redis_ok(f.r, "SET sidecar:app:lock T");
    return f;
}

static const settle_where_t LIST = {
    .from = "email:backup", .ready = "email", .delayed = "email:delayed", .errors = "email:errors"};

static void settle_to(fixture_t *f, const settle_where_t *where, const char *job, stamp_t then, int64_t delay_ms,
                      const char *report, settled_t expected) {
    digest_t digest = digest_of(job, strlen(job));
    stamp_t now = stamp_of(f->r, slice_text(job));
    event_t event = {.kind = slice_text(then.born_us ? "retried" : "failed"), .payload = slice_text(job)};
    settle_ask_t ask = {.job = slice_text(job),
                        .digest = &digest,
                        .where = where,
                        .old = stamp_pack(&now),
                        .new = then.born_us ? stamp_pack(&then) : (stamp_raw_t){.len = 0},
                        .depth = 100,
                        .alone = SETTLE_EXACT_ENTRIES,
                        .heartbeat = "7_alive",
                        .report = report,
                        .delay_ms = delay_ms,
                        .event = &event};
    settled_t settled;
    const call_t call = fixture_call(f, "T");
    const settle_ask_t *const asks[] = {&ask};
    settle_reply_t reply;
    settle_append(&call, asks, 1);
    cr_assert(settle_read_answers(&call, 1, &settled, &reply), "%s", f->error.text);
    cr_assert_eq(settled, expected, "%s: %d", job, (int)settled);
}

static void settle(fixture_t *f, const char *job, stamp_t then, int64_t delay_ms, const char *report, settled_t expected) {
    settle_to(f, &LIST, job, then, delay_ms, report, expected);
}

static void stamp_all(fixture_t *f, const char *const *jobs, size_t count) {
    stamp_change_t changes[8] = {{0}};
    digest_t digests[8];
    const call_t call = fixture_call(f, "T");
    for (size_t i = 0; i < count; i++) {
        digests[i] = digest_of(jobs[i], strlen(jobs[i]));
        changes[i].digest = &digests[i];
        changes[i].new = stamp_pack(&(stamp_t){.seen = 1});
        redis_ok(f->r, "LPUSH email:backup %s", jobs[i]);
    }
    cr_assert_eq(stamps_change(&call, changes, count), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(redis_int(f->r, "HLEN sidecar:email:stamps"), (long long)count);
}

static void one_rotation(fixture_t *f, size_t jobs) {
    static backup_page_t page;
    static stamp_t stamps[BACKUP_PAGE];
    static stamp_raw_t raws[BACKUP_PAGE];
    backup_status_t look;
    bool pushed;
    int64_t now = 0;
    const call_t call = fixture_call(f, "T");
    const rotation_ops_t *rotation = dialect_list.scan->rotation;
    for (int round = 0; round < 2; round++) {
        backup_status_append(&call, rotation, NULL, false);
        cr_assert_eq(backup_status_read(&call, rotation, false, &look), OUTCOME_OK, "%s", f->error.text);
        if (round) break;
        cr_assert_eq(backup_push_marker(&call, &look, &pushed), OUTCOME_OK);
        cr_assert(pushed);
    }
    backup_rotate_append(&call, jobs + 1, true);
    cr_assert_eq(backup_rotate_read(&call, &look, jobs + 1, &page), OUTCOME_OK, "%s", f->error.text);
    cr_assert(page.count == jobs + 1 && page.jobs == jobs && page.entries[jobs].kind == ENTRY_MARKER);
    stamps_append(&call, &page);
    cr_assert_eq(stamps_read(&call, &page, stamps, raws, &now), OUTCOME_OK, "%s", f->error.text);
    for (size_t i = 0; i < jobs; i++) cr_assert(stamps[i].born_us && stamps[i].seen <= now);
    backup_page_clear(&page);
    const backup_range_t range = {.count = jobs};
    backup_range_append(&call, &range);
    cr_assert_eq(backup_range_read(&call, &look, &range, &page), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(page.count, jobs);
    backup_page_clear(&page);
    buffer_free(&look.marker);
}

static void note(void *self, const report_ref_t *report) { snprintf(self, REPORT_ID_SIZE, "%s", report->id); }

static bool keep_none(void *self, const uint8_t field[STAMP_FIELD_BYTES], stamp_t *stamp) {
    (void)self, (void)field, (void)stamp;
    return false;
}

static void check_heartbeats(fixture_t *f) {
    heartbeat_check_t looks[] = {{.key = "none_alive"}, {.key = NULL}, {.key = "hash_alive"}, {.key = "7_alive"}};
    redis_ok(f->r, "HSET hash_alive a b");
    cr_assert_eq(heartbeats_read(f->conn, looks, 4, &f->error), OUTCOME_OK, "%s", f->error.text);
    cr_assert(!looks[0].there && looks[2].there && !looks[2].worker_len && looks[3].there && looks[3].worker_len == 2);
    redis_ok(f->r, "SET space_alive %b", " \0\t", (size_t)3);
    heartbeat_check_t trimmed[] = {{.key = "none_alive", .blank_is_dead = true},
                                   {.key = "space_alive", .blank_is_dead = true},
                                   {.key = "hash_alive", .blank_is_dead = true},
                                   {.key = "7_alive", .blank_is_dead = true},
                                   {.key = "space_alive"}};
    cr_assert_eq(heartbeats_read(f->conn, trimmed, 5, &f->error), OUTCOME_OK, "%s", f->error.text);
    cr_assert(!trimmed[0].there && !trimmed[1].there && trimmed[2].there && trimmed[3].there && trimmed[4].there);
    redis_ok(f->r, "DEL hash_alive space_alive");
}

ON_EVERY_SERVER(redis_monitor_servers, each_script_works) {
    static const char *const jobs[] = {"at once", "later", "ends", "stays", "again"};
    static const stamp_t under_way = {.born_us = 1700000000000001, .retries = 1, .retried_at = 1700000000000};
    scoped(fixture_stop) fixture_t f = begin(*number);
    char id[REPORT_ID_SIZE] = "";
    reports_walk_t walk = {0};
    uint64_t cursor = 0;
    int64_t now_ms;
    const call_t call = fixture_call(&f, "T");
    stamp_all(&f, jobs, 5);
    one_rotation(&f, 5);
    redis_ok(f.r, "SET 7_alive me");
    check_heartbeats(&f);
    settle(&f, "stays", under_way, 0, "", SETTLED_ALIVE);
    redis_ok(f.r, "DEL 7_alive");
    settle(&f, "at once", under_way, 0, "", SETTLED);
    settle(&f, "later", under_way, 5000, "", SETTLED);
    settle(&f, "ends", (stamp_t){0}, 0, "", SETTLED);
    redis_ok(f.r, "HSET email:errors again boom");
    cr_assert_eq(reports_scan(&call, &walk, note, id), OUTCOME_OK, "%s", f.error.text);
    settle(&f, "again", under_way, 0, "", SETTLED_CHANGED);
    settle(&f, "again", under_way, 0, id, SETTLED);
    settle(&f, "nobody", under_way, 0, "", SETTLED_CHANGED);
    cr_assert_eq(redis_int(f.r, "LLEN email"), 2);
    cr_assert(is_delayed(f.r, slice_text("later")));
    cr_assert_eq(redis_int(f.r, "LLEN email:backup"), 2, "backup must hold `stays` and the sentinel");
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 4);
    redis_ok(f.r, "HSET email:errors stray boom");
    report_removed_t removed;
    cr_assert_eq(report_remove(&call, slice_text("stray"), id, &removed), OUTCOME_OK);
    cr_assert(removed.removed && removed.bytes == 4 && memcmp(removed.head, "boom", removed.len) == 0);
    cr_assert(redis_int(f.r, "EXISTS email:errors") == 0);
    cursor = 0;
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:stamps"), 4);
    cr_assert_eq(stamps_prune(&call, &cursor, keep_none, NULL), OUTCOME_OK);
    cr_assert(redis_int(f.r, "EXISTS sidecar:email:stamps") == 0);
    stream_ends_t look = {0};
    cr_assert_eq(stream_read_ends(f.conn, f.keys, NULL, &look, &now_ms, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_null(look.error, "%s", look.error);
    stamp_all(&f, jobs, 1); // without a stamp to remove, prune sends no script and cannot be fenced
    redis_ok(f.r, "SET sidecar:app:lock another");
    cr_assert_eq(stamps_prune(&call, &cursor, keep_none, NULL), OUTCOME_FENCED);
}

ON_EVERY_SERVER(redis_monitor_servers, a_settle_uses_the_keys_of_its_dialect) {
    static const char *const jobs[] = {"again", "ends", "done"};
    static const stamp_t under_way = {.born_us = 1700000000000001, .retries = 1, .retried_at = 1700000000000};
    scoped(fixture_stop) fixture_t f = begin(*number);
    stamp_all(&f, jobs, 3);
    redis_ok(f.r, "SADD ids 1 2");
    redis_ok(f.r, "SADD finished 3");
    settle_where_t where = {.from = "email:backup",
                            .ready = "elsewhere",
                            .again = slice_text("once more"),
                            .forget = true,
                            .mark = "ids",
                            .mark_id = slice_text("1"),
                            .done = "finished",
                            .done_id = slice_text("1")};
    settle_to(&f, &where, "again", under_way, 5000, "", SETTLED); /* without a delayed key the delay is ignored */
    redis_expect(f.r, "once more", "LPOP elsewhere");
    cr_assert_eq(redis_int(f.r, "SCARD ids"), 2, "a retry must keep the job's mark");
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:stamps"), 2);
    settle_to(&f, &where, "ends", (stamp_t){0}, 0, "", SETTLED);
    redis_expect(f.r, "2", "SRANDMEMBER ids");
    where.done_id = slice_text("3");
    settle_to(&f, &where, "done", under_way, 0, "", SETTLED_DROPPED);
    cr_assert_eq(redis_int(f.r, "EXISTS email elsewhere email:backup sidecar:email:stamps sidecar:email:none"), 0);
    cr_assert_eq(redis_int(f.r, "XLEN sidecar:email:failures"), 2);
    stamp_all(&f, jobs, 1);
    where.depth = 1;
    redis_ok(f.r, "LPUSH email:backup before");
    settle_to(&f, &where, "again", under_way, 0, "", SETTLED_GONE);
}
