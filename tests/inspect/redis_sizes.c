/* sizes_read and sizes.lua: the sizes of queues of each dialect, also with keys of wrong types. */
#include "fixture.h"
#include "inspect/sizes.h"
#include "queue/stamps.h"
#include "wait.h"

#define QUEUES(queues) "group = \"app\"; queues = ( " queues " );"
#define EMAIL          "{ name = \"email\"; }"
#define SENTINEL       "sidecar-sentinel:0123456789abcdef0123456789abcdef:"

static fixture_t setup(const char *config) { return fixture_start(&(fixture_options_t){.config = config}); }

static sizes_t sizes_of(fixture_t *f, size_t queue, sizes_depth_t depth) {
    sizes_t sizes;
    call_t call = fixture_call(f, NULL);
    call.queue = queue;
    cr_assert_eq(sizes_read(&call, 1, depth, &sizes), OUTCOME_OK, "%s", f->error.text);
    return sizes;
}

static outcome_t read_sizes(fixture_t *f, size_t count, sizes_t *out) {
    const call_t call = fixture_call(f, NULL);
    return sizes_read(&call, count, SIZES_STAMPS, out);
}

static sizes_t read_first(fixture_t *f) { return sizes_of(f, 0, SIZES_STAMPS); }

static void expect_sizes(const sizes_t *c, int64_t delayed, int64_t ready, int64_t in_progress) {
    cr_expect_eq(c->delayed, delayed, "delayed %lld", (long long)c->delayed);
    cr_expect_eq(c->ready, ready, "ready %lld", (long long)c->ready);
    cr_expect_eq(c->in_progress, in_progress, "in progress %lld", (long long)c->in_progress);
    cr_expect_str_eq(c->error.text, "");
}

static void stamp(fixture_t *f, const char *field, int64_t seen) {
    stamp_raw_t raw = stamp_pack(&(stamp_t){.born_us = 1, .seen = seen});
    redis_ok(f->r, "HSET sidecar:email:stamps %s %b", field, raw.bytes, raw.len);
}

static int64_t now_ms(fixture_t *f) {
    return redis_int(f->r, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)");
}

static fixture_t f;
SUITE(redis_sizes, , fixture_stop(&f));

Test(redis_sizes, an_empty_queue) {
    f = setup(QUEUES(EMAIL));
    int64_t before = now_ms(&f);
    sizes_t c = read_first(&f);
    expect_sizes(&c, 0, 0, 0);
    cr_assert(c.now_ms >= before && c.now_ms <= now_ms(&f));
    cr_assert(c.next_due_ms == SIZES_UNKNOWN && c.oldest_in_progress_ms == SIZES_UNKNOWN);
    cr_assert(c.records == 0 && c.record_bytes == 0 && sizes_overdue_ms(&c) == 0);
}

/* Redis gives an entry only as a whole: 4 ms for one of 4 MB. One script for all queues would keep Redis from others for too
 * long. */
Test(redis_sizes, large_entries_are_read_one_by_one) {
    static const char *const queues[] = {"email", "sms", "fax"};
    f = setup(QUEUES(EMAIL ", { name = \"sms\"; }, { name = \"fax\"; }"));
    sizes_t sizes[3];
    for (int i = 0; i < 3; i++)
        redis_ok(
            f.r, "EVAL %s 2 %s:delayed %s:backup",
            "redis.call('ZADD', KEYS[1], 4e12, string.rep('x', 1000000)) redis.call('LPUSH', KEYS[2], string.rep('y', 1000000))",
            queues[i], queues[i]);
    redis_ok(f.r, "LPUSH fax job");
    redis_ok(f.r, "CONFIG RESETSTAT");
    cr_assert_eq(read_sizes(&f, 3, sizes), OUTCOME_OK, "%s", f.error.text);
    for (int i = 0; i < 3; i++) expect_sizes(&sizes[i], 1, i == 2, 1);
    cr_assert_geq(server_commandstat(f.server, "evalsha"), 6, "an entry for each");
    redis_ok(f.r, "DEL sms:delayed");
    redis_ok(f.r, "SET sms:delayed text");
    cr_assert_eq(read_sizes(&f, 3, sizes), OUTCOME_OK, "%s", f.error.text);
    expect_sizes(&sizes[2], 1, 1, 1);
    cr_assert(strstr(sizes[1].error.text, "sms:delayed"), "%s", sizes[1].error.text);
}

