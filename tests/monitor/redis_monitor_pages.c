/* The pages of a scan that are in flight: no page is lost or read twice, Redis works while the monitor judges a page, and after
 * an error the connection has no unread reply. */
#include "dialects/registry.h"
#include "monitor/pages.h"
#include "monitor_call.h"

enum { JOBS = 3000 };

typedef struct {
    fixture_t f;
    metrics_queue_t metrics;
    scan_t scan;
    pages_t *pages;
} setup_t;

/* The list has JOBS entries, so a scan rotates it with ROTATED, and reads it in place with 0. */
enum { ROTATED = JOBS };

static setup_t d;

static void open_setup(int64_t rotation) {
    d = (setup_t){.f = fixture_start(NULL)};
    scan_init(&d.scan, d.f.keys->queues[0].config, &d.metrics, 1000, rotation);
    d.pages = pages_new(d.f.keys);
    redis_ok(d.f.r, "EVAL %s 1 email:backup %d", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'job' .. i) end", JOBS);
}

static void close_setup(void) {
    pages_free(d.pages);
    d.pages = NULL;
    scan_free(&d.scan);
    fixture_stop(&d.f);
}

static void begin(void) {
    backup_status_t status;
    const call_t call = fixture_call(&d.f, NULL);
    const rotation_ops_t *rotation = dialect_list.scan->rotation;
    backup_status_append(&call, rotation, NULL, false);
    cr_assert_eq(backup_status_read(&call, rotation, false, &status), OUTCOME_OK, "%s", d.f.error.text);
    cr_assert_eq(status.entries, JOBS);
    scan_take_status(&d.scan, &status, mono_now());
    cr_assert(scan_begin(&d.scan, mono_now()));
}

static outcome_t request(bool more) {
    const call_t call = fixture_call(&d.f, NULL);
    return pages_request(d.pages, &call, &d.scan, more);
}

static outcome_t read_reply(void) {
    const call_t call = fixture_call(&d.f, NULL);
    return pages_read_reply(d.pages, &call, &d.scan);
}

/* The next page of the scan under way: sends requests and reads replies as the monitor does. NULL: the scan has read all. */
static const stamped_page_t *next_page(void) {
    while (!pages_empty(d.pages) || scan_entries_wanted(&d.scan)) {
        cr_assert_eq(request(true), OUTCOME_OK, "%s", d.f.error.text);
        if (pages_ready(d.pages)) return pages_ready(d.pages);
        cr_assert_eq(read_reply(), OUTCOME_OK, "%s", d.f.error.text);
    }
    return NULL;
}

/* Reads a whole scan. Returns the number of pages judged without a request in flight. */
static int whole_scan(int first) {
    int next = first, idle = 0;
    for (const stamped_page_t *stamped; (stamped = next_page()); pages_done(d.pages)) {
        idle += !pages_in_flight(d.pages);
        for (size_t i = 0; i < stamped->page.count; i++, next++) {
            char expected[16];
            snprintf(expected, sizeof expected, "job%d", (next - 1) % JOBS + 1);
            cr_assert_str_eq(stamped->page.entries[i].bytes.data, expected, "entries must come once, the oldest first");
            digest_t digest = digest_of(expected, strlen(expected));
            cr_assert_arr_eq(stamped->page.entries[i].digest.bytes, digest.bytes, DIGEST_BYTES);
            cr_assert_eq(stamped->stamps[i].born_us, next % 7 == 0 ? next : 0, "an entry has another job's stamp");
        }
        cr_assert(stamped->now_us >= d.scan.status.now * 1000);
    }
    cr_assert_eq(next - first, JOBS);
    return idle;
}

static void stamp_some(void) {
    for (int i = 7; i <= JOBS; i += 7) {
        char job[16];
        snprintf(job, sizeof job, "job%d", i);
        set_stamp(d.f.r, slice_text(job), (stamp_t){.born_us = i, .seen = 1});
    }
}

SUITE(redis_monitor_pages, , close_setup());

Test(redis_monitor_pages, redis_has_work_while_a_page_of_a_long_list_is_judged) {
    open_setup(0);
    stamp_some();
    begin();
    cr_assert_leq(whole_scan(1), 1, "only the last page may have no request in flight");
    cr_assert(pages_empty(d.pages) && !pages_in_flight(d.pages));
}

Test(redis_monitor_pages, a_rotation_reads_each_entry_once) {
    open_setup(ROTATED);
    stamp_some();
    begin();
    whole_scan(1);
    cr_assert_eq(pages_in_flight(d.pages), false);
}

/* A scan stops at any step: the connection works, and the next scan continues at the tail of the list. */
Test(redis_monitor_pages, replies_for_dropped_pages_are_read) {
    for (int steps = 0; steps < 24; steps++) {
        open_setup(steps % 2 ? ROTATED : 0);
        begin();
        for (int i = 0; i < steps / 2; i++) {
            cr_assert_eq(request(true), OUTCOME_OK);
            if (pages_ready(d.pages))
                pages_done(d.pages);
            else
                cr_assert_eq(read_reply(), OUTCOME_OK);
        }
        cr_assert_eq(request(true), OUTCOME_OK);
        const call_t call = fixture_call(&d.f, NULL);
        pages_drop(d.pages, &call);
        cr_assert(pages_empty(d.pages) && !pages_in_flight(d.pages) && !pages_ready(d.pages));
        char *tail = redis_str(d.f.r, "LINDEX email:backup -1");
        scan_reset(&d.scan);
        begin();
        cr_assert_eq(request(true), OUTCOME_OK);
        cr_assert_eq(read_reply(), OUTCOME_OK);
        cr_assert_eq(request(false), OUTCOME_OK);
        while (!pages_ready(d.pages)) cr_assert_eq(read_reply(), OUTCOME_OK);
        cr_assert_str_eq(pages_ready(d.pages)->page.entries[0].bytes.data, tail, "%d steps", steps);
        close_setup();
    }
}

