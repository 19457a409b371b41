/* The lock of the audit log, and logs that are damaged, removed or replaced: on real files. */
#include "audit/lock.h"
#include "audit_case.h"
#include "child.h"
#include "tempdir.h"
#include "text.h"

#include <criterion/parameterized.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void expect_refused(const char *path, audit_mode_t mode, const char *part) {
    char *why = audit_case_refused(path, mode);
    cr_expect(has(why, part), "\"%s\" lacks \"%s\"", why, part);
}

static void put(audit_t *audit, int n) {
    audit_case_event_t item;
    audit_case_event(&item, "failed", n, 1000 + n);
    cr_assert(audit_case_put(audit, &item.event));
}

/* A log with some rows, closed. */
static char *log_with_rows(int rows) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    for (int i = 0; i < rows; i++) put(audit, i);
    return path;
}

static audit_t *open_locked(audit_lock_t *lock, audit_open_options_t options) {
    scoped(buffer_free) buffer_t why = {0};
    audit_t *audit = audit_open_locked(lock, &options, &why);
    cr_assert_not_null(audit, "%s", buffer_text(&why));
    return audit;
}

/* Overwrites a whole page in the middle of the file. */
static void flip_page(const char *path) {
    struct stat at;
    char page[4096];
    memset(page, 0xa5, sizeof page);
    int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && fstat(fd, &at) == 0 && at.st_size >= 5 * 4096);
    cr_assert_eq(pwrite(fd, page, sizeof page, at.st_size / 4096 / 2 * 4096), 4096);
    close(fd);
}