Test(redis_sizes, counts_jobs_in_lists_and_zsets) {
    f = setup(QUEUES(EMAIL));
    int64_t now = now_ms(&f);
    redis_ok(f.r, "ZADD email:delayed %lld a %lld b", (long long)now - 5000, (long long)now + 5000);
    redis_ok(f.r, "RPUSH email 1 2 3");
    redis_ok(f.r, "RPUSH email:backup %s 2 3 4", "1 is a job that looks like no sentinel");
    redis_ok(f.r, "XADD sidecar:email:failures * event e");
    redis_ok(f.r, "HSET sidecar:email:meta bytes 77");
    stamp(&f, "0123456789abcdef", now - 60000);
    stamp(&f, "under way       ", 0);
    stamp(&f, "younger         ", now - 50000);
    sizes_t c = read_first(&f);
    expect_sizes(&c, 2, 3, 4);
    cr_assert_eq(c.next_due_ms, now - 5000);
    cr_assert_eq(sizes_overdue_ms(&c), c.now_ms - now + 5000);
    cr_assert(c.records == 1 && c.record_bytes == 77);
    cr_assert_eq(c.oldest_in_progress_ms, now - 60000);
    c = sizes_of(&f, 0, SIZES_ENDS);
    expect_sizes(&c, 2, 3, 4);
    cr_assert_eq(c.oldest_in_progress_ms, SIZES_UNKNOWN);
    redis_ok(f.r, "HSET sidecar:email:meta bytes 1000 entries 4"); /* somebody has trimmed three of four entries */
    c = read_first(&f);
    cr_assert_eq(c.record_bytes, 250, "the same estimate as in settle.lua");
}

Test(redis_sizes, scores_of_any_kind) {
    static const struct {
        const char *unit, *score;
        int64_t due_ms;
    } cases[] = {{"ms", "+inf", INT64_MAX},
                 {"ms", "-inf", 0},
                 {"ms", "-5", 0},
                 {"ms", "1700000000000.5", 1700000000001},
                 {"s", "1700000000", 1700000000000},
                 {"s", "1.5", 1500},
                 {"s", "1e300", INT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *config = kept_printf(QUEUES("{ name = \"email\"; score_unit = \"%s\"; }"), cases[i].unit);
        f = setup(config);
        redis_ok(f.r, "ZADD email:delayed %s a", cases[i].score);
        sizes_t c = read_first(&f);
        cr_expect_eq(c.next_due_ms, cases[i].due_ms, "%s %s: %lld", cases[i].score, cases[i].unit, (long long)c.next_due_ms);
        cr_expect_eq(sizes_overdue_ms(&c) > 0, cases[i].due_ms != INT64_MAX);
        fixture_stop(&f);
    }
}

Test(redis_sizes, recognizes_a_sentinel_in_lists_of_any_length) {
    f = setup(QUEUES(EMAIL));
    redis_ok(f.r, "HSET sidecar:email:sentinel random 0123456789abcdef0123456789abcdef n 7");
    sizes_t c = read_first(&f);
    expect_sizes(&c, 0, 0, 0); /* the list was deleted */
    redis_ok(f.r, "RPUSH email:backup job");
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 1); /* the list has a job again */
    redis_ok(f.r, "DEL email:backup");
    redis_ok(f.r, "RPUSH email:backup " SENTINEL "7");
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 0);
    redis_ok(f.r, "RPUSH email:backup job1 job2");
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 2);
    redis_ok(f.r, "DEL email:backup sidecar:email:sentinel");
    redis_ok(f.r, "EVAL %s 1 email:backup", "redis.call('RPUSH', KEYS[1], string.rep('x', 5000))");
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 1); /* the script does not return an entry of this size */
}

