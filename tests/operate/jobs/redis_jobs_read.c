/* The jobs of a queue are read in pages while they come and go. */
#include "jobs_reader.h"
#include "queue/stamps.h"
#include "scoped.h"
#include "server.h"
#include "wait.h"

#include <pthread.h>

static fixture_t f;
#define WITH_IDS "group = \"app\"; queues = ( { name = \"email\"; id_path = \"/id\"; type_path = \"/type\"; } );"
SUITE_WITHIN(60, redis_jobs_read, f = fixture_start(&(fixture_options_t){.config = WITH_IDS}), fixture_stop(&f));

/* Adds the jobs first .. first + count - 1. `each` have one score, and the bytes `pad` come before the id. */
static void delay(int first, int count, int each, const char *pad) {
    redis_ok(f.r, "EVAL %s 1 email:delayed %s %s %s %s",
             "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do redis.call('ZADD', KEYS[1], 4000000000000 + math.floor(i / ARGV[3]), "
             "'{\"pad\":\"' .. ARGV[4] .. '\",\"id\":\"' .. string.format('%06d', i) .. '\"}') end",
             kept_printf("%d", first), kept_printf("%d", count), kept_printf("%d", each), pad);
}

/* Adds jobs to the left of a list, as producers do. */
static void push(const char *list, int first, int count) {
    redis_ok(f.r, "EVAL %s 1 %s %s %s",
             "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do redis.call('LPUSH', KEYS[1], '{\"id\":\"' .. string.format('%06d', i) .. "
             "'\"}') end",
             list, kept_printf("%d", first), kept_printf("%d", count));
}

static void expect_ids(int first, int count) {
    cr_assert_eq(read_count, (size_t)count, "%zu jobs", read_count);
    for (int i = 0; i < count; i++) cr_assert_str_eq(read_jobs[i].id, kept_printf("%06d", first + i), "job %d", i);
}

/* Reads five pages of 100 jobs, and then the rest. After each of these pages `leave` happens, a script for the key. */
static void read_while(const jobs_query_t *query, const char *key, const char *leave) {
    jobs_reader_t *reader = jobs_open(f.keys, 0, query, NULL);
    read_count = 0;
    for (int page = 0; page < 5; page++) {
        read_more(&f, reader, 100);
        redis_ok(f.r, "EVAL %s 1 %s", leave, key);
    }
    read_more(&f, reader, 0);
    cr_assert(jobs_ended(reader) && !jobs_missing(reader));
    jobs_close(reader);
}

#define PROMOTE_SOME "redis.call('ZREMRANGEBYRANK', KEYS[1], 0, 80)"

/* Promotion removes jobs of the lowest scores, also of those that share a score. */
Test(redis_jobs_read, each_delayed_job_is_read_once_while_others_are_promoted) {
    delay(0, 3000, 700, "");
    read_while(&(jobs_query_t){.state = JOBS_DELAYED}, "email:delayed", PROMOTE_SOME);
    expect_ids(0, 3000);
}

/* The last job of a page leaves. */
Test(redis_jobs_read, a_page_goes_on_behind_a_job_that_has_gone) {
    delay(0, 3000, 3000, "");
    read_while(&(jobs_query_t){.state = JOBS_DELAYED}, "email:delayed", "redis.call('ZREMRANGEBYRANK', KEYS[1], 50, 120)");
    for (size_t i = 1; i < read_count; i++) cr_assert_gt(strcmp(read_jobs[i].id, read_jobs[i - 1].id), 0, "in order, once");
    redisReply *left = redis_do(f.r, "ZRANGE email:delayed 0 -1");
    for (size_t i = 0, at = 0; i < left->elements; i++) {
        while (at < read_count && strcmp(read_jobs[at].payload, left->element[i]->str) != 0) at++;
        cr_assert_lt(at, read_count, "%s was not read", left->element[i]->str);
    }
}

