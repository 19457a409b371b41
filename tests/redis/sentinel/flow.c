#include "flow.h"

#include "audit_log.h"
#include "suite.h"
#include "wait.h"

enum {
    UP_MS = 10000,
    SWITCH_MS = 20000,
    AGAIN_MS = 3000,
    DRAIN_MS = 15000,
    TRAP_MS = 1000,
    TRAPS = 20,
    DELAY_MS = 30,
    REPLICAS = 2,
    AT_ONCE = 10,
    REPORT_EVERY = 25
};

/* The TTL exceeds the longest election of the sentinels: a loaded machine makes them vote again after some seconds. Otherwise a
 * term would end, and its lock at the new primary would have to expire first. */
static daemon_t *start_sidecar(const sentinels_t *s, const char *more) {
    char *settings = sentinels_settings(s);
    daemon_t *d = daemon_start("group = \"g\";\n"
                               "redis = { %s %s };\n"
                               "lock = { ttl = \"15s\"; };\n"
                               "dispatcher = { safety_poll = \"1h\"; };\n"
                               "http = { port = 0; };\n"
                               "log = { level = \"info\"; format = \"json\"; };\n"
                               "queues = ( { name = \"q\"; } );\n",
                               settings, more);
    free(settings);
    return d;
}

void flow_fail(flow_t *f, const char *why) {
    for (int i = 0; i < FLOW_SIDECARS; i++) {
        char *log = daemon_log(f->sidecars[i]);
        fprintf(stderr, "--- sidecar %d:\n%s", i, log);
    }
    sentinels_print(f->s);
    cr_assert_fail("%s", why);
}

/* No assertion: the server may die at any time. */
static redisReply *flow_ask(flow_t *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = f->r ? redisvCommand(f->r, format, arguments) : NULL;
    va_end(arguments);
    if (reply) return reply;
    redis_close(f->r);
    f->r = NULL;
    return NULL;
}

static bool flow_add(flow_t *f) {
    redisReply *reply = flow_ask(f, "EVAL %s 1 q:delayed %d %d",
                                 "local t = redis.call('TIME') local due = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2] "
                                 "redis.call('ZADD', KEYS[1], due, ARGV[1]) return due",
                                 f->added, f->added % DELAY_MS);
    bool added = reply && reply->type == REDIS_REPLY_INTEGER;
    if (added) f->due_ms[f->added] = reply->integer;
    if (reply) freeReplyObject(reply);
    if (added) cr_assert_lt(++f->added, FLOW_JOBS);
    return added;
}

static void flow_produce(flow_t *f) {
    int first = f->added;
    for (int i = 0; i < AT_ONCE && flow_add(f); i++) {
    }
    redisReply *reply = f->added > first ? flow_ask(f, "WAIT %d 20", REPLICAS) : NULL;
    bool replicated = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer >= REPLICAS;
    for (int job = first; job < f->added; job++) f->replicated[job] = replicated;
    if (reply) freeReplyObject(reply);
}

static void flow_note_taken(flow_t *f, const char *name) {
    int job = atoi(name);
    cr_assert(*name >= '0' && *name <= '9' && job < f->added, "a job that nobody added: %s", name);
    int64_t latest_ms = job < f->first_since && f->former_ms > f->clock_ms ? f->former_ms : f->clock_ms;
    if (f->due_ms[job] > latest_ms) fprintf(stderr, "job %d: %lld ms early\n", job, (long long)(f->due_ms[job] - latest_ms));
    if (f->due_ms[job] > latest_ms) flow_fail(f, "a job was promoted before it was due");
    if (f->taken[job] < UINT8_MAX) f->taken[job]++;
    if (!f->first_us && job >= f->first_since) f->first_us = wait_now_us();
}

