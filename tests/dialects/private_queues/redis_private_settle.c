/* private_queues: one call of settle.lua. A refused call changes no key. */
#include "dialects/registry.h"
#include "private_fixture.h"

#define JOB "{\"id\":\"42\"}"

static const stamp_t OLD = {.born_us = 1700000000000001, .seen = 1700000000000};
static const stamp_t NEW = {.born_us = 1700000000000001, .retries = 1, .retried_at = 1700000000500};

static void lay_out(redis_t *r) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    redis_ok(r, "RPUSH queue-w1 behind %s", JOB);
    redis_ok(r, "RPUSH fights waits");
    set_stamp(r, slice_text(JOB), OLD);
}

static fixture_t setup(void) {
    fixture_t f = fixture_start(&(fixture_options_t){
        .config = FIGHTS("dlq = \"fights-dlq\"; dedup = \"fights-done\"; id_path = \"/id\"; heartbeat = \"*_alive\";")});
    lay_out(f.r);
    return f;
}

/* Calls settle.lua as the monitor does, with the keys that private_settle chooses. */
static settled_t settle(fixture_t *f, bool ends) {
    const scan_ops_t *scan = dialect_private_queues.scan;
    const queue_keys_t *at = &f->keys->queues[0];
    entry_t entry = {.bytes = slice_text(JOB), .kind = ENTRY_JOB, .from = "queue-w1", .owner = "w1"};
    entry.digest = digest_of(JOB, strlen(JOB));
    settle_where_t where = {.ready = at->config->ready};
    scoped(buffer_free) buffer_t again = {0};
    job_t job;
    job_read(&at->config->policy, entry.bytes, &job);
    cr_assert_str_eq(job.id, "42");
    scan->settle(at, &entry, &job, !ends, &where, &again);
    char *heartbeat = kept(job_heartbeat_key(&at->config->policy, entry.owner));
    cr_assert_str_eq(heartbeat, "w1_alive");
    stamp_raw_t new = stamp_pack(&NEW);
    if (ends) new.len = 0;
    const event_t event = {.kind = slice_text(ends ? "failed" : "retried"), .reason = slice_text("x")};
    const call_t call = fixture_call(f, "T");
    const settle_ask_t ask = {.job = entry.bytes,
                              .digest = &entry.digest,
                              .where = &where,
                              .old = stamp_pack(&OLD),
                              .new = new,
                              .from_tail = true,
                              .depth = 4096,
                              .alone = SETTLE_EXACT_ENTRIES,
                              .heartbeat = heartbeat,
                              .report = "",
                              .event = &event};
    const settle_ask_t *const asks[] = {&ask};
    settle_append(&call, asks, 1);
    settled_t settled;
    settle_reply_t reply;
    f->error = (redis_error_t){0};
    settle_read_answers(&call, 1, &settled, &reply);
    cr_assert_eq(f->error.outcome, settled == SETTLED_TYPE ? OUTCOME_REFUSED : OUTCOME_OK, "%s", f->error.text);
    return settled;
}

/* Whether a retry and an end both get this reply and change no key. */
static bool refused(fixture_t *f, settled_t expected) {
    bool all = true;
    for (int ends = 0; ends < 2; ends++) {
        char *before = fixture_digest(f->r);
        settled_t found = settle(f, ends);
        char *after = fixture_digest(f->r);
        all &= found == expected && strcmp(before, after) == 0;
    }
    return all;
}

static fixture_t f;
SUITE(redis_private_settle, f = setup(), fixture_stop(&f));

Test(redis_private_settle, a_retry_goes_to_the_right_end_of_main) {
    cr_assert_eq(settle(&f, false), SETTLED);
    redis_expect(f.r, JOB, "LINDEX fights -1");
    redis_expect(f.r, "behind", "LINDEX queue-w1 -1");
    cr_assert_eq(redis_int(f.r, "LLEN queue-w1") + redis_int(f.r, "LLEN fights"), 3);
    cr_assert(same_stamp(stamp_of(f.r, slice_text(JOB)), NEW));
    cr_assert_eq(redis_int(f.r, "EXISTS fights-dlq sidecar:email:recorded"), 0);
    cr_assert(refused(&f, SETTLED_CHANGED)); /* a lost reply, sent again */
}

