// Tasks of KMQueue, as fastjson writes them.
#pragma once

#include "bench.h"

enum { MAX_TASK = 512 };

// A task that a worker took at `taken_ms`.
static inline size_t make_task(char text[MAX_TASK], int number, int64_t taken_ms) {
    return (size_t)snprintf(
        text, MAX_TASK,
        "{\"data\":\"{\\\"to\\\":\\\"user-%06d@example.org\\\",\\\"template\\\":\\\"welcome\\\",\\\"text\\\":\\\"%060d\\\"}\","
        "\"id\":\"a509bd99-1071-4de1-9220-%012d\",\"queue\":\"mail\",\"taskStatus\":{\"excTimestamp\":%lld,"
        "\"genTimestamp\":%lld,\"retry\":0,\"state\":\"normal\"},\"type\":\"mail\",\"unique\":true}",
        number, number, number, (long long)taken_ms, (long long)taken_ms - 1000);
}

// Pushes so many tasks to the backup list.
static inline void tasks_load(redisContext *redis, const char *backup, int entries) {
    enum { TASKS_PER_PUSH = 500 };
    static char tasks[TASKS_PER_PUSH][MAX_TASK];
    const char *argv[2 + TASKS_PER_PUSH] = {"LPUSH", backup};
    size_t lens[2 + TASKS_PER_PUSH] = {5, strlen(backup)};
    int64_t now_ms = wall_us() / 1000;
    for (int done = 0; done < entries;) {
        int count = 0;
        for (; count < TASKS_PER_PUSH && done < entries; count++, done++) {
            argv[2 + count] = tasks[count];
            lens[2 + count] = make_task(tasks[count], done, now_ms);
        }
        redisAppendCommandArgv(redis, 2 + count, argv, lens);
        freeReplyObject(redis_read(redis));
    }
}
