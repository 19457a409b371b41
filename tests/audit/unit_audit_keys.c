/* The tables `ids` and `jobs` have short keys, which several events may share; and what a row takes of the disk. */
#include "audit/query/query.h"
#include "audit_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILL = 300 }; /* enough that an idle log is indexed */
static const int64_t NOW = INT64_C(1800000000000);

/* Lets an idle log index its events. */
static void index_all(const char *path, audit_t *audit, int64_t last) {
    buffer_t why = {0};
    for (int i = 0; i < 3; i++) {
        audit_retain_result_t done = {.more = true};
        while (done.more) cr_assert(audit_retain(audit, &(audit_limits_t){0}, NOW, 50000, &done, &why), "%s", buffer_text(&why));
    }
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'indexed'"), last);
}

static void fill(audit_t *audit, int first) {
    buffer_t why = {0};
    cr_assert(audit_begin(audit, &why));
    for (int n = first; n < first + FILL; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n, NOW + n);
        cr_assert(audit_insert(audit, &item.event, NULL, &why), "%s", buffer_text(&why));
    }
    cr_assert(audit_commit(audit, &why));
}

static void put_job(audit_t *audit, int n, const char *job) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", n, NOW + n);
    item.event.job = slice_text(job);
    cr_assert(audit_case_put(audit, &item.event));
}

static bool count_row(void *self, const audit_row_t *row) {
    (void)row;
    ++*(int *)self;
    return true;
}

static int history(audit_t *audit, const char *job) {
    int found = 0;
    buffer_t why = {0};
    cr_assert(audit_history(audit, slice_text("q"), slice_text(job), count_row, &found, &why), "%s", buffer_text(&why));
    return found;
}

/* Expects that the query finds the event n alone, and reads no other rows of `jobs`. */
static void expect_job(const char *path, const char *select, const char *job, int n) {
    char *sql = mem_printf("%s = %s", select, job), *plan = audit_case_plan(path, sql);
    cr_expect_eq(audit_case_count(path, sql), n, "%s", sql);
    cr_expect_not_null(strstr(plan, "SEARCH j USING PRIMARY KEY (key=?)"), "%s: %s", sql, plan);
    free(sql), free(plan);
}

