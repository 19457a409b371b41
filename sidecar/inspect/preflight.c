#include "inspect/preflight.h"

#include "base/text/units.h"
#include "dialects/dialect.h"
#include "inspect/probe.h"
#include "queue/heartbeat.h"
#include "redis/reply.h"
#include "redis/service/capability.h"

enum { OLDEST_VERSION = 60200 };

// Asks for what the sidecar can do without. *reply is NULL if the server refuses it.
static outcome_t preflight_ask_optional(const preflight_call_t *call, capability_t capability, redisReply **reply) {
    if (request_ask(call->conn, reply, call->error) != OUTCOME_REFUSED) return call->error->outcome;
    capability_refused(capability, call->error->text);
    preflight_report(call, PREFLIGHT_NOTE, NULL, "%s is refused: %s; %s", capability_command(capability), call->error->text,
                     capability_effect(capability));
    *call->error = (redis_error_t){0};
    return OUTCOME_OK;
}

// Asks once more for what the connect was refused, so that a user with the right now gets no note.
static outcome_t preflight_check_connect(const preflight_call_t *call) {
    redisReply *reply = NULL;
    request_begin(call->conn, "CLIENT", "SETNAME", conn_name(call->conn));
    if (preflight_ask_optional(call, CAPABILITY_CLIENT_NAME, &reply) != OUTCOME_OK) return call->error->outcome;
    conn_reply_free(reply);
    if (capability_is_refused(CAPABILITY_SCRIPT_FLAGS))
        preflight_report(call, PREFLIGHT_NOTE, NULL, "%s is refused; %s", capability_command(CAPABILITY_SCRIPT_FLAGS),
                         capability_effect(CAPABILITY_SCRIPT_FLAGS));
    if (conn_version(call->conn)) return OUTCOME_OK;
    request_begin(call->conn, "INFO", "server");
    outcome_t outcome = preflight_ask_optional(call, CAPABILITY_VERSION, &reply);
    conn_reply_free(reply);
    return outcome;
}

static outcome_t preflight_check_version(const preflight_call_t *call) {
    int version = conn_version(call->conn);
    preflight_report(call, PREFLIGHT_FACT, NULL, "server is %s at %s", conn_server(call->conn), conn_target(call->conn));
    if (version && version < OLDEST_VERSION)
        preflight_report(call, PREFLIGHT_REFUSED, NULL, "%s is too old: Redis 6.2 or Valkey 7.2 is needed",
                         conn_server(call->conn));
    return OUTCOME_OK;
}

// Copied records make room in a full Redis. Others do not.
static void preflight_check_room(const preflight_call_t *call, int64_t most) {
    const int64_t each = call->keys->config->stream.max_bytes;
    if (most <= 0 || (double)call->keys->queue_count * (double)each < (double)most) return;
    preflight_report(
        call, PREFLIGHT_WARNING, NULL,
        "stream.max_bytes (%s) times %zu %s is not below maxmemory of %s (%s): while no audit log copies them, records "
        "of failures can fill Redis; lower stream.max_bytes, or raise maxmemory",
        size_text(each).text, call->keys->queue_count, call->keys->queue_count == 1 ? "queue" : "queues", conn_target(call->conn),
        size_text(most).text);
}

static outcome_t preflight_check_memory(const preflight_call_t *call) {
    redisReply *reply;
    request_begin(call->conn, "INFO", "memory");
    if (preflight_ask_optional(call, CAPABILITY_MEMORY_INFO, &reply) != OUTCOME_OK) return call->error->outcome;
    slice_t policy = reply_info(reply, "maxmemory_policy:");
    if (policy.len && !slice_is(policy, "noeviction"))
        preflight_report(
            call, PREFLIGHT_WARNING, NULL,
            "maxmemory-policy of %s is %.*s: Redis may evict jobs and locks, and no promise holds then; set it to noeviction",
            conn_target(call->conn), (int)policy.len, policy.data);
    preflight_check_room(call, reply_info_number(reply, "\nmaxmemory:"));
    conn_reply_free(reply);
    return OUTCOME_OK;
}

static outcome_t preflight_check_role(const preflight_call_t *call) {
    redisReply *reply;
    request_begin(call->conn, "ROLE");
    if (preflight_ask_optional(call, CAPABILITY_ROLE, &reply) != OUTCOME_OK) return call->error->outcome;
    if (reply && !reply_is(reply_at(reply, 0), "master"))
        preflight_report(call, PREFLIGHT_REFUSED, NULL, "the server at %s is a %s: the sidecar must talk to the primary",
                         conn_target(call->conn),
                         reply_is(reply_at(reply, 0), "slave") ? "replica" : reply_text(reply_at(reply, 0)));
    conn_reply_free(reply);
    return OUTCOME_OK;
}

