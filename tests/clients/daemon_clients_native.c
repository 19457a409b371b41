/* A delay queue of dialect list: redis-py workers of a zset of JSON messages, scored in seconds. Also compares the byte vectors
 * of tests/data with the client libraries that wrote them.
 *
 * QS_LONG=1: 10,000 messages instead of 1,000. QS_STORY_JOBS=n: n messages. */
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <signal.h>

TestSuite(daemon_clients_native, .timeout = 120);

enum {
    JOBS = 1000,
    JOBS_LONG = 10000,
    ROUNDS = 4,      /* each round ends the leader, by SIGKILL or by SIGTERM in turn */
    DELAY_MS = 1500, /* the longest delay of a message */
    WORKERS = 2,
    ALL_MS = 60000,
};

static const char QUEUE[] =
    "{ name = \"delay-queue\"; score_unit = \"s\"; roles = [\"dispatcher\"]; ready = \"delay-queue:ready\"; "
    "delayed = \"delay-queue\"; }";

typedef struct {
    double due;      /* in seconds, from the line of the producer */
    const char *hex; /* the message's bytes; borrowed from the lines */
    int came;        /* number of workers that got the message */
} message_t;

static size_t jobs(void) {
    const char *set = getenv("QS_STORY_JOBS"), *stress = getenv("QS_LONG");
    if (set && *set) return strtoul(set, NULL, 10);
    return stress && stress[0] == '1' ? JOBS_LONG : JOBS;
}

/* The input of the producer, lines "DELAY_MS KIND NUMBER TEXT". One message of five is due at once. Kept. */
static char *story(size_t from, size_t to, uint64_t *seed) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out);
    for (size_t i = from; i < to; i++) {
        unsigned long long delay = i % 5 ? cluster_random(seed, DELAY_MS) : 0;
        fprintf(out, "%llu %s %zu caf\xc3\xa9 \"quoted\" \\ {\"n\": 12345678901234567890}\n", delay, i % 7 ? "ok" : "slow", i);
    }
    fclose(out);
    return kept(text);
}

static int came(const native_t *native) { return native_count(native, "taken", NULL) + native_count(native, "polled", NULL); }

/* Produces the first part of the messages without a sidecar. The old loop takes them. */
static void before_sidecars(const native_t *native, size_t count, uint64_t *seed) {
    char *in = story(0, count / (ROUNDS + 1), seed);
    native_finish(native, (const char *const[]){"produce", "delay-queue", NULL}, NULL, in);
    if (!wait_for(native_count(native, "polled", NULL) == (int)count / (ROUNDS + 1), ALL_MS))
        native_fail(native, "the old loop does not take the due messages");
}

/* Produces another part of the messages, and ends the leader meanwhile. The standby takes over; a new sidecar stands by. */
static void round_of(cluster_t *cluster, const native_t *native, int round, size_t count, uint64_t *seed) {
    size_t from = count * (size_t)(round + 1) / (ROUNDS + 1), to = count * (size_t)(round + 2) / (ROUNDS + 1);
    daemon_t *leader = cluster_await_leader(cluster, "g", NULL, ALL_MS);
    int before = came(native);
    char *in = story(from, to, seed);
    scoped(child_drop) child_t *producer = native_start(native, (const char *const[]){"produce", "delay-queue", NULL}, NULL, in);
    if (!wait_for(came(native) >= before + (int)(to - from) / 5, ALL_MS)) cluster_fail(cluster, "no message comes");
    if (round % 2)
        cr_expect_eq(daemon_terminate(leader, ALL_MS).code, 0);
    else
        daemon_kill(leader);
    cluster_sidecar(cluster, (sidecar_t){.queues = QUEUE});
    cr_assert(child_wait(producer, ALL_MS) && producer->exit_code == 0);
}

static size_t number_of(const native_line_t *line, size_t count) {
    size_t number = strtoul(strchr(line->key, '-') + 1, NULL, 10);
    cr_assert_lt(number, count);
    return number;
}

/* Each message came once, not early, and in the same bytes. */
static void expect_each_once(const native_t *native, size_t count) {
    native_lines_t all = native_lines(native);
    message_t *messages = calloc(count, sizeof(*messages));
    size_t polled = 0;
    cr_assert(messages);
    for (size_t i = 0; i < all.count; i++) {
        if (strcmp(all.lines[i].word, "produced") != 0) continue;
        message_t *message = &messages[number_of(&all.lines[i], count)];
        char *end;
        message->due = strtod(all.lines[i].detail, &end);
        message->hex = end + 1;
    }
    for (size_t i = 0; i < all.count; i++) {
        const native_line_t *line = &all.lines[i];
        bool old = strcmp(line->word, "polled") == 0;
        if (!old && strcmp(line->word, "taken") != 0) continue;
        message_t *message = &messages[number_of(line, count)];
        message->came++;
        polled += old;
        cr_expect(message->hex && strcmp(line->detail, message->hex) == 0, "%s came in other bytes", line->key);
        cr_expect((double)(line->ms + 1) / 1e3 > message->due, "%s came at %lld ms, due at %f s", line->key, (long long)line->ms,
                  message->due);
    }
    for (size_t i = 0; i < count; i++) cr_expect_eq(messages[i].came, 1, "message %zu came %d times", i, messages[i].came);
    cr_expect_lt(polled, count, "the sidecar promoted nothing");
    fprintf(stderr, "delay_loop: %zu messages, %zu of them by the old loop\n", count, polled);
    free(messages);
    native_free_lines(&all);
}

