#include "inspect/probe.h"

#include "dialects/registry.h"
#include "model/token.h"
#include "queue/lock.h"
#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/tracking.h"

typedef struct probe {
    const preflight_call_t *call;
    const bool *wanted;  // by queue; NULL = all queues
    char *key;           // the scratch key; owned
    redisReply *refused; // of probe.lua; owned; NULL = nothing is refused
} probe_t;

static bool probe_is_monitored(const queue_config_t *queue) { return (queue->policy.roles & ROLE_MONITOR) != 0; }

static bool probe_notifies(const queue_config_t *queue) { return *queue->policy.on_failure != '\0'; }

// Rights for queues of every dialect.
static const right_t needed_rights[] = {
    {RIGHT_SCRIPT(acquire)},
    {RIGHT_SCRIPT(renew)},
    {RIGHT_SCRIPT(claim)},
    {RIGHT_SCRIPT(break_stale_lock)},
    {RIGHT_SCRIPT(release)},
    {RIGHT_SCRIPT(promote)},
    {RIGHT_SCRIPT(next_due)},
    {RIGHT_SCRIPT(stream_ends)},
    {RIGHT_SCRIPT(acknowledge)},
    {RIGHT_SCRIPT(trim)},
    {"reading a failure stream", RIGHT_COMMANDS("XREAD")},
    {RIGHT_SCRIPT(push_marker), .when = probe_is_monitored},
    {RIGHT_SCRIPT(stamp), .when = probe_is_monitored},
    {RIGHT_SCRIPT(reports), .when = probe_is_monitored},
    {RIGHT_SCRIPT(list_page), .when = probe_is_monitored},
    {RIGHT_SCRIPT(settle), .when = probe_is_monitored},
    {RIGHT_SCRIPT(prune), .when = probe_is_monitored},
    {RIGHT_SCRIPT(requeue), .when = probe_is_monitored},
    {"looking at a backup list", RIGHT_COMMANDS("HLEN", "HMGET", "LLEN", "LPOS", "TIME"), .when = probe_is_monitored},
    {"reading a backup list", RIGHT_COMMANDS("LRANGE"), .when = probe_is_monitored},
    {"rotating a backup list", RIGHT_COMMANDS("RPOPLPUSH"), .when = probe_is_monitored},
    {"looking at a heartbeat", RIGHT_COMMANDS("EXISTS"), .when = probe_is_monitored},
    {0},
};

// Jobs flow without these rights, but something is slower or is not shown.
static const right_t optional_rights[] = {
    {RIGHT_SCRIPT(sizes)},
    {"announcing a vacant lock", RIGHT_COMMANDS("PUBLISH")},
    {"keeping idle connections open", RIGHT_COMMANDS("PING")},
    {"reading a worker's name from its heartbeat", RIGHT_COMMANDS("GETRANGE"), .when = probe_is_monitored},
    {"removing jobs from the middle of a long list", RIGHT_COMMANDS("LSET"), .when = probe_is_monitored},
    {"telling of failures (on_failure)", RIGHT_COMMANDS("LLEN", "LPUSH", "LRANGE", "LTRIM"), .when = probe_notifies},
    {0},
};

static const right_t history_rights[] = {{RIGHT_SCRIPT(history)}, {0}};

static const char *const *probe_commands(const right_t *right) {
    return right->commands ? right->commands : right->script->commands;
}

// Returns the name of a key in the slot of `lock`. The probe uses the name for a channel too. It ends in ":vacant", because the
// user may have the right to channels of that end only.
static char *probe_key(const char *lock) {
    char random[TOKEN_SIZE];
    token_new(random, 0);
    random[16] = '\0';
    const char *open = strchr(lock, '{');
    const char *close = open ? strchr(open + 1, '}') : NULL;
    if (close && close > open + 1) return mem_printf("sidecar:preflight-%s%.*s:vacant", random, (int)(close - open + 1), open);
    return mem_printf("sidecar:preflight-%s{%s}:vacant", random, lock);
}

// `dialect` NULL: a right of every dialect.
static bool probe_concerns(const probe_t *probe, size_t queue, const config_dialect_t *dialect, const right_t *right) {
    const queue_config_t *config = probe->call->keys->queues[queue].config;
    return (!dialect || config->dialect == dialect) && (!probe->wanted || probe->wanted[queue]) &&
           (!right->when || right->when(config));
}

