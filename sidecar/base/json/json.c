#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/scan.h"

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

// Proves that the text is JSON and within the bounds. *tokens: as jsmn counts, keys and values. *last: the token that came last.
// jsmn comes after it: it takes commas for spaces, stops at a NUL byte as at the end, and its time grows with the square of the
// depth.
static bool is_json(slice_t text, int *tokens, slice_t *last) {
    json_scan_t scan;
    json_scan_begin(&scan, text);
    *tokens = 0;
    for (;;) {
        switch (json_scan_next(&scan)) {
        case JSON_AT_BAD: return false;
        case JSON_AT_END: *last = scan.token; return true;
        case JSON_AT_CLOSE: break;
        case JSON_AT_KEY:
        case JSON_AT_VALUE:
        case JSON_AT_OPEN:
            if (++*tokens > JSON_MOST_TOKENS) return false;
            break;
        }
    }
}

// What jsmn in its strict mode does not take: a number, true, false or null that is the whole text.
static int lone_token(slice_t text, slice_t token, jsmntok_t *out) {
    int start = (int)(token.data - text.data);
    *out = (jsmntok_t){.type = JSMN_PRIMITIVE, .start = start, .end = start + (int)token.len, .parent = -1};
    return 1;
}

bool json_read(json_t *json, slice_t text) {
    json->count = 0;
    json->text = text;
    int tokens;
    slice_t last;
    if (text.len > JSON_MOST_BYTES || !is_json(text, &tokens, &last)) return false;
    jsmn_parser parser;
    jsmn_init(&parser);
    int count = jsmn_parse(&parser, text.data, text.len, json->tokens, JSON_MOST_TOKENS);
    if (count == JSMN_ERROR_PART && tokens == 1) count = lone_token(text, last, json->tokens);
    if (count == tokens) json->count = count;
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
    slice_t raw = token_bytes(json, &json->tokens[at]);
    *out = json->tokens[at].type == JSMN_STRING ? (json_value_t){JSON_STRING, raw} : json_scan_value(raw);
    return JSON_FOUND;
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

// Decodes the escape at the backslash *at, or two that make one character, and moves behind them.
static bool decode_escape(const char **at, const char *end, buffer_t *out) {
    unsigned code = json_take_escape(at);
    if (is_low(code)) return false;
    if (is_high(code)) {
        if (*at == end || **at != '\\') return false;
        unsigned low = json_take_escape(at);
        if (!is_low(low)) return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    add_utf8(out, code);
    return true;
}

bool json_decode(slice_t raw, buffer_t *out) {
    size_t before = out->len;
    const char *end = raw.len ? raw.data + raw.len : raw.data;
    for (const char *at = raw.data; at < end;) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        buffer_add(out, at, (size_t)((escape ? escape : end) - at));
        if (!escape) break;
        at = escape;
        if (!decode_escape(&at, end, out)) {
            out->len = before;
            if (out->data) out->data[before] = '\0';
            return false;
        }
    }
    return true;
}
