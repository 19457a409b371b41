#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS // or it is quadratic
#include <jsmn.h>

struct json {
    jsmntok_t tokens[JSON_MOST_TOKENS]; // in the order of the text; of a key the value is the next one, and the key its parent
    int count;                          // 0: the text is bad
    slice_t text;
    buffer_t segment; // of a pointer, unescaped
    buffer_t key;     // decoded
};

json_t *json_new(void) { return mem_alloc(sizeof(json_t)); }

void json_free(json_t *json) {
    if (!json) return;
    buffer_free(&json->segment);
    buffer_free(&json->key);
    free(json);
}

// The scan proves that a text is JSON and within the bounds. jsmn comes after it: it takes commas for spaces, stops at a NUL byte
// as at the end, and its time grows with the square of the depth.
typedef struct scan {
    const char *at;
    const char *end;
    int tokens;                 // as jsmn counts: values and keys
    int depth;                  // containers that are open
    char open[JSON_MOST_DEPTH]; // what closes each of them
} scan_t;

// A NUL byte and the end look alike: neither is good anywhere.
static char peek(const scan_t *scan) { return scan->at < scan->end ? *scan->at : '\0'; }

static bool take(scan_t *scan, char byte) {
    if (scan->at == scan->end || *scan->at != byte) return false;
    scan->at++;
    return true;
}

static bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

static void skip_space(scan_t *scan) {
    while (is_space(peek(scan))) scan->at++;
}

static bool take_word(scan_t *scan, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0) return false;
    scan->at += len;
    return true;
}

static bool take_digits(scan_t *scan) {
    const char *first = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') scan->at++;
    return scan->at > first;
}

static bool take_number(scan_t *scan) {
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

static bool take_escape(scan_t *scan) {
    if (!take(scan, 'u')) {
        if (peek(scan) == '\0' || !strchr("\"\\/bfnrt", peek(scan))) return false;
        scan->at++;
        return true;
    }
    for (int i = 0; i < 4; i++, scan->at++)
        if (hex_digit(peek(scan)) < 0) return false;
    return true;
}

// From its first quote to behind its last.
static bool take_string(scan_t *scan) {
    if (!take(scan, '"')) return false;
    while (scan->at < scan->end) {
        unsigned char byte = (unsigned char)*scan->at;
        if (byte < 0x20) return false;
        if (take(scan, '"')) return true;
        if (take(scan, '\\')) {
            if (!take_escape(scan)) return false;
        } else {
            size_t len = byte < 0x80 ? 1 : utf8_sequence(scan->at, (size_t)(scan->end - scan->at));
            if (len == 0) return false;
            scan->at += len;
        }
    }
    return false;
}

static bool take_key(scan_t *scan) {
    scan->tokens++;
    skip_space(scan);
    if (!take_string(scan)) return false;
    skip_space(scan);
    return take(scan, ':');
}

static bool take_scalar(scan_t *scan) {
    switch (peek(scan)) {
    case '"': return take_string(scan);
    case 't': return take_word(scan, "true");
    case 'f': return take_word(scan, "false");
    case 'n': return take_word(scan, "null");
    default: return take_number(scan);
    }
}

// Takes a scalar, or opens a container. *inside: a value must follow, as the container is not empty.
static bool take_value(scan_t *scan, bool *inside) {
    skip_space(scan);
    if (++scan->tokens > JSON_MOST_TOKENS) return false;
    *inside = false;
    bool object = take(scan, '{');
    if (!object && !take(scan, '[')) return take_scalar(scan);
    if (scan->depth == JSON_MOST_DEPTH) return false;
    scan->open[scan->depth++] = object ? '}' : ']';
    skip_space(scan);
    *inside = peek(scan) != scan->open[scan->depth - 1];
    return !*inside || !object || take_key(scan);
}

// After a value: closes what ends here. *more: a comma, and then (in an object) a key stood there, so that another value must
// follow.
static bool take_ends(scan_t *scan, bool *more) {
    *more = false;
    for (; scan->depth > 0; scan->depth--) {
        char close = scan->open[scan->depth - 1];
        skip_space(scan);
        *more = take(scan, ',');
        if (*more) return close == ']' || take_key(scan);
        if (!take(scan, close)) return false;
    }
    return true;
}

static bool is_json(scan_t *scan) {
    for (bool more = true; more;) {
        if (!take_value(scan, &more)) return false;
        if (!more && !take_ends(scan, &more)) return false;
    }
    skip_space(scan);
    return scan->at == scan->end;
}

// What jsmn in its strict mode does not take: a number, true, false or null that is the whole text.
static int lone_token(slice_t text, jsmntok_t *token) {
    size_t start = 0, end = text.len;
    while (is_space(text.data[start])) start++;
    while (is_space(text.data[end - 1])) end--;
    *token = (jsmntok_t){.type = JSMN_PRIMITIVE, .start = (int)start, .end = (int)end, .parent = -1};
    return 1;
}

bool json_read(json_t *json, slice_t text) {
    json->count = 0;
    json->text = text;
    if (text.len == 0 || text.len > JSON_MOST_BYTES) return false;
    scan_t scan = {.at = text.data, .end = text.data + text.len};
    if (!is_json(&scan)) return false;
    jsmn_parser parser;
    jsmn_init(&parser);
    int count = jsmn_parse(&parser, text.data, text.len, json->tokens, JSON_MOST_TOKENS);
    if (count == JSMN_ERROR_PART && scan.tokens == 1) count = lone_token(text, json->tokens);
    if (count == scan.tokens) json->count = count;
    return json->count > 0;
}

// Takes the segment that begins at the slash **pointer, unescaped, into json->segment. False: a ~ with neither 0 nor 1.
static bool take_segment(json_t *json, const char **pointer) {
    buffer_clear(&json->segment);
    const char *at = *pointer + 1;
    for (; *at && *at != '/'; at++) {
        if (*at == '~') {
            at++;
            if (*at != '0' && *at != '1') return false;
            buffer_str(&json->segment, *at == '0' ? "~" : "/");
        } else {
            buffer_add(&json->segment, at, 1);
        }
    }
    *pointer = at;
    return true;
}

static slice_t token_bytes(const json_t *json, const jsmntok_t *token) {
    return (slice_t){json->text.data + token->start, (size_t)(token->end - token->start)};
}

static bool key_is(json_t *json, const jsmntok_t *key, slice_t name) {
    slice_t raw = token_bytes(json, key);
    if (raw.len == 0 || !memchr(raw.data, '\\', raw.len)) return slice_equal(raw, name);
    buffer_clear(&json->key);
    return json_decode(raw, &json->key) && slice_equal((slice_t){json->key.data, json->key.len}, name);
}

static json_found_t find_in_object(json_t *json, int object, slice_t name, int *out) {
    int found = 0;
    for (int i = object + 1; i < json->count && json->tokens[i].start < json->tokens[object].end; i++) {
        if (json->tokens[i].parent != object || !key_is(json, &json->tokens[i], name)) continue;
        if (found) return JSON_BAD;
        found = i + 1;
    }
    *out = found;
    return found ? JSON_FOUND : JSON_MISSING;
}

// RFC 6901: digits without a leading zero ("-" is the place behind the last one, where nothing is).
static bool array_index(slice_t name, int *index) {
    if (name.len == 0 || name.len > 4 || (name.data[0] == '0' && name.len > 1)) return false;
    *index = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '0' || name.data[i] > '9') return false;
        *index = *index * 10 + name.data[i] - '0';
    }
    return true;
}