/* More bytes are equal than a page remembers. */
Test(redis_jobs_read, each_long_delayed_job_is_read_once_while_others_are_promoted) {
    char pad[3000] = "";
    memset(pad, 'p', sizeof pad - 1);
    delay(0, 1000, 1000, pad);
    read_while(&(jobs_query_t){.state = JOBS_DELAYED}, "email:delayed", PROMOTE_SOME);
    expect_ids(0, 1000);
    redis_ok(f.r, "DEL email:delayed");
    delay(0, 1000, 1000, pad);
    read_while(&(jobs_query_t){.state = JOBS_DELAYED, .whole = true}, "email:delayed", PROMOTE_SOME);
    expect_ids(0, 1000);
}

/* Redis compares bytes. Lua compares by the locale, and as if a text ended at its first NUL. */
Test(redis_jobs_read, a_page_goes_on_at_any_bytes) {
    static const char *const texts[] = {"%c\\xff", "a%cb", "a%cc", "A", "B", "Z", "a", "b", "\xc3\xa4", "\xff"};
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 20; k++) {
            char *bytes = kept_printf(texts[i], 'x');
            size_t len = strlen(bytes);
            if (i < 3) bytes[i ? 1 : 0] = '\0';
            char *whole = kept_printf("%02d%40s", k, "");
            memcpy(whole, bytes, len);
            redis_ok(f.r, "ZADD email:delayed 5 %b", whole, (size_t)42);
        }
    long long count = redis_int(f.r, "ZCARD email:delayed");
    for (int64_t most = 1; most < 8; most++) {
        jobs_reader_t *reader = jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_DELAYED}, NULL);
        read_count = 0;
        while (!jobs_ended(reader)) {
            read_more(&f, reader, most);
            redis_ok(f.r, "ZADD email:delayed 1 first"); /* all others have another place now */
            read_more(&f, reader, most);
            redis_ok(f.r, "ZREM email:delayed first");
        }
        jobs_close(reader);
        cr_expect_eq((long long)read_count, count, "pages of %d: %zu of %lld", (int)most, read_count, count);
    }
}

Test(redis_jobs_read, each_ready_job_is_read_once_while_workers_take_and_producers_push) {
    push("email", 0, 3000);
    read_while(&(jobs_query_t){.state = JOBS_READY}, "email",
               "for i = 1, 90 do redis.call('RPOP', KEYS[1]) redis.call('LPUSH', KEYS[1], 'new') end");
    while (read_count && read_jobs[read_count - 1].id[6]) read_count--; /* new jobs: their id is a digest */
    expect_ids(0, 3000);
}

/* A retry comes to the right end. */
Test(redis_jobs_read, retries_do_not_shift_a_page) {
    push("email", 0, 1000);
    read_while(&(jobs_query_t){.state = JOBS_READY}, "email", "redis.call('RPUSH', KEYS[1], 'retry1', 'retry2')");
    expect_ids(0, 1000);
}

/* Workers take from the left, where retries come, too. Producers push at the right end. */
Test(redis_jobs_read, each_ready_job_is_read_once_while_workers_take_from_the_left) {
    static const char config[] = "group = \"app\"; queues = ( { name = \"email\"; id_path = \"/id\"; take = \"left\"; } );";
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = config});
    redis_ok(f.r, "EVAL %s 1 email",
             "for i = 0, 2999 do redis.call('RPUSH', KEYS[1], '{\"id\":\"' .. string.format('%06d', i) .. '\"}') end");
    read_while(&(jobs_query_t){.state = JOBS_READY}, "email",
               "for i = 1, 90 do redis.call('LPOP', KEYS[1]) redis.call('RPUSH', KEYS[1], 'new') end "
               "redis.call('LPUSH', KEYS[1], 'retry1', 'retry2')");
    while (read_count && read_jobs[read_count - 1].id[6]) read_count--; /* new jobs: their id is a digest */
    expect_ids(0, 3000);
}

