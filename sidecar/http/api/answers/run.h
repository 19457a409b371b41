// The run of an answer, in a thread of its own, because it may last for hours.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "http/api/answers/plan.h"
#include "http/api/answers/share.h"
#include "operate/requeue/requeue.h"

enum { ANSWER_ITEMS_MAX = 1000 };

typedef enum answer_state { ANSWER_PLANNING, ANSWER_RUNNING, ANSWER_DONE, ANSWER_STOPPED, ANSWER_FAILED } answer_state_t;

typedef struct answer_run {
    // Set before the thread starts.
    char id[ANSWER_ID_SIZE];
    order_t order;                                                     // owned
    config_t *config;                                                  // shared
    char *by;                                                          // owned
    bool payloads;                                                     // the client may see payloads, and find by them
    void (*write)(struct answer_run *run, size_t most, buffer_t *out); // appends it as JSON with the last `most` items
    share_t *share;                                                    // of the thread; owned
    pthread_t thread;
    bool started;
    atomic_bool stop; // after the requests in flight
    atomic_bool quit; // at once

    pthread_mutex_t mutex; // guards the fields below
    answer_state_t state;
    answer_t problem; // instead of a run
    requeue_counts_t counts;
    int64_t jobs, answered, earlier; // of the plan
    plan_text_t plan;                // of a filter: what was seen
    plan_queue_t *queues;            // owned
    size_t queue_count;
    char *items[ANSWER_ITEMS_MAX]; // JSON of results, a ring; owned
    size_t item_count;             // of all results
    char *error;                   // owned; why the run ended early; NULL = it did not
    struct answer_run *next;       // of the registry
    bool waited;                   // of the registry: a request waits for the plan, so the run must stay
} answer_run_t;

// Plans, connects and runs. The request waits while the state is ANSWER_PLANNING.
void *answer_main(void *run);
void answer_run_free(answer_run_t *run); // after its thread has ended
