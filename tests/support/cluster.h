/* What a test of the real daemon starts from: a server, sidecars on it, and the moves of producers and workers. All functions
 * fail the test, with the logs of the sidecars on stderr, where what they wait for does not come. */
#pragma once

#include "daemon.h"
#include "server.h"
#include "wait.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLUSTER_SIDECARS = 8 };

typedef struct cluster {
    server_t *server;
    redis_t *r; /* straight to the server */
    daemon_t *sidecars[CLUSTER_SIDECARS];
    size_t count;
} cluster_t;

/* What a config says; NULL is the default that stands beside it. Lists of queues are libconfig groups joined by commas. */
typedef struct {
    const char *group;  /* g */
    const char *socket; /* that of the server */
    const char *redis;  /* more settings of the section redis: none */
    const char *ttl;    /* 600ms */
    const char *scope;  /* group */
    const char *poll;   /* dispatcher.safety_poll: 1h, so that only wake-ups count */
    const char *level;  /* info */
    const char *scan;   /* monitor.scan_interval: auto */
    const char *queues; /* { name = "q"; } */
    const char *more;   /* more settings of any section: none */
    int port;           /* http.port: 0, which is off */
} sidecar_t;

/* Starts a server; options may be NULL. */
cluster_t cluster_begin(const server_options_t *options);
/* Ends every sidecar that still runs in good order (exit code 0, no sanitizer report), and the server. */
void cluster_end(cluster_t *cluster);
/* Opens cluster->r again, after the server was restarted. */
void cluster_reopen(cluster_t *cluster);

/* The queues `first` (empty: none) and <prefix>0, <prefix>1 ... for a config, owned by the caller. */
char *cluster_queues(const char *first, const char *prefix, int count);
/* The text of a config on this server, owned by the caller. */
char *cluster_config(const cluster_t *cluster, sidecar_t spec);
/* The same in a file; its path is owned by the caller. */
char *cluster_config_file(const cluster_t *cluster, sidecar_t spec);
/* The same in the file of a sidecar, which is told. */
void cluster_reconfigure(const cluster_t *cluster, daemon_t *d, sidecar_t spec);
/* Starts a sidecar, which belongs to the cluster. It waits for nothing. */
daemon_t *cluster_sidecar(cluster_t *cluster, sidecar_t spec);
/* The same, and waits until it leads or stands by. */
daemon_t *cluster_sidecar_up(cluster_t *cluster, sidecar_t spec);
/* One that is to die at this point of its code (base/crash.h), and belongs to nobody; its exit code: 137 when it did. */
int cluster_crash(const cluster_t *cluster, sidecar_t spec, const char *point);

/* `status -o json` of a config, with the audit log of this sidecar. */
const daemon_output_t *cluster_status(const daemon_t *d, const char *config);

/* The running sidecar whose token is in the lock of `name` (a group or a queue), or NULL; asks once. */
daemon_t *cluster_leader(cluster_t *cluster, const char *name);
/* Waits for one; `other` (or NULL) does not count. */
daemon_t *cluster_await_leader(cluster_t *cluster, const char *name, const daemon_t *other, int timeout_ms);
/* Whether a line of its log contains both texts. */
bool cluster_says(const daemon_t *d, const char *one, const char *two);
/* Prints the logs of all sidecars and fails the test. */
void cluster_fail(const cluster_t *cluster, const char *why);

/* Redis's time in ms and in us. */
int64_t cluster_ms(redis_t *r);
int64_t cluster_us(redis_t *r);
/* ZADD <queue>:delayed, due delay_ms after Redis's now; returns the due time in ms. */
int64_t cluster_delay(redis_t *r, const char *queue, const char *job, int64_t delay_ms);
/* BRPOP of the ready list; the job is owned by the caller, NULL after timeout_ms (scaled). */
char *cluster_take(redis_t *r, const char *queue, int timeout_ms);
/* Delays a job of its own by delay_ms and waits, 15 s (scaled), until a worker gets it: fails when another job comes or it comes
 * early; returns how many ms it was late. */
int64_t cluster_round(cluster_t *cluster, const char *queue, int delay_ms);
/* Jobs come within 100 ms (scaled): the sidecars work as they should. On a machine that stands still at times a job may take
 * longer, but not one after the other, and none for 3 s. */
void cluster_works(cluster_t *cluster, const char *queue);

/* Connections whose name begins with queue-sidecar and then this text. */
int cluster_connections(redis_t *r, const char *name);
/* Kills them; returns how many. */
int cluster_kill_connections(redis_t *r, const char *name);

/* Whether `cond` is true all the time for ms, which are real ones: not scaled. */
#define cluster_stays(cond, ms)                                                                                                  \
    __extension__({                                                                                                              \
        int64_t cluster_end_us_ = wait_now_us() + (int64_t)(ms)*1000;                                                            \
        bool cluster_true_ = true;                                                                                               \
        (void)wait_for(!(cluster_true_ = (cond) ? true : false) || wait_now_us() >= cluster_end_us_, (ms) + 10000);              \
        cluster_true_;                                                                                                           \
    })

/* A small random number generator, for tests that print their seed. */
uint64_t cluster_seed(const char *test); /* QS_SEED, else a new one; printed on stderr */
uint64_t cluster_random(uint64_t *state, uint64_t below);
