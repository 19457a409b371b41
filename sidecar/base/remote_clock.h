// The clock of a server, by the monotonic clock of this machine.
//
// The server reads its clock between a request and its reply, so each reply bounds the difference of the two clocks. The estimate
// moves only as far as the bounds ask for, and a little further if the server's clock fell behind. So a slow reply shifts it by a
// millisecond at most, and a fast reply makes it better.
#pragma once

#include "base/clock.h"

typedef struct remote_clock {
    bool known;
    int64_t offset_ns; // the monotonic clock minus the server's
} remote_clock_t;

// Notes that the server's clock was `us` (since 1970) at a time from `sent` to `arrived`. Returns the estimate of that time.
static inline mono_t remote_clock_note(remote_clock_t *clock, int64_t us, mono_t sent, mono_t arrived) {
    if (us < 0 || us > INT64_MAX / 2 / NS_PER_US) return arrived;
    int64_t at_ns = us * NS_PER_US, least_ns = sent.ns - at_ns, most_ns = arrived.ns - at_ns;
    int64_t middle_ns = (most_ns - least_ns) / 2;
    if (!clock->known || clock->offset_ns < least_ns) // the first reply, or the server's clock went back or is slower
        clock->offset_ns = least_ns + (middle_ns < NS_PER_MS ? middle_ns : NS_PER_MS);
    else if (clock->offset_ns > most_ns)
        clock->offset_ns = most_ns;
    clock->known = true;
    return (mono_t){clock->offset_ns + at_ns};
}
