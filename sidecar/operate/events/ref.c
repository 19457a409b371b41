#include "operate/events/ref.h"

#include <ctype.h>

enum { MAX_MATCHES = 20 };

#define REF_SYNTAX "a ref has up to 12 of a-z and 2-7, as `audit list` shows it; an event id has 64 hex digits"

typedef struct ref_search {
    char prefix[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE]; // "" = only the prefix is known
    int count;                 // of matches
    ref_event_t *found;        // one of the matches
    audit_row_fn *add;
    void *self;
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
    *search->found = (ref_event_t){.seq = row->seq, .at = event->at};
    return !search->add || search->add(search->self, row);
}

ref_result_t ref_find(audit_t *audit, const char *word, audit_row_fn *add, void *self, ref_event_t *found, buffer_t *why) {
    ref_search_t search = {.found = found, .add = add, .self = self};
    if (!ref_parse(&search, word)) {
        buffer_printf(why, "`%s` is not a ref: " REF_SYNTAX, word);
        return REF_MALFORMED;
    }
    if (!audit_find_ref(audit, search.prefix, MAX_MATCHES, ref_add_match, &search, why)) return REF_UNREADABLE;
    if (search.count == 1) return REF_FOUND;
    if (search.count == 0)
        buffer_printf(why, "no event has the ref `%s`; retention may have removed it. The filter job finds the id of a job",
                      word);
    else
        buffer_printf(why, "several refs begin with `%s`: type more of it", word);
    return search.count ? REF_AMBIGUOUS : REF_UNKNOWN;
}
