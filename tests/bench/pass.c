// The monitor: how fast it scans a backup list in which every entry is stamped and none is stalled, and how long another client's
// PING takes meanwhile.
//
// Before each round a client does only what a scan must do with the list. It rotates a list of 900 entries, and reads a longer
// one in place, page by page from the tail. Its rate is the most that this machine and its Redis allow. The table also shows the
// rate of the scans as a share of that.
#include "pass.h"
#include "ping.h"

enum { ROTATED = 900, PAGE = 256, FLOOR_ENTRIES = 200000 }; // ROTATED: below monitor.rotation

static void send_all(redisContext *redis) {
    for (int done = 0; !done;)
        if (redisBufferWrite(redis, &done) != REDIS_OK) die("redis: %s", redis->errstr);
}

static void rotate(redisContext *redis) {
    for (int i = 0; i < PAGE; i++) redisAppendCommand(redis, "RPOPLPUSH q0:backup q0:backup");
    send_all(redis);
}

// Entries that a client rotates in a second, two requests at a time.
static double floor_of_rotation(redisContext *redis) {
    int64_t began = mono_us();
    rotate(redis);
    for (int done = PAGE; done <= FLOOR_ENTRIES; done += PAGE) {
        rotate(redis);
        for (int i = 0; i < PAGE; i++) freeReplyObject(redis_read(redis));
    }
    for (int i = 0; i < PAGE; i++) freeReplyObject(redis_read(redis));
    return (double)(FLOOR_ENTRIES / PAGE * PAGE + PAGE) / (double)(mono_us() - began) * 1e6;
}

static void read_page(redisContext *redis, int entries, int page) {
    int behind = page * PAGE % entries;
    redisAppendCommand(redis, "LRANGE q0:backup %d %d", -behind - PAGE, -behind - 1);
    send_all(redis);
}

// Entries that a client reads in a second, two requests at a time, once through the list, or FLOOR_ENTRIES.
static double floor_of_reading(redisContext *redis, int entries) {
    int pages = (entries > FLOOR_ENTRIES ? entries : FLOOR_ENTRIES) / PAGE;
    int64_t began = mono_us(), read = 0;
    read_page(redis, entries, 0);
    for (int page = 0; page < pages; page++) {
        if (page + 1 < pages) read_page(redis, entries, page + 1);
        redisReply *reply = redis_read(redis);
        read += (int64_t)reply->elements;
        freeReplyObject(reply);
    }
    return (double)read / (double)(mono_us() - began) * 1e6;
}

static void measure(bench_t *bench, redisContext *redis, pinger_t *pinger, int entries, bool heartbeats, double goal,
                    double ping_goal) {
    series_t rates = {0};
    series_t p99 = {0};
    series_t shares = {0};
    char label[80];
    char name[40];
    bool rotated = entries <= ROTATED;
    snprintf(name, sizeof name, "pass-%d-%s", entries, heartbeats ? "heartbeats" : "plain");
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = name, .ttl = "60s", .monitor = heartbeats ? "*_alive" : "off"});
    passes_await_leading(bench, name);
    passes_await(bench, pid, name, "q0", 2, entries); // the first pass stamps
    for (int i = 0; i < bench->rounds; i++) {
        kill(pid, SIGSTOP);
        double most = rotated ? floor_of_rotation(redis) : floor_of_reading(redis, entries);
        kill(pid, SIGCONT);
        counts_t before = passes_await(bench, pid, name, "q0", 1, entries);
        ping_begin(pinger);
        counts_t after = passes_await(bench, pid, name, "q0", 2, entries);
        ping_end(pinger);
        double passes = (double)(after.passes - before.passes);
        series_add(&rates, (double)entries * passes / (double)(after.pass_us - before.pass_us) * 1e6);
        series_add(&p99, percentile(pinger->ms, pinger->count, 0.99));
        series_add(&shares, rates.values[i] / most);
        fprintf(stderr, "pass: %d entries, round %d: %.0f entries/s, PING p99 %.2f ms; %s alone: %.0f entries/s\n", entries,
                i + 1, rates.values[i], p99.values[i], rotated ? "rotation" : "reading", most);
    }
    sidecar_stop(pid, SIGTERM);
    snprintf(label, sizeof label, "%d entries%s, entries/s", entries, heartbeats ? ", with heartbeats" : "");
    table_row(bench, label, &rates, 0, goal > 0 ? '>' : 0, goal);
    snprintf(label, sizeof label, "%d entries%s, share of what %s alone does", entries, heartbeats ? ", with heartbeats" : "",
             rotated ? "rotation" : "reading");
    table_row(bench, label, &shares, 2, 0, 0);
    snprintf(label, sizeof label, "%d entries%s, PING p99, ms", entries, heartbeats ? ", with heartbeats" : "");
    table_row(bench, label, &p99, 3, ping_goal > 0 ? '<' : 0, ping_goal);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    pinger_t pinger = ping_open(&bench);
    table_head("A pass over a backup list of 100-byte jobs, all stamped, none stalled");
    measure(&bench, redis, &pinger, ROTATED, false, 0, 0); // too short for a goal
    measure(&bench, redis, &pinger, 10000, false, 400000, 2);
    measure(&bench, redis, &pinger, 100000, false, 400000, 2);
    measure(&bench, redis, &pinger, 1000000, false, 400000, 2);
    measure(&bench, redis, &pinger, 100000, true, 0, 0);
    redis_do(redis, "FLUSHALL");
    ping_close(&pinger);
    redisFree(redis);
    return bench_end(&bench);
}
