#include <ctype.h>

#include "cli/audit/audit.h"

bool audit_ref_parse(const char *word, audit_ref_t *out) {
    size_t len = strlen(word);
    bool whole = len == EVENT_ID_SIZE - 1;
    char *to = whole ? out->event : out->prefix;
    *out = (audit_ref_t){.prefix = ""};
    if (len == 0 || (len >= EVENT_REF_SIZE && !whole)) return false;
    for (size_t i = 0; i <= len; i++) to[i] = (char)tolower((unsigned char)word[i]);
    if (whole) return event_ref(slice_text(out->event), out->prefix);
    return strspn(out->prefix, "abcdefghijklmnopqrstuvwxyz234567") == len;
}
