/* Messages to the service manager, sd_notify(3). The test's own socket takes the place of the service manager. */
#include "base/buffer.h"
#include "daemon.h"
#include "server.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* No Redis is there: the roles run without it. */
static const char config[] = "redis = { socket = \"%s/no.sock\"; }; http = { port = 0; }; reload = { poll = \"%s\"; };\n"
                             "queues = ( { name = \"q\"; %s } );\n";

typedef struct manager {
    int fd;
    char *variable; /* NOTIFY_SOCKET=... */
} manager_t;

static manager_t manager;

/* Listens at a path, or in the abstract namespace. */
static void manager_start(bool abstract) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    manager = (manager_t){.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    char *path = temp_path(temp_root(), "notify");
    cr_assert_lt(strlen(path) + 1, sizeof at.sun_path);
    strcpy(at.sun_path + (abstract ? 1 : 0), path);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
    cr_assert_eq(bind(manager.fd, (struct sockaddr *)&at, len), 0);
    cr_assert_geq(asprintf(&manager.variable, "NOTIFY_SOCKET=%s%s", abstract ? "@" : "", path), 0);
}

static void manager_stop(void) {
    close(manager.fd);
    free(manager.variable);
}

/* The next message, or "" when none comes. */
static const char *next_message(int timeout_ms) {
    static char message[4096];
    struct pollfd ready = {.fd = manager.fd, .events = POLLIN};
    message[0] = '\0';
    if (poll(&ready, 1, wait_scaled_ms(timeout_ms)) != 1) return message;
    ssize_t len = recv(manager.fd, message, sizeof message - 1, 0);
    cr_assert_geq(len, 0);
    message[len] = '\0';
    return message;
}

static daemon_t *start(const char *watchdog, const char *poll) {
    const char *const env[] = {manager.variable, watchdog, NULL};
    return daemon_start_with(&(daemon_options_t){.env = env}, config, temp_root(), poll, "");
}

static void expect_reloading(int64_t since) {
    const char *message = next_message(10000);
    long long at = 0;
    cr_assert_eq(sscanf(message, "RELOADING=1\nMONOTONIC_USEC=%lld", &at), 1, "<%s>", message);
    cr_expect(at >= since && at <= wait_now_us());
}

SUITE(daemon_sd_notify, , manager_stop());

Test(daemon_sd_notify, ready_reloading_and_stopping_are_sent) {
    manager_start(false);
    scoped(daemon_drop) daemon_t *d = start(NULL, "off");
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue");

    int64_t before = wait_now_us();
    daemon_write_config(d, config, temp_root(), "off", "}, { name = \"r\";");
    daemon_signal(d, SIGHUP);
    expect_reloading(before);
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 2 queues");

    /* SIGHUP is answered even if nothing has changed. */
    daemon_signal(d, SIGHUP);
    expect_reloading(before);
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 2 queues");

    daemon_write_config(d, config, temp_root(), "off", "colour = 1;");
    daemon_signal(d, SIGHUP);
    expect_reloading(before);
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 2 queues; the newest configuration is refused, see the log");

    daemon_signal(d, SIGTERM);
    cr_expect_str_eq(next_message(10000), "STOPPING=1");
    cr_expect_eq(daemon_wait_exit(d, 10000).code, 0);
    cr_expect_str_eq(next_message(0), "");
}

/* A poll of the file is reported as a reload only if it changes the configuration or the refusal. */
Test(daemon_sd_notify, reload_found_by_polling_is_sent_too) {
    manager_start(true);
    scoped(daemon_end) daemon_t *d = start(NULL, "50ms");
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue");
    int64_t before = wait_now_us();
    daemon_write_config(d, config, temp_root(), "50ms", "colour = 1;");
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue; the newest configuration is refused, see the log");
    daemon_write_config(d, config, temp_root(), "50ms", "retry_times = 7;");
    expect_reloading(before);
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue");
}

