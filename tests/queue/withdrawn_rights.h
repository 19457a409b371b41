/* The branches of all scripts that write: a state of Redis, and a call that takes the branch there. Keys are those that the
 * rights in docs/acl.md reach. */
#pragma once

#include "queue/scripts.h"

enum { MAX_WITHDRAWN_SETUP = 8 };

typedef struct {
    const char *branch;
    const script_t *script;
    const char *setup[MAX_WITHDRAWN_SETUP]; /* commands; the lock holds the token T */
    const char *arguments;                  /* of EVALSHA; '' is an empty one */
    const char *reply;                      /* its first word; "integer" for a number */
} withdrawn_call_t;

#define LOCK "sidecar:app:lock"
#define SETTLE_TO(target)                                                                                                        \
    "13 " LOCK " email:backup " target " email sidecar:email:stamps email:errors sidecar:email:failures sidecar:email:meta "
#define NO_EXTRAS LOCK " " LOCK " " LOCK " " LOCK " " LOCK " "
#define TEXT_SHA1 "372ea08cab33e71c02c651dbc83a474d32c676ea" /* of "text" */

static const withdrawn_call_t withdrawn_list[] = {
    {"a retry",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_TO("email") NO_EXTRAS "T job digest '' stamp 1 9 1 '' '' ms 9999 '' - - 0 kind retried",
     "settled"},
    {"a retry without a record",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_TO("email") NO_EXTRAS "T job digest '' stamp 1 9 1 '' '' ms 0 '' - - 0 kind retried",
     "settled"},
    {"a retry of a reported job",
     &script_settle,
     {"RPUSH email:backup job", "HSET email:errors job text"},
     SETTLE_TO("email") NO_EXTRAS "T job digest '' stamp 1 9 1 " TEXT_SHA1 " '' ms 9999 '' - - 0 kind retried",
     "settled"},
    {"a later retry",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_TO("email:delayed") NO_EXTRAS "T job digest '' stamp 1 9 1 '' 5000 ms 9999 '' - - 0 kind retried",
     "settled"},
    {"a later retry of bytes that are delayed",
     &script_settle,
     {"RPUSH email:backup job", "ZADD email:delayed 5 job"},
     SETTLE_TO("email:delayed") NO_EXTRAS "T job digest '' stamp 1 9 1 '' 5000 s 9999 '' - - 0 kind retried",
     "settled"},
    {"an end",
     &script_settle,
     {"RPUSH email:backup job", "HSET sidecar:email:stamps digest stamp"},
     SETTLE_TO("email") NO_EXTRAS "T job digest stamp '' 1 9 1 '' '' ms 9999 '' - - 0 kind failed payload",
     "settled"},
    {"an end of a reported job",
     &script_settle,
     {"RPUSH email:backup job", "HSET email:errors job text"},
     SETTLE_TO("email") NO_EXTRAS "T job digest '' '' 1 9 1 " TEXT_SHA1 " '' ms 9999 '' - - 0 kind failed payload",
     "settled"},
    {"an end with a dead letter",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_TO("email") LOCK " email:dead " LOCK " " LOCK
                             " sidecar:email:recorded T job digest '' '' 1 9 1 '' '' ms 9999 '' - - 0 kind failed payload",
     "settled"},
};
