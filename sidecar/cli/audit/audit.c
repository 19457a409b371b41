#include "cli/audit/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/time_text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { MAX_WORDS = 32, MAX_LIST_BYTES = 256 };

static const char *const formats[] = {
    [FORMAT_TABLE] = "table", [FORMAT_JSON_ARRAY] = "json", [FORMAT_JSON_LINES] = "jsonl", [FORMAT_CSV] = "csv"};

int audit_print_error(buffer_t *why) {
    buffer_t plain = {0};
    terminal_escape(&plain, (slice_t){buffer_text(why), why->len}, true); // it may quote a file of a stranger
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", buffer_text(&plain));
    buffer_free(&plain);
    buffer_free(why);
    return CLI_FAILED;
}

slice_t count_format(int64_t number, char text[COUNT_TEXT_SIZE]) {
    char digits[COUNT_TEXT_SIZE];
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);
    size_t used = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0 && digits[i - 1] != '-') text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return (slice_t){text, used};
}

// `list`: the words that may stand there, separated by spaces; NULL = there is no list.
static int audit_print_usage_error(const audit_args_t *args, const char *what, const char *word, const char *nearest,
                                   const char *list) {
    const char *space = args->command ? " " : "", *command = args->command ? args->command : "";
    fprintf(stderr, "queue-sidecar audit%s%s: %s `%s`", space, command, what, word);
    if (nearest) fprintf(stderr, ": did you mean `%s`?", nearest);
    if (list) fprintf(stderr, "\nIt is one of: %s.", list);
    fprintf(stderr, "\nSee `queue-sidecar help audit%s%s`.\n", space, command);
    return CLI_USAGE;
}

// Takes a list of words, separated by spaces, apart. `text` holds them afterwards.
static size_t audit_split_words(const char *list, char text[MAX_LIST_BYTES], const char *words[MAX_WORDS]) {
    size_t count = 0;
    snprintf(text, MAX_LIST_BYTES, "%s", list);
    for (char *rest = text, *word; count < MAX_WORDS && (word = strsep(&rest, " ")) != NULL;) words[count++] = word;
    return count;
}

