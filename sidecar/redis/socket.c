#include "redis/socket.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include "base/buffer.h"
#include "base/file.h"

// A subscriber sends nothing, so only this timeout notices that its peer has vanished.
enum { TCP_USER_TIMEOUT_MS = 30000 };

static void socket_configure(redisContext *context, bool tcp) {
    int flags = fcntl(context->fd, F_GETFL);
    fcntl(context->fd, F_SETFL, flags | O_NONBLOCK);
    fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    context->flags &= ~REDIS_BLOCK; // hiredis 0.14 has no call for this; from here on poll() waits
    if (!tcp) return;
    unsigned user_timeout = TCP_USER_TIMEOUT_MS;
    int on = 1;
    redisEnableKeepAlive(context);
    setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(context->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
}

struct redisContext *socket_open(const redis_config_t *redis, const endpoint_t *address, int64_t timeout_ms,
                                 redis_error_t *error) {
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    bool tcp = *address->host;
    redisContext *context = tcp ? redisConnectWithTimeout(address->host, address->port, timeout)
                                : redisConnectUnixWithTimeout(redis->socket, timeout);
    if (context && !context->err) {
        socket_configure(context, tcp);
        return context;
    }
    redis_error_set(error, OUTCOME_DISCONNECTED, "cannot connect to %s: %s", address->text,
                    context ? context->errstr : "out of memory");
    if (context) redisFree(context);
    return NULL;
}

char *redis_password(const redis_config_t *redis, redis_error_t *error) {
    if (!*redis->password_file) return mem_str(redis->password);
    const char *path = *redis->password_file == '/' || *redis->password_file == '.' ? redis->password_file : "(hidden)";
    FILE *file = file_open_regular(redis->password_file);
    if (!file) {
        const char *reason = errno == FILE_NOT_REGULAR ? "not a regular file" : strerror(errno);
        redis_error_set(error, OUTCOME_REFUSED, "cannot read redis.password_file %s: %s", path, reason);
        return NULL;
    }
    char text[4096];
    size_t len = fread(text, 1, sizeof text - 1, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) len--;
    if (failed || len == 0) {
        redis_error_set(error, OUTCOME_REFUSED, "redis.password_file %s %s", path, failed ? "cannot be read" : "is empty");
        return NULL;
    }
    text[len] = '\0';
    return mem_str(text);
}
