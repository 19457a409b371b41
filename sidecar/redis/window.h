// Requests in flight on one connection. Redis replies in the order of the requests. The caller keeps one element for each
// request in an array of WINDOW_SIZE. The window gives the index of the element.
#pragma once

#include "base/std.h"

enum { WINDOW_SIZE = 2 };

// Begin with {0}.
typedef struct window {
    size_t sent;
    size_t answered;
} window_t;

static inline size_t window_in_flight(const window_t *window) { return window->sent - window->answered; }
static inline bool window_full(const window_t *window) { return window_in_flight(window) == WINDOW_SIZE; }

// A reply that is counted for another request would be taken for other jobs.
static inline size_t window_oldest(const window_t *window) {
    assert(window_in_flight(window) > 0);
    return window->answered % WINDOW_SIZE;
}

static inline size_t window_newest(const window_t *window) {
    assert(window_in_flight(window) > 0);
    return (window->sent - 1) % WINDOW_SIZE;
}

static inline size_t window_push(window_t *window) {
    assert(!window_full(window));
    return window->sent++ % WINDOW_SIZE;
}

static inline size_t window_pop(window_t *window) {
    assert(window_in_flight(window) > 0);
    return window->answered++ % WINDOW_SIZE;
}
