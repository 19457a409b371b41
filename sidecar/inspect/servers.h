// The servers of a deployment as they describe themselves: its primaries, and the sentinels. Changes nothing.
#pragma once

#include "queue/keys.h"
#include "redis/conn.h"

// Times are ms since 1970; an unknown number is -1.
typedef struct primary_view {
    char address[ENDPOINT_SIZE];
    redis_error_t error;            // why nothing below is known; OUTCOME_OK = the server answered
    char mode[16];                  // "standalone", "cluster"; "" = unknown
    char tls[16];                   // "TLS 1.3"; "" = the connection is plain
    char eviction[32];              // maxmemory-policy; "" = unknown
    int64_t certificate_end_ms;     // of the server; -1 = plain or unknown
    int64_t own_certificate_end_ms; // of the client's certificate that the connection uses; 0 = none
    char replica_of[ENDPOINT_SIZE]; // the server's own primary; "" = it is a primary, or unknown
    int64_t replicas;               // that are connected
    char refuses_writes[200];       // why the server takes no writes; "" = it takes them, or unknown
    int64_t good_replicas;          // that keep up, as min-replicas-to-write counts them; -1 = that is not set
} primary_view_t;

typedef struct sentinel_view {
    char address[ENDPOINT_SIZE];
    char error[400]; // why it names no primary; "" = it names one
    char primary[ENDPOINT_SIZE];
    int64_t epoch;    // config epoch
    int64_t quorum;   // of sentinels that must agree that the primary is down
    int64_t replicas; // that the sentinel knows
    bool sees_down;   // the sentinel does not reach the primary
} sentinel_view_t;

typedef struct servers {
    redis_mode_t mode;         // as configured; REDIS_MODE_AUTO: nothing was read
    primary_view_t *primaries; // owned
    size_t primary_count;
    sentinel_view_t *sentinels; // owned
    size_t sentinel_count;
    char believed[ENDPOINT_SIZE]; // the primary that the sidecar believes the sentinels; "" = none
    char quarrel[320];            // what two sentinels that disagree say; "" = they agree
} servers_t;

// Sets the mode, and asks the sentinels if there are any: SENTINEL_TIMEOUT_MS at most, or twice as long when the first ones know
// others. `stop` may be NULL. Replaces what earlier calls read.
void servers_read_sentinels(servers_t *servers, const redis_config_t *redis, const atomic_bool *stop);
void servers_forget_primaries(servers_t *servers);
void servers_add_lost(servers_t *servers, const char *address, const redis_error_t *error); // a primary that does not answer
// Adds the primary at the other end of an open connection. Any refusal leaves numbers unknown. `absent`: a key of
// this server that nobody writes.
outcome_t servers_add_primary(servers_t *servers, conn_t *conn, const char *absent, redis_error_t *error);
void servers_free(servers_t *servers); // leaves it empty
