#include "server.h"
#include "scoped.h"

#include "certificates.h"
#include "child.h"
#include "tempdir.h"
#include "tls_harness.h"
#include "wait.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { START_MS = 15000, STOP_MS = 15000, COMMAND_MS = 10000, PORT_TRIES = 20, MAX_ARGS = 128, MAX_ENV = 32 };

struct server {
    char *dir, *socket, *log;
    char *binary;
    int major;    /* of the program's version: 7 for 7.0.15 */
    char **args;  /* copies of the options' arguments, NULL-terminated */
    char **env;   /* copies, NULL-terminated */
    int port;     /* 0: no TCP */
    int bus_port; /* 0: no node of a Cluster */
    int tls_port; /* 0: no TLS */
    char *tls;    /* the directory of its certificates; NULL: none */
    child_t *child;
    _Atomic int64_t *clock_offset_us; /* mapped file that shim_clock reads */
};

static char **copy_strings(const char *const *strings, size_t room) {
    char **copy = calloc(room, sizeof(*copy));
    if (!copy) abort();
    for (size_t i = 0; strings && strings[i] && i + 1 < room; i++) copy[i] = strdup(strings[i]);
    return copy;
}

static void free_strings(char **strings) {
    for (size_t i = 0; strings[i]; i++) free(strings[i]);
    free(strings);
}

static void add_env(server_t *server, const char *name, const char *value) {
    size_t used = 0;
    while (server->env[used]) used++;
    cr_assert_lt(used + 1, MAX_ENV);
    if (asprintf(&server->env[used], "%s=%s", name, value) < 0) abort();
}

/* Whether nobody listens at the port, and no other test has it: an abstract Unix socket holds it until this process ends. */
static bool take_port(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int taken = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "queue-sidecar-test-port-%d", port);
    bool free =
        bind(taken, (struct sockaddr *)&name, sizeof(name)) == 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    if (!free) close(taken);
    return free;
}

/* Below the ports that Linux gives to outgoing connections: a server that is down for a moment must find its port free again. */
int server_free_port(void) {
    enum { FIRST = 10000, END = 32768, TRIES = 1000 };
    for (int tries = 0; tries < TRIES; tries++) {
        unsigned number;
        cr_assert_eq(getrandom(&number, sizeof(number), 0), (ssize_t)sizeof(number));
        int port = FIRST + (int)(number % (END - FIRST));
        if (take_port(port)) return port;
    }
    cr_assert_fail("no free TCP port");
    return 0;
}

char *server_shim_path(const char *shim) {
    const char *dir = getenv("QS_SHIM_DIR");
    char path[PATH_MAX];
    if (strchr(shim, '/')) {
        snprintf(path, sizeof(path), "%s", shim);
    } else {
        snprintf(path, sizeof(path), "%s/%s.so", dir ? dir : "build/tests", shim);
    }
    char *full = realpath(path, NULL);
    cr_assert_not_null(full, "shim %s is not built (run from the top of the tree, or set QS_SHIM_DIR)", path);
    return kept(full);
}

static void map_clock(server_t *server) {
    char *path = temp_path(server->dir, "clock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && ftruncate(fd, sizeof(int64_t)) == 0;
    void *page = good ? mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    cr_assert(page != MAP_FAILED, "cannot map %s", path);
    close(fd);
    server->clock_offset_us = page;
    add_env(server, "QS_CLOCK_FILE", path);
    free(path);
}

static bool answers_ping(const server_t *server) {
    scoped(redis_drop) redis_t *r = redis_open_path(server->socket, COMMAND_MS);
    redisReply *reply = r ? redisCommand(r, "PING") : NULL;
    bool pong = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply) freeReplyObject(reply);
    return pong;
}

/* Writes the arguments of TLS to `argv`, whose texts are in `texts`; returns their number. */
static size_t tls_args(const server_t *server, char texts[4][PATH_MAX], const char **argv) {
    static const char *const names[] = {"--tls-port", "--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"};
    static const char *const files[] = {"", "server.crt", "server.key", "ca.crt"};
    size_t used = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i == 0) snprintf(texts[i], PATH_MAX, "%d", server->tls_port);
        if (i > 0) snprintf(texts[i], PATH_MAX, "%s/%s", server->tls, files[i]);
        argv[used++] = names[i];
        argv[used++] = texts[i];
    }
    argv[used++] = "--tls-auth-clients";
    argv[used++] = "no";
    return used;
}

