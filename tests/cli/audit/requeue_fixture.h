/* For tests of `audit requeue`: failures in a stream, and the command line on a sidecar's config and log. */
#pragma once

#include "audit_log.h"
#include "base/digest.h"
#include "base/slice.h"
#include "child.h"
#include "cluster.h"
#include "tempdir.h"
#include "text.h"

#include <signal.h>
#include <time.h>

enum { COPY_MS = 30000, RUN_MS = 60000 };
#define QUEUE "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"1h\"; retry_times = 0; }"

#define await(cluster, cond, ms)                                                                                                 \
    do {                                                                                                                         \
        if (!wait_for(cond, ms)) cluster_fail(cluster, "never came: " #cond);                                                    \
    } while (0)

/* The record of a final failure. `at` 0 = now; `stream`, `queue` NULL = "q"; `error` NULL = "no". */
typedef struct {
    const char *stream, *queue, *error;
    int number;
    int64_t at;
    slice_t payload; /* data NULL = "job <number>" */
} failure_t;

static inline void feed_one(redis_t *r, failure_t of) {
    char text[32], id[DIGEST_HEX_SIZE], sha256[DIGEST_HEX_SIZE], job[24], at[24], size[24];
    int len = snprintf(text, sizeof(text), "job %d", of.number);
    if (!of.payload.data) of.payload = (slice_t){text, (size_t)len};
    digest_t digest = digest_of(of.payload.data, of.payload.len), event = digest_of(text, (size_t)len);
    digest_hex(&digest, sha256);
    digest_hex(&event, id);
    snprintf(job, sizeof(job), "%d", of.number);
    snprintf(at, sizeof(at), "%lld", (long long)(of.at ? of.at : redis_ms(r)));
    snprintf(size, sizeof(size), "%zu", of.payload.len);
    redis_ok(
        r,
        "XADD sidecar:%s:failures * event %s kind failed dialect list queue %s job %s reason reported error %s attempts 1 at "
        "%s size %s sha256 %s payload %b",
        of.stream ? of.stream : "q", id, of.queue ? of.queue : "q", job, of.error ? of.error : "no", at, size, sha256,
        of.payload.data, of.payload.len);
}

static inline void feed(redis_t *r, int first, int count) {
    for (int i = first; i < first + count; i++) feed_one(r, (failure_t){.number = i});
}

static inline bool answers(const daemon_t *d, int count) {
    return audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE answers <> ''") == count;
}

/* The number of jobs in the list; -1 = one is there twice. */
static inline long long distinct(redis_t *r, const char *list) {
    return redis_int(r, "EVAL %s 1 %s",
                     "local seen, n = {}, 0 for _, j in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do "
                     "if seen[j] then return -1 end seen[j] = true n = n + 1 end return n",
                     list);
}

/* The CLI with this sidecar's config and log. `words` ends with NULL. */
enum { WORDS = 24 };
typedef struct {
    const char *argv[WORDS + 8];
} command_t;

static inline command_t command(const daemon_t *d, const char *const *words) {
    command_t of = {.argv = {"audit"}};
    size_t n = 1;
    for (; *words; words++) of.argv[n++] = *words;
    if (strcmp(of.argv[1], "requeue") == 0 || strcmp(of.argv[1], "discard") == 0 || strcmp(of.argv[1], "erase") == 0) {
        of.argv[n++] = "-c";
        of.argv[n++] = daemon_config_path(d);
    }
    of.argv[n++] = "--db";
    of.argv[n++] = daemon_audit_path(d);
    return of;
}

#define cli(d, ...) daemon_run_argv(NULL, command(d, (const char *const[]){__VA_ARGS__, NULL}).argv)

/* A command that runs in the background. */
typedef struct {
    child_t *child;
    char *out, *err;
} background_t;

static inline background_t start(const daemon_t *d, const char *const *words) {
    command_t of = command(d, words);
    const char *argv[WORDS + 9] = {daemon_program()};
    char *dir = temp_dir("cli");
    background_t b = {.out = temp_path(dir, "out"), .err = temp_path(dir, "err")};
    memcpy(argv + 1, of.argv, sizeof(of.argv));
    b.child = child_start(&(child_spec_t){.argv = argv, .out = b.out, .err = b.err});
    return b;
}
#define cli_start(d, ...) start(d, (const char *const[]){__VA_ARGS__, NULL})

static inline int finish(background_t *b, char **out) {
    cr_assert(child_wait(b->child, RUN_MS));
    int code = b->child->exit_code;
    if (out) *out = temp_read(b->out);
    child_free(b->child);
    free(b->out);
    free(b->err);
    return code;
}

/* The number behind "name": in a JSON object of one line. */
static inline int number_of(const char *json, const char *name) {
    char key[40];
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(json, key);
    cr_assert_not_null(at, "%s lacks %s", json, name);
    return atoi(at + strlen(key));
}

static inline char *ref_of(const daemon_t *d, const char *job) {
    const daemon_output_t *list = cli(d, "list", "-o", "csv", "--grep", job, "-n", "1");
    const char *row = strchr(list->out, '\n');
    cr_assert(row && row[1], "%s%s", list->out, list->err);
    return strndup(row + 1, strcspn(row + 1, ","));
}

static inline daemon_t *sidecar(cluster_t *s) { return cluster_sidecar_up(s, (sidecar_t){.queues = QUEUE, .scan = "50ms"}); }

/* Runs a block of docs/audit.md, whose queue is called email, with the config and the log of this sidecar. Kept stdout. */
static inline char *run_block(const daemon_t *d, const char *name) {
    char *page = temp_read("docs/audit.md"), *head = kept_printf("```sh %s\n", name);
    char *block = strstr(page, head), *block_end = block ? strstr(block + 3, "\n```") : NULL;
    cr_assert(block && block_end, "docs/audit.md has no %s", name);
    block_end[1] = '\0';
    char *dir = temp_dir("block"), *bin = temp_path(dir, "queue-sidecar"), *script = temp_path(dir, name),
         *out = temp_path(dir, "out"), *err = temp_path(dir, "err");
    cr_assert_eq(symlink(daemon_program(), bin), 0);
    temp_write(script, block + strlen(head));
    const char *const env[] = {kept_printf("PATH=%s:%s", dir, getenv("PATH")),
                               kept_printf("QUEUE_SIDECAR_CONFIG=%s", daemon_config_path(d)),
                               kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d)), "TZ=UTC", NULL};
    const char *const argv[] = {"sh", "-eu", script, NULL};
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .env = env, .out = out, .err = err});
    cr_assert(child_wait(child, RUN_MS));
    cr_assert_eq(child->exit_code, 0, "%s%s", temp_read(out), temp_read(err));
    return temp_read(out);
}