static int count_files(const char *path, const char *pattern) {
    char *full = kept_printf("%s%s", path, pattern);
    glob_t found = {0};
    int count = glob(full, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static char *lock_text(const char *path) {
    char *lock = kept_printf("%s.lock", path), *text = temp_read(lock);
    return text;
}

Test(unit_audit_lock, a_second_sidecar_learns_the_holder_of_the_lock) {
    char *path = audit_case_path(), *me = kept_printf("pid %d on ", (int)getpid());
    audit_t *first = audit_case_open(path, AUDIT_WRITE);
    expect_refused(path, AUDIT_WRITE, me);
    expect_refused(path, AUDIT_WRITE, "give each an audit.path of its own");
    char *text = lock_text(path);
    cr_assert(has(text, audit_instance(first)), "%s", text);
    scoped(audit_drop) audit_t *import = audit_case_open(path, AUDIT_IMPORT), *reader = audit_case_open(path, AUDIT_READ);
    put(import, 1);
    put(first, 2);
    cr_assert_eq(audit_case_count(path, "SELECT value FROM facts WHERE name = 'rows'"), 2);
    audit_close(first);
    audit_close(audit_case_open(path, AUDIT_WRITE)); /* while an import still runs */
}

/* A removed lock file keeps no process out, so its holder makes the file again. */
Test(unit_audit_lock, a_removed_lock_file_is_created_again) {
    char *path = log_with_rows(1), *file = kept_printf("%s.lock", path);
    scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
    buffer_t why = {0};
    cr_assert(audit_lock_acquire(lock, &why));
    unlink(file);
    cr_assert(audit_lock_acquire(lock, &why), "%s", buffer_text(&why));
    expect_refused(path, AUDIT_WRITE, "is written by another sidecar");
}

Test(unit_audit_lock, kill_9_releases_the_lock) {
    char *path = log_with_rows(1);
    int said[2], status;
    char byte;
    cr_assert_eq(pipe(said), 0);
    pid_t pid = fork();
    if (pid == 0) {
        buffer_t why = {0};
        if (!audit_open(path, AUDIT_WRITE, &why) || write(said[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    cr_assert_eq(read(said[0], &byte, 1), 1);
    expect_refused(path, AUDIT_WRITE, "is written by another sidecar");
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    audit_close(audit_case_open(path, AUDIT_WRITE));
    close(said[0]), close(said[1]);
}

Test(unit_audit_lock, a_damaged_log_is_set_aside_and_reported_lost) {
    char *path = log_with_rows(500);
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_READ);
    char *old = kept(mem_str(audit_instance(audit)));
    audit_close(audit);
    flip_page(path);
    audit_lock_t *lock = audit_lock_new(path);
    audit = open_locked(lock, (audit_open_options_t){.check = true});
    const audit_loss_t *loss = audit_loss(audit);
    cr_assert_not_null(loss);
    cr_assert_str_eq(loss->reason, AUDIT_DAMAGED);
    cr_assert_str_eq(loss->instance, old);
    cr_assert_str_neq(audit_instance(audit), old);
    cr_assert(has(loss->set_aside_as, "audit.db.corrupt-2"), "%s", loss->set_aside_as);
    cr_assert_eq(count_files(path, ".corrupt-*Z"), 1);
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 0);
    put(audit, 1);
    audit_close(audit);
    audit = open_locked(lock, (audit_open_options_t){.check = true}); /* reported until it is cleared */
    cr_assert_str_eq(audit_loss(audit)->instance, old);
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_DAMAGED);
    buffer_t why = {0};
    cr_assert(audit_clear_loss(audit, &why));
    cr_assert_null(audit_loss(audit));
    audit_close(audit);
    audit_lock_free(lock);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_null(audit_loss(audit));
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 1);
}

/* The name of the lost log is read from the damaged file where that is possible: its acknowledgements must be revoked. */
static void expect_loss_without_lock_file(bool readable) {
    char *path = log_with_rows(500), *file = mem_printf("%s.lock", path);
    char *old = audit_case_sql(path, "SELECT value FROM facts WHERE name = 'instance'");
    if (readable)
        flip_page(path);
    else
        cr_assert_eq(truncate(path, 4096), 0);
    unlink(file);
    audit_lock_t *lock = audit_lock_new(path);
    audit_t *audit = open_locked(lock, (audit_open_options_t){.check = true});
    cr_assert(audit_loss(audit), "the loss is told");
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_DAMAGED);
    cr_assert_str_eq(audit_loss(audit)->instance, readable ? old : "");
    cr_assert_eq(count_files(path, ".corrupt-*Z"), 1);
    audit_close(audit);
    audit_lock_free(lock);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert(audit_loss(audit), "until it is cleared");
    buffer_t why = {0};
    cr_assert(audit_clear_loss(audit, &why));
    audit_close(audit);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_null(audit_loss(audit));
    audit_close(audit);
    free(old), free(file), free(path);
}

Test(unit_audit_lock, a_damaged_log_without_a_lock_file_is_reported_lost) {
    expect_loss_without_lock_file(true);
    expect_loss_without_lock_file(false);
}

/* A log that lacks one of its parts: every page is whole, but the auditor cannot use the file. */
Test(unit_audit_lock, a_log_that_lacks_a_table_or_its_name_is_set_aside) {
    static const char *const losses[] = {"DROP TABLE positions", "DELETE FROM facts WHERE name = 'instance'", "DROP TABLE facts",
                                         "DROP TABLE events"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char *path = log_with_rows(3), *old = audit_case_sql(path, "SELECT value FROM facts WHERE name = 'instance'");
        audit_case_sql(path, losses[i]);
        expect_refused(path, AUDIT_IMPORT, "is damaged");
        scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
        scoped(audit_drop) audit_t *audit = open_locked(lock, (audit_open_options_t){0});
        const audit_loss_t *loss = audit_loss(audit);
        cr_assert(loss && strcmp(loss->reason, AUDIT_DAMAGED) == 0 && strcmp(loss->instance, old) == 0, "%s", losses[i]);
        cr_expect_eq(count_files(path, ".corrupt-*Z"), 1, "%s", losses[i]);
        put(audit, 1);
        cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events"), 1);
    }
}

Test(unit_audit_lock, damage_is_detected_while_in_use) {
    char *path = log_with_rows(2000);
    scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
    scoped(audit_drop) audit_t *audit = open_locked(lock, (audit_open_options_t){0});
    buffer_t why = {0};
    cr_assert_not(audit_is_damaged(audit));
    struct stat at;
    cr_assert_eq(stat(path, &at), 0);
    char *bytes = kept(calloc(1, (size_t)at.st_size)); /* every page but the first */
    memset(bytes, 0xa5, (size_t)at.st_size);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, bytes, (size_t)at.st_size - 4096, 4096), at.st_size - 4096);
    bool failed = !audit_begin(audit, &why);
    for (int i = 0; !failed && i < 100; i++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", 5000 + i, 5000);
        failed = !audit_insert(audit, &item.event, NULL, &why);
    }
    cr_assert(failed && audit_is_damaged(audit), "%s", buffer_text(&why));
    cr_assert(has(buffer_text(&why), "is damaged"));
    buffer_free(&why);
    audit_rollback(audit);
    audit_close(audit);
    close(fd); /* drops SQLite's locks of this process: there are none now */
    audit = open_locked(lock, (audit_open_options_t){.set_aside = true});
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_DAMAGED);
    cr_assert_eq(count_files(path, ".corrupt-*Z"), 1);
}

