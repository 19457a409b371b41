// queue-sidecar audit: what its subcommands share.
#ifndef QS_CLI_AUDIT_H
#define QS_CLI_AUDIT_H

#include "audit/query.h"
#include "cli/cli.h"

typedef enum audit_format { FORMAT_TABLE, FORMAT_JSON_ARRAY, FORMAT_JSON_LINES, FORMAT_CSV } audit_format_t;

typedef struct audit_ask {
    audit_t *audit;
    audit_filter_t filter;
    audit_format_t format;
    bool utc;         // times of tables; those of other formats are always UTC
    bool limit_given; // else filter.limit is 0
    const char *ref;  // of show
} audit_ask_t;

// Each prints to standard output and returns an exit code.
int audit_print_list(audit_ask_t *ask);
int audit_print_one(audit_ask_t *ask);
int audit_print_stats(audit_ask_t *ask);

// "queue-sidecar: TEXT" on standard error; returns CLI_FAILED. Takes what is in why.
int audit_complain(buffer_t *why);

// One event in a format for programs: all columns, one JSON object or one CSV record without the end of the line.
void audit_row_json(buffer_t *out, const audit_row_t *row);
void audit_row_csv(buffer_t *out, const audit_row_t *row);
void audit_csv_titles(buffer_t *out);

// Prints a number with marks between thousands into text: 1,234,567.
enum { NUMBER_SIZE = 32 };
slice_t audit_number_text(int64_t number, char text[NUMBER_SIZE]);

#endif