Test(redis_private_settle, an_end_pushes_to_dlq_with_a_mark) {
    cr_assert_eq(settle(&f, true), SETTLED);
    redis_expect(f.r, JOB, "LINDEX fights-dlq 0");
    cr_assert_eq(redis_int(f.r, "LLEN queue-w1"), 1);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:stamps"), 0);
    char *mark = redis_str(f.r, "EVAL %s 0 %s", "return redis.sha1hex(ARGV[1])", JOB);
    char *score = redis_str(f.r, "ZSCORE sidecar:email:recorded %s", mark);
    cr_assert_not_null(score, "without a mark the monitor would record the entry as a worker's");
}

Test(redis_private_settle, settles_only_the_last_entry) {
    redis_ok(f.r, "RPUSH queue-w1 other"); /* JOB is in the list, but is not the running job */
    cr_assert(refused(&f, SETTLED_GONE));
    redis_ok(f.r, "DEL queue-w1"); /* finished */
    cr_assert(refused(&f, SETTLED_GONE));
    redis_ok(f.r, "LPUSH queue-w1 next"); /* the worker has taken the next job */
    cr_assert(refused(&f, SETTLED_GONE));
}

Test(redis_private_settle, refuses_while_the_worker_has_a_heartbeat) {
    redis_ok(f.r, "SET w1_alive 1");
    cr_assert(refused(&f, SETTLED_ALIVE));
    redis_ok(f.r, "DEL w1_alive");
    redis_ok(f.r, "SET other_alive 1");
    cr_assert_eq(settle(&f, false), SETTLED);
}

Test(redis_private_settle, drops_a_finished_job) {
    for (int ends = 0; ends < 2; ends++) {
        fixture_stop(&f);
        f = setup();
        redis_ok(f.r, "SADD fights-done 42");
        cr_assert_eq(settle(&f, ends), SETTLED_DROPPED);
        cr_assert_eq(redis_int(f.r, "LLEN queue-w1"), 1);
        cr_assert_eq(redis_int(f.r, "LLEN fights"), 1);
        cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:failures sidecar:email:stamps fights-dlq sidecar:email:recorded"), 0);
    }
}

Test(redis_private_settle, keys_of_the_wrong_type_lose_nothing) {
    static const struct {
        const char *key, *right;
        int from; /* 0: a retry and an end use the key; 1: only an end */
    } keys[] = {{"queue-w1", "list", 0},   {"fights", "list", 0},     {"sidecar:email:stamps", "hash", 0},
                {"fights-done", "set", 0}, {"fights-dlq", "list", 1}, {"sidecar:email:recorded", "zset", 1}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            lay_out(f.r);
            fixture_make_key(f.r, keys[k].key, type);
            for (int ends = keys[k].from; ends < 2; ends++) {
                char *before = fixture_digest(f.r);
                cr_assert_eq(settle(&f, ends), SETTLED_TYPE, "%s as a %s", keys[k].key, type);
                redis_expect(f.r, before, "DEBUG DIGEST");
            }
        }
}

/* If Redis refuses one write, the job stays in its list, and all other writes are undone. */
Test(redis_private_settle, a_record_that_is_refused_leaves_no_dead_letter) {
    redis_ok(f.r, "XADD sidecar:email:failures 18446744073709551615-18446744073709551615 event last"); /* no id can follow */
    char *before = fixture_digest(f.r);
    settled_t settled;
    const scan_ops_t *scan = dialect_private_queues.scan;
    entry_t entry = {.bytes = slice_text(JOB), .kind = ENTRY_JOB, .from = "queue-w1", .owner = "w1"};
    entry.digest = digest_of(JOB, strlen(JOB));
    settle_where_t where = {.ready = f.keys->queues[0].config->ready};
    job_t job = {.digest = entry.digest, .id = "42"};
    scan->settle(&f.keys->queues[0], &entry, &job, false, &where, NULL);
    const event_t event = {.kind = slice_text("failed")};
    const call_t call = fixture_call(&f, "T");
    const settle_ask_t ask = {.job = entry.bytes,
                              .digest = &entry.digest,
                              .where = &where,
                              .old = stamp_pack(&OLD),
                              .from_tail = true,
                              .depth = 1,
                              .report = "",
                              .event = &event};
    const settle_ask_t *const asks[] = {&ask};
    settle_reply_t reply;
    settle_append(&call, asks, 1);
    cr_assert(settle_read_answers(&call, 1, &settled, &reply));
    cr_assert_eq(settled, SETTLED_FULL);
    redis_expect(f.r, before, "DEBUG DIGEST");
}
