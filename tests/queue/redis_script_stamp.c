/* stamp.lua, push_marker.lua and prune.lua against a real server. */
#include "dialects/registry.h"
#include "monitor/monitor_call.h"
#include "queue/scripts.h"

static const char LOCK[] = "sidecar:app:lock", STAMPS[] = "sidecar:email:stamps", META[] = "sidecar:email:meta";
static const stamp_raw_t NONE = {.len = 0};

/* A call of stamp.lua with one change. The call borrows the digest. */
static eval_t stamp_call(const char *token, const digest_t *digest, const stamp_raw_t *old, const stamp_raw_t *new) {
    eval_t call = call_begin(&script_stamp, "3");
    call_text(&call, LOCK), call_text(&call, STAMPS), call_text(&call, META), call_text(&call, token);
    call_add(&call, digest->bytes, STAMP_FIELD_BYTES);
    call_add(&call, old->bytes, old->len);
    call_add(&call, new->bytes, new->len);
    return call;
}

/* A stamp without a birth: a life begins, whose execution was seen at this time. */
static stamp_raw_t begun(int64_t seen) { return stamp_pack(&(stamp_t){.seen = seen}); }

static digest_t digest_text(const char *text) { return digest_of(text, strlen(text)); }

static void change(fixture_t *f, const char *job, stamp_raw_t old, stamp_raw_t new, int changes) {
    digest_t digest = digest_text(job);
    eval_t call = stamp_call("T", &digest, &old, &new);
    redisReply *reply = call_end(&call, f->r);
    cr_assert_eq(reply->element[2]->integer, changes);
    expect_word(reply, "stamped");
}

static fixture_t f;
SUITE(redis_script_stamp, f = fixture_start_locked(), fixture_stop(&f));
TestSuite(redis_script_push_marker, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_prune, .init = suite_start, .fini = suite_stop);

Test(redis_script_stamp, gives_each_stamp_its_own_life) {
    long long before = redis_ms(f.r);
    stamp_change_t changes[BACKUP_PAGE];
    digest_t digests[BACKUP_PAGE];
    for (int i = 0; i < BACKUP_PAGE; i++) {
        digests[i] = digest_of(&i, sizeof i);
        changes[i] = (stamp_change_t){.digest = &digests[i], .new = begun(before)};
    }
    const call_t call = fixture_call(&f, "T");
    cr_assert_eq(stamps_change(&call, changes, BACKUP_PAGE), OUTCOME_OK, "%s", f.error.text);
    int64_t last = 0;
    for (int i = 0; i < BACKUP_PAGE; i++) {
        stamp_t stamp = stamp_of(f.r, (slice_t){(const char *)&i, sizeof i});
        cr_assert(stamp.born_us > last && stamp.born_us >= before * 1000, "job %d", i);
        cr_assert(stamp.seen == before && !stamp.retries && !stamp.missing && !stamp.retried_at);
        last = stamp.born_us;
    }
    cr_assert_eq(redis_int(f.r, "HSTRLEN sidecar:email:meta life"), 16);
}

/* The number makes a birth unique. The time of a birth is true, also after a birth by a clock that was ahead. */
Test(redis_script_stamp, a_birth_has_the_present_time_and_the_next_number) {
    static const struct {
        const char *life;
        int number;
    } rows[] = {{"7", 8},
                {"9000000000000998", 999},
                {"9000000000000999", 0},
                {"123456789012345678901234567890", 891},
                {"1e400", 401},
                {"-5", 6},
                {"abc", 1},
                {"", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "HSET sidecar:email:meta life %b", rows[i].life, strlen(rows[i].life));
        long long before = redis_ms(f.r);
        change(&f, rows[i].life, NONE, begun(1), 1);
        int64_t born_us = stamp_of(f.r, slice_text(rows[i].life)).born_us;
        cr_expect(born_us / 1000 >= before && born_us / 1000 <= redis_ms(f.r), "row %zu: %lld", i, (long long)born_us);
        cr_expect_eq(born_us % 1000, rows[i].number, "row %zu", i);
        char *life = redis_str(f.r, "HGET sidecar:email:meta life");
        cr_expect_eq(strtoll(life, NULL, 10), born_us, "row %zu", i);
    }
}

