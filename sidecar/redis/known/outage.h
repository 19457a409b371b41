// The failures of all connections to a shard, so that the log tells of an outage once, and not each role for itself. Thread-safe.
#pragma once

#include "base/clock.h"
#include "redis/error.h"

typedef struct outage outage_t;

outage_t *outage_new(void);
void outage_free(outage_t *outage); // NULL is fine

enum { OUTAGE_OF_TLS = OUTCOME_DISCONNECTED + 1 }; // a handshake failed: its reason must not wait behind a lost connection's

// A connection has failed; `fresh`: it was not failing before. True: log it, with *lasted_s, the seconds since the first failure.
// Each kind of error, an outcome_t or OUTAGE_OF_TLS, is logged once a minute.
bool outage_failed(outage_t *outage, bool fresh, unsigned kind, int64_t *lasted_s);
// A failing connection works again, or was freed. True: it was the last one of an outage that was logged, so log the end.
bool outage_recovered(outage_t *outage, int64_t *lasted_s);
