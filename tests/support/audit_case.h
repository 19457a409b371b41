/* An audit log in a directory of the test, and events to put into it. Functions fail the test when they cannot do what they say.
 */
#pragma once

#include "audit/audit.h"

#include <stdbool.h>
#include <stdint.h>

/* <a new directory>/audit.db, owned by the caller. */
char *audit_case_path(void);
/* Opens it. Owned by the caller: audit_close. */
audit_t *audit_case_open(const char *path, audit_mode_t mode);
/* Expects that it cannot be opened and returns the reason, owned by the caller. */
char *audit_case_refused(const char *path, audit_mode_t mode);

/* A final failure of job `n` in queue q: its id is sha256 of "<kind> n", made when it is put; everything else may be changed.
 * Texts are constants or live as long as the test. */
typedef struct {
    event_t event;
    char id[EVENT_ID_SIZE];
    char job[24];
} audit_case_event_t;
void audit_case_event(audit_case_event_t *of, const char *kind, int n, int64_t at);
/* In a transaction of its own; tells whether it was new. */
bool audit_case_put(audit_t *audit, const event_t *event);

/* The first column of all rows, by a connection of its own; owned by the caller. "" when there is none. */
char *audit_case_sql(const char *path, const char *sql);
int64_t audit_case_count(const char *path, const char *sql);
/* How SQLite would answer, the lines of EXPLAIN QUERY PLAN; owned by the caller. */
char *audit_case_plan(const char *path, const char *sql);
