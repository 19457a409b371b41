// queue-sidecar audit: common parts of its subcommands.
#pragma once

#include "audit/query/query.h"
#include "cli/args.h"
#include "operate/events/records.h"
#include "operate/events/ref.h"
#include "operate/filter.h"

typedef struct audit_args {
    audit_t *audit;         // open for reading; NULL if the command opens_log_itself; borrowed
    const char *path;       // of the log; borrowed
    const config_t *config; // NULL where --db names the log and the command needs no config; borrowed
    const char *command;    // "audit list", or "audit" before the subcommand is known; borrowed
    audit_filter_t filter;
    audit_format_t format;
    bool utc;                // for tables, and for times without a zone in filters. Other formats always have UTC
    bool has_limit;          // --limit is given
    bool force;              // replace an existing file
    bool wait;               // for a log that is not there yet
    bool raw;                // cells of CSV as they are
    cli_operands_t operands; // refs or files
    struct {                 // of requeue, discard and erase; a text is NULL where it is not given
        bool where, again, dry_run, yes;
        const char *by, *because, *reason, *to, *rate, *from_group;
    } requeue;
    struct { // options as typed; NULL = not given
        const char *config, *db, *since, *until, *limit, *format, *before, *after, *by;
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
extern const audit_command_t audit_erase_command;
extern const audit_command_t audit_export_command;
extern const audit_command_t audit_import_command;
extern const audit_command_t audit_backup_command;

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
                "only at or after TIME: an age (90s, 2h30m, 7d, 1w), today, yesterday, or 2026-11-21, 2026-11-21T02:00, "        \
                "2026-11-21T02:00:00Z"),                                                                                         \
        AUDIT_VALUE(0, "until", "TIME", text.until, NULL, "only before TIME, in the same forms"),                                \
        AUDIT_VALUE('g', "grep", "TEXT", filter.grep, NULL,                                                                      \
                    "only with this text in the error, the payload or the job id; case matters without -i"),                     \
        AUDIT_FLAG('i', "ignore-case", filter.ignore_case,                                                                       \
                   "--grep finds both cases of ASCII, Latin, Greek and Cyrillic letters")
#define AUDIT_OPTIONS_JOB                                                                                                        \
    AUDIT_VALUE(0, "state", "STATE", filter.state, AUDIT_STATES,                                                                 \
                "only final failures that are failed (nobody has answered them; open is the same), requeued or discarded"),      \
        AUDIT_VALUE(0, "type", "NAME", filter.type, NULL, "only this type of job"),                                              \
        AUDIT_VALUE(0, "job", "ID", filter.job, NULL, "only the job of this id"),                                                \
        AUDIT_VALUE(0, "worker", "NAME", filter.worker, NULL, "only of this worker"),                                            \
        AUDIT_VALUE(0, "group", "G", filter.group, NULL,                                                                         \
                    "only what an instance of group G recorded; '' = not known, as in rows of 0.1.0"),                           \
        AUDIT_VALUE(0, "trace", "ID", filter.trace, NULL, "only of this trace: the 32 hex digits in its traceparent")
#define AUDIT_OPTIONS_FILTERS                                                                                                    \
    AUDIT_OPTION_QUEUE,                                                                                                          \
        AUDIT_VALUE('r', "reason", "NAME", filter.reason, AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS,                         \
                    "only this reason: retries_exhausted, reported, alive_timeout, unreadable, invalid_target, dead_letter, "    \
                    "worker_failed or cancelled; in `requeue`, `discard` and `erase` this option is --failed-by"),               \
        AUDIT_VALUE(0, "failed-by", "NAME", filter.reason, AUDIT_FAILURE_REASONS " " AUDIT_OTHER_REASONS, NULL),                 \
        AUDIT_OPTIONS_JOB, AUDIT_OPTIONS_TIME
#define AUDIT_OPTION_UTC                                                                                                         \
    AUDIT_FLAG(0, "utc", utc, "read times without a zone as UTC, and print tables in UTC; by default local time")
#define AUDIT_OPTIONS_KIND(default_)                                                                                             \
    AUDIT_VALUE(0, "kind", "KIND", filter.kind, AUDIT_KINDS,                                                                     \
                "only failed, retried, requeued, discarded, erased, gap or filled; default: " default_),                         \
        AUDIT_FLAG(0, "all-kinds", filter.all_kinds, "events of all kinds")
#define AUDIT_OPTION_OUTPUT(values_, help_) AUDIT_VALUE('o', "output", "FORMAT", text.format, values_, help_)
#define AUDIT_OPTION_FORMAT                                                                                                      \
    AUDIT_OPTION_OUTPUT("table json jsonl csv", "table, json (one array or object), jsonl (an object a line), csv (RFC 4180)")
#define AUDIT_OPTION_RAW                                                                                                         \
    AUDIT_FLAG(0, "raw", raw,                                                                                                    \
               "csv for machines: leave cells as they are; by default a ' before = + - @ keeps spreadsheets from running "       \
               "formulas")
#define AUDIT_OPTION_LIMIT(help_) AUDIT_VALUE('n', "limit", "N", text.limit, NULL, help_)
#define AUDIT_OPTION_FORCE        AUDIT_FLAG(0, "force", force, "replace an existing file")

#define AUDIT_TEXT_DATA                                                                                                          \
    "json, jsonl and csv have times in UTC (RFC 3339), and payload and error as they are, or in base64 if they are not UTF-8: "  \
    "payload_encoding and error_encoding say which. On a terminal, control characters and marks of direction are escaped. The "  \
    "command only reads the log; a sidecar may be writing to it."
#define AUDIT_TEXT_COST                                                                                                          \
    "An index finds the failures of a job, of a queue and of a time, and those with an answer while these are at most 5,000. "   \
    "All other filters read one failure after the other. If few of a million match, --reason takes a fraction of a second, "     \
    "--type, --worker, --group and --grep take a second, and --state takes a few: add --queue or --since."
#define AUDIT_EXITS  "0 ok\n1 failed\n2 wrong usage\n78 bad config\n"

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The config's group; NULL where the command reads no config.
static inline const char *audit_group(const audit_args_t *args) { return args->config ? args->config->group : NULL; }

// Finds the one event that a REF names. If there is none, or there are several, prints on stderr a message and the refs that
// match. Returns the exit code.
int audit_find_event(const audit_args_t *args, const char *word, ref_event_t *found);

// `audit stats --by`. Returns the exit code.
int stats_by_run(const audit_args_t *args);

int audit_usage_why(const audit_args_t *args, buffer_t *why); // cli_usage_error; frees *why

// Prints "queue-sidecar: WHY" on stderr and frees *why. Returns CLI_FAILED.
int audit_print_error(buffer_t *why);

// Prints on stderr that no event matches, and whether the log has the queue at all.
void audit_print_no_match(audit_t *audit, const audit_filter_t *filter);
