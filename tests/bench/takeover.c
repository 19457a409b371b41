// Takeover: how long no instance promotes after the leader ends, by kill -9 and by SIGTERM.
//
// A job falls due every millisecond and a consumer takes it, so the arrivals show the silence. The takeover is the time from the
// signal to the end of the longest silence that began before the end of the leader or within GRACE_US after it.
#include "bench.h"

enum { JOBS = 9000, FIRST_DUE_US = 100000, KILL_AFTER_US = 200000, ARRIVALS_AFTER = 200, GRACE_US = 50000 };

static void load(redisContext *redis) {
    double first_ms = (double)(wall_us() + FIRST_DUE_US) / 1000;
    for (int i = 0; i < JOBS; i++) redisAppendCommand(redis, "ZADD q0:delayed %f job-%d", first_ms + i, i);
    for (int i = 0; i < JOBS; i++) freeReplyObject(redis_read(redis));
}

// Returns the takeover in ms.
static double takeover(redisContext *redis, pid_t leader, int signal_number) {
    int64_t kill_at = mono_us() + FIRST_DUE_US + KILL_AFTER_US;
    int64_t killed = 0;
    int64_t ended = 0; // when the leader was seen to be gone
    int64_t previous = 0;
    int64_t longest = 0;
    int64_t back = 0; // end of the longest silence
    for (int after = 0; after < ARRIVALS_AFTER;) {
        freeReplyObject(redis_ask(redis, "BRPOP q0 0"));
        int64_t now = mono_us();
        if (killed && (!ended || previous < ended + GRACE_US) && now - previous > longest) {
            longest = now - previous;
            back = now;
        }
        if (killed && !ended && waitpid(leader, NULL, WNOHANG) == leader) ended = now;
        if (ended) after++;
        if (!killed && now >= kill_at) {
            killed = mono_us();
            kill(leader, signal_number);
        }
        previous = now;
    }
    return (double)(back - killed) / 1000;
}

static void measure(bench_t *bench, redisContext *redis, const char *ttl, int ttl_ms, int signal_number, const char *label,
                    double goal) {
    static uint64_t random = 11;
    series_t series = {0};
    for (int i = 0; i < bench->rounds; i++) {
        pid_t leader = sidecar_start(bench, (sidecar_options_t){.name = "takeover-a", .ttl = ttl});
        sidecar_await(redis, leader);
        pid_t standby = sidecar_start(bench, (sidecar_options_t){.name = "takeover-b", .ttl = ttl});
        standby_await(redis);
        sleep_us((int64_t)(random_unit(&random) * ttl_ms * 1000 / 3)); // any time between two renewals
        load(redis);
        series_add(&series, takeover(redis, leader, signal_number));
        fprintf(stderr, "takeover: %s, round %d: %.1f ms\n", label, i + 1, series.values[i]);
        sidecar_stop(standby, SIGTERM);
        redis_do(redis, "FLUSHALL");
    }
    table_row(bench, label, &series, 1, '<', goal);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    table_head("Takeover: from the signal to the standby's first job, ms");
    measure(&bench, redis, "5s", 5000, SIGKILL, "kill -9, lock.ttl 5s", 6000);
    measure(&bench, redis, "1s", 1000, SIGKILL, "kill -9, lock.ttl 1s", 2000);
    measure(&bench, redis, "5s", 5000, SIGTERM, "SIGTERM, lock.ttl 5s", 200);
    redisFree(redis);
    return bench_end(&bench);
}
