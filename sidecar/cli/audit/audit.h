// queue-sidecar audit: what its subcommands share.
#ifndef QS_CLI_AUDIT_AUDIT_H
#define QS_CLI_AUDIT_AUDIT_H

#include <stdio.h>

#include "audit/query/query.h"
#include "cli/args.h"
#include "cli/load_config.h"

typedef enum audit_format { FORMAT_TABLE, FORMAT_JSON_ARRAY, FORMAT_JSON_LINES, FORMAT_CSV } audit_format_t;

typedef struct audit_args {
    audit_t *audit;         // open for reading where the subcommand has OPENS_LOG; borrowed
    const char *path;       // of the log; borrowed
    const config_t *config; // NULL where --db names the log and the subcommand needs no config; borrowed
    const char *command;    // the subcommand, for messages; borrowed
    audit_filter_t filter;
    audit_format_t format;
    bool utc;                // times of tables, and times without a zone in filters; those of other formats are always UTC
    bool has_limit;          // else filter.limit is 0
    bool force;              // an existing file may be replaced
    bool filtered;           // one of the filters was given
    cli_operands_t operands; // those that are no options: refs, files
    struct {                 // of requeue and discard; texts are NULL where they were not given
        bool where, again, dry_run, yes;
        const char *by, *because, *reason, *to, *rate;
    } requeue;
    struct { // as it was written; NULL = not
        const char *config, *db, *since, *until, *limit, *format;
    } text;
} audit_args_t;

// A new subcommand is a file of its own and a word in audit.c.
typedef struct audit_command {
    cli_command_t about;               // first; its `run` is not used. Options are written into an audit_args_t
    audit_format_t default_format;     // if not told
    bool opens_log;                    // for reading; else it opens ask->path by itself
    bool needs_config;                 // reads one even where --db names the log
    size_t min_operands, max_operands; // words that are no options
    const char *missing_operand;       // what is said when there are fewer
    int (*run)(audit_args_t *args);    // prints to standard output, returns an exit code
} audit_command_t;

extern const audit_command_t audit_list_command;
extern const audit_command_t audit_show_command;
extern const audit_command_t audit_stats_command;
extern const audit_command_t audit_tail_command;
extern const audit_command_t audit_requeue_command;
extern const audit_command_t audit_discard_command;
extern const audit_command_t audit_export_command;
extern const audit_command_t audit_import_command;
extern const audit_command_t audit_backup_command;

// Reasons of final failures; those of other events.
#define AUDIT_FAILURE_REASONS "retries_exhausted reported alive_timeout unreadable invalid_target dead_letter worker_failed"
#define AUDIT_OTHER_REASONS   "stalled trimmed removed_by_others log_damaged log_missing log_replaced imported"
#define AUDIT_KINDS           "failed retried requeued discarded gap filled"

// Rows of options that several have.
#define AUDIT_OPERANDS(argument_, help_, values_)                                                                                \
    { .argument = (argument_), .at = offsetof(audit_args_t, operands), .help = (help_), .values = (values_) }
#define AUDIT_OPTIONS_CONFIG(config_, db_)                                                                                       \
    {.letter = 'c',                                                                                                              \
     .name = "config",                                                                                                           \
     .argument = "FILE",                                                                                                         \
     .at = offsetof(audit_args_t, text.config),                                                                                  \
     .values = CLI_FILES,                                                                                                        \
     .help = config_ "; otherwise QUEUE_SIDECAR_CONFIG, otherwise the usual place"},                                             \
    {                                                                                                                            \
        .name = "db", .argument = "PATH", .at = offsetof(audit_args_t, text.db), .values = CLI_FILES, .help = (db_)              \
    }
#define AUDIT_OPTIONS_LOG AUDIT_OPTIONS_CONFIG("whose audit.path is asked", "the audit log itself; no config is read")
#define AUDIT_OPTION_QUEUE                                                                                                       \
    {                                                                                                                            \
        .letter = 'q', .name = "queue", .argument = "NAME", .at = offsetof(audit_args_t, filter.queue), .values = CLI_QUEUES,    \
        .help = "of this queue"                                                                                                  \
    }
