/* The configuration changes while the sidecar runs: some changes take effect, some are refused, and no lock, stamp or job is
 * lost. */
#include "audit_log.h"
#include "cluster.h"
#include "tempdir.h"

#include <signal.h>
#include <sys/stat.h>

static const char IN_EFFECT[] = "new configuration in effect";
static const char REFUSED[] = "new configuration refused";
static const char CHANGES[] = "\"msg\":\"new configuration\"";
#define LAG "\"audit_lag_ms\":"
static const char DIGEST[] = "return redis.sha1hex(redis.call('DUMP', KEYS[1]))";

/* Waits until the log has more than `before` lines with this text. */
static void await_line(daemon_t *d, const char *line, int before) {
    cr_assert(wait_for(daemon_log_count(d, line) > before, 10000), "no line %s: %s", line, daemon_log(d));
}

/* Writes a config, sends SIGHUP, and waits for the line `answer`. */
static void reload(cluster_t *cluster, daemon_t *d, sidecar_t spec, const char *answer) {
    int before = daemon_log_count(d, answer);
    cluster_reconfigure(cluster, d, spec);
    await_line(d, answer, before);
}

static void expect_job(redis_t *r, const char *queue, const char *job) {
    char *taken = cluster_take(r, queue, 10000);
    cr_assert(taken && strcmp(taken, job) == 0, "%s came, not %s", taken ? taken : "nothing", job);
}

static cluster_t cluster;
SUITE(daemon_reload, cluster = cluster_begin(NULL), cluster_end(&cluster));

Test(daemon_reload, changed_timeout_keeps_lock_and_stamps) {
    daemon_t *d = cluster_sidecar_up(
        &cluster, (sidecar_t){.ttl = "20s",
                              .scan = "50ms",
                              .queues = "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; protected_timeout = \"1h\"; }"});
    redis_ok(cluster.r, "LPUSH q:backup job");
    cr_assert(wait_for(redis_int(cluster.r, "HLEN sidecar:q:stamps") == 1, 10000));
    char *token = redis_str(cluster.r, "GET sidecar:g:lock");
    char *stamps = redis_str(cluster.r, "EVAL %s 1 sidecar:q:stamps", DIGEST);
    reload(&cluster, d,
           (sidecar_t){.ttl = "20s",
                       .scan = "50ms",
                       .queues = "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; protected_timeout = \"2h\"; }"},
           IN_EFFECT);
    cluster_works(&cluster, "q");
    redis_expect(cluster.r, stamps, "EVAL %s 1 sidecar:q:stamps", DIGEST);
    reload(&cluster, d,
           (sidecar_t){.ttl = "20s",
                       .scan = "50ms",
                       .queues = "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; protected_timeout = \"50ms\"; }"},
           IN_EFFECT);
    expect_job(cluster.r, "q", "job");
    cr_assert(cluster_says(d, CHANGES, "q: protected_timeout \\\"2h\\\" -> \\\"50ms\\\""), "%s", daemon_log(d));
    redis_expect(cluster.r, token, "GET sidecar:g:lock"); /* no other instance has held the lock */
    cr_assert_eq(daemon_log_count(d, "released the lock"), 0);
    cr_assert(wait_for(daemon_log_count(d, "still leading") == 2, 10000)); /* logged after the other roles got the lease */
}

Test(daemon_reload, queues_are_added_and_removed) {
    daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "20s", .queues = "{ name = \"q\"; }"});
    daemon_t *other = cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "20s", .queues = "{ name = \"q\"; }, { name = \"sms\"; }"});
    await_line(other, "leader does not serve some queues of this instance", 0);
    reload(&cluster, d, (sidecar_t){.ttl = "20s", .queues = "{ name = \"q\"; }, { name = \"sms\"; }"}, IN_EFFECT);
    cluster_works(&cluster, "sms");
    cluster_works(&cluster, "q");
    cr_assert(cluster_says(d, CHANGES, "queue sms added"));
    cr_assert_eq(redis_int(cluster.r, "HEXISTS sidecar:g:queues sms"), 1);
    reload(&cluster, d, (sidecar_t){.ttl = "20s", .queues = "{ name = \"sms\"; }"}, IN_EFFECT);
    cluster_works(&cluster, "sms");
    cr_assert(cluster_says(d, CHANGES, "queue q removed"));
    cr_assert_eq(redis_int(cluster.r, "HEXISTS sidecar:g:queues q"), 0, "a standby would believe that the leader serves q");
}

