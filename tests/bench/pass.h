// For benchmarks of scans ("passes" in metrics): SIGUSR1 makes the sidecar log the number of its passes and their time.
#pragma once

#include "bench.h"

enum { PASS_POLL_US = 5000, PASS_POLLS_MAX = 12000 };

typedef struct counts {
    int64_t passes;
    int64_t pass_us;
    int64_t in_progress;
} counts_t;

static inline bool passes_find(const char *line, const char *name, int64_t *out) {
    char key[40];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    if (at) *out = strtoll(at + strlen(key), NULL, 10);
    return at != NULL;
}

// Asks the sidecar for its counters and reads the last line of them in its log.
static inline counts_t passes_ask(const bench_t *bench, pid_t pid, const char *name, const char *queue) {
    char path[256];
    char which[48];
    snprintf(which, sizeof which, "\"queue\":\"%s\"", queue);
    counts_t counts = {.passes = -1};
    snprintf(path, sizeof path, "%s/%s.log", bench->dir, name);
    FILE *file = fopen(path, "r");
    if (!file) die("cannot read %s", path);
    fseek(file, 0, SEEK_END);
    kill(pid, SIGUSR1);
    char line[4096];
    for (int i = 0; i < 1000 && counts.passes < 0; i++) {
        sleep_us(1000);
        clearerr(file);
        for (long at = ftell(file); counts.passes < 0 && fgets(line, sizeof line, file); at = ftell(file)) {
            if (!strchr(line, '\n')) { // the line is not complete yet
                fseek(file, at, SEEK_SET);
                break;
            }
            if (strstr(line, "\"stats\"") && strstr(line, which))
                if (!passes_find(line, "passes", &counts.passes) || !passes_find(line, "pass_us", &counts.pass_us) ||
                    !passes_find(line, "in_progress", &counts.in_progress))
                    die("no counters in: %s", line);
        }
    }
    fclose(file);
    if (counts.passes < 0) die("the sidecar does not log its counters");
    return counts;
}

// Waits until the sidecar leads. Before it has set up its signals, SIGUSR1 would end it.
static inline void passes_await_leading(const bench_t *bench, const char *name) {
    char path[256];
    char text[4096];
    snprintf(path, sizeof path, "%s/%s.log", bench->dir, name);
    for (int i = 0; i < 5000; i++, sleep_us(1000)) {
        FILE *file = fopen(path, "r");
        if (!file) continue;
        size_t len = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[len] = '\0';
        if (strstr(text, "\"leading\"")) return;
    }
    die("the sidecar does not lead");
}

// Waits until `more` passes have ended and `entries` jobs are in progress.
static inline counts_t passes_await(const bench_t *bench, pid_t pid, const char *name, const char *queue, int more,
                                    int64_t entries) {
    counts_t now = passes_ask(bench, pid, name, queue);
    int64_t wanted = now.passes + more;
    for (int i = 0; i < PASS_POLLS_MAX && (now.passes < wanted || now.in_progress != entries); i++) {
        sleep_us(PASS_POLL_US);
        now = passes_ask(bench, pid, name, queue);
    }
    if (now.passes < wanted) die("no pass ends");
    return now;
}

enum { JOB_BYTES = 100, JOBS_PER_PUSH = 500 };

// Pushes so many jobs to q0's backup list.
static inline void backup_load(redisContext *redis, int entries) {
    static char bytes[JOBS_PER_PUSH][JOB_BYTES + 1];
    const char *argv[2 + JOBS_PER_PUSH] = {"LPUSH", "q0:backup"};
    size_t lens[2 + JOBS_PER_PUSH] = {5, 9};
    for (int done = 0; done < entries;) {
        int count = 0;
        for (; count < JOBS_PER_PUSH && done < entries; count++, done++) {
            snprintf(bytes[count], sizeof bytes[count], "{\"id\":\"%012d\",\"data\":\"%069d\"}", done, 0);
            argv[2 + count] = bytes[count];
            lens[2 + count] = JOB_BYTES;
        }
        redisAppendCommandArgv(redis, 2 + count, argv, lens);
        freeReplyObject(redis_read(redis));
    }
}
