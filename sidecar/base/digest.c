#include "base/digest.h"

#include <nettle/base16.h>
#include <nettle/base64.h>
#include <nettle/md5.h>
#include <nettle/sha2.h>

static void digest_add(struct sha256_ctx *to, const void *bytes, size_t len) {
    if (len > 0) sha256_update(to, len, bytes);
}

digest_t digest_of(const void *bytes, size_t len) {
    struct sha256_ctx context;
    digest_t digest;
    sha256_init(&context);
    digest_add(&context, bytes, len);
    sha256_digest(&context, sizeof digest.bytes, digest.bytes);
    return digest;
}

digest_t digest_of_parts(const slice_t *parts, size_t count) {
    struct sha256_ctx context;
    digest_t digest;
    sha256_init(&context);
    for (size_t i = 0; i < count; i++) {
        uint8_t len[8];
        for (size_t byte = 0; byte < sizeof len; byte++)
            len[byte] = (uint8_t)((uint64_t)parts[i].len >> (8 * (sizeof len - 1 - byte)));
        digest_add(&context, len, sizeof len);
        digest_add(&context, parts[i].data, parts[i].len);
    }
    sha256_digest(&context, sizeof digest.bytes, digest.bytes);
    return digest;
}

void digest_hex(const digest_t *digest, char hex[DIGEST_HEX_SIZE]) {
    base16_encode_update(hex, DIGEST_BYTES, digest->bytes);
    hex[DIGEST_HEX_SIZE - 1] = '\0';
}

// The value of a hex digit, plus one. Upper case has none, so that a digest has only one text.
static const uint8_t digest_digits[256] = {['0'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ['a'] = 11, 12, 13, 14, 15, 16};

bool digest_parse(slice_t hex, digest_t *out) {
    *out = (digest_t){.bytes = {0}};
    if (hex.len != DIGEST_HEX_SIZE - 1) return false;
    const uint8_t *digits = (const uint8_t *)hex.data;
    digest_t digest;
    bool good = true;
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        uint8_t high = digest_digits[digits[2 * i]], low = digest_digits[digits[2 * i + 1]];
        good &= high && low;
        digest.bytes[i] = (uint8_t)(high * 16 + low - 17);
    }
    if (good) *out = digest;
    return good;
}

void digest_md5_base64(const void *bytes, size_t len, char base64[DIGEST_MD5_BASE64_SIZE]) {
    struct md5_ctx context;
    uint8_t md5[MD5_DIGEST_SIZE];
    md5_init(&context);
    if (len > 0) md5_update(&context, len, bytes);
    md5_digest(&context, sizeof md5, md5);
    base64_encode_raw(base64, sizeof md5, md5);
    base64[DIGEST_MD5_BASE64_SIZE - 1] = '\0';
}
