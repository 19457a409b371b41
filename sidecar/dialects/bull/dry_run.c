// The scripts of dialect bull, tried on a queue of scratch keys.
#include <stdio.h>
#include <stdlib.h>

#include "dialects/bull/bull.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "dialects/requeue.h"
#include "redis/reply.h"

enum { TTL_MS = 60000 };

// A scratch queue laid out like Bull's, in the slot of the scratch lock.
typedef struct bull_scratch {
    const dry_run_t *run;
    queue_config_t config;
    queue_keys_t at;
    keyspace_t keys;
} bull_scratch_t;

// Every key that the scripts may leave behind. Each key gets its TTL first, because the process may be killed at any time. `one`
// is due and has a priority. `two` has no priority. `ghost` has no job. `three` has stalled once too often, `four` for the first
// time. `7` is a hash without a name.
static const struct {
    const char *command, *word, *one, *two;
} layout[] = {
    {"HSET", "one", "name", "scratch"},   {"HSET", "two", "name", "scratch"},     {"HSET", "three", "name", "scratch"},
    {"HSET", "four", "name", "scratch"},  {"ZADD", "delayed", "+inf", "scratch"}, {"LPUSH", "wait", "scratch", NULL},
    {"ZADD", "priority", "1", "scratch"}, {"LPUSH", "active", "scratch", NULL},   {"SADD", "stalled", "scratch", NULL},
    {"ZADD", "failed", "1", "scratch"},   {"HSET", "7", "rest", "scratch"},       {"SET", "id", "9", NULL},
};

static void dry_run_append(conn_t *conn, const queue_keys_t *at, const char *command, const char *word, const char *one,
                           const char *two) {
    request_begin(conn, command);
    bull_keys(conn, at, word);
    if (one) request_text(conn, one);
    if (two) request_text(conn, two);
    request_end(conn);
}