/* The program computes the key of a job when it writes, a view does so when it reads. */
Test(unit_audit_keys, the_shell_finds_any_job) {
    static const char *const names[] = {"job-1",
                                        "",
                                        "1",
                                        "\xc3\xa4",
                                        "\xe2\x82\xac-7",
                                        "\xf0\x9f\x98\x80x",
                                        "\xef\xbf\xbf \xef\xbf\xbe",
                                        "O'Hara",
                                        "\xff\x80 no UTF-8",
                                        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
    enum { NAMES = sizeof names / sizeof *names };
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    for (int n = 0; n < NAMES; n++) put_job(audit, n, names[n]);
    fill(audit, NAMES);
    index_all(path, audit, NAMES + FILL);
    for (int n = 1; n <= NAMES; n++) {
        char *read = mem_printf("SELECT quote(job) FROM records WHERE seq = %d", n), *job = audit_case_sql(path, read);
        expect_job(path, "SELECT sum(seq) FROM job_seqs WHERE job", job, n);
        expect_job(path, "SELECT sum(at) - 1800000000000 + 1 FROM job_history WHERE job_id", job, n);
        free(read), free(job);
    }
    audit_close(audit);
    free(path);
}

static uint32_t key_of(const char *job) {
    uint64_t key = 0;
    for (; *job; job++) key = (key * 1000003 + (unsigned char)*job) % (1 << 23);
    return (uint32_t)key;
}

Test(unit_audit_keys, jobs_that_share_a_key_have_their_own_histories) {
    enum { MOST = 100000 };
    static uint32_t seen[1 << 23];
    char one[24] = "", other[24];
    for (uint32_t n = 1; n < MOST && !*one; n++) {
        snprintf(other, sizeof other, "%08x", n * 2654435761U);
        uint32_t *first = &seen[key_of(other)];
        if (*first) snprintf(one, sizeof one, "%08x", *first * 2654435761U);
        *first = n;
    }
    cr_assert(*one);
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    put_job(audit, 0, one);
    put_job(audit, 1, other);
    put_job(audit, 2, other);
    fill(audit, 3);
    index_all(path, audit, 3 + FILL);
    cr_assert_eq(audit_case_count(path, "SELECT max(n) FROM (SELECT count(*) AS n FROM jobs GROUP BY key)"), 3);
    cr_expect_eq(history(audit, one), 1);
    cr_expect_eq(history(audit, other), 2);
    char *sql = mem_printf("SELECT count(*) FROM job_history WHERE job_id = '%s'", one);
    cr_expect_eq(audit_case_count(path, sql), 1);
    audit_close(audit);
    free(sql), free(path);
}

/* 23 bits: of 70,000 jobs some 300 share their keys if all keys are as likely. */
Test(unit_audit_keys, keys_of_jobs_are_spread) {
    enum { JOBS = 70000 };
    static bool seen[1 << 23];
    static const char *const formats[] = {"job-%d", "%d", "%08x", "user-%d:reset-password"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        int shared = 0;
        memset(seen, 0, sizeof seen);
        for (int n = 0; n < JOBS; n++) {
            char job[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(job, sizeof job, formats[i], n);
#pragma GCC diagnostic pop
            shared += seen[key_of(job)];
            seen[key_of(job)] = true;
        }
        cr_expect_leq(shared, 600, "%s: %d", formats[i], shared);
    }
}

/* An id that is known would be taken for new, or the other way round. */
Test(unit_audit_keys, ids_that_share_a_prefix_are_two_events) {
    static const char *const ids[] = {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                                      "01234567ffffffff0123456789abcdef0123456789abcdef0123456789abcdef",
                                      "01234567ffffffff0123456789abcdef0123456789abcdef0123456789abcdee"};
    enum { IDS = sizeof ids / sizeof *ids };
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    buffer_t why = {0};
    audit_case_event_t item;
    fill(audit, 100);
    for (int i = 0; i < IDS; i++) {
        index_all(path, audit, FILL * (i + 1) + i);
        for (int known = 0; known < 2; known++) { /* in the table, then in memory */
            audit_case_event(&item, "failed", i, NOW);
            item.event.event = slice_text(ids[i]);
            cr_expect_eq(audit_case_put(audit, &item.event), !known, "%s", ids[i]);
        }
        fill(audit, 100 + FILL * (i + 1));
    }
    index_all(path, audit, FILL * (IDS + 1) + IDS);
    cr_assert_eq(audit_case_count(path, "SELECT max(n) FROM (SELECT count(*) AS n FROM ids GROUP BY prefix)"), IDS);
    for (int i = 0; i < IDS; i++) {
        char ref[EVENT_REF_SIZE];
        int found = 0;
        audit_case_event(&item, "failed", i, NOW);
        item.event.event = slice_text(ids[i]);
        cr_expect(!audit_case_put(audit, &item.event), "%s", ids[i]);
        cr_assert(event_ref(slice_text(ids[i]), ref));
        cr_assert(audit_find_ref(audit, ref, 10, count_row, &found, &why), "%s", buffer_text(&why));
        cr_expect_eq(found, i ? 2 : 1, "%s", ref); /* two ids have the whole ref in common */
    }
    audit_case_event(&item, "requeued", 1, NOW + 1);
    item.event.answers = slice_text(ids[1]);
    item.event.job = slice_text("job-1");
    cr_assert(audit_case_put(audit, &item.event));
    cr_expect_eq(audit_case_count(path, "SELECT requeued FROM failures_by_queue"), 1);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'requeued'"), 1);
    audit_close(audit);
    free(path);
}

/* Operators plan their disks with it. */
Test(unit_audit_keys, a_row_takes_at_most_200_bytes_beside_its_payload, .timeout = 120) {
    enum { ROWS = 50000, PAYLOAD = 100, MOST = 200, PAGE = 4096 };
    char *path = audit_case_path(), payload[PAYLOAD + 1], worker[20];
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    buffer_t why = {0};
    memset(payload, 'p', PAYLOAD);
    payload[PAYLOAD] = '\0';
    cr_assert(audit_begin(audit, &why));
    for (int n = 0; n < ROWS; n++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", n, NOW + n);
        snprintf(worker, sizeof worker, "worker-%d", n % 50);
        item.event.job = (slice_t){item.id, 16};
        item.event.type = slice_text("mail");
        item.event.worker = slice_text(worker);
        item.event.error = slice_text("no route to host");
        item.event.sha256 = slice_text(item.id);
        item.event.term = slice_text("00112233445566778899aabbccddeeff-5000");
        item.event.payload = slice_text(payload);
        item.event.size = PAYLOAD;
        item.event.created = item.event.at - 60000;
        cr_assert(audit_insert(audit, &item.event, NULL, &why), "%s", buffer_text(&why));
    }
    cr_assert(audit_commit(audit, &why));
    index_all(path, audit, ROWS);
    int64_t pages = audit_case_count(path, "PRAGMA page_count") - audit_case_count(path, "PRAGMA freelist_count");
    int64_t bytes = pages * PAGE / ROWS - PAYLOAD;
    cr_expect_leq(bytes, MOST, "%lld bytes", (long long)bytes);
    cr_expect_eq(audit_case_count(path, "SELECT sum(at - created = 60000 AND size = 100) FROM events"), ROWS);
    audit_close(audit);
    free(path);
}
