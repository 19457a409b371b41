/* Least privilege as docs/acl.md publishes it: the rights of every sidecar, and what a dialect needs besides. */
#pragma once

#include "client.h"

#include <stddef.h>

enum { MAX_RIGHTS = 160 };
#define RIGHTS_LOGIN "username = \"sidecar\"; password = \"secret\";" /* settings of the section redis */

typedef struct {
    char *text; /* owned; the words point into it */
    const char *words[MAX_RIGHTS];
    size_t count, own; /* those of the dialect begin at `own` */
} rights_t;

/* `dialect` NULL: none. Fails the test where docs/acl.md has no such lines. */
rights_t rights_read(const char *dialect);
void rights_free(rights_t *rights);
/* Leaves out words that begin so: "~email" are the keys of the queue of the example there. */
void rights_leave_out(rights_t *rights, const char *prefix);

/* Makes the user of RIGHTS_LOGIN with all of them, or all but one of the words (NULL: all), and empties the log of refusals. */
void rights_grant(redis_t *r, const rights_t *rights, const char *without);
/* How often Redis has refused something since; what it was goes to stderr. */
size_t rights_refused(redis_t *r);
