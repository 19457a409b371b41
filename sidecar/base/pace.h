// The size of batches: so many jobs that one script takes Redis about a slice of time. Redis serves nobody else meanwhile.
#pragma once

#include "base/std.h"

typedef struct pace {
    double job_us;      // time of Redis for one job, as the last scripts took it; 0 = not known yet
    bool slow;          // the last script was far slower than the scripts before it
    int64_t fixed_us;   // time of a script besides that of its jobs
    int64_t last_fixed; // the same of the last script alone
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

// The script took this long besides, whatever the number of its jobs. The less of two scripts counts, for the same reason.
static inline void pace_note_fixed(pace_t *pace, int64_t us) {
    pace->fixed_us = us < pace->last_fixed ? us : pace->last_fixed;
    pace->last_fixed = us;
}

// Jobs of the next script, 1 to `most`; `first` while their time is unknown. A fixed part that takes most of the slice is spent
// on as many jobs as take the same time: small batches would only repeat it.
static inline int64_t pace_jobs(const pace_t *pace, int64_t slice_us, int64_t first, int64_t most) {
    int64_t left_us = slice_us - pace->fixed_us;
    if (left_us < pace->fixed_us) left_us = pace->fixed_us;
    double jobs = pace->job_us > 0 ? (double)left_us / pace->job_us : (double)first;
    return jobs < 1 ? 1 : jobs > (double)most ? most : (int64_t)jobs;
}
