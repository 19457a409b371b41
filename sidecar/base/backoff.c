#include "base/backoff.h"

mono_t backoff_failed(backoff_t *backoff, mono_t now) {
    if (mono_diff(now, backoff->retry_at) > BACKOFF_CALM_S * NS_PER_S) backoff_reset(backoff);
    int64_t ms = backoff->next_ms ? backoff->next_ms : backoff->first_ms;
    backoff->next_ms = ms * 2 < backoff->most_ms ? ms * 2 : backoff->most_ms;
    backoff->retry_at = mono_add(now, (int64_t)((double)(ms * NS_PER_MS) * (0.5 + random_unit() / 2)));
    return backoff->retry_at;
}

void backoff_reset(backoff_t *backoff) { backoff->next_ms = 0; }
