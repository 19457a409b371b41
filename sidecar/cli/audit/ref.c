// Finds the event that a person names.
#include <ctype.h>
#include <stdio.h>

#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"

enum { MAX_CANDIDATES = 20 };

#define REF_SYNTAX "a ref has up to 12 of a-z and 2-7, as `audit list` shows it; an event id has 64 hex digits"

typedef struct ref_search {
    char prefix[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE]; // "" = only the prefix is known
    audit_ref_match_t *match;
    event_output_t *table; // of candidates; NULL = just count them
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

static bool ref_add_candidate(void *self, const audit_row_t *row) {
    ref_search_t *search = self;
    if (*search->event && !slice_is(row->event.event, search->event)) return true;
    if (search->table) {
        event_output_add(search->table, row);
        return true;
    }
    search->match->count++;
    search->match->seq = row->seq;
    search->match->at = row->event.at;
    return true;
}

static bool ref_print_candidates(audit_t *audit, ref_search_t *search, bool utc, buffer_t *why) {
    static const event_column_t columns[] = {
        {.cell = CELL_REF, .title = "REF"},
        {.cell = CELL_TIME, .title = "AT"},
        {.cell = CELL_QUEUE, .title = "QUEUE", .wide = {.min = 8}},
        {.cell = CELL_KIND, .title = "KIND"},
        {.cell = CELL_REASON, .title = "REASON"},
        {.cell = CELL_JOB, .title = "JOB", .wide = {.min = 8, .max = 36}},
    };
    event_output_t table = {.utc = utc};
    search->table = &table;
    event_output_begin(&table, columns, COUNT(columns), 0, stderr);
    bool done = audit_find_ref(audit, search->prefix, MAX_CANDIDATES, ref_add_candidate, search, why);
    event_output_end(&table);
    search->table = NULL;
    return done;
}

bool audit_ref_find(audit_t *audit, const char *word, bool utc, audit_ref_match_t *match, buffer_t *why) {
    ref_search_t search = {.match = match};
    *match = (audit_ref_match_t){.is_ref = ref_parse(&search, word)};
    if (!match->is_ref) {
        fprintf(stderr, "queue-sidecar audit: `%s` is not a ref: " REF_SYNTAX "\n", word);
        return true;
    }
    if (!audit_find_ref(audit, search.prefix, MAX_CANDIDATES, ref_add_candidate, &search, why)) return false;
    if (match->count == 0) fprintf(stderr, "queue-sidecar: no event has the ref `%s`; retention may have removed it\n", word);
    if (match->count <= 1) return true;
    fprintf(stderr, "queue-sidecar: several refs begin with `%s`: type more of it\n", word);
    return ref_print_candidates(audit, &search, utc, why);
}