Test(daemon_reload, removed_queue_releases_its_own_lock) {
    sidecar_t both = {.scope = "queue", .ttl = "10m", .queues = "{ name = \"q\"; }, { name = \"sms\"; }"};
    daemon_t *d = cluster_sidecar_up(&cluster, both);
    cr_assert(wait_for(redis_int(cluster.r, "EXISTS sidecar:q:lock sidecar:sms:lock") == 2, 10000));
    char *token = redis_str(cluster.r, "GET sidecar:sms:lock");
    reload(&cluster, d, (sidecar_t){.scope = "queue", .ttl = "10m", .queues = "{ name = \"new\"; }, { name = \"sms\"; }"},
           IN_EFFECT);
    cluster_works(&cluster, "new");
    cluster_works(&cluster, "sms");
    cr_assert_eq(redis_int(cluster.r, "EXISTS sidecar:q:lock"), 0);
    redis_expect(cluster.r, token, "GET sidecar:sms:lock");
}

Test(daemon_reload, bad_file_changes_nothing_and_is_logged) {
    daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }"});
    reload(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; retry_times = -1; colour = \"red\"; }"}, REFUSED);
    await_line(d, "colour", 0);
    cr_assert(cluster_says(d, REFUSED, "retry_times"), "%s", daemon_log(d));
    cluster_works(&cluster, "q");
    daemon_write_config(d, "queues = (");
    daemon_signal(d, SIGHUP);
    await_line(d, "syntax error", 0);
    cluster_works(&cluster, "q");
    daemon_signal(d, SIGUSR1);
    await_line(d, "\"config_bad\":1", 0);
    cr_assert_eq(unlink(daemon_config_path(d)), 0);
    daemon_signal(d, SIGHUP);
    await_line(d, "No such file", 0);
    reload(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; }"}, "configuration unchanged");
    daemon_signal(d, SIGUSR1);
    await_line(d, "\"config_bad\":0", 0);
    cr_assert_eq(daemon_log_count(d, IN_EFFECT), 0);
}

/* Nobody writes to the FIFO: a sidecar that opens it as a file waits for ever, and takes no signal. */
Test(daemon_reload, a_fifo_is_refused_and_signals_are_still_obeyed) {
    daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }"});
    cr_assert_eq(unlink(daemon_config_path(d)), 0);
    cr_assert_eq(mkfifo(daemon_config_path(d), 0600), 0);
    daemon_signal(d, SIGHUP);
    await_line(d, REFUSED, 0);
    cr_assert(cluster_says(d, REFUSED, "not a regular file"), "%s", daemon_log(d));
    cluster_works(&cluster, "q");
    cr_assert_eq(daemon_terminate(d, 10000).code, 0);
}

Test(daemon_reload, reload_refuses_a_file_that_changes_a_frozen_key) {
    daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }"});
    reload(&cluster, d,
           (sidecar_t){.group = "other",
                       .ttl = "7s",
                       .redis = "password = \"secret\";",
                       .queues = "{ name = \"q\"; ready = \"elsewhere\"; retry_times = 9; }, { name = \"sms\"; }"},
           REFUSED);
    cr_assert(cluster_says(d, REFUSED, "group, redis.password, lock.ttl, q: ready"), "%s", daemon_log(d));
    cr_assert_eq(daemon_log_count(d, "secret"), 0);
    cr_assert_eq(redis_int(cluster.r, "EXISTS sidecar:sms:meta"), 0);
    cluster_works(&cluster, "q");
}

/* A directory as the kubelet mounts a ConfigMap: the file is a link through `..data`, which is a link to the directory of a
 * version (kubernetes, pkg/volume/util/atomic_writer.go). */
static void write_version(const char *mount, const char *version, const char *text) {
    char *directory = temp_path(mount, version);
    char *path = temp_path(directory, "queue-sidecar.cfg");
    char *fresh = temp_path(mount, "..data_tmp");
    char *data = temp_path(mount, "..data");
    cr_assert_eq(mkdir(directory, 0755), 0);
    temp_write(path, text);
    cr_assert_eq(symlink(version, fresh), 0);
    cr_assert_eq(rename(fresh, data), 0);
}

