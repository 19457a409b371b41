// Asks several sentinels at once.
#pragma once

#include <stdatomic.h>

#include "config/config.h"
#include "redis/conn.h"
#include "redis/sentinel/answer.h"

// A sentinel to ask.
typedef struct sentinel_contact {
    address_t address;
    conn_t *conn;         // kept open between asks, because a TLS handshake takes longer than an ask; NULL = none; owned
    mono_t renew_at;      // when to replace a connection with TLS
    mono_t hurried_until; // the sentinel was silent: until then the others do not wait long for it
} sentinel_contact_t;

enum { SENTINEL_TIMEOUT_MS = 500 };

// Fills *answers for `contacts`, within SENTINEL_TIMEOUT_MS. The caller frees each answer. `stop` may be NULL.
void sentinel_ask_all(const redis_config_t *redis, sentinel_contact_t *contacts, size_t count, const atomic_bool *stop,
                      sentinel_answer_t *answers);
