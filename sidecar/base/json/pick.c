#include "base/json/pick.h"

#include <string.h>

#include "base/json/scan.h"

typedef uint32_t mask_t; // a bit for each pick
_Static_assert(JSON_MOST_PICKS < 32, "a mask has a bit for each pick");

enum { LETTERS = 32 };

// A pick under way. Depth 1 is the outermost object, depth 2 what is right in it.
typedef struct hunt {
    json_pick_t *picks;
    size_t count;
    json_scan_t scan;
    mask_t outers;  // whose outer key was met
    mask_t inside;  // whose outer key the member under way of the outermost object has
    mask_t next[3]; // by depth: whose value comes next there
    // By depth and the low bits of the first letter of a key: who may be wanted. Spares most keys any comparison.
    mask_t letters[3][LETTERS];
} hunt_t;

static bool spells(slice_t raw, const char *name) {
    const char *end = raw.data + raw.len;
    for (const char *at = raw.data; at < end; name++) {
        unsigned unit = *at == '\\' ? json_take_escape(&at) : (unsigned char)*at++;
        if (unit != (unsigned char)*name || unit == 0) return false;
    }
    return *name == '\0';
}

// Whether the key that the scan is at is `name`, whatever its escapes. A NUL byte or half a character equals nothing.
static bool key_is(const json_scan_t *scan, const char *name) {
    slice_t raw = json_unquoted(scan->token);
    return scan->escaped ? spells(raw, name) : slice_is(raw, name);
}

static mask_t bit(size_t pick) { return (mask_t)1 << pick; }

// Takes one of the mask. There must be one.
static size_t take_lowest(mask_t *mask) {
    size_t lowest = (size_t)__builtin_ctz(*mask);
    *mask &= *mask - 1;
    return lowest;
}

static mask_t *letter(hunt_t *hunt, int depth, char first) { return &hunt->letters[depth][(unsigned char)first % LETTERS]; }

static void prepare(hunt_t *hunt) {
    for (size_t i = 0; i < hunt->count; i++) {
        json_pick_t *pick = &hunt->picks[i];
        pick->found = JSON_MISSING;
        *letter(hunt, 1, pick->outer ? *pick->outer : *pick->key) |= bit(i);
        if (pick->outer) *letter(hunt, 2, *pick->key) |= bit(i);
    }
}

// Whose key the scan may be at. An empty key begins with the NUL byte of its name.
static mask_t candidates(hunt_t *hunt, int depth) {
    slice_t raw = json_unquoted(hunt->scan.token);
    if (hunt->scan.escaped) return bit(hunt->count) - 1;
    return *letter(hunt, depth, raw.len ? *raw.data : '\0');
}

// The key of this pick: its value comes next at that depth. False: it was seen before.
static bool expect(hunt_t *hunt, size_t pick, int depth) {
    hunt->next[depth] |= bit(pick);
    return hunt->picks[pick].found == JSON_MISSING;
}

// A key of the outermost object. False: a wanted one stands twice.
static bool see_key(hunt_t *hunt) {
    hunt->inside = 0;
    for (mask_t left = candidates(hunt, 1); left;) {
        size_t i = take_lowest(&left);
        const char *outer = hunt->picks[i].outer;
        if (!key_is(&hunt->scan, outer ? outer : hunt->picks[i].key)) continue;
        if (outer) hunt->inside |= bit(i);
        if (!outer && !expect(hunt, i, 1)) return false;
    }
    bool once = (hunt->outers & hunt->inside) == 0;
    hunt->outers |= hunt->inside;
    return once;
}

// A key of an object in it.
static bool see_inner_key(hunt_t *hunt) {
    if (!hunt->inside) return true;
    for (mask_t left = candidates(hunt, 2) & hunt->inside; left;) {
        size_t i = take_lowest(&left);
        if (key_is(&hunt->scan, hunt->picks[i].key) && !expect(hunt, i, 2)) return false;
    }
    return true;
}

// A whole value, right in the outermost object or in a container in it.
static void see_value(hunt_t *hunt, int depth) {
    for (mask_t *next = &hunt->next[depth]; *next;) {
        json_pick_t *pick = &hunt->picks[take_lowest(next)];
        pick->value = json_scan_value(hunt->scan.token);
        pick->found = JSON_FOUND;
    }
}

static bool find(hunt_t *hunt) {
    json_scan_t *scan = &hunt->scan;
    if (json_scan_next(scan) != JSON_AT_OPEN || *scan->token.data != '{') return false;
    for (;;) {
        json_event_t event = json_scan_next(scan);
        if (event == JSON_AT_BAD || event == JSON_AT_END) return event == JSON_AT_END;
        if (scan->depth < 1 || scan->depth > 2 || event == JSON_AT_OPEN) continue;
        if (event != JSON_AT_KEY) {
            see_value(hunt, scan->depth);
        } else if (!(scan->depth == 1 ? see_key(hunt) : see_inner_key(hunt))) {
            return false;
        }
    }
}

bool json_pick(slice_t text, json_pick_t *picks, size_t count) {
    bool good = false;
    if (count <= JSON_MOST_PICKS) {
        hunt_t hunt = {.picks = picks, .count = count};
        prepare(&hunt);
        json_scan_begin(&hunt.scan, text);
        good = find(&hunt);
    }
    for (size_t i = 0; i < count && !good; i++) picks[i].found = JSON_BAD;
    return good;
}

bool json_integer(slice_t raw, int64_t *out) {
    bool negative = raw.len > 0 && *raw.data == '-';
    size_t first = negative;
    if (raw.len == first || (raw.data[first] == '0' && raw.len > first + 1)) return false;
    int64_t value = 0;
    for (size_t i = first; i < raw.len; i++) {
        if (raw.data[i] < '0' || raw.data[i] > '9') return false;
        int digit = raw.data[i] - '0';
        // Below zero there is one number more.
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value)) return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

static void sort_cuts(json_cut_t *cuts, size_t count) {
    for (size_t i = 1; i < count; i++) {
        json_cut_t cut = cuts[i];
        size_t to = i;
        for (; to > 0 && cuts[to - 1].raw.data > cut.raw.data; to--) cuts[to] = cuts[to - 1];
        cuts[to] = cut;
    }
}

static bool lies_in(slice_t text, slice_t raw) {
    uintptr_t at = (uintptr_t)raw.data - (uintptr_t)text.data; // what lies before the text becomes large
    return at <= text.len && raw.len <= text.len - at;
}

bool json_splice(slice_t text, json_cut_t *cuts, size_t count, buffer_t *out) {
    for (size_t i = 0; i < count; i++)
        if (!lies_in(text, cuts[i].raw)) return false;
    sort_cuts(cuts, count);
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
