/* Erasures: the texts of a failure and of the retries of its job are gone from each row and each file, in any order of arrival.
 */
#include "audit/import/import.h"
#include "audit/query/query.h"
#include "audit_case.h"
#include "disk_fault.h"
#include "tempdir.h"
#include "text.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>

static const int64_t NOW = INT64_C(1800000000000);
#define SECRET "ann@example.org"
#define TEXTS                                                                                                                    \
    "SELECT count(*) FROM events WHERE kind IN ('failed', 'retried') AND job = 'job-1' AND (payload <> '' OR error <> '' OR "    \
    "traceparent <> '')"

static char *path;
static audit_t *audit;
SUITE(unit_audit_erase, (path = audit_case_path(), audit = audit_case_open(path, AUDIT_WRITE)), audit_close(audit));

/* A failure of a job, a retry of it, or its erasure by ann. */
static void make(audit_case_event_t *of, const char *kind, int n, int64_t at) {
    static char answers[EVENT_ID_SIZE];
    audit_case_event(of, kind, n, at);
    bool erases = strcmp(kind, "erased") == 0;
    if (erases) {
        audit_case_event_t failure;
        audit_case_event(&failure, "failed", n, at);
        memcpy(answers, failure.id, sizeof(answers));
        of->event.answers = slice_text(answers);
        of->event.worker = slice_text("ann");
        of->event.reason = slice_text("asked for by letter");
    }
    of->event.error = slice_text(erases ? "" : "no mailbox " SECRET);
    of->event.payload = slice_text(strcmp(kind, "failed") == 0 ? "{\"to\":\"" SECRET "\"}" : "");
    of->event.traceparent = slice_text(strcmp(kind, "failed") == 0 ? "00-" SECRET "-01" : "");
}

static void put(const char *kind, int n, int64_t at) {
    audit_case_event_t item;
    make(&item, kind, n, at);
    audit_case_put(audit, &item.event);
}

static void put_all(const char *const *kinds, bool later) {
    buffer_t why = {0};
    audit_case_event_t items[3];
    cr_assert(audit_begin(audit, &why));
    for (int i = 0; i < 3; i++) {
        make(&items[i], kinds[i], 1, NOW + (*kinds[i] == 'e'));
        cr_assert(later ? audit_insert_later(audit, &items[i].event, &why) : audit_insert(audit, &items[i].event, NULL, &why),
                  "%s", buffer_text(&why));
        if (!later) cr_assert(audit_commit(audit, &why) && audit_begin(audit, &why), "%s", buffer_text(&why));
    }
    cr_assert(audit_commit(audit, &why), "%s", buffer_text(&why));
}

Test(unit_audit_erase, an_erasure_wins_in_any_order_of_arrival) {
    static const char *const orders[][3] = {{"failed", "retried", "erased"}, {"failed", "erased", "retried"},
                                            {"retried", "failed", "erased"}, {"retried", "erased", "failed"},
                                            {"erased", "failed", "retried"}, {"erased", "retried", "failed"}};
    for (size_t i = 0; i < 2 * sizeof(orders) / sizeof(*orders); i++) {
        const char *const *order = orders[i / 2];
        if (i) audit_close(audit), path = audit_case_path(), audit = audit_case_open(path, AUDIT_WRITE);
        put("failed", 2, NOW);
        put_all(order, i % 2);
        cr_expect_eq(audit_case_count(path, TEXTS), 0, "%s, %s, %s%s", order[0], order[1], order[2], i % 2 ? " at once" : "");
        cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE size = 2 AND job = 'job-1' AND kind = 'failed'"),
                     1);
        cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE state = 'failed'"), 2);
        cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE job = 'job-2' AND instr(payload, '" SECRET "')"),
                     1);
    }
}

Test(unit_audit_erase, errors_of_retries_after_the_erasure_stay) {
    audit_case_event_t other, later, known;
    make(&known, "retried", 5, NOW + 2);
    known.event.job = slice_text("job-1");
    put("failed", 1, NOW);
    audit_case_put(audit, &known.event);
    put("erased", 1, NOW + 1);
    make(&other, "retried", 3, NOW);
    other.event.job = slice_text("job-1");
    other.event.queue = slice_text("another");
    make(&later, "retried", 4, NOW + 2);
    later.event.job = slice_text("job-1");
    audit_case_put(audit, &other.event);
    audit_case_put(audit, &later.event);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE kind = 'retried' AND error <> ''"), 3);
}

