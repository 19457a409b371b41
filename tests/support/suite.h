/* For every file of tests: Criterion, the usual headers of C, and set-up and tear-down of a suite. Criterion runs each test
 * in a process of its own, so a static variable that `start` fills is new in each test. */
#pragma once

#include "kept.h"
#include "scoped.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Before each test of `suite` the statement `start` runs (it may be empty: then each test starts what it needs), and after it
 * the statement `stop`, which must bear a test that has not started anything. Use it in one file only: it is for all tests of the
 * suite, in any file. */
#define SUITE(suite, start, stop) SUITE_WITHIN(0, suite, start, stop)
/* The same with more or less time for each test. */
#define SUITE_WITHIN(seconds, suite, start, stop)                                                                                \
    static void suite_start(void) { start; }                                                                                     \
    static void suite_stop(void) { stop; }                                                                                       \
    TestSuite(suite, .init = suite_start, .fini = suite_stop, .timeout = seconds)
