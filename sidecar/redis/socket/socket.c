#include "redis/socket/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buffer.h"
#include "redis/socket/resolve.h"
#include "redis/socket/secret_file.h"

// A subscriber sends nothing, so only this timeout notices that its peer has vanished.
enum {
    TCP_USER_TIMEOUT_MS = 30000,
    TCP_KEEPALIVE_S = 15,
};

enum { MAX_PASSWORD_KB = 16 }; // Redis takes no more before AUTH (redis src/networking.c, processMultibulkBuffer)

static void socket_set(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

// Without TCP_NODELAY the last message of a TLS handshake would wait 40 ms for an acknowledgement.
static void socket_configure_tcp(int fd) {
    socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEPALIVE_S);
    socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEPALIVE_S / 3);
    socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    socket_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS);
}

// Sets *error to "cannot connect to TARGET<how>: <why><when>". Always returns false.
static bool socket_fail(redis_error_t *error, redis_error_kind_t kind, const char *target, const char *how, const char *why,
                        const char *when) {
    static const char CONNECT_TO[] = "cannot connect to ";
    redis_error_set_kind(error, OUTCOME_DISCONNECTED, kind, "%s%s%s: %s%s", CONNECT_TO, target, how, why, when);
    error->address.at = sizeof CONNECT_TO - 1;
    error->address.len = (unsigned short)strlen(target);
    return false;
}

// Returns a connected socket; -1: *error.
static int socket_connect(const struct sockaddr *address, socklen_t size, time_limit_t *limit, const char *target,
                          redis_error_t *error) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && address->sa_family != AF_UNIX) socket_configure_tcp(fd);
    int failed = fd < 0 || connect(fd, address, size) != 0 ? errno : 0;
    wait_result_t waited = failed == EINPROGRESS ? fd_wait(fd, POLLOUT, limit) : WAIT_READY;
    if (failed == EINPROGRESS && waited == WAIT_READY) {
        socklen_t length = sizeof failed;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) failed = errno;
    }
    if (!failed) return fd;
    socket_fail(error, wait_kind(waited), target, "", waited == WAIT_READY ? strerror(failed) : wait_text(waited), "");
    if (fd >= 0) close(fd);
    return -1;
}

static bool socket_handshake(tls_t *tls, int fd, time_limit_t *limit, const char *target, redis_error_t *error) {
    tls_state_t state = TLS_WANTS_WRITE;
    wait_result_t waited = WAIT_READY;
    while (waited == WAIT_READY && (state = tls_handshake(tls)) != TLS_DONE && state != TLS_FAILED)
        waited = fd_wait(fd, state == TLS_WANTS_WRITE ? POLLOUT : POLLIN, limit);
    if (state == TLS_DONE) return true;
    if (tls_peer_is_plain(tls)) return socket_fail(error, ERROR_TLS, target, " by TLS", "the port speaks no TLS", "");
    const char *why = waited == WAIT_READY ? tls_failure(tls) : wait_text(waited);
    if (tls_heard(tls)) return socket_fail(error, waited == WAIT_STOPPED ? ERROR_STOPPED : ERROR_TLS, target, " by TLS", why, "");
    // A plain Redis waits for the end of a line. A server that is away says nothing, either.
    bool silent = waited == WAIT_TIMEOUT;
    return socket_fail(error, waited == WAIT_STOPPED ? ERROR_STOPPED : ERROR_TLS_SILENT, target, "", why,
                       silent ? " during the TLS handshake: perhaps the port speaks no TLS" : " during the TLS handshake");
}

// Settings that all addresses of a server share.
typedef struct target {
    const redis_config_t *redis;
    const endpoint_t *address;
    bool tls;
} target_t;

static channel_t *socket_open_one(const target_t *target, const struct sockaddr *address, socklen_t size, time_limit_t *limit,
                                  redis_error_t *error) {
    const char *name = *target->address->host ? target->address->host : target->redis->host;
    const char *text = target->address->text;
    int fd = socket_connect(address, size, limit, text, error);
    if (fd < 0 || !target->tls) return fd < 0 ? NULL : channel_new(fd, NULL);
    tls_t *tls = tls_new(target->redis, name, fd, error);
    if (tls && socket_handshake(tls, fd, limit, text, error)) return channel_new(fd, tls);
    tls_free(tls);
    close(fd);
    return NULL;
}

static channel_t *socket_open_unix(const target_t *target, time_limit_t *limit, redis_error_t *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = target->address->text;
    if (strlen(path) >= sizeof address.sun_path) {
        redis_error_set(error, OUTCOME_REFUSED, "cannot connect to %s: the path is too long", path);
        return NULL;
    }
    memcpy(address.sun_path, path, strlen(path));
    return socket_open_one(target, (struct sockaddr *)&address, sizeof address, limit, error);
}

// The limit of the next of `left` addresses: an equal share of what is left of the time.
static time_limit_t socket_share(time_limit_t limit, int left) {
    mono_t now = mono_now();
    limit.deadline = mono_min(limit.deadline, mono_add(now, mono_diff(limit.deadline, now) / left));
    return limit;
}

static channel_t *socket_open_each(const target_t *target, const struct addrinfo *found, time_limit_t *limit,
                                   redis_error_t *error) {
    int left = 0;
    for (const struct addrinfo *at = found; at; at = at->ai_next) left++;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        time_limit_t share = socket_share(*limit, left--);
        redis_error_t failure = {0};
        channel_t *channel = socket_open_one(target, at->ai_addr, at->ai_addrlen, &share, &failure);
        if (channel) {
            *error = (redis_error_t){0};
            return channel;
        }
        // An error of TLS says more than an address that refuses: "localhost" often has one where nobody listens.
        bool of_tls = error->kind == ERROR_TLS || error->kind == ERROR_TLS_SILENT;
        if (failure.outcome == OUTCOME_REFUSED || !of_tls) *error = failure;
        if (failure.outcome == OUTCOME_REFUSED || share.stopping) break;
    }
    return NULL;
}

channel_t *socket_open(const redis_config_t *redis, const endpoint_t *address, bool tls, time_limit_t *limit,
                       redis_error_t *error) {
    target_t target = {redis, address, tls};
    if (!*address->host) return socket_open_unix(&target, limit, error);
    lookup_t *lookup = resolve_host(address->host, address->port, limit, error);
    if (!lookup) return NULL;
    channel_t *channel = socket_open_each(&target, resolve_addresses(lookup), limit, error);
    resolve_free(lookup);
    return channel;
}

static char *password_read(const char *key, const char *path, const char *otherwise, redis_error_t *error) {
    if (!*path) return mem_str(otherwise);
    buffer_t text = {0};
    char *password = NULL;
    if (secret_file_read(key, path, SECRET_PATH_GUARDED, MAX_PASSWORD_KB, &text, error)) {
        while (text.len > 0 && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r')) text.data[--text.len] = '\0';
        password = mem_str(text.data);
    }
    secret_file_free(&text);
    return password;
}

char *redis_password(const redis_config_t *redis, redis_error_t *error) {
    return password_read("redis.password_file", redis->password_file, redis->password, error);
}

char *redis_sentinel_password(const redis_config_t *redis, redis_error_t *error) {
    return password_read("redis.sentinel_password_file", redis->sentinel_password_file, redis->sentinel_password, error);
}
