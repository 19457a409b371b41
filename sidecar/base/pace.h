// The size of batches: so many jobs that one script takes Redis about a slice of time. Redis serves nobody else meanwhile.
#pragma once

#include "base/std.h"

typedef struct pace {
    double job_us; // time of Redis for one job, as the last scripts took it; 0 = not known yet
    bool slow;     // the last script was far slower than the scripts before it
} pace_t;

// A script took `us` microseconds for `jobs` jobs. Ignores 0: the script cannot tell, or did nothing. A script may be slow by
// chance, because the server lost its processor, so only the second slow script in a row counts in full.
static inline void pace_note(pace_t *pace, int64_t jobs, int64_t us) {
    const double most = 4 * pace->job_us;
    if (jobs <= 0 || us <= 0) return;
    double job_us = (double)us / (double)jobs;
    bool slow = most > 0 && job_us > most;
    if (slow && !pace->slow) job_us = most;
    pace->slow = slow;
    pace->job_us = pace->job_us > 0 ? (pace->job_us + job_us) / 2 : job_us;
}

// Jobs of the next script, 1 to `most`; `first` while their time is unknown.
static inline int64_t pace_jobs(const pace_t *pace, int64_t slice_us, int64_t first, int64_t most) {
    double jobs = pace->job_us > 0 ? (double)slice_us / pace->job_us : (double)first;
    return jobs < 1 ? 1 : jobs > (double)most ? most : (int64_t)jobs;
}
