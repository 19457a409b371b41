// The monitor on a backup list of KMQueue: how fast it scans tasks as fastjson writes them, all stamped, none stalled; and, in
// turn, how fast it scans the same bytes in a queue of dialect `list`.
#include "kmqueue_task.h"
#include "pass.h"

enum { ENTRIES = 100000 };

static const char BACKUP[] = "q0:backup";

static const struct {
    const char *dialect, *queue;
} LAYOUTS[] = {
    {"list", "{ name = \"q0\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; }"},
    {"kmqueue", "{ name = \"q0\"; dialect = \"kmqueue\"; queues = [\"mail:safe\"]; backup = \"q0:backup\"; heartbeat = \"off\"; "
                "protected_timeout = \"1h\"; }"},
};
enum { LIST, KMQUEUE, LAYOUT_COUNT };

// Returns the entries a second of two passes, in a new sidecar on a new list.
static double measure(const bench_t *bench, redisContext *redis, int layout, int round) {
    char name[40];
    snprintf(name, sizeof name, "kmqueue-%s-%d", LAYOUTS[layout].dialect, round);
    redis_do(redis, "FLUSHALL");
    tasks_load(redis, BACKUP, ENTRIES);
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