static char *config_with(const char *retries, const char *poll) {
    char *queues = kept_printf("{ name = \"q\"; retry_times = %s; }", retries);
    char *more = kept_printf("reload = { poll = \"%s\"; };\n", poll);
    return cluster_config(&cluster, (sidecar_t){.queues = queues, .more = more});
}

Test(daemon_reload, swapped_configmap_is_reloaded) {
    char *mount = temp_path(temp_root(), "mount");
    char *path = temp_path(mount, "queue-sidecar.cfg");
    cr_assert_eq(mkdir(mount, 0755), 0);
    write_version(mount, "..v1", config_with("1", "off"));
    cr_assert_eq(symlink("..data/queue-sidecar.cfg", path), 0);
    const char *args[] = {"-c", path, NULL};
    daemon_t *d = daemon_start_with(&(daemon_options_t){.args = args}, "%s", config_with("1", "off"));
    cluster.sidecars[cluster.count++] = d;
    await_line(d, "\"leading\"", 0);
    write_version(mount, "..v2", config_with("2", "off"));
    await_line(d, IN_EFFECT, 0);
    cr_assert(cluster_says(d, CHANGES, "q: retry_times 1 -> 2"), "%s", daemon_log(d));
    write_version(mount, "..v3", config_with("-3", "off"));
    await_line(d, REFUSED, 0);
    write_version(mount, "..v4", config_with("4", "off"));
    await_line(d, "q: retry_times 2 -> 4", 0);
    cluster_works(&cluster, "q");
}

Test(daemon_reload, changed_file_is_found_by_polling) {
    daemon_t *d = daemon_start("%s", config_with("1", "50ms"));
    cluster.sidecars[cluster.count++] = d;
    await_line(d, "\"leading\"", 0);
    daemon_write_config(d, "%s", config_with("-1", "50ms"));
    await_line(d, REFUSED, 0);
    cr_assert(cluster_stays(daemon_log_count(d, REFUSED) == 1, 300), "the same error is logged again");
    daemon_write_config(d, "%s", config_with("2", "50ms"));
    await_line(d, "q: retry_times 1 -> 2", 0);
    await_line(d, IN_EFFECT, 0);
    cr_assert(cluster_stays(daemon_log_count(d, CHANGES) <= 2, 300), "an unchanged file was reloaded");
    cluster_works(&cluster, "q");
}

Test(daemon_reload, new_poll_interval_takes_effect_at_once) {
    daemon_t *d = daemon_start("%s", config_with("1", "off"));
    cluster.sidecars[cluster.count++] = d;
    await_line(d, "\"leading\"", 0);
    daemon_write_config(d, "%s", config_with("1", "50ms"));
    daemon_signal(d, SIGHUP);
    await_line(d, IN_EFFECT, 0);
    daemon_write_config(d, "%s", config_with("2", "50ms"));
    cr_assert(wait_for(daemon_log_count(d, "q: retry_times 1 -> 2") == 1, 10000), "the file is not polled: %s", daemon_log(d));
}

#define EVENTS "{ name = \"events\"; dialect = \"delayed_queue\"; types = [\"A\"]; roles = [\"dispatcher\", \"monitor\"]; }"

/* The queue's index in the file changes, its row of metrics must not. */
Test(daemon_reload, metrics_stay_with_their_queue_when_others_are_removed) {
    daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.queues = "{ name = \"q\"; }, " EVENTS});
    reload(&cluster, d, (sidecar_t){.queues = EVENTS}, IN_EFFECT);
    redis_ok(cluster.r, "HSET de_events A###1 odd");
    redis_ok(cluster.r, "ZADD de_delayed_events 1 A###1");
    await_line(d, "a job has failed for good", 0);
    daemon_signal(d, SIGUSR1);
    await_line(d, "\"queues\":1", 0);
    cr_assert(cluster_says(d, "\"queue\":\"events\",\"promoted\":0", "\"ended\":1,"), "%s", daemon_log(d));
}

Test(daemon_reload, sigterm_during_a_reload_releases_the_lock) {
    for (int i = 0; i < 10; i++) {
        daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "10m", .queues = "{ name = \"q\"; }"});
        cluster_reconfigure(
            &cluster, d,
            (sidecar_t){.ttl = "10m", .queues = i % 2 ? "{ name = \"q\"; retry_times = 7; }" : "{ name = \"sms\"; }"});
        if (i % 3) await_line(d, i % 3 == 1 ? CHANGES : "still leading", 0);
        cr_assert_eq(daemon_terminate(d, 5000).code, 0);
        cr_assert_eq(redis_int(cluster.r, "EXISTS sidecar:g:lock"), 0, "round %d: %s", i, daemon_log(d));
        daemon_free(d);
        cluster.count--;
    }
}

