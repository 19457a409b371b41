/* The audit logs of real sidecars are equal and complete, however often one is killed. */
#include "audit_log.h"
#include "cluster.h"
#include "queue/stream.h"
#include "tempdir.h"

#include <criterion/parameterized.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

enum { ENTRIES = 20000, FEED = 250, COPY_MS = 60000 };

#define CONNECTED "\"msg\":\"connected\""

static bool copied(daemon_t *d, int rows) {
    bool yes = wait_for(audit_log_rows(daemon_audit_path(d)) == rows, COPY_MS);
    if (!yes) fprintf(stderr, "%s: %lld rows\n", daemon_audit_path(d), audit_log_rows(daemon_audit_path(d)));
    return yes;
}

static cluster_t s;
SUITE(daemon_auditor, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_auditor, every_instance_holds_the_same_log, .timeout = 120) {
    sidecar_t spec = {.queues = "{ name = \"q\"; }, { name = \"r\"; }"};
    audit_log_feed(s.r, "q", 0, 3000, NULL);
    daemon_t *one = cluster_sidecar_up(&s, spec), *two = cluster_sidecar_up(&s, spec);
    audit_log_feed(s.r, "r", 0, 2000, NULL);
    audit_log_feed(s.r, "q", 3000, 500, NULL);
    if (!copied(one, 5500) || !copied(two, 5500)) cluster_fail(&s, "a log is not whole");
    char *first = audit_log_text(daemon_audit_path(one)), *second = audit_log_text(daemon_audit_path(two));
    cr_assert_str_eq(first, second);
    cr_assert_eq(cluster_connections(s.r, "-auditor"), 2);
    cr_assert(wait_for(redis_int(s.r, "HLEN sidecar:r:auditors") == 2, 5000));
}

/* The number of audit logs that count as copies of q's records. */
static long long copies(void) { return redis_int(s.r, "HLEN sidecar:q:auditors"); }

/* A pod's log goes with the pod: a silent entry would be a note in `status` for a day, and count as a copy. */
Test(daemon_auditor, an_ephemeral_log_takes_its_acknowledgements_along, .timeout = 120) {
    const sidecar_t kept_log = {.queues = "{ name = \"q\"; }"};
    sidecar_t ephemeral = kept_log;
    ephemeral.more = "audit = { ephemeral = true; };";
    daemon_t *one = cluster_sidecar_up(&s, kept_log), *two = cluster_sidecar_up(&s, ephemeral);
    audit_log_feed(s.r, "q", 0, 100, NULL);
    cr_assert(copied(one, 100) && copied(two, 100));
    cr_assert(wait_for(copies() == 2, 10000));
    ephemeral.poll = "2h"; /* the roles start anew */
    cluster_reconfigure(&s, two, ephemeral);
    if (!wait_for(daemon_log_count(two, "new configuration in effect") > 0, 10000)) cluster_fail(&s, "no reload");
    cr_assert_eq(copies(), 2, "a reload must keep the acknowledgements");
    audit_log_feed(s.r, "q", 100, 1, NULL);
    cr_assert(copied(two, 101), "the auditor is connected again");
    cr_assert_eq(daemon_terminate(two, 10000).code, 0);
    cr_assert_eq(copies(), 1);
    cr_assert_eq(daemon_terminate(one, 10000).code, 0);
    cr_assert_eq(copies(), 1, "a log that stays must keep its acknowledgements");
    daemon_restart(two);
    cr_assert(wait_for(copies() == 2, 10000), "a restart acknowledges again");
}

Test(daemon_auditor, kill_9_loses_and_duplicates_no_row, .timeout = 180) {
    uint64_t random = cluster_seed("kills");
    int kills = 0, connected[2] = {0}; /* log lines before the start */
    for (int i = 0; i < 2; i++) cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"r\"; }"});
    for (int fed = 0; fed < ENTRIES / 2; fed += FEED) {
        audit_log_feed(s.r, "q", fed, FEED, NULL);
        audit_log_feed(s.r, "r", fed, FEED, NULL);
        size_t i = cluster_random(&random, 2);
        daemon_t *d = s.sidecars[i];
        if (cluster_random(&random, 3) == 0 || fed / FEED % 6 == 5) { /* while it is copying */
            long long rows = audit_log_rows(daemon_audit_path(d)) + (long long)cluster_random(&random, 400);
            wait_for(audit_log_rows(daemon_audit_path(d)) >= rows, 50);
            daemon_kill(d);
            connected[i] = daemon_log_count(d, CONNECTED);
            daemon_restart(d);
            kills++;
        }
    }
    cr_assert_gt(kills, 5);
    for (int i = 0; i < 2; i++) {
        if (!copied(s.sidecars[i], ENTRIES)) cluster_fail(&s, "a log is not whole");
        audit_log_expect(daemon_audit_path(s.sidecars[i]), "q", 0, ENTRIES / 2);
        audit_log_expect(daemon_audit_path(s.sidecars[i]), "r", 0, ENTRIES / 2);
        cr_assert_eq(audit_log_int(daemon_audit_path(s.sidecars[i]), "SELECT count(*) FROM events WHERE kind = 'gap'"), 0);
    }
    for (size_t i = 0; i < 2; i++) /* a signal may still kill a sidecar that has just started */
        cr_assert(wait_for(daemon_log_count(s.sidecars[i], CONNECTED) > connected[i], 10000));
}

