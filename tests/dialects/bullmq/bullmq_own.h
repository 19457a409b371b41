/* BullMQ's own scripts from npm, to compare with. */
#pragma once

#include "dialects/bull/bull_call.h"

/* The script of this version whose file begins with `name`. Kept. Skips the test, or fails it with QS_CLIENTS_REQUIRED=1, if
 * npm's package is not installed. */
static inline char *bullmq_own_script(const char *version, const char *name) {
    const char *clients = getenv("QS_CLIENTS_DIR"), *required = getenv("QS_CLIENTS_REQUIRED");
    char pattern[512];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/bullmq/%s/node_modules/bullmq/dist/cjs/scripts/%s-*.js",
             clients ? clients : "build/clients", version, name);
    if (glob(pattern, 0, NULL, &found) != 0) {
        cr_assert(!required || strcmp(required, "1") != 0, "no %s", pattern);
        cr_skip_test("no %s (tests/clients/install.sh fetches it)", pattern);
    }
    char *text = temp_read(found.gl_pathv[0]), *begin = strchr(text, '`'), *end = strrchr(text, '`');
    cr_assert(begin && end > begin);
    globfree(&found);
    return kept_printf("%.*s", (int)(end - begin - 1), begin + 1);
}

/* Its promotion: the part of moveToActive before a worker takes a job. Kept. */
static inline char *bullmq_own_promotion(const char *version) {
    char *script = bullmq_own_script(version, "moveToActive"), *end = strstr(script, "local maxJobs = tonumber(rateLimitMax");
    cr_assert(end && strstr(script, "promoteDelayedJobs(delayedKey, markerKey,"));
    *end = '\0';
    return script;
}
