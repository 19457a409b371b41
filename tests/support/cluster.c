#include "cluster.h"
#include "kept.h"

#include "tempdir.h"
#include "tls_harness.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUND_MS = 15000, UP_MS = 10000, DEATH_MS = 20000, SOON_MS = 100, LATE_MS = 3000, TRIES = 8 };

cluster_t cluster_begin(const server_options_t *options) {
    cluster_t cluster = {.server = server_start(options)};
    cluster.r = redis_open(cluster.server);
    return cluster;
}

void cluster_end(cluster_t *cluster) {
    for (size_t i = 0; i < cluster->count; i++) {
        if (daemon_running(cluster->sidecars[i])) {
            daemon_continue(cluster->sidecars[i]);
            daemon_stop(cluster->sidecars[i]);
        } else {
            daemon_free(cluster->sidecars[i]);
        }
    }
    redis_close(cluster->r);
    server_free(cluster->server);
    *cluster = (cluster_t){0};
}

void cluster_reopen(cluster_t *cluster) {
    redis_close(cluster->r);
    cluster->r = redis_open(cluster->server);
}

static const char *either(const char *given, const char *fallback) { return given ? given : fallback; }

char *cluster_queues(const char *first, const char *prefix, int count) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "%s", first);
    for (int i = 0; i < count; i++) fprintf(out, "%s{ name = \"%s%d\"; }", *first || i ? ", " : "", prefix, i);
    fclose(out);
    return kept(text);
}

char *cluster_config(const cluster_t *cluster, sidecar_t spec) {
    char *text = NULL;
    int length = asprintf(&text,
                          "group = \"%s\";\n"
                          "redis = { socket = \"%s\"; %s };\n"
                          "lock = { ttl = \"%s\"; scope = \"%s\"; %s};\n"
                          "dispatcher = { safety_poll = \"%s\"; %s };\n"
                          "monitor = { scan_interval = \"%s\"; %s };\n"
                          "http = { port = %d; %s };\n"
                          "log = { level = \"%s\"; format = \"json\"; };\n"
                          "%s"
                          "queues = ( %s );\n%s",
                          either(spec.group, "g"), either(spec.socket, server_socket(cluster->server)), either(spec.redis, ""),
                          either(spec.ttl, "600ms"), either(spec.scope, "group"), spec.never_leads ? "lead = false; " : "",
                          either(spec.poll, "1h"), either(spec.dispatcher, ""), either(spec.scan, "auto"),
                          either(spec.monitor, ""), spec.port, either(spec.http, ""), either(spec.level, "info"),
                          spec.all_roles ? "" : "defaults = { roles = [\"dispatcher\"]; };\n",
                          either(spec.queues, "{ name = \"q\"; }"), either(spec.more, ""));
    if (length < 0) abort();
    return kept(text);
}

char *cluster_config_file(const cluster_t *cluster, sidecar_t spec) {
    char *plain = cluster_config(cluster, spec), *dir = temp_dir("cluster"), *path = temp_path(dir, "sidecar.cfg");
    char *text = tls_harness_config(plain);
    temp_write(path, text);
    return path;
}

void cluster_reconfigure(const cluster_t *cluster, daemon_t *d, sidecar_t spec) {
    char *text = cluster_config(cluster, spec);
    daemon_write_config(d, "%s", text);
    daemon_signal(d, SIGHUP);
}

daemon_t *cluster_sidecar(cluster_t *cluster, sidecar_t spec) {
    cr_assert_lt(cluster->count, CLUSTER_SIDECARS);
    char *config = cluster_config(cluster, spec);
    daemon_t *d = daemon_start("%s", config);
    return cluster->sidecars[cluster->count++] = d;
}

daemon_t *cluster_sidecar_up(cluster_t *cluster, sidecar_t spec) {
    daemon_t *d = cluster_sidecar(cluster, spec);
    bool up = wait_for(daemon_log_count(d, "\"msg\":\"leading\"") || daemon_log_count(d, "\"msg\":\"standing by\""), UP_MS);
    if (!up) cluster_fail(cluster, "a sidecar neither leads nor stands by");
    return d;
}

int cluster_crash(const cluster_t *cluster, sidecar_t spec, const char *point) {
    char *config = cluster_config(cluster, spec);
    char *variable = kept_printf("QS_CRASH_AT=%s", point);
    daemon_t *d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){variable, NULL}}, "%s", config);
    int code = daemon_wait_exit(d, DEATH_MS).code;
    daemon_free(d);
    return code;
}

const daemon_output_t *cluster_status(const daemon_t *d, const char *config) {
    char *audit = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d));
    const daemon_options_t options = {.env = (const char *const[]){audit, NULL}};
    const daemon_output_t *output = daemon_run_argv(&options, (const char *const[]){"status", "-c", config, "-o", "json", NULL});
    return output;
}