static bool note_row(void *self, const audit_row_t *row) {
    buffer_printf(self, "%.*s %d by %.*s: %.*s|", (int)row->state.len, row->state.data, (int)(row->erased_at - NOW),
                  (int)row->erased_by.len, row->erased_by.data, (int)row->erase_reason.len, row->erase_reason.data);
    return true;
}

Test(unit_audit_erase, a_row_keeps_its_state_and_says_who_erased_it) {
    buffer_t rows = {0}, why = {0};
    put("failed", 1, NOW);
    put("erased", 1, NOW + 7);
    put("failed", 2, NOW - 1);
    cr_assert(audit_list(audit, &(audit_filter_t){0}, note_row, &rows, &why), "%s", buffer_text(&why));
    cr_expect_str_eq(buffer_text(&rows), kept_printf("failed 7 by ann: asked for by letter|failed %d by : |", (int)-NOW));
    buffer_free(&rows);
}

static bool fits(const event_t *event) {
    buffer_t why = {0};
    bool yes = false;
    cr_assert(audit_answer_fits(audit, event, &yes, &why));
    return yes;
}

Test(unit_audit_erase, an_erasure_must_name_the_job_of_its_failure) {
    audit_case_event_t item;
    put("failed", 1, NOW);
    make(&item, "erased", 1, NOW);
    cr_expect(fits(&item.event));
    item.event.job = slice_text("job-2");
    cr_expect_not(fits(&item.event));
}

/* The other log, or an export of it, is older than the erasure. */
Test(unit_audit_erase, an_import_brings_no_erased_text_back) {
    buffer_t why = {0};
    char *older = audit_case_path();
    audit_t *own = audit;
    audit = audit_case_open(older, AUDIT_WRITE);
    put("failed", 1, NOW);
    put("retried", 1, NOW);
    audit_close(audit);
    audit = own;
    put("erased", 1, NOW + 1);
    import_t *import = import_begin(audit);
    const import_listener_t listener = {NULL, NULL, NULL, NULL};
    cr_assert(import_log(import, older, &listener, &why), "%s", buffer_text(&why));
    cr_expect_eq(import_counted(import)->added, 2);
    import_free(import);
    cr_expect_eq(audit_case_count(path, TEXTS), 0);
    cr_expect_eq(audit_case_count(older, TEXTS), 2);
}

Test(unit_audit_erase, an_imported_erasure_erases) {
    buffer_t why = {0};
    audit_case_event_t item;
    put("failed", 1, NOW);
    make(&item, "erased", 1, NOW + 1);
    import_t *import = import_begin(audit);
    cr_assert(import_answer_fits(import, &item.event, &why) && import_add(import, &item.event, &why) &&
              import_flush(import, &why));
    import_free(import);
    cr_expect_eq(audit_case_count(path, TEXTS), 0);
}

