#include <sys/stat.h>

#include "audit/audit.h"
#include "base/failpoint.h"
#include "cli/atomic_file.h"
#include "cli/audit/audit.h"
#include "cli/terminal.h"

// SQLite would treat the -wal or -journal file of another database as part of the copy, and merge it.
static bool backup_check_remains(const char *path, buffer_t *why) {
    static const char *const suffixes[] = {"-wal", "-journal"};
    bool none = true;
    for (size_t i = 0; none && i < COUNT(suffixes); i++) {
        struct stat at;
        char *name = mem_printf("%s%s", path, suffixes[i]);
        none = stat(name, &at) != 0 || at.st_size == 0;
        if (!none) buffer_printf(why, "%s: belongs to another database and would damage the copy: move it away", name);
        free(name);
    }
    return none;
}

static void backup_progress(void *self, int64_t pages, int64_t total) { progress_show(self, pages, total); }

static int backup_run(audit_args_t *args) {
    atomic_file_t file;
    buffer_t why = {0};
    progress_t progress = progress_begin("copying pages");
    if (strcmp(args->operands.all[0], "-") == 0) {
        fputs("queue-sidecar audit: backup needs the name of a file (`export` can write to standard output)\n", stderr);
        return CLI_USAGE;
    }
    const char *config = cli_config_path(args->text.config);
    if (!atomic_file_create(&file, args->operands.all[0], args->path, config, args->force, &why)) return audit_print_error(&why);
    bool done = backup_check_remains(args->operands.all[0], &why) &&
                audit_backup(args->audit, file.part, backup_progress, &progress, &why);
    progress_end(&progress);
    failpoint("backup_before_rename");
    return atomic_file_end(&file, done, &why) ? CLI_OK : audit_print_error(&why);
}

static const cli_option_t options[] = {
    AUDIT_OPERAND("FILE", "the copy, a new file", CLI_FILES),
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTION_FORCE,
};

const audit_command_t audit_backup_command = {
    .about = {.name = "backup",
              .summary = "Copy the log while a sidecar writes to it",
              .examples = "queue-sidecar audit backup /backup/audit-2026-11-21.db\n"
                          "queue-sidecar audit list --db /backup/audit-2026-11-21.db\n",
              .usage = "audit backup FILE [-c FILE | --db PATH] [--force]",
              CLI_OPTIONS(options),
              .text =
                  "The copy appears when it is complete, checked and on disk. list, show, stats, tail and export read it with "
                  "--db, and import reads it as FILE. Make a backup before an upgrade: an older version cannot open a log that "
                  "a newer one has migrated.",
              .exits = AUDIT_EXITS},
    .missing_operand = "specify the FILE to write",
    .run = backup_run,
};