static bool audit_list_has(const char *list, const char *word) {
    char text[MAX_LIST_BYTES];
    const char *words[MAX_WORDS];
    size_t count = audit_split_words(list, text, words);
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

// False after a message.
static bool audit_check_word(const audit_args_t *args, const char *what, const char *word, const char *list) {
    char text[MAX_LIST_BYTES];
    const char *words[MAX_WORDS];
    if (audit_list_has(list, word)) return true;
    size_t count = audit_split_words(list, text, words);
    audit_print_usage_error(args, what, word, suggest_nearest(word, words, count), list);
    return false;
}

size_t audit_reason_width(FILE *out) {
    enum { ROOMY = 96, LONGEST = 17, BEGINNING = 8 };
    return terminal_columns(out) < ROOMY ? BEGINNING : LONGEST;
}

bool audit_is_reason(const char *word) { return audit_list_has(AUDIT_FAILURE_REASONS, word); }

static bool audit_parse_time(const audit_args_t *args, const char *word, int64_t *out) {
    if (!word || time_parse(word, args->utc, time_now_ms(), out)) return true;
    audit_print_usage_error(args, "no time (like 2h, 2026-11-21, 2026-11-21T02:00 or 2026-11-21T02:00:00Z) is", word, NULL, NULL);
    return false;
}

static bool audit_parse_limit(audit_args_t *args, const char *word) {
    char *end;
    if (!word) return true;
    errno = 0;
    long long limit = strtoll(word, &end, 10);
    args->has_limit = true;
    args->filter.limit = limit;
    if (*word >= '0' && *word <= '9' && !*end && !errno && limit < INT64_MAX) return true;
    audit_print_usage_error(args, "no number of rows (0 = all) is", word, NULL, NULL);
    return false;
}

// The format that is asked for, if this subcommand can print it.
static bool audit_parse_format(audit_args_t *args, const audit_command_t *command, const char *word) {
    const char *known = "";
    args->format = command->default_format;
    if (!word) return true;
    for (size_t i = 0; i < command->about.option_count; i++)
        if (command->about.options[i].letter == 'o') known = command->about.options[i].values;
    if (!audit_check_word(args, "unknown format", word, known)) return false;
    for (size_t i = 0; i < COUNT(formats); i++)
        if (strcmp(word, formats[i]) == 0) args->format = (audit_format_t)i;
    return true;
}

static int audit_check_args(audit_args_t *args, const audit_command_t *command) {
    audit_filter_t *filter = &args->filter;
    args->filtered = filter->queue || filter->reason || filter->grep || args->text.since || args->text.until;
    if (args->text.config && args->text.db && !command->needs_config)
        return audit_print_usage_error(args, "-c and --db exclude each other: leave out", "-c", NULL, NULL);
    if (!audit_parse_format(args, command, args->text.format)) return CLI_USAGE;
    if (filter->kind && !audit_check_word(args, "unknown kind of events", filter->kind, AUDIT_KINDS)) return CLI_USAGE;
    if (filter->reason &&
        !audit_check_word(args, "unknown reason", filter->reason, AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS))
        return CLI_USAGE;
    if (!audit_parse_time(args, args->text.since, &filter->since_ms) ||
        !audit_parse_time(args, args->text.until, &filter->until_ms) || !audit_parse_limit(args, args->text.limit))
        return CLI_USAGE;
    if (filter->since_ms && filter->until_ms && filter->since_ms >= filter->until_ms)
        return audit_print_usage_error(args, "--since must be before --until, but is not:", args->text.since, NULL, NULL);
    if (filter->grep && !*filter->grep)
        return audit_print_usage_error(args, "--grep wants a text to look for, but got", filter->grep, NULL, NULL);
    if (args->operands.count >= command->min_operands) return CLI_OK;
    fprintf(stderr, "queue-sidecar audit %s: %s\nSee `queue-sidecar help audit %s`.\n", args->command, command->missing_operand,
            args->command);
    return CLI_USAGE;
}

// Opens what is asked and runs the subcommand.
static int audit_run_command(audit_args_t *args, const audit_command_t *command) {
    buffer_t why = {0};
    config_t *config = NULL;
    if (!args->text.db || command->needs_config) {
        config = cli_load_config(cli_config_path(args->text.config));
        if (!config) return CLI_BAD_CONFIG;
    }
    int status = CLI_FAILED;
    args->config = config;
    args->path = args->text.db ? args->text.db : config->audit.path;
    if (command->opens_log) args->audit = audit_open(args->path, AUDIT_READ, &why);
    if (!command->opens_log || args->audit)
        status = command->run(args);
    else
        audit_print_error(&why);
    audit_close(args->audit);
    config_free(config);
    return status;
}

static const cli_command_t *const subcommands[] = {
    &audit_list_command.about,    &audit_show_command.about,
    &audit_stats_command.about,   &audit_requeue_command.about,
    &audit_discard_command.about, &audit_tail_command.about,
    &audit_export_command.about,  &audit_import_command.about,
    &audit_backup_command.about,  NULL,
};

static const audit_command_t *audit_find_command(const audit_args_t *args, const char *word) {
    const char *names[COUNT(subcommands)];
    const cli_command_t *part = args_find_command(cli_audit_command.parts, word);
    if (part) return (const audit_command_t *)part;
    for (size_t i = 0; i < COUNT(subcommands); i++) names[i] = subcommands[i] ? subcommands[i]->name : NULL;
    audit_print_usage_error(args, "unknown subcommand", word, suggest_nearest(word, names, COUNT(subcommands)), NULL);
    return NULL;
}

static int audit_main(int argc, char **argv) {
    audit_args_t args = {0};
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    if (argc < 2 || argv[1][0] == '-') {
        fputs("queue-sidecar audit: which subcommand?", stderr);
        for (size_t i = 0; subcommands[i]; i++) fprintf(stderr, "%s %s", i ? "," : "", subcommands[i]->name);
        fputs("\nSee `queue-sidecar help audit`.\n", stderr);
        return CLI_USAGE;
    }
    const audit_command_t *command = audit_find_command(&args, argv[1]);
    if (!command) return CLI_USAGE;
    char name[32]; // what messages call us
    snprintf(name, sizeof name, "audit %s", command->about.name);
    argv[1] = name;
    args.command = command->about.name;
    args.operands.max = command->max_operands;
    int status = args_parse(argc - 1, argv + 1, &command->about, &args);
    if (status == CLI_OK) status = audit_check_args(&args, command);
    if (status != CLI_OK) return status;
    signal(SIGPIPE, SIG_DFL); // `audit list | head` ends without a word
    return audit_run_command(&args, command);
}

const cli_command_t cli_audit_command = {
    .name = "audit",
    .summary = "Ask the audit log about final failures",
    .examples = "queue-sidecar audit list\tthe newest 50 final failures\n"
                "queue-sidecar audit list --since 2h --queue email\twhat failed since two hours ago\n"
                "queue-sidecar audit list --reason reported --grep timeout\twith this text in error, payload or id\n"
                "queue-sidecar audit show k3vq\tone, by the beginning of its ref\n"
                "queue-sidecar audit stats --since 2026-11-21T02:00\thow many, by queue, reason and hour\n"
                "queue-sidecar audit requeue k3vq --because 'typo corrected'\tputs one back; discard: ends it\n"
                "queue-sidecar audit requeue --where --queue email --since 2h\tputs many back; asks first\n"
                "queue-sidecar audit tail\tthe last, and new ones as they come\n"
                "queue-sidecar audit export failures.jsonl --since 7d\ta week of it, to keep or import\n"
                "queue-sidecar audit import pod-2.db\tadds what another instance has\n"
                "queue-sidecar audit backup audit-before-upgrade.db\ta copy, while the sidecar writes\n",
    .usage = "audit SUBCOMMAND [OPTIONS]",
    .text = "`queue-sidecar help audit SUBCOMMAND` explains one. Data goes to standard output, messages to standard error. "
            "sql/README.md has queries for the sqlite3 shell.",
    .exits = "0 ok, also when nothing matches\n1 failed, no such ref, or several\n2 wrong usage\n78 bad config\n",
    .run = audit_main,
    .parts = subcommands,
};
