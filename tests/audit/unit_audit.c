/* Opening and writing the audit log, on real files. */
#include "audit/audit.h"
#include "audit/migrations.h"
#include "audit/store.h"
#include "audit_case.h"
#include "base/digest.h"
#include "child.h"
#include "tempdir.h"
#include "text.h"
#include "wait.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *path;
static audit_t *audit;
SUITE(unit_audit, path = audit_case_path(), audit_close(audit));

static void expect_refused(const char *file, audit_mode_t mode, const char *part) {
    char *why = audit_case_refused(file, mode);
    cr_expect(has(why, part), "\"%s\" lacks \"%s\"", why, part);
    cr_expect(has(why, file));
}

/* Released migrations made the databases in the field. Never change these digests: add a new migration instead. */
Test(unit_audit, migrations_are_frozen) {
    static const char *const digests[] = {"c4cf9bbe31a16ed63b75040ffef682cde2c32ed56e7597f513137568e4a4850f",
                                          "517fd73d24b85377c606e30128994ba0609bee6a41904d71f1de0f6ecff9291b",
                                          "9231f199086b841d4a282faa1908275b382d7c99b9be0c87d0e7cbe114c413da"};
    static const int schemas[] = {1, 2, 7}; /* no release had those between */
    cr_assert_eq(migration_count, sizeof(digests) / sizeof(*digests));
    for (size_t i = 0; i < migration_count; i++) {
        char hex[DIGEST_HEX_SIZE];
        digest_t digest = digest_of(migrations[i].sql, strlen(migrations[i].sql));
        digest_hex(&digest, hex);
        cr_expect_eq(migrations[i].schema, schemas[i]);
        cr_expect_str_eq(hex, digests[i], "%s has changed", migrations[i].name);
    }
}

/* A check of a log that is being made: that file is empty or ours at any time, never of another program. */
Test(unit_audit, a_log_can_be_checked_while_it_is_made, .timeout = 60) {
    enum { LOGS = 40 };
    pid_t pid = fork();
    for (int i = 0; pid == 0 && i < LOGS; i++) {
        char *one = kept_printf("%s%d", path, i);
        buffer_t why = {0};
        scoped(audit_drop) audit_t *log = audit_open(one, AUDIT_WRITE, &why);
        if (!log) _exit(1); /* a child must not use Criterion */
    }
    if (pid == 0) _exit(0);
    for (int i = 0; i < LOGS; i++) {
        char *one = kept_printf("%s%d", path, i);
        scoped(buffer_free) buffer_t why = {0};
        struct stat at;
        int64_t rows = 0;
        cr_assert(wait_for(access(one, F_OK) == 0, 20000));
        while (rows == 0) {
            cr_assert(stat(one, &at) != 0 || audit_is_log(one, &why), "log %d: %s", i, buffer_text(&why));
            audit_t *log = audit_open(one, AUDIT_READ, &why);
            rows = log != NULL;
            audit_close(log);
            buffer_clear(&why);
        }
    }
    int status;
    waitpid(pid, &status, 0);
    cr_expect_eq(status, 0);
}

Test(unit_audit, a_log_keeps_its_instance_name) {
    audit = audit_case_open(path, AUDIT_WRITE);
    char *instance = kept(mem_str(audit_instance(audit)));
    cr_assert_eq(strspn(instance, "0123456789abcdef"), 32);
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_str_eq(audit_instance(audit), instance);
    scoped(audit_drop) audit_t *reader = audit_case_open(path, AUDIT_READ);
    cr_assert_str_eq(audit_instance(reader), instance);
    char *other_path = audit_case_path();
    scoped(audit_drop) audit_t *other = audit_case_open(other_path, AUDIT_WRITE);
    cr_assert_str_neq(audit_instance(other), instance);
    char *mode = audit_case_sql(path, "PRAGMA journal_mode");
    cr_assert_str_eq(mode, "wal");
    int64_t synchronous = 0;
    buffer_t why = {0};
    cr_assert(audit_read_number(audit, "PRAGMA synchronous", &synchronous, &why));
    cr_assert_eq(synchronous, 2, "FULL");
    struct stat at;
    cr_assert_eq(stat(path, &at), 0);
    cr_assert_eq(at.st_mode & 07, 0, "others may read it");
}

