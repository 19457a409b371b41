// queue-sidecar audit: common parts of its subcommands.
#pragma once

#include "audit/query/query.h"
#include "cli/args.h"

typedef enum audit_format { FORMAT_TABLE, FORMAT_JSON_ARRAY, FORMAT_JSON_LINES, FORMAT_CSV } audit_format_t;

typedef struct audit_args {
    audit_t *audit;         // open for reading; NULL if the command opens_log_itself; borrowed
    const char *path;       // of the log; borrowed
    const config_t *config; // NULL where --db names the log and the command needs no config; borrowed
    const char *command;    // "audit list", or "audit" before the subcommand is known; borrowed
    audit_filter_t filter;
    audit_format_t format;
    bool utc;                // for tables, and for times without a zone in filters. Other formats always have UTC
    bool has_limit;          // --limit is given
    bool has_filter;         // a filter other than --kind is given
    bool force;              // replace an existing file
    bool raw;                // cells of CSV as they are
    cli_operands_t operands; // refs or files
    struct {                 // of requeue and discard; a text is NULL where it is not given
        bool where, again, dry_run, yes;
        const char *by, *because, *reason, *to, *rate, *from_group;
    } requeue;
    struct { // options as typed; NULL = not given
        const char *config, *db, *since, *until, *limit, *format;
    } text;
} audit_args_t;