// Ignores a refusal, because Redis refuses the scripts for the same command.
static outcome_t dry_run_read(const dry_run_t *run, size_t count) {
    for (size_t i = 0; i < count; i++) {
        redisReply *reply;
        if (conn_read(run->conn, 0, &reply, run->error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        conn_reply_free(reply);
    }
    *run->error = (redis_error_t){0};
    return OUTCOME_OK;
}

static const char *const own_words[] = {"aside", "recorded"};
enum { OWN = sizeof own_words / sizeof *own_words };

static void dry_run_append_own(const bull_scratch_t *s, const char *command, const char *word, const char *one, const char *two) {
    request_begin(s->run->conn, command);
    char *key = mem_printf("sidecar:%s:%s", s->config.name, word);
    request_text(s->run->conn, key);
    if (one) request_text(s->run->conn, one);
    if (two) request_text(s->run->conn, two);
    request_end(s->run->conn);
    free(key);
}

static outcome_t dry_run_lay_out(const bull_scratch_t *s) {
    enum { COUNT = sizeof layout / sizeof *layout };
    conn_t *conn = s->run->conn;
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%d", TTL_MS);
    for (size_t i = 0; i < OWN; i++) {
        dry_run_append_own(s, "ZADD", own_words[i], "0", "scratch");
        dry_run_append_own(s, "PEXPIRE", own_words[i], ttl, NULL);
    }
    for (size_t i = 0; i < COUNT; i++) {
        dry_run_append(conn, &s->at, layout[i].command, layout[i].word, layout[i].one, layout[i].two);
        dry_run_append(conn, &s->at, "PEXPIRE", layout[i].word, ttl, NULL);
    }
    dry_run_append(conn, &s->at, "HSET", "one", "priority", "1");
    dry_run_append(conn, &s->at, "HSET", "three", "stalledCounter", "1");
    dry_run_append(conn, &s->at, "ZADD", "delayed", "0", "one");
    dry_run_append(conn, &s->at, "ZADD", "delayed", "0", "two");
    dry_run_append(conn, &s->at, "ZADD", "delayed", "0", "ghost");
    dry_run_append(conn, &s->at, "LPUSH", "active", "three", NULL);
    dry_run_append(conn, &s->at, "LPUSH", "active", "four", NULL);
    return dry_run_read(s->run, 2 * COUNT + 4 + 7);
}

static void dry_run_tidy(const bull_scratch_t *s) {
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
        dry_run_append(s->run->conn, &s->at, "DEL", layout[i].word, NULL, NULL);
    dry_run_append(s->run->conn, &s->at, "DEL", "stalled-check", NULL, NULL);
    for (size_t i = 0; i < OWN; i++) dry_run_append_own(s, "DEL", own_words[i], NULL, NULL);
    dry_run_append_own(s, "DEL", "requeued", NULL, NULL);
    (void)dry_run_read(s->run, sizeof layout / sizeof *layout + OWN + 2);
}

static bool dry_run_promote(const bull_scratch_t *s) {
    promote_reply_t reply;
    const call_t call = {s->run->conn, &s->keys, 0, s->run->token, s->run->error};
    bull_promote.append(&call, &(promote_request_t){.batch = 3});
    return s->run->passed(s->run, &script_bull_promote, promote_read_reply(s->run->conn, &reply, s->run->error));
}

static side_task_call_t dry_run_call(const bull_scratch_t *s, metrics_queue_t *metrics) {
    return (side_task_call_t){.redis = {s->run->conn, &s->keys, 0, s->run->token, s->run->error},
                              .metrics = metrics,
                              .dry = true,
                              .now = mono_now(),
                              .next = mono_never()};
}

// Marks, then checks: with an interval of 0 every job has stalled.
static bool dry_run_check(const bull_scratch_t *s) {
    metrics_queue_t metrics = {0};
    void *stalled = bull_stalled_task.open(&s->at);
    const script_t *script = &script_bull_mark;
    bool ok = true;
    for (int step = 0; step < 2 && ok; step++) {
        side_task_call_t call = dry_run_call(s, &metrics);
        ok = s->run->passed(s->run, script, bull_stalled_task.step(stalled, &call));
        script = &script_bull_settle;
    }
    bull_stalled_task.close(stalled);
    return ok;
}

// Adopts the queue, then finds a later failure.
static bool dry_run_failed(const bull_scratch_t *s) {
    metrics_queue_t metrics = {0};
    void *failed = bull_failed_task.open(&s->at);
    side_task_call_t call = dry_run_call(s, &metrics);
    bool ok = s->run->passed(s->run, &script_bull_failed, bull_failed_task.step(failed, &call));
    if (ok) {
        dry_run_append(s->run->conn, &s->at, "ZADD", "failed", "+inf", "two");
        ok = dry_run_read(s->run, 1) == OUTCOME_OK;
    }
    bull_failed_task.forget(failed);
    call = dry_run_call(s, &metrics);
    ok = ok && s->run->passed(s->run, &script_bull_record, bull_failed_task.step(failed, &call));
    bull_failed_task.close(failed);
    return ok;
}

// Requeues a job that is in `failed`, and one whose hash is gone.
static bool dry_run_requeue(const bull_scratch_t *s) {
    static const char *const ids[] = {"two", "7"};
    bool ok = true;
    for (size_t i = 0; i < 2 && ok; i++) {
        bull_job_t job = {.id = slice_text(ids[i])};
        event_t record = {.kind = slice_text("requeued")};
        requeue_reply_t reply;
        buffer_t payload = {0};
        job.fields[BULL_NAME] = slice_text("scratch");
        bull_payload(&job, &payload);
        const requeue_push_t where = {.job = {payload.data, payload.len}};
        bull_requeue.append(s->run->conn, &s->keys,
                            &(requeue_request_t){.again = true, .by = "preflight", .record = &record, .where = &where}, &where);
        ok = s->run->passed(s->run, &script_bull_requeue, requeue_read(s->run->conn, &reply, s->run->error));
        buffer_free(&payload);
    }
    return ok;
}

bool bull_dry_run(const dry_run_t *run) {
    bull_scratch_t s = {.run = run, .config = *run->keys->queues[0].config, .at = run->keys->queues[0], .keys = *run->keys};
    bull_config_t settings = *bull_config(run->config);
    settings.base = mem_printf("%sbull", run->prefix);
    settings.stalled_interval_ms = 0;
    settings.max_stalled = 1;
    settings.record_failed = true;
    s.config.own = &settings;
    s.config.delayed = mem_printf("%s:delayed", settings.base);
    s.config.ready = mem_printf("%s:wait", settings.base);
    s.at.config = &s.config;
    s.keys.queues = &s.at;
    bool ok = dry_run_lay_out(&s) == OUTCOME_OK && dry_run_promote(&s) && dry_run_check(&s) && dry_run_failed(&s) &&
              dry_run_requeue(&s);
    if (conn_is_open(run->conn)) dry_run_tidy(&s);
    free(settings.base);
    free(s.config.delayed);
    free(s.config.ready);
    return ok;
}
