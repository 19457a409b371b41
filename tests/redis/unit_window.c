/* The window of requests in flight, and that a wrong use ends the process before a reply goes to another request. */
#include "redis/window.h"
#include "suite.h"

#include <signal.h>

Test(unit_window, requests_leave_in_their_order) {
    window_t window = {0};
    for (int round = 0; round < 3; round++) {
        size_t first = window_push(&window);
        cr_assert_not(window_full(&window));
        size_t second = window_push(&window);
        cr_assert(window_full(&window));
        cr_assert_eq(window_oldest(&window), first);
        cr_assert_eq(window_newest(&window), second);
        cr_assert_eq(window_pop(&window), first);
        cr_assert_eq(window_pop(&window), second);
        cr_assert_eq(window_in_flight(&window), 0);
    }
}

Test(unit_window, a_full_window_takes_no_request, .signal = SIGABRT) {
    window_t window = {0};
    for (int i = 0; i < WINDOW_SIZE; i++) window_push(&window);
    cr_assert(window_full(&window));
    window_push(&window);
}

Test(unit_window, an_empty_window_has_no_reply, .signal = SIGABRT) {
    window_t window = {0};
    window_push(&window);
    window_pop(&window);
    cr_assert_eq(window_in_flight(&window), 0);
    window_pop(&window);
}