// `queue` NULL: a key of a lock.
typedef void preflight_type_fn(const preflight_call_t *call, const char *queue, const char *what, const char *key,
                               const char *type);

static void preflight_append_type(const preflight_call_t *call, const char *queue, const char *what, const char *key,
                                  const char *type) {
    (void)queue, (void)what, (void)type;
    request_append(call->conn, "TYPE", key);
}

static void preflight_read_type(const preflight_call_t *call, const char *queue, const char *what, const char *key,
                                const char *type) {
    preflight_level_t level = queue ? PREFLIGHT_QUEUE_REFUSED : PREFLIGHT_REFUSED;
    redis_error_t refusal;
    redisReply *reply = conn_read_or_refusal(call->conn, &refusal, call->error);
    // A slot that is being moved must not keep the leader from other locks. Its own lock is refused by Redis.
    if (refusal.outcome != OUTCOME_OK && !error_kind_is_slot(refusal.kind))
        preflight_report(call, level, queue, "cannot look at key \"%s\": %s", key, refusal.text);
    else if (reply && !reply_is(reply, "none") && !reply_is(reply, type))
        preflight_report(call, level, queue, "%s key \"%s\" holds a %s where a %s is wanted", what, key, reply_text(reply), type);
    conn_reply_free(reply);
}

static void preflight_each_key(const preflight_call_t *call, const queue_keys_t *queue, preflight_type_fn *handle) {
    const queue_config_t *config = queue->config;
    redis_keys_t used = config_redis_keys(config);
    for (size_t i = 0; i < used.count; i++) {
        const redis_key_t *key = &used.items[i];
        if (!key->pattern && key->type) handle(call, config->name, key->role, key->name, key->type);
    }
    config_redis_keys_free(&used);
    if (config->policy.roles & ROLE_MONITOR) {
        handle(call, config->name, "stamps", queue->stamps, "hash");
        handle(call, config->name, "sentinel", queue->sentinel, "hash");
    }
    handle(call, config->name, "meta", queue->meta, "hash");
    handle(call, config->name, "failures", queue->failures, "stream");
    handle(call, config->name, "auditors", queue->auditors, "hash");
}

// Handles the keys of all locks and queues, or of the queues with only[i].
static void preflight_each_type(const preflight_call_t *call, const bool *only, preflight_type_fn *handle) {
    const keyspace_t *keys = call->keys;
    for (size_t i = 0; !only && i < keys->lock_count; i++) {
        handle(call, NULL, "lock", keys->locks[i].key, "string");
        handle(call, NULL, "served-queues", keys->locks[i].served, "hash");
    }
    for (size_t i = 0; i < keys->queue_count; i++)
        if (!only || only[i]) preflight_each_key(call, &keys->queues[i], handle);
}

// All requests go in one pipeline. A thousand round trips on a slow network would outlast the lock that a reload holds. Reads
// every reply, because an unread reply would answer a later request.
static outcome_t preflight_check_types(const preflight_call_t *call, const bool *only) {
    *call->error = (redis_error_t){0};
    preflight_each_type(call, only, preflight_append_type);
    preflight_each_type(call, only, preflight_read_type);
    return call->error->outcome;
}

static outcome_t preflight_check_all_types(const preflight_call_t *call) { return preflight_check_types(call, NULL); }

static bool preflight_shares_slot(const queue_keys_t *queue, const redis_keys_t *used, unsigned slot) {
    const queue_config_t *config = queue->config;
    // Includes the keys that no role of this instance uses, because scripts declare them all.
    const char *const declared[] = {queue->meta, config->ready, config->delayed, config->backup, config->errors};
    bool shared = true;
    for (size_t i = 0; shared && i < sizeof declared / sizeof *declared; i++)
        shared = !*declared[i] || slot == keyspace_slot(declared[i]);
    for (size_t i = 0; shared && i < used->count; i++)
        shared = used->items[i].pattern || slot == keyspace_slot(used->items[i].name);
    return shared;
}

