// The monitor on a backup list of KMQueue: how fast it scans tasks as fastjson writes them, all stamped, none stalled; and, in
// turn, how fast it scans the same bytes in a queue of dialect `list`.
#include "pass.h"

enum { ENTRIES = 100000, TASKS_PER_PUSH = 500, MAX_TASK = 512 };

static const char BACKUP[] = "q0:backup";

static const struct {
    const char *dialect, *queue;
} LAYOUTS[] = {
    {"list", "{ name = \"q0\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; }"},
    {"kmqueue", "{ name = \"q0\"; dialect = \"kmqueue\"; queues = [\"mail:safe\"]; backup = \"q0:backup\"; heartbeat = \"off\"; "
                "protected_timeout = \"1h\"; }"},
};
enum { LIST, KMQUEUE, LAYOUT_COUNT };

// A task that a worker has taken.
static size_t make_task(char text[MAX_TASK], int number, int64_t now_ms) {
    return (size_t)snprintf(
        text, MAX_TASK,
        "{\"data\":\"{\\\"to\\\":\\\"user-%06d@example.org\\\",\\\"template\\\":\\\"welcome\\\",\\\"text\\\":\\\"%060d\\\"}\","
        "\"id\":\"a509bd99-1071-4de1-9220-%012d\",\"queue\":\"mail\",\"taskStatus\":{\"excTimestamp\":%lld,"
        "\"genTimestamp\":%lld,\"retry\":0,\"state\":\"normal\"},\"type\":\"mail\",\"unique\":true}",
        number, number, number, (long long)now_ms, (long long)now_ms - 1000);
}

static void load(redisContext *redis, int entries) {
    static char tasks[TASKS_PER_PUSH][MAX_TASK];
    const char *argv[2 + TASKS_PER_PUSH] = {"LPUSH", BACKUP};
    size_t lens[2 + TASKS_PER_PUSH] = {5, sizeof BACKUP - 1};
    int64_t now_ms = (int64_t)time(NULL) * 1000;
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

// Returns the entries a second of two passes, in a new sidecar on a new list.
static double measure(const bench_t *bench, redisContext *redis, int layout, int round) {
    char name[40];
    snprintf(name, sizeof name, "kmqueue-%s-%d", LAYOUTS[layout].dialect, round);
    redis_do(redis, "FLUSHALL");
    load(redis, ENTRIES);
    pid_t pid =
        sidecar_start(bench, (sidecar_options_t){.name = name, .ttl = "60s", .monitor = "off", .queue = LAYOUTS[layout].queue});
    passes_await_leading(bench, name);
    counts_t before = passes_await(bench, pid, name, "q0", 3, ENTRIES); // the first pass stamps
    counts_t after = passes_await(bench, pid, name, "q0", 2, ENTRIES);
    sidecar_stop(pid, SIGTERM);
    double passes = (double)(after.passes - before.passes);
    return (double)ENTRIES * passes / (double)(after.pass_us - before.pass_us) * 1e6;
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    char text[MAX_TASK];
    series_t rates[LAYOUT_COUNT] = {{{0}, 0}, {{0}, 0}};
    series_t ratios = {0};
    char title[128];
    snprintf(title, sizeof title, "A pass over a backup list of %d tasks of KMQueue of %zu bytes, all stamped, none stalled",
             ENTRIES, make_task(text, 0, 1700000000000));
    for (int i = 0; i < bench.rounds; i++) {
        for (int layout = 0; layout < LAYOUT_COUNT; layout++) series_add(&rates[layout], measure(&bench, redis, layout, i));
        series_add(&ratios, rates[KMQUEUE].values[i] / rates[LIST].values[i]);
        fprintf(stderr, "kmqueue: round %d: %.0f entries/s, as dialect list %.0f\n", i + 1, rates[KMQUEUE].values[i],
                rates[LIST].values[i]);
    }
    table_head(title);
    table_row(&bench, "dialect kmqueue, entries/s", &rates[KMQUEUE], 0, '>', 250000);
    table_row(&bench, "the same bytes in dialect list, entries/s", &rates[LIST], 0, 0, 0);
    table_row(&bench, "kmqueue as a share of list", &ratios, 2, 0, 0);
    redis_do(redis, "FLUSHALL");
    redisFree(redis);
    return bench_end(&bench);
}
