// Finds the event that the user names by its ref or id.
#include <ctype.h>

#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"

enum { MAX_MATCHES = 20 };

#define REF_SYNTAX "a ref has up to 12 of a-z and 2-7, as `audit list` shows it; an event id has 64 hex digits"

typedef struct ref_search {
    char prefix[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE]; // "" = only the prefix is known
    int count;                 // of matches
    audit_found_t *found;      // one of the matches
    event_output_t table;      // of the matches; its `table` is NULL if the search only counts
} ref_search_t;

static bool ref_parse(ref_search_t *search, const char *word) {
    size_t len = strlen(word);
    bool whole = len == EVENT_ID_SIZE - 1;
    char *to = whole ? search->event : search->prefix;
    if (len == 0 || (len >= EVENT_REF_SIZE && !whole)) return false;
    for (size_t i = 0; i <= len; i++) to[i] = (char)tolower((unsigned char)word[i]);
    if (whole) return event_ref(slice_text(search->event), search->prefix);
    return strspn(search->prefix, "abcdefghijklmnopqrstuvwxyz234567") == len;
}

static bool ref_add_match(void *self, const audit_row_t *row) {
    ref_search_t *search = self;
    if (*search->event && !slice_is(row->event.event, search->event)) return true;
    search->count++;
    *search->found = (audit_found_t){.seq = row->seq, .at = row->event.at};
    if (search->table.table) event_output_add(&search->table, row);
    return true;
}

static bool ref_print_matches(const audit_args_t *args, ref_search_t *search, buffer_t *why) {
    static const event_column_t columns[] = {
        {.cell = CELL_REF, .title = "REF"},
        {.cell = CELL_TIME, .title = "AT"},
        {.cell = CELL_QUEUE, .title = "QUEUE", .wide = {.min = 8}},
        {.cell = CELL_KIND, .title = "KIND"},
        {.cell = CELL_REASON, .title = "REASON"},
        {.cell = CELL_JOB, .title = "JOB", .wide = {.min = 8, .max = 36}},
    };
    event_output_begin(&search->table, columns, COUNT(columns), 0, stderr);
    bool read = audit_find_ref(args->audit, search->prefix, MAX_MATCHES, ref_add_match, search, why);
    event_output_end(&search->table);
    return read;
}

int audit_find_event(const audit_args_t *args, const char *word, audit_found_t *found) {
    ref_search_t search = {.found = found, .table = {.utc = args->utc}};
    buffer_t why = {0};
    if (!ref_parse(&search, word)) {
        fprintf(stderr, "queue-sidecar audit: `%s` is not a ref: " REF_SYNTAX "\n", word);
        return CLI_USAGE;
    }
    if (!audit_find_ref(args->audit, search.prefix, MAX_MATCHES, ref_add_match, &search, &why)) return audit_print_error(&why);
    if (search.count == 1) return CLI_OK;
    if (search.count == 0) {
        fprintf(stderr, "queue-sidecar: no event has the ref `%s`; retention may have removed it\n", word);
        return CLI_FAILED;
    }
    fprintf(stderr, "queue-sidecar: several refs begin with `%s`: type more of it\n", word);
    return ref_print_matches(args, &search, &why) ? CLI_FAILED : audit_print_error(&why);
}