static void preflight_report_slot(const preflight_call_t *call, const queue_config_t *config) {
    buffer_t tag = {0};
    bool tagged = config_shares_slot(config, &tag), per_tag = call->keys->per_tag;
    if (tagged && per_tag) buffer_str(&tag, "put the hash tag of `name` into each key, also into those of other roles");
    preflight_report(call, PREFLIGHT_QUEUE_REFUSED, config->name,
                     "in Redis Cluster its keys and its lock must share a slot: %s%s%s",
                     per_tag ? "" : "set lock.scope = \"queue\"", tag.len && !per_tag ? "; " : "", buffer_text(&tag));
    buffer_free(&tag);
}

// A pattern with a hash tag has the slot of the tag. A pattern without a tag is not refused, because job ids may contain the
// tag.
static void preflight_check_queue_slot(const preflight_call_t *call, const queue_keys_t *queue) {
    const queue_config_t *config = queue->config;
    unsigned slot = keyspace_slot(call->keys->locks[queue->lock].key);
    redis_keys_t used = config_redis_keys(config);
    bool shared = preflight_shares_slot(queue, &used, slot);
    if (!shared) preflight_report_slot(call, config);
    for (size_t i = 0; shared && i < used.count; i++) {
        const redis_key_t *key = &used.items[i];
        if (!key->pattern || slot == keyspace_slot(key->name)) continue;
        preflight_report(call, PREFLIGHT_WARNING, config->name,
                         "in Redis Cluster the sidecar cannot read a key of another slot, and does not give its job back: put "
                         "the hash tag of the queue into `%s`, which is \"%s\", unless the text for * always has this tag",
                         key->option, key->name);
    }
    config_redis_keys_free(&used);
}

// In Cluster every script touches keys of one slot only.
static outcome_t preflight_check_slots(const preflight_call_t *call) {
    redisReply *reply;
    request_begin(call->conn, "INFO", "cluster");
    if (preflight_ask_optional(call, CAPABILITY_CLUSTER_INFO, &reply) != OUTCOME_OK) return call->error->outcome;
    bool cluster = slice_is(reply_info(reply, "cluster_enabled:"), "1");
    conn_reply_free(reply);
    for (size_t i = 0; cluster && i < call->keys->queue_count; i++) preflight_check_queue_slot(call, &call->keys->queues[i]);
    return OUTCOME_OK;
}

// Whether the keys of the queue are of its dialect. An unknown layout is not served: a write to other keys may lose jobs.
static bool preflight_check_layout(const preflight_call_t *run, size_t i) {
    const queue_config_t *queue = run->keys->queues[i].config;
    const dialect_ops_t *ops = dialect_ops(queue->dialect);
    buffer_t refusal = {0};
    if (!ops->adopt) return true;
    const call_t call = {.conn = run->conn, .keys = run->keys, .queue = i, .error = run->error};
    outcome_t outcome = ops->adopt(&call, &refusal);
    if (outcome == OUTCOME_OK && refusal.len)
        preflight_report(run, PREFLIGHT_QUEUE_DISABLED, queue->name, "%s", buffer_text(&refusal));
    if (outcome == OUTCOME_REFUSED) {
        preflight_report(run, run->error->kind == ERROR_SLOT_IS_MOVING ? PREFLIGHT_QUEUE_MOVING : PREFLIGHT_QUEUE_DISABLED,
                         queue->name, "cannot tell whether its keys are of dialect %s: %s", config_dialect_word(queue->dialect),
                         run->error->text);
        *run->error = (redis_error_t){0};
    }
    bool good = outcome == OUTCOME_OK && !refusal.len;
    buffer_free(&refusal);
    return good;
}

// Whether the monitor can serve the queue. Promotion goes on if it cannot.
static void preflight_check_monitor(const preflight_call_t *run, size_t i) {
    const queue_config_t *queue = run->keys->queues[i].config;
    const dialect_ops_t *ops = dialect_ops(queue->dialect);
    buffer_t refusal = {0};
    if (!ops->monitor_fit || !(queue->policy.roles & ROLE_MONITOR)) return;
    const call_t call = {.conn = run->conn, .keys = run->keys, .queue = i, .error = run->error};
    if (ops->monitor_fit(&call, &refusal) == OUTCOME_OK && refusal.len)
        preflight_report(run, PREFLIGHT_QUEUE_REFUSED, queue->name, "%s", buffer_text(&refusal));
    buffer_free(&refusal);
}

static outcome_t preflight_check_layouts(const preflight_call_t *call) {
    *call->error = (redis_error_t){0};
    for (size_t i = 0; i < call->keys->queue_count && call->error->outcome == OUTCOME_OK; i++)
        if (preflight_check_layout(call, i)) preflight_check_monitor(call, i);
    return call->error->outcome;
}