/* Reports some jobs as failed for good. */
static void flow_report(flow_t *f, const char *name) {
    int job = atoi(name);
    if (job % REPORT_EVERY) return;
    redisReply *reply =
        flow_ask(f, "EVAL %s 2 q:backup q:errors %s",
                 "redis.call('LPUSH', KEYS[1], ARGV[1]) return redis.call('HSET', KEYS[2], ARGV[1], '!it does not work')", name);
    bool told = reply && reply->type == REDIS_REPLY_INTEGER;
    if (reply) freeReplyObject(reply);
    reply = told ? flow_ask(f, "WAIT %d 20", REPLICAS) : NULL;
    if (reply && reply->type == REDIS_REPLY_INTEGER && reply->integer >= REPLICAS) f->reported[job] = 1;
    if (reply) freeReplyObject(reply);
}

static void flow_work(flow_t *f) {
    redisReply *reply = flow_ask(f, "EVAL %s 1 q",
                                 "local t = redis.call('TIME') local jobs = redis.call('RPOP', KEYS[1], 100) "
                                 "return {t[1] * 1000 + math.floor(t[2] / 1000), jobs or {}}");
    bool good = reply && reply->type == REDIS_REPLY_ARRAY;
    if (good) f->clock_ms = reply->element[0]->integer;
    if (good) f->clock_us = wait_now_us();
    for (size_t i = 0; good && i < reply->element[1]->elements; i++) {
        flow_note_taken(f, reply->element[1]->element[i]->str);
        flow_report(f, reply->element[1]->element[i]->str);
    }
    if (reply) freeReplyObject(reply);
}

void flow_step(flow_t *f) {
    flow_produce(f);
    flow_work(f);
}

static void flow_connect(flow_t *f, int primary) {
    redis_close(f->r);
    f->primary = primary;
    int64_t former_ms = f->clock_ms ? f->clock_ms + (wait_now_us() - f->clock_us) / 1000 + 1 : 0;
    if (former_ms > f->former_ms) f->former_ms = former_ms;
    f->r = redis_open(f->s->servers[primary]);
    f->first_since = f->added;
    f->first_us = 0;
    f->named_us = wait_now_us();
}

/* On a loaded machine the sentinels may fail over once more, and no job flows at the first of the two servers. */
static bool flow_flows(flow_t *f) {
    if (f->first_us || wait_now_us() - f->named_us < AGAIN_MS * INT64_C(1000)) return f->first_us;
    int named = sentinels_primary(f->s, NULL);
    if (named < 0 || named == f->primary) return false;
    fprintf(stderr, "the sentinels failed over once more, to server %d\n", named);
    flow_connect(f, named);
    return false;
}

/* Goes on at another server, until a job that was added there is taken. */
static double flow_move(flow_t *f, int primary) {
    flow_connect(f, primary);
    if (!flow_until(f, flow_flows(f), SWITCH_MS)) flow_fail(f, "no job flows at the new primary");
    return (double)(f->first_us - f->named_us) / 1000;
}

double flow_follow(flow_t *f, int old) {
    int now = -1;
    if (!flow_until(f, (now = sentinels_primary(f->s, NULL)) >= 0 && now != old, SENTINELS_SWITCH_MS))
        flow_fail(f, "no sentinel names a new primary");
    return flow_move(f, now);
}

flow_t *flow_begin(const sentinels_options_t *options, const char *more) {
    flow_t *f = calloc(1, sizeof *f);
    if (!f) abort();
    f->s = sentinels_begin(options);
    f->replicated = calloc(FLOW_JOBS, 1);
    f->taken = calloc(FLOW_JOBS, 1);
    f->due_ms = calloc(FLOW_JOBS, sizeof *f->due_ms);
    f->reported = calloc(FLOW_JOBS, 1);
    for (int i = 0; i < FLOW_SIDECARS; i++) f->sidecars[i] = start_sidecar(f->s, more);
    flow_connect(f, sentinels_primary(f->s, NULL));
    if (!flow_until(f, f->first_us != 0, UP_MS)) flow_fail(f, "no job flows");
    return f;
}

