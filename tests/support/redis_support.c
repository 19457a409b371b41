/* Tests of the test support: servers, clocks, clients and the end of a test process. */
#include "child.h"
#include "server.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static bool exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

static bool alive(pid_t pid) { return kill(pid, 0) == 0; }

Test(redis_support_wait, reports_whether_the_condition_became_true) {
    int looks = 0;
    cr_assert(wait_for(++looks == 5, 2000));
    cr_assert_eq(looks, 5);
    int64_t start = wait_now_us();
    cr_assert_not(wait_for(false, 30));
    cr_assert_geq(wait_now_us() - start, 30000);
}

Test(redis_support_wait, a_number_that_grows_has_more_time) {
    int64_t start = wait_now_us();
    cr_assert(wait_reaches((wait_now_us() - start) / 20000, 10, 100), "it takes twice the timeout");
    cr_assert_not(wait_reaches(7, 8, 30), "the number does not grow");
}

Test(redis_support_wait, scales_timeouts) {
    unsetenv("QS_TEST_SLOW");
    cr_assert_eq(wait_scaled_ms(100), 100);
    setenv("QS_TEST_SLOW", "2.5", 1);
    cr_assert_eq(wait_scaled_ms(100), 250);
}

Test(redis_support_server, answers_and_goes_away) {
    server_t *server = server_start(NULL);
    redis_t *r = redis_open(server);
    cr_assert_eq(redis_int(r, "LPUSH %s %s", "q", "job"), 1);
    redis_ok(r, "SET k %b", "a\0b", (size_t)3);
    cr_assert_eq(redis_int(r, "STRLEN k"), 3);
    redis_expect(r, NULL, "GET none");
    redis_expect(r, "job", "RPOP q");
    char *error = redis_error(r, "LPUSH k x");
    cr_assert(strncmp(error, "WRONGTYPE", 9) == 0);
    redis_close(r);
    pid_t pid = server_pid(server);
    char *dir = kept(strdup(server_dir(server)));
    server_free(server);
    cr_assert_not(alive(pid));
    cr_assert_not(exists(dir));
}

Test(redis_support_server, reports_its_own_state) {
    scoped(server_drop) server_t *server = server_start_args("--maxmemory", "64mb");
    scoped(redis_drop) redis_t *r = redis_open(server);
    cr_assert_eq(server_commandstat(server, "rpush"), 0);
    redis_ok(r, "RPUSH q a b c");
    redis_ok(r, "RPUSH q d");
    redis_ok(r, "CLIENT ID");
    cr_assert_eq(server_commandstat(server, "rpush"), 2);
    cr_assert_eq(server_commandstat(server, server_major(server) < 7 ? "client" : "client|id"), 1);
    cr_assert_eq(server_info_int(server, "memory", "maxmemory"), 64 << 20);
    cr_assert_eq(server_info_int(server, "memory", "no_such_field"), -1);
    char *version = server_version(server, NULL);
    cr_assert_geq(server_major(server), 6);
    cr_assert_eq(strtol(version, NULL, 10), server_major(server));
}

Test(redis_support_server, listens_on_a_free_port_if_asked) {
    scoped(server_drop) server_t *one = server_start(&(server_options_t){.tcp = true});
    scoped(server_drop) server_t *two = server_start(&(server_options_t){.tcp = true});
    cr_assert_neq(server_port(one), server_port(two));
    cr_assert_lt(server_port(one), 32768, "an outgoing connection could take the port while its server is down");
    redisContext *r = redisConnect("127.0.0.1", server_port(two));
    cr_assert_eq(r->err, 0);
    redis_expect(r, "PONG", "PING");
    redisFree(r);
}

static long long keys_after(server_t *server, server_data_t data) {
    server_restart(server, data);
    scoped(redis_drop) redis_t *r = redis_open(server);
    long long keys = redis_int(r, "DBSIZE");
    redis_ok(r, "SET k v");
    return keys;
}