static struct point {
    char name[40];
    int rows; /* on disk when the process died */
} points[] = {{"audit_before_commit", 0}, {"audit_committed", 1}, {"audit_before_acknowledge", 1}, {"audit_acknowledged", 1}};

ParameterizedTestParameters(daemon_auditor, crash_points) {
    return cr_make_param_array(struct point, points, sizeof points / sizeof *points);
}

/* Whether the only acknowledgement in Redis is the position in the log. */
static bool acknowledged_up_to_last(redis_t *r, const char *path) {
    char *acknowledged = redis_str(r, "EVAL %s 1 sidecar:q:auditors", "return redis.call('HVALS', KEYS[1])[1]"),
         *kept = audit_log_word(path, "SELECT position || ' ' FROM positions WHERE queue = 'q'");
    return strncmp(acknowledged, kept, strlen(kept)) == 0;
}

/* After a kill at each failpoint, rows on disk stay, other rows are copied again, and only rows on disk were acknowledged. */
ParameterizedTest(struct point *point, daemon_auditor, crash_points) {
    char *crash_env = kept_printf("QS_CRASH_AT=%s", point->name);
    audit_log_feed(s.r, "q", 0, 10, NULL);
    char *config = cluster_config(&s, (sidecar_t){0});
    char *path = temp_path(temp_root(), "shared.db");
    char *path_env = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", path);
    daemon_t *d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){crash_env, path_env, NULL}}, "%s", config);
    cr_assert_eq(daemon_wait_exit(d, 10000).code, 137);
    cr_assert_eq(audit_log_rows(path), point->rows);
    bool acknowledged = strcmp(point->name, "audit_acknowledged") == 0;
    cr_assert_eq(redis_int(s.r, "HLEN sidecar:q:auditors"), acknowledged);
    if (acknowledged) cr_assert(acknowledged_up_to_last(s.r, path), "the acknowledged position is not the position on disk");
    daemon_free(d);
    d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){path_env, NULL}}, "%s", config);
    cr_assert(wait_for(audit_log_rows(path) == 10 && redis_int(s.r, "HLEN sidecar:q:auditors") == 1, 10000));
    audit_log_feed(s.r, "q", 10, 5, NULL);
    cr_assert(wait_for(audit_log_rows(path) == 15, 10000));
    audit_log_expect(path, "q", 0, 15);
    daemon_stop(d);
}

static struct point lost[] = {{"audit_set_aside_before", 0}, {"audit_set_aside_database", 0}, {"audit_set_aside_moved", 0},
                              {"audit_migrated", 0},         {"audit_loss_forgotten", 0},     {"audit_loss_before_commit", 0},
                              {"audit_loss_noted", 0},       {"audit_before_commit", 0},      {"audit_committed", 0},
                              {"audit_committed:2", 0}};

ParameterizedTestParameters(daemon_auditor, killed_while_a_damaged_log_is_replaced) {
    return cr_make_param_array(struct point, lost, sizeof lost / sizeof *lost);
}

/* A damaged log, and a kill while it is replaced: in the end the log has the whole stream once, one gap row, and only the new log
 * counts as a copy. */
ParameterizedTest(struct point *point, daemon_auditor, killed_while_a_damaged_log_is_replaced, .timeout = 60) {
    enum { ROWS = 400 };
    char *config = cluster_config(&s, (sidecar_t){0}), *path = temp_path(temp_root(), "damaged.db");
    char *path_env = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", path);
    char *crash_env = kept_printf("QS_CRASH_AT=%s", point->name);
    audit_log_feed(s.r, "q", 0, ROWS, NULL);
    const daemon_options_t plain = {.env = (const char *const[]){path_env, NULL}};
    daemon_t *d = daemon_start_with(&plain, "%s", config);
    cr_assert(wait_for(audit_log_rows(path) == ROWS && redis_int(s.r, "HLEN sidecar:q:auditors") == 1, 10000));
    daemon_stop(d);
    struct stat at;
    char page[4096];
    memset(page, 0xa5, sizeof page);
    int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && fstat(fd, &at) == 0 && pwrite(fd, page, sizeof page, at.st_size / 4096 / 2 * 4096) == 4096);
    close(fd);
    d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){crash_env, path_env, NULL}}, "%s", config);
    cr_assert_eq(daemon_wait_exit(d, 10000).code, 137, "it did not come to %s", point->name);
    daemon_free(d);
    d = daemon_start_with(&plain, "%s", config);
    audit_log_feed(s.r, "q", ROWS, 1, NULL);
    cr_assert(wait_for(audit_log_rows(path) == ROWS + 1, 20000), "%lld rows", audit_log_rows(path));
    audit_log_expect(path, "q", 0, ROWS + 1);
    cr_assert_eq(audit_log_int(path, "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'log_damaged'"), 1);
    cr_assert_eq(audit_log_int(path, "SELECT count(*) FROM events WHERE kind = 'gap'"), 1);
    cr_assert(wait_for(redis_int(s.r, "HLEN sidecar:q:auditors") == 1, 5000));
    char *instance = audit_log_word(path, "SELECT value FROM facts WHERE name = 'instance'");
    cr_assert_eq(redis_int(s.r, "HEXISTS sidecar:q:auditors %s", instance), 1);
    daemon_stop(d);
}

