/* Reports of sanitized child processes: they go to files, and a test with such a file left fails. */
#pragma once

/* Registers the exit hook that fails the run when a report is left; called by child_start. */
void sanitizer_install(void);

/* Four "NAME=value" strings (ASAN, LSAN, UBSAN, TSAN), then NULL: what a sanitized child needs in its environment. Options that
 * the test run was given stay in front. Borrowed; live until the process ends. */
const char *const *sanitizer_env(void);

/* The heads of all report files, owned by the caller, and removes the files; NULL if there is none. */
char *sanitizer_take_reports(void);

/* Fails the test if there is a report. To be called in a test body: Criterion does not count a failure in a fini. */
void sanitizer_check(void);
