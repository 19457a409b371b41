// The server of a shard that the last connection has reached. Thread-safe.
#pragma once

#include "base/clock.h"
#include "redis/known/outage.h"

typedef struct known_server known_server_t;

known_server_t *known_server_new(void);
void known_server_free(known_server_t *known); // NULL is fine

outage_t *known_server_outage(const known_server_t *known); // of the connections to it

enum { SERVER_ID_SIZE = 48 };
// Notes that a connection of this epoch has reached a server. `id` identifies its process (INFO server, run_id; "" = unknown).
// Returns when this process first reached the data of that server: another process or another epoch may have other data.
mono_t known_server_note(known_server_t *known, unsigned epoch, const char *id);
