// The bytes under a connection: a connected socket that does not block, plain or with TLS.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "redis/error.h"
#include "redis/tls/tls.h"

// Limit of a wait.
typedef struct time_limit {
    mono_t deadline;
    const atomic_bool *stop;  // once it is true, no wait lasts longer than STOP_GRACE_MS; NULL = none
    bool stopping;            // *stop was seen
    const atomic_uint *epoch; // a wait ends when it is no longer `current_epoch`; NULL = none
    unsigned current_epoch;
} time_limit_t;

enum { STOP_GRACE_MS = 500 };

typedef enum wait_result { WAIT_READY, WAIT_TIMEOUT, WAIT_STOPPED, WAIT_MOVED, WAIT_FAILED } wait_result_t;

// Waits until `fd` is ready for `events` of poll().
wait_result_t fd_wait(int fd, short events, time_limit_t *limit);
const char *wait_text(wait_result_t result); // "no reply in time", ...
redis_error_kind_t wait_kind(wait_result_t result);

typedef struct channel channel_t;

// Owns `fd` and `tls` (NULL = plain) from now on. Returns owned.
channel_t *channel_new(int fd, tls_t *tls);
void channel_free(channel_t *channel); // closes the socket; NULL is fine

int channel_fd(const channel_t *channel);
const tls_t *channel_tls(const channel_t *channel); // NULL = plain

typedef enum channel_state {
    CHANNEL_DONE,
    CHANNEL_WAIT, // channel_wait, then call again
    CHANNEL_LOST, // channel_reason tells why
} channel_state_t;

// Receives or sends some bytes, and sets *count with CHANNEL_DONE. `size` is at least TLS_RECORD_MAX, so that poll() sees all
// that is left.
channel_state_t channel_receive(channel_t *channel, void *bytes, size_t size, size_t *count);
channel_state_t channel_send(channel_t *channel, const void *bytes, size_t len, size_t *count);

// Waits until the last call that returned CHANNEL_WAIT can go on.
wait_result_t channel_wait(const channel_t *channel, time_limit_t *limit);

const char *channel_reason(const channel_t *channel); // of the last CHANNEL_LOST
