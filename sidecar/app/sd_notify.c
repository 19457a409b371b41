#include "app/sd_notify.h"

#include <sys/time.h>

#include "base/log.h"

// Protocol: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html. The address is a path, or @ and a name in
// the abstract namespace. The kernel expects a NUL byte in place of the @.
static bool sd_notify_find_socket(sd_notify_t *notify) {
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || !*path) return false;
    size_t len = strlen(path);
    if ((*path != '/' && *path != '@') || len < 2 || len >= sizeof notify->to.sun_path) {
        log_warn("main", NULL, "ignoring NOTIFY_SOCKET: not a socket path", F_STR("path", path));
        return false;
    }
    notify->to.sun_family = AF_UNIX;
    memcpy(notify->to.sun_path, path, len + 1);
    if (*path == '@') notify->to.sun_path[0] = '\0';
    notify->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*path == '/'));
    return true;
}

// Send at twice the required rate, as sd_watchdog_enabled(3) advises. Ignore a time for another process (WATCHDOG_PID).
static int64_t sd_notify_find_watchdog(void) {
    const char *time = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!time || (pid && strtoll(pid, NULL, 10) != getpid())) return 0;
    long long us = strtoll(time, NULL, 10);
    return us > 0 && us < INT64_MAX / 1000 ? us * 1000 / 2 : 0;
}

static void sd_notify_log_error(int error) {
    log_warn("main", NULL, "cannot notify the service manager", F_STR("socket", getenv("NOTIFY_SOCKET")),
             F_STR("reason", strerror(error)));
}

static void sd_notify_send(const sd_notify_t *notify, const char *state) {
    if (notify->fd < 0) return;
    ssize_t sent = sendto(notify->fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&notify->to, notify->to_len);
    if (sent < 0) sd_notify_log_error(errno);
}

void sd_notify_begin(sd_notify_t *notify) {
    // A service manager that does not read must not block the main thread for long.
    struct timeval timeout = {.tv_sec = 1};
    *notify = (sd_notify_t){.fd = -1};
    if (!sd_notify_find_socket(notify)) return;
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->fd >= 0)
        setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    else
        sd_notify_log_error(errno);
    notify->beat_ns = sd_notify_find_watchdog();
    notify->next = mono_now();
}

void sd_notify_end(sd_notify_t *notify) {
    if (notify->fd >= 0) close(notify->fd);
    notify->fd = -1;
}

void sd_notify_ready(const sd_notify_t *notify, size_t queues, bool refused) {
    char state[128];
    snprintf(state, sizeof state, "READY=1\nSTATUS=serves %zu queue%s%s", queues, queues == 1 ? "" : "s",
             refused ? "; the newest configuration is refused, see the log" : "");
    sd_notify_send(notify, state);
}

// Type=notify-reload uses this CLOCK_MONOTONIC time to tell this reload from an earlier one.
void sd_notify_reloading(const sd_notify_t *notify) {
    struct timespec now;
    char state[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    sd_notify_send(notify, state);
}

void sd_notify_stopping(const sd_notify_t *notify) { sd_notify_send(notify, "STOPPING=1"); }

mono_t sd_notify_due(const sd_notify_t *notify) { return notify->fd >= 0 && notify->beat_ns ? notify->next : mono_never(); }

void sd_notify_beat(sd_notify_t *notify, bool well) {
    if (well) sd_notify_send(notify, "WATCHDOG=1");
    notify->next = mono_add(mono_now(), notify->beat_ns);
}