/* Merging two logs by SQL, as in sql/README.md, knows nothing of erasures. */
Test(unit_audit_erase, the_next_start_erases_what_a_merge_has_brought_back) {
    buffer_t why = {0};
    put("failed", 1, NOW);
    put("retried", 1, NOW);
    put("erased", 1, NOW + 1);
    audit_case_sql(path, "UPDATE events SET payload = iif(kind = 'failed', 'back', ''), error = 'back' WHERE kind <> 'erased'");
    audit_case_sql(path, "DELETE FROM facts WHERE name = 'erasures'");
    audit_close(audit);
    scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
    audit = audit_open_locked(lock, &(audit_open_options_t){.check = true}, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    cr_expect_eq(audit_case_count(path, TEXTS), 0, "%s",
                 audit_case_sql(path, "SELECT kind || payload || error || '|' FROM events"));
    put("retried", 5, NOW);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM facts WHERE name = 'erasures'"), 1);
}

static int occurrences(const char *file, const char *text) {
    enum { MOST = 64 << 20 };
    int count = 0;
    FILE *in = fopen(file, "re");
    if (!in) return 0;
    char *bytes = malloc(MOST);
    cr_assert_not_null(bytes);
    size_t len = fread(bytes, 1, MOST, in);
    cr_assert_lt(len, MOST);
    for (char *at = bytes; (at = memmem(at, (size_t)(bytes + len - at), text, strlen(text))); at++) count++;
    fclose(in);
    free(bytes);
    return count;
}

static int occurrences_in_log(void) { return occurrences(path, SECRET) + occurrences(kept_printf("%s-wal", path), SECRET); }

static bool scrub(void) {
    buffer_t why = {0};
    audit_scrub_t result = audit_scrub(audit, &why);
    cr_assert_neq(result, AUDIT_SCRUB_FAILED, "%s", buffer_text(&why));
    return result == AUDIT_SCRUBBED;
}

/* Rows come in the order of their ids, so pages are split and copied; texts are in a leaf, in an overflow page and in both. */
Test(unit_audit_erase, no_byte_stays_in_a_file) {
    enum { ROWS = 3000, EACH = 60 };
    buffer_t why = {0};
    char *texts[3];
    static const size_t sizes[] = {40, 3000, 9000};
    for (int i = 0; i < 3; i++) {
        texts[i] = kept(malloc(sizes[i] + 1));
        for (size_t at = 0; at < sizes[i]; at++) texts[i][at] = SECRET[at % (sizeof(SECRET) - 1)];
        texts[i][sizes[i]] = '\0';
    }
    for (int n = 0; n < ROWS;) {
        cr_assert(audit_begin(audit, &why));
        for (int end = n + 500; n < end; n++) {
            audit_case_event_t item;
            audit_case_event(&item, "failed", n, NOW + n);
            item.event.error = slice_text(n % EACH ? "none" : SECRET);
            item.event.payload = slice_text(n % EACH ? "job" : texts[n / EACH % 3]);
            cr_assert(audit_insert_later(audit, &item.event, &why));
        }
        cr_assert(audit_commit(audit, &why));
    }
    cr_assert_gt(occurrences_in_log(), ROWS / EACH);
    for (int n = 0; n < ROWS; n += EACH) put("erased", n, NOW + ROWS);
    cr_assert(scrub());
    cr_expect_eq(occurrences_in_log(), 0, "%d in the log, %d in its -wal", occurrences(path, SECRET),
                 occurrences(kept_printf("%s-wal", path), SECRET));
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE payload = 'job'"), ROWS - ROWS / EACH);
}

/* A page that an erasure makes sparse gives its rows to a neighbour, and keeps their bytes in its free space. */
static void erase_moved_rows(void) {
    enum { ROWS = 1500, EACH = 50, LONGEST = 4000 };
    static int order[ROWS];
    buffer_t why = {0};
    audit_case_event_t item;
    unsigned random = 11;
    char *text = kept(malloc(LONGEST + 1));
    for (int i = 0; i < LONGEST; i++) text[i] = SECRET[i % (int)(sizeof(SECRET) - 1)];
    cr_assert(audit_begin(audit, &why));
    for (int n = 0; n < ROWS; n++) {
        static const size_t sizes[] = {15, 30, 90, 200, 650, 960, 2000, LONGEST};
        audit_case_event(&item, "failed", n, NOW + n);
        item.event.payload = (slice_t){text, sizes[rand_r(&random) % 8]};
        cr_assert(audit_insert_later(audit, &item.event, &why));
        int at = rand_r(&random) % (n + 1);
        order[n] = order[at];
        order[at] = n;
    }
    cr_assert(audit_commit(audit, &why));
    for (int n = 0; n < ROWS; n += EACH) {
        cr_assert(audit_begin(audit, &why));
        for (int i = n; i < n + EACH; i++) {
            make(&item, "erased", order[i], NOW + ROWS);
            cr_assert(audit_insert(audit, &item.event, NULL, &why), "%s", buffer_text(&why));
        }
        cr_assert(audit_commit(audit, &why));
    }
    cr_assert(audit_checkpoint(audit, &why));
    cr_assert_gt(occurrences(path, SECRET), 0);
}

Test(unit_audit_erase, no_byte_of_a_moved_row_stays) {
    erase_moved_rows();
    cr_assert(scrub());
    cr_expect_eq(occurrences_in_log(), 0, "%d in the log, %d in its -wal", occurrences(path, SECRET),
                 occurrences(kept_printf("%s-wal", path), SECRET));
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE kind = 'failed'"), 1500);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM pragma_auto_vacuum WHERE auto_vacuum = 2"), 1);
}

