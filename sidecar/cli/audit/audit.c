#include "cli/audit/audit.h"

#include <signal.h>

#include "base/text/time_text.h"
#include "dialects/registry.h"

static const char *const formats[] = {
    [FORMAT_TABLE] = "table", [FORMAT_JSON_ARRAY] = "json", [FORMAT_JSON_LINES] = "jsonl", [FORMAT_CSV] = "csv"};

static int audit_check_args(audit_args_t *args, const audit_command_t *command) {
    audit_filter_t *filter = &args->filter;
    buffer_t why = {0};
    if (args->text.config && args->text.db && !command->needs_config)
        return cli_usage_error(args->command, "-c and --db exclude each other: specify one of them");
    args->format = command->default_format;
    for (size_t i = 0; args->text.format && i < COUNT(formats); i++)
        if (strcmp(args->text.format, formats[i]) == 0) args->format = (audit_format_t)i;
    args->has_limit = args->text.limit != NULL;
    if (!filter_read_time(args->text.since, args->utc, &filter->since_ms, &why) ||
        !filter_read_time(args->text.until, args->utc, &filter->until_ms, &why) ||
        (args->has_limit && !filter_read_limit(args->text.limit, &filter->limit, &why)))
        return audit_usage_why(args, &why);
    if (args->raw && args->format != FORMAT_CSV) return cli_usage_error(args->command, "--raw is for -o csv only");
    if (!filter_check(filter, "--", &why)) return audit_usage_why(args, &why);
    bool enough = !command->missing_operand || args->operands.count;
    return enough ? CLI_OK : cli_usage_error(args->command, "%s", command->missing_operand);
}

// The log does not depend on the config. People need it while a bad edit is being mended.
static void audit_print_way(const audit_args_t *args, const char *config_path) {
    config_t *config = config_load_refused(config_path, dialect_settings);
    fprintf(stderr, "queue-sidecar %s: the log can be read without the config: --db %s\n", args->command,
            config && *config->audit.path ? config->audit.path : "PATH");
    config_free(config);
}

static int audit_run_command(audit_args_t *args, const audit_command_t *command) {
    buffer_t why = {0};
    config_t *config = NULL;
    int status;
    if (!args->text.db || command->needs_config) {
        const char *path = cli_config_path(args->text.config);
        config = cli_load_config_beside(path, args->text.db);
        if (!config && !command->needs_config) audit_print_way(args, path);
        if (!config) return CLI_BAD_CONFIG;
        if (command->needs_config) cli_find_mode(config);
    }
    args->config = config;
    args->path = args->text.db ? args->text.db : config->audit.path;
    if (!command->opens_log_itself) args->audit = audit_open(args->path, AUDIT_READ, &why);
    if (why.len && access(args->path, F_OK) != 0) buffer_str(&why, "; --db and -c name another one");
    status = args->audit || command->opens_log_itself ? command->run(args) : audit_print_error(&why);
    audit_close(args->audit);
    config_free(config);
    return status;
}

static const cli_command_t *const subcommands[] = {
    &audit_list_command.about,
    &audit_show_command.about,
    &audit_stats_command.about,
    &audit_requeue_command.about,
    &audit_discard_command.about,
    &audit_erase_command.about,
    &audit_tail_command.about,
    &audit_export_command.about,
    &audit_import_command.about,
    &audit_backup_command.about,
    NULL,
};

static int audit_main(int argc, char **argv) {
    audit_args_t args = {.command = "audit"};
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    const cli_command_t *found = args_need_command(subcommands, "audit", argc > 1 ? argv[1] : "");
    if (!found) return CLI_USAGE;
    const audit_command_t *command = (const audit_command_t *)found;
    char name[32];
    snprintf(name, sizeof name, "audit %s", command->about.name);
    args.command = argv[1] = name;
    int status = args_parse(argc - 1, argv + 1, &command->about, &args);
    if (status == CLI_OK) status = audit_check_args(&args, command);
    if (status != CLI_OK) return status;
    signal(SIGPIPE, SIG_DFL); // `audit list | head` ends without a message
    return audit_run_command(&args, command);
}

const cli_command_t cli_audit_command = {
    .name = "audit",
    .summary = "Search the audit log of final failures, requeue, discard or erase them, and copy the log",
    .examples = "queue-sidecar audit list\tthe newest 50 final failures\n"
                "queue-sidecar audit list --since 2h --queue email\tfailures of the last two hours\n"
                "queue-sidecar audit list --reason reported --grep timeout\twith this text in error, payload or id\n"
                "queue-sidecar audit list --state open --grep 1042 -i\tnobody has answered them yet\n"
                "queue-sidecar audit show k3vq\tone event, by the first characters of its ref\n"
                "queue-sidecar audit stats --since 2026-11-21T02:00\tcounts by queue, reason and hour\n"
                "queue-sidecar audit requeue k3vq --because 'typo corrected'\tput one job back into its queue\n"
                "queue-sidecar audit requeue --where --queue email --since 2h\tput many back, after a question\n"
                "queue-sidecar audit erase --where --grep ann@example.org\tremove one person's data from all logs\n"
                "queue-sidecar audit tail\tthe last failures, and new ones as they come\n"
                "queue-sidecar audit export failures.jsonl --since 7d\ta week of events, to keep or to import\n"
                "queue-sidecar audit import pod-2.db\tadd what another instance's log has\n"
                "queue-sidecar audit backup audit-before-upgrade.db\tcopy the log while the sidecar writes to it\n",
    .usage = "audit SUBCOMMAND [OPTIONS]",
    .text =
        "`queue-sidecar help audit SUBCOMMAND` explains it. Data goes to standard output, messages to standard error. While the "
        "config is refused, the commands take the config in effect, of which the running instance keeps a copy beside its log, "
        "and warn. "
        "sql/README.md has queries for the sqlite3 shell.",
    .exits = "0 ok, also when nothing matches\n1 failed, or REF names no event or several\n2 wrong usage\n78 bad config\n",
    .main = audit_main,
    .parts = subcommands,
};
