// Monotonic time is a type of its own, so that it cannot be mixed with wall time or with Redis time.
//
// It is CLOCK_BOOTTIME, which goes on while the machine sleeps; otherwise a lease would outlive its lock.
#pragma once

#include "base/std.h"

typedef struct mono {
    int64_t ns;
} mono_t;

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

mono_t mono_now(void);
mono_t mono_never(void);                   // later than any time
mono_t mono_add(mono_t from, int64_t ns);  // saturates at mono_never
int64_t mono_diff(mono_t to, mono_t from); // ns, negative when `to` is earlier; saturates
bool mono_reached(mono_t deadline, mono_t now);
mono_t mono_min(mono_t a, mono_t b);
mono_t mono_max(mono_t a, mono_t b);
// Returns `left`, set to the time until `until`, for ppoll; 0 = it has passed. Returns NULL for mono_never: wait without limit.
struct timespec *mono_timeout(mono_t until, struct timespec *left);

// Wall time, for display only: RFC 3339 in UTC with milliseconds. `size` >= 25.
void wall_text(char *text, size_t size);
int64_t wall_ms(void); // since 1970 by the machine's clock, for display only: never compare it with Redis time

// Random numbers from getrandom(2).
double random_unit(void); // in [0, 1)
void random_bytes(void *bytes, size_t len);
void random_hex(char *hex, size_t digits); // `digits` digits, a NUL

// ---- Waiting times between attempts. They double from `first_ms` to `most_ms`. Each is cut by a random share of up to half,
// so that instances that failed together do not try again together.

enum { BACKOFF_CALM_S = 10 }; // after this time without a failure, the waits begin at `first_ms` again

typedef struct backoff {
    int64_t first_ms;
    int64_t most_ms;
    int64_t next_ms; // the next wait before it is cut; 0 = first_ms
    mono_t retry_at; // what backoff_failed returned last
} backoff_t;

#define BACKOFF_REDIS ((backoff_t){.first_ms = 50, .most_ms = 2000})

// Records a failure. Returns when to try again.
mono_t backoff_failed(backoff_t *backoff, mono_t now);
void backoff_reset(backoff_t *backoff); // call it after a success
