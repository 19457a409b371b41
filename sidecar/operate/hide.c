#include "operate/hide.h"

#include "base/json/json.h"

_Static_assert((int)HIDE_MAX <= (int)JSON_MAX_PICKS, "one json_pick finds all pointers");

// False: the text is no good object or array, or has a key of a pointer twice.
static bool hide_find(slice_t payload, json_pick_t *picks, size_t count) {
    if (json_pick(payload, picks, count)) return true;
    size_t space = 0;
    while (space < payload.len && strchr(" \t\r\n", payload.data[space]) && payload.data[space]) space++;
    if (space == payload.len || payload.data[space] != '[' || !json_find_all(payload, picks, count)) return false;
    for (size_t i = 0; i < count; i++)
        if (picks[i].found == JSON_BAD) return false;
    return true;
}

// Whether another value that is cut contains this one.
static bool hide_is_inside(const json_pick_t *picks, size_t count, size_t at) {
    slice_t inner = picks[at].value.raw;
    for (size_t i = 0; i < count; i++) {
        slice_t outer = picks[i].value.raw;
        if (i == at || picks[i].found != JSON_FOUND || inner.data < outer.data || inner.data + inner.len > outer.data + outer.len)
            continue;
        if (inner.len < outer.len || i < at) return true;
    }
    return false;
}

slice_t hide_payload(const strings_t *pointers, slice_t payload, buffer_t *memory) {
    json_pick_t picks[JSON_MAX_PICKS];
    json_cut_t cuts[JSON_MAX_PICKS];
    size_t count = 0;
    if (!pointers->count) return payload;
    if (pointers->count > HIDE_MAX) return slice_text(HIDDEN);
    for (size_t i = 0; i < pointers->count; i++) picks[i] = (json_pick_t){.pointer = pointers->items[i]};
    if (!hide_find(payload, picks, pointers->count)) return slice_text(HIDDEN);
    for (size_t i = 0; i < pointers->count; i++) {
        if (picks[i].found != JSON_FOUND || hide_is_inside(picks, pointers->count, i)) continue;
        bool text = picks[i].value.type == JSON_STRING;
        cuts[count++] = (json_cut_t){picks[i].value.raw, slice_text(text ? HIDDEN : "\"" HIDDEN "\"")};
    }
    if (!count) return payload;
    if (!json_splice(payload, cuts, count, memory)) return slice_text(HIDDEN);
    return (slice_t){memory->data, memory->len};
}
