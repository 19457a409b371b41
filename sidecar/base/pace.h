// The size of batches: one script takes Redis about a slice of time, and Redis serves no other client meanwhile.
#pragma once

#include "base/std.h"

enum {
    PACE_USUAL = 2,      // a script of the usual length takes less than twice the time, and more than half
    PACE_WEIGHT = 4,     // such a script moves the average by a fourth of the difference
    PACE_CHEAP_US = 100, // a job below this time is cheap
    PACE_LEAST = 8,      // cheap jobs of a script whose fixed part is unknown
};

typedef struct pace {
    double job_us;      // time of Redis for one job, as the last scripts took it; 0 = not known yet
    double last_us;     // the same of the last script alone
    int64_t fixed_us;   // time of a script besides that of its jobs
    int64_t last_fixed; // the same of the last script alone
} pace_t;

static inline double pace_least(double a, double b) { return a < b ? a : b; }

// A script took `us` microseconds for `jobs` jobs. Ignores 0: the script cannot tell, or did nothing.
//
// Scripts of about the usual length count as an average, so that they take a slice on average. A script may be much slower by
// chance, because the server lost its processor: such a script counts only if the one before was slow, too. A batch changes by
// a factor of 4 at most, because the jobs of one script may be unlike all others.
static inline void pace_note(pace_t *pace, int64_t jobs, int64_t us) {
    if (jobs <= 0 || us <= 0) return;
    const double known = pace->job_us, last_us = pace->last_us;
    double job_us = (double)us / (double)jobs;
    pace->last_us = job_us;
    if (known <= 0)
        pace->job_us = job_us;
    else if (job_us > known / PACE_USUAL && job_us < known * PACE_USUAL)
        pace->job_us += (job_us - known) / PACE_WEIGHT;
    else if (job_us <= known)
        pace->job_us = job_us < known / 4 ? known / 4 : job_us;
    else if (last_us > known)
        pace->job_us = pace_least(pace_least(job_us, last_us), 4 * known);
}

// The part of the script's time that does not depend on its jobs. Of two scripts the lower value counts, for the same reason.
static inline void pace_note_fixed(pace_t *pace, int64_t us) {
    pace->fixed_us = us < pace->last_fixed ? us : pace->last_fixed;
    pace->last_fixed = us;
}

// Time of the script that pace_jobs allows in a slice of no time: of one job, or of as many jobs as take the fixed part's time.
static inline int64_t pace_least_us(const pace_t *pace) {
    double jobs_us = pace->job_us > (double)pace->fixed_us ? pace->job_us : (double)pace->fixed_us;
    return pace->fixed_us + (int64_t)jobs_us;
}

// Jobs of the next script, 1 to `most`; `first` while their time is unknown. If the fixed part takes most of the slice, the jobs
// get as much time again: smaller batches would only repeat the fixed part.
static inline int64_t pace_jobs(const pace_t *pace, int64_t slice_us, int64_t first, int64_t most) {
    int64_t left_us = slice_us - pace->fixed_us;
    if (left_us < pace->fixed_us) left_us = pace->fixed_us;
    double jobs = pace->job_us > 0 ? (double)left_us / pace->job_us : (double)first;
    return jobs < 1 ? 1 : jobs > (double)most ? most : (int64_t)jobs;
}

// The same for scripts that cannot tell their fixed part, which then counts as time of the jobs. In a short slice a job would
// look dearer from batch to batch, until each had a script of its own. So cheap jobs come in batches of PACE_LEAST at least.
static inline int64_t pace_jobs_least(const pace_t *pace, int64_t slice_us, int64_t first, int64_t most) {
    int64_t jobs = pace_jobs(pace, slice_us, first, most);
    if (jobs >= PACE_LEAST || pace->job_us >= PACE_CHEAP_US) return jobs;
    return most < PACE_LEAST ? most : PACE_LEAST;
}