Test(daemon_sd_notify, watchdog_is_fed_twice_per_interval) {
    manager_start(false);
    scoped(daemon_end) daemon_t *d = start("WATCHDOG_USEC=1000000", "off");
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue");
    int late = 0; /* the machine may pause in between */
    for (int i = 0; i < 7; i++) {
        int64_t before = wait_now_us();
        cr_expect_str_eq(next_message(10000), "WATCHDOG=1");
        late += i && wait_now_us() - before > INT64_C(1000) * wait_scaled_ms(1000);
    }
    cr_expect_leq(late, 2);
}

Test(daemon_sd_notify, watchdog_of_another_process_is_not_fed) {
    manager_start(false);
    const char *const env[] = {manager.variable, "WATCHDOG_USEC=1000", "WATCHDOG_PID=1", NULL};
    scoped(daemon_end) daemon_t *d = daemon_start_with(&(daemon_options_t){.env = env}, config, temp_root(), "off", "");
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue");
    daemon_signal(d, SIGHUP); /* the next message is the answer, so no watchdog message came before it */
    expect_reloading(0);
    cr_expect_str_eq(next_message(10000), "READY=1\nSTATUS=serves 1 queue");
}

Test(daemon_sd_notify, missing_service_manager_is_harmless) {
    const char *const nobody[] = {"NOTIFY_SOCKET=/nowhere/socket", "WATCHDOG_USEC=100000", NULL};
    scoped(daemon_end) daemon_t *d = daemon_start_with(&(daemon_options_t){.env = nobody}, config, temp_root(), "off", "");
    cr_expect(daemon_wait_log(d, "cannot notify the service manager", 10000));
    daemon_stop(d);
    const char *const odd[] = {"NOTIFY_SOCKET=vsock:2:1", NULL};
    d = daemon_start_with(&(daemon_options_t){.env = odd}, config, temp_root(), "off", "");
    cr_expect(daemon_wait_log(d, "ignoring NOTIFY_SOCKET", 10000));
}

/* Stops one thread of a child of ours, as a debugger does; ptrace(2). Detach it, or nobody can reap the process. */
static pid_t stop_thread(pid_t pid, const char *name) {
    char *path = kept_printf("/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    cr_assert_not_null(tasks);
    pid_t found = 0;
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char *comm = kept_printf("%s/%s/comm", path, task->d_name), *text = temp_read(comm);
        text[strcspn(text, "\n")] = '\0';
        if (strcmp(text, name) == 0) found = (pid_t)atoi(task->d_name);
    }
    closedir(tasks);
    cr_assert_neq(found, 0, "no thread %s", name);
    cr_assert_eq(ptrace(PTRACE_SEIZE, found, NULL, NULL), 0);
    cr_assert_eq(ptrace(PTRACE_INTERRUPT, found, NULL, NULL), 0);
    cr_assert_eq(waitpid(found, NULL, __WALL), found);
    return found;
}

/* A role counts as hanging after ROLE_TICK_MAX_S. */
Test(daemon_sd_notify, hanging_role_stops_the_watchdog_messages, .timeout = 300) {
    if (!getenv("QS_LONG")) cr_skip_test("takes two minutes: set QS_LONG=1");
    manager_start(false);
    scoped(server_drop) server_t *server = server_start(NULL);
    const char *const env[] = {manager.variable, "WATCHDOG_USEC=2000000", NULL};
    scoped(daemon_drop) daemon_t *d = daemon_start_with(
        &(daemon_options_t){.env = env}, "redis = { socket = \"%s\"; }; http = { port = 0; };\nqueues = ( { name = \"q\"; } );",
        server_socket(server));
    cr_assert(daemon_wait_log(d, "\"msg\":\"leading\"", 10000));
    pid_t thread = stop_thread(daemon_pid(d), "dispatcher");
    int64_t start_us = wait_now_us();
    while (*next_message(10000)) cr_assert_lt(wait_now_us() - start_us, INT64_C(200) * 1000000, "watchdog messages still come");
    cr_expect_gt(wait_now_us() - start_us, INT64_C(100) * 1000000);
    cr_expect(daemon_running(d));
    cr_assert_eq(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
    daemon_kill(d);
}
