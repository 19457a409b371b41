/* base/pace: batches follow the time that scripts take. */
#include "base/pace.h"

#include <criterion/criterion.h>

Test(unit_pace, batches_grow_and_shrink_with_the_time_of_a_job) {
    pace_t pace = {0};
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 16, "the first batch, with an unknown time");
    pace_note(&pace, 16, 160);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
    pace_note(&pace, 50, 5000); /* 100 us a job */
    cr_assert_lt(pace_jobs(&pace, 500, 16, 256), 10);
    for (int i = 0; i < 20; i++) pace_note(&pace, 100, 100);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 256, "no more than the limit");
    for (int i = 0; i < 20; i++) pace_note(&pace, 1, 100000);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 1, "one job at least");
}

Test(unit_pace, scripts_that_cannot_tell_change_nothing) {
    pace_t pace = {.job_us = 10};
    pace_note(&pace, 5, 0);
    pace_note(&pace, 0, 100);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
}
