/* Waiting for a condition, never for a time: the files in this folder are the only ones of the tests that may sleep. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
int64_t wait_now_us(void);

/* Every timeout of the tests goes through here: it is multiplied by QS_TEST_SLOW (for example 5 under thread sanitizer). */
int wait_scaled_ms(int timeout_ms);

/* One wait in progress; filled by wait_begin. */
typedef struct {
    int64_t deadline_us; /* CLOCK_MONOTONIC */
    int64_t nap_us;      /* the next sleep; grows from 0.2 ms to 20 ms */
} wait_t;

wait_t wait_begin(int timeout_ms);
/* Sleeps and returns true: check again. Returns false once the deadline has passed. */
bool wait_again(wait_t *wait);

/* Evaluates `cond` until it is true, for at most timeout_ms (scaled); returns whether it became true. */
#define wait_for(cond, timeout_ms)                                                                                               \
    __extension__({                                                                                                              \
        wait_t wait_for_wait_ = wait_begin(timeout_ms);                                                                          \
        bool wait_for_met_;                                                                                                      \
        while (!(wait_for_met_ = (cond) ? true : false) && wait_again(&wait_for_wait_)) {                                        \
        }                                                                                                                        \
        wait_for_met_;                                                                                                           \
    })

/* The same for a number that grows to at least `least`: gives up when the number has not grown for timeout_ms (scaled), so that a
 * slow machine may take as long as it needs. */
#define wait_reaches(number, least, timeout_ms)                                                                                  \
    __extension__({                                                                                                              \
        long long wait_reaches_now_, wait_reaches_most_ = 0;                                                                     \
        wait_t wait_reaches_wait_ = wait_begin(timeout_ms);                                                                      \
        while ((wait_reaches_now_ = (number)) < (least)) {                                                                       \
            if (wait_reaches_now_ > wait_reaches_most_) wait_reaches_wait_ = wait_begin(timeout_ms);                             \
            if (wait_reaches_now_ > wait_reaches_most_) wait_reaches_most_ = wait_reaches_now_;                                  \
            if (!wait_again(&wait_reaches_wait_)) break;                                                                         \
        }                                                                                                                        \
        wait_reaches_now_ >= (least);                                                                                            \
    })