Test(redis_script_stamp, changes_only_the_stamp_that_was_read) {
    stamp_t one = {
        .born_us = 1700000000000001, .seen = 1700000000000, .missing = 5, .retries = 32767, .retried_at = 1, .requeued = true};
    stamp_t two = {.born_us = 1700000000000001, .seen = 1700000000001};
    stamp_raw_t first = stamp_pack(&one), second = stamp_pack(&two);
    change(&f, "job", first, second, 0); /* the job has no stamp */
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:stamps"), 0);
    set_stamp(f.r, slice_text("job"), one);
    stamp_t found = stamp_of(f.r, slice_text("job"));
    cr_assert(same_stamp(found, one), "stamp_pack loses a member");
    cr_assert(found.retries == 32767 && found.requeued && found.retried_at == 1);
    change(&f, "job", NONE, begun(1), 0);
    change(&f, "job", second, first, 0);
    change(&f, "job", first, second, 1);
    found = stamp_of(f.r, slice_text("job"));
    cr_assert(same_stamp(found, two) && !found.requeued);
}

Test(redis_script_stamp, a_high_count_of_retries_is_no_requeue) {
    stamp_raw_t raw = stamp_pack(&(stamp_t){.born_us = 1, .retries = 40000});
    stamp_t stamp = stamp_unpack(raw.bytes, raw.len);
    cr_assert(stamp.retries == 32767 && !stamp.requeued);
}

Test(redis_script_stamp, a_foreign_stamp_is_replaced) {
    digest_t digest = digest_text("job");
    static const size_t lens[] = {0, 1, 27, 29, 100};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        char junk[100] = {0};
        redis_ok(f.r, "HSET sidecar:email:stamps %b %b", digest.bytes, (size_t)STAMP_FIELD_BYTES, junk, lens[i]);
        cr_assert_eq(stamp_of(f.r, slice_text("job")).born_us, 0);
        change(&f, "job", NONE, begun(1), 1);
        cr_assert_neq(stamp_of(f.r, slice_text("job")).born_us, 0);
    }
}

Test(redis_script_stamp, does_nothing_without_the_lock_or_with_wrong_types) {
    digest_t digest = digest_text("job");
    static const char *const tokens[] = {"t", "TT", "", "other"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        eval_t call = stamp_call(tokens[i], &digest, &NONE, &NONE);
        expect_word(call_in_vain(&call, f.r), "fenced");
    }
    eval_t call = stamp_call("T", &digest, &NONE, &NONE);
    static const char *const keys[][2] = {{STAMPS, "stamps"}, {META, "meta"}};
    for (size_t k = 0; k < 2; k++)
        for_other_types (type, "hash") {
            redis_ok(f.r, "DEL %s %s", STAMPS, META);
            fixture_make_key(f.r, keys[k][0], type);
            expect_type(call_in_vain(&call, f.r), keys[k][1], type);
        }
}

/* Calls push_marker.lua with the sentinel that dialect `list` would make. */
static redisReply *push_marker(redis_t *r, const char *token, const char *n, const char *random) {
    char *sentinel = kept_printf("sidecar-sentinel:%s:%lld", random, strtoll(n, NULL, 10) + 1);
    eval_t call = call_begin(&script_push_marker, "3");
    call_text(&call, LOCK), call_text(&call, "email:backup"), call_text(&call, "sidecar:email:sentinel");
    call_text(&call, token), call_text(&call, n), call_text(&call, random), call_text(&call, sentinel);
    return call_end(&call, r);
}

#define RANDOM "0123456789abcdef0123456789abcdef"
#define OTHER  "fedcba9876543210fedcba9876543210"

