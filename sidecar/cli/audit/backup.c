// A copy of the log that is complete and checked.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "audit/backup.h"
#include "base/failpoint.h"
#include "cli/atomic_file.h"
#include "cli/audit/audit.h"
#include "cli/progress.h"

// SQLite would take them for parts of the copy, and write what they hold into it when it is opened.
static bool backup_check_remains(const char *path, buffer_t *why) {
    static const char *const suffixes[] = {"-wal", "-journal"};
    bool none = true;
    for (size_t i = 0; none && i < sizeof suffixes / sizeof *suffixes; i++) {
        struct stat at;
        char *name = mem_printf("%s%s", path, suffixes[i]);
        none = stat(name, &at) != 0 || at.st_size == 0;
        if (!none) buffer_printf(why, "%s: is of another database of that name, and would damage the copy: move it away", name);
        free(name);
    }
    return none;
}

static void backup_progress(void *self, int64_t pages, int64_t of) { progress_show(self, pages, of); }

static int backup_run(audit_args_t *args) {
    atomic_file_t file;
    buffer_t why = {0};
    progress_t progress = progress_begin("copying pages");
    if (strcmp(args->operands.all[0], "-") == 0) {
        fputs("queue-sidecar audit: a backup goes into a file: name one (`export` writes to standard output)\n", stderr);
        return CLI_USAGE;
    }
    if (!atomic_file_create(&file, args->operands.all[0], args->path, args->force, &why)) return audit_print_error(&why);
    bool done = backup_check_remains(args->operands.all[0], &why) &&
                audit_backup(args->audit, file.part, backup_progress, &progress, &why);
    progress_end(&progress);
    if (!done) atomic_file_discard(&file);
    failpoint("backup_before_rename");
    if (done && atomic_file_commit(&file, &why)) return CLI_OK;
    return audit_print_error(&why);
}

static const cli_option_t options[] = {
    AUDIT_OPERANDS("FILE", "the copy, a new file", CLI_FILES),
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTION_FORCE,
};

const audit_command_t audit_backup_command = {
    .about = {.name = "backup",
              .summary = "A consistent copy of the log, while a sidecar writes to it",
              .examples = "queue-sidecar audit backup /backup/audit-2026-11-21.db\n"
                          "queue-sidecar audit list --db /backup/audit-2026-11-21.db\n",
              .usage = "audit backup FILE [-c FILE | --db PATH] [--force]",
              CLI_OPTIONS(options),
              .text = "The copy is complete, on disk and checked when it appears. list, show, stats, export and import take it "
                      "by --db, or as FILE. Make one before an upgrade: an older version "
                      "cannot open a log that a newer one has migrated.",
              .exits = AUDIT_EXITS},
    .opens_log = true,
    .min_operands = 1,
    .max_operands = 1,
    .missing_operand = "a file is missing: `backup FILE`",
    .run = backup_run,
};