// config_shared_heartbeat tells of two queues of this config.
static outcome_t preflight_check_heartbeats(const preflight_call_t *call) {
    heartbeat_overlap_t overlap;
    bool found;
    heartbeats_find_overlap(call->conn, call->keys, &found, &overlap, call->error);
    if (!found) return call->error->outcome;
    const queue_config_t *queue = call->keys->queues[overlap.queue].config;
    preflight_report(
        call, PREFLIGHT_WARNING, queue->name,
        "it has heartbeats in common (\"%s\") with the queue %s of group %s: if two jobs have the same id, the worker of "
        "one speaks for both. Give each queue its own, such as heartbeat = \"%s:*_alive\" for %s, and let its workers write "
        "that key, or \"off\" if they write none",
        overlap.heartbeat, overlap.other, overlap.group, overlap.other, overlap.other);
    return OUTCOME_OK;
}

outcome_t preflight_read_only(const preflight_call_t *call) {
    outcome_t (*const checks[])(const preflight_call_t *) = {
        preflight_check_connect, preflight_check_version,   preflight_check_memory,  preflight_check_role,
        preflight_check_slots,   preflight_check_all_types, preflight_check_layouts, preflight_check_heartbeats};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        outcome_t outcome = checks[i](call);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
        if (outcome == OUTCOME_REFUSED)
            preflight_report(call, PREFLIGHT_REFUSED, NULL, "preflight is refused: %s", call->error->text);
    }
    *call->error = (redis_error_t){0};
    return OUTCOME_OK;
}

// *has is false if the server has no streams at all. The probe tells which rights to streams are missing. No entry has the id
// that this range names: an entry may be larger than any reply without jobs.
static outcome_t preflight_check_streams(const preflight_call_t *call, bool *has) {
    *has = true;
    if (call->keys->queue_count == 0) return OUTCOME_OK;
    request_begin(call->conn, "XRANGE", call->keys->queues[0].failures, "-", "-");
    outcome_t outcome = request_ask(call->conn, NULL, call->error);
    *has = call->error->kind != ERROR_NO_COMMAND;
    if (!*has)
        preflight_report(call, PREFLIGHT_REFUSED, NULL,
                         "the server has no streams, in which the sidecar records final failures: XRANGE: %s", call->error->text);
    return outcome == OUTCOME_REFUSED ? OUTCOME_OK : outcome;
}

outcome_t preflight(const preflight_call_t *call) {
    bool has_streams;
    outcome_t outcome = preflight_check_streams(call, &has_streams);
    if (outcome == OUTCOME_OK && has_streams) outcome = preflight_read_only(call);
    if (outcome == OUTCOME_OK && has_streams) outcome = probe_rights(call, NULL);
    if (outcome == OUTCOME_REFUSED && error_kind_is_slot(call->error->kind)) return outcome;
    if (outcome == OUTCOME_REFUSED)
        preflight_report(call, PREFLIGHT_REFUSED, NULL,
                         call->error->kind == ERROR_NO_COMMAND
                             ? "the server cannot run a loaded script, as the sidecar needs: EVALSHA: %s"
                             : "script probe (EVALSHA, SET) is refused: %s; see docs/acl.md",
                         call->error->text);
    if (outcome == OUTCOME_REFUSED) outcome = OUTCOME_OK;
    if (outcome == OUTCOME_OK) *call->error = (redis_error_t){0};
    return outcome;
}

outcome_t preflight_again(const preflight_call_t *call, const bool *suspected, const bool *disabled) {
    size_t count = call->keys->queue_count;
    bool *wanted = mem_array(count, sizeof *wanted); // disabled queues whose layout is good now; the others stay disabled
    bool any_suspected = false;
    bool any_wanted = false;
    outcome_t outcome = OUTCOME_OK;
    *call->error = (redis_error_t){0};
    for (size_t i = 0; i < count; i++) any_suspected |= suspected[i];
    if (any_suspected) outcome = preflight_check_slots(call);
    if (any_suspected && (outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED)) outcome = preflight_check_types(call, suspected);
    for (size_t i = 0; i < count && outcome == OUTCOME_OK; i++) {
        if (suspected[i]) preflight_check_monitor(call, i);
        wanted[i] = disabled[i] && preflight_check_layout(call, i);
        any_wanted |= wanted[i];
        outcome = call->error->outcome;
    }
    if (outcome == OUTCOME_OK && any_wanted) outcome = probe_rights(call, wanted);
    free(wanted);
    return outcome;
}