Test(redis_script_push_marker, pushes_one_sentinel_for_each_number) {
    expect_word(push_marker(f.r, "T", "", RANDOM), "empty");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:sentinel"), 0);
    redis_ok(f.r, "RPUSH email:backup job");
    expect_word(push_marker(f.r, "T", "", RANDOM), "pushed");
    redis_expect(f.r, "sidecar-sentinel:" RANDOM ":1", "LINDEX email:backup 0");
    expect_word(push_marker(f.r, "T", "", OTHER), "other");
    expect_word(push_marker(f.r, "T", "1", OTHER), "other"); /* the random part never changes, or scans would not recognize it */
    expect_word(push_marker(f.r, "T", "1", RANDOM), "pushed");
    redis_expect(f.r, "sidecar-sentinel:" RANDOM ":2", "LINDEX email:backup 0");
    expect_word(push_marker(f.r, "T", "1", RANDOM), "other");
    expect_word(push_marker(f.r, "S", "2", RANDOM), "fenced");
    redis_ok(f.r, "HSET sidecar:email:sentinel n 99999999999999");
    expect_word(push_marker(f.r, "T", "99999999999999", RANDOM), "pushed");
    redis_expect(f.r, "sidecar-sentinel:" RANDOM ":100000000000000", "LINDEX email:backup 0");
    cr_assert_eq(redis_int(f.r, "LLEN email:backup"), 4);
}

/* The next scan recognizes the sentinel, even if the hash had malformed fields before. */
Test(redis_script_push_marker, a_pushed_sentinel_is_recognized) {
    static const char *const rows[][2] = {{"abc", "1"},
                                          {RANDOM, "-5"},
                                          {RANDOM, "abc"},
                                          {RANDOM RANDOM, "3"},
                                          {RANDOM, "1e5"},
                                          {"", ""},
                                          {RANDOM, "007"},
                                          {"0123456789abcdef0123456789abcdeX", "7"},
                                          {RANDOM, "99999999999999"}};
    const call_t call = fixture_call(&f, "T");
    const rotation_ops_t *rotation = dialect_list.scan->rotation;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "DEL email:backup");
        redis_ok(f.r, "RPUSH email:backup job");
        redis_ok(f.r, "HSET sidecar:email:sentinel random %b n %b", rows[i][0], strlen(rows[i][0]), rows[i][1],
                 strlen(rows[i][1]));
        backup_status_t status;
        bool pushed = false;
        for (int round = 0; round < 2 && !pushed; round++) { /* the script refuses 007 once: C sends 7 */
            backup_status_append(&call, rotation, NULL, false);
            cr_assert_eq(backup_status_read(&call, rotation, false, &status), OUTCOME_OK, "%s", f.error.text);
            cr_assert_eq(backup_push_marker(&call, &status, &pushed), OUTCOME_OK);
            if (!pushed) redis_ok(f.r, "HSET sidecar:email:sentinel n 7");
        }
        cr_assert(pushed, "row %zu", i);
        backup_status_append(&call, rotation, NULL, false);
        cr_assert_eq(backup_status_read(&call, rotation, false, &status), OUTCOME_OK);
        static backup_page_t page;
        backup_rotate_append(&call, 3, true);
        cr_assert_eq(backup_rotate_read(&call, &status, 3, &page), OUTCOME_OK);
        cr_assert(page.count == 3 && page.jobs == 2 && page.entries[1].kind == ENTRY_MARKER, "row %zu: %s", i,
                  page.entries[1].bytes.data);
        cr_assert(!page.entries[0].behind && page.entries[2].behind, "the same job is read again behind the marker");
        backup_page_clear(&page);
        buffer_free(&status.marker);
    }
}