Test(redis_sizes, does_not_count_the_sentinel_of_a_running_monitor) {
    f = setup("group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( " EMAIL " );");
    scoped(instance_stop) instance_t instance;
    redis_ok(f.r, "RPUSH email:backup job");
    instance_start(&instance, f.keys, INSTANCE_MONITOR);
    instance_lead(&instance, f.r);
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN email:backup") == 2, 8000));
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "HLEN sidecar:email:stamps") == 1, 8000));
    sizes_t c = read_first(&f);
    expect_sizes(&c, 0, 0, 1);
    cr_assert(c.oldest_in_progress_ms > c.now_ms - wait_scaled_ms(20000) && c.oldest_in_progress_ms <= c.now_ms);
    redis_ok(f.r, "LREM email:backup 1 job");
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 0);
    redis_ok(f.r, "DEL sidecar:email:sentinel"); /* the bytes still identify the sentinel */
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 0);
}

#define KMQUEUE                                                                                                                  \
    "{ name = \"email\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; heartbeat = \"off\"; }"
#define MARKER                                                                                                                   \
    "{\"id\":\"x\",\"queue\":\"back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":1,"  \
    "\"retry\":0,\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}"

Test(redis_sizes, of_kmqueue) {
    f = setup(QUEUES(KMQUEUE));
    redis_ok(f.r, "RPUSH worker1_queue 1 2");
    redis_ok(f.r, "RPUSH worker2_queue 1 2 3");
    redis_ok(f.r, "RPUSH back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ== %s", MARKER); /* the marker of KMQueue's own monitor */
    sizes_t c = read_first(&f);
    expect_sizes(&c, SIZES_UNKNOWN, 5, 0);
    redis_ok(f.r, "RPUSH back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ== task");
    redis_ok(f.r, "HSET sidecar:email:sentinel n 1 random x");
    c = read_first(&f);
    expect_sizes(&c, SIZES_UNKNOWN, 5, 1);
}

Test(redis_sizes, of_bull) {
    f = setup(QUEUES("{ name = \"video\"; dialect = \"bull\"; }"));
    int64_t now = now_ms(&f);
    redis_ok(f.r, "ZADD bull:video:delayed %lld 7", ((long long)now + 60000) * 4096 + 7);
    redis_ok(f.r, "RPUSH bull:video:wait 1 2");
    redis_ok(f.r, "RPUSH bull:video:paused 3");
    redis_ok(f.r, "LPUSH bull:video:active 4 5 6");
    redis_ok(f.r, "HSET bull:video:4 processedOn %lld", (long long)now - 70000);
    sizes_t c = sizes_of(&f, 0, SIZES_ENDS);
    expect_sizes(&c, 1, 3, 3);
    cr_assert_eq(c.next_due_ms, now + 60000);
    cr_assert_eq(c.oldest_in_progress_ms, now - 70000, "the oldest job is the last of the list");
    redis_ok(f.r, "DEL bull:video:4");
    c = read_first(&f);
    expect_sizes(&c, 1, 3, 3);
    cr_assert_eq(c.oldest_in_progress_ms, SIZES_UNKNOWN);
    fixture_make_key(f.r, "bull:video:4", "string");
    c = read_first(&f);
    cr_assert(c.in_progress == SIZES_UNKNOWN && c.ready == 3 && strstr(c.error.text, "bull:video:active: WRONGTYPE"), "%s",
              c.error.text);
}