Test(redis_jobs_read, a_list_that_changed_too_much_is_told) {
    push("email", 0, 5000);
    jobs_reader_t *reader = jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_READY}, NULL);
    read_count = 0;
    read_more(&f, reader, 200);
    redis_ok(f.r, "LTRIM email 0 3000");
    read_more(&f, reader, 0);
    cr_assert(jobs_ended(reader) && jobs_missing(reader));
    jobs_close(reader);
}

/* The API gives it to people who may not see payloads. */
Test(redis_jobs_read, a_cursor_goes_on_and_holds_no_bytes_of_a_job) {
    delay(0, 1000, 300, "secret");
    buffer_t cursor = {0};
    read_count = 0;
    for (bool ended = false; !ended;) {
        jobs_reader_t *reader =
            jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_DELAYED}, cursor.len ? buffer_text(&cursor) : NULL);
        cr_assert_not_null(reader, "%s", buffer_text(&cursor));
        read_more(&f, reader, 70);
        ended = jobs_ended(reader);
        cr_assert(!jobs_missing(reader));
        buffer_clear(&cursor);
        jobs_cursor(reader, &cursor);
        jobs_close(reader);
        cr_assert_null(strstr(buffer_text(&cursor), "secret"));
        redis_ok(f.r, "ZREMRANGEBYRANK email:delayed 0 30");
    }
    buffer_free(&cursor);
    expect_ids(0, 1000);
}

/* The API stops after so many bytes. */
Test(redis_jobs_read, a_page_that_was_stopped_leaves_out_no_job) {
    delay(0, 500, 300, "");
    cr_assert(read_slices(&f, JOBS_DELAYED, 100, 3));
    expect_ids(0, 500);
}

Test(redis_jobs_read, a_malformed_cursor_is_refused) {
    static const char *const bad[] = {"", "x", "0", "1_5_5_5_0", "0_5_5_5_0x", "0_-2_5_5_0", "9999999_1_1_1_0", "0_1_1_1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_null(jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_DELAYED}, bad[i]), "%s", bad[i]);
}

Test(redis_jobs_read, large_jobs_are_cut_in_redis_and_said_to_be_cut) {
    enum { LARGE = 4 * 1024 * 1024 };
    char *large = mem_alloc(LARGE);
    memset(large, 'L', LARGE);
    memcpy(large, "{\"id\":\"1\"}", 10);
    for (int i = 0; i < 10; i++) {
        large[LARGE - 1] = (char)('0' + i);
        redis_ok(f.r, "ZADD email:delayed %s %b", kept_printf("%d", i), large, (size_t)LARGE);
    }
    redis_ok(f.r, "ZADD email:delayed 20 %b", large, (size_t)60000);
    int64_t before = conn_received(f.conn);
    read_state(&f, JOBS_DELAYED);
    cr_assert_eq(read_count, 11);
    cr_assert_lt(conn_received(f.conn) - before, 512 * 1024);
    for (int i = 0; i < 10; i++) {
        cr_expect(read_jobs[i].cut && read_jobs[i].size == LARGE);
        cr_expect(!*read_jobs[i].id && !*read_jobs[i].sha256, "what is not known is told");
        cr_expect_eq(strlen(read_jobs[i].payload), JOBS_HEAD_BYTES);
    }
    cr_expect(read_jobs[10].cut && read_jobs[10].size == 60000 && strlen(read_jobs[10].sha256) == 64);
    read_all(&f, &(jobs_query_t){.state = JOBS_DELAYED, .texts = (const char *const[]){"LL3"}, .text_count = 1});
    cr_assert_eq(read_count, 1, "the text is looked for in the whole payload");
    free(large);
}

/* No reply is large, and no page makes others wait: even of 100,000 jobs that all match, or of which none matches. */
Test(redis_jobs_read, pages_of_a_hundred_thousand_jobs_are_bounded, .timeout = 300) {
    enum { JOBS = 100000 };
    char pad[150] = "";
    memset(pad, 'p', sizeof pad - 1);
    for (int i = 0; i < JOBS; i += 5000) delay(i, 5000, 1000, pad);
    redis_ok(f.r, "CONFIG RESETSTAT");
    read_state(&f, JOBS_DELAYED);
    expect_ids(0, JOBS);
    long long pages = server_commandstat(f.server, "evalsha");
    cr_expect_geq(pages, JOBS / BACKUP_PAGE, "at most %d jobs a page", BACKUP_PAGE);
    char *stats = redis_str(f.r, "INFO commandstats"), *at = strstr(stats, "cmdstat_evalsha:");
    cr_assert_not_null(at);
    double us = strtod(strstr(at, "usec_per_call=") + 14, NULL);
    fprintf(stderr, "%lld pages, %.0f us each\n", pages, us);
    cr_expect_lt(us, 2 * (double)f.config->redis.slice_us * wait_scaled_ms(1000) / 1000, "a page took %.0f us", us);
    read_all(&f, &(jobs_query_t){.state = JOBS_DELAYED, .texts = (const char *const[]){"nothing"}, .text_count = 1});
    cr_expect_eq(read_count, 0);
}

/* A page ends by time long before it has as many jobs as it may. */
Test(redis_jobs_read, a_page_ends_within_the_slice) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = WITH_IDS, .redis = "slice = \"50us\";"});
    delay(0, 5000, 1000, "");
    redis_ok(f.r, "CONFIG RESETSTAT");
    read_state(&f, JOBS_DELAYED);
    expect_ids(0, 5000);
    cr_expect_geq(server_commandstat(f.server, "evalsha"), 5000 / 100);
}

