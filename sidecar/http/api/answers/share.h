// The state of an answer in Redis, so that each instance of the group can tell it, and stop the answer. Redis that refuses this
// keeps no answer from its work: then only the instance that carries it out knows it.
#pragma once

#include "http/api/api.h"

enum { ANSWER_ID_SIZE = 17, SHARE_ITEMS_MAX = 100 };

// ---- Of the thread that carries the answer out.

typedef struct share share_t;

// Everything is borrowed; returns owned. Once *quit is true, no wait for Redis lasts long.
share_t *share_new(const config_t *config, const char *id, const atomic_bool *quit);
void share_free(share_t *share); // NULL is fine
bool share_is_due(const share_t *share);
// Writes the state, as JSON, or that it is still the same. True: another instance was told to stop the answer.
bool share_write(share_t *share, slice_t state);

// ---- Of the other instances.

// Lets the role that asks Redis answer a GET or DELETE. Always true.
bool share_ask(request_t *request);