// A subcommand. Each one has a file of its own and a row in audit.c.
typedef struct audit_command {
    cli_command_t about; // the first member, so that it can be cast. No `run`; its options are stored in an audit_args_t
    audit_format_t default_format;
    bool opens_log_itself;          // `run` opens args->path
    bool needs_config;              // even where --db names the log
    const char *missing_operand;    // the message if there is no operand; NULL = none is needed
    int (*run)(audit_args_t *args); // prints to standard output, returns an exit code
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

#define AUDIT_FAILURE_REASONS "retries_exhausted reported alive_timeout unreadable invalid_target dead_letter worker_failed"
#define AUDIT_OTHER_REASONS   "stalled trimmed removed_by_others log_damaged log_missing log_replaced imported"
#define AUDIT_KINDS           "failed retried requeued discarded gap filled"

#define AUDIT_VALUE(letter_, name_, argument_, field_, values_, help_)                                                           \
    CLI_VALUE(audit_args_t, letter_, name_, argument_, field_, values_, help_)
#define AUDIT_FLAG(letter_, name_, field_, help_) AUDIT_VALUE(letter_, name_, NULL, field_, NULL, help_)
#define AUDIT_OPERAND(argument_, help_, values_)  AUDIT_VALUE(0, NULL, argument_, operands, values_, help_)
#define AUDIT_OPERANDS(argument_, help_, values_)                                                                                \
    { .argument = (argument_), .at = offsetof(audit_args_t, operands), .values = (values_), .help = (help_), .many = true }

// Options that several commands have.
#define AUDIT_OPTIONS_CONFIG(config_, db_)                                                                                       \
    AUDIT_VALUE('c', "config", "FILE", text.config, CLI_FILES,                                                                   \
                config_ "; default: QUEUE_SIDECAR_CONFIG, else " CLI_DEFAULT_CONFIG),                                            \
        AUDIT_VALUE(0, "db", "PATH", text.db, CLI_FILES, db_)
#define AUDIT_OPTIONS_LOG                                                                                                        \
    AUDIT_OPTIONS_CONFIG("the config that names the log (audit.path)", "path of the audit log; no config is read")
#define AUDIT_OPTION_QUEUE AUDIT_VALUE('q', "queue", "NAME", filter.queue, CLI_QUEUES, "only this queue")
#define AUDIT_OPTIONS_TIME                                                                                                       \
    AUDIT_VALUE(0, "since", "TIME", text.since, NULL,                                                                            \
                "only at or after TIME: an age (90s, 30m, 2h, 7d, 1w), or 2026-11-21, 2026-11-21T02:00, 2026-11-21T02:00:00Z"),  \
        AUDIT_VALUE(0, "until", "TIME", text.until, NULL, "only before TIME, in the same forms"),                                \
        AUDIT_VALUE('g', "grep", "TEXT", filter.grep, NULL,                                                                      \
                    "only with this text in the error, the payload or the job id; case matters")
#define AUDIT_OPTIONS_FILTERS                                                                                                    \
    AUDIT_OPTION_QUEUE,                                                                                                          \
        AUDIT_VALUE('r', "reason", "NAME", filter.reason, AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS,                         \
                    "only this reason: retries_exhausted, reported, alive_timeout, unreadable, invalid_target, dead_letter or "  \
                    "worker_failed; in `requeue` and `discard` this option is --failed-by"),                                     \
        AUDIT_VALUE(0, "failed-by", "NAME", filter.reason, AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS, NULL),                 \
        AUDIT_OPTIONS_TIME
#define AUDIT_OPTION_UTC                                                                                                         \
    AUDIT_FLAG(0, "utc", utc, "read times without a zone as UTC, and print tables in UTC; by default local time")
#define AUDIT_OPTIONS_KIND(default_)                                                                                             \
    AUDIT_VALUE(0, "kind", "KIND", filter.kind, AUDIT_KINDS,                                                                     \
                "only failed, retried, requeued, discarded, gap or filled; default: " default_),                                 \
        AUDIT_FLAG(0, "all-kinds", filter.all_kinds, "events of all kinds")
#define AUDIT_OPTION_OUTPUT(values_, help_) AUDIT_VALUE('o', "output", "FORMAT", text.format, values_, help_)
#define AUDIT_OPTION_FORMAT                                                                                                      \
    AUDIT_OPTION_OUTPUT("table json jsonl csv", "table, json (one array or object), jsonl (an object a line), csv (RFC 4180)")
#define AUDIT_OPTION_RAW                                                                                                         \
    AUDIT_FLAG(0, "raw", raw,                                                                                                    \
               "csv for machines: leave cells that begin with = + - @, tab or CR as they are; by default they get a ' before "   \
               "them, because a spreadsheet would take them for formulas")
#define AUDIT_OPTION_LIMIT(help_) AUDIT_VALUE('n', "limit", "N", text.limit, NULL, help_)
#define AUDIT_OPTION_FORCE        AUDIT_FLAG(0, "force", force, "replace an existing file")

#define AUDIT_TEXT_DATA                                                                                                          \
    "json, jsonl and csv have times in UTC (RFC 3339), and payload and error as they are, or in base64 if they are not UTF-8: "  \
    "payload_encoding and error_encoding say which. On a terminal, control characters and marks of direction are escaped. The "  \
    "command only reads the log; a sidecar may be writing to it."
#define AUDIT_EXITS  "0 ok\n1 failed\n2 wrong usage\n78 bad config\n"

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The config's group; NULL where the command reads no config.
static inline const char *audit_group(const audit_args_t *args) { return args->config ? args->config->group : NULL; }

typedef struct audit_found {
    int64_t seq;
    int64_t at; // time of the event, ms since 1970
} audit_found_t;
// Finds the one event whose ref begins with `word`, or whose id is `word`, in upper or lower case. If there is none, or there are
// several, prints on stderr a message and the refs that match. Returns the exit code.
int audit_find_event(const audit_args_t *args, const char *word, audit_found_t *found);

// Prints a message about wrong arguments, and where the help is. Returns CLI_USAGE.
int audit_usage_error(const audit_args_t *args, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Prints "queue-sidecar: WHY" on stderr and frees *why. Returns CLI_FAILED.
int audit_print_error(buffer_t *why);

// Prints on stderr that no event matches, and whether the log has the queue at all.
void audit_print_no_match(audit_t *audit, const audit_filter_t *filter);
