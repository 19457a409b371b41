/* A real redis-server (or valkey-server) per test, on a unix socket in a directory of its own. A function that does not
 * succeed fails the test. Start servers from the thread that runs the test: see child.h. */
#pragma once

#include "client.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct server server_t;

typedef struct {
    const char *binary;      /* NULL: environment QS_REDIS_SERVER_BIN, else redis-server */
    const char *const *args; /* more arguments, NULL-terminated; they win over the defaults. NULL: none */
    const char *preload;     /* name of a shim ("shim_clock"), or a path with a slash; NULL: none */
    const char *const *env;  /* more "NAME=value", NULL-terminated; NULL: none */
    bool tcp;                /* listen on a free TCP port of 127.0.0.1 too */
    bool node;               /* a node of a Redis Cluster, with a free port for its bus; implies tcp */
    const char *tls;         /* a directory with ca.crt, server.crt, server.key: listen with TLS on a free port, too; NULL: no */
} server_options_t;

/* Starts a server without persistence and waits until it answers PING. NULL: all defaults. Owned by the caller: server_free;
 * a failed test's servers are killed and removed at its exit. */
server_t *server_start(const server_options_t *options);
/* The same with some arguments: server_start_args("--maxmemory", "2mb"). */
#define server_start_args(...) server_start(&(server_options_t){.args = (const char *const[]){__VA_ARGS__, NULL}})

/* Thaws the server, sends SIGTERM and waits for the end. Keeps the directory, for server_restart. */
void server_stop(server_t *server);
/* kill -9 and reap. */
void server_kill(server_t *server);
typedef enum { SERVER_LOSE_DATA, SERVER_KEEP_DATA } server_data_t;
/* Starts the server again with the same socket, port and directory. SERVER_KEEP_DATA saves a snapshot of a running server first;
 * a killed server loads what its persistence (see `args`) has left. SERVER_LOSE_DATA removes snapshot and append-only files. */
void server_restart(server_t *server, server_data_t data);
/* Kills the server if it runs, and starts it again in its directory, but on other free ports. */
void server_restart_elsewhere(server_t *server);
/* Sends SIGSTOP: connections stay open, but get no replies. */
void server_freeze(server_t *server);
void server_thaw(server_t *server);
/* Kills the server if it runs, and removes its directory; NULL is allowed. */
void server_free(server_t *server);

/* Steps the server's wall clock by `ms`; needs .preload = "shim_clock". Its monotonic clock does not step. */
void server_step_clock(server_t *server, int64_t ms);

/* Absolute path of a shim for LD_PRELOAD; a bare name is looked for in QS_SHIM_DIR, by default build/tests.
 */
char *server_shim_path(const char *shim);

const char *server_socket(const server_t *server);
int server_port(const server_t *server);     /* 0 without .tcp */
int server_bus_port(const server_t *server); /* 0 without .node */
/* Whether the tested redis-server is built with TLS. */
bool server_has_tls(void);
int server_tls_port(const server_t *server); /* 0 without .tls */
/* The TCP port for the product: with QS_TLS=1 that of TLS. */
int server_product_port(const server_t *server);
int server_major(const server_t *server); /* of its version: 6 for Redis 6.2, 8 for Valkey 8.1 */
pid_t server_pid(const server_t *server);
bool server_running(server_t *server);
const char *server_dir(const server_t *server);
/* Returns its log so far. */
char *server_log(const server_t *server);

/* Opens a connection; a command may take 10 s (scaled). Owned by the caller: redis_close. */
redis_t *redis_open(const server_t *server);

/* Gives all slots to a server that runs with --cluster-enabled. */
void server_serve_all_slots(const server_t *server);

/* Returns INFO <section>. */
char *server_info(const server_t *server, const char *section);
/* Returns an integer field of INFO; -1 = no such field. */
long long server_info_int(const server_t *server, const char *section, const char *field);
/* The number of calls of a command since the start or CONFIG RESETSTAT; 0 if never. "client|list" names a subcommand. */
long long server_commandstat(const server_t *server, const char *command);
/* Returns a TCP port that no other test gets while this process lives, and that is below those of outgoing connections. A process
 * that is no test may take it, so try a failed start again. */
int server_free_port(void);
/* "7.0.15", "8.0.2", or the version of Valkey. is_valkey may be NULL. */
char *server_version(const server_t *server, bool *is_valkey);
