/* Producers and workers. What becomes of an execution is drawn from the seed, the number of the job and the number of the
 * execution, so a repeated run draws the same. */
#include "chaos.h"

#include <time.h>

enum {
    ADDED_PER_SECOND = 48, /* over all queues */
    BEAT_MS = 300,
    POISON = 25, /* one job of so many fails in each execution */
    MAX_DELAY_MS = 4000,
};

int64_t chaos_host_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

redisReply *chaos_call(chaos_t *c, int queue, const char *script, const char *handle, const char *worker, const char *text) {
    redisReply *reply = redis_do(c->cluster.r, "EVAL %s 0 %s %s %s %lld %s", script, chaos_queues[queue].name, handle, worker,
                                 (long long)chaos_host_ms(), text);
    if (reply->type == REDIS_REPLY_ERROR) chaos_fail(c, "a client of queue %s: %s", chaos_queues[queue].name, reply->str);
    return reply;
}

long long chaos_int(chaos_t *c, int queue, const char *script, const char *handle, const char *worker, const char *text) {
    redisReply *reply = chaos_call(c, queue, script, handle, worker, text);
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static uint64_t job_random(const chaos_t *c, int job, int execution, uint64_t below) {
    uint64_t state = c->seed ^ ((uint64_t)job << 20) ^ (uint64_t)execution;
    cluster_random(&state, 2);
    return cluster_random(&state, below);
}

static chaos_job_t *new_job(chaos_t *c, int queue) {
    if (c->added == c->room) {
        c->room = c->room ? 2 * c->room : 4096;
        c->jobs = realloc(c->jobs, (size_t)c->room * sizeof *c->jobs);
        if (!c->jobs) abort();
    }
    chaos_job_t *job = &c->jobs[c->added++];
    *job = (chaos_job_t){.queue = queue, .holder = -1, .forward_ms = c->forward_ms};
    return job;
}

static void produce_one(chaos_t *c) {
    int number = c->added;
    chaos_job_t *job = new_job(c, number % CHAOS_QUEUES);
    const chaos_queue_t *queue = &chaos_queues[job->queue];
    char handle[24], due[24] = "";
    snprintf(handle, sizeof handle, "%d", number - queue->apart);
    if (queue->has_delays && job_random(c, number, -1, 2)) {
        job->due_ms = redis_ms(c->cluster.r) + (int64_t)job_random(c, number, -2, MAX_DELAY_MS);
        snprintf(due, sizeof due, "%lld", (long long)job->due_ms);
    }
    chaos_int(c, job->queue, queue->add, handle, "producer", due);
}

void chaos_produce(chaos_t *c) {
    int64_t wanted = (wait_now_us() - c->began_us) * ADDED_PER_SECOND / 1000000;
    for (int i = 0; i < 50 && c->added - c->stormed < wanted; i++) produce_one(c);
}

void chaos_storm(chaos_t *c, int queue, int jobs) {
    int64_t now_ms = redis_ms(c->cluster.r);
    int first = c->added;
    while (!chaos_queues[queue].storm) queue = (queue + 1) % CHAOS_QUEUES;
    const chaos_queue_t *of = &chaos_queues[queue];
    for (int i = 0; i < jobs; i++) {
        chaos_job_t *job = new_job(c, queue);
        job->quick = true;
        job->due_ms = (first + i) % 2 ? now_ms : 0;
        job->notes = (first + i) % 2 == 0;
    }
    c->stormed += jobs;
    redisReply *reply =
        redis_do(c->cluster.r, "EVAL %s 0 %s %d %d %lld", of->storm, of->name, first, c->added - 1, (long long)now_ms);
    if (reply->type != REDIS_REPLY_INTEGER) chaos_fail(c, "a storm in queue %s: %s", of->name, reply->str);
    freeReplyObject(reply);
}

static bool is_poison(const chaos_t *c, int job) { return job_random(c, job, -3, POISON) == 0; }

/* Draws the fate of an execution and how long the worker is busy. */
static void draw_fate(const chaos_t *c, chaos_worker_t *worker, const chaos_job_t *job) {
    const chaos_queue_t *queue = &chaos_queues[worker->queue];
    uint64_t drawn = job_random(c, worker->job, job->takes, 100);
    int64_t busy_ms = (int64_t)(drawn * drawn / 100);
    worker->fate = FINISH;
    if (is_poison(c, worker->job)) {
        worker->fate = queue->report ? drawn < 90 ? REPORT : GIVE_UP : DIE;
    } else if (!c->over && drawn < 8) {
        worker->fate = DIE;
    } else if (!c->over && drawn < 13) {
        worker->fate = HANG;
        busy_ms = 2 * CHAOS_PROTECTED_MS + 300;
    } else if (!c->over && drawn < 21 && queue->report) {
        worker->fate = drawn < 19 ? REPORT : GIVE_UP;
    } else if (!c->over && drawn < 26 && queue->beat) {
        busy_ms = 3 * CHAOS_PROTECTED_MS;
    }
    if (job->quick) worker->fate = is_poison(c, worker->job) ? worker->fate : FINISH, busy_ms = 0;
    worker->beats = queue->beat && worker->fate != HANG;
    worker->acts_us = worker->taken_us + busy_ms * 1000;
}

static void worker_beat(chaos_t *c, chaos_worker_t *worker) {
    const chaos_queue_t *queue = &chaos_queues[worker->queue];
    if (!chaos_int(c, worker->queue, queue->beat, worker->handle, worker->name, "")) {
        worker->lapsed = true;
        c->jobs[worker->job].stray |= queue->repeats;
        c->jobs[worker->job].notes++; /* it notes the job anew */
    }
    worker->beats_us = wait_now_us() + BEAT_MS * 1000;
}

static void worker_rest(chaos_worker_t *worker) {
    free(worker->handle);
    worker->handle = NULL;
    worker->job = -1;
}

/* G3: Redis's clock has never shown the due time. G5: a worker that lives still has the job. */
static void check_take(chaos_t *c, chaos_worker_t *worker, chaos_job_t *job) {
    const chaos_queue_t *queue = &chaos_queues[worker->queue];
    int64_t latest_ms = chaos_host_ms() + c->ceiling_ms;
    if (job->takes == 0 && job->due_ms > latest_ms)
        chaos_fail(c, "G3: job j%d of %s came %lld ms early", worker->job, queue->name, (long long)(job->due_ms - latest_ms));
    if (job->holder < 0 || c->workers[job->holder].job != worker->job || job->stray || !queue->times_out) return;
    chaos_worker_t *other = &c->workers[job->holder];
    if (other->beats) worker_beat(c, other);
    if (other->beats && !other->lapsed)
        chaos_fail(c, "G5: %s took job j%d of %s from %s, whose heartbeat never lapsed", worker->name, worker->job, queue->name,
                   other->name);
    int64_t kept_ms = (worker->taken_us - other->taken_us) / 1000 + c->forward_ms - other->ahead_ms;
    if (kept_ms < CHAOS_PROTECTED_MS)
        chaos_fail(c, "G5: %s took job j%d of %s from %s after %lld ms", worker->name, worker->job, queue->name, other->name,
                   (long long)kept_ms);
}

static void worker_take(chaos_t *c, int number) {
    chaos_worker_t *worker = &c->workers[number];
    int queue = worker->queue;
    if (!*worker->name) snprintf(worker->name, sizeof worker->name, "w%ld", c->names++);
    redisReply *reply = chaos_call(c, queue, chaos_queues[queue].take, "", worker->name, "");
    const char *id = reply->type == REDIS_REPLY_STRING ? strchr(reply->str, 'j') : NULL;
    while (id && (id[1] < '0' || id[1] > '9')) id = strchr(id + 1, 'j');
    if (reply->type == REDIS_REPLY_STRING && strncmp(reply->str, "locked", 6) == 0)
        chaos_fail(c, "G5: %s was waiting while a worker had its lock", reply->str);
    if (id) {
        worker->job = (int)strtol(id + 1, NULL, 10) + chaos_queues[queue].apart;
        if (worker->job >= c->added) chaos_fail(c, "%s is no job of the producers", reply->str);
        worker->handle = strdup(reply->str);
        worker->taken_us = wait_now_us();
        worker->ahead_ms = c->forward_ms;
        worker->lapsed = false;
        chaos_job_t *job = &c->jobs[worker->job];
        check_take(c, worker, job);
        job->holder = number;
        job->takes++;
        job->notes++;
        job->forward_ms = c->forward_ms;
        draw_fate(c, worker, job);
        if (worker->beats) worker_beat(c, worker);
        worker->lapsed = false;
    }
    freeReplyObject(reply);
}

/* A worker that died starts again under another name. */
static void worker_act(chaos_t *c, int number) {
    chaos_worker_t *worker = &c->workers[number];
    chaos_job_t *job = &c->jobs[worker->job];
    const chaos_queue_t *queue = &chaos_queues[worker->queue];
    if (queue->repeats && worker->fate != DIE) worker_beat(c, worker);
    job->notes -= worker->fate != DIE;
    if (worker->fate == FINISH || worker->fate == HANG) {
        long long copies = chaos_int(c, worker->queue, queue->finish, worker->handle, worker->name, "");
        job->removed += (int)copies;
        c->removed += copies;
    } else if (worker->fate == DIE) {
        *worker->name = '\0';
    } else {
        const char *text = worker->fate == GIVE_UP ? queue->is_bull ? "!" : "!never" : "boom";
        if (!chaos_int(c, worker->queue, queue->report, worker->handle, worker->name, text) || job->holder != number)
            job->stray = true;
    }
    if (job->holder == number) job->holder = -1;
    worker_rest(worker);
}

void chaos_workers_begin(chaos_t *c) {
    for (int i = 0; i < CHAOS_WORKERS; i++) c->workers[i] = (chaos_worker_t){.queue = i % CHAOS_QUEUES, .job = -1};
}

void chaos_work(chaos_t *c) {
    for (int i = 0; i < CHAOS_WORKERS; i++) {
        chaos_worker_t *worker = &c->workers[i];
        if (worker->job < 0)
            worker_take(c, i);
        else if (wait_now_us() >= worker->acts_us)
            worker_act(c, i);
        else if (worker->beats && wait_now_us() >= worker->beats_us)
            worker_beat(c, worker);
    }
}

void chaos_workers_end(chaos_t *c) {
    for (int i = 0; i < CHAOS_WORKERS; i++) worker_rest(&c->workers[i]);
    free(c->jobs);
}
