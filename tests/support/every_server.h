/* Tests that run on each available server: the default one, and those that tests/support/debian13.sh and
 * redis62.sh have fetched. */
#pragma once

#include "suite.h"
#include "tls_harness.h"

#include <criterion/parameterized.h>

enum { EVERY_SERVER_COUNT = 4, EVERY_SERVER_REDIS62 = 3 };

/* Returns the program; NULL = the default server. Skips the test if the program is missing. */
static inline const char *every_server_binary(int number) {
    static const char *const binaries[EVERY_SERVER_COUNT] = {
        NULL, "build/debian13/redis-server-8.0", "build/debian13/valkey-server-8.1", "build/redis62/redis-server-6.2"};
    const char *binary = binaries[number];
    if (binary && access(binary, X_OK) != 0) {
        fprintf(stderr, "skipped: no %s (tests/support/debian13.sh and redis62.sh fetch them)\n", binary);
        cr_skip_test("no %s", binary);
    }
    if (number == EVERY_SERVER_REDIS62 && tls_harness_is_on()) cr_skip_test("that Redis 6.2 has no TLS");
    return binary;
}

/* A test that runs once for each server, with `number`. The parameters are static, as Criterion reads them later. */
#define ON_EVERY_SERVER(suite, name)                                                                                             \
    ParameterizedTestParameters(suite, name) {                                                                                   \
        static int numbers[EVERY_SERVER_COUNT] = {0, 1, 2, 3};                                                                   \
        return cr_make_param_array(int, numbers, EVERY_SERVER_COUNT);                                                            \
    }                                                                                                                            \
    ParameterizedTest(int *number, suite, name)