Test(redis_script_push_marker, does_nothing_with_wrong_types) {
    static const char *const keys[][3] = {{"email:backup", "backup", "list"}, {"sidecar:email:sentinel", "sentinel", "hash"}};
    for (size_t k = 0; k < 2; k++)
        for_other_types (type, keys[k][2]) {
            redis_ok(f.r, "DEL email:backup sidecar:email:sentinel");
            fixture_make_key(f.r, keys[k][0], type);
            char *before = fixture_digest(f.r);
            expect_type(push_marker(f.r, "T", "", RANDOM), keys[k][1], type);
            redis_expect(f.r, before, "DEBUG DIGEST");
        }
}

static redisReply *prune(redis_t *r, const char *token, const char *by, slice_t field, slice_t value) {
    eval_t call = call_begin(&script_prune, "2");
    call_text(&call, LOCK), call_text(&call, "email:errors"), call_text(&call, token), call_text(&call, by);
    call_add(&call, field.data, field.len);
    call_add(&call, value.data, value.len);
    return kept(call_end(&call, r));
}

Test(redis_script_prune, removes_only_unchanged_stamps) {
    static const char SHA1[] = "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"; /* of "a" */
    slice_t odd = {"x\0\xff", 3};
    redis_ok(f.r, "HSET email:errors %b a other a", odd.data, odd.len);
    char *before = fixture_digest(f.r);
    expect_word(prune(f.r, "S", "report", odd, slice_text(SHA1)), "fenced");
    expect_word(prune(f.r, "T", "report", odd, slice_text("a")), "pruned");
    expect_word(prune(f.r, "T", "value", odd, slice_text(SHA1)), "pruned");
    expect_word(prune(f.r, "T", "value", slice_text("missing"), slice_text("")), "pruned");
    redis_expect(f.r, before, "DEBUG DIGEST");
    redisReply *reply = prune(f.r, "T", "report", odd, slice_text(SHA1));
    cr_assert_eq(reply->element[1]->integer, 1);
    cr_assert_eq(redis_int(f.r, "HLEN email:errors"), 1);
    expect_word(prune(f.r, "T", "value", slice_text("other"), slice_text("a")), "pruned");
    cr_assert_eq(redis_int(f.r, "EXISTS email:errors"), 0);
    for_other_types (type, "hash") {
        fixture_make_key(f.r, "email:errors", type);
        expect_type(prune(f.r, "T", "value", odd, odd), "hash", type);
    }
}

/* Keeps stamps with an even `seen`, and changes every eighth. */
static bool keep_even(void *self, const uint8_t field[STAMP_FIELD_BYTES], stamp_t *stamp) {
    (void)self;
    (void)field;
    if (stamp->seen % 8 == 0) stamp->retries = 9;
    return stamp->seen % 2 == 0;
}

Test(redis_script_prune, goes_through_every_stamp) {
    enum { STAMPS_MADE = 5000 };
    for (int i = 1; i <= STAMPS_MADE; i++)
        set_stamp(f.r, (slice_t){(const char *)&i, sizeof i}, (stamp_t){.born_us = i, .seen = i});
    redis_ok(f.r, "HSET sidecar:email:stamps short 0123456789012345678901234567 %b junk", "0123456789abcdef", (size_t)16);
    uint64_t cursor = 0;
    const call_t call = fixture_call(&f, "T"), fenced = fixture_call(&f, "S");
    do cr_assert_eq(stamps_prune(&call, &cursor, keep_even, NULL), OUTCOME_OK);
    while (cursor);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:stamps"), STAMPS_MADE / 2);
    for (int i = 2; i <= STAMPS_MADE; i += 2)
        cr_assert_eq(stamp_of(f.r, (slice_t){(const char *)&i, sizeof i}).retries, i % 8 ? 0 : 9, "job %d", i);
    redis_ok(f.r, "DEL sidecar:email:stamps"); /* the first step must read the only stamp */
    set_stamp(f.r, slice_text("x"), (stamp_t){.born_us = 1, .seen = 1});
    cr_assert_eq(stamps_prune(&fenced, &cursor, keep_even, NULL), OUTCOME_FENCED);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:stamps"), 1);
}
