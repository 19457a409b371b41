/* The program behind sentinels, while the primary changes and jobs flow. QS_LONG=1 runs the long form. */
#include "flow.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LONG_KILLS = 8,
    LONG_FREEZES = 6,
    LONG_COMMANDS = 6,
    LONG_ALL = LONG_KILLS + LONG_FREEZES + LONG_COMMANDS,
    P50_MS = 300,
    MOST_MS = 1000
};

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Fails over in turn by each kind, each as often as given. */
static void fail_over(flow_t *f, const int *times) {
    double ms[LONG_ALL];
    int done = 0, left[FAILOVER_KINDS] = {times[0], times[1], times[2]};
    while (left[0] + left[1] + left[2]) {
        for (int kind = 0; kind < FAILOVER_KINDS; kind++) {
            if (!left[kind]) continue;
            left[kind]--;
            ms[done++] = flow_failover(f, (failover_t)kind);
            fprintf(stderr, "failover %d, kind %d: first job %.0f ms after the sentinels named the new primary\n", done, kind,
                    ms[done - 1]);
        }
    }
    qsort(ms, (size_t)done, sizeof *ms, by_value);
    fprintf(stderr, "new primary to first job: p50 %.0f ms, max %.0f ms\n", ms[done / 2], ms[done - 1]);
    cr_assert_leq(ms[done / 2], wait_scaled_ms(P50_MS));
    cr_assert_leq(ms[done - 1], wait_scaled_ms(MOST_MS));
}

Test(daemon_sentinel, every_job_survives_failovers) {
    static const int quick[FAILOVER_KINDS] = {1, 1, 1}, all[FAILOVER_KINDS] = {LONG_KILLS, LONG_FREEZES, LONG_COMMANDS};
    flow_t *f = flow_begin(NULL, "");
    fail_over(f, getenv("QS_LONG") ? all : quick);
    flow_end(f);
}