void cluster_fail(const cluster_t *cluster, const char *why) {
    for (size_t i = 0; i < cluster->count; i++) {
        char *log = daemon_log(cluster->sidecars[i]);
        fprintf(stderr, "--- sidecar %zu, pid %d:\n%s", i, (int)daemon_pid(cluster->sidecars[i]), log);
        free(log);
    }
    cr_assert_fail("%s", why);
}

bool cluster_says(const daemon_t *d, const char *one, const char *two) {
    char *log = daemon_log(d), *rest = NULL;
    bool found = false;
    for (char *line = strtok_r(log, "\n", &rest); line && !found; line = strtok_r(NULL, "\n", &rest))
        found = strstr(line, one) && strstr(line, two);
    free(log);
    return found;
}

daemon_t *cluster_leader(cluster_t *cluster, const char *name) {
    char *token = redis_str(cluster->r, "GET sidecar:%s:lock", name);
    daemon_t *leader = NULL;
    for (size_t i = 0; token && !leader && i < cluster->count; i++) {
        daemon_t *d = cluster->sidecars[i];
        if (daemon_running(d) && cluster_says(d, "\"msg\":\"leading\"", token)) leader = d;
    }
    free(token);
    return leader;
}

daemon_t *cluster_await_leader(cluster_t *cluster, const char *name, const daemon_t *other, int timeout_ms) {
    daemon_t *leader = NULL;
    if (!wait_for((leader = cluster_leader(cluster, name)) != NULL && leader != other, timeout_ms))
        cluster_fail(cluster, "no sidecar leads");
    return leader;
}

int64_t cluster_delay(redis_t *r, const char *queue, const char *job, int64_t delay_ms) {
    int64_t due = redis_ms(r) + delay_ms;
    redis_ok(r, "ZADD %s:delayed %lld %s", queue, (long long)due, job);
    return due;
}

char *cluster_take(redis_t *r, const char *queue, int timeout_ms) {
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%.3f", wait_scaled_ms(timeout_ms) / 1000.0);
    struct timeval patience = {.tv_sec = wait_scaled_ms(timeout_ms) / 1000 + 20};
    redisSetTimeout(r, patience);
    redisReply *reply = redis_do(r, "BRPOP %s %s", queue, seconds);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "BRPOP %s: %s", queue, reply->str);
    char *job = reply->type == REDIS_REPLY_ARRAY ? strdup(reply->element[1]->str) : NULL;
    freeReplyObject(reply);
    return kept(job);
}

int64_t cluster_round(cluster_t *cluster, const char *queue, int delay_ms) {
    static int number;
    char job[64];
    snprintf(job, sizeof(job), "round %d of %s", ++number, queue);
    int64_t due = cluster_delay(cluster->r, queue, job, delay_ms);
    char *got = cluster_take(cluster->r, queue, delay_ms + ROUND_MS);
    int64_t late = redis_ms(cluster->r) - due;
    if (!got) cluster_fail(cluster, "a job was not promoted");
    cr_assert_str_eq(got, job);
    cr_assert_geq(late, 0, "%s came %lld ms early", job, (long long)-late);
    return late;
}

void cluster_works(cluster_t *cluster, const char *queue) {
    static const int delays[] = {0, 60};
    for (size_t i = 0; i < sizeof(delays) / sizeof(*delays); i++) {
        int64_t late = INT64_MAX;
        for (int try = 0; try < TRIES && late > wait_scaled_ms(SOON_MS); try++) {
            late = cluster_round(cluster, queue, delays[i]);
            if (late > wait_scaled_ms(LATE_MS)) break;
        }
        if (late <= wait_scaled_ms(SOON_MS)) continue;
        fprintf(stderr, "a job of %s with a delay of %d ms was %lld ms late\n", queue, delays[i], (long long)late);
        cluster_fail(cluster, "jobs are promoted late");
    }
}

/* Calls `each` with the id of every connection of that name; returns how many there are. */
static int for_connections(redis_t *r, const char *name, void (*each)(redis_t *r, long long id)) {
    char *list = redis_str(r, "CLIENT LIST"), *rest = NULL, wanted[128];
    int count = 0;
    snprintf(wanted, sizeof(wanted), " name=queue-sidecar%s", name);
    for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (!strstr(line, wanted)) continue;
        count++;
        if (each) each(r, strtoll(line + strlen("id="), NULL, 10));
    }
    free(list);
    return count;
}

static void kill_connection(redis_t *r, long long id) { redis_ok(r, "CLIENT KILL ID %lld", id); }

int cluster_connections(redis_t *r, const char *name) { return for_connections(r, name, NULL); }

int cluster_kill_connections(redis_t *r, const char *name) { return for_connections(r, name, kill_connection); }

uint64_t cluster_seed(const char *test) {
    const char *given = getenv("QS_SEED");
    uint64_t seed = given && *given ? strtoull(given, NULL, 10) : (uint64_t)wait_now_us() * 1000 + (uint64_t)getpid() % 1000;
    fprintf(stderr, "%s: QS_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

/* splitmix64: any seed will do, 0 too. (Vigna, prng.di.unimi.it/splitmix64.c) */
uint64_t cluster_random(uint64_t *state, uint64_t below) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}