Test(unit_audit, an_event_is_inserted_once) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t one, other;
    audit_case_event(&one, "failed", 1, 1000);
    audit_case_event(&other, "failed", 2, 1000);
    cr_assert(audit_case_put(audit, &one.event));
    cr_assert_not(audit_case_put(audit, &one.event));
    one.event.reason = slice_text("reported"); /* the first row stays */
    cr_assert_not(audit_case_put(audit, &one.event));
    cr_assert(audit_case_put(audit, &other.event));
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 2);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events WHERE reason = 'retries_exhausted'"), 2);
    char *ref = audit_case_sql(path, "SELECT ref FROM failed_jobs WHERE job_id = 'job-1'"), expected[EVENT_REF_SIZE];
    cr_assert(event_ref(one.event.event, expected));
    cr_assert_str_eq(ref, expected);
}

/* Ids with the same first digits share a ref; both are kept. */
Test(unit_audit, two_events_may_share_a_ref) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t one, other;
    audit_case_event(&one, "failed", 1, 1000);
    other = one;
    other.event.event = slice_text(other.id);
    other.id[40] = other.id[40] == '0' ? '1' : '0';
    cr_assert(audit_case_put(audit, &one.event));
    cr_assert(audit_case_put(audit, &other.event));
    cr_assert_not(audit_case_put(audit, &other.event));
    cr_assert_eq(audit_case_count(path, "SELECT count(DISTINCT ref) * 10 + count(*) FROM events"), 12);
}

typedef struct {
    const char *bytes;
    size_t len;
    const char *type; /* of the column */
} bytes_row_t;
#define BYTES(text) text, sizeof(text) - 1

Test(unit_audit, bytes_are_kept_exactly) {
    static const bytes_row_t rows[] = {
        {BYTES(""), "text"},
        {BYTES("plain"), "text"},
        {BYTES("{\"to\":\"Łukasz 日本 😀\"}"), "text"},
        {BYTES("nul \0 inside of it"), "blob"},
        {BYTES("long enough for a word, then \0"), "blob"},
        {BYTES("\0"), "blob"},
        {BYTES("broken \xff here"), "blob"},
        {BYTES("a sequence that is cut off at the end \xe6\x97"), "blob"},
        {BYTES("overlong \xc0\xaf"), "blob"},
        {BYTES("surrogate \xed\xa0\x80"), "blob"},
        {BYTES("12345678\x80"), "blob"},
    };
    audit = audit_case_open(path, AUDIT_WRITE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        audit_case_event_t item;
        scoped(buffer_free) buffer_t sql = {0}, hex = {0};
        audit_case_event(&item, "failed", (int)i, 1000);
        item.event.payload = item.event.error = (slice_t){rows[i].bytes, rows[i].len};
        cr_assert(audit_case_put(audit, &item.event));
        for (size_t j = 0; j < rows[i].len; j++) buffer_printf(&hex, "%02X", (unsigned char)rows[i].bytes[j]);
        buffer_printf(
            &sql, "SELECT typeof(payload) || typeof(error) || hex(payload) || hex(error) FROM events WHERE job = 'job-%zu'", i);
        char *got = audit_case_sql(path, buffer_text(&sql)),
             *expected = kept_printf("%s%s%s%s", rows[i].type, rows[i].type, buffer_text(&hex), buffer_text(&hex));
        cr_expect_str_eq(got, expected);
    }
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM failed_jobs WHERE payload LIKE '%日本%'"), 1);
}

Test(unit_audit, invalid_utf8_is_escaped_in_other_columns) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    audit_case_event(&item, "failed", 1, 1000);
    item.event.worker = (slice_t){"w\xff\0x", 4};
    cr_assert(audit_case_put(audit, &item.event));
    char *worker = audit_case_sql(path, "SELECT worker FROM events");
    cr_assert_str_eq(worker, "w\\ufffd\\u0000x");
}

Test(unit_audit, an_event_without_an_id_is_refused) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    scoped(buffer_free) buffer_t why = {0};
    bool added = true;
    audit_case_event(&item, "failed", 1, 1000);
    cr_assert_not(audit_insert(audit, &item.event, &added, &why), "outside of a transaction");
    item.event.event = slice_text("0123");
    cr_assert(audit_begin(audit, &why));
    cr_assert_not(audit_insert(audit, &item.event, &added, &why));
    cr_assert_not(added);
    audit_rollback(audit);
}

static void expect_position(audit_t *log, const char *queue, const char *expected) {
    char position[AUDIT_POSITION_SIZE];
    buffer_t why = {0};
    cr_assert(audit_position(log, slice_text(queue), position, &why), "%s", buffer_text(&why));
    cr_expect_str_eq(position, expected);
}