/* The markers of scans are no jobs. A stamp tells since when a job runs. */
Test(redis_jobs_read, jobs_in_progress_have_their_time_and_retries) {
    const char *job = "{\"id\":\"7\",\"type\":\"mail\"}";
    digest_t digest = digest_of(job, strlen(job));
    stamp_raw_t stamp = stamp_pack(&(stamp_t){.born_us = 1700000000000000, .seen = 1700000001000, .retries = 2});
    redis_ok(f.r, "HSET sidecar:email:sentinel random 0123456789abcdef0123456789abcdef n 3");
    redis_ok(f.r, "LPUSH email:backup %s sidecar-sentinel:0123456789abcdef0123456789abcdef:3", job);
    redis_ok(f.r, "HSET sidecar:email:stamps %b %b", digest.bytes, (size_t)STAMP_FIELD_BYTES, stamp.bytes, (size_t)STAMP_BYTES);
    read_state(&f, JOBS_IN_PROGRESS);
    cr_assert_eq(read_count, 1);
    cr_expect_str_eq(read_jobs[0].id, "7");
    cr_expect_str_eq(read_jobs[0].type, "mail");
    cr_expect_eq(read_jobs[0].since, 1700000001000);
    cr_expect_eq(read_jobs[0].created, 1700000000000);
    cr_expect_eq(read_jobs[0].retries, 2);
}

