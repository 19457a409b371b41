#include "redis/socket/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/buffer.h"

enum { POLL_SLICE_MS = 100 };

struct channel {
    int fd;
    tls_t *tls;    // NULL = plain
    short events;  // of poll(), that the last call waits for
    bool received; // some bytes
    const char *reason;
};

wait_result_t fd_wait(int fd, short events, time_limit_t *limit) {
    for (;;) {
        mono_t now = mono_now();
        if (!limit->stopping && limit->stop && atomic_load(limit->stop)) {
            limit->stopping = true;
            limit->deadline = mono_min(limit->deadline, mono_add(now, STOP_GRACE_MS * NS_PER_MS));
        }
        if (mono_reached(limit->deadline, now)) return limit->stopping ? WAIT_STOPPED : WAIT_TIMEOUT;
        if (limit->epoch && atomic_load(limit->epoch) != limit->current_epoch) return WAIT_MOVED;
        int64_t left_ms = mono_diff(limit->deadline, now) / NS_PER_MS + 1;
        struct pollfd ready = {.fd = fd, .events = events};
        int count = poll(&ready, 1, left_ms < POLL_SLICE_MS ? (int)left_ms : POLL_SLICE_MS);
        if (count > 0) return WAIT_READY;
        if (count < 0 && errno != EINTR) return WAIT_FAILED;
    }
}

const char *wait_text(wait_result_t result) {
    static const char *const texts[] = {
        [WAIT_READY] = "ready",
        [WAIT_TIMEOUT] = "no reply in time",
        [WAIT_STOPPED] = "no reply before the stop",
        [WAIT_MOVED] = "another server became the primary",
        [WAIT_FAILED] = "poll failed",
    };
    return texts[result];
}

redis_error_kind_t wait_kind(wait_result_t result) { return result == WAIT_STOPPED ? ERROR_STOPPED : ERROR_OTHER; }

channel_t *channel_new(int fd, tls_t *tls) {
    channel_t *channel = mem_alloc(sizeof *channel);
    *channel = (channel_t){.fd = fd, .tls = tls, .reason = ""};
    return channel;
}

void channel_free(channel_t *channel) {
    if (!channel) return;
    tls_free(channel->tls);
    close(channel->fd);
    free(channel);
}

int channel_fd(const channel_t *channel) { return channel->fd; }
const tls_t *channel_tls(const channel_t *channel) { return channel->tls; }
const char *channel_reason(const channel_t *channel) { return channel->reason; }

// A TLS server closes a plain connection without a word.
static channel_state_t channel_lost(channel_t *channel, const char *reason) {
    static const char SILENT[] = "the server closed the connection before its first reply: perhaps the port wants TLS";
    channel->reason = channel->tls || channel->received ? reason : SILENT;
    return CHANNEL_LOST;
}

// `count` and errno are of send() or recv().
static channel_state_t channel_from_plain(channel_t *channel, ssize_t moved, short events, size_t *count) {
    channel->events = events;
    *count = moved > 0 ? (size_t)moved : 0;
    if (moved >= 0) return CHANNEL_DONE;
    return errno == EAGAIN || errno == EINTR ? CHANNEL_WAIT : channel_lost(channel, strerror(errno));
}

static channel_state_t channel_from_tls(channel_t *channel, tls_state_t state) {
    channel->events = state == TLS_WANTS_WRITE ? POLLOUT : POLLIN;
    if (state == TLS_FAILED) return channel_lost(channel, tls_failure(channel->tls));
    return state == TLS_DONE ? CHANNEL_DONE : CHANNEL_WAIT;
}

channel_state_t channel_receive(channel_t *channel, void *bytes, size_t size, size_t *count) {
    channel_state_t state = channel->tls ? channel_from_tls(channel, tls_receive(channel->tls, bytes, size, count))
                                         : channel_from_plain(channel, recv(channel->fd, bytes, size, 0), POLLIN, count);
    if (state == CHANNEL_DONE && *count == 0) return channel_lost(channel, "the server closed the connection");
    channel->received = channel->received || state == CHANNEL_DONE;
    return state;
}

channel_state_t channel_send(channel_t *channel, const void *bytes, size_t len, size_t *count) {
    if (channel->tls) return channel_from_tls(channel, tls_send(channel->tls, bytes, len, count));
    return channel_from_plain(channel, send(channel->fd, bytes, len, MSG_NOSIGNAL), POLLOUT, count);
}

wait_result_t channel_wait(const channel_t *channel, time_limit_t *limit) { return fd_wait(channel->fd, channel->events, limit); }
