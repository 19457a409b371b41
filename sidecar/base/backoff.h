// Waiting times between attempts. They double from `first` to `most`. A random cut of up to half spreads the attempts of
// instances that failed together.
#pragma once

#include <stdint.h>

#include "base/clock.h"

enum { BACKOFF_CALM_S = 10 }; // after this time without a failure, the waits begin at `first` again

typedef struct backoff {
    int64_t first_ms;
    int64_t most_ms;
    int64_t next_ms; // the next wait before it is cut; 0 = first_ms
    mono_t retry_at; // the last result of backoff_failed
} backoff_t;

#define BACKOFF_REDIS ((backoff_t){.first_ms = 50, .most_ms = 2000})

// Records a failure. Returns when to try again.
mono_t backoff_failed(backoff_t *backoff, mono_t now);
void backoff_reset(backoff_t *backoff); // call it after a success