static void read_oldest(void) {
    jobs_reader_t *reader = jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_IN_PROGRESS}, NULL);
    read_count = 0;
    cr_assert_eq(jobs_read_oldest(reader, f.conn, read_add, NULL, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_expect(jobs_ended(reader) && !jobs_missing(reader));
    jobs_close(reader);
}

/* Scans have put the jobs of the tail to the head, beside new ones. */
Test(redis_jobs_read, jobs_in_progress_come_with_the_longest_first) {
    enum { JOBS = 700, UNSEEN = 5 };
    push("email:backup", 0, JOBS);
    for (int i = UNSEEN; i < JOBS; i++) {
        char *job = kept_printf("{\"id\":\"%06d\"}", i);
        digest_t digest = digest_of(job, strlen(job));
        stamp_raw_t stamp = stamp_pack(&(stamp_t){.born_us = 5, .seen = 1700000000000 + (i * 37 + 11) % JOBS});
        redis_ok(f.r, "HSET sidecar:email:stamps %b %b", digest.bytes, (size_t)STAMP_FIELD_BYTES, stamp.bytes,
                 (size_t)STAMP_BYTES);
    }
    read_oldest();
    cr_assert_eq(read_count, JOBS);
    for (size_t i = 1; i < JOBS - UNSEEN; i++) cr_expect_lt(read_jobs[i - 1].since, read_jobs[i].since, "job %zu", i);
    for (size_t i = 0; i < UNSEEN; i++)
        cr_expect_str_eq(read_jobs[JOBS - UNSEEN + i].id, kept_printf("%06zu", i), "nobody has seen it yet");
}

/* Several workers run jobs of the same bytes, in a list that rests and in one that no scan rotates. */
Test(redis_jobs_read, equal_jobs_in_progress_are_read_each) {
    for (int many = 600; many < 20000; many += 14400) {
        redis_ok(f.r, "EVAL %s 1 email:backup %s", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'tick') end",
                 kept_printf("%d", many));
        read_oldest();
        cr_expect_eq(read_count, (size_t)redis_int(f.r, "LLEN email:backup"));
    }
}

/* Puts the tail of the list to its head as a scan does, so often, while the stamps of the first page are on their way. */
static void *rotate(void *times) {
    scoped(redis_drop) redis_t *r = redis_open(f.server);
    cr_assert(wait_for(proxy_fired(f.proxy) > 0, 8000));
    redis_ok(r, "EVAL %s 1 email:backup %s", "for i = 1, ARGV[1] do redis.call('RPOPLPUSH', KEYS[1], KEYS[1]) end", times);
    proxy_pass(f.proxy);
    return NULL;
}

/* After 100 times the next page finds its beginning, after 300 it does not, and the list is read again. Two of the jobs are
   equal. */
Test(redis_jobs_read, each_job_in_progress_is_read_once_while_scans_rotate) {
    static char *const times[] = {"100", "300"};
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        fixture_stop(&f);
        f = fixture_start(&(fixture_options_t){.config = WITH_IDS, .redis = "slice = \"100ms\";", .proxy = true});
        redis_ok(f.r, "LPUSH email:backup tick tick");
        push("email:backup", 0, 400);
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "HMGET sidecar:email:stamps"});
        cr_assert_eq(pthread_create(&thread, NULL, rotate, times[i]), 0);
        read_oldest();
        pthread_join(thread, NULL);
        cr_assert_eq(read_count, 402, "%s times: %zu jobs", times[i], read_count);
        for (int job = 0; job < 400; job++) cr_assert_eq(times_read(kept_printf("%06d", job)), 1, "job %d", job);
    }
}

Test(redis_jobs_read, filters_of_time_and_type_hold) {
    for (int i = 0; i < 10; i++)
        redis_ok(f.r, "ZADD email:delayed %s %s", kept_printf("%d", 2000000000 + i * 1000),
                 kept_printf("{\"id\":\"%06d\",\"type\":\"%s\"}", i, i % 2 ? "odd" : "even"));
    read_all(&f, &(jobs_query_t){.state = JOBS_DELAYED, .since_ms = 2000003000, .until_ms = 2000006000});
    expect_ids(3, 3);
    read_all(&f, &(jobs_query_t){.state = JOBS_DELAYED, .type = "odd"});
    cr_assert_eq(read_count, 5);
}

Test(redis_jobs_read, a_key_of_the_wrong_type_is_named) {
    redis_ok(f.r, "SET email:delayed x");
    jobs_reader_t *reader = jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_DELAYED}, NULL);
    cr_assert_eq(jobs_read(reader, f.conn, 0, mono_never(), read_add, NULL, &f.error), OUTCOME_REFUSED);
    cr_expect_str_eq(f.error.text, "email:delayed holds a string");
    jobs_close(reader);
}
