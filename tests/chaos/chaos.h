/* A random run: three sidecars with an audit log each serve queues of all dialects, while workers die, operators answer failures,
 * and faults hit all of them. tests/README.md says how to start and repeat a run. */
#pragma once

#include "child.h"
#include "cluster.h"
#include "rights.h"

enum {
    CHAOS_SIDECARS = 3,
    CHAOS_QUEUES = 9,
    CHAOS_WORKERS = 45,
    CHAOS_OPERATORS = 3,
    CHAOS_FAULTS = 12, /* that last at the same time */
    CHAOS_NAME = 32,
    CHAOS_PROTECTED_MS = 1000,
    CHAOS_RETRIES = 3,
};

typedef struct chaos chaos_t;

/* The steps of clients of a foreign system, each as one Lua script, and the queue's part of a config. The arguments of a script
 * are in scripts.c. */
typedef struct {
    const char *name;     /* of the queue; its keys begin with it */
    const char *settings; /* of the queue in a config */
    const char *add, *take, *finish, *report, *beat, *left, *storm;
    bool times_out;  /* a worker without heartbeat keeps its job for CHAOS_PROTECTED_MS */
    bool counts;     /* a life has at most 1 + CHAOS_RETRIES executions */
    bool forgets;    /* after retry_window (30 minutes) retries count anew */
    bool has_delays; /* producers can delay a job */
    int apart;       /* number of a job less the number in its id: jobs of two queues have the same ids */
    bool is_bull, is_event;
    bool repeats; /* a worker that seemed to be gone finishes its job all the same, and a job of a worker that is gone is lost if
                     the worker's keys expire before a sidecar looks */
} chaos_queue_t;
extern const chaos_queue_t chaos_queues[CHAOS_QUEUES];

typedef struct {
    int queue, holder; /* the worker that took the job last; -1 = none that lives */
    int takes, removed;
    int64_t due_ms;     /* by Redis's clock; 0 = at once */
    bool quick;         /* of a storm: it takes a worker no time */
    bool stray;         /* somebody else than the holder reported, or there is a second copy: it may hit the holder's execution */
    int notes;          /* of it in the work of processes, so far: those that no clean end has removed */
    int64_t forward_ms; /* of the run when it was taken last */
} chaos_job_t;

typedef enum { FINISH, REPORT, GIVE_UP, DIE, HANG } chaos_fate_t;

typedef struct {
    int queue, job; /* the queue that it takes from; its job, -1 = idle */
    char *handle;
    char name[CHAOS_NAME];
    chaos_fate_t fate;
    int64_t acts_us, beats_us, taken_us, ahead_ms;
    bool beats, lapsed;
} chaos_worker_t;

typedef enum {
    CALM,
    KILL,
    FREEZE,
    REDIS_KILL,
    REDIS_FREEZE,
    CUT,
    CLOCK,
    RIGHTS,
    RELOAD,
    REMOVE,
    RENAME,
    WIPE,
    BLIND,
    FULL,
    FORGET,
    STORM,
    GUEST,
    NEIGHBOUR,
    MEMORY,
    KINDS
} chaos_kind_t;

typedef struct {
    chaos_kind_t kind;
    int target;
    int64_t at_us, until_us, amount;
    daemon_t *guest;
} chaos_fault_t;

typedef struct {
    int held;                 /* kills and pauses; the sidecar does not run */
    bool lacks[CHAOS_QUEUES]; /* queues that its config leaves out */
    uint64_t flavour;         /* chooses settings that a reload may change */
} chaos_sidecar_t;

typedef struct {
    child_t *child;
    int64_t killed_us; /* 0 = runs to its end */
} chaos_operator_t;

struct chaos {
    cluster_t cluster;
    char seed_text[24];
    uint64_t seed, fault_random, life_random, operator_random;
    int64_t began_us, ends_us, told_us;
    bool over; /* no more faults: everything drains */
    chaos_sidecar_t sidecars[CHAOS_SIDECARS];
    chaos_worker_t workers[CHAOS_WORKERS];
    chaos_operator_t operators[CHAOS_OPERATORS];
    chaos_job_t *jobs;
    int added, room, stormed;
    long removed, names, operations;
    chaos_fault_t faults[CHAOS_FAULTS], next;
    bool allowed[KINDS];
    int made[KINDS];
    int64_t offset_ms, ceiling_ms, forward_ms; /* of Redis's clock: now, the highest ever, the sum of steps forward */
    int forgotten;                             /* steps forward that are longer than retry_window */
    bool stepped_back;                         /* by more than the 10 minutes that dialect bull looks back */
    char words[MAX_RIGHTS][CHAOS_NAME];        /* rights of the sidecars' user */
    bool withdrawn[MAX_RIGHTS];
    size_t word_count;
};

int64_t chaos_host_ms(void);
/* Runs a script of a queue. Returns the reply, owned by the caller. */
redisReply *chaos_call(chaos_t *c, int queue, const char *script, const char *handle, const char *worker, const char *text);
long long chaos_int(chaos_t *c, int queue, const char *script, const char *handle, const char *worker, const char *text);
/* Keeps the files of the run, prints where they are, and fails the test. */
void chaos_fail(chaos_t *c, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* Producers add the jobs that are due by now; each worker does its next step. */
void chaos_produce(chaos_t *c);
/* All at once: jobs of this or another queue fall due, and jobs are in progress whose workers have died. */
void chaos_storm(chaos_t *c, int queue, int jobs);
void chaos_work(chaos_t *c);
void chaos_workers_begin(chaos_t *c);
void chaos_workers_end(chaos_t *c);

/* Starts, kills and reaps commands of operators. */
void chaos_operate(chaos_t *c);
/* Waits for all commands. */
void chaos_operators_end(chaos_t *c);

char *chaos_config(chaos_t *c, int sidecar);
void chaos_faults_begin(chaos_t *c);
/* Begins and ends faults by the schedule. */
void chaos_disturb(chaos_t *c);
/* Ends all faults and sets Redis's clock to the highest time that it ever had. */
void chaos_calm(chaos_t *c);
/* Fails the test if a sidecar has ended that no fault has killed. */
void chaos_check_sidecars(chaos_t *c);
/* Prints how many faults of each kind there were. */
void chaos_tell_faults(const chaos_t *c);

/* Whether every job has ended and each audit log holds all events. */
bool chaos_drained(chaos_t *c);
/* Checks G1 to G9; fails the test with what is missing. */
void chaos_account(chaos_t *c);
/* Prints what is not yet as it must be. */
void chaos_tell_rest(chaos_t *c);
