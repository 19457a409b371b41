#include "wait.h"

#include <stdlib.h>
#include <time.h>

int64_t wait_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int wait_scaled_ms(int timeout_ms) {
    const char *slow = getenv("QS_TEST_SLOW");
    double factor = slow ? strtod(slow, NULL) : 1.0;
    return factor > 0.0 ? (int)((double)timeout_ms * factor) : timeout_ms;
}

wait_t wait_begin(int timeout_ms) {
    return (wait_t){.deadline_us = wait_now_us() + (int64_t)wait_scaled_ms(timeout_ms) * 1000, .nap_us = 200};
}

bool wait_again(wait_t *wait) {
    int64_t left = wait->deadline_us - wait_now_us();
    if (left <= 0) return false;
    int64_t nap = wait->nap_us < left ? wait->nap_us : left;
    struct timespec time = {.tv_sec = nap / 1000000, .tv_nsec = nap % 1000000 * 1000};
    nanosleep(&time, NULL);
    wait->nap_us = wait->nap_us * 3 / 2 < 20000 ? wait->nap_us * 3 / 2 : 20000;
    return true;
}
