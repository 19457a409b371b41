/* The table of lists in deploy/README.md#autoscaling: each is where the library of its dialect puts jobs, and its length is what
 * queue_sidecar_ready_jobs tells. */
#include "base/json/json.h"
#include "http/http_fixture.h"
#include "tempdir.h"

enum { ROWS = 7 };

typedef struct {
    char *dialect, *queue, *list; /* kept */
} row_t;

static row_t rows[ROWS];
static cluster_t s;

/* Reads "| dialect | `queue` | `list` |". */
static void read_table(void) {
    char *text = temp_read("deploy/README.md"), *save;
    char *table = strstr(text, "| dialect | queue in the config | `listName` |");
    size_t count = 0;
    cr_assert(table, "the table is gone");
    for (char *line = strtok_r(table, "\n", &save); line && *line == '|'; line = strtok_r(NULL, "\n", &save)) {
        char dialect[32], queue[200], list[64];
        if (sscanf(line, "| %31[a-z_] | `%199[^`]` | `%63[^`]` |", dialect, queue, list) != 3) continue;
        cr_assert_lt(count, ROWS);
        rows[count++] = (row_t){kept_printf("%s", dialect), kept_printf("%s", queue), kept_printf("%s", list)};
    }
    cr_assert_eq(count, ROWS, "%zu rows", count);
}

SUITE(daemon_autoscaling, (read_table(), s = cluster_begin(NULL)), cluster_end(&s));

static size_t unhex(const char *hex, size_t digits, char *out) {
    for (size_t i = 0; i + 1 < digits; i += 2) cr_assert_eq(sscanf(hex + i, "%2hhx", (unsigned char *)&out[i / 2]), 1);
    return digits / 2;
}

/* Sends the commands that Bull sent when it added a job without a delay. */
static void add_by_bull(void) {
    static const char SCENE[] = "{\"what\":\"plain: added\",";
    char *rest = temp_read("tests/data/bull/bull-4.16.5.jsonl"), *line;
    while ((line = strsep(&rest, "\n")) && *line) {
        const char *at = strstr(line, "\"command\":[");
        const char *argv[64];
        size_t lengths[64];
        int argc = 0;
        if (strncmp(line, SCENE, sizeof SCENE - 1) != 0 || !at) continue;
        for (at += 11; *at == '"' || *at == ',';) {
            if (*at++ == ',') continue;
            size_t digits = strcspn(at, "\"");
            char *word = kept(calloc(1, digits / 2 + 1));
            lengths[argc] = unhex(at, digits, word);
            argv[argc++] = word;
            at += digits + 1;
        }
        redisReply *reply = redisCommandArgv(s.r, argc, argv, lengths);
        cr_assert(reply && reply->type != REDIS_REPLY_ERROR, "%s", line);
        freeReplyObject(reply);
    }
}

static const char *list_of(const char *dialect) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].dialect, dialect) == 0) return rows[i].list;
    cr_assert_fail("no row for %s", dialect);
    return NULL;
}

/* Returns the first value of `member` of the lines with this "key" of a file of vectors, decoded. */
static char *vector_of(const char *path, const char *key) {
    char *text = temp_read(path), *at = strstr(text, kept_printf("\"key\":\"%s\",\"hex\":\"", key));
    cr_assert(at, "%s has no %s", path, key);
    at = strstr(at, "\"hex\":\"") + 7;
    size_t digits = strcspn(at, "\"");
    char *out = kept(calloc(1, digits / 2 + 1));
    unhex(at, digits, out);
    return out;
}

Test(daemon_autoscaling, each_list_is_what_the_library_fills_and_the_metric_counts) {
    char *queues = "";
    for (size_t i = 0; i < ROWS; i++) queues = kept_printf("%s%s%s", queues, *queues ? ", " : "", rows[i].queue);
    int port;
    add_by_bull();
    char *task = vector_of("tests/data/kmqueue/fastjson-1.2.16.jsonl", "pushed");
    cr_assert(strstr(task, kept_printf("\"queue\":\"%s\"", list_of("kmqueue"))), "its producer pushes to another list: %s", task);
    cr_assert_str_eq(vector_of("tests/data/delayed_queue/jackson-2.17.2.jsonl", "list"), list_of("delayed_queue"));
    redis_ok(s.r, "LPUSH %s %s", list_of("kmqueue"), task);
    redis_ok(s.r, "LPUSH %s %s", list_of("delayed_queue"), "{}");
    redis_ok(s.r, "LPUSH %s %s", list_of("private_queues"), "{\"id\":1}");
    redis_ok(s.r, "SADD queues default"); /* lib/sidekiq/client.rb, atomic_push */
    redis_ok(s.r, "LPUSH %s %s", list_of("sidekiq"), "{\"queue\":\"default\"}");
    redis_ok(s.r, "LPUSH %s 1 2 3", list_of("list"));
    redis_ok(s.r, "LPUSH %s 1 2", list_of("bullmq")); /* daemon_bullmq_moves: its own workers take jobs from there */
    redis_ok(s.r, "HSET bull:photos:meta version bullmq:6.7.0");
    daemon_t *d = serving(&s, (sidecar_t){.queues = queues, .ttl = "3s", .all_roles = true}, &port);
    for (size_t i = 0; i < ROWS; i++) {
        char name[64];
        cr_assert_eq(sscanf(rows[i].queue, "{ name = \"%63[^\"]\"", name), 1);
        long long length = redis_int(s.r, "LLEN %s", rows[i].list);
        cr_assert_gt(length, 0, "%s is empty", rows[i].list);
        await_says(d, port, "/metrics", kept_printf("\nqueue_sidecar_ready_jobs{queue=\"%s\"} %lld\n", name, length));
    }
}
