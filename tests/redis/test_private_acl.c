/* private_queues under the rights that README publishes: they are enough, and none that is missing costs a job. */
#include "private_desk.h"
#include "queue/preflight.h"
#include "tempdir.h"

#define AS_SIDECAR "username = \"sidecar\"; password = \"secret\";"
#define PUBLISHED                                                                                                                \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = \"private_queues\"; "    \
    "main = \"fight-requests\"; private = \"queue-*\"; dlq = \"fights-dlq\"; dedup = \"fights-done\"; id_path = \"/id\"; "       \
    "retry_times = 0; protected_timeout = \"100ms\"; heartbeat = \"*_alive\"; } );"

enum { MOST_WORDS = 160 };

typedef struct {
    char *texts[2]; /* owned; the words point into them */
    char *words[MOST_WORDS];
    size_t count, own; /* the words of this dialect begin here */
} rights_t;

static const char *after(const char *text, const char *what) {
    const char *at = strstr(text, what);
    cr_assert_not_null(at, "README.md lacks \"%s\"", what);
    return at + strlen(what);
}

static void add_line(rights_t *rights, size_t nth, const char *from) {
    const char *line = after(from, "ACL SETUSER sidecar ");
    rights->texts[nth] = strndup(line, (size_t)(strstr(line, "\n```") - line));
    char *rest = rights->texts[nth];
    for (char *word = strtok_r(rest, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        cr_assert_lt(rights->count, MOST_WORDS);
        if (*word != '>' && strcmp(word, "reset") != 0 && strcmp(word, "on") != 0) rights->words[rights->count++] = word;
    }
}

/* The line of all queues, and what this dialect adds. */
static rights_t rights_read(void) {
    rights_t rights = {0};
    char *readme = temp_read("README.md");
    const char *section = after(readme, "\n## Least privilege");
    add_line(&rights, 0, section);
    rights.own = rights.count;
    add_line(&rights, 1, after(section, "A queue of dialect `private_queues`"));
    free(readme);
    return rights;
}

static void rights_free(rights_t *rights) {
    for (size_t i = 0; i < 2; i++) free(rights->texts[i]);
}

static void set_user(redis_t *r, const rights_t *rights, const char *without) {
    const char *argv[MOST_WORDS + 8] = {"ACL", "SETUSER", "sidecar", "reset", "on", ">secret"};
    int argc = 6;
    for (size_t i = 0; i < rights->count; i++)
        if (rights->words[i] != without) argv[argc++] = rights->words[i];
    redisReply *reply = redisCommandArgv(r, argc, argv, NULL);
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "%s", reply ? reply->str : r->errstr);
    freeReplyObject(reply);
    redis_ok(r, "ACL LOG RESET");
}

static void note(void *self, finding_t finding, const char *queue, const char *text) {
    (void)queue;
    if (finding != FINDING_FACT && finding != FINDING_WARN) buffer_printf(self, "%s\n", text);
}

static void put(desk_t *d) {
    redis_ok(d->f.r, "FLUSHALL");
    crew_lead(&d->crew, d->f.r);
    redis_ok(d->f.r, "LPUSH queue-w1 %s", "{\"id\":1}");
    redis_ok(d->f.r, "LPUSH queue-w2 %s", "{\"id\":2}");
    redis_ok(d->f.r, "SADD fights-done 2");
    redis_ok(d->f.r, "LPUSH fights-dlq theirs");
}

Test(redis_private_acl, the_published_lines_are_enough) {
    desk_t d;
    rights_t rights = rights_read();
    open_desk(&d, (fixture_options_t){.config = PUBLISHED, .redis = AS_SIDECAR});
    set_user(d.f.r, &rights, NULL);
    put(&d);
    until(&d, reasons(&d, "retries_exhausted") == 1 && reasons(&d, "dead_letter") == 1);
    until(&d, metric_get(&of(&d)->duplicates_dropped) == 1);
    cr_assert_eq(count(&d, "LLEN fights-dlq"), 2);
    redisReply *log = redis_do(d.f.r, "ACL LOG 10");
    cr_assert_eq(log->elements, 0, "%s", log->elements ? log->element[0]->element[7]->str : "");
    freeReplyObject(log);
    buffer_t said = {0};
    fault_t fault;
    conn_t *conn = conn_new(&d.f.config->redis, "test", NULL);
    cr_assert_eq(conn_open(conn, &fault), OUTCOME_OK, "%s", fault.text);
    cr_assert_eq(preflight(conn, d.f.keys, note, &said, &fault), OUTCOME_OK, "%s", fault.text);
    cr_assert_eq(said.len, 0, "%s", buffer_text(&said));
    buffer_free(&said);
    conn_free(conn);
    rights_free(&rights);
    close_desk(&d);
}

/* The job stays in its list, or has gone on to where it belongs: never both, never neither. */
Test(redis_private_acl, without_any_one_right_no_job_is_lost, .timeout = 120) {
    rights_t rights = rights_read();
    for (size_t i = rights.own; i < rights.count; i++) {
        if (strcmp(rights.words[i], "+sscan") == 0) continue; /* of a registry */
        desk_t d;
        open_desk(&d, (fixture_options_t){.config = PUBLISHED, .redis = AS_SIDECAR});
        set_user(d.f.r, &rights, rights.words[i]);
        put(&d);
        until(&d, fixture_log_count("refuses") > 0);
        stage_run(&d.crew.stage, 300);
        long long one = there(&d, "queue-w1", "{\"id\":1}"), ended = reasons(&d, "retries_exhausted");
        cr_assert_eq(one + ended, 1, "without %s: %lld and %lld", rights.words[i], one, ended);
        cr_assert_eq(there(&d, "fights-dlq", "{\"id\":1}"), ended, "without %s", rights.words[i]);
        cr_assert_eq(there(&d, "fights-dlq", "theirs"), 1, "without %s", rights.words[i]);
        close_desk(&d);
    }
    rights_free(&rights);
}

/* A registry may name what we may not touch: that is said, and keeps nobody else waiting. */
Test(redis_private_acl, a_name_in_the_registry_that_is_refused_stops_nobody) {
    desk_t d;
    rights_t rights = rights_read();
    open_desk(&d,
              (fixture_options_t){
                  .config = "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = "
                            "\"private_queues\"; main = \"fight-requests\"; registry = \"email:workers\"; "
                            "protected_timeout = \"100ms\"; } );",
                  .redis = AS_SIDECAR});
    set_user(d.f.r, &rights, NULL);
    redis_ok(d.f.r, "RPUSH bank precious");
    redis_ok(d.f.r, "SADD email:workers queue-w1 bank queue-w2 another-bank");
    redis_ok(d.f.r, "LPUSH queue-w1 one");
    redis_ok(d.f.r, "LPUSH queue-w2 two");
    until(&d, there(&d, "fight-requests", "one") + there(&d, "fight-requests", "two") == 2);
    cr_assert(fixture_log_count("\"reason\":\"bank: ") > 0 && fixture_log_count("\"reason\":\"another-bank: ") > 0);
    cr_assert_eq(count(&d, "LLEN bank"), 1);
    rights_free(&rights);
    close_desk(&d);
}
