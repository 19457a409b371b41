/* The ACL rights that docs/acl.md publishes: those of every sidecar, and those that a dialect needs besides. */
#pragma once

#include "client.h"

#include <stddef.h>

enum { MAX_RIGHTS = 160 };
#define RIGHTS_LOGIN "username = \"sidecar\"; password = \"secret\";" /* settings of the section redis */

typedef struct {
    char *text; /* owned; the words point into it */
    const char *words[MAX_RIGHTS];
    size_t count, own; /* words[own] is the first right of the dialect */
} rights_t;

/* Reads the rights; `dialect` NULL: of no dialect. Fails the test if docs/acl.md has none. */
rights_t rights_read(const char *dialect);
/* Reads the rights of the first block behind this text of docs/acl.md. */
rights_t rights_read_behind(const char *text);
void rights_free(rights_t *rights);
/* Removes words that begin with `prefix`: "~email" are the keys of the example queue of docs/acl.md. */
void rights_leave_out(rights_t *rights, const char *prefix);

/* Makes the user of RIGHTS_LOGIN with these rights, without the word `without` (one of the pointers in `words`; NULL: none is
 * left out), and empties the ACL log. */
void rights_grant(redis_t *r, const rights_t *rights, const char *without);
/* Returns how often Redis has refused the user since then; prints what it refused on stderr. */
size_t rights_refused(redis_t *r);
