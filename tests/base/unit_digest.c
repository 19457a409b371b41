/* SHA-256: published vectors, parts, threads. */
#include "base/digest.h"
#include "suite.h"

#include <pthread.h>

static void expect_hex(digest_t digest, const char *expected) {
    char hex[DIGEST_HEX_SIZE];
    memset(hex, 'x', sizeof hex);
    digest_hex(&digest, hex);
    cr_expect_str_eq(hex, expected);
}

static bool equal(digest_t a, digest_t b) { return memcmp(a.bytes, b.bytes, DIGEST_BYTES) == 0; }

/* NIST: FIPS 180-2, appendix B, and the examples of its validation program. */
Test(unit_digest, matches_published_vectors) {
    static const struct {
        const char *text, *hex;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
        {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_hex(digest_of(rows[i].text, strlen(rows[i].text)), rows[i].hex);
    expect_hex(digest_of(NULL, 0), rows[0].hex);
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    expect_hex(digest_of(million, 1000000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* The digest of the joined digests of the texts of 0 to 299 letters a. */
static digest_t chain(void) {
    char text[300];
    memset(text, 'a', sizeof text);
    digest_t digests[300];
    for (size_t len = 0; len < 300; len++) digests[len] = digest_of(text, len);
    return digest_of(digests, sizeof digests);
}

/* The same by Python's hashlib. */
static const char CHAIN[] = "80e953e3b006c4bab43fd5d792f8bd29c122f6cf1497318365fe66bf2d61398d";

Test(unit_digest, hashes_every_length_around_the_block) {
    char hex[DIGEST_HEX_SIZE];
    digest_t digest = chain();
    digest_hex(&digest, hex);
    cr_assert_str_eq(hex, CHAIN);
}

static void *many_chains(void *good) {
    for (int i = 0; i < 50; i++) {
        char hex[DIGEST_HEX_SIZE];
        digest_t digest = chain();
        digest_hex(&digest, hex);
        *(bool *)good = strcmp(hex, CHAIN) == 0;
        if (!*(bool *)good) break;
    }
    return NULL;
}

/* Under a sanitizer, this also finds memory that a thread does not free at its end. */
Test(unit_digest, works_in_many_threads) {
    for (int round = 0; round < 3; round++) {
        pthread_t threads[4];
        bool good[4] = {false};
        for (int i = 0; i < 4; i++) cr_assert_eq(pthread_create(&threads[i], NULL, many_chains, &good[i]), 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++) cr_assert(good[i]);
    }
}

#define PART(literal)                                                                                                            \
    { literal, sizeof(literal) - 1 }

/* The expected digests are Python's: sha256 over struct.pack(">Q", len(part)) + part. */
Test(unit_digest, hashes_parts_with_their_lengths) {
    static const slice_t a_bc[] = {PART("a"), PART("bc")}, ab_c[] = {PART("ab"), PART("c")}, abc[] = {PART("abc")},
                         empty[] = {{NULL, 0}}, empties[] = {{NULL, 0}, PART("")};
    expect_hex(digest_of_parts(a_bc, 2), "3fafa1cf2f19a7c1129beb20cf0983f73a489a221fc0dd2f16d1be292d089205");
    expect_hex(digest_of_parts(NULL, 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_hex(digest_of_parts(empty, 1), "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc");
    digest_t lists[] = {digest_of_parts(a_bc, 2),  digest_of_parts(ab_c, 2),    digest_of_parts(abc, 1), digest_of("abc", 3),
                        digest_of_parts(empty, 1), digest_of_parts(empties, 2), digest_of_parts(NULL, 0)};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t j = 0; j < i; j++) cr_expect_not(equal(lists[i], lists[j]), "%zu and %zu", i, j);
}

Test(unit_digest, hashes_all_bytes_of_a_length) {
    size_t len = 0x012345;
    char *bytes = calloc(1, 8 + len), *part = bytes + 8;
    memcpy(bytes + 5, "\x01\x23\x45", 3);
    cr_expect(equal(digest_of_parts(&(slice_t){part, len}, 1), digest_of(bytes, 8 + len)));
    free(bytes);
}

Test(unit_digest, reads_hex_back_or_refuses_it) {
    digest_t digest = digest_of("abc", 3), read, zeros = {.bytes = {0}};
    char hex[DIGEST_HEX_SIZE];
    digest_hex(&digest, hex);
    cr_expect(digest_parse(slice_text(hex), &read) && equal(read, digest));
    static const char *const bad[] = {"", "ba", "g", " "};
    for (size_t i = 0; i < 4; i++) {
        char text[DIGEST_HEX_SIZE];
        memcpy(text, hex, sizeof text);
        if (i < 2)
            snprintf(text, sizeof text, "%s", bad[i]);
        else
            text[63] = *bad[i];
        cr_expect_not(digest_parse(slice_text(text), &read), "%s", text);
        cr_expect(equal(read, zeros));
    }
}