static bool probe_needs(const probe_t *probe, const config_dialect_t *dialect, const right_t *right) {
    bool needed = false;
    for (size_t i = 0; i < probe->call->keys->queue_count && !needed; i++) needed = probe_concerns(probe, i, dialect, right);
    return needed;
}

static void probe_append(const probe_t *probe, const config_dialect_t *dialect, const right_t *rights) {
    for (const right_t *right = rights; right && right->what; right++) {
        if (!probe_needs(probe, dialect, right)) continue;
        for (const char *const *command = probe_commands(right); *command; command++) request_text(probe->call->conn, *command);
    }
}

// Runs probe.lua. A full Redis 6.2 refuses the script, which says nothing about rights.
static outcome_t probe_try_commands(probe_t *probe) {
    const preflight_call_t *call = probe->call;
    request_script(call->conn, &script_probe, 1);
    request_text(call->conn, probe->key);
    request_int(call->conn, call->keys->config->redis.db);
    if (!probe->wanted) {
        probe_append(probe, NULL, needed_rights);
        probe_append(probe, NULL, optional_rights);
        probe_append(probe, NULL, history_rights);
    }
    const config_dialect_t *dialect;
    for (size_t i = 0; (dialect = dialect_settings(i)); i++) probe_append(probe, dialect, dialect_ops(dialect)->rights);
    outcome_t outcome = request_ask(call->conn, &probe->refused, call->error);
    return call->error->kind == ERROR_FULL ? OUTCOME_OK : outcome;
}

// Why Redis refuses the command; NULL = it does not.
static const char *probe_error(const probe_t *probe, const char *command) {
    const char *error = NULL;
    for (size_t i = 0; probe->refused && i < probe->refused->elements && !error; i += 2)
        if (reply_is(reply_at(probe->refused, i), command)) error = reply_text(reply_at(probe->refused, i + 1));
    return error;
}

// The commands of the right that Redis refuses, and why it refuses the last of them; owned. NULL: it refuses none.
static char *probe_refusal(const probe_t *probe, const right_t *right) {
    buffer_t refused = {0};
    const char *error = NULL;
    for (const char *const *command = probe_commands(right); *command; command++) {
        const char *why = probe_error(probe, *command);
        if (why) buffer_printf(&refused, "%s%s", refused.len ? ", " : "", *command);
        if (why) error = why;
    }
    char *text = error ? mem_printf("%s: %s", buffer_text(&refused), error) : NULL;
    buffer_free(&refused);
    return text;
}

static void probe_report(const preflight_call_t *call, preflight_level_t level, const char *what, const char *text) {
    preflight_report(call, level, NULL, "%s is refused: %s; see docs/acl.md", what, text);
}

static void probe_report_all(const probe_t *probe, preflight_level_t level, const right_t *rights) {
    for (const right_t *right = rights; right->what; right++) {
        char *refusal = probe_needs(probe, NULL, right) ? probe_refusal(probe, right) : NULL;
        if (refusal) probe_report(probe->call, level, right->what, refusal);
        free(refusal);
    }
}

// Disables only the queues that lack a right.
static void probe_report_queue(const probe_t *probe, size_t queue) {
    const queue_config_t *config = probe->call->keys->queues[queue].config;
    buffer_t all = {0};
    for (const right_t *right = dialect_ops(config->dialect)->rights; right && right->what; right++) {
        char *refusal = probe_concerns(probe, queue, config->dialect, right) ? probe_refusal(probe, right) : NULL;
        if (refusal && right->optional)
            preflight_report(probe->call, PREFLIGHT_WARNING, config->name, "%s is refused: %s; see docs/acl.md", right->what,
                             refusal);
        else if (refusal)
            buffer_printf(&all, "%s%s: %s", all.len ? "; " : "", right->what, refusal);
        free(refusal);
    }
    if (all.len)
        preflight_report(probe->call, PREFLIGHT_QUEUE_DISABLED, config->name,
                         "Redis refuses commands that dialect %s needs (see docs/acl.md): %s",
                         config_dialect_word(config->dialect), buffer_text(&all));
    buffer_free(&all);
}

