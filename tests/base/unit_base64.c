/* base/base64: the vectors of RFC 4648, section 10, and texts that no encoder writes. */
#include "base/text/base64.h"
#include "suite.h"

static void expect_both_ways(slice_t bytes, const char *text) {
    buffer_t out = {0};
    base64_encode(&out, bytes);
    cr_expect_str_eq(buffer_text(&out), text);
    size_t len = out.len;
    cr_expect(base64_decode(out.data, &len) || len == 0, "%s", text);
    cr_expect(slice_equal((slice_t){out.data, len}, bytes), "%s", text);
    buffer_free(&out);
}

Test(unit_base64, encodes_and_decodes_the_vectors_of_rfc_4648) {
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect_both_ways(slice_text(rows[i][0]), rows[i][1]);
    expect_both_ways((slice_t){"\0\xff\xfe\0", 4}, "AP/+AA==");
}

Test(unit_base64, rejects_text_that_no_encoder_writes) {
    static const char *const bad[] = {"A",    "AP8",  "A===", "AP9=",   "AB==",  "AP8=AP8=", "AP 8",
                                      "AP_8", "====", "AP8 ", "AP8=\n", " AP8=", "AA==AA==", "Zg== "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = strdup(bad[i]);
        size_t len = strlen(text);
        cr_expect(!base64_decode(text, &len), "%s", bad[i]);
        free(text);
    }
}
