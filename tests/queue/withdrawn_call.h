/* A branch of a script that writes: a state of Redis, and a call that takes the branch there. Keys are those that the rights in
 * docs/acl.md reach. */
#pragma once

#include "queue/scripts.h"

enum { MAX_WITHDRAWN_SETUP = 8 };

typedef struct {
    const char *branch;
    const script_t *script;
    const char *setup[MAX_WITHDRAWN_SETUP]; /* commands; ~ is a space within a word; the lock holds the token T */
    const char *arguments;                  /* of EVALSHA; '' is an empty one */
    const char *reply;                      /* its first word; "integer" for a number, NULL for a time */
} withdrawn_call_t;

#define LOCK "sidecar:app:lock"