enum { OLD = 2500, POKES = 20 };

static struct point trims[] = {{"trim_before", 0},
                               {"trim_answered", STREAM_TRIM_FIRST},
                               {"trim_before:2", STREAM_TRIM_FIRST},
                               {"trim_answered:2", STREAM_TRIM_FIRST + STREAM_TRIM_MAX},
                               {"trim_answered:11", OLD}};

ParameterizedTestParameters(daemon_auditor, killed_while_the_stream_is_trimmed) {
    return cr_make_param_array(struct point, trims, sizeof trims / sizeof *trims);
}

/* Adds records until `cond` is true. Each record wakes the auditor, which may lead by then. */
#define poke_until(s, fed, cond)                                                                                                 \
    for (int poke_ = 0; poke_ < POKES && !(cond); poke_++) {                                                                     \
        audit_log_feed((s)->r, "q", (fed)++, 1, NULL);                                                                           \
        wait_for(cond, 1000);                                                                                                    \
    }

/* A kill before or after a trim: trimmed records are on disk, and the next leader trims exactly the rest and counts the
 * bytes right.
 * `rows` were removed before the kill, at most. */
ParameterizedTest(struct point *point, daemon_auditor, killed_while_the_stream_is_trimmed, .timeout = 120) {
    static const char counted[] =
        "local bytes = 0 for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "for i = 2, #entry[2], 2 do bytes = bytes + #entry[2][i] end end return bytes - redis.call('HGET', KEYS[2], 'bytes')";
    char *keeps = cluster_config(&s, (sidecar_t){0}),
         *trims_all = cluster_config(&s, (sidecar_t){.redis = "slice = \"100ms\";", /* so each trim takes the most */
                                                     .more = "stream = { retain = \"1m\"; min_records = 0; };"}),
         *path = temp_path(temp_root(), "trimmed.db");
    int fed = OLD;
    char *path_env = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", path);
    char *crash_env = kept_printf("QS_CRASH_AT=%s", point->name);
    const daemon_options_t plain = {.env = (const char *const[]){path_env, NULL}};
    audit_log_feed(s.r, "q", 0, OLD, "1");
    daemon_t *d = daemon_start_with(&plain, "%s", keeps);
    cr_assert(wait_for(audit_log_rows(path) == OLD && redis_int(s.r, "HLEN sidecar:q:auditors") == 1, 20000));
    daemon_stop(d);
    d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){crash_env, path_env, NULL}}, "%s", trims_all);
    poke_until(&s, fed, !daemon_running(d));
    cr_assert_eq(daemon_wait_exit(d, 10000).code, 137, "it did not come to %s", point->name);
    daemon_free(d);
    /* The first trim has a fixed size. A later one is smaller if the one before took Redis long. */
    int removed = fed - (int)redis_int(s.r, "XLEN sidecar:q:failures");
    cr_assert(removed <= point->rows && removed >= (point->rows ? STREAM_TRIM_FIRST : 0), "%d of %d", removed, point->rows);
    audit_log_expect(path, "q", 0, OLD);
    d = daemon_start_with(&plain, "%s", trims_all);
    poke_until(&s, fed, redis_int(s.r, "XLEN sidecar:q:failures") == fed - OLD);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), fed - OLD, "young records must stay, old records must go");
    redis_expect(s.r, "1-2499", "HGET sidecar:q:meta trimmed");
    cr_assert_eq(redis_int(s.r, "EVAL %s 2 sidecar:q:failures sidecar:q:meta", counted), 0,
                 "the meta key has a wrong number of bytes");
    cr_assert(wait_for(audit_log_rows(path) == fed, 10000), "%lld rows", audit_log_rows(path));
    audit_log_expect(path, "q", 0, fed);
    cr_assert_eq(audit_log_int(path, "SELECT count(*) FROM events WHERE kind = 'gap'"), 0);
    daemon_stop(d);
}