static int flow_missing(const flow_t *f) {
    int missing = 0;
    for (int i = 0; i < f->added; i++) missing += f->replicated[i] && !f->taken[i];
    return missing;
}

static void flow_print(flow_t *f) {
    int replicated = 0, again = 0, gone = 0;
    for (int i = 0; i < f->added; i++) {
        replicated += f->replicated[i];
        again += f->taken[i] > 1;
        gone += !f->taken[i];
    }
    fprintf(stderr, "%d jobs, %d replicated; %d taken more than once, %d never\n", f->added, replicated, again, gone);
}

static const char *event_of(const redisReply *entry) {
    const redisReply *fields = entry->element[1];
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, "event") == 0) return fields->element[i + 1]->str;
    return "";
}

/* Whether the log has the event of each entry of the stream once. */
static bool flow_log_has_stream(flow_t *f, const char *path) {
    redisReply *reply = flow_ask(f, "XRANGE sidecar:q:failures - +");
    bool all = reply && reply->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; all && i < reply->elements; i++) {
        char sql[160];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM events WHERE event = '%s'", event_of(reply->element[i]));
        all = audit_log_int(path, sql) == 1;
    }
    if (reply) freeReplyObject(reply);
    return all;
}

static int flow_reports_missing(const flow_t *f, const char *path) {
    int missing = 0;
    for (int i = 0; i < f->added; i++) {
        char sql[160];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM events WHERE kind = 'failed' AND cast(payload AS TEXT) = '%d'", i);
        if (f->reported[i]) missing += audit_log_int(path, sql) < 1;
    }
    return missing;
}

static void flow_check_logs(flow_t *f) {
    for (int i = 0; i < FLOW_SIDECARS; i++) {
        const char *path = daemon_audit_path(f->sidecars[i]);
        if (!wait_for(flow_log_has_stream(f, path) && flow_reports_missing(f, path) == 0, DRAIN_MS))
            flow_fail(f, "an audit log lacks a record of the stream, or a report that was replicated is lost");
        fprintf(stderr, "audit log %d: %lld final failures, %lld gaps; the stream has %lld\n", i, audit_log_rows(path),
                audit_log_int(path, "SELECT count(*) FROM events WHERE kind = 'gap'"),
                redis_int(f->r, "XLEN sidecar:q:failures"));
    }
}

void flow_end(flow_t *f) {
    flow_settle(f); /* a loaded machine may have made a primary look dead */
    int primary = sentinels_primary(f->s, NULL);
    if (primary != f->primary || !f->r) flow_connect(f, primary);
    bool drained = false;
    for (wait_t wait = wait_begin(DRAIN_MS); !(drained = flow_missing(f) == 0) && wait_again(&wait);) flow_work(f);
    flow_print(f);
    if (!drained) flow_fail(f, "a job that was replicated is lost");
    flow_check_logs(f);
    for (int i = 0; i < FLOW_SIDECARS; i++) daemon_stop(f->sidecars[i]);
    redis_close(f->r);
    sentinels_end(f->s);
    free(f->replicated);
    free(f->taken);
    free(f->due_ms);
    free(f->reported);
    free(f);
}

/* On a loaded machine the sentinels may fail over once more. Then they demote the other servers, whose own jobs are gone. */
static bool sentinels_have_demoted(redis_t *r) {
    redisReply *role = redis_do(r, "ROLE");
    return role->type == REDIS_REPLY_ARRAY && strcmp(role->element[0]->str, "slave") == 0;
}

/* Adds jobs to a server that is no primary any more. */
static void traps_add(flow_t *f, int server) {
    scoped(redis_drop) redis_t *r = redis_open(f->s->servers[server]);
    sentinels_primary(f->s, &f->traps_epoch);
    for (int i = 0; i < TRAPS && !sentinels_have_demoted(r); i++) redis_ok(r, "ZADD q:delayed %d trap%d", i + 1, i);
}