Test(redis_sizes, of_delayed_queue) {
    f = setup(QUEUES("{ name = \"events\"; dialect = \"delayed_queue\"; types = [\"com.example.A=one\", \"com.example.B=one\", "
                     "\"com.example.C\"]; }"));
    redis_ok(f.r, "ZADD de_delayed_events 1700000000000 com.example.A###1 1800000000000 com.example.A###2");
    redis_ok(f.r, "RPUSH de_one a b");
    redis_ok(f.r, "RPUSH de_c c");
    sizes_t c = read_first(&f);
    expect_sizes(&c, 2, 3, SIZES_UNKNOWN);
    cr_assert_eq(c.next_due_ms, 1700000000000);
}

/* From Redis 7 on XINFO GROUPS has `lag`, but not after some deletions. */
Test(redis_sizes, of_a_consumer_group) {
    f = setup(QUEUES("{ name = \"email\"; dialect = \"stream\"; group = \"a group\"; }"));
    sizes_t c = read_first(&f);
    expect_sizes(&c, 0, 0, 0);
    redis_ok(f.r, "ZADD email:delayed 1 job");
    redis_ok(f.r, "XGROUP CREATE email %s 0 MKSTREAM", "a group");
    redis_ok(f.r, "EVAL %s 1 email", "for i = 1, 2500 do redis.call('XADD', KEYS[1], i .. '-0', 'data', 'job') end");
    redis_ok(f.r, "XREADGROUP GROUP %s w1 COUNT 2 STREAMS email >", "a group");
    redis_ok(f.r, "XCLAIM email %s w1 0 1-0 IDLE 70000", "a group");
    int64_t before = now_ms(&f);
    c = read_first(&f);
    bool counts = server_major(f.server) >= 7;
    expect_sizes(&c, 1, counts ? 2498 : 1000, 2);
    cr_assert_geq(c.oldest_in_progress_ms, before - 71000);
    cr_assert_leq(c.oldest_in_progress_ms, before - 69000);
    redis_ok(f.r, "XDEL email 2-0"); /* the last entry that a consumer has read */
    redis_ok(f.r, "XTRIM email MAXLEN 7");
    c = read_first(&f);
    expect_sizes(&c, 1, 7, 2);
    redis_ok(f.r, "XGROUP DESTROY email %s", "a group");
    c = read_first(&f);
    expect_sizes(&c, 1, SIZES_UNKNOWN, 0);
}

Test(redis_sizes, of_private_queues) {
    f = setup(QUEUES("{ name = \"email\"; dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\"; }"));
    redis_ok(f.r, "RPUSH fights 1 2");
    sizes_t c = sizes_of(&f, 0, SIZES_ENDS);
    expect_sizes(&c, SIZES_UNKNOWN, 2, SIZES_UNKNOWN);
    c = read_first(&f);
    expect_sizes(&c, SIZES_UNKNOWN, 2, 0);
    stamp(&f, "0123456789abcdef", 1700000000000);
    stamp(&f, "under way       ", 0);
    stamp(&f, "another         ", 1800000000000);
    c = read_first(&f);
    expect_sizes(&c, SIZES_UNKNOWN, 2, 2);
    cr_assert_eq(c.oldest_in_progress_ms, 1700000000000);
}

Test(redis_sizes, reads_no_sizes_for_absent_roles) {
    f = setup(QUEUES("{ name = \"email\"; roles = [\"dispatcher\"]; }, { name = \"sms\"; roles = [\"monitor\"]; }"));
    fixture_make_key(f.r, "email:backup", "string");
    fixture_make_key(f.r, "sms:delayed", "string");
    sizes_t c = read_first(&f);
    expect_sizes(&c, 0, 0, SIZES_UNKNOWN);
    c = sizes_of(&f, 1, SIZES_STAMPS);
    expect_sizes(&c, SIZES_UNKNOWN, 0, 0);
}

