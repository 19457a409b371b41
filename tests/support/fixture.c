#include "fixture.h"

#include "base/wakeup.h"
#include "dialects/registry.h"
#include "queue/lock.h"
#include "tempdir.h"
#include "tls_harness.h"
#include "wait.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_set_report_fd(void *fd);
#endif

enum { LEAD_MS = 24 * 3600 * 1000, NEAR_MS = 15, RESTS = 3, MAX_STEPS = 400 };

static const char DEFAULT_CONFIG[] = "group = \"app\"; queues = ( { name = \"email\"; } );";

config_t *fixture_config(const char *format, ...) {
    char *dir = temp_dir("config"), *path = temp_path(dir, "test.cfg");
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    char *plain;
    va_list args;
    va_start(args, format);
    cr_assert_geq(vasprintf(&plain, format, args), 0);
    va_end(args);
    char *text = tls_harness_config(plain);
    fputs(text, file);
    free(text);
    free(plain);
    cr_assert_eq(fclose(file), 0);
    buffer_t messages = {0};
    config_t *config = config_load(path, dialect_settings, &messages);
    cr_assert_not_null(config, "%s", buffer_text(&messages));
    buffer_free(&messages);
    temp_remove(dir);
    return config;
}

static bool script_flags; /* the server of the last fixture_start takes scripts with their first line */

const char *fixture_script(const script_t *script, size_t *len) { return script_text(script, script_flags, len); }

fixture_t fixture_start(const fixture_options_t *options) {
    static const fixture_options_t defaults;
    if (!options) options = &defaults;
    fixture_t f = {0};
    f.server = server_start(&(server_options_t){.args = options->args, .preload = options->preload, .tcp = options->tcp});
    script_flags = server_major(f.server) >= 7;
    f.r = redis_open(f.server);
    if (options->proxy) f.proxy = proxy_start(server_socket(f.server));
    f.config = fixture_config("redis = { socket = \"%s\"; %s };\n%s\n", f.proxy ? proxy_socket(f.proxy) : server_socket(f.server),
                              options->redis ? options->redis : "", options->config ? options->config : DEFAULT_CONFIG);
    f.keys = keyspace_new(f.config);
    f.topology = topology_new(&f.config->redis);
    f.shard = topology_shard(f.topology, 0);
    f.conn = conn_new(f.shard, "test", NULL);
    fixture_capture_log();
    if (!options->closed) cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    return f;
}

fixture_t fixture_start_locked(void) {
    fixture_t f = fixture_start(NULL);
    redis_ok(f.r, "SET sidecar:app:lock T");
    return f;
}

call_t fixture_call(fixture_t *f, const char *token) { return (call_t){f->conn, f->keys, 0, token, &f->error}; }

lock_call_t fixture_lock_call(fixture_t *f, size_t lock, const char *token, int64_t ttl_ms) {
    return (lock_call_t){f->conn, f->keys, lock, token, ttl_ms, &f->error};
}

void fixture_stop(fixture_t *f) {
    conn_free(f->conn);
    topology_free(f->topology);
    keyspace_free(f->keys);
    config_free(f->config);
    proxy_stop(f->proxy);
    redis_close(f->r);
    server_free(f->server);
    *f = (fixture_t){0};
}

char *fixture_digest(redis_t *r) { return redis_str(r, "DEBUG DIGEST"); }

const char *const fixture_types[FIXTURE_TYPES] = {"string", "list", "set", "zset", "hash", "stream"};

void fixture_make_key(redis_t *r, const char *key, const char *type) {
    static const char *const commands[FIXTURE_TYPES] = {"SET %s x",    "RPUSH %s x",  "SADD %s x",
                                                        "ZADD %s 1 x", "HSET %s f x", "XADD %s * f x"};
    redis_ok(r, "DEL %s", key);
    for (size_t i = 0; i < FIXTURE_TYPES; i++)
        if (strcmp(type, fixture_types[i]) == 0) redis_ok(r, commands[i], key);
    redis_expect(r, type, "TYPE %s", key);
}