/* As a copy that a full disk has cut short. */
Test(unit_audit_lock, a_truncated_log_without_its_lock_file_is_set_aside) {
    char *path = log_with_rows(500), *file = kept_printf("%s.lock", path);
    struct stat at;
    unlink(file);
    cr_assert(stat(path, &at) == 0 && truncate(path, at.st_size / 8192 * 4096) == 0);
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    cr_expect_eq(count_files(path, ".corrupt-*Z"), 1);
    put(audit, 1);
    cr_expect_eq(audit_case_count(path, "SELECT count(*) FROM events"), 1);
}

/* A text file where our log was: only the lock file proves that the path is ours. */
Test(unit_audit_lock, foreign_bytes_are_set_aside_only_where_our_log_was) {
    char *path = log_with_rows(3), *file = kept_printf("%s.lock", path);
    FILE *text = fopen(path, "w");
    for (int i = 0; i < 300; i++) fputs("this is a text about sidecars, not a database\n", text);
    fclose(text);
    expect_refused(path, AUDIT_IMPORT, "no SQLite database");
    char *lock = lock_text(path);
    unlink(file);
    expect_refused(path, AUDIT_WRITE, "no SQLite database");
    expect_refused(path, AUDIT_WRITE, "no SQLite database"); /* the lock file of this attempt proves nothing */
    cr_assert_eq(count_files(path, ".corrupt-*"), 0);
    text = fopen(file, "w");
    fputs(lock, text);
    fclose(text);
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_DAMAGED);
    cr_assert_eq(count_files(path, ".corrupt-*"), 1);
    audit_close(audit);
    audit_case_sql(path, "PRAGMA application_id = 7");
    expect_refused(path, AUDIT_WRITE, "another program"); /* although the lock file names a log */
}

static void note_finding(void *self, audit_severity_t severity, const char *text) {
    if (severity == AUDIT_ERROR) buffer_str(self, text);
}

/* `make` puts something at the place of the lock file. */
static void expect_lock_refused(const char *part, const char *name, void (*make)(const char *lock, const char *other)) {
    char *path = log_with_rows(1), *lock = kept_printf("%s.lock", path), *other = kept_printf("%s.%s", path, name);
    scoped(buffer_free) buffer_t found = {0};
    cr_assert_eq(unlink(lock), 0);
    temp_write(other, "of another program\n");
    make(lock, other);
    audit_check_path(path, 0, note_finding, &found);
    cr_expect(has(buffer_text(&found), part), "%s: \"%s\"", name, buffer_text(&found));
    expect_refused(path, AUDIT_WRITE, part);
    expect_refused(path, AUDIT_IMPORT, "remove it");
    cr_expect_str_eq(temp_read(other), "of another program\n", "%s", name);
}

static void make_link(const char *lock, const char *other) { cr_assert_eq(link(other, lock), 0); }
static void make_symlink(const char *lock, const char *other) { cr_assert_eq(symlink(other, lock), 0); }
static void make_directory(const char *lock, const char *other) { cr_assert(mkdir(lock, 0700) == 0 && *other); }
static void make_fifo(const char *lock, const char *other) { cr_assert(mkfifo(lock, 0600) == 0 && *other); }

Test(unit_audit_lock, a_lock_file_that_is_no_file_of_its_own_is_refused) {
    expect_lock_refused("is a hard link of another file", "link", make_link);
    expect_lock_refused("is a symbolic link", "symlink", make_symlink);
    expect_lock_refused("is a directory", "directory", make_directory);
    expect_lock_refused("is no regular file", "fifo", make_fifo);
}

Test(unit_audit_lock, an_import_keeps_the_log_from_being_set_aside) {
    char *path = log_with_rows(500);
    audit_t *import = audit_case_open(path, AUDIT_IMPORT);
    scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
    buffer_t why = {0};
    cr_assert_null(audit_open_locked(lock, &(audit_open_options_t){.set_aside = true}, &why));
    cr_assert(has(buffer_text(&why), "`audit import` writes to it"), "%s", buffer_text(&why));
    buffer_free(&why);
    put(import, 1000);
    audit_close(import);
    cr_assert(audit_lock_acquire(lock, &why) && audit_lock_exclude_writers(lock, &why));
    expect_refused(path, AUDIT_IMPORT, "being set aside");
    audit_lock_admit_writers(lock);
    scoped(audit_drop) audit_t *audit = open_locked(lock, (audit_open_options_t){.set_aside = true});
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 0);
}

