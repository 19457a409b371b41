/* What tests see of an audit log, with SQLite and without the product; and records as a final failure leaves them in a stream. */
#pragma once

#include "client.h"

/* The number that a query gives; -1 while there is no such file or table, or nobody may read. */
long long audit_log_int(const char *path, const char *sql);
/* The text that a query gives; fails the test where there is none. Owned by the caller. */
char *audit_log_word(const char *path, const char *sql);
/* Rows of kind failed. */
long long audit_log_rows(const char *path);
/* All rows that were copied, in the order of their ids, as text; owned by the caller. */
char *audit_log_text(const char *path);
/* Fails the test unless the log holds each of the records first .. first + count - 1 of the queue exactly once. */
void audit_log_expect(const char *path, const char *queue, int first, int count);

/* XADDs records number first .. first + count - 1 with a payload of 100 bytes, in one script. `id` is NULL for Redis's own ids,
 * or the ms part of ids that count up in the sequence part. */
void audit_log_feed(redis_t *r, const char *queue, int first, int count, const char *id);
