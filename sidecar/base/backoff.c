#include "base/backoff.h"

#include "base/clock.h"

int64_t backoff_next_ns(backoff_t *backoff) {
    int64_t ms = backoff->next_ms ? backoff->next_ms : backoff->first_ms;
    backoff->next_ms = ms * 2 < backoff->most_ms ? ms * 2 : backoff->most_ms;
    return (int64_t)((double)(ms * NS_PER_MS) * (0.5 + random_unit() / 2));
}

void backoff_reset(backoff_t *backoff) { backoff->next_ms = 0; }
