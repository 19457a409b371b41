#include <string.h>

#include "base/json/walk.h"

// Where the search for one pick stands. Its pointer is "<met>/<segment><rest>": `met` leads to the container whose members are
// compared with the segment.
typedef struct seek {
    json_pick_t *pick;
    const char *segment; // behind its slash
    const char *rest;    // "" = the segment is the last one
    int depth;           // of the container; -1 = there is nothing to search for
    int met;             // the depth of the deepest key or element that was met
    int index;           // of the next element, in an array
    bool pending;        // the value of the segment is the next one, or under way
} seek_t;

typedef struct find {
    json_walk_t walk;
    seek_t seeks[JSON_MOST_PICKS];
    size_t count;
    int depth;   // the deepest one of a seek: nothing behind it matters
    int pending; // seeks whose value is next or under way
} find_t;

static const char *find_segment_end(const char *segment) { return segment + strcspn(segment, "/"); }

static void find_begin(find_t *find, slice_t text, json_pick_t *picks, size_t count) {
    json_walk_begin(&find->walk, text);
    find->count = count;
    find->depth = find->pending = 0;
    for (size_t i = 0; i < count; i++) {
        const char *pointer = picks[i].pointer;
        bool valid = *pointer == '/' || *pointer == '\0';
        find->seeks[i] =
            (seek_t){.pick = &picks[i], .segment = pointer, .rest = pointer, .depth = valid ? 0 : -1, .pending = valid};
        find->pending += valid;
        picks[i].found = JSON_MISSING;
    }
}

// Compares a key, as it stands in the text, with a segment, in which "~0" and "~1" stand for "~" and "/".
static bool find_is_segment(slice_t key, const char *segment) {
    const char *at = key.data, *end = key.data + key.len;
    while (at < end) {
        char bytes[JSON_CHARACTER_SIZE];
        size_t len = json_take_character(&at, end, bytes);
        if (len == 0) return false;
        for (size_t i = 0; i < len; i++) {
            char wanted = *segment++;
            if (wanted == '/' || wanted == '\0') return false;
            if (wanted == '~') {
                if (*segment != '0' && *segment != '1') return false;
                wanted = *segment++ == '0' ? '~' : '/';
            }
            if (bytes[i] != wanted) return false;
        }
    }
    return *segment == '/' || *segment == '\0';
}

// Digits without a leading zero ("-" is the place behind the last element, where nothing is).
static bool find_is_index(const char *segment, int index) {
    size_t digits = strspn(segment, "0123456789");
    if (digits == 0 || digits > 9 || (*segment == '0' && digits > 1) || segment + digits != find_segment_end(segment))
        return false;
    int wanted = 0;
    for (size_t i = 0; i < digits; i++) wanted = wanted * 10 + segment[i] - '0';
    return wanted == index;
}

// The value of the segment comes next.
static void find_meet(find_t *find, seek_t *seek) {
    seek->met = seek->depth;
    seek->rest = find_segment_end(seek->segment);
    seek->pending = true;
    find->pending++;
}

static void find_settle(find_t *find, seek_t *seek) {
    seek->pending = false;
    find->pending--;
}

static void find_at_key(find_t *find, int depth) {
    slice_t key = json_unquoted(find->walk.token);
    char first = key.len ? *key.data : '\0';
    for (size_t i = 0; i < find->count; i++) {
        seek_t *seek = &find->seeks[i];
        if (seek->depth != depth) continue;
        if (first != *seek->segment && first != '\\' && key.len && *seek->segment != '~') continue;
        if (!find_is_segment(key, seek->segment)) continue;
        if (seek->met < depth) {
            find_meet(find, seek);
        } else {
            seek->pick->found = JSON_BAD;
            seek->depth = -1;
        }
    }
}

// An element of an array begins.
static void find_at_element(find_t *find, int depth) {
    for (size_t i = 0; i < find->count; i++) {
        seek_t *seek = &find->seeks[i];
        if (seek->depth == depth && seek->met < depth && find_is_index(seek->segment, seek->index++)) find_meet(find, seek);
    }
}

// A value begins, or is whole.
static void find_at_value(find_t *find, json_event_t event, int depth) {
    for (size_t i = 0; i < find->count; i++) {
        seek_t *seek = &find->seeks[i];
        if (!seek->pending || seek->depth != depth) continue;
        if (*seek->rest && event == JSON_AT_OPEN) { // into the container
            seek->segment = seek->rest + 1;
            seek->index = 0;
            seek->depth = find->depth = depth + 1;
            find_settle(find, seek);
        } else if (event != JSON_AT_OPEN) {
            if (!*seek->rest) {
                seek->pick->value = json_token_value(find->walk.token);
                seek->pick->found = JSON_FOUND;
            }
            find_settle(find, seek);
        }
    }
}

// A container ended in which the seeks are: back to the one around it.
static void find_leave(find_t *find, int depth) {
    find->depth = depth;
    for (size_t i = 0; i < find->count; i++) {
        seek_t *seek = &find->seeks[i];
        if (seek->depth != depth + 1) continue;
        seek->depth = depth;
        for (seek->segment--; seek->segment > seek->pick->pointer && seek->segment[-1] != '/';) seek->segment--;
    }
}

static void find_step(find_t *find, json_event_t event) {
    int depth = find->walk.depth - (event == JSON_AT_OPEN); // of the container around the token
    if (depth > find->depth) return;
    if (event == JSON_AT_KEY) {
        find_at_key(find, depth);
        return;
    }
    if (event != JSON_AT_CLOSE && depth > 0 && *find->walk.open[depth - 1] == '[') find_at_element(find, depth);
    if (event == JSON_AT_CLOSE && depth < find->depth) find_leave(find, depth);
    if (find->pending) find_at_value(find, event, depth);
}

static bool find_run(slice_t text, json_pick_t *picks, size_t count, bool object, size_t most_tokens) {
    find_t find;
    if (count > JSON_MOST_PICKS) return false;
    find_begin(&find, text, picks, count);
    for (size_t tokens = 0;;) {
        json_event_t event = json_walk_next(&find.walk);
        if (event == JSON_AT_BAD || event == JSON_AT_END) return event == JSON_AT_END;
        if (object && *find.walk.token.data != '{') return false;
        object = false;
        if (event != JSON_AT_CLOSE && ++tokens > most_tokens) return false;
        find_step(&find, event);
    }
}

static bool find_fail(json_pick_t *picks, size_t count) {
    for (size_t i = 0; i < count; i++) picks[i].found = JSON_BAD;
    return false;
}

bool json_pick(slice_t text, json_pick_t *picks, size_t count) {
    if (!find_run(text, picks, count, true, SIZE_MAX)) return find_fail(picks, count);
    for (size_t i = 0; i < count; i++)
        if (picks[i].found == JSON_BAD) return find_fail(picks, count);
    return true;
}

bool json_find_all(slice_t text, json_pick_t *picks, size_t count) {
    bool good = text.len <= JSON_MOST_BYTES && find_run(text, picks, count, false, JSON_MOST_TOKENS);
    return good || find_fail(picks, count);
}

json_found_t json_find(slice_t text, const char *pointer, json_value_t *out) {
    json_pick_t pick = {.pointer = pointer};
    json_find_all(text, &pick, 1);
    if (pick.found == JSON_FOUND) *out = pick.value;
    return pick.found;
}
