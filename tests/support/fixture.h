/* What many tests of the product begin with: a config made of text, a server with an opened connection, roles whose ticks are
 * called without a thread, the log of this process, and its clock. Functions fail the test when they cannot do what they say. */
#ifndef QS_TEST_FIXTURE_H
#define QS_TEST_FIXTURE_H

#include "config/config.h"
#include "dispatcher/dispatcher.h"
#include "leader/leader.h"
#include "model/metrics.h"
#include "monitor/monitor.h"
#include "proxy.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"
#include "role/role.h"
#include "server.h"

#include <stdbool.h>
#include <stdint.h>

/* Loads a config from text. Owned by the caller: config_free. */
config_t *fixture_config(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef struct {
    const char *const *args; /* more arguments for the server, NULL-terminated; NULL: none */
    const char *preload;     /* a shim for the server; NULL: none */
    const char *redis;       /* more settings inside of `redis = { }`; NULL: none */
    const char *config;      /* all settings but `redis`; NULL: group "app" with the one queue "email" */
    bool proxy;              /* the product talks to the server through a proxy */
    bool tcp;                /* the server listens on TCP too */
    bool closed;             /* do not open the connection */
} fixture_options_t;

typedef struct {
    server_t *server;
    redis_t *r;     /* straight to the server, as the default user */
    proxy_t *proxy; /* NULL without .proxy */
    config_t *config;
    keyspace_t *keys;
    conn_t *conn; /* of the product */
    fault_t fault;
} fixture_t;

/* Starts all of it; options may be NULL. The log goes to fixture_log from here on. Ended by fixture_stop. */
fixture_t fixture_start(const fixture_options_t *options);
void fixture_stop(fixture_t *f);

/* A digest of the whole data set, owned by the caller. */
char *fixture_digest(redis_t *r);

/* The types of Redis, and a key made of one in place of what it was. */
enum { FIXTURE_TYPES = 6 };
extern const char *const fixture_types[FIXTURE_TYPES];
void fixture_make_key(redis_t *r, const char *key, const char *type);

/* From now on what this process writes to stderr goes to a file. A sanitizer still reports to the real stderr. */
void fixture_capture_log(void);
/* What was written there, owned by the caller. */
char *fixture_log(void);
/* Lines of it that contain the text. */
int fixture_log_count(const char *text);

/* Moves CLOCK_BOOTTIME of this process, and so the product's monotonic clock. */
void fixture_step_boottime(int64_t ms);
/* From now on it stands, but for these steps: for a test of one thread, whose facts are seconds. */
void fixture_hold_boottime(void);

/* Roles called by turns in the thread of the test, with the waits that their shells would make. */
enum { STAGE_PLAYERS = 4, STAGE_LEAST = 20 };
typedef struct {
    role_t role; /* only its wake_fd and stop are used */
    role_tick_fn *ticks[STAGE_PLAYERS];
    void *players[STAGE_PLAYERS];
    int count;
    long steps;
} stage_t;
void stage_open(stage_t *stage);
void stage_close(stage_t *stage);
void stage_add(stage_t *stage, role_tick_fn *tick, void *player);
/* Calls each tick once, then waits as long as they asked for, but at most this long. */
void stage_step(stage_t *stage, int64_t most_ms);
/* Steps for that long (scaled), but at least once, with the waits that the roles ask for. Returns the number of steps. */
long stage_run(stage_t *stage, int ms);
/* Steps until the roles have done what they want to do now: nothing is to be read, and no time of theirs comes soon, however
 * slow this machine is. `r` is the server's own connection. */
void stage_settle(stage_t *stage, redis_t *r);
/* Steps until `cond` is true, at the longest for timeout_ms (scaled); tells whether it became true. A machine that stood still
 * has not waited: there are some steps in any case. */
#define stage_until(stage, cond, timeout_ms)                                                                                     \
    __extension__({                                                                                                              \
        int64_t stage_end_ = stage_deadline_us(timeout_ms);                                                                      \
        long stage_least_ = (stage)->steps + STAGE_LEAST;                                                                        \
        bool stage_met_;                                                                                                         \
        while (!(stage_met_ = (cond) ? true : false) && ((stage)->steps < stage_least_ || stage_deadline_us(0) < stage_end_))    \
            stage_step(stage, 5);                                                                                                \
        stage_met_;                                                                                                              \
    })
int64_t stage_deadline_us(int timeout_ms);

/* One instance of the product on a stage of its own, with some of its roles. */
typedef struct {
    const keyspace_t *keys;
    stage_t stage;
    leases_t *leases;
    metrics_t *metrics;
    leader_t *leader;         /* NULL without CREW_LEADER */
    dispatcher_t *dispatcher; /* NULL without CREW_DISPATCHER */
    monitor_t *monitor;       /* NULL without CREW_MONITOR */
} crew_t;
enum { CREW_LEADER = 1, CREW_DISPATCHER = 2, CREW_MONITOR = 4 };
/* *crew is the caller's and must not move. Ended by crew_stop; a leader gives nothing back there (leader_finish does). */
void crew_start(crew_t *crew, const keyspace_t *keys, int roles);
void crew_stop(crew_t *crew);
/* Makes the crew lead every seat by hand, for a day, without a leader: sets the locks in Redis and the leases. */
void crew_lead(crew_t *crew, redis_t *r);

#endif
