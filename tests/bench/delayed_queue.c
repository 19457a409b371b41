// Events of delayedQueue: how many a second the sidecar sends and schedules again, against the algorithm of the library
// (fred84/delayedQueue, DelayedEventService.java, dispatchDelayedMessages and handleDelayedTask). The library reads a batch of
// members by ZRANGEBYSCORE. For each member its synchronous client sends HGET, MULTI, ZADD, HSET, LPUSH, EXEC one after the
// other. The peer does this in C, on the same socket, without JSON, so it is faster than the library. A second peer sends MULTI
// to EXEC at once, which the library does not do.
//
// A round begins with RENAME, which moves a loaded zset to delayed. It ends when the list has all envelopes; keyspace events
// report each push.
#include "bench.h"

enum {
    EVENTS = 100000,
    PEER_EVENTS = 20000, // number of these events that a peer sends
    PER_ADD = 200,
    LIBRARY_BATCH = 100,    // schedulingBatchSize by default
    DELAY_MS = 3600 * 1000, // long, so that no event is due again before the round ends, even on a slow machine
};

#define CLASS    "com.example.PaymentCheck"
#define LIST     "de_paymentcheck"
#define TAIL(n)  ",\"type\":\"" CLASS "\",\"attempt\":" #n ",\"logContext\":{}}"
#define SETTINGS "{ name = \"q0\"; dialect = \"delayed_queue\"; types = [\"" CLASS "\"]; delays = [\"*: 1h\"]; }"

// Writes an envelope of about 260 bytes, the size of a small event.
static int envelope(char *out, size_t size, int number) {
    return snprintf(out, size, "{\"payload\":{\"id\":\"%08d\",\"order\":\"%032d\",\"text\":\"%096d\"}" TAIL(1), number, number,
                    0);
}

// Fills `stage` and the hash with events that fell due within the last minute.
static void load(redisContext *redis) {
    int64_t now_ms = wall_us() / 1000;
    redis_do(redis, "DEL de_delayed_events de_events stage " LIST);
    for (int done = 0; done < EVENTS; done += PER_ADD) {
        for (int i = done; i < done + PER_ADD; i++) {
            char text[512];
            int len = envelope(text, sizeof text, i);
            redisAppendCommand(redis, "ZADD stage %lld " CLASS "###%08d", (long long)(now_ms - 60000 + 60000LL * i / EVENTS), i);
            redisAppendCommand(redis, "HSET de_events " CLASS "###%08d %b", i, text, (size_t)len);
        }
        for (int i = 0; i < 2 * PER_ADD; i++) freeReplyObject(redis_read(redis));
    }
    sleep_us(20000);
}

typedef struct rates {
    double wall;   // events a second
    double cpu_us; // CPU time of Redis's main thread for one event
} rates_t;

static rates_t rates(int events, int64_t us, double cpu_us) {
    return (rates_t){.wall = events / (double)us * 1e6, .cpu_us = cpu_us / events};
}

// Checks that every event was sent once and has its second attempt scheduled.
static void expect(redisContext *redis, int events) {
    scoped_reply *reply = redis_ask(redis, "HGET de_events " CLASS "###%08d", events - 1);
    bool good = reply->type == REDIS_REPLY_STRING && strstr(reply->str, TAIL(2));
    if (!good || redis_do(redis, "LLEN " LIST) != events) die("not all of %d events were sent once", events);
}

static rates_t sidecar_round(redisContext *redis, redisContext *events) {
    load(redis);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "RENAME stage de_delayed_events");
    for (int64_t sent = 0; sent < EVENTS; sent = redis_do(redis, "LLEN " LIST)) freeReplyObject(redis_read(events));
    int64_t ended = mono_us();
    cpu = redis_cpu_us(redis) - cpu;
    expect(redis, EVENTS);
    return rates(EVENTS, ended - began, cpu);
}

// Does what the library does for one event.
static void peer_event(redisContext *redis, const char *member, bool pipelined) {
    scoped_reply *reply = redis_ask(redis, "HGET de_events %s", member);
    size_t kept = reply->len - strlen(TAIL(1));
    char *next = malloc(reply->len + 1);
    if (reply->type != REDIS_REPLY_STRING || !next) die("no envelope of %s", member);
    memcpy(next, reply->str, kept);
    memcpy(next + kept, TAIL(2), sizeof TAIL(2));
    const int commands = 5;
    for (int i = 0; i < commands; i++) {
        if (i == 0) redisAppendCommand(redis, "MULTI");
        if (i == 1) redisAppendCommand(redis, "ZADD de_delayed_events %lld %s", (long long)(wall_us() / 1000 + DELAY_MS), member);
        if (i == 2) redisAppendCommand(redis, "HSET de_events %s %b", member, next, kept + strlen(TAIL(2)));
        if (i == 3) redisAppendCommand(redis, "LPUSH " LIST " %b", reply->str, reply->len);
        if (i == 4) redisAppendCommand(redis, "EXEC");
        if (!pipelined) freeReplyObject(redis_read(redis));
    }
    for (int i = 0; pipelined && i < commands; i++) freeReplyObject(redis_read(redis));
    free(next);
}