/* `lost` is the number that is unknown when the key has a wrong type; 0 = none. */
Test(redis_sizes, one_key_of_the_wrong_type_spoils_its_own_number_only, .timeout = 60) {
    static const struct {
        const char *key, *type;
        size_t lost;
    } keys[] = {{"email", "list", offsetof(sizes_t, ready)},
                {"email:delayed", "zset", offsetof(sizes_t, delayed)},
                {"email:backup", "list", offsetof(sizes_t, in_progress)},
                {"sidecar:email:failures", "stream", offsetof(sizes_t, records)},
                {"sidecar:email:meta", "hash", offsetof(sizes_t, record_bytes)},
                {"sidecar:email:stamps", "hash", offsetof(sizes_t, oldest_in_progress_ms)},
                {"sidecar:email:sentinel", "hash", 0}};
    static const size_t numbers[] = {offsetof(sizes_t, ready),        offsetof(sizes_t, delayed),
                                     offsetof(sizes_t, in_progress),  offsetof(sizes_t, records),
                                     offsetof(sizes_t, record_bytes), offsetof(sizes_t, oldest_in_progress_ms)};
    f = setup(QUEUES(EMAIL ", { name = \"sms\"; }"));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].type) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "RPUSH email:backup job");
            redis_ok(f.r, "RPUSH sms 1 2 3");
            stamp(&f, "0123456789abcdef", 5);
            fixture_make_key(f.r, keys[k].key, type);
            sizes_t c[2];
            cr_assert_eq(read_sizes(&f, 2, c), OUTCOME_OK);
            cr_expect(strncmp(c[0].error.text, keys[k].key, strlen(keys[k].key)) == 0 && strstr(c[0].error.text, "WRONGTYPE"),
                      "%s: %s", keys[k].key, c[0].error.text);
            for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                int64_t number = *(const int64_t *)(const void *)((const char *)&c[0] + numbers[i]);
                cr_expect_eq(number == SIZES_UNKNOWN, numbers[i] == keys[k].lost && keys[k].lost, "%s as %s: number %zu is %lld",
                             keys[k].key, type, i, (long long)number);
            }
            expect_sizes(&c[1], 0, 3, 0);
        }
}

static const char AS_SIDECAR[] = "username = \"sidecar\"; password = \"secret\";";

Test(redis_sizes, one_key_that_may_not_be_read_spoils_its_own_number_only) {
    f = fixture_start(&(fixture_options_t){
        .config = QUEUES(EMAIL ", { name = \"sms\"; }, { name = \"fax\"; }"), .redis = AS_SIDECAR, .closed = true});
    redis_ok(f.r, "ACL SETUSER sidecar on >secret +@all ~email:* ~sidecar:* ~sms ~sms:* ~fax:* ~fax");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    redis_ok(f.r, "RPUSH email:backup 1 2");
    redis_ok(f.r, "RPUSH fax 1 2");
    sizes_t c[3];
    cr_assert_eq(read_sizes(&f, 3, c), OUTCOME_OK);
    cr_assert(c[0].ready == SIZES_UNKNOWN && strstr(c[0].error.text, "email: NOPERM"), "%s", c[0].error.text);
    cr_assert(c[0].in_progress == 2 && c[0].delayed == 0 && c[0].records == 0);
    expect_sizes(&c[1], 0, 0, 0);
    expect_sizes(&c[2], 0, 2, 0);
    redis_ok(f.r, "ACL SETUSER sidecar -evalsha"); /* now every number is unknown */
    cr_assert_eq(read_sizes(&f, 3, c), OUTCOME_OK);
    for (int i = 0; i < 3; i++)
        cr_assert(c[i].ready == SIZES_UNKNOWN && strstr(c[i].error.text, "NOPERM"), "%s", c[i].error.text);
}

static char *many(int count, const char *scope) {
    buffer_t config = {0};
    buffer_printf(&config, "group = \"app\"; lock = { scope = \"%s\"; }; queues = (", scope);
    for (int i = 0; i < count; i++)
        buffer_printf(&config, "%s{ name = \"%s%d%s\"; }", i ? ", " : "", *scope == 'q' ? "{q" : "q", i,
                      *scope == 'q' ? "}" : "");
    buffer_str(&config, ");");
    return kept(config.data);
}

