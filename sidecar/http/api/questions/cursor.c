#include "http/api/questions/cursor.h"

#include "base/digest.h"

enum { CHECK_DIGITS = 8 };

static void cursor_check(const char *text, size_t len, char digits[CHECK_DIGITS + 1]) {
    char hex[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(text, len);
    digest_hex(&digest, hex);
    memcpy(digits, hex, CHECK_DIGITS);
    digits[CHECK_DIGITS] = '\0';
}

void cursor_write(const cursor_t *cursor, char text[CURSOR_SIZE]) {
    char check[CHECK_DIGITS + 1];
    int len = snprintf(text, CURSOR_SIZE, "%s.%" PRId64 ".%" PRId64 ".", cursor->log, cursor->at, cursor->seq);
    cursor_check(text, (size_t)len, check);
    snprintf(text + len, CURSOR_SIZE - (size_t)len, "%s", check);
}

// Takes the text up to the next dot.
static bool cursor_part(slice_t *rest, slice_t *part) {
    const char *dot = memchr(rest->data, '.', rest->len);
    if (!dot) return false;
    *part = (slice_t){rest->data, (size_t)(dot - rest->data)};
    *rest = (slice_t){dot + 1, rest->len - part->len - 1};
    return true;
}

bool cursor_read(const char *text, cursor_t *out) {
    char check[CHECK_DIGITS + 1];
    slice_t rest = slice_text(text), log, at, seq;
    if (rest.len >= CURSOR_SIZE || !cursor_part(&rest, &log) || !cursor_part(&rest, &at) || !cursor_part(&rest, &seq))
        return false;
    cursor_check(text, (size_t)(rest.data - text), check);
    if (!slice_is(rest, check) || log.len >= sizeof out->log) return false;
    *out = (cursor_t){0};
    memcpy(out->log, log.data, log.len);
    return slice_integer(at, &out->at) && slice_integer(seq, &out->seq) && out->seq > 0 && out->at >= 0 && out->at < INT64_MAX;
}