/* Starts the process and waits until it answers; false if it ended instead. */
static bool launch(server_t *server) {
    char port[16], bus_port[16];
    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(bus_port, sizeof(bus_port), "%d", server->bus_port);
    const char *argv[MAX_ARGS] = {server->binary, "--port", port, "--bind", "127.0.0.1", "-::1", "--unixsocket", server->socket,
                                  "--dir", server->dir, "--logfile", server->log, "--save", "", "--appendonly", "no",
                                  "--daemonize", "no",
                                  /* Redis 6.2 has no such option: there DEBUG is always on. */
                                  server->major < 7 ? NULL : "--enable-debug-command", server->major < 7 ? NULL : "yes"};
    size_t used = 0;
    while (argv[used]) used++;
    const char *const node[] = {"--cluster-enabled", "yes", "--cluster-port", bus_port};
    for (size_t i = 0; server->bus_port && i < sizeof(node) / sizeof(*node); i++) argv[used++] = node[i];
    char tls[4][PATH_MAX];
    if (server->tls) used += tls_args(server, tls, &argv[used]);
    for (size_t i = 0; server->args[i]; i++) {
        cr_assert_lt(used + 1, MAX_ARGS);
        argv[used++] = server->args[i];
    }
    unlink(server->socket);
    char *out = temp_path(server->dir, "stderr");
    child_free(server->child);
    const char *const *env;
    memcpy(&env, &server->env, sizeof(env));
    server->child = child_start(&(child_spec_t){.argv = argv, .env = env, .out = out, .err = out});
    free(out);
    bool up = wait_for(!child_running(server->child) || answers_ping(server), START_MS);
    return up && server->child->running;
}

static void report_failed_start(const server_t *server) {
    char *log = server_log(server);
    char *out = temp_path(server->dir, "stderr");
    char *text = temp_read(out);
    fprintf(stderr, "%s%s", log, text);
    free(log);
    free(out);
    free(text);
    cr_assert_fail("%s did not start", server->binary);
}

/* Returns an absolute path, as the server runs in a directory of its own. Follows no links: Debian's valkey-server is a link to a
 * program that looks at the name by which it was called. */
static char *server_absolute(const char *binary) {
    char cwd[PATH_MAX], *path = NULL;
    if (!strchr(binary, '/') || *binary == '/') return strdup(binary);
    if (!getcwd(cwd, sizeof cwd) || asprintf(&path, "%s/%s", cwd, binary) < 0) abort();
    return path;
}

/* "Redis server v=6.2.14 ..." -> 6; 0: the program does not run. */
static int program_major(const char *program) {
    int major = 0;
    char *command = kept_printf("'%s' --version 2>/dev/null", program);
    FILE *out = popen(command, "r");
    cr_assert_not_null(out);
    if (fscanf(out, "%*[^=]=%d", &major) != 1) major = 0;
    pclose(out);
    return major;
}

static void launch_on_free_ports(server_t *server, bool tcp, bool node) {
    bool up = false;
    for (int tries = 0; !up && tries < (tcp || server->tls ? PORT_TRIES : 1); tries++) {
        if (tcp) server->port = server_free_port();
        if (server->tls) server->tls_port = server_free_port();
        if (node) server->bus_port = server_free_port();
        up = launch(server);
    }
    if (!up) report_failed_start(server);
}

static const char *default_binary(void) {
    const char *chosen = getenv("QS_REDIS_SERVER_BIN");
    return chosen && chosen[0] ? chosen : "redis-server";
}

#define DEFAULT_MAJOR "QS_TEST_DEFAULT_MAJOR" /* major version and name of the default binary */