// Reports a request of the probe that Redis refuses for lack of a right. Other refusals say nothing about rights: Redis is full,
// or the slot is being moved. Returns whether the probe can go on.
static bool probe_passed(const preflight_call_t *call, preflight_level_t level, const char *what, outcome_t outcome) {
    if (outcome == OUTCOME_REFUSED && !error_kind_is_slot(call->error->kind)) probe_report(call, level, what, call->error->text);
    return outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED || call->error->kind == ERROR_FULL;
}

// Redis lets no script call BRPOPLPUSH, so try it by itself.
static bool probe_rotate(const probe_t *probe) {
    static const right_t rotation = {"rotating a backup list", .when = probe_is_monitored};
    const preflight_call_t *call = probe->call;
    redisReply *reply;
    if (!probe_needs(probe, NULL, &rotation)) return true;
    request_begin(call->conn, "BRPOPLPUSH", probe->key, probe->key, "0.01");
    outcome_t outcome = request_ask(call->conn, &reply, call->error);
    conn_reply_free(reply);
    return probe_passed(call, PREFLIGHT_REFUSED, rotation.what, outcome);
}

static bool probe_loaded_scripts(const probe_t *probe) {
    conn_t *conn = probe->call->conn;
    request_begin(conn, "SCRIPT", "EXISTS", conn_script_sha1(conn, &script_probe));
    return probe_passed(probe->call, PREFLIGHT_WARNING, "finding loaded scripts (each connect sends all of them)",
                        request_ask(conn, NULL, probe->call->error));
}

static outcome_t probe_track(const probe_t *probe, conn_t *data, conn_t *subscriber) {
    redis_error_t *error = probe->call->error;
    if (tracking_start(data, subscriber, error) != OUTCOME_OK) return error->outcome;
    request_caching(data);
    request_append(data, "TYPE", probe->key);
    for (int i = 0; i < 2; i++) conn_reply_free(conn_read_next(data, NULL, error));
    return error->outcome;
}

// Tries client tracking and SUBSCRIBE on two new connections: a connection that tracks or is subscribed is of no other use.
static bool probe_connections(const probe_t *probe) {
    const preflight_call_t *call = probe->call;
    conn_t *data = conn_like(call->conn, "queue-sidecar-preflight");
    conn_t *subscriber = conn_like(call->conn, "queue-sidecar-preflight");
    bool ok =
        probe_passed(call, PREFLIGHT_WARNING, "waking up on a change", probe_track(probe, data, subscriber)) &&
        probe_passed(call, PREFLIGHT_WARNING, "listening for a vacant lock", lock_listen(subscriber, probe->key, call->error));
    conn_free(data);
    conn_free(subscriber);
    return ok;
}

outcome_t probe_rights(const preflight_call_t *call, const bool *wanted) {
    probe_t probe = {.call = call, .wanted = wanted};
    outcome_t outcome = OUTCOME_REFUSED;
    for (size_t i = 0; i < call->keys->lock_count && outcome == OUTCOME_REFUSED; i++) {
        free(probe.key);
        probe.key = probe_key(call->keys->locks[i].key);
        outcome = probe_try_commands(&probe);
        if (outcome == OUTCOME_REFUSED && !error_kind_is_slot(call->error->kind)) break;
    }
    if (outcome == OUTCOME_OK && !wanted) {
        probe_report_all(&probe, PREFLIGHT_REFUSED, needed_rights);
        probe_report_all(&probe, PREFLIGHT_WARNING, optional_rights);
        if (call->keys->config->history != HISTORY_OFF) probe_report_all(&probe, PREFLIGHT_WARNING, history_rights);
        if (!probe_rotate(&probe) || !probe_loaded_scripts(&probe) || !probe_connections(&probe)) outcome = call->error->outcome;
    }
    for (size_t i = 0; outcome == OUTCOME_OK && i < call->keys->queue_count; i++) probe_report_queue(&probe, i);
    if (outcome == OUTCOME_OK) *call->error = (redis_error_t){0};
    conn_reply_free(probe.refused);
    free(probe.key);
    return outcome;
}
