// The content of the password file, as all connections of a topology know it. Thread-safe.
#pragma once

#include "base/condition.h"

typedef struct secret secret_t;

secret_t *secret_new(void);
void secret_free(secret_t *secret); // NULL is fine

uint64_t secret_tag(const char *password); // tells passwords apart; never 0

// The number of passwords noted so far. A connection takes it before it reads the file.
unsigned secret_changes(const secret_t *secret);
// Whether another password than the one of `tag` was noted since secret_changes returned `changes`. A connection may read a
// password from the file before the password is noted: that one is not old.
bool secret_is_old(const secret_t *secret, uint64_t tag, unsigned changes);
// Notes the content of the file. True: it has changed since the last call, so wake all roles.
bool secret_note(secret_t *secret, const char *password);
// Notes whether the server refuses the newest password; NULL = it does not.
condition_change_t secret_note_refusal(secret_t *secret, const char *refusal);
