/* base/pace: batches follow the time that scripts take. */
#include "base/pace.h"
#include "suite.h"

Test(unit_pace, batches_grow_and_shrink_with_the_time_of_a_job) {
    pace_t pace = {0};
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 16, "the first batch, with an unknown time");
    pace_note(&pace, 16, 160);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
    pace_note(&pace, 50, 5000); /* 100 us a job */
    for (int i = 0; i < 2; i++) pace_note(&pace, 20, 2000);
    cr_assert_lt(pace_jobs(&pace, 500, 16, 256), 10);
    for (int i = 0; i < 20; i++) pace_note(&pace, 100, 100);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 256, "no more than the limit");
    for (int i = 0; i < 20; i++) pace_note(&pace, 1, 100000);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 1, "one job at least");
}

/* A batch that followed the fastest scripts would take longer than the slice most of the time. */
Test(unit_pace, scripts_take_a_slice_on_average) {
    static const int64_t percents[] = {80, 120, 75, 110, 140, 90, 85, 100};
    pace_t pace = {0};
    int64_t total = 0, scripts = 400;
    pace_note(&pace, 16, 160);
    for (int64_t i = 0; i < scripts; i++) {
        int64_t jobs = pace_jobs(&pace, 500, 16, 256), us = jobs * 10 * percents[i % 8] / 100;
        pace_note(&pace, jobs, us);
        total += us;
    }
    cr_assert(total / scripts >= 480 && total / scripts <= 510, "%lld us", (long long)(total / scripts));
}

/* The server may lose its processor for a time slice of 50 ms while a script runs. */
Test(unit_pace, a_slow_script_now_and_then_changes_no_batch) {
    pace_t pace = {0};
    pace_note(&pace, 16, 160);
    for (int i = 0; i < 10; i++) {
        pace_note(&pace, 50, 50000);
        cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
        pace_note(&pace, 50, 500);
        cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
    }
    for (int i = 0; i < 2; i++) pace_note(&pace, 50, 50000);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 12, "two in a row: a quarter");
    pace_note(&pace, 12, 120);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50, "the next fast script restores the batch");
}

/* Jobs of 1 MB among jobs of 1 KB. */
Test(unit_pace, slow_jobs_make_batches_small) {
    pace_t pace = {0};
    pace_note(&pace, 16, 160);
    for (int i = 0; i < 6; i++) pace_note(&pace, pace_jobs(&pace, 500, 16, 256), pace_jobs(&pace, 500, 16, 256) * 5000);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 1);
    for (int i = 0; i < 20; i++) pace_note(&pace, 1, 10);
    cr_assert_geq(pace_jobs(&pace, 500, 16, 256), 49);
}

/* Jobs that are gone cost nothing, and say nothing about the next ones. */
Test(unit_pace, a_fast_script_makes_the_next_batch_four_times_as_large) {
    pace_t pace = {0};
    pace_note(&pace, 16, 160);
    pace_note(&pace, 50, 1);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 200);
    for (int i = 0; i < 2; i++) pace_note(&pace, 200, 2000);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
}

Test(unit_pace, scripts_that_cannot_tell_change_nothing) {
    pace_t pace = {.job_us = 10};
    pace_note(&pace, 5, 0);
    pace_note(&pace, 0, 100);
    cr_assert_eq(pace_jobs(&pace, 500, 16, 256), 50);
}

/* 30 us for each script, which it does not tell, and 6 us for each job. In a slice of 25 us batches would end at one job. */
Test(unit_pace, an_unknown_fixed_part_makes_no_batch_of_one_cheap_job) {
    pace_t pace = {0};
    int64_t jobs = 16;
    for (int i = 0; i < 20; i++) {
        pace_note(&pace, jobs, 30 + 6 * jobs);
        jobs = pace_jobs_least(&pace, 25, 16, 256);
        cr_assert_geq(jobs, 8);
    }
    cr_assert_eq(pace_jobs_least(&pace, 25, 16, 5), 5, "no more than the limit");
    for (int i = 0; i < 20; i++) pace_note(&pace, 1, 5000);
    cr_assert_eq(pace_jobs_least(&pace, 25, 16, 256), 1, "large jobs come one by one");
}

/* 1 ms for each script and 3 us for each job: a slice of 500 us cannot be met, and one job a script would take 300 times as long.
 */
Test(unit_pace, a_fixed_part_above_the_slice_is_spent_on_many_jobs) {
    pace_t pace = {0};
    int64_t jobs = 100;
    for (int i = 0; i < 20; i++) {
        pace_note_fixed(&pace, 1000);
        pace_note(&pace, jobs, 3 * jobs);
        jobs = pace_jobs(&pace, 500, 100, 5000);
    }
    cr_assert(jobs >= 300 && jobs <= 334, "%lld jobs", (long long)jobs);
    for (int i = 0; i < 20; i++) {
        pace_note_fixed(&pace, 40);
        pace_note(&pace, jobs, 3 * jobs);
        jobs = pace_jobs(&pace, 500, 100, 5000);
    }
    cr_assert(jobs >= 150 && jobs <= 154, "%lld jobs: the fixed part is a part of the slice", (long long)jobs);
}

/* Runs scripts whose time is a fixed one and that of their jobs. Returns the jobs of the next one. */
static int64_t run_scripts(pace_t *pace, int64_t jobs, int scripts, int64_t fixed_us, int64_t job_us) {
    for (int i = 0; i < scripts; i++) {
        pace_note_whole(pace, jobs, fixed_us + job_us * jobs);
        jobs = pace_jobs_least(pace, 250, 16, 256);
    }
    return jobs;
}

/* 5 ms for each script, because a neighbour of the jobs has 4 MB. It was charged to the jobs, and one job a script stayed. */
Test(unit_pace, a_batch_of_one_job_tries_two) {
    pace_t pace = {0};
    int64_t jobs = run_scripts(&pace, 16, 60, 5000, 10);
    cr_assert_gt(jobs, 200, "%lld", (long long)jobs);
    jobs = run_scripts(&pace, jobs, 40, 0, 10); /* the neighbour is gone */
    cr_assert(jobs >= 20 && jobs <= 30, "%lld", (long long)jobs);
    jobs = run_scripts(&pace, jobs, 40, 0, 5000); /* the jobs themselves are large */
    cr_assert_leq(jobs, 2, "%lld", (long long)jobs);
}

Test(unit_pace, large_jobs_are_seldom_tried_in_twos) {
    pace_t pace = {0};
    int twos = 0;
    int64_t jobs = run_scripts(&pace, 16, 5, 0, 5000);
    for (int i = 0; i < 1000; i++) {
        jobs = run_scripts(&pace, jobs, 1, 30, i % 2 ? 5000 : 5500);
        twos += jobs == 2;
        cr_assert_leq(jobs, 2);
    }
    cr_assert_leq(twos, 10, "%d", twos);
}
