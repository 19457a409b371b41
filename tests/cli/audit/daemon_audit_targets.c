/* Files that export and backup must not write to. */
#include "audit_case.h"
#include "base/buffer.h"
#include "daemon.h"
#include "tempdir.h"
#include "text.h"

#include <sys/stat.h>

/* The caller owns the path. */
static char *log_with_a_row(void) {
    char *path = audit_case_path();
    scoped(audit_drop) audit_t *audit = audit_case_open(path, AUDIT_WRITE);
    audit_case_event_t of;
    audit_case_event(&of, "failed", 1, 1000);
    cr_assert(audit_case_put(audit, &of.event));
    return path;
}

static void write_file(const char *path, const char *text, size_t len) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(text, 1, len, file) == len && fclose(file) == 0);
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

/* Its owner could read the jobs, or change the copy later. */
Test(daemon_audit_targets, a_part_of_another_user_is_refused) {
    static const char *const commands[] = {"export", "backup"};
    char *db = log_with_a_row(), *file = kept_printf("%s.x", db), *part = kept_printf("%s.part", file);
    if (geteuid() != 0) cr_skip("only root can give a file away");
    for (size_t i = 0; i < 2; i++) {
        struct stat at;
        write_file(part, "theirs", 6);
        cr_assert_eq(chown(part, 65534, 65534), 0);
        const daemon_output_t *out = daemon_run("audit", commands[i], file, "--db", db);
        cr_expect(out->code == 1 && has(out->err, ".part: belongs to another user"), "%s", out->err);
        cr_expect(stat(part, &at) == 0 && at.st_size == 6 && at.st_uid == 65534 && !is_there(file));
        unlink(part);
        cr_expect_eq(daemon_run("audit", commands[i], file, "--db", db, "--force")->code, 0);
        unlink(file);
    }
}

Test(daemon_audit_targets, the_config_is_never_replaced) {
    static const char *const commands[] = {"export", "backup"};
    char *db = log_with_a_row(), *config = kept_printf("%s.cfg", db), *link = kept_printf("%s.link", db);
    char *text = kept_printf("audit = { path = \"%s\"; }; queues = ( { name = \"email\"; } );", db);
    write_file(config, text, strlen(text));
    cr_assert_eq(symlink(config, link), 0);
    for (size_t i = 0; i < 4; i++) {
        const daemon_output_t *out = daemon_run("audit", commands[i % 2], i < 2 ? config : link, "-c", config, "--force");
        cr_expect(out->code == 1 && has(out->err, ": is the config: name another file"), "%s", out->err);
        char *kept = temp_read(config);
        cr_expect_str_eq(kept, text);
    }
}