/* A failure, and its erasure, whose older page is in the -wal file. */
static void erase_one(void) {
    put("failed", 1, NOW);
    put("erased", 1, NOW + 1);
    cr_assert_gt(occurrences_in_log(), 0);
}

static void expect_scrub(audit_scrub_t result, const char *reason) {
    scoped(buffer_free) buffer_t why = {0};
    int64_t left = -1;
    audit_scrub_t is = audit_scrub(audit, &why);
    cr_expect(is == result && has(buffer_text(&why), reason), "%d: %s", is, buffer_text(&why));
    cr_assert(audit_count_unscrubbed(audit, &left, &why));
    cr_expect_eq(left, result != AUDIT_SCRUBBED);
}

/* The file system of /proc has no room; and a disk can become full meanwhile. */
Test(unit_audit_erase, a_full_disk_delays_a_rewrite_and_gets_its_room_back) {
    char *usual = sqlite3_temp_directory;
    struct stat at;
    erase_one();
    sqlite3_temp_directory = sqlite3_mprintf("/proc");
    expect_scrub(AUDIT_SCRUB_FAILED, "MiB more in /proc: make room");
    sqlite3_free(sqlite3_temp_directory);
    sqlite3_temp_directory = usual;
    disk_fault_on("-wal", DISK_WRITE, 5, 1000, ENOSPC);
    expect_scrub(AUDIT_SCRUB_FAILED, "the disk is full: make room");
    cr_expect_gt(disk_fault_hits(), 0);
    disk_fault_off();
    cr_assert_eq(stat(kept_printf("%s-wal", path), &at), 0);
    cr_expect_eq(at.st_size, 0);
    expect_scrub(AUDIT_SCRUBBED, "");
    cr_expect_eq(occurrences_in_log(), 0);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events"), 2);
}

Test(unit_audit_erase, a_stop_ends_a_rewrite) {
    buffer_t why = {0};
    atomic_bool stop = false;
    scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
    erase_one();
    for (int n = 10; n < 2000; n++) put("failed", n, NOW);
    audit_close(audit);
    audit = audit_open_locked(lock, &(audit_open_options_t){.stop = &stop}, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    stop = true;
    expect_scrub(AUDIT_SCRUB_LATER, "");
    stop = false;
    expect_scrub(AUDIT_SCRUBBED, "");
}

/* Temporary files of the rewrite would fill the memory of a machine that has /tmp there. */
Test(unit_audit_erase, temporary_files_are_beside_the_log) {
    char *dir = kept(mem_str(path));
    *strrchr(dir, '/') = '\0';
    cr_expect_str_eq(sqlite3_temp_directory, getenv("TMPDIR") ? getenv("TMPDIR") : dir);
}

Test(unit_audit_erase, a_backup_has_no_byte_that_the_log_is_to_lose) {
    buffer_t why = {0};
    int64_t left = -1;
    char *copy = temp_file("copy.db", "");
    erase_moved_rows();
    cr_assert(audit_backup(audit, copy, NULL, NULL, &why), "%s", buffer_text(&why));
    cr_expect_eq(occurrences(copy, SECRET), 0);
    audit_t *reader = audit_open(copy, AUDIT_READ, &why);
    cr_expect(audit_count_unscrubbed(reader, &left, &why) && left == 0);
    audit_close(reader);
    cr_expect_gt(occurrences_in_log(), 0);
}

/* The -wal file is needed by a reader; and a killed sidecar must not forget that the file is to be emptied. */
Test(unit_audit_erase, the_wal_is_emptied_when_no_reader_needs_it) {
    sqlite3 *reader;
    put("failed", 1, NOW);
    cr_assert(scrub() && occurrences_in_log() > 0, "there is nothing to scrub");
    cr_assert_eq(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
    put("erased", 1, NOW + 1);
    for (int i = 0; i < 2; i++) cr_expect_not(scrub());
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_expect_not(scrub());
    cr_assert_gt(occurrences_in_log(), 0);
    cr_assert_eq(sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    cr_expect(scrub());
    cr_expect_eq(occurrences_in_log(), 0);
    sqlite3_close(reader);
}