Test(unit_audit_lock, removed_and_replaced_logs_are_reported_lost) {
    char *path = log_with_rows(3), *other = log_with_rows(2), *moved = kept_printf("%s.old", path);
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert(audit_is_in_place(audit));
    cr_assert_eq(rename(path, moved), 0);
    cr_assert_not(audit_is_in_place(audit));
    char *own = kept(mem_str(audit_instance(audit)));
    audit_close(audit);
    expect_refused(path, AUDIT_IMPORT, "let its sidecar make a new one");
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_MISSING);
    cr_assert_str_eq(audit_loss(audit)->instance, own);
    audit_close(audit);
    cr_assert_eq(rename(moved, path), 0); /* put back before the loss was handled */
    char *wal = kept_printf("%s-wal", path);
    unlink(wal);
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_null(audit_loss(audit));
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 3);
    audit_close(audit);
    audit = audit_case_open(other, AUDIT_READ);
    char *peer = kept(mem_str(audit_instance(audit)));
    audit_close(audit);
    cr_assert_eq(rename(other, path), 0); /* the log of a peer, which acknowledges under its own name */
    audit = audit_case_open(path, AUDIT_WRITE);
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_REPLACED);
    cr_assert_str_eq(audit_loss(audit)->instance, own);
    cr_assert_str_neq(audit_instance(audit), peer);
    cr_assert(audit_is_in_place(audit), "the new name is only in the -wal file");
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 2);
}

/* A process dies while it sets a damaged log with a -wal file aside; the next one completes the move. */
static struct point {
    char name[32];
} points[] = {{"audit_set_aside_before"},
              {"audit_set_aside_database"},
              {"audit_set_aside_moved"},
              {"audit_migrate_before_commit"},
              {"audit_migrated"}};
ParameterizedTestParameters(unit_audit_lock, crash_points) {
    return cr_make_param_array(struct point, points, sizeof points / sizeof *points);
}
ParameterizedTest(struct point *point, unit_audit_lock, crash_points) {
    char *path = log_with_rows(500);
    pid_t pid = fork();
    int status;
    if (pid == 0) { /* leaves its rows in the -wal file */
        buffer_t why = {0};
        audit_t *audit = audit_open(path, AUDIT_WRITE, &why);
        audit_case_event_t item;
        audit_case_event(&item, "failed", 900, 1000);
        _exit(!audit || !audit_case_put(audit, &item.event));
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(status, 0);
    cr_assert_eq(count_files(path, "-wal"), 1);
    flip_page(path);
    pid = fork();
    if (pid == 0) {
        buffer_t why = {0};
        setenv("QS_CRASH_AT", point->name, 1);
        audit_t *audit = audit_open_locked(audit_lock_new(path), &(audit_open_options_t){.check = true}, &why);
        _exit(audit ? 1 : 2);
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(WEXITSTATUS(status), 137);
    scoped(audit_lock_drop) audit_lock_t *lock = audit_lock_new(path);
    scoped(audit_drop) audit_t *audit = open_locked(lock, (audit_open_options_t){.check = true});
    cr_assert_str_eq(audit_loss(audit)->reason, AUDIT_DAMAGED);
    cr_assert_eq(count_files(path, ".corrupt-*Z"), 1);
    cr_assert_eq(count_files(path, ".corrupt-*Z-wal"), 1, "the -wal file is lost");
    cr_assert_eq(audit_case_count(path, "SELECT count(*) FROM events"), 0);
    put(audit, 1);
}

/* Bytes that this process has read so far; -1 if the kernel does not count them. */
static long long bytes_read(void) {
    long long bytes = -1;
    FILE *io = fopen("/proc/self/io", "re");
    if (io && fscanf(io, "rchar: %lld", &bytes) != 1) bytes = -1;
    if (io) fclose(io);
    return bytes;
}

/* Before the first checkpoint the file alone is no log. With few failures the first checkpoint is far away. */
Test(unit_audit_lock, a_new_log_is_not_reread_at_every_check) {
    enum { CHECKS = 100, CHECK_BYTES = 4096 };
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t event;
    audit_case_event(&event, "failed", 1, 1000);
    cr_assert(audit_case_put(audit, &event.event));
    for (int i = 0; i < 2; i++) cr_assert(audit_is_in_place(audit));
    long long before = bytes_read();
    if (before < 0) cr_skip_test("no /proc/self/io here");
    for (int i = 0; i < CHECKS; i++) cr_assert(audit_is_in_place(audit));
    cr_assert_lt(bytes_read() - before, CHECKS * CHECK_BYTES / 10);
}