/* All workers use BRPOP except one, which still polls the zset. */
Test(daemon_clients_native, a_polling_loop_and_the_sidecar_share_a_zset) {
    size_t count = jobs();
    uint64_t seed = cluster_seed("delay_loop");
    scoped(cluster_end) cluster_t cluster = cluster_begin(&(server_options_t){.tcp = true});
    scoped(native_end) native_t native = native_begin("delay_loop", cluster.server);
    child_t *workers[WORKERS + 1];
    for (int i = 0; i < WORKERS; i++) workers[i] = native_run(&native, "work", "delay-queue:ready");
    workers[WORKERS] = native_run(&native, "poll", "delay-queue");
    if (!wait_for(native_count(&native, "ready", NULL) == WORKERS + 1, ALL_MS)) native_fail(&native, "the workers do not start");
    before_sidecars(&native, count, &seed);
    for (int i = 0; i < 2; i++) cluster_sidecar(&cluster, (sidecar_t){.queues = QUEUE});
    for (int i = 0; i < ROUNDS; i++) round_of(&cluster, &native, i, count, &seed);
    if (!wait_for(came(&native) >= (int)count && redis_int(cluster.r, "ZCARD delay-queue") == 0 &&
                      redis_int(cluster.r, "LLEN delay-queue:ready") == 0,
                  ALL_MS))
        cluster_fail(&cluster, "not every message came");
    for (int i = 0; i <= WORKERS; i++) {
        child_signal(workers[i], SIGTERM);
        cr_expect(child_wait(workers[i], ALL_MS) && workers[i]->exit_code == 0, "a worker ended badly");
        child_free(workers[i]);
    }
    expect_each_once(&native, count);
}

/* The capture program of Bull reads MONITOR, and Valkey's MONITOR does not quote the arguments. */
static void needs_redis(server_t *server) {
    bool valkey;
    server_version(server, &valkey);
    if (valkey) cr_skip("the scenes of Bull cannot be read from Valkey's MONITOR");
}

/* Compares the output of a capture program with a file, byte for byte. Returns the number of vectors. */
static size_t current_vectors(const char *client, const char *program, const char *env, const char *file) {
    scoped(server_drop) server_t *server = server_start(&(server_options_t){.tcp = true});
    native_t native = native_begin(client, server);
    if (strncmp(env, "QS_BULL", 7) == 0) needs_redis(server);
    native_finish(&native, (const char *const[]){program, NULL}, (const char *const[]){env, NULL}, NULL);
    char *out = temp_path(native.dir, "out"), *now = temp_read(out), *kept = temp_read(file);
    cr_assert(*kept, "%s is missing: run make vectors", file);
    size_t same = 0, line = 1;
    while (now[same] && now[same] == kept[same]) line += now[same++] == '\n';
    cr_assert(now[same] == kept[same], "%s:%zu: the library now writes other bytes; run make vectors, and see the difference",
              file, line);
    free(native.run);
    free(native.dir);
    return line - 1;
}

/* The tests know the number of vectors, because `make vectors` would not notice one that a capture program loses. */
Test(daemon_clients_native, vectors_kmqueue) {
    cr_assert_eq(current_vectors("kmqueue", "capture", "QS_NONE=", "tests/data/kmqueue/fastjson-1.2.16.jsonl"), 50);
}
Test(daemon_clients_native, vectors_delayed_queue) {
    cr_assert_eq(current_vectors("delayed_queue", "capture", "QS_NONE=", "tests/data/delayed_queue/jackson-2.17.2.jsonl"), 64);
}
Test(daemon_clients_native, vectors_bull_oldest) {
    cr_assert_eq(current_vectors("bull", "capture", "QS_BULL=4.10.4", "tests/data/bull/bull-4.10.4.jsonl"), 404);
}
Test(daemon_clients_native, vectors_bull_between) {
    cr_assert_eq(current_vectors("bull", "capture", "QS_BULL=4.12.2", "tests/data/bull/bull-4.12.2.jsonl"), 404);
}
Test(daemon_clients_native, vectors_bull_newest) {
    cr_assert_eq(current_vectors("bull", "capture", "QS_BULL=4.16.5", "tests/data/bull/bull-4.16.5.jsonl"), 425);
}
Test(daemon_clients_native, vectors_bullmq) {
    cr_assert_eq(current_vectors("bull", "bullmq", "QS_NONE=", "tests/data/bull/bullmq-5.63.2.jsonl"), 5);
}
