// Times at which jobs arrive in ready, by Redis's own clock.
//
// One thread holds a connection for each queue, on which a BLMPOP waits with a TIME behind it. Redis answers both when the script
// or command that has pushed is over: with all jobs of that push and with the time. So a batch costs the observer one wake-up,
// and a slow observer does not make jobs late.
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "bench.h"

enum { ARRIVALS_JOB_BYTES = 100, ARRIVALS_EVENTS = 64 };

typedef struct arrivals {
    const bench_t *bench;
    int queues;
    size_t jobs;
    int64_t *due_us; // of each job, by number; set before the job is added
    double *late_ms; // of each job that has arrived
    atomic_size_t arrived;
    redisContext **redis;
    int epoll;
    pthread_t thread;
} arrivals_t;

static inline void arrivals_sleep_until(int64_t us) {
    struct timespec until = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

// A job is its number and padding.
static inline size_t arrivals_job(char job[ARRIVALS_JOB_BYTES + 1], size_t number) {
    return (size_t)snprintf(job, ARRIVALS_JOB_BYTES + 1, "%012zu%088d", number, 0);
}

static inline void arrivals_open(arrivals_t *arrivals, const bench_t *bench, int queues, size_t jobs) {
    *arrivals = (arrivals_t){.bench = bench, .queues = queues, .jobs = jobs, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    arrivals->due_us = calloc(jobs, sizeof *arrivals->due_us);
    arrivals->late_ms = calloc(jobs, sizeof *arrivals->late_ms);
    arrivals->redis = calloc((size_t)queues, sizeof(redisContext *));
    if (!arrivals->due_us || !arrivals->late_ms || !arrivals->redis || arrivals->epoll < 0) die("no memory");
    for (int i = 0; i < queues; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        arrivals->redis[i] = redis_open(bench);
        redis_do(arrivals->redis[i], "PING"); // or the backlog of the socket would be full
        if (epoll_ctl(arrivals->epoll, EPOLL_CTL_ADD, arrivals->redis[i]->fd, &event) != 0) die("no epoll");
    }
}

static inline void arrivals_close(arrivals_t *arrivals) {
    for (int i = 0; i < arrivals->queues; i++) redisFree(arrivals->redis[i]);
    close(arrivals->epoll);
    free(arrivals->redis);
    free(arrivals->due_us);
    free(arrivals->late_ms);
}

static inline void arrivals_ask(arrivals_t *arrivals, int queue) {
    redisAppendCommand(arrivals->redis[queue], "BLMPOP 0 1 q%d RIGHT COUNT 5000", queue);
    redisAppendCommand(arrivals->redis[queue], "TIME");
    for (int done = 0; !done;)
        if (redisBufferWrite(arrivals->redis[queue], &done) != REDIS_OK) die("redis: %s", arrivals->redis[queue]->errstr);
}

// Returns whether the queue goes on: no job was "stop".
static inline bool arrivals_note(arrivals_t *arrivals, const redisReply *popped, const redisReply *time) {
    const redisReply *jobs = popped->element[1];
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000000 + strtoll(time->element[1]->str, NULL, 10);
    bool goes_on = true;
    for (size_t i = 0; i < jobs->elements; i++) {
        char *job = jobs->element[i]->str;
        if (strcmp(job, "stop") == 0) goes_on = false;
        if (jobs->element[i]->len != ARRIVALS_JOB_BYTES) continue;
        job[12] = '\0';
        size_t number = strtoul(job, NULL, 10);
        if (number >= arrivals->jobs) die("a job has the number %zu", number);
        arrivals->late_ms[number] = (double)(now - arrivals->due_us[number]) / 1000;
        atomic_fetch_add(&arrivals->arrived, 1);
    }
    return goes_on;
}

static inline bool arrivals_read(arrivals_t *arrivals, int queue) {
    scoped_reply *popped = redis_read(arrivals->redis[queue]), *time = redis_read(arrivals->redis[queue]);
    bool goes_on = arrivals_note(arrivals, popped, time);
    if (goes_on) arrivals_ask(arrivals, queue);
    return goes_on;
}

static inline void *arrivals_main(void *arg) {
    arrivals_t *arrivals = arg;
    struct epoll_event events[ARRIVALS_EVENTS];
    use_realtime_priority();
    for (int i = 0; i < arrivals->queues; i++) arrivals_ask(arrivals, i);
    for (int left = arrivals->queues; left > 0;) {
        int count = epoll_wait(arrivals->epoll, events, ARRIVALS_EVENTS, -1);
        if (count < 0 && errno != EINTR) die("no epoll");
        for (int i = 0; i < count; i++) left -= !arrivals_read(arrivals, (int)events[i].data.u32);
    }
    return NULL;
}

static inline void arrivals_begin(arrivals_t *arrivals) {
    atomic_store(&arrivals->arrived, 0);
    if (pthread_create(&arrivals->thread, NULL, arrivals_main, arrivals) != 0) die("no thread");
}

// Waits until `jobs` jobs have arrived, and stops.
static inline void arrivals_end(arrivals_t *arrivals, redisContext *redis, size_t jobs) {
    for (int i = 0; i < 60000 && atomic_load(&arrivals->arrived) < jobs; i++) sleep_us(1000);
    if (atomic_load(&arrivals->arrived) < jobs) die("%zu of %zu jobs arrived", atomic_load(&arrivals->arrived), jobs);
    for (int i = 0; i < arrivals->queues; i++) redis_do(redis, "LPUSH q%d stop", i);
    pthread_join(arrivals->thread, NULL);
}

// Appends a ZADD of one job, whose score has microseconds, to the delayed jobs of its queue.
static inline void arrivals_append(const arrivals_t *arrivals, redisContext *redis, size_t number) {
    char job[ARRIVALS_JOB_BYTES + 1];
    size_t len = arrivals_job(job, number);
    int64_t due = arrivals->due_us[number];
    redisAppendCommand(redis, "ZADD q%d:delayed %lld.%03d %b", (int)(number % (size_t)arrivals->queues), (long long)(due / 1000),
                       (int)(due % 1000), job, len);
}