Test(redis_sizes, a_thousand_queues_by_few_requests) {
    for (int scope = 0; scope < 2; scope++) {
        char *config = many(1000, scope ? "queue" : "group");
        f = setup(config);
        sizes_t *c = calloc(1000, sizeof *c);
        redis_ok(f.r, scope ? "RPUSH {q998} 1 2" : "RPUSH q998 1 2");
        redis_ok(f.r, scope ? "SET {q500}:delayed x" : "SET q500:delayed x");
        redis_ok(f.r, "CONFIG RESETSTAT");
        cr_assert_eq(read_sizes(&f, 1000, c), OUTCOME_OK, "%s", f.error.text);
        for (int i = 0; i < 1000; i++) {
            if (i != 500) expect_sizes(&c[i], 0, i == 998 ? 2 : 0, 0);
            if (i == 500) cr_assert(c[i].delayed == SIZES_UNKNOWN && *c[i].error.text);
        }
        cr_assert_leq(server_commandstat(f.server, "evalsha"), scope ? 1024 : 21);
        cr_assert_eq(server_commandstat(f.server, "hscan"), 0, "no job is in progress, so no stamps are read");
        long long errors = server_info_int(f.server, "stats", "total_error_replies");
        redis_ok(f.r, "ACL SETUSER default -evalsha");
        cr_assert_eq(read_sizes(&f, 1000, c), OUTCOME_OK);
        for (int i = 0; i < 1000; i++) cr_assert(c[i].ready == SIZES_UNKNOWN && *c[i].error.text);
        errors = server_info_int(f.server, "stats", "total_error_replies") - errors;
        cr_assert_leq(errors, scope ? 1100 : 100, "when Redis refuses every request, the search for the refused key must end");
        free(c);
        fixture_stop(&f);
    }
}

Test(redis_sizes, reads_stamps_up_to_a_limit, .timeout = 60) {
    static const char FILL[] = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do redis.call('HSET', KEYS[1], "
                               "string.format('%016d', i), ARGV[3]) end";
    f = setup(QUEUES(EMAIL));
    stamp_raw_t raw = stamp_pack(&(stamp_t){.born_us = 1, .seen = 1800000000000});
    redis_ok(f.r, "RPUSH email:backup 1 2 3");
    redis_ok(f.r, "EVAL %s 1 sidecar:email:stamps 1 15000 %b", FILL, raw.bytes, raw.len);
    stamp(&f, "the oldest      ", 1700000000000);
    sizes_t c = read_first(&f);
    expect_sizes(&c, 0, 0, 3);
    cr_assert_eq(c.oldest_in_progress_ms, 1700000000000);
    redis_ok(f.r, "EVAL %s 1 sidecar:email:stamps 15001 30000 %b", FILL, raw.bytes, raw.len);
    c = read_first(&f);
    expect_sizes(&c, 0, 0, 3);
    cr_assert_eq(c.oldest_in_progress_ms, SIZES_UNKNOWN, "the oldest of a part of the stamps may not be the oldest of all");
}

Test(redis_sizes, writes_nothing_and_ends_with_its_server) {
    f = setup(QUEUES(EMAIL ", "
                           "{ name = \"video\"; dialect = \"bull\"; }"));
    sizes_t c[2];
    redis_ok(f.r, "LPUSH bull:video:active 4");
    char *before = fixture_digest(f.r);
    cr_assert_eq(read_sizes(&f, 2, c), OUTCOME_OK);
    char *after = fixture_digest(f.r);
    cr_assert_str_eq(before, after);
    server_kill(f.server);
    cr_assert_eq(read_sizes(&f, 2, c), OUTCOME_DISCONNECTED);
}