/* Most tests start the default binary: it is asked once in a run, not by each test. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    char text[PATH_MAX + 16];
    snprintf(text, sizeof text, "%d %s", program_major(default_binary()), default_binary());
    setenv(DEFAULT_MAJOR, text, 1);
}

static int server_known_major(const char *binary, const char *path) {
    const char *known = getenv(DEFAULT_MAJOR), *name = known ? strchr(known, ' ') : NULL;
    int major = name && strcmp(name + 1, binary) == 0 ? atoi(known) : 0;
    if (!major) major = program_major(path);
    cr_assert_gt(major, 0, "%s --version tells no version", path);
    return major;
}

server_t *server_start(const server_options_t *options) {
    static const server_options_t defaults;
    if (!options) options = &defaults;
    server_t *server = calloc(1, sizeof(*server));
    if (!server) abort();
    const char *binary = options->binary ? options->binary : default_binary();
    server->binary = server_absolute(binary);
    server->major = server_known_major(binary, server->binary);
    if (options->node && server->major < 7) cr_skip_test("Redis 6.2 lets nobody choose the port of the cluster bus");
    if (options->tls && server->major < 7) cr_skip_test("the Redis 6.2 of redis62.sh was built without TLS");
    server->dir = temp_dir("redis");
    server->socket = temp_path(server->dir, "redis.sock");
    server->log = temp_path(server->dir, "redis.log");
    server->args = copy_strings(options->args, MAX_ARGS);
    server->env = copy_strings(options->env, MAX_ENV);
    if (options->preload) {
        char *shim = server_shim_path(options->preload);
        add_env(server, "LD_PRELOAD", shim);
        free(shim);
        map_clock(server);
    }
    const char *tls = options->tls ? options->tls : tls_harness_is_on() ? certificate_shared_dir() : NULL;
    server->tls = tls ? strdup(tls) : NULL;
    launch_on_free_ports(server, options->tcp || options->node, options->node);
    if (!options->tls) tls_harness_add(server->socket, server->tls_port);
    return server;
}

void server_stop(server_t *server) {
    child_thaw(server->child);
    child_signal(server->child, SIGTERM);
    cr_assert(child_wait(server->child, STOP_MS), "the server does not end on SIGTERM");
}

void server_kill(server_t *server) { child_kill(server->child); }

static void lose_data(const server_t *server) {
    static const char *const names[] = {"dump.rdb", "appendonlydir", "appendonly.aof"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char *path = temp_path(server->dir, names[i]);
        temp_remove(path);
        free(path);
    }
}

void server_restart(server_t *server, server_data_t data) {
    if (child_running(server->child)) {
        child_thaw(server->child);
        if (data == SERVER_KEEP_DATA) {
            scoped(redis_drop) redis_t *r = redis_open(server);
            redis_ok(r, "SAVE");
        }
        server_kill(server);
    }
    if (data == SERVER_LOSE_DATA) lose_data(server);
    if (!launch(server)) report_failed_start(server);
}

void server_restart_elsewhere(server_t *server) {
    bool harness = server->tls && tls_harness_is_on();
    if (harness) tls_harness_remove(server->socket);
    server_kill(server);
    launch_on_free_ports(server, server->port, server->bus_port);
    if (harness) tls_harness_add(server->socket, server->tls_port);
}

void server_freeze(server_t *server) { child_freeze(server->child); }

void server_thaw(server_t *server) { child_thaw(server->child); }

void server_free(server_t *server) {
    if (!server) return;
    child_free(server->child);
    tls_harness_remove(server->socket);
    temp_remove(server->dir);
    if (server->clock_offset_us) munmap(server->clock_offset_us, sizeof(int64_t));
    free_strings(server->args);
    free_strings(server->env);
    free(server->binary);
    free(server->tls);
    free(server->log);
    free(server->socket);
    free(server->dir);
    free(server);
}

void server_step_clock(server_t *server, int64_t ms) {
    cr_assert_not_null(server->clock_offset_us, "server_step_clock needs .preload = \"shim_clock\"");
    atomic_fetch_add(server->clock_offset_us, ms * 1000);
}

const char *server_socket(const server_t *server) { return server->socket; }
int server_port(const server_t *server) { return server->port; }
int server_bus_port(const server_t *server) { return server->bus_port; }
bool server_has_tls(void) {
    scoped(server_drop) server_t *server = server_start(NULL);
    scoped(redis_drop) redis_t *r = redis_open(server);
    redisReply *reply = redis_do(r, "CONFIG GET tls-port");
    bool found = reply->elements == 2;
    freeReplyObject(reply);
    return found;
}

int server_tls_port(const server_t *server) { return server->tls_port; }
int server_product_port(const server_t *server) { return tls_harness_is_on() ? server->tls_port : server->port; }
int server_major(const server_t *server) { return server->major; }
pid_t server_pid(const server_t *server) { return server->child->pid; }
bool server_running(server_t *server) { return child_running(server->child); }
const char *server_dir(const server_t *server) { return server->dir; }
char *server_log(const server_t *server) { return temp_read(server->log); }

redis_t *redis_open(const server_t *server) {
    redis_t *r = redis_open_path(server->socket, COMMAND_MS);
    cr_assert_not_null(r, "cannot connect to the server");
    return r;
}

/* Redis 6.2 has no CLUSTER ADDSLOTSRANGE. */
void server_serve_all_slots(const server_t *server) {
    enum { SLOTS = 16384 };
    static char numbers[SLOTS][8];
    const char *argv[SLOTS + 2] = {"CLUSTER", "ADDSLOTS"};
    for (int i = 0; i < SLOTS; i++) {
        snprintf(numbers[i], sizeof(*numbers), "%d", i);
        argv[i + 2] = numbers[i];
    }
    scoped(redis_drop) redis_t *r = redis_open(server);
    redisReply *reply = redisCommandArgv(r, SLOTS + 2, argv, NULL);
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "CLUSTER ADDSLOTS: %s", reply ? reply->str : r->errstr);
    freeReplyObject(reply);
}
