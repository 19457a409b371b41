#include "base/digest.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A fetch of the algorithm costs more than the digest of a job, and so does a new context: one fetch for the process, one context
// for each thread (https://docs.openssl.org/3.0/man7/crypto/#performance).
static EVP_MD *sha256;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t contexts; // frees the context of a thread that ends
static _Thread_local EVP_MD_CTX *context;

static _Noreturn void refused(const char *what) {
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    fprintf(stderr, "queue-sidecar: no SHA-256: %s: %s\n", what, reason);
    abort();
}

static void free_context(void *ended) {
    EVP_MD_CTX_free(ended);
    context = NULL; // another destructor of this thread may ask for a digest
}

static void start(void) {
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!sha256) refused("EVP_MD_fetch");
    if (pthread_key_create(&contexts, free_context) != 0) refused("pthread_key_create");
}

static EVP_MD_CTX *begin(void) {
    if (!context) {
        pthread_once(&once, start);
        context = EVP_MD_CTX_new();
        if (!context || pthread_setspecific(contexts, context) != 0) refused("EVP_MD_CTX_new");
    }
    if (!EVP_DigestInit_ex2(context, sha256, NULL)) refused("EVP_DigestInit_ex2");
    return context;
}

static void add(EVP_MD_CTX *to, const void *bytes, size_t len) {
    if (len > 0 && !EVP_DigestUpdate(to, bytes, len)) refused("EVP_DigestUpdate");
}

static digest_t end(EVP_MD_CTX *of) {
    digest_t digest;
    if (!EVP_DigestFinal_ex(of, digest.bytes, NULL)) refused("EVP_DigestFinal_ex");
    return digest;
}

digest_t digest_of(const void *bytes, size_t len) {
    EVP_MD_CTX *of = begin();
    add(of, bytes, len);
    return end(of);
}

digest_t digest_of_parts(const digest_part_t *parts, size_t count) {
    EVP_MD_CTX *of = begin();
    for (size_t i = 0; i < count; i++) {
        uint8_t len[8];
        for (size_t byte = 0; byte < sizeof len; byte++)
            len[byte] = (uint8_t)((uint64_t)parts[i].len >> (8 * (sizeof len - 1 - byte)));
        add(of, len, sizeof len);
        add(of, parts[i].bytes, parts[i].len);
    }
    return end(of);
}

void digest_hex(const digest_t *digest, char hex[DIGEST_HEX_SIZE]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        hex[2 * i] = digits[digest->bytes[i] >> 4];
        hex[2 * i + 1] = digits[digest->bytes[i] & 0xf];
    }
    hex[DIGEST_HEX_SIZE - 1] = '\0';
}

static int digit_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

bool digest_parse(slice_t hex, digest_t *out) {
    bool good = hex.len == DIGEST_HEX_SIZE - 1;
    for (size_t i = 0; good && i < DIGEST_BYTES; i++) {
        int high = digit_value(hex.data[2 * i]), low = digit_value(hex.data[2 * i + 1]);
        good = high >= 0 && low >= 0;
        if (good) out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    if (!good) *out = (digest_t){.bytes = {0}};
    return good;
}

bool digest_md5_base64(const void *bytes, size_t len, char base64[DIGEST_MD5_BASE64_SIZE]) {
    uint8_t md5[16];
    uint8_t text[DIGEST_MD5_BASE64_SIZE];
    if (!EVP_Q_digest(NULL, "MD5", NULL, len ? bytes : "", len, md5, NULL)) return false;
    EVP_EncodeBlock(text, md5, sizeof md5);
    memcpy(base64, text, sizeof text);
    return true;
}
