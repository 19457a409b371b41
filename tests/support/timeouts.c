/* QS_TEST_SLOW scales the limits of tests and suites, like every wait of a test. (Criterion's --timeout can only lower them.) */
#include "wait.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>

static double scaled(double seconds) { return wait_scaled_ms((int)(seconds * 1000)) / 1000.0; }

ReportHook(PRE_ALL)(struct criterion_test_set *all) {
    FOREACH_SET(struct criterion_suite_set * suite, all->suites) {
        if (suite->suite.data) suite->suite.data->timeout = scaled(suite->suite.data->timeout);
        FOREACH_SET(struct criterion_test * test, suite->tests) { test->data->timeout = scaled(test->data->timeout); }
    }
}
