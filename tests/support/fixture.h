/* Many tests of the product share this: a config made of text, a server with an open connection, roles whose ticks are called
 * without a thread, the log of this process, and its clock. A function that does not succeed fails the test. */
#pragma once

#include "config/config.h"
#include "dispatcher/dispatcher.h"
#include "leader/leader.h"
#include "model/metrics.h"
#include "monitor/monitor.h"
#include "proxy.h"
#include "queue/call.h"
#include "queue/lock.h"
#include "redis/conn.h"
#include "role/lease.h"
#include "role/role.h"
#include "server.h"
#include "suite.h"

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
    redis_t *r;     /* a direct connection to the server, as the default user */
    proxy_t *proxy; /* NULL without .proxy */
    config_t *config;
    keyspace_t *keys;
    topology_t *topology;
    shard_t *shard; /* the server */
    conn_t *conn;   /* the product's connection */
    redis_error_t error;
} fixture_t;

/* Starts the server and opens the connection; options may be NULL. From then on the log goes to fixture_log. End it by
 * fixture_stop. */
fixture_t fixture_start(const fixture_options_t *options);
void fixture_stop(fixture_t *f);
/* The same with all defaults; the lock holds the token "T", so calls with it are not fenced. */
fixture_t fixture_start_locked(void);

/* Returns a call for the first queue, with this token of a term. */
call_t fixture_call(fixture_t *f, const char *token);
lock_call_t fixture_lock_call(fixture_t *f, size_t lock, const char *token, int64_t ttl_ms);

/* The script's text for the server of the last fixture_start: with the first line from Redis 7 on. */
const char *fixture_script(const script_t *script, size_t *len);

/* Returns a digest of the whole data set. */
char *fixture_digest(redis_t *r);

/* The types of Redis keys; fixture_make_key replaces a key by one of this type. */
enum { FIXTURE_TYPES = 6 };
extern const char *const fixture_types[FIXTURE_TYPES];
void fixture_make_key(redis_t *r, const char *key, const char *type);
/* Runs the block behind it with each type but `right`. */
#define for_other_types(type, right)                                                                                             \
    for (size_t type##_ = 0; type##_ < FIXTURE_TYPES; type##_++)                                                                 \
        for (const char *type = fixture_types[type##_]; type && strcmp(type, right) != 0; type = NULL)

/* From now on the stderr of this process goes to a file. A sanitizer still reports to the real stderr. */
void fixture_capture_log(void);
/* Returns the content of that file. */
char *fixture_log(void);
/* Counts the lines of that file that contain the text. */
int fixture_log_count(const char *text);

/* Moves CLOCK_BOOTTIME of this process, and so the product's monotonic clock. */
void fixture_step_boottime(int64_t ms);
/* Stops CLOCK_BOOTTIME: from now on only fixture_step_boottime moves it. For tests with one thread. */
void fixture_hold_boottime(void);

/* Calls the ticks of roles in turn, in the thread of the test, with the waits that their own threads would make. */
enum { DRIVER_ROLES = 4, DRIVER_MIN_STEPS = 20 };
typedef struct {
    role_t role; /* only its wake_fd and stop are used */
    role_tick_fn *ticks[DRIVER_ROLES];
    void *states[DRIVER_ROLES];
    int count;
    long steps;
} driver_t;
void driver_open(driver_t *driver);
void driver_close(driver_t *driver);
void driver_add(driver_t *driver, role_tick_fn *tick, void *state);
/* Calls each tick once, then waits as long as the roles ask for, but at most most_ms. */
void driver_step(driver_t *driver, int64_t most_ms);
/* Steps for `ms` (scaled), but at least once, with the waits that the roles ask for. Returns the number of steps. */
long driver_run(driver_t *driver, int ms);
/* Steps until the roles have nothing to do now: no role has anything to read or asks for a tick soon, even on a slow machine.
 * `r` is a direct connection to the server. */
void driver_settle(driver_t *driver, redis_t *r);
/* Steps until `cond` is true, for at most timeout_ms (scaled), but at least DRIVER_MIN_STEPS steps, since the machine may have
 * stalled. Returns whether `cond` became true. */
#define driver_until(driver, cond, timeout_ms)                                                                                   \
    __extension__({                                                                                                              \
        int64_t driver_end_ = driver_deadline_us(timeout_ms);                                                                    \
        long driver_least_ = (driver)->steps + DRIVER_MIN_STEPS;                                                                 \
        bool driver_met_;                                                                                                        \
        while (!(driver_met_ = (cond) ? true : false) &&                                                                         \
               ((driver)->steps < driver_least_ || driver_deadline_us(0) < driver_end_))                                         \
            driver_step(driver, 5);                                                                                              \
        driver_met_;                                                                                                             \
    })
/* Steps until `number`, which grows, is at least `least`: gives up when the number has not grown for timeout_ms (scaled). */
#define driver_reaches(driver, number, least, timeout_ms)                                                                        \
    __extension__({                                                                                                              \
        long long driver_now_ = (number);                                                                                        \
        for (long long driver_was_ = driver_now_ - 1; driver_now_ > driver_was_ && driver_now_ < (least);) {                     \
            driver_was_ = driver_now_;                                                                                           \
            (void)driver_until(driver, (driver_now_ = (number)) > driver_was_, timeout_ms);                                      \
        }                                                                                                                        \
        driver_now_ >= (least);                                                                                                  \
    })
int64_t driver_deadline_us(int timeout_ms);

/* One instance of the product in a driver of its own, with some of its roles. */
typedef struct {
    const keyspace_t *keys;
    driver_t driver;
    topology_t *topology;
    shard_t *shard;
    leases_t *leases;
    metrics_t *metrics;
    leader_t *leader;         /* NULL without INSTANCE_LEADER */
    dispatcher_t *dispatcher; /* NULL without INSTANCE_DISPATCHER */
    monitor_t *monitor;       /* NULL without INSTANCE_MONITOR */
} instance_t;
enum { INSTANCE_LEADER = 1, INSTANCE_DISPATCHER = 2, INSTANCE_MONITOR = 4 };
/* *instance is the caller's and must not move. End it by instance_stop, which releases no lock (leader_finish does) and does
 * nothing to an instance that is all zero. */
void instance_start(instance_t *instance, const keyspace_t *keys, int roles);
void instance_stop(instance_t *instance);
/* Makes the instance hold every lock for a day, without the leader role: sets the locks in Redis and the leases. */
void instance_lead(instance_t *instance, redis_t *r);
