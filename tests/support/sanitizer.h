/* Reports of sanitized child processes go to files; a test that leaves such a file fails. */
#pragma once

/* Registers the exit hook that fails the run when a report is left; called by child_start. */
void sanitizer_install(void);

/* Four "NAME=value" strings (ASAN, LSAN, UBSAN, TSAN), then NULL: the environment of a sanitized child. Options that were given
 * to the test run come first. Borrowed; live until the process ends. */
const char *const *sanitizer_env(void);

/* Returns the heads of all report files, owned by the caller, and removes the files; NULL = no files. */
char *sanitizer_take_reports(void);

/* Fails the test if there is a report. Call it in a test body: Criterion does not count a failure in a fini. */
void sanitizer_check(void);