/* Returns the number of jobs that are gone. */
static int traps_check(flow_t *f, int server) {
    redis_t *r = redis_open(f->s->servers[server]);
    int left = 0;
    for (int i = 0; i < TRAPS; i++) {
        char *score = redis_str(r, "ZSCORE q:delayed trap%d", i);
        left += score != NULL;
    }
    char *clients = redis_str(r, "CLIENT LIST");
    bool connected = strstr(clients, "name=queue-sidecar") != NULL;
    if (connected) fprintf(stderr, "%s", clients);
    if (sentinels_have_demoted(r)) left = TRAPS;
    redis_close(r);
    long long epoch;
    sentinels_primary(f->s, &epoch);
    bool again = epoch != f->traps_epoch; /* it may be the primary again */
    if (again) fprintf(stderr, "server %d: its jobs are not judged: the sentinels failed over once more\n", server);
    if (again) return 0;
    fprintf(stderr, "server %d, no primary any more, has %d of %d jobs of its own\n", server, left, TRAPS);
    if (left < TRAPS) flow_fail(f, "jobs were promoted at a server that is no primary any more");
    if (connected) flow_fail(f, "a sidecar is connected to a server that is no primary any more");
    return TRAPS - left;
}

static bool settled(flow_t *f) {
    static int64_t looked_us;
    if (wait_now_us() - looked_us < 100000) return false; /* the jobs must not wait for the sentinels */
    looked_us = wait_now_us();
    return sentinels_are_settled(f->s);
}

void flow_settle(flow_t *f) {
    if (flow_until(f, settled(f), SENTINELS_SWITCH_MS)) return;
    flow_fail(f, "the sentinels do not settle");
}

static void flow_break_primary(flow_t *f, failover_t kind) {
    server_t *server = f->s->servers[f->primary];
    if (kind == FAILOVER_KILL) server_kill(server);
    if (kind == FAILOVER_FREEZE) server_freeze(server);
    if (kind == FAILOVER_COMMAND) sentinels_failover(f->s);
    if (kind == FAILOVER_COMMAND) return;
    redis_close(f->r); /* it would wait for the frozen server */
    f->r = NULL;
}

static void flow_mend_old(flow_t *f, int old, failover_t kind) {
    if (kind == FAILOVER_KILL) server_restart(f->s->servers[old], SERVER_KEEP_DATA);
    if (kind == FAILOVER_FREEZE) server_thaw(f->s->servers[old]);
    traps_add(f, old);
}

/* Gives the sidecars time to fall into the traps. */
static int flow_spring_traps(flow_t *f, int old) {
    int64_t until = wait_now_us() + TRAP_MS * 1000;
    flow_until(f, wait_now_us() >= until, TRAP_MS * 10);
    int gone = traps_check(f, old);
    sentinels_demote(f->s, old);
    flow_settle(f);
    return gone;
}

double flow_failover(flow_t *f, failover_t kind) {
    int old = f->primary;
    flow_break_primary(f, kind);
    double ms = flow_follow(f, old);
    flow_mend_old(f, old, kind);
    flow_spring_traps(f, old);
    return ms;
}

int flow_failover_unseen(flow_t *f, failover_t kind, int frozen_ms) {
    int old = f->primary;
    int64_t since_us = wait_now_us();
    for (int i = 0; i < FLOW_SIDECARS; i++) daemon_pause(f->sidecars[i]);
    flow_break_primary(f, kind);
    int now = sentinels_await_switch(f->s, old);
    flow_mend_old(f, old, kind);
    cr_assert(wait_for(wait_now_us() - since_us >= frozen_ms * INT64_C(1000), SWITCH_MS));
    fprintf(stderr, "frozen for %lld ms\n", (long long)(wait_now_us() - since_us) / 1000);
    for (int i = 0; i < FLOW_SIDECARS; i++) daemon_continue(f->sidecars[i]);
    flow_move(f, now);
    return flow_spring_traps(f, old);
}
