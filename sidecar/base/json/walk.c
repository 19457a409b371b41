#include "base/json/walk.h"

#include <endian.h>

#include "base/utf8.h"

void json_walk_begin(json_walk_t *walk, slice_t text) {
    const char *data = text.len ? text.data : "";
    walk->at = data;
    walk->end = data + text.len;
    walk->want = JSON_WANT_VALUE;
    walk->depth = 0;
    walk->token = (slice_t){data, 0};
}

static json_event_t walk_fail(json_walk_t *walk) {
    walk->want = JSON_WANT_NOTHING;
    return JSON_AT_BAD;
}

// Returns NUL at the end too: a NUL byte is bad anywhere.
static char walk_peek(const json_walk_t *walk) { return walk->at < walk->end ? *walk->at : '\0'; }

static bool walk_take(json_walk_t *walk, char byte) {
    if (walk->at == walk->end || *walk->at != byte) return false;
    walk->at++;
    return true;
}

static void walk_skip_space(json_walk_t *walk) {
    const char *at = walk->at, *end = walk->end;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    walk->at = at;
}

static bool walk_take_word(json_walk_t *walk, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(walk->end - walk->at) < len || memcmp(walk->at, word, len) != 0) return false;
    walk->at += len;
    return true;
}

static bool walk_take_digits(json_walk_t *walk) {
    const char *at = walk->at, *end = walk->end;
    while (at < end && *at >= '0' && *at <= '9') at++;
    bool any = at > walk->at;
    walk->at = at;
    return any;
}

static bool walk_take_number(json_walk_t *walk) {
    walk_take(walk, '-');
    if (!walk_take(walk, '0') && !walk_take_digits(walk)) return false;
    if (walk_take(walk, '.') && !walk_take_digits(walk)) return false;
    if (!walk_take(walk, 'e') && !walk_take(walk, 'E')) return true;
    if (!walk_take(walk, '+')) walk_take(walk, '-');
    return walk_take_digits(walk);
}

// Length of the escape at the backslash `at`; 0 = it is bad.
static size_t walk_escape_length(const char *at, const char *end) {
    switch (end - at < 2 ? '\0' : at[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return 2;
    case 'u': break;
    default: return 0;
    }
    if (end - at < 6) return 0;
    for (int i = 2; i < 6; i++)
        if (hex_digit(at[i]) < 0) return 0;
    return 6;
}

// A plain byte is ASCII, but no quote, no backslash, no control byte.
static bool walk_is_plain(char byte) { return (unsigned char)(byte - 0x20) < 0x60 && byte != '"' && byte != '\\'; }

// Tests 8 bytes at once: the lowest top bit that is set belongs to the first byte that is not plain; 0 = all are plain. (The
// subtraction sets wrong bits only above a byte that is not plain.)
static uint64_t walk_odd_bytes(const char *at) {
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word = le64toh(word);
    uint64_t quote = word ^ (each * '"'), backslash = word ^ (each * '\\');
    return (word | (word - each * 0x20) | (quote - each) | (backslash - each)) & (each * 0x80);
}

static const char *walk_skip_plain(const char *at, const char *end) {
    for (; end - at >= 8; at += 8) {
        uint64_t odd = walk_odd_bytes(at);
        if (odd) return at + __builtin_ctzll(odd) / 8;
    }
    while (at < end && walk_is_plain(*at)) at++;
    return at;
}

static bool walk_take_string(json_walk_t *walk) {
    const char *end = walk->end;
    walk->escaped = false;
    for (const char *at = walk->at + 1;;) {
        at = walk_skip_plain(at, end);
        if (at == end || (unsigned char)*at < 0x20) return false;
        if (*at == '"') {
            walk->at = at + 1;
            return true;
        }
        bool escape = *at == '\\';
        walk->escaped |= escape;
        size_t len = escape ? walk_escape_length(at, end) : utf8_sequence(at, (size_t)(end - at));
        if (len == 0) return false;
        at += len;
    }
}

static bool walk_take_scalar(json_walk_t *walk) {
    switch (walk_peek(walk)) {
    case '"': return walk_take_string(walk);
    case 't': return walk_take_word(walk, "true");
    case 'f': return walk_take_word(walk, "false");
    case 'n': return walk_take_word(walk, "null");
    default: return walk_take_number(walk);
    }
}

static void walk_set_token(json_walk_t *walk, const char *from) { walk->token = (slice_t){from, (size_t)(walk->at - from)}; }

static json_event_t walk_take_value(json_walk_t *walk) {
    const char *from = walk->at;
    if (walk_peek(walk) == '{' || walk_peek(walk) == '[') {
        if (walk->depth == JSON_MAX_DEPTH) return walk_fail(walk);
        walk->open[walk->depth++] = walk->at++;
        walk->want = JSON_WANT_FIRST;
    } else {
        if (!walk_take_scalar(walk)) return walk_fail(walk);
        walk->want = JSON_WANT_NEXT;
    }
    walk_set_token(walk, from);
    return walk->want == JSON_WANT_FIRST ? JSON_AT_OPEN : JSON_AT_VALUE;
}

// Takes a value of the open array, or a key of the open object with its colon.
static json_event_t walk_take_member(json_walk_t *walk) {
    if (!json_walk_in_object(walk)) return walk_take_value(walk);
    const char *from = walk->at;
    if (walk_peek(walk) != '"' || !walk_take_string(walk)) return walk_fail(walk);
    walk_set_token(walk, from);
    walk_skip_space(walk);
    if (!walk_take(walk, ':')) return walk_fail(walk);
    walk->want = JSON_WANT_VALUE;
    return JSON_AT_KEY;
}

static json_event_t walk_take_close(json_walk_t *walk) {
    if (!walk_take(walk, json_walk_in_object(walk) ? '}' : ']')) return walk_fail(walk);
    walk_set_token(walk, walk->open[--walk->depth]);
    walk->want = JSON_WANT_NEXT;
    return JSON_AT_CLOSE;
}

json_event_t json_walk_next(json_walk_t *walk) {
    walk_skip_space(walk);
    switch (walk->want) {
    case JSON_WANT_VALUE: return walk_take_value(walk);
    case JSON_WANT_FIRST:
        return walk_peek(walk) == (json_walk_in_object(walk) ? '}' : ']') ? walk_take_close(walk) : walk_take_member(walk);
    case JSON_WANT_NEXT: break;
    case JSON_WANT_NOTHING: return JSON_AT_BAD;
    }
    if (walk->depth == 0) return walk->at == walk->end ? JSON_AT_END : walk_fail(walk);
    if (!walk_take(walk, ',')) return walk_take_close(walk);
    walk_skip_space(walk);
    return walk_take_member(walk);
}

json_value_t json_token_value(slice_t token) {
    slice_t raw = json_unquoted(token);
    switch (*token.data) {
    case '"': return (json_value_t){JSON_STRING, raw};
    case '{': return (json_value_t){JSON_OBJECT, raw};
    case '[': return (json_value_t){JSON_ARRAY, raw};
    case 't':
    case 'f': return (json_value_t){JSON_BOOL, raw};
    case 'n': return (json_value_t){JSON_NULL, raw};
    default: return (json_value_t){JSON_NUMBER, raw};
    }
}
