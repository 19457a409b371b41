/* The place of a scan in a list that it reads in place, while others push and remove entries at both ends and in between. */
#include "monitor/scan/place.h"
#include "suite.h"

enum { ROOM = 4096 };

/* A list of numbers, from the tail to the head; each is the digest of a job. */
typedef struct {
    int entries[ROOM];
    size_t count;
    int next;
} numbers_t;

static numbers_t list;
static place_t place;
static int seen[2 * ROOM]; /* how often the scan has met each job */
static backup_page_t page;
static int again;  /* how often the scan has begun again */
static bool large; /* entries are so large that the scan does not go back */

static void begin(void) {
    list = (numbers_t){.next = 1};
    place = (place_t){0};
    memset(seen, 0, sizeof seen);
    again = 0;
    large = false;
}

TestSuite(unit_place, .init = begin);

static void push_head(int count) {
    while (count-- > 0) list.entries[list.count++] = list.next++;
}

static void push_tail(int count) {
    for (; count > 0; count--) {
        memmove(&list.entries[1], list.entries, list.count * sizeof *list.entries);
        list.entries[0] = list.next++;
        list.count++;
    }
}

static void remove_at(size_t at) {
    list.count--;
    memmove(&list.entries[at], &list.entries[at + 1], (list.count - at) * sizeof *list.entries);
}

/* Reads the next page. False: the list has no further entry. */
static bool read_page(size_t wanted) {
    const backup_range_t range = place_request(&place, wanted);
    const size_t skip = range.skip, count = range.count;
    cr_assert(count <= BACKUP_PAGE && range.least <= count);
    page = (backup_page_t){.in_place = true};
    for (size_t i = skip; i < skip + count && i < list.count; i++) {
        digest_t digest = {{0}};
        memcpy(digest.bytes, &list.entries[i], sizeof list.entries[i]);
        page.entries[page.count++] = (entry_t){.kind = ENTRY_JOB, .digest = digest, .bytes = {NULL, 1}};
        page.jobs++;
        page.bytes++;
    }
    bool ended = page.count < count;
    place_found_t found = place_read(&place, &page, skip, !large);
    if (found == PLACE_AGAIN) {
        memset(seen, 0, sizeof seen);
        again++;
    }
    cr_assert(page.jobs == page.count && page.bytes == page.count);
    for (size_t i = 0; i < page.count; i++) {
        int number;
        memcpy(&number, page.entries[i].digest.bytes, sizeof number);
        seen[number]++;
    }
    return found == PLACE_LOST || !ended;
}

static void expect_once(int from, int to) {
    for (int i = from; i <= to; i++) cr_assert_eq(seen[i], 1, "job %d was met %d times", i, seen[i]);
}

Test(unit_place, a_still_list_is_read_once) {
    push_head(1000);
    while (read_page(200)) continue;
    expect_once(1, 1000);
}

Test(unit_place, jobs_pushed_to_the_head_move_nothing) {
    push_head(1000);
    while (read_page(200)) push_head(list.next < 1500 ? 30 : 0);
    expect_once(1, 1000);
}

Test(unit_place, finished_jobs_near_the_tail_hide_no_other) {
    push_head(2000);
    for (int n = 0; read_page(200); n++)
        for (int i = 0; i < 20; i++) remove_at((size_t)(n * 7 + i));
    expect_once(1, 2000);
}

/* More are removed than a page reads again, so the scan goes back page by page until it finds a job that it knows. */
Test(unit_place, a_scan_that_lost_its_place_goes_back) {
    for (int removed = 30; removed <= 990; removed += 60) {
        begin();
        push_head(3000);
        for (int i = 0; i < 6; i++) cr_assert(read_page(200));
        for (int i = 0; i < removed; i++) remove_at(0);
        int reads = 0;
        while (read_page(200)) reads++;
        expect_once(1, 3000);
        cr_assert_leq(reads, 30);
    }
}

Test(unit_place, a_scan_begins_again_if_all_jobs_that_it_met_are_gone) {
    push_head(1000);
    for (int i = 0; i < 3; i++) cr_assert(read_page(200));
    int met = (int)place.next;
    for (int i = 0; i < met; i++) remove_at(0);
    while (read_page(200)) continue;
    expect_once(met + 1, 1000);
    cr_assert_eq(again, 1);
}

/* A way back over large jobs would cost more than the jobs that this scan misses. The next one meets them. */
Test(unit_place, among_large_jobs_the_scan_goes_on_where_it_was) {
    push_head(100);
    large = true;
    for (int i = 0; i < 10; i++) cr_assert(read_page(4));
    for (int i = 0; i < 3; i++) remove_at(30);
    cr_assert_leq(place_request(&place, 4).count, 5, "few large entries are read twice");
    while (read_page(4)) continue;
    for (int i = 1; i <= 100; i++) cr_assert_leq(seen[i], 1, "job %d", i);
    cr_assert_eq(seen[41] + seen[42] + seen[43], 0);
    cr_assert_eq(again, 0);
}