Test(unit_audit, positions_commit_with_their_rows) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    buffer_t why = {0};
    audit_case_event(&item, "failed", 1, 1000);
    expect_position(audit, "q", "0-0");
    cr_assert(audit_begin(audit, &why) && audit_insert(audit, &item.event, NULL, &why) &&
              audit_set_position(audit, "q", "5-1", &why));
    expect_position(audit, "q", "5-1");
    audit_rollback(audit);
    expect_position(audit, "q", "0-0");
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 0);
    cr_assert(audit_begin(audit, &why) && audit_set_position(audit, "q", "7-0", &why) &&
              audit_set_position(audit, "p", "9-0", &why) && audit_commit(audit, &why));
    cr_assert(audit_begin(audit, &why) && audit_set_position(audit, "q", "6-0", &why) && audit_commit(audit, &why));
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    expect_position(audit, "q", "6-0"); /* a position may go backwards: a stream may have been reset */
    expect_position(audit, "p", "9-0");
    expect_position(audit, "other", "0-0");
    audit_rollback(audit); /* does nothing outside of a transaction */
}

typedef struct {
    audit_t *audit;
    bool began;
} writer_t;

static void *commit_later(void *self) {
    writer_t *writer = self;
    scoped(buffer_free) buffer_t why = {0};
    writer->began = audit_begin(writer->audit, &why) && audit_commit(writer->audit, &why);
    return NULL;
}

Test(unit_audit, a_second_writer_waits_then_reports_the_lock) {
    scoped(audit_drop) audit_t *first = audit_case_open(path, AUDIT_WRITE), *second = audit_case_open(path, AUDIT_IMPORT);
    scoped(audit_drop) audit_t *reader = audit_case_open(path, AUDIT_READ);
    audit_case_event_t item;
    scoped(buffer_free) buffer_t why = {0};
    audit_case_event(&item, "failed", 1, 1000);
    cr_assert(audit_begin(first, &why) && audit_insert(first, &item.event, NULL, &why));
    expect_position(reader, "q", "0-0"); /* readers do not wait for writers */
    audit_set_busy_timeout(second, 1);
    cr_assert_not(audit_begin(second, &why));
    cr_assert(has(buffer_text(&why), "locked by another process") && has(buffer_text(&why), path), "%s", buffer_text(&why));
    audit_set_busy_timeout(second, wait_scaled_ms(20000));
    writer_t writer = {.audit = second};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, commit_later, &writer), 0);
    cr_assert(audit_commit(first, &why));
    pthread_join(thread, NULL);
    cr_assert(writer.began);
}

/* Returns how long the auditor waits for a writer that does not end, in us. */
static int64_t vain_wait_us(audit_lock_t *lock, const atomic_bool *stop) {
    scoped(buffer_free) buffer_t why = {0};
    scoped(audit_drop) audit_t *log = audit_open_locked(lock, &(audit_open_options_t){.stop = stop}, &why);
    scoped(audit_drop) audit_t *other = audit_case_open(path, AUDIT_IMPORT);
    cr_assert(log && audit_begin(other, &why), "%s", buffer_text(&why));
    int64_t began = wait_now_us();
    cr_assert_not(audit_begin(log, &why));
    return wait_now_us() - began;
}

Test(unit_audit, the_auditor_waits_for_another_writer_but_a_stop_does_not, .timeout = 60) {
    atomic_bool stop = false;
    audit_lock_t *lock = audit_lock_new(path);
    int64_t waited = vain_wait_us(lock, &stop);
    stop = true;
    int64_t stopped = vain_wait_us(lock, &stop);
    audit_lock_free(lock);
    cr_assert_geq(waited, 5000000);
    cr_assert(stopped >= 500000 && stopped < waited / 2, "%lld us of %lld us", (long long)stopped, (long long)waited);
}

Test(unit_audit, newer_and_foreign_files_are_refused_unchanged) {
    audit_close(audit_case_open(path, AUDIT_WRITE));
    audit_case_sql(path, "PRAGMA user_version = 8");
    expect_refused(path, AUDIT_WRITE, "has schema 8, this version knows up to 7");
    expect_refused(path, AUDIT_READ, "has schema 8, this version knows up to 7");
    char *foreign = audit_case_path();
    FILE *file = fopen(foreign, "w"); /* a database of another program: its journal mode must not change */
    fclose(file);
    audit_case_sql(foreign, "CREATE TABLE t (x)");
    expect_refused(foreign, AUDIT_WRITE, "another program");
    expect_refused(foreign, AUDIT_READ, "another program");
    char *mode = audit_case_sql(foreign, "PRAGMA journal_mode");
    cr_assert_str_eq(mode, "delete");
    file = fopen(foreign, "w");
    for (int i = 0; i < 100; i++) fputs("this is a text about sidecars, not a database\n", file);
    fclose(file);
    expect_refused(foreign, AUDIT_WRITE, "no SQLite database");
    expect_refused(foreign, AUDIT_READ, "no SQLite database");
}