Test(redis_support_server, restarts_with_and_without_its_data) {
    scoped(server_drop) server_t *server = server_start(NULL);
    redis_t *r = redis_open(server);
    redis_ok(r, "SET k v");
    redis_close(r);
    cr_assert_eq(keys_after(server, SERVER_KEEP_DATA), 1);
    cr_assert_eq(keys_after(server, SERVER_LOSE_DATA), 0);
    server_stop(server);
    cr_assert_not(server_running(server));
    cr_assert_eq(keys_after(server, SERVER_LOSE_DATA), 0);
}

Test(redis_support_server, finds_its_append_only_file_after_kill) {
    scoped(server_drop) server_t *server = server_start_args("--appendonly", "yes", "--appendfsync", "always");
    redis_t *r = redis_open(server);
    redis_ok(r, "SET k v");
    redis_close(r);
    server_kill(server);
    cr_assert_null(redis_open_path(server_socket(server), 1000));
    cr_assert_eq(keys_after(server, SERVER_KEEP_DATA), 1);
}

Test(redis_support_server, freezes_and_thaws) {
    scoped(server_drop) server_t *server = server_start(NULL);
    for (int round = 0; round < 3; round++) {
        server_freeze(server);
        scoped(redis_drop) redis_t *r = redis_open_path(server_socket(server), 50);
        cr_assert_not_null(r);
        cr_assert_null(redisCommand(r, "PING"));
        redis_close(r);
        server_thaw(server);
        r = redis_open(server);
        redis_expect(r, "PONG", "PING");
    }
    server_freeze(server);
}

static long long server_seconds(redis_t *r) {
    redisReply *reply = redis_do(r, "TIME");
    return strtoll(reply->element[0]->str, NULL, 10);
}

Test(redis_support_clock, steps_an_hour_both_ways) {
    enum { HOUR = 3600 };
    scoped(server_drop) server_t *server = server_start(&(server_options_t){.preload = "shim_clock"});
    scoped(redis_drop) redis_t *r = redis_open(server);
    redis_ok(r, "SET k v PX 600000");
    long long start = server_seconds(r);
    server_step_clock(server, -HOUR * 1000);
    cr_assert_leq(llabs(server_seconds(r) - (start - HOUR)), 60);
    long long left = redis_int(r, "PTTL k");
    cr_assert(left > (HOUR + 540) * 1000 && left <= (HOUR + 600) * 1000, "PTTL is %lld", left);
    server_step_clock(server, HOUR * 1000);
    left = redis_int(r, "PTTL k");
    cr_assert(left > 540000 && left <= 600000, "PTTL is %lld", left);
    server_step_clock(server, HOUR * 1000);
    cr_assert_leq(llabs(server_seconds(r) - (start + HOUR)), 60);
    cr_assert_eq(redis_int(r, "PTTL k"), -2);
}

/* Returns the time of a clock of the shim minus that of the real clock, in milliseconds. */
static double shift_ms(void *shim, clockid_t clock) {
    int (*shim_gettime)(clockid_t, struct timespec *);
    void *symbol = dlsym(shim, "clock_gettime");
    memcpy(&shim_gettime, &symbol, sizeof(symbol));
    struct timespec before, shifted, real;
    do { /* once more, if this process was stopped in between */
        cr_assert_eq(clock_gettime(clock, &before), 0);
        cr_assert_eq(shim_gettime(clock, &shifted), 0);
        cr_assert_eq(clock_gettime(clock, &real), 0);
    } while (real.tv_sec != before.tv_sec || real.tv_nsec - before.tv_nsec > 100000000);
    cr_assert(shifted.tv_nsec >= 0 && shifted.tv_nsec < 1000000000);
    return (double)(shifted.tv_sec - real.tv_sec) * 1e3 + (double)(shifted.tv_nsec - real.tv_nsec) / 1e6;
}

