/* Real clients of the dialects that need no dialect of their own: the third seed's queue, a zset of JSON messages scored in
 * seconds, by redis-py. And the byte vectors of tests/data against the libraries that they were taken from.
 *
 * QS_LONG=1 is 10,000 messages, else a tenth; QS_STORY_JOBS=n is any number. */
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(daemon_clients_native, .timeout = 120);

enum {
    JOBS = 1000,
    JOBS_LONG = 10000,
    ROUNDS = 4,      /* each ends the sidecar that leads, by SIGKILL and SIGTERM in turn */
    DELAY_MS = 1500, /* the longest of a delayed message */
    WORKERS = 2,
    ALL_MS = 60000,
};

static const char QUEUE[] =
    "{ name = \"delay-queue\"; score_unit = \"s\"; roles = [\"dispatcher\"]; ready = \"delay-queue:ready\"; "
    "delayed = \"delay-queue\"; }";

/* One message of the third seed. */
typedef struct {
    double due;      /* in seconds, as the producer says */
    const char *hex; /* borrowed from the lines */
    int came;
} message_t;

static size_t jobs(void) {
    const char *set = getenv("QS_STORY_JOBS"), *stress = getenv("QS_LONG");
    if (set && *set) return strtoul(set, NULL, 10);
    return stress && stress[0] == '1' ? JOBS_LONG : JOBS;
}

/* What the producer reads: "DELAY_MS KIND NUMBER TEXT" a line; one of five is due at once. Owned by the caller. */
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
    return text;
}

static int came(const native_t *native) { return native_count(native, "taken", NULL) + native_count(native, "polled", NULL); }

/* The first part comes while there is no sidecar: the old loop takes it. */
static void before_sidecars(const native_t *native, size_t count, uint64_t *seed) {
    char *in = story(0, count / (ROUNDS + 1), seed);
    native_finish(native, (const char *const[]){"produce", "delay-queue", NULL}, NULL, in);
    if (!wait_for(native_count(native, "polled", NULL) == (int)count / (ROUNDS + 1), ALL_MS))
        native_fail(native, "the old loop does not take what is due");
    free(in);
}

/* Produces another part of the messages, and ends the sidecar that leads while they come; the other takes over, a new one stands
 * by. */
static void round_of(cluster_t *cluster, const native_t *native, int round, size_t count, uint64_t *seed) {
    size_t from = count * (size_t)(round + 1) / (ROUNDS + 1), to = count * (size_t)(round + 2) / (ROUNDS + 1);
    daemon_t *leader = cluster_await_leader(cluster, "g", NULL, ALL_MS);
    int before = came(native);
    char *in = story(from, to, seed);
    child_t *producer = native_start(native, (const char *const[]){"produce", "delay-queue", NULL}, NULL, in);
    if (!wait_for(came(native) >= before + (int)(to - from) / 5, ALL_MS)) cluster_fail(cluster, "nothing comes");
    if (round % 2)
        cr_expect_eq(daemon_terminate(leader, ALL_MS).code, 0);
    else
        daemon_kill(leader);
    cluster_sidecar(cluster, (sidecar_t){.queues = QUEUE});
    cr_assert(child_wait(producer, ALL_MS) && producer->exit_code == 0);
    child_free(producer);
    free(in);
}

static size_t number_of(const native_line_t *line, size_t count) {
    size_t number = strtoul(strchr(line->key, '-') + 1, NULL, 10);
    cr_assert_lt(number, count);
    return number;
}

/* Each message came once, not early, as it was. */
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
    fprintf(stderr, "third seed: %zu messages, %zu of them by the old loop\n", count, polled);
    free(messages);
    native_free_lines(&all);
}

/* The poll of the zset has become a BRPOP, in all workers but one, which still polls. */
Test(daemon_clients_native, workers_of_the_third_seed_run) {
    size_t count = jobs();
    uint64_t seed = cluster_seed("third_seed");
    cluster_t cluster = cluster_begin(&(server_options_t){.tcp = true});
    native_t native = native_begin("delay_loop", cluster.server);
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
    native_end(&native);
    cluster_end(&cluster);
}

/* Bull's scenes are read by MONITOR, and that of Valkey does not quote what the arguments hold. */
static void needs_redis(server_t *server) {
    bool valkey;
    free(server_version(server, &valkey));
    if (valkey) cr_skip("the scenes of Bull cannot be read from Valkey's MONITOR");
}

/* How many vectors a file holds, all of which a capture program prints now, byte for byte, and nothing else. */
static size_t current_vectors(const char *client, const char *program, const char *env, const char *file) {
    server_t *server = server_start(&(server_options_t){.tcp = true});
    native_t native = native_begin(client, server);
    if (strncmp(env, "QS_BULL", 7) == 0) needs_redis(server);
    native_finish(&native, (const char *const[]){program, NULL}, (const char *const[]){env, NULL}, NULL);
    char *out = temp_path(native.dir, "out"), *now = temp_read(out), *kept = temp_read(file);
    cr_assert(*kept, "%s is missing: run make vectors", file);
    size_t same = 0, line = 1;
    while (now[same] && now[same] == kept[same]) line += now[same++] == '\n';
    cr_assert(now[same] == kept[same], "%s:%zu: the library says otherwise now; run make vectors, and see what changed", file,
              line);
    free(kept);
    free(now);
    free(out);
    free(native.run);
    free(native.dir);
    server_free(server);
    return line - 1;
}

/* Each number is what the library was made to show: one that is lost by a capture program would be lost by `make vectors` too. */
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
