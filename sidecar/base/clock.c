#include "base/clock.h"

#include <sys/random.h>

mono_t mono_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (mono_t){now.tv_sec * NS_PER_S + now.tv_nsec};
}

mono_t mono_never(void) { return (mono_t){INT64_MAX}; }

mono_t mono_add(mono_t from, int64_t ns) {
    if (ns > 0 && from.ns > INT64_MAX - ns) return mono_never();
    return (mono_t){from.ns + ns};
}

int64_t mono_diff(mono_t to, mono_t from) { return to.ns == INT64_MAX ? INT64_MAX : to.ns - from.ns; }

bool mono_reached(mono_t deadline, mono_t now) { return now.ns >= deadline.ns; }

mono_t mono_min(mono_t a, mono_t b) { return a.ns < b.ns ? a : b; }

mono_t mono_max(mono_t a, mono_t b) { return a.ns > b.ns ? a : b; }

struct timespec *mono_timeout(mono_t until, struct timespec *left) {
    int64_t ns = mono_diff(until, mono_now());
    *left = (struct timespec){.tv_sec = ns > 0 ? ns / NS_PER_S : 0, .tv_nsec = ns > 0 ? ns % NS_PER_S : 0};
    return until.ns == mono_never().ns ? NULL : left;
}

void wall_text(char *text, size_t size) {
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + len, size - len, ".%03dZ", (int)(now.tv_nsec / NS_PER_MS));
}

void random_bytes(void *bytes, size_t len) {
    unsigned char *at = bytes;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got <= 0) continue; // interrupted by a signal
        at += got;
        len -= (size_t)got;
    }
}

void random_hex(char *hex, size_t digits) {
    random_bytes(hex, digits);
    for (size_t i = 0; i < digits; i++) hex[i] = "0123456789abcdef"[hex[i] & 0xf];
    hex[digits] = '\0';
}

double random_unit(void) {
    uint64_t bits;
    random_bytes(&bits, sizeof bits);
    return (double)(bits >> 11) / (double)(UINT64_C(1) << 53);
}

int64_t wall_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

mono_t backoff_failed(backoff_t *backoff, mono_t now) {
    if (mono_diff(now, backoff->retry_at) > BACKOFF_CALM_S * NS_PER_S) backoff_reset(backoff);
    int64_t ms = backoff->next_ms ? backoff->next_ms : backoff->first_ms;
    backoff->next_ms = ms * 2 < backoff->most_ms ? ms * 2 : backoff->most_ms;
    backoff->retry_at = mono_add(now, (int64_t)((double)(ms * NS_PER_MS) * (0.5 + random_unit() / 2)));
    return backoff->retry_at;
}

void backoff_reset(backoff_t *backoff) { backoff->next_ms = 0; }
