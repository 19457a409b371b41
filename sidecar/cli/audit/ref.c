// Finds the event that the user names by its ref or id.
#include <ctype.h>

#include "cli/audit/audit.h"
#include "cli/terminal.h"
#include "cli/time_text.h"

enum { MAX_MATCHES = 20 };

#define REF_SYNTAX "a ref has up to 12 of a-z and 2-7, as `audit list` shows it; an event id has 64 hex digits"

typedef struct ref_search {
    bool utc;
    char prefix[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE]; // "" = only the prefix is known
    int count;                 // of matches
    audit_found_t *found;      // one of the matches
    buffer_t matches;          // a line each; owned
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
    const event_t *event = &row->event;
    if (*search->event && !slice_is(event->event, search->event)) return true;
    search->count++;
    *search->found = (audit_found_t){.seq = row->seq, .at = event->at};
    buffer_printf(&search->matches, "\n%.*s  %s  %.*s  ", (int)row->ref.len, row->ref.data,
                  time_text(event->at, search->utc, TIME_SECONDS).text, (int)event->kind.len, event->kind.data);
    terminal_escape(&search->matches, event->queue, false);
    buffer_str(&search->matches, "  ");
    terminal_escape(&search->matches, event->job, false);
    return true;
}

int audit_find_event(const audit_args_t *args, const char *word, audit_found_t *found) {
    ref_search_t search = {.found = found, .utc = args->utc};
    buffer_t why = {0};
    if (!ref_parse(&search, word)) {
        fprintf(stderr, "queue-sidecar audit: `%s` is not a ref: " REF_SYNTAX "\n", word);
        return CLI_USAGE;
    }
    bool read = audit_find_ref(args->audit, search.prefix, MAX_MATCHES, ref_add_match, &search, &why);
    if (read && search.count == 0)
        buffer_printf(&why, "no event has the ref `%s`; retention may have removed it", word);
    else if (read && search.count > 1)
        buffer_printf(&why, "several refs begin with `%s`: type more of it%s", word, buffer_text(&search.matches));
    buffer_free(&search.matches);
    return why.len ? audit_print_error(&why) : CLI_OK;
}