enum { RELOADS = 200, BATCH = 25 };

/* Every job comes once, and the same instance leads all the time, with good files and bad files. */
Test(daemon_reload, two_hundred_reloads_lose_no_job) {
    daemon_t *d = cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "30s", .queues = "{ name = \"q\"; }"});
    daemon_t *standby = cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "30s", .queues = "{ name = \"q\"; }"});
    char *token = redis_str(cluster.r, "GET sidecar:g:lock");
    char queues[200];
    int jobs = 0;
    for (int i = 0; i < RELOADS; i++) {
        bool good = i % 3 != 1;
        snprintf(queues, sizeof queues, "{ name = \"q\"; retry_times = %d; }%s", good ? i : -1 - i,
                 i % 5 ? "" : ", { name = \"extra\"; }");
        for (int k = 0; k < BATCH; k++, jobs++)
            redis_ok(cluster.r, "ZADD q:delayed %lld job-%d", redis_ms(cluster.r) + k % 7, jobs);
        reload(&cluster, d, (sidecar_t){.ttl = "30s", .queues = queues}, good ? IN_EFFECT : REFUSED);
    }
    cr_assert(wait_for(redis_int(cluster.r, "LLEN q") == jobs, 10000), "%lld of %d", redis_int(cluster.r, "LLEN q"), jobs);
    char *seen = kept(calloc((size_t)jobs, 1));
    for (int i = 0; i < jobs; i++) {
        char *job = redis_str(cluster.r, "RPOP q");
        int number = atoi(job + strlen("job-"));
        cr_assert(number >= 0 && number < jobs && !seen[number], "%s came twice", job);
        seen[number] = 1;
    }
    redis_expect(cluster.r, token, "GET sidecar:g:lock");
    cr_assert_eq(daemon_log_count(standby, "\"leading\""), 0);
    cr_assert(daemon_is_sanitized(d) || daemon_rss_kib(d) < 64 * 1024, "%ld KiB", daemon_rss_kib(d));
}

/* Without the warning nobody would know that records of the queue stay in Redis. Once the log has all records, a removal must
 * not warn. */
Test(daemon_reload, removing_a_queue_with_uncopied_records_warns) {
    static const char WARNING[] = "removed a queue with uncopied records";
    const sidecar_t all = {.queues = "{ name = \"q\"; }, { name = \"sms\"; }, { name = \"fax\"; }"};
    char *config = cluster_config(&cluster, all), *dir = temp_path(temp_root(), "late"), *log = temp_path(dir, "audit.db");
    char *place = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", log);
    daemon_t *d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){place, NULL}}, "%s", config);
    cr_assert(daemon_wait_log(d, "cannot write audit log", 10000), "%s", daemon_log(d));
    cr_assert(daemon_wait_log(d, "\"msg\":\"leading\"", 10000), "%s", daemon_log(d));
    audit_log_feed(cluster.r, "sms", 0, 1, NULL);
    cr_assert(wait_for((daemon_signal(d, SIGUSR1), daemon_log_count(d, LAG) > daemon_log_count(d, LAG "0,")), 10000));
    reload(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"fax\"; }"}, IN_EFFECT);
    cr_assert_eq(daemon_log_count(d, WARNING), 1);
    cr_assert(cluster_says(d, WARNING, "\"queue\":\"sms\""));
    cr_assert(cluster_says(d, WARNING, "sidecar:sms:failures"));
    reload(&cluster, d, all, IN_EFFECT);
    cr_assert_eq(mkdir(dir, 0700), 0);
    cr_assert(wait_for(audit_log_rows(log) == 1 && redis_int(cluster.r, "HLEN sidecar:sms:auditors") == 1, 30000));
    cr_assert(wait_for(server_info_int(cluster.server, "clients", "blocked_clients") == 1, 10000),
              "the auditor does not wait in XREAD");
    reload(&cluster, d, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"sms\"; }"}, IN_EFFECT);
    cr_assert_eq(daemon_log_count(d, WARNING), 1, "%s", daemon_log(d));
    daemon_stop(d);
}