static char *log_path(void) { return temp_path(temp_root(), "log"); }

void fixture_capture_log(void) {
    static bool captured;
    if (captured) return;
    captured = true;
    int real = dup(STDERR_FILENO);
#if defined(__SANITIZE_ADDRESS__)
    const char *options = getenv("ASAN_OPTIONS");
    if (!options || !strstr(options, "log_path")) __sanitizer_set_report_fd((void *)(intptr_t)real);
#endif
    char *path = log_path();
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    cr_assert(real >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
}

char *fixture_log(void) {
    char *path = log_path(), *text = temp_read(path);
    return text;
}

int fixture_log_count(const char *text) {
    char *log = fixture_log(), *rest = log;
    int count = 0;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) count += strstr(line, text) != NULL;
    return count;
}

static _Atomic int64_t boottime_shift_ms;
static struct timespec boottime_held; /* all zero = the clock runs */

void fixture_step_boottime(int64_t ms) { atomic_fetch_add(&boottime_shift_ms, ms); }

void fixture_hold_boottime(void) { syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &boottime_held); }

/* Replaces libc's function in this binary. */
int clock_gettime(clockid_t clock, struct timespec *out) {
    if (syscall(SYS_clock_gettime, clock, out) != 0) return -1;
    if (clock == CLOCK_BOOTTIME && boottime_held.tv_sec) *out = boottime_held;
    int64_t shift = clock == CLOCK_BOOTTIME ? atomic_load(&boottime_shift_ms) : 0;
    out->tv_sec += shift / 1000;
    out->tv_nsec += shift % 1000 * 1000000;
    if (out->tv_nsec >= 1000000000) {
        out->tv_nsec -= 1000000000;
        out->tv_sec++;
    }
    return 0;
}

void driver_open(driver_t *driver) {
    *driver = (driver_t){0};
    cr_assert(role_init(&driver->role, "driver", NULL, NULL, NULL));
}

void driver_close(driver_t *driver) { role_destroy(&driver->role); }

void driver_add(driver_t *driver, role_tick_fn *tick, void *state) {
    cr_assert_lt(driver->count, DRIVER_ROLES);
    driver->ticks[driver->count] = tick;
    driver->states[driver->count++] = state;
}

/* The waits of all roles of a driver together: a time, and fds. The first fd is the driver's wake_fd. */
typedef struct {
    mono_t until;
    struct pollfd fds[1 + DRIVER_ROLES * ROLE_FDS];
    nfds_t fd_count;
} driver_wait_t;

/* Calls each tick once. */
static driver_wait_t tick_all(driver_t *driver) {
    driver_wait_t all = {.until = mono_never(), .fds = {{.fd = driver->role.wake_fd, .events = POLLIN}}, .fd_count = 1};
    for (int i = 0; i < driver->count; i++) {
        role_wait_t wait = {.until = mono_never()};
        driver->ticks[i](driver->states[i], &wait);
        all.until = mono_min(all.until, wait.until);
        for (int fd = 0; fd < wait.fd_count; fd++)
            all.fds[all.fd_count++] = (struct pollfd){.fd = wait.fds[fd], .events = POLLIN};
    }
    driver->steps++;
    return all;
}

static void driver_wait(driver_wait_t *wait) {
    struct timespec left;
    if (ppoll(wait->fds, wait->fd_count, mono_timeout(wait->until, &left), NULL) > 0 && wait->fds[0].revents)
        wakeup_clear(wait->fds[0].fd);
}

void driver_step(driver_t *driver, int64_t most_ms) {
    mono_t start = mono_now();
    driver_wait_t all = tick_all(driver);
    all.until = mono_min(all.until, mono_add(start, most_ms * NS_PER_MS));
    driver_wait(&all);
}

