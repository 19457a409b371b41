/* Compares the byte vectors of tests/data with the client libraries that wrote them. */
#include "native.h"
#include "suite.h"
#include "tempdir.h"

TestSuite(daemon_clients_native, .timeout = 120);

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
    if (strncmp(env, "QS_BULL=", 8) == 0) needs_redis(server);
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
Test(daemon_clients_native, vectors_bullmq_5) {
    cr_assert_eq(current_vectors("bullmq", "capture", "QS_BULLMQ=5.81.5", "tests/data/bullmq/bullmq-5.81.5.jsonl"), 5);
}
Test(daemon_clients_native, vectors_bullmq_6) {
    cr_assert_eq(current_vectors("bullmq", "capture", "QS_BULLMQ=6.7.0", "tests/data/bullmq/bullmq-6.7.0.jsonl"), 5);
}
