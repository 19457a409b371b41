// How many jobs one script gets: as many as take Redis about a slice of time, because Redis serves no other client meanwhile.
//
// A script takes Redis a fixed time and a time for each job. Both are learnt from the scripts before.
#pragma once

#include "base/std.h"

enum {
    PACE_USUAL = 2,      // a job takes its usual time if it takes less than twice the average, and more than half
    PACE_WEIGHT = 4,     // such a script moves the average by a fourth of the difference
    PACE_STEP = 4,       // any other script changes the average by this factor at most: its jobs may be unlike all others
    PACE_CHEAP_US = 100, // a job below this time is cheap
    PACE_LEAST = 8,      // least batch of cheap jobs while the fixed time is unknown
    PACE_TRY = 8,        // after so many batches of one job, a batch of two tells how much of the time is fixed,
    PACE_TRY_MAX = 256,  // or after up to so many, while it tells that little is
};

typedef struct pace {
    double job_us;      // time of a job; 0 = unknown
    double last_us;     // time of a job in the last script
    int64_t fixed_us;   // fixed time of a script
    int64_t last_fixed; // fixed time of the last script
    int64_t alone_us;   // least time of a script with one job since the last try with two
    int64_t alone;      // scripts with one job since then
    int64_t wait;       // number of them before the next try; 0 = PACE_TRY
} pace_t;

static inline double pace_least(double a, double b) { return a < b ? a : b; }

// A script took `us` microseconds for `jobs` jobs, without its fixed time. 0 is ignored: the script cannot tell, or did nothing.
//
// - Usual times are averaged, so that scripts take a slice on average.
// - A faster script counts at once.
// - A slower script counts if the script before was slow, too. One alone may be slow by chance: the server lost its processor.
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
        pace->job_us = job_us < known / PACE_STEP ? known / PACE_STEP : job_us;
    else if (last_us > known)
        pace->job_us = pace_least(pace_least(job_us, last_us), PACE_STEP * known);
}

// The fixed time of a script. The lower one of two scripts counts: one may be slow by chance.
static inline void pace_note_fixed(pace_t *pace, int64_t us) {
    pace->fixed_us = us < pace->last_fixed ? us : pace->last_fixed;
    pace->last_fixed = us;
}

// The time of a script that cannot tell its fixed time. In batches of one job it counts as time of the job, however small the job
// is, and the batch would stay at one. So a batch of two is tried now and then. What two jobs do not take twice is fixed.
static inline void pace_note_whole(pace_t *pace, int64_t jobs, int64_t us) {
    if (jobs <= 0 || us <= 0) return;
    if (jobs == 1) {
        pace->alone_us = pace->alone == 0 || us < pace->alone_us ? us : pace->alone_us;
        pace->alone++;
    } else if (jobs == 2 && pace->alone > 0) {
        const int64_t fixed_us = 2 * pace->alone_us > us ? 2 * pace->alone_us - us : 0, wait = pace->wait ? pace->wait : PACE_TRY;
        pace->wait = 2 * fixed_us > pace->alone_us ? PACE_TRY : wait < PACE_TRY_MAX ? 2 * wait : wait;
        pace->alone = 0;
        pace_note_fixed(pace, fixed_us);
    }
    if (us <= pace->fixed_us) pace->fixed_us = pace->last_fixed = 0; // it has fallen: learn it again
    pace_note(pace, jobs, us - pace->fixed_us);
}

// Time of the smallest script that is worth its fixed time: it has one job, or as many as take that time again.
static inline int64_t pace_least_us(const pace_t *pace) {
    double jobs_us = pace->job_us > (double)pace->fixed_us ? pace->job_us : (double)pace->fixed_us;
    return pace->fixed_us + (int64_t)jobs_us;
}

// Jobs of the next script, 1 to `most`; `first` while the time of a job is unknown. The jobs get the slice less the fixed time,
// but never less than the fixed time: smaller batches would mostly repeat it.
static inline int64_t pace_jobs(const pace_t *pace, int64_t slice_us, int64_t first, int64_t most) {
    int64_t left_us = slice_us - pace->fixed_us;
    if (left_us < pace->fixed_us) left_us = pace->fixed_us;
    double jobs = pace->job_us > 0 ? (double)left_us / pace->job_us : (double)first;
    return jobs < 1 ? 1 : jobs > (double)most ? most : (int64_t)jobs;
}

// The same for scripts that cannot tell their fixed time (pace_note_whole). While it counts as time of the jobs, each looks the
// dearer the fewer they are. So a batch of cheap jobs has PACE_LEAST at least.
static inline int64_t pace_jobs_least(const pace_t *pace, int64_t slice_us, int64_t first, int64_t most) {
    int64_t jobs = pace_jobs(pace, slice_us, first, most);
    if (jobs == 1 && most > 1 && pace->alone >= (pace->wait ? pace->wait : PACE_TRY)) return 2;
    if (jobs >= PACE_LEAST || pace->job_us >= PACE_CHEAP_US) return jobs;
    return most < PACE_LEAST ? most : PACE_LEAST;
}
