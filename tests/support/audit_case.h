/* An audit log in a directory of the test, and events to put into it. A function that does not succeed fails the test. */
#pragma once

#include "audit/audit.h"
#include "audit/lock.h"
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>

/* For scoped(). */
static inline void audit_drop(audit_t **audit) { audit_close(*audit); }
static inline void audit_lock_drop(audit_lock_t **lock) { audit_lock_free(*lock); }

/* Returns the path <a new directory>/audit.db. */
char *audit_case_path(void);
/* Opens the audit log at `path`. Owned by the caller: audit_close. */
audit_t *audit_case_open(const char *path, audit_mode_t mode);
/* Expects that the audit log at `path` cannot be opened; returns the reason. */
char *audit_case_refused(const char *path, audit_mode_t mode);

/* An event of job `n` in queue q; its id is the sha256 of "<kind> <n>". The caller may change every field. Do not copy it: the
 * event points into it. */
typedef struct {
    event_t event;
    char id[EVENT_ID_SIZE];
    char job[24];
} audit_case_event_t;
void audit_case_event(audit_case_event_t *of, const char *kind, int n, int64_t at);
/* Inserts the event in a transaction of its own; returns whether the event was new. */
bool audit_case_put(audit_t *audit, const event_t *event);

/* Runs a statement on a connection of its own; returns the first column of all rows, joined. */
char *audit_case_sql(const char *path, const char *sql);
int64_t audit_case_count(const char *path, const char *sql);
/* Returns SQLite's plan for a query: the lines of EXPLAIN QUERY PLAN. */
char *audit_case_plan(const char *path, const char *sql);
