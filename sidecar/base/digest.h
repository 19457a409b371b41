// SHA-256, and MD5 for names that others make by it, by Nettle: for 100 bytes twice as fast as OpenSSL, which would also add 1.6
// to 3.4 MiB of memory to the process. Any thread may call; nothing fails.
#ifndef QS_BASE_DIGEST_H
#define QS_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum { DIGEST_BYTES = 32, DIGEST_HEX_SIZE = 65 };

typedef struct digest {
    uint8_t bytes[DIGEST_BYTES];
} digest_t;

digest_t digest_of(const void *bytes, size_t len);

// Of several parts in a row, each with its length before it (8 bytes, the highest first), so that no two lists of parts are
// alike.
typedef struct digest_part {
    const void *bytes;
    size_t len;
} digest_part_t;
digest_t digest_of_parts(const digest_part_t *parts, size_t count);

void digest_hex(const digest_t *digest, char hex[DIGEST_HEX_SIZE]); // lower case, NUL-ended
bool digest_parse(slice_t hex, digest_t *out);                      // false, and all zeros, unless it is 64 of these digits

// MD5 in base64, NUL-ended. No promise of anything: only for names that another system makes so.
enum { DIGEST_MD5_BASE64_SIZE = 25 };
void digest_md5_base64(const void *bytes, size_t len, char base64[DIGEST_MD5_BASE64_SIZE]);

#endif