/* A link may lead to NFS, or to a log that a sidecar writes under another name. */
Test(unit_audit, symbolic_links_are_refused) {
    char *link = kept_printf("%s.link", path);
    cr_assert_eq(symlink(path, link), 0);
    for (int there = 0; there < 2; there++) {
        expect_refused(link, AUDIT_WRITE, "is a symbolic link");
        cr_expect_eq(access(path, F_OK) == 0, there);
        if (!there) audit_close(audit_case_open(path, AUDIT_WRITE));
    }
    audit_close(audit_case_open(link, AUDIT_READ));
}

Test(unit_audit, unusable_paths_are_refused_with_advice) {
    char *below = kept_printf("%s.d/audit.db", path), *under_file = kept_printf("%s/audit.db", path);
    expect_refused(below, AUDIT_WRITE, "does not exist: create it, or set audit.path");
    expect_refused(path, AUDIT_READ, "no such file");
    cr_assert_eq(access(path, F_OK), -1, "reading made a file");
    fclose(fopen(path, "w"));
    expect_refused(path, AUDIT_READ, "is empty");
    expect_refused(under_file, AUDIT_WRITE, "is no directory");
    expect_refused("/dev", AUDIT_WRITE, "no regular file");
    audit_close(audit_case_open(path, AUDIT_WRITE)); /* an empty file becomes a log */
    cr_assert_str_eq(audit_network_filesystem(0x6969), "NFS");
    cr_assert_str_eq(audit_network_filesystem(0xff534d42), "CIFS");
    cr_assert_str_eq(audit_network_filesystem(0x65735546), "FUSE");
    cr_assert_null(audit_network_filesystem(0xef53)); /* ext4 */
}

Test(unit_audit, a_full_disk_is_reported_and_loses_nothing) {
    audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t item;
    scoped(buffer_free) buffer_t why = {0};
    char *large = kept(mem_alloc(1 << 20));
    memset(large, 'x', 1 << 20);
    audit_case_event(&item, "failed", 1, 1000);
    cr_assert(audit_case_put(audit, &item.event));
    cr_assert_eq(sqlite3_exec(audit->db, "PRAGMA max_page_count = 60", NULL, NULL, NULL), SQLITE_OK);
    audit_case_event(&item, "failed", 2, 1000);
    item.event.payload = (slice_t){large, 1 << 20};
    cr_assert(audit_begin(audit, &why));
    cr_assert_not(audit_insert(audit, &item.event, NULL, &why));
    cr_assert(has(buffer_text(&why), "the disk is full"), "%s", buffer_text(&why));
    audit_rollback(audit);
    item.event.payload = slice_text("{}");
    cr_assert(audit_case_put(audit, &item.event)); /* the log works again when there is room */
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 2);
}

/* Inserts events in transactions of ten, and writes their number to `said` after each commit, when the next transaction has
 * begun. */
static void write_until_killed(int said) {
    buffer_t why = {0};
    audit = audit_open(path, AUDIT_WRITE, &why);
    audit_case_event_t item;
    for (int n = 0; audit;) {
        if (!audit_begin(audit, &why)) break;
        if (n && write(said, &n, sizeof(n)) != sizeof(n)) break;
        for (int i = 0; i < 10; i++) {
            audit_case_event(&item, "failed", n++, 1000);
            if (!audit_insert(audit, &item.event, NULL, &why)) _exit(1);
        }
        if (!audit_commit(audit, &why)) break;
    }
    _exit(1);
}

Test(unit_audit, kill_9_keeps_exactly_the_committed_rows) {
    int said[2], committed = 0;
    cr_assert_eq(pipe(said), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        close(said[0]);
        write_until_killed(said[1]);
    }
    close(said[1]);
    while (committed < 100) cr_assert_eq(read(said[0], &committed, sizeof(committed)), (ssize_t)sizeof(committed));
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    while (read(said[0], &committed, sizeof(committed)) == (ssize_t)sizeof(committed)) {
    }
    close(said[0]);
    audit = audit_case_open(path, AUDIT_WRITE);
    int64_t rows = audit_case_count(path, "SELECT count(*) FROM events");
    cr_assert_eq(rows % 10, 0, "%lld rows: a part of a transaction", (long long)rows);
    cr_assert_geq(rows, committed);
    cr_assert_leq(rows, committed + 10);
}
