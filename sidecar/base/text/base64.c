#include "base/text/base64.h"

#include <nettle/base64.h>

void base64_encode(buffer_t *out, slice_t bytes) {
    size_t len = BASE64_ENCODE_RAW_LENGTH(bytes.len);
    char *text = mem_alloc(len);
    base64_encode_raw(text, bytes.len, (const uint8_t *)bytes.data);
    buffer_add(out, text, len);
    free(text);
}

bool base64_decode(char *text, size_t *len) {
    struct base64_decode_ctx context;
    size_t decoded = *len;
    base64_decode_init(&context);
    // Decoding in place is safe: Nettle writes only over bytes that it has read. Nettle skips spaces, so compare the length.
    if (!base64_decode_update(&context, &decoded, (uint8_t *)text, *len, text) || !base64_decode_final(&context)) return false;
    if (BASE64_ENCODE_RAW_LENGTH(decoded) != *len) return false;
    *len = decoded;
    return true;
}
