// queue-sidecar audit: what its subcommands share.
#ifndef QS_CLI_AUDIT_H
#define QS_CLI_AUDIT_H

#include "audit/query.h"
#include "cli/cli.h"

typedef enum audit_format { FORMAT_TABLE, FORMAT_JSON_ARRAY, FORMAT_JSON_LINES, FORMAT_CSV } audit_format_t;

typedef struct audit_ask {
    audit_t *audit;         // open for reading where the subcommand has OPENS_LOG; borrowed
    const char *path;       // of the log; borrowed
    const config_t *config; // NULL where --db names the log and the subcommand needs no config; borrowed
    audit_filter_t filter;
    audit_format_t format;
    bool utc;          // times of tables, and times without a zone in filters; those of other formats are always UTC
    bool limit_given;  // else filter.limit is 0
    bool force;        // an existing file may be replaced
    bool filtered;     // one of the filters was given
    cli_words_t words; // those that are no options: refs, files
    struct {           // of requeue and discard; texts are NULL where they were not given
        bool where, again, dry_run, yes;
        const char *by, *because, *reason, *to, *rate;
    } answer;
} audit_ask_t;

// What a subcommand takes besides -c and --db, and what it wants to be there.
typedef enum audit_takes {
    TAKES_FILTERS = 1 << 0, // --queue, --reason or --failed-by, --since, --until, --grep, --utc
    TAKES_LIMIT = 1 << 1,
    TAKES_FORMAT = 1 << 2, // one of `formats`
    TAKES_UTC = 1 << 3,
    TAKES_KIND = 1 << 4, // --kind, --all-kinds
    TAKES_FORCE = 1 << 5,
    OPENS_LOG = 1 << 6,    // for reading; else it opens ask->path by itself
    NEEDS_CONFIG = 1 << 7, // reads one even where --db names the log
    TAKES_ANSWER = 1 << 8, // --where, --because, --by, --again, --rate, --dry-run, --yes; --reason is a text like --because
    TAKES_TARGET = 1 << 9, // --to
} audit_takes_t;

// A new subcommand is a row of audit.c and a file of its own, a new option a row of its table of options.
typedef struct audit_command {
    const char *name;
    const char *help;             // examples first
    unsigned takes;               // audit_takes_t, together
    unsigned formats;             // 1 << FORMAT_..., together
    audit_format_t form;          // if not told
    size_t least, most;           // words that are no options
    const char *missing;          // what is said when there are fewer
    int (*run)(audit_ask_t *ask); // returns an exit code
} audit_command_t;

// Each prints to standard output and returns an exit code.
int audit_print_list(audit_ask_t *ask);
int audit_print_one(audit_ask_t *ask);
int audit_print_stats(audit_ask_t *ask);
int audit_requeue(audit_ask_t *ask);
int audit_discard(audit_ask_t *ask);
int audit_run_export(audit_ask_t *ask);
int audit_run_import(audit_ask_t *ask);
int audit_run_backup(audit_ask_t *ask);
int audit_run_tail(audit_ask_t *ask);

// Pieces of help texts.
#define AUDIT_HELP_LOG                                                                                                           \
    "  -c, --config FILE   whose audit.path is asked; otherwise QUEUE_SIDECAR_CONFIG, otherwise the usual place\n"               \
    "      --db PATH       the audit log itself; no config is read\n"
#define AUDIT_HELP_FILTERS                                                                                                       \
    "  -q, --queue NAME    of this queue\n"                                                                                      \
    "  -r, --reason NAME   retries_exhausted, reported, alive_timeout, unreadable, invalid_target, dead_letter, worker_failed\n" \
    "                      (--failed-by is the same, and what `requeue` and `discard` call it)\n"                                \
    "      --since TIME    at or after: 90s, 30m, 2h, 7d, 1w ago, or 2026-11-21, 2026-11-21T02:00, 2026-11-21T02:00:00Z\n"       \
    "      --until TIME    before\n"                                                                                             \
    "  -g, --grep TEXT     with these bytes in the error, the payload or the job id\n"                                           \
    "      --utc           times without a zone are UTC instead of local time, in tables too\n"
#define AUDIT_HELP_FORMATS "  -o, --output FORMAT table, json (one array or object), jsonl (an object a line), csv (RFC 4180)\n"
#define AUDIT_HELP_DATA                                                                                                          \
    "json, jsonl and csv: times in UTC by RFC 3339; payload and error as they are, or in base64 where they are no UTF-8, as\n"   \
    "payload_encoding and error_encoding say. The log is only read: this may run beside a sidecar, and on any copy of it.\n"
#define AUDIT_HELP_EXIT "Exit codes: 0 ok; 1 failed; 2 wrong usage; 78 bad config.\n"

#define AUDIT_HELP_KIND                                                                                                          \
    "      --kind KIND     failed, retried, requeued, discarded, gap or filled\n"                                                \
    "      --all-kinds     events of all kinds\n"
#define AUDIT_HELP_FORCE "      --force         replaces an existing file\n"

extern const char audit_list_help[];
extern const char audit_show_help[];
extern const char audit_stats_help[];
extern const char audit_export_help[];
extern const char audit_import_help[];
extern const char audit_backup_help[];
extern const char audit_tail_help[];
extern const char audit_requeue_help[];
extern const char audit_discard_help[];

// What people type for an event: the beginning of its ref, or the whole of its id; capitals are fine.
#define AUDIT_REF_IS "up to 12 of a-z and 2-7, as `audit list` shows them, or the 64 hex digits of an event id"
typedef struct audit_ref {
    char prefix[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE]; // "" = it is known by the prefix only
} audit_ref_t;
bool audit_ref_read(const char *word, audit_ref_t *out);

bool audit_is_reason(const char *word); // of a failure

// "queue-sidecar: TEXT" on standard error; returns CLI_FAILED. Takes what is in why.
int audit_complain(buffer_t *why);

// Nothing was found: says so, and whether the queue may be misspelt.
void audit_explain_nothing(audit_t *audit, const audit_filter_t *filter);

// One event in a format for programs: all columns, one JSON object or one CSV record without the end of the line.
void audit_row_json(buffer_t *out, const audit_row_t *row);
void audit_row_csv(buffer_t *out, const audit_row_t *row);
void audit_csv_titles(buffer_t *out);

// Prints a number with marks between thousands into text: 1,234,567.
enum { NUMBER_SIZE = 32 };
slice_t audit_number_text(int64_t number, char text[NUMBER_SIZE]);

#endif
