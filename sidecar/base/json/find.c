
#include "base/json/walk.h"

// The state of the search for one pick. Its pointer is "<way>/<segment><rest>": `way` leads to the container whose members are
// compared with the segment.
typedef struct seek {
    json_pick_t *pick;
    slice_t segment; // without its slash; the next segment follows
    bool plain;      // the pointer has no "~": the segment needs no decoding
    int depth;       // of the container; -1 = there is nothing to search for
    int matched;     // depth of the deepest key or element found so far
    int index;       // of the next element, in an array
} seek_t;

_Static_assert(JSON_MAX_PICKS < 32, "find_t.pending has a bit for each");

typedef struct find {
    json_walk_t walk;
    seek_t seeks[JSON_MAX_PICKS];
    size_t count;
    uint32_t pending; // a bit for each seek whose key or element has matched and whose value is next or not yet complete
    int depth;        // largest depth of the seeks; ignore deeper keys
} find_t;

// Takes a letter off a segment, in which "~0" and "~1" stand for "~" and "/". NUL = the segment ends here, or is bad.
static char find_take_letter(const char **segment) {
    char letter = **segment;
    if (letter == '/' || letter == '\0') return '\0';
    ++*segment;
    if (letter != '~') return letter;
    letter = *(*segment)++;
    if (letter != '0' && letter != '1') *segment -= 2;
    return letter == '0' ? '~' : letter == '1' ? '/' : '\0';
}

static void seek_set_segment(seek_t *seek, const char *segment, int depth) {
    seek->segment = (slice_t){segment, (size_t)(strchrnul(segment, '/') - segment)};
    seek->depth = depth;
}

static void find_begin(find_t *find, slice_t text, json_pick_t *picks, size_t count) {
    json_walk_begin(&find->walk, text);
    find->count = count;
    find->pending = 0;
    find->depth = 1;
    for (size_t i = 0; i < count; i++) {
        const char *pointer = picks[i].pointer;
        find->seeks[i] = (seek_t){.pick = &picks[i], .plain = !strchr(pointer, '~'), .depth = -1};
        picks[i].found = JSON_MISSING;
        if (*pointer == '/') seek_set_segment(&find->seeks[i], pointer + 1, 1);
        if (*pointer) continue;
        seek_set_segment(&find->seeks[i], pointer, 0);
        find->pending |= UINT32_C(1) << i; // "" picks the whole text
    }
}

// Compares a key, as it stands in the text, with a segment.
static bool seek_is_segment(const seek_t *seek, slice_t key, bool escaped) {
    const char *segment = seek->segment.data;
    // Comparing the first letter saves a call of memcmp for most keys.
    if (seek->plain && !escaped) return (key.len == 0 || *key.data == *segment) && slice_equal(key, seek->segment);
    for (const char *at = key.data, *end = key.data + key.len; at < end;) {
        char bytes[JSON_CHARACTER_SIZE];
        size_t len = json_take_character(&at, end, bytes);
        if (len == 0) return false;
        for (size_t i = 0; i < len; i++)
            if (bytes[i] == '\0' || find_take_letter(&segment) != bytes[i]) return false;
    }
    return *segment == '/' || *segment == '\0';
}

// Whether the segment is this index: digits without a leading zero. ("-" means behind the last element, so it finds nothing.)
static bool find_is_index(const char *segment, int index) {
    size_t digits = strspn(segment, "0123456789");
    bool whole = segment[digits] == '/' || segment[digits] == '\0';
    if (!whole || digits == 0 || digits > 9 || (*segment == '0' && digits > 1)) return false;
    int wanted = 0;
    for (size_t i = 0; i < digits; i++) wanted = wanted * 10 + segment[i] - '0';
    return wanted == index;
}

static void find_match(find_t *find, seek_t *seek) {
    seek->matched = seek->depth;
    find->pending |= UINT32_C(1) << (seek - find->seeks);
}

static void find_at_key(find_t *find, int depth) {
    slice_t key = json_unquoted(find->walk.token);
    for (seek_t *seek = find->seeks; seek < find->seeks + find->count; seek++) {
        if (seek->depth != depth || !seek_is_segment(seek, key, find->walk.escaped)) continue;
        if (seek->matched < depth) {
            find_match(find, seek);
        } else {
            seek->pick->found = JSON_BAD;
            seek->depth = -1;
        }
    }
}

// An element of an array begins.
static void find_at_element(find_t *find, int depth) {
    for (seek_t *seek = find->seeks; seek < find->seeks + find->count; seek++)
        if (seek->depth == depth && seek->matched < depth && find_is_index(seek->segment.data, seek->index++))
            find_match(find, seek);
}

// A value begins or ends.
static void find_at_value(find_t *find, json_event_t event, int depth) {
    for (uint32_t left = find->pending; left; left &= left - 1) {
        seek_t *seek = &find->seeks[__builtin_ctz(left)];
        if (seek->depth != depth) continue;
        const char *rest = seek->segment.data + seek->segment.len;
        bool last = *rest == '\0';
        if (last && event == JSON_AT_OPEN) continue;
        find->pending &= ~(left & -left);
        if (last) {
            seek->pick->value = json_token_value(find->walk.token);
            seek->pick->found = JSON_FOUND;
        } else if (event == JSON_AT_OPEN) {
            seek->index = 0;
            find->depth = depth + 1;
            seek_set_segment(seek, rest + 1, depth + 1);
        }
    }
}

// At the end of a container: moves its seeks back to the container around it.
static void find_leave(find_t *find, int depth) {
    find->depth = depth;
    for (seek_t *seek = find->seeks; seek < find->seeks + find->count; seek++) {
        if (seek->depth != depth + 1) continue;
        const char *pointer = seek->pick->pointer, *slash = seek->segment.data - 1;
        const char *before = memrchr(pointer, '/', (size_t)(slash - pointer));
        seek_set_segment(seek, before + 1, depth);
    }
}

static void find_step(find_t *find, json_event_t event) {
    int depth = find->walk.depth - (event == JSON_AT_OPEN); // of the container around the token
    if (depth > find->depth) return;
    if (event == JSON_AT_KEY) {
        find_at_key(find, depth);
        return;
    }
    if (event == JSON_AT_CLOSE && depth > 0 && depth < find->depth) find_leave(find, depth);
    if (event != JSON_AT_CLOSE && depth > 0 && *find->walk.open[depth - 1] == '[') find_at_element(find, depth);
    find_at_value(find, event, depth);
}

static bool find_run(slice_t text, json_pick_t *picks, size_t count, bool object, size_t most_tokens) {
    find_t find;
    if (count > JSON_MAX_PICKS) return false;
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
    bool good = text.len <= JSON_MAX_BYTES && find_run(text, picks, count, false, JSON_MAX_TOKENS);
    return good || find_fail(picks, count);
}

json_found_t json_find(slice_t text, const char *pointer, json_value_t *out) {
    json_pick_t pick = {.pointer = pointer};
    json_find_all(text, &pick, 1);
    if (pick.found == JSON_FOUND) *out = pick.value;
    return pick.found;
}
