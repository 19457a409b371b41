/* `status` names anomalies, which only the owner of a queue can mend, until they are gone. */
#include "cluster.h"
#include "tempdir.h"
#include "text.h"

static cluster_t s;
SUITE(daemon_status_anomalies, s = cluster_begin(NULL), cluster_end(&s));

static bool finds(const char *config, const char *code) {
    return has(daemon_run("status", "-c", config, "-o", "json")->out, kept_printf("\"code\":\"%s\"", code));
}

#define MONITORED "roles = [\"monitor\"]; protected_timeout = \"100ms\"; heartbeat = \"off\";"

static const struct {
    const char *code, *queue; /* in the queue's config, besides its name: the name is the code */
    const char *begin[2];     /* commands */
    const char *shown;        /* words of the finding */
    const char *logged;       /* words of the log */
    const char *end;          /* a command after which `status` does not find it any more; NULL = events: it stays for an hour */
} CASES[] = {
    {"large_in_progress",
     MONITORED "max_payload = \"1KiB\";",
     {"SETRANGE text 2000 x", "EVAL %s 0"},
     "such as 2001 bytes,",
     "left an entry larger than max_payload",
     "DEL large_in_progress:backup"},
    {"large_delayed",
     "roles = [\"dispatcher\"]; max_payload = \"1KiB\";",
     {"SETRANGE text 2000 x", "EVAL %s 0"},
     "such as score 7, 2001 bytes,",
     "left entries larger than max_payload",
     "DEL large_delayed:delayed"},
    {"endless_heartbeats",
     "roles = [\"monitor\"]; protected_timeout = \"100ms\"; id_path = \"/id\"; heartbeat = \"beat:*\";",
     {"LPUSH endless_heartbeats:backup {\"id\":7}", "SET beat:7 worker"},
     "without a TTL, such as \"beat:7\"",
     "a heartbeat without a TTL keeps a job in progress",
     "EXPIRE beat:7 100"},
    {"undated_jobs",
     "roles = [\"monitor\"]; alive_timeout = \"1h\"; id_path = \"/id\"; created_path = \"/at\";",
     {"LPUSH undated_jobs:backup {\"id\":\"u1\",\"at\":\"noon\"}"},
     "1 job has no time at created_path, such as job u1",
     "created_path yields no time",
     NULL},
    {"early_jobs",
     "roles = [\"dispatcher\"];",
     {"ZADD early_jobs:delayed 300000 job"},
     "such as score 300000 in early_jobs:delayed",
     "a delayed score is no time",
     NULL},
    {"endless_retries",
     MONITORED "retry_times = 0; id_path = \"/id\";",
     {"LPUSH endless_retries:backup {\"id\":9} {\"id\":9}"},
     "because of an equal job, such as job 9",
     "equal jobs are retried beyond retry_times",
     NULL},
    {"orphan_reports",
     MONITORED,
     {"LPUSH orphan_reports:backup job", "HSET orphan_reports:errors nobody it-broke"},
     "such as of a job of sha256 6382b3cc",
     "\"bytes\":8,\"text\":\"it-broke\"",
     NULL},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static void begin(size_t i) {
    const char *const *commands = CASES[i].begin;
    if (i < 2) { /* a text of 2001 bytes goes where the queue has its jobs */
        redis_ok(s.r, commands[0]);
        redis_ok(s.r, commands[1],
                 i == 0 ? "redis.call('LPUSH', 'large_in_progress:backup', redis.call('GET', 'text')) return 'OK'"
                        : "redis.call('ZADD', 'large_delayed:delayed', 7, redis.call('GET', 'text')) return 'OK'");
        return;
    }
    for (size_t n = 0; n < 2 && commands[n]; n++) redis_ok(s.r, commands[n]);
}

/* All by one sidecar, so that no finding hides another one. */
Test(daemon_status_anomalies, each_is_named_logged_and_ends, .timeout = 300) {
    scoped(buffer_free) buffer_t queues = {0};
    for (size_t i = 0; i < CASE_COUNT; i++)
        buffer_printf(&queues, "%s{ name = \"%s\"; %s }", i ? ", " : "", CASES[i].code, CASES[i].queue);
    const sidecar_t spec = {.ttl = "1s", .queues = queues.data};
    daemon_t *d = cluster_sidecar_up(&s, spec);
    char *config = cluster_config_file(&s, spec);
    cr_assert_eq(daemon_run("status", "-c", config)->code, 0);
    setenv("COLUMNS", "1000", 1); /* one line for each text */
    for (size_t i = 0; i < CASE_COUNT; i++) begin(i);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        cr_assert(wait_for(finds(config, CASES[i].code), 20000), "%s is not found", CASES[i].code);
        const daemon_output_t *run = daemon_run("status", "-c", config);
        cr_assert(run->code == 1 && has(run->out, CASES[i].shown), "%s: %s", CASES[i].code, run->out);
        cr_assert(daemon_wait_log(d, CASES[i].logged, 5000), "%s: no log line", CASES[i].code);
        if (CASES[i].end) redis_ok(s.r, CASES[i].end);
        if (CASES[i].end) cr_assert(wait_for(!finds(config, CASES[i].code), 20000), "%s does not end", CASES[i].code);
    }
}
