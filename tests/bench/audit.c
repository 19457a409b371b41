// The auditor: how fast the real program copies a failure stream into committed rows of the audit log, from its start to the
// acknowledgement of the last record.
#include "bench.h"

#include <time.h>

enum { RECORDS = 200000, STEP = 10000, POLL_US = 2000 };

// Adds records like those of final failures, with payloads of 100 bytes.
static void load(redisContext *redis) {
    static const char script[] =
        "local payload = string.rep('p', 92) for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local id = redis.sha1hex(i) .. string.format('%024x', i) "
        "redis.call('XADD', KEYS[1], '1-' .. i, 'event', id, 'kind', 'failed', 'dialect', 'list', "
        "'queue', 'q0', 'job', i, 'reason', 'reported', 'error', 'no route to host', 'attempts', 4, 'created', '1700000000000', "
        "'started', '1700000001000', 'at', ARGV[3], 'term', '00112233445566778899aabbccddeeff-5000', 'size', 100, "
        "'payload', payload .. string.format('%08d', i)) end return 1";
    long long now_ms = (long long)time(NULL) * 1000; // recent, or retention would remove the rows
    for (int i = 1; i <= RECORDS; i += STEP)
        redis_do(redis, "EVAL %s 1 sidecar:q0:failures %d %d %lld", script, i, i + STEP - 1, now_ms);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    series_t rate = {0};
    series_t memory = {0};
    table_head("Audit log: 200k records of 100 bytes, from the start of the program to the last acknowledgement");
    for (int i = 0; i < bench.rounds; i++) {
        char name[32];
        snprintf(name, sizeof name, "audit-%d", i);
        load(redis);
        int64_t began = mono_us();
        pid_t pid = sidecar_start(&bench, (sidecar_options_t){.name = name});
        while (!acknowledged(redis, RECORDS)) {
            sleep_us(POLL_US);
            if (mono_us() - began > 120 * INT64_C(1000000)) die("the stream is not copied");
        }
        series_add(&rate, RECORDS * 1e6 / (double)(mono_us() - began));
        series_add(&memory, (double)status_kib(pid, "VmRSS") / 1024);
        fprintf(stderr, "audit: round %d: %.0f rows/s, %.1f MiB\n", i + 1, rate.values[i], memory.values[i]);
        sidecar_stop(pid, SIGTERM);
        redis_do(redis, "FLUSHALL");
    }
    table_row(&bench, "committed rows/s", &rate, 0, '>', 30000);
    table_row(&bench, "resident memory at the end, MiB", &memory, 1, 0, 0);
    redisFree(redis);
    return bench_end(&bench);
}
