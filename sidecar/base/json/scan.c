#include "base/json/scan.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

void json_scan_begin(json_scan_t *scan, slice_t text) {
    const char *data = text.len ? text.data : "";
    scan->at = data;
    scan->end = data + text.len;
    scan->want = JSON_WANT_VALUE;
    scan->depth = 0;
    scan->token = (slice_t){data, 0};
}

static json_event_t bad(json_scan_t *scan) {
    scan->want = JSON_WANT_NOTHING;
    return JSON_AT_BAD;
}

// A NUL byte and the end look alike: neither is good anywhere.
static char peek(const json_scan_t *scan) { return scan->at < scan->end ? *scan->at : '\0'; }

static bool take(json_scan_t *scan, char byte) {
    if (scan->at == scan->end || *scan->at != byte) return false;
    scan->at++;
    return true;
}

static void skip_space(json_scan_t *scan) {
    const char *at = scan->at, *end = scan->end;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    scan->at = at;
}

static bool take_word(json_scan_t *scan, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0) return false;
    scan->at += len;
    return true;
}

static bool take_digits(json_scan_t *scan) {
    const char *at = scan->at, *end = scan->end;
    while (at < end && *at >= '0' && *at <= '9') at++;
    bool any = at > scan->at;
    scan->at = at;
    return any;
}

static bool take_number(json_scan_t *scan) {
    take(scan, '-');
    if (!take(scan, '0') && !take_digits(scan)) return false;
    if (take(scan, '.') && !take_digits(scan)) return false;
    if (!take(scan, 'e') && !take(scan, 'E')) return true;
    if (!take(scan, '+')) take(scan, '-');
    return take_digits(scan);
}

static int hex_digit(char byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

// Length of the escape at the backslash `at`, or 0 where it is none.
static size_t escape_length(const char *at, const char *end) {
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

// Plain is ASCII text that stands for itself: no quote, no backslash, no control byte.
static bool is_plain(char byte) { return (unsigned char)(byte - 0x20) < 0x60 && byte != '"' && byte != '\\'; }

// The same of 8 bytes at once: the lowest top bit that is set belongs to the first byte that is not plain, 0 = they all are. (A
// borrow sets bits wrongly only above a byte that is not plain itself.)
static uint64_t odd_bytes(const char *at) {
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word = le64toh(word);
    uint64_t quote = word ^ (each * '"'), backslash = word ^ (each * '\\');
    return (word | (word - each * 0x20) | (quote - each) | (backslash - each)) & (each * 0x80);
}

static const char *skip_plain(const char *at, const char *end) {
    for (; end - at >= 8; at += 8) {
        uint64_t odd = odd_bytes(at);
        if (odd) return at + __builtin_ctzll(odd) / 8;
    }
    while (at < end && is_plain(*at)) at++;
    return at;
}

// From its first quote to behind its last.
static bool take_string(json_scan_t *scan) {
    const char *end = scan->end;
    scan->escaped = false;
    for (const char *at = scan->at + 1;;) {
        at = skip_plain(at, end);
        if (at == end || (unsigned char)*at < 0x20) return false;
        if (*at == '"') {
            scan->at = at + 1;
            return true;
        }
        bool escape = *at == '\\';
        scan->escaped |= escape;
        size_t len = escape ? escape_length(at, end) : utf8_sequence(at, (size_t)(end - at));
        if (len == 0) return false;
        at += len;
    }
}

static bool take_scalar(json_scan_t *scan) {
    switch (peek(scan)) {
    case '"': return take_string(scan);
    case 't': return take_word(scan, "true");
    case 'f': return take_word(scan, "false");
    case 'n': return take_word(scan, "null");
    default: return take_number(scan);
    }
}

static void set_token(json_scan_t *scan, const char *from) { scan->token = (slice_t){from, (size_t)(scan->at - from)}; }

static json_event_t take_value(json_scan_t *scan) {
    const char *from = scan->at;
    if (peek(scan) == '{' || peek(scan) == '[') {
        if (scan->depth == JSON_MOST_DEPTH) return bad(scan);
        scan->open[scan->depth++] = scan->at++;
        scan->want = JSON_WANT_FIRST;
    } else {
        if (!take_scalar(scan)) return bad(scan);
        scan->want = JSON_WANT_NEXT;
    }
    set_token(scan, from);
    return scan->want == JSON_WANT_FIRST ? JSON_AT_OPEN : JSON_AT_VALUE;
}

static bool in_object(const json_scan_t *scan) { return *scan->open[scan->depth - 1] == '{'; }

// A value of the array that is open, or a key of the object with its colon.
static json_event_t take_member(json_scan_t *scan) {
    if (!in_object(scan)) return take_value(scan);
    const char *from = scan->at;
    if (peek(scan) != '"' || !take_string(scan)) return bad(scan);
    set_token(scan, from);
    skip_space(scan);
    if (!take(scan, ':')) return bad(scan);
    scan->want = JSON_WANT_VALUE;
    return JSON_AT_KEY;
}

static json_event_t take_close(json_scan_t *scan) {
    if (!take(scan, in_object(scan) ? '}' : ']')) return bad(scan);
    set_token(scan, scan->open[--scan->depth]);
    scan->want = JSON_WANT_NEXT;
    return JSON_AT_CLOSE;
}

json_event_t json_scan_next(json_scan_t *scan) {
    skip_space(scan);
    switch (scan->want) {
    case JSON_WANT_VALUE: return take_value(scan);
    case JSON_WANT_FIRST: return peek(scan) == (in_object(scan) ? '}' : ']') ? take_close(scan) : take_member(scan);
    case JSON_WANT_NEXT: break;
    case JSON_WANT_NOTHING: return JSON_AT_BAD;
    }
    if (scan->depth == 0) return scan->at == scan->end ? JSON_AT_END : bad(scan);
    if (!take(scan, ',')) return take_close(scan);
    skip_space(scan);
    return take_member(scan);
}

json_value_t json_scan_value(slice_t token) {
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

static char unescaped(char letter) {
    switch (letter) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return letter;
    }
}

unsigned json_take_escape(const char **at) {
    const char *escape = *at;
    *at += 2;
    if (escape[1] != 'u') return (unsigned char)unescaped(escape[1]);
    unsigned unit = 0;
    for (int i = 0; i < 4; i++) unit = unit << 4 | (unsigned)hex_digit(*(*at)++);
    return unit;
}
