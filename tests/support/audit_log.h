/* Reads an audit log by SQLite, without the product's code; adds records to a failure stream as final failures do. */
#pragma once

#include "client.h"

/* Returns the number that a query yields; -1 while the file or table is missing or locked. */
long long audit_log_int(const char *path, const char *sql);
/* Returns the text that a query yields; fails the test without a row. */
char *audit_log_word(const char *path, const char *sql);
/* Returns the number of rows of kind failed. */
long long audit_log_rows(const char *path);
/* Returns all rows but gaps as text, ordered by event id. */
char *audit_log_text(const char *path);
/* Fails the test unless the log holds each of the records first .. first + count - 1 of the queue exactly once. */
void audit_log_expect(const char *path, const char *queue, int first, int count);

/* Adds the records first .. first + count - 1 with payloads of 100 bytes by XADD, in one script. `id`: NULL for Redis's own ids,
 * or the ms part of the ids, whose sequence part is then the record's number. */
void audit_log_feed(redis_t *r, const char *queue, int first, int count, const char *id);
