/* Temporary directories that go away however a test ends: by returning, by a failed assertion, by a crash or by a kill.
 *
 * A run has one directory (made by a Criterion hook, its path in QS_TEST_RUN_DIR), a test process has one below it, and every
 * server and daemon of the test has one below that. An exit hook removes the directory of the test; a hook at the end of the run
 * removes the rest; and a reaper process, which outlives the run, removes what a killed run left behind. */
#pragma once

#include "kept.h"

/* The directory of this test process, made at the first call. Lives until the process ends. */
const char *temp_root(void);

/* Makes <root>/<name>-<n> and returns its path. */
char *temp_dir(const char *name);

/* Removes a directory with all that is in it; a missing one is no error. */
void temp_remove(const char *path);

/* "dir/name". */
char *temp_path(const char *dir, const char *name);

/* The content of a file with a terminating NUL; an empty string if there is no such file. */
char *temp_read(const char *path);

/* Writes the text to a file, which it may replace. */
void temp_write(const char *path, const char *text);

/* Writes the text to <root>/<name>; returns the path. */
char *temp_file(const char *name, const char *text);

/* Makes the whole run fail, for a fault found too late for an assertion. The text is printed at the end of the run. */
void temp_fail_run(const char *text);
