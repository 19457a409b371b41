#include "base/json/json.h"

#include <stdlib.h>

static int splice_order(const void *left, const void *right) {
    const json_cut_t *a = left, *b = right;
    return (a->raw.data > b->raw.data) - (a->raw.data < b->raw.data);
}

static bool splice_lies_in(slice_t text, slice_t raw) {
    uintptr_t at = (uintptr_t)raw.data - (uintptr_t)text.data; // before the text it wraps to a large number
    return at <= text.len && raw.len <= text.len - at;
}

bool json_splice(slice_t text, json_cut_t *cuts, size_t count, buffer_t *out) {
    for (size_t i = 0; i < count; i++)
        if (!splice_lies_in(text, cuts[i].raw)) return false;
    if (count) qsort(cuts, count, sizeof *cuts, splice_order);
    for (size_t i = 1; i < count; i++)
        if (cuts[i].raw.data <= cuts[i - 1].raw.data + cuts[i - 1].raw.len) return false;
    const char *at = text.data;
    for (size_t i = 0; i < count; i++) {
        buffer_add(out, at, (size_t)(cuts[i].raw.data - at));
        buffer_add(out, cuts[i].with.data, cuts[i].with.len);
        at = cuts[i].raw.data + cuts[i].raw.len;
    }
    buffer_add(out, at, text.len - (size_t)(at - text.data));
    return true;
}