static json_found_t find_in_array(const json_t *json, int array, slice_t name, int *out) {
    int index;
    if (!array_index(name, &index)) return JSON_MISSING;
    for (int i = array + 1; i < json->count && json->tokens[i].start < json->tokens[array].end; i++) {
        if (json->tokens[i].parent != array || index-- > 0) continue;
        *out = i;
        return JSON_FOUND;
    }
    return JSON_MISSING;
}

static json_found_t find_member(json_t *json, int of, slice_t name, int *out) {
    switch (json->tokens[of].type) {
    case JSMN_OBJECT: return find_in_object(json, of, name, out);
    case JSMN_ARRAY: return find_in_array(json, of, name, out);
    default: return JSON_MISSING;
    }
}

static json_type_t type_of(const json_t *json, const jsmntok_t *token) {
    switch (token->type) {
    case JSMN_OBJECT: return JSON_OBJECT;
    case JSMN_ARRAY: return JSON_ARRAY;
    case JSMN_STRING: return JSON_STRING;
    default: break;
    }
    switch (json->text.data[token->start]) {
    case 't':
    case 'f': return JSON_BOOL;
    case 'n': return JSON_NULL;
    default: return JSON_NUMBER;
    }
}

json_found_t json_find(json_t *json, const char *pointer, json_value_t *out) {
    if (json->count == 0) return JSON_BAD;
    int at = 0;
    while (*pointer == '/') {
        if (!take_segment(json, &pointer)) return JSON_MISSING;
        slice_t name = {json->segment.data, json->segment.len};
        json_found_t found = find_member(json, at, name, &at);
        if (found != JSON_FOUND) return found;
    }
    if (*pointer) return JSON_MISSING;
    out->type = type_of(json, &json->tokens[at]);
    out->raw = token_bytes(json, &json->tokens[at]);
    return JSON_FOUND;
}

static unsigned hex_of(const char *digits) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++) value = value << 4 | (unsigned)hex_digit(digits[i]);
    return value;
}

static bool is_high(unsigned unit) { return unit >= 0xd800 && unit <= 0xdbff; }
static bool is_low(unsigned unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

static void add_utf8(buffer_t *out, unsigned code) {
    char bytes[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(leads[len] | code);
    buffer_add(out, bytes, len);
}

// Decodes \uXXXX, or two of them that make one character; *at stands behind the u, and moves on.
static bool decode_unit(const char **at, const char *end, buffer_t *out) {
    unsigned code = hex_of(*at);
    *at += 4;
    if (is_low(code)) return false;
    if (is_high(code)) {
        if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u') return false;
        unsigned low = hex_of(*at + 2);
        if (!is_low(low)) return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        *at += 6;
    }
    add_utf8(out, code);
    return true;
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

bool json_decode(slice_t raw, buffer_t *out) {
    size_t before = out->len;
    const char *end = raw.len ? raw.data + raw.len : raw.data;
    for (const char *at = raw.data; at < end;) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        buffer_add(out, at, (size_t)((escape ? escape : end) - at));
        if (!escape) break;
        at = escape + 2;
        if (escape[1] != 'u') {
            buffer_add(out, &(char){unescaped(escape[1])}, 1);
        } else if (!decode_unit(&at, end, out)) {
            out->len = before;
            if (out->data) out->data[before] = '\0';
            return false;
        }
    }
    return true;
}
