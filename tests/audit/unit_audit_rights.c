/* Opens the audit log without permissions, in child processes that drop the capabilities of root. */
#include "audit/query/query.h"
#include "audit_case.h"
#include "tempdir.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool count(void *self, const audit_row_t *row) {
    (void)row;
    ++*(int *)self;
    return true;
}

/* Without capabilities root is an ordinary owner. */
static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    if (syscall(SYS_capset, &header, none) != 0) _exit(9);
}

/* Opens the log without capabilities; returns "N rows" or the error. */
static char *open_and_count(const char *path, audit_mode_t mode) {
    int said[2];
    char text[1024] = "";
    cr_assert_eq(pipe(said), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        drop_capabilities();
        buffer_t why = {0};
        int rows = 0;
        audit_t *audit = audit_open(path, mode, &why);
        if (audit && audit_list(audit, &(audit_filter_t){0}, count, &rows, &why)) buffer_printf(&why, "%d rows", rows);
        _exit(write(said[1], buffer_text(&why), why.len) != (ssize_t)why.len);
    }
    close(said[1]);
    size_t used = 0;
    for (ssize_t got; used < sizeof(text) - 1 && (got = read(said[0], text + used, sizeof(text) - 1 - used)) > 0;)
        used += (size_t)got;
    close(said[0]);
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    return kept(mem_str(text));
}

static void expect(const char *path, audit_mode_t mode, const char *part) {
    char *got = open_and_count(path, mode);
    cr_expect_not_null(strstr(got, part), "\"%s\" lacks \"%s\"", got, part);
}

static char *directory(const char *path) {
    char *dir = kept(mem_str(path));
    *strrchr(dir, '/') = '\0';
    return dir;
}

static char *log_with_rows(int rows, audit_t **writer) {
    char *path = audit_case_path();
    audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    for (int i = 0; i < rows; i++) {
        audit_case_event_t item;
        audit_case_event(&item, "failed", i, 1000 + i);
        cr_assert(audit_case_put(audit, &item.event));
    }
    if (writer)
        *writer = audit;
    else
        audit_close(audit);
    return path;
}

Test(unit_audit_rights, a_log_in_a_read_only_directory_is_read) {
    char *path = log_with_rows(3, NULL), *dir = directory(path), *wal = kept_printf("%s-wal", path);
    cr_assert_eq(access(wal, F_OK), -1);
    cr_assert_eq(chmod(dir, 0500), 0);
    expect(path, AUDIT_READ, "3 rows");
    expect(path, AUDIT_WRITE, "make them writable");
    cr_assert_eq(chmod(path, 0400), 0);
    expect(path, AUDIT_READ, "3 rows");
    cr_assert_eq(chmod(path, 0200), 0);
    expect(path, AUDIT_READ, "permission denied");
    cr_assert_eq(chmod(dir, 0000), 0);
    expect(path, AUDIT_READ, "permission denied: run as the user of the sidecar");
    expect(path, AUDIT_IMPORT, "permission denied: run as the user of the sidecar");
    expect(path, AUDIT_WRITE, "permission denied: let user ");
    cr_assert_eq(chmod(dir, 0700), 0);
}

/* While a sidecar writes, readers use its -shm file. */
Test(unit_audit_rights, a_reader_needs_no_write_permission) {
    scoped(audit_drop) audit_t *writer = NULL;
    char *path = log_with_rows(2, &writer), *dir = directory(path);
    cr_assert_eq(chmod(dir, 0500), 0);
    expect(path, AUDIT_READ, "2 rows");
    cr_assert_eq(chmod(dir, 0700), 0);
}

/* A copy on a read-only medium, with its -wal but without its -shm: rows in the -wal must not be missing silently. */
Test(unit_audit_rights, an_unreadable_wal_is_an_error) {
    scoped(audit_drop) audit_t *writer = NULL;
    char *path = log_with_rows(2, &writer), *copy = audit_case_path(), *dir = directory(copy);
    char *command = kept_printf("cp %s %s && cp %s-wal %s-wal", path, copy, path, copy);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(chmod(dir, 0500), 0);
    expect(copy, AUDIT_READ, "the newest rows are in");
    cr_assert_eq(chmod(dir, 0700), 0);
    expect(copy, AUDIT_READ, "2 rows");
}
