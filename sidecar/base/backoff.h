// Waiting times between attempts: they double from `first` to `most`, each with a jitter of half to all of it, so that
// instances that failed together do not come back together.
#ifndef QS_BASE_BACKOFF_H
#define QS_BASE_BACKOFF_H

#include <stdint.h>

typedef struct backoff {
    int64_t first_ms;
    int64_t most_ms;
    int64_t next_ms; // what the next wait is drawn from; 0 = at the beginning
} backoff_t;

#define BACKOFF_REDIS ((backoff_t){.first_ms = 50, .most_ms = 2000})

int64_t backoff_next_ns(backoff_t *backoff); // the wait before the next attempt
void backoff_reset(backoff_t *backoff);      // after a success

#endif
