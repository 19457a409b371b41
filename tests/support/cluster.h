/* For tests of the real daemon: a server, sidecars on it, and the steps of producers and workers. A function that waits in vain
 * prints the logs of the sidecars on stderr and fails the test. */
#pragma once

#include "daemon.h"
#include "server.h"
#include "suite.h"
#include "wait.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLUSTER_SIDECARS = 8 };

typedef struct cluster {
    server_t *server;
    redis_t *r; /* a direct connection to the server */
    daemon_t *sidecars[CLUSTER_SIDECARS];
    size_t count;
} cluster_t;

/* The settings of a config; NULL = the default, which each comment gives. Lists of queues are libconfig groups joined by commas.
 */
typedef struct {
    const char *group;      /* g */
    const char *socket;     /* the server's */
    const char *redis;      /* more settings of the section redis; by default none */
    const char *dispatcher; /* more settings of the section dispatcher; by default none */
    const char *ttl;        /* 600ms */
    const char *scope;      /* group */
    bool never_leads;       /* lock.lead = false */
    bool all_roles;         /* each queue has the roles of its dialect; by default the dispatcher's only */
    const char *poll;       /* dispatcher.safety_poll; 1h, so that jobs move by wake-ups only */
    const char *level;      /* info */
    const char *scan;       /* monitor.scan_interval; auto */
    const char *monitor;    /* more settings of the section monitor; by default none */
    const char *queues;     /* { name = "q"; } */
    const char *http;       /* more settings of the section http; by default none */
    const char *more;       /* more settings of any section; by default none */
    int port;               /* http.port; 0 = off */
} sidecar_t;

/* Starts a server; options may be NULL. */
cluster_t cluster_begin(const server_options_t *options);
/* Stops the sidecars that still run, each with exit code 0 and no sanitizer report, and the server. Does nothing to a cluster
 * that is all zero. */
void cluster_end(cluster_t *cluster);
/* Connects cluster->r again after a restart of the server. */
void cluster_reopen(cluster_t *cluster);

/* Returns queues for a config: `first` (empty: none), <prefix>0, <prefix>1 ... */
char *cluster_queues(const char *first, const char *prefix, int count);
/* Returns the text of a config for this server. */
char *cluster_config(const cluster_t *cluster, sidecar_t spec);
/* Writes such a config to a file; returns its path. */
char *cluster_config_file(const cluster_t *cluster, sidecar_t spec);
/* Writes such a config to the file of a sidecar and sends SIGHUP. */
void cluster_reconfigure(const cluster_t *cluster, daemon_t *d, sidecar_t spec);
/* Starts a sidecar, which the cluster owns. Does not wait. */
daemon_t *cluster_sidecar(cluster_t *cluster, sidecar_t spec);
/* Starts a sidecar and waits until it leads or stands by. */
daemon_t *cluster_sidecar_up(cluster_t *cluster, sidecar_t spec);
/* Runs a sidecar that dies at this failpoint (base/failpoint.h). Returns its exit code: 137 if it died there. */
int cluster_crash(const cluster_t *cluster, sidecar_t spec, const char *point);

/* Runs `status -o json` with a config and with the audit log of this sidecar. */
const daemon_output_t *cluster_status(const daemon_t *d, const char *config);

/* Returns the running sidecar whose token is in the lock of `name` (a group or a queue); NULL = none now. */
daemon_t *cluster_leader(cluster_t *cluster, const char *name);
/* Waits for a leader other than `other`, which may be NULL. */
daemon_t *cluster_await_leader(cluster_t *cluster, const char *name, const daemon_t *other, int timeout_ms);
/* Whether a line of the sidecar's log contains both texts. */
bool cluster_says(const daemon_t *d, const char *one, const char *two);
/* Prints the logs of all sidecars and fails the test. */
void cluster_fail(const cluster_t *cluster, const char *why);

/* Adds a job to <queue>:delayed, due delay_ms from now by Redis's clock; returns the due time in ms. */
int64_t cluster_delay(redis_t *r, const char *queue, const char *job, int64_t delay_ms);
/* Takes a job from ready by BRPOP; returns the job, or NULL after timeout_ms (scaled). */
char *cluster_take(redis_t *r, const char *queue, int timeout_ms);
/* Delays a new job by delay_ms and takes it from ready, within 15 s (scaled). Fails if another job comes, or if the job comes
 * early. Returns how many ms it was late. */
int64_t cluster_round(cluster_t *cluster, const char *queue, int delay_ms);
/* Checks that jobs are promoted within 100 ms (scaled). Since the machine may stall, tries a few jobs until one is in time; none
 * may take 3 s. */
void cluster_works(cluster_t *cluster, const char *queue);

/* Returns how many connections have a name that begins with queue-sidecar<name>. */
int cluster_connections(redis_t *r, const char *name);
/* Kills those connections; returns how many. */
int cluster_kill_connections(redis_t *r, const char *name);

/* Whether `cond` stays true for `ms` milliseconds, not scaled. */
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