Test(redis_support_clock, leaves_all_but_the_wall_clock_alone) {
    static const int64_t steps_us[] = {3600000000, -3600000000, -900000, 900000, 0};
    char *file = temp_path(temp_root(), "clock"), *path = server_shim_path("shim_clock");
    if (getenv("QEMU_LD_PREFIX"))
        cr_skip_test("the shims are made for redis-server, so for another architecture than this program");
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    cr_assert_eq(pwrite(fd, &steps_us[0], sizeof(int64_t), 0), sizeof(int64_t));
    setenv("QS_CLOCK_FILE", file, 1);
    void *shim = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(shim, "%s", dlerror());
    for (size_t i = 0; i < sizeof(steps_us) / sizeof(*steps_us); i++) {
        cr_assert_eq(pwrite(fd, &steps_us[i], sizeof(int64_t), 0), sizeof(int64_t));
        double want = (double)steps_us[i] / 1e3, slack = wait_scaled_ms(250);
        cr_assert_float_eq(shift_ms(shim, CLOCK_REALTIME), want, slack);
        cr_assert_float_eq(shift_ms(shim, CLOCK_REALTIME_COARSE), want, slack);
        cr_assert_float_eq(shift_ms(shim, CLOCK_MONOTONIC), 0, slack);
        cr_assert_float_eq(shift_ms(shim, CLOCK_BOOTTIME), 0, slack);
        cr_assert_float_eq(shift_ms(shim, CLOCK_PROCESS_CPUTIME_ID), 0, slack);
    }
    dlclose(shim);
    close(fd);
}

/* Starts a server in a fork, which then calls `finish`. Returns the pid of the server and the directory of the fork. */
static void in_a_fork(void (*finish)(void), pid_t *server_pid_out, char *root, size_t size) {
    int channel[2];
    cr_assert_eq(pipe(channel), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static server_t *server; /* reachable at the exit: no leak */
        server = server_start(NULL);
        dprintf(channel[1], "%d %s", (int)server_pid(server), temp_root());
        finish();
    }
    close(channel[1]);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    char text[600] = "", *rest;
    cr_assert_gt(read(channel[0], text, sizeof(text) - 1), 0);
    close(channel[0]);
    *server_pid_out = (pid_t)strtol(text, &rest, 10);
    snprintf(root, size, "%s", rest + 1);
}

static void end_by_kill(void) { kill(getpid(), SIGKILL); }
static void end_by_exit(void) { exit(0); }

Test(redis_support_cleanup, exit_leaves_no_server_and_no_files) {
    pid_t server;
    char root[512];
    in_a_fork(end_by_exit, &server, root, sizeof(root));
    cr_assert_not(exists(root));
    cr_assert(wait_for(!alive(server), 5000));
}

Test(redis_support_cleanup, kill_leaves_no_server_and_no_files) {
    unsetenv("QS_TEST_RUN_DIR"); /* as without Criterion's hooks: the process starts its own reaper */
    pid_t server;
    char root[512];
    in_a_fork(end_by_kill, &server, root, sizeof(root));
    cr_assert(wait_for(!exists(root), 5000));
    cr_assert(wait_for(!alive(server), 5000));
}

#define FAIL_AT_END "QS_TEST_FAIL_AT_END"
SUITE(redis_support_fini, , cr_assert_null(getenv(FAIL_AT_END)));

/* Criterion itself prints the assertion, and lets the run pass. */
Test(redis_support_fini, an_assertion_that_fails_after_the_test_fails_the_run) {
    if (getenv(FAIL_AT_END)) return;
    char *said = temp_path(temp_root(), "said");
    const char *const argv[] = {"/proc/self/exe", "--filter", "redis_support_fini/*", NULL};
    unsetenv("BXFI_MAP"); /* by it a process of Criterion knows that it is one test of a run */
    scoped(child_drop) child_t *run =
        child_start(&(child_spec_t){.argv = argv, .err = said, .env = (const char *const[]){FAIL_AT_END "=1", NULL}});
    cr_assert(child_wait(run, 30000));
    cr_expect_neq(run->exit_code, 0);
    cr_expect_not_null(strstr(temp_read(said), "FAILED after its end: redis_support_fini/an_assertion_that"), "%s",
                       temp_read(said));
}