/* More than a page at once: the known jobs are farther from the tail than before. */
Test(unit_place, a_scan_begins_again_if_many_jobs_come_to_the_tail_at_once) {
    push_head(1000);
    for (int i = 0; i < 3; i++) cr_assert(read_page(200));
    push_tail(400);
    while (read_page(200)) continue;
    expect_once(1, 1400);
    cr_assert_eq(again, 1);
}

/* They are for the next scan. */
Test(unit_place, jobs_pushed_to_the_tail_make_no_job_appear_twice) {
    push_head(1000);
    while (read_page(200)) push_tail(list.next < 1500 ? 15 : 0);
    expect_once(1, 1000);
    cr_assert_eq(again, 0);
}

/* KMQueue's own monitor may rotate beside the scan. */
Test(unit_place, a_rotation_by_others_hides_no_job) {
    push_head(1000);
    while (read_page(200))
        for (int i = 0; i < 10; i++) {
            int tail = list.entries[0];
            remove_at(0);
            list.entries[list.count++] = tail;
        }
    for (int i = 1; i <= 1000; i++) cr_assert_geq(seen[i], 1, "job %d", i);
}

/* Copies of a job that the scan has met are other jobs. */
Test(unit_place, a_copy_behind_a_page_is_met) {
    push_head(1000);
    cr_assert(read_page(200));
    list.entries[200] = list.entries[199];
    list.entries[201] = list.entries[180];
    while (read_page(200)) continue;
    cr_assert_eq(seen[200], 2);
    cr_assert_eq(seen[181], 2);
}

static void settle(size_t at, bool replaced) {
    digest_t digest = {{0}};
    memcpy(digest.bytes, &list.entries[at], sizeof list.entries[at]);
    if (replaced) {
        list.entries[at] = list.entries[0];
        remove_at(0);
    } else {
        remove_at(at);
    }
    place_settled(&place, &digest, replaced);
}

/* A settle removes a job, or puts the last entry of the list into its place. Both move all jobs above it. */
Test(unit_place, settled_jobs_move_the_place) {
    for (int replaced = 0; replaced < 2; replaced++)
        for (size_t from = 150; from <= 199; from += 7) {
            begin();
            push_head(1000);
            cr_assert(read_page(200));
            for (size_t i = 0; i < 20 && from + i < 200; i++) settle(replaced ? from : from, replaced);
            while (read_page(200)) continue;
            expect_once(1, 1000);
        }
}

Test(unit_place, a_settle_of_the_whole_page_loses_nothing) {
    push_head(1000);
    bool more = true;
    while (more) {
        more = read_page(200);
        for (size_t i = 0; i < page.count; i++) settle(place_of(&place, &page, &page.entries[i]), false);
    }
    expect_once(1, 1000);
    cr_assert_eq(list.count, 0);
}

/* The next page is read before the jobs of this one are settled. */
Test(unit_place, the_place_of_a_job_follows_settles_of_earlier_pages) {
    push_head(1000);
    cr_assert(read_page(200));
    cr_assert(read_page(200));
    cr_assert_eq(place_of(&place, &page, &page.entries[3]), 203);
    for (int i = 0; i < 5; i++) settle(10, false);
    cr_assert_eq(place_of(&place, &page, &page.entries[3]), 198);
    int number;
    memcpy(&number, page.entries[3].digest.bytes, sizeof number);
    cr_assert_eq(list.entries[198], number);
}

/* Entries move at random between two pages: no job is missed by two scans in a row. */
Test(unit_place, no_job_is_missed_by_two_scans_in_a_row) {
    for (unsigned seed = 1; seed <= 200; seed++) {
        static int missed[2 * ROOM];
        begin();
        srand(seed);
        push_head(1500);
        memset(missed, 0, sizeof missed);
        for (int scan = 0; scan < 3; scan++) {
            static int before[ROOM];
            size_t there = list.count;
            memcpy(before, list.entries, there * sizeof *before);
            place = (place_t){0};
            memset(seen, 0, sizeof seen);
            while (read_page(64)) {
                for (int i = rand() % 40; i > 0 && list.count > 100; i--) remove_at((size_t)rand() % list.count);
                if (list.next < ROOM - 100) push_head(rand() % 20);
                if (list.next < ROOM - 100) push_tail(rand() % 5);
            }
            for (size_t i = 0; i < there; i++) {
                bool stays = false;
                for (size_t n = 0; n < list.count && !stays; n++) stays = list.entries[n] == before[i];
                missed[before[i]] = stays && !seen[before[i]] ? missed[before[i]] + 1 : 0;
                cr_assert_lt(missed[before[i]], 2, "seed %u: job %d", seed, before[i]);
                cr_assert_leq(seen[before[i]], 1, "seed %u: job %d was met %d times", seed, before[i], seen[before[i]]);
            }
        }
    }
}