#define AUDIT_OPTIONS_TIME                                                                                                       \
    {.name = "since",                                                                                                            \
     .argument = "TIME",                                                                                                         \
     .at = offsetof(audit_args_t, text.since),                                                                                   \
     .help = "at or after: 90s, 30m, 2h, 7d, 1w ago, or 2026-11-21, 2026-11-21T02:00, 2026-11-21T02:00:00Z"},                    \
        {.name = "until", .argument = "TIME", .at = offsetof(audit_args_t, text.until), .help = "before"}, {                     \
        .letter = 'g', .name = "grep", .argument = "TEXT", .at = offsetof(audit_args_t, filter.grep),                            \
        .help = "with these bytes in the error, the payload or the job id"                                                       \
    }
#define AUDIT_OPTIONS_FILTERS                                                                                                    \
    AUDIT_OPTION_QUEUE,                                                                                                          \
        {.letter = 'r',                                                                                                          \
         .name = "reason",                                                                                                       \
         .argument = "NAME",                                                                                                     \
         .at = offsetof(audit_args_t, filter.reason),                                                                            \
         .values = AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS,                                                                \
         .help = "retries_exhausted, reported, alive_timeout, unreadable, invalid_target, dead_letter, worker_failed "           \
                 "(--failed-by is "                                                                                              \
                 "the same, and what `requeue` and `discard` call it)"},                                                         \
        {.name = "failed-by",                                                                                                    \
         .argument = "NAME",                                                                                                     \
         .at = offsetof(audit_args_t, filter.reason),                                                                            \
         .values = AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS},                                                               \
        AUDIT_OPTIONS_TIME
#define AUDIT_OPTION_UTC                                                                                                         \
    {                                                                                                                            \
        .name = "utc", .at = offsetof(audit_args_t, utc),                                                                        \
        .help = "times without a zone are UTC instead of local time, in tables too"                                              \
    }
#define AUDIT_OPTIONS_KIND                                                                                                       \
    {.name = "kind",                                                                                                             \
     .argument = "KIND",                                                                                                         \
     .at = offsetof(audit_args_t, filter.kind),                                                                                  \
     .values = AUDIT_KINDS,                                                                                                      \
     .help = "failed, retried, requeued, discarded, gap or filled"},                                                             \
    {                                                                                                                            \
        .name = "all-kinds", .at = offsetof(audit_args_t, filter.all_kinds), .help = "events of all kinds"                       \
    }
#define AUDIT_OPTION_OUTPUT(values_, help_)                                                                                      \
    {                                                                                                                            \
        .letter = 'o', .name = "output", .argument = "FORMAT", .at = offsetof(audit_args_t, text.format), .values = (values_),   \
        .help = (help_)                                                                                                          \
    }
#define AUDIT_OPTION_FORMAT                                                                                                      \
    AUDIT_OPTION_OUTPUT("table json jsonl csv", "table, json (one array or object), jsonl (an object a line), csv (RFC 4180)")
#define AUDIT_OPTION_LIMIT(help_)                                                                                                \
    { .letter = 'n', .name = "limit", .argument = "N", .at = offsetof(audit_args_t, text.limit), .help = (help_) }
#define AUDIT_OPTION_FORCE                                                                                                       \
    { .name = "force", .at = offsetof(audit_args_t, force), .help = "replaces an existing file" }

#define AUDIT_TEXT_DATA                                                                                                          \
    "json, jsonl and csv: times in UTC by RFC 3339; payload and error as they are, or in base64 where they are no UTF-8, as "    \
    "payload_encoding and error_encoding say. The log is only read: this may run beside a sidecar, and on any copy of it."
#define AUDIT_EXITS "0 ok\n1 failed\n2 wrong usage\n78 bad config\n"

// What people type for an event: the beginning of its ref, or the whole of its id; capitals are fine.
#define AUDIT_REF_SYNTAX "up to 12 of a-z and 2-7, as `audit list` shows them, or the 64 hex digits of an event id"
typedef struct audit_ref {
    char prefix[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE]; // "" = it is known by the prefix only
} audit_ref_t;
bool audit_ref_parse(const char *word, audit_ref_t *out);

bool audit_is_reason(const char *word); // of a failure
// Most columns for reasons on a narrow terminal: all of the longest one, or its beginning where that would crowd out the error.
size_t audit_reason_width(FILE *out);

// "queue-sidecar: TEXT" on standard error; returns CLI_FAILED. Takes what is in why.
int audit_print_error(buffer_t *why);

// Nothing was found: says so, and whether the queue may be misspelt.
void audit_print_no_match(audit_t *audit, const audit_filter_t *filter);

// Prints a number with marks between thousands into text: 1,234,567.
enum { COUNT_TEXT_SIZE = 32 };
slice_t count_format(int64_t number, char text[COUNT_TEXT_SIZE]);

#endif