int64_t driver_deadline_us(int timeout_ms) { return wait_now_us() + (int64_t)wait_scaled_ms(timeout_ms) * 1000; }

long driver_run(driver_t *driver, int ms) {
    int64_t end_us = driver_deadline_us(ms);
    long before = driver->steps;
    int64_t left = end_us - wait_now_us();
    do driver_step(driver, left > 0 ? left / 1000 + 1 : 0);
    while ((left = end_us - wait_now_us()) > 0);
    return driver->steps - before;
}

/* Whether no fd can be read, and the time that the roles wait for is not near. */
static bool at_rest(driver_wait_t *wait) {
    return !mono_reached(wait->until, mono_add(mono_now(), NEAR_MS * NS_PER_MS)) && poll(wait->fds, wait->fd_count, NEAR_MS) == 0;
}

void driver_settle(driver_t *driver, redis_t *r) {
    for (int rests = 0, steps = 0; rests < RESTS && steps < MAX_STEPS; steps++) {
        driver_wait_t all = tick_all(driver);
        redis_expect(r, "PONG", "PING"); /* earlier requests are answered now */
        rests = at_rest(&all) ? rests + 1 : 0;
        all.until = mono_min(all.until, mono_add(mono_now(), NEAR_MS * NS_PER_MS));
        if (!rests) driver_wait(&all);
    }
}

void instance_start(instance_t *instance, const keyspace_t *keys, int roles) {
    *instance = (instance_t){.keys = keys};
    driver_open(&instance->driver);
    instance->topology = topology_new(&keys->config->redis);
    instance->shard = topology_shard(instance->topology, 0);
    topology_wake_on_change(instance->topology, instance->driver.role.wake_fd);
    instance->leases = leases_new(keys->lock_count, keys->queue_count);
    for (size_t i = 0; i < keys->lock_count; i++)
        leases_set_queues(instance->leases, i,
                          (lease_queues_t){keys->locks[i].name, keys->locks[i].queues, keys->locks[i].queue_count});
    instance->metrics = metrics_new(keys->queue_count);
    topology_set_metrics(instance->topology, instance->metrics);
    leases_wake_on_change(instance->leases, instance->driver.role.wake_fd);
    leases_wake_on_suspicion(instance->leases, instance->driver.role.wake_fd);
    const atomic_bool *stop = &instance->driver.role.stop;
    if (roles & INSTANCE_LEADER) {
        instance->leader = leader_new(keys, instance->shard, instance->leases, instance->metrics, stop);
        driver_add(&instance->driver, leader_tick, instance->leader);
    }
    if (roles & INSTANCE_DISPATCHER) {
        instance->dispatcher = dispatcher_new(keys, instance->shard, instance->leases, instance->metrics, stop);
        driver_add(&instance->driver, dispatcher_tick, instance->dispatcher);
    }
    if (roles & INSTANCE_MONITOR) {
        instance->monitor = monitor_new(keys, instance->shard, instance->leases, instance->metrics, stop);
        driver_add(&instance->driver, monitor_tick, instance->monitor);
    }
}

void instance_stop(instance_t *instance) {
    if (!instance->keys) return;
    monitor_free(instance->monitor);
    dispatcher_free(instance->dispatcher);
    leader_free(instance->leader);
    topology_free(instance->topology);
    leases_free(instance->leases);
    metrics_free(instance->metrics);
    driver_close(&instance->driver);
    *instance = (instance_t){0};
}

void instance_lead(instance_t *instance, redis_t *r) {
    for (size_t i = 0; i < instance->keys->lock_count; i++) {
        char token[TOKEN_SIZE];
        token_new(token, LEAD_MS);
        redis_ok(r, "SET %s %s PX %d", instance->keys->locks[i].key, token, (int)LEAD_MS);
        lease_begin(instance->leases, i, token, mono_add(mono_now(), LEAD_MS * NS_PER_MS));
    }
}