Test(redis_monitor_pages, an_error_leaves_no_reply_unread) {
    open_setup(0);
    redis_ok(d.f.r, "SET sidecar:email:stamps x");
    backup_status_t status = {.entries = JOBS, .now = 1};
    scan_take_status(&d.scan, &status, mono_now());
    cr_assert(scan_begin(&d.scan, mono_now()));
    cr_assert_eq(request(true), OUTCOME_OK);
    cr_assert_eq(read_reply(), OUTCOME_OK);
    cr_assert_eq(request(true), OUTCOME_OK);
    const call_t call = fixture_call(&d.f, NULL);
    cr_assert_eq(pages_read_all(d.pages, &call, &d.scan), OUTCOME_REFUSED);
    cr_assert_not_null(strstr(d.f.error.text, "WRONGTYPE"));
    pages_drop(d.pages, &call);
    redis_ok(d.f.r, "DEL sidecar:email:stamps");
    scan_reset(&d.scan);
    begin();
}

/* Redis refuses the first rotation and all later ones in flight. The scan reads their entries all the same. */
Test(redis_monitor_pages, a_list_is_read_without_rotation_once_redis_is_full) {
    open_setup(ROTATED);
    begin();
    int seen = 0;
    for (const stamped_page_t *stamped; (stamped = next_page()); pages_done(d.pages)) {
        seen += (int)stamped->page.count;
        if (seen >= JOBS / 4) redis_ok(d.f.r, "CONFIG SET maxmemory 1");
    }
    cr_assert(scan_pass(&d.scan)->in_place);
    cr_assert_eq(seen, JOBS);
    cr_assert_eq(fixture_log_count("redis is full"), 1);
}

/* Scans 20 small entries and then `count` entries of `len` bytes. Returns the number of large entries whose bytes were in
 * memory. Checks the limit of memory. */
static int held_of_large(const char *large, size_t len, int count) {
    int seen = 0, held = 0;
    backup_status_t status = {.entries = 20 + count, .now = 1};
    digest_t expected = digest_of(large, len);
    scan_take_status(&d.scan, &status, mono_now());
    cr_assert(scan_begin(&d.scan, mono_now()));
    for (const stamped_page_t *stamped; (stamped = next_page()); pages_done(d.pages)) {
        cr_assert_leq(stamped->page.held, len > PAGES_BYTES ? len : PAGES_BYTES);
        for (size_t i = 0; i < stamped->page.count; i++) {
            const entry_t *entry = &stamped->page.entries[i];
            if (entry->bytes.len != len) continue;
            seen++;
            held += entry->bytes.data != NULL;
            cr_assert_arr_eq(entry->digest.bytes, expected.bytes, DIGEST_BYTES);
            cr_assert(!entry->bytes.data || memcmp(entry->bytes.data, large, len) == 0);
        }
    }
    cr_assert_eq(seen, count);
    scan_end(&d.scan, mono_now());
    return held;
}

static void expect_held(int large_bytes) {
    enum { COUNT = 8 };
    open_setup(ROTATED);
    char *large = kept(malloc((size_t)large_bytes));
    memset(large, 'x', (size_t)large_bytes);
    redis_ok(d.f.r, "DEL email:backup");
    for (int i = 0; i < 20; i++) redis_ok(d.f.r, "LPUSH email:backup %d", i);
    for (int i = 0; i < COUNT; i++) redis_ok(d.f.r, "LPUSH email:backup %b", large, (size_t)large_bytes);
    int held = held_of_large(large, (size_t)large_bytes, COUNT);
    cr_assert(held < COUNT, "the first scan does not expect large entries");
    cr_assert_eq(held_of_large(large, (size_t)large_bytes, COUNT), COUNT, "the next scan must read the bytes of each");
}

Test(redis_monitor_pages, pages_in_memory_stay_within_their_limit) { expect_held(3000000); }
Test(redis_monitor_pages, an_entry_above_the_limit_is_held_alone) { expect_held(PAGES_BYTES + 800000); }

/* The first scan of a list does not know how large its entries are. One LRANGE of a whole page would take Redis long, and its
 * reply might exceed what the connection accepts, again and again. */
static void expect_limited(int large, int large_count) {
    open_setup(0);
    redis_ok(d.f.r, "EVAL %s 1 email:backup %d %d",
             "for i = 1, ARGV[2] do redis.call('LPUSH', KEYS[1], i .. string.rep('x', ARGV[1])) end", large, large_count);
    backup_status_t status = {.entries = JOBS + large_count, .now = 1};
    scan_take_status(&d.scan, &status, mono_now());
    cr_assert(scan_begin(&d.scan, mono_now()));
    size_t seen = 0;
    for (const stamped_page_t *stamped; (stamped = next_page()); pages_done(d.pages)) {
        cr_assert_leq((long long)stamped->page.bytes, BACKUP_RANGE_BYTES + large + 8);
        seen += stamped->page.count;
    }
    cr_assert_eq((int)seen, JOBS + large_count);
}

Test(redis_monitor_pages, a_page_of_unknown_entries_is_limited_by_bytes) { expect_limited(300000, 200); }
Test(redis_monitor_pages, entries_above_the_limit_are_read_one_by_one) { expect_limited(BACKUP_RANGE_BYTES + 1000, 40); }
