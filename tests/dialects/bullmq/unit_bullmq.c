/* The version that BullMQ writes into its meta hash. */
#include "dialects/bullmq/internal.h"

#include <criterion/criterion.h>

Test(unit_bullmq, reads_versions) {
    static const struct {
        const char *text;
        int64_t major, minor, patch;
    } good[] = {{"bullmq:5.81.5", 5, 81, 5},
                {"bullmq:6.7.0", 6, 7, 0},
                {"bullmq-pro:7.10.11", 7, 10, 11},
                {"bullmq:5.0.0-rc.1", 5, 0, 0}};
    static const char *const bad[] = {"",
                                      "bullmq",
                                      "bullmq:",
                                      "bullmq:5",
                                      "bullmq:5.1",
                                      "bullmq:5.1.",
                                      "bullmq:x.1.2",
                                      "bull:5.1.2",
                                      "5.1.2",
                                      "bullmq:5-1-2",
                                      "bullmq:99999999999.1.2"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bullmq_version_t version;
        cr_assert(bullmq_version_read(slice_text(good[i].text), &version), "%s", good[i].text);
        cr_expect(version.major == good[i].major && version.minor == good[i].minor && version.patch == good[i].patch, "%s",
                  good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bullmq_version_t version;
        cr_expect_not(bullmq_version_read(slice_text(bad[i]), &version), "%s", bad[i]);
    }
}