static rates_t peer_round(redisContext *redis, bool pipelined) {
    load(redis);
    redis_do(redis, "RENAME stage de_delayed_events");
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    for (int done = 0; done < PEER_EVENTS;) {
        scoped_reply *due = redis_ask(redis, "ZRANGEBYSCORE de_delayed_events -1 %lld LIMIT 0 %d", (long long)(wall_us() / 1000),
                                      (int)LIBRARY_BATCH);
        for (size_t i = 0; i < due->elements; i++, done++) peer_event(redis, due->element[i]->str, pipelined);
    }
    int64_t ended = mono_us();
    cpu = redis_cpu_us(redis) - cpu;
    expect(redis, PEER_EVENTS);
    return rates(PEER_EVENTS, ended - began, cpu);
}

// Waits until the sidecar leads and sends an event.
static void await_sidecar(redisContext *redis, pid_t pid) {
    redis_do(redis, "HSET de_events " CLASS "###warm-up {}" TAIL(1));
    redis_do(redis, "ZADD de_delayed_events 1 " CLASS "###warm-up");
    for (int i = 0; redis_do(redis, "LLEN " LIST) == 0; i++) {
        if (i == 3000 || waitpid(pid, NULL, WNOHANG) == pid) die("the sidecar sends nothing; see its log");
        sleep_us(5000);
    }
    sleep_us(50000);
}

static void row(bench_t *bench, const char *label, series_t *series, int decimals, double goal) {
    table_row(bench, label, series, decimals, goal > 0 ? '>' : 0, goal);
}

typedef struct result {
    series_t ours, library, pipelined, to_library, to_pipelined, our_cpu, library_cpu;
} result_t;

static void measure(bench_t *bench, redisContext *redis, redisContext *events, int batch, result_t *out) {
    char name[32];
    snprintf(name, sizeof name, "delayed-%d", batch);
    for (int i = 0; i < bench->rounds; i++) {
        pid_t sidecar = sidecar_start(bench, (sidecar_options_t){.name = name, .batch = batch, .queue = SETTINGS});
        await_sidecar(redis, sidecar);
        rates_t ours = sidecar_round(redis, events);
        sidecar_stop(sidecar, SIGTERM); // or the sidecar would send the events of the peers
        rates_t library = peer_round(redis, false), pipelined = peer_round(redis, true);
        series_add(&out->ours, ours.wall);
        series_add(&out->library, library.wall);
        series_add(&out->pipelined, pipelined.wall);
        series_add(&out->to_library, ours.wall / library.wall);
        series_add(&out->to_pipelined, ours.wall / pipelined.wall);
        series_add(&out->our_cpu, ours.cpu_us);
        series_add(&out->library_cpu, library.cpu_us);
        fprintf(stderr, "delayed_queue: batch %d, round %d: %.0f events/s, the library's way %.0f, MULTI to EXEC at once %.0f\n",
                batch, i + 1, ours.wall, library.wall, pipelined.wall);
    }
}

int main(int argc, char **argv) {
    static const int BATCHES[] = {250, 1000};
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench), *events = redis_open(&bench);
    result_t result = {0};
    redis_do(redis, "CONFIG SET notify-keyspace-events Kl");
    redis_do(events, "SUBSCRIBE __keyspace@0__:" LIST);
    table_head("Events of delayedQueue: 100000 are due");
    measure(&bench, redis, events, 500, &result);
    row(&bench, "sidecar, events/s", &result.ours, 0, 0);
    row(&bench, "the library's way, in C, events/s", &result.library, 0, 0);
    row(&bench, "that with MULTI to EXEC at once, events/s", &result.pipelined, 0, 0);
    row(&bench, "sidecar / the library's way", &result.to_library, 1, 20);
    row(&bench, "sidecar / MULTI to EXEC at once", &result.to_pipelined, 1, 0);
    row(&bench, "sidecar, CPU of Redis an event, us", &result.our_cpu, 2, 0);
    row(&bench, "the library's way, CPU of Redis an event, us", &result.library_cpu, 2, 0);
    for (size_t i = 0; i < sizeof BATCHES / sizeof *BATCHES; i++) {
        char label[64];
        result_t other = {0};
        measure(&bench, redis, events, BATCHES[i], &other);
        snprintf(label, sizeof label, "batch %d: sidecar, events/s", BATCHES[i]);
        row(&bench, label, &other.ours, 0, 0);
        snprintf(label, sizeof label, "batch %d: sidecar / the library's way", BATCHES[i]);
        row(&bench, label, &other.to_library, 1, 0);
    }
    redis_do(redis, "CONFIG SET notify-keyspace-events %s", "");
    redisFree(redis);
    redisFree(events);
    return bench_end(&bench);
}
