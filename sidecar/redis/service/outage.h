// The failures of all connections to a shard, so that the log tells of an outage once, and not each role for itself.
#pragma once

#include "base/clock.h"
#include "redis/error.h"

enum {
    OUTAGE_OF_TLS = OUTCOME_DISCONNECTED + 1, // a handshake failed: its reason must not wait behind a lost connection's
    OUTAGE_KINDS,
};

// Begin with {0}.
typedef struct outage {
    size_t failing; // connections
    mono_t since;   // when the first of them failed
    bool told;
    mono_t told_at[OUTAGE_KINDS]; // the last line about each kind of error; 0 = none
} outage_t;

// A connection has failed; `fresh`: it was not failing before. True: log it, with *lasted_s, the seconds since the first failure.
// Each kind of error, an outcome_t or OUTAGE_OF_TLS, is logged once a minute.
bool outage_failed(outage_t *outage, bool fresh, unsigned kind, int64_t *lasted_s);
// A failing connection works again, or was freed. True: it was the last one of an outage that was logged, so log the end.
bool outage_recovered(outage_t *outage, int64_t *lasted_s);
