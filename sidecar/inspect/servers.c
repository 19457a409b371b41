#include "inspect/servers.h"

#include "redis/reply.h"
#include "redis/sentinel/group.h"

void servers_free(servers_t *servers) {
    free(servers->primaries);
    free(servers->sentinels);
    *servers = (servers_t){0};
}

// ---- Sentinels.

// Whether a sentinel knows others that were not asked.
static bool servers_have_others(const sentinel_group_t *group) {
    size_t count;
    const sentinel_answer_t *answers = sentinel_group_answers(group, &count);
    for (size_t i = 0; i < count; i++)
        if (answers[i].error.outcome == OUTCOME_OK && answers[i].peer_count + 1 > count) return true;
    return false;
}

static void servers_add_sentinel(servers_t *servers, const sentinel_answer_t *answer) {
    sentinel_view_t *view = &servers->sentinels[servers->sentinel_count++];
    *view = (sentinel_view_t){
        .epoch = answer->config_epoch, .quorum = answer->quorum, .replicas = answer->replicas, .sees_down = answer->down};
    snprintf(view->address, sizeof view->address, "%s", address_text(&answer->sentinel).text);
    if (answer->error.outcome == OUTCOME_OK)
        snprintf(view->primary, sizeof view->primary, "%s", address_text(&answer->primary).text);
    else
        snprintf(view->error, sizeof view->error, "%s", answer->error.text);
}

void servers_read_sentinels(servers_t *servers, const redis_config_t *redis, const atomic_bool *stop) {
    redis_error_t error;
    size_t count;
    redis_mode_t mode = config_redis_mode(redis);
    servers_free(servers);
    servers->mode = mode == REDIS_MODE_AUTO ? REDIS_MODE_SINGLE : mode;
    if (mode != REDIS_MODE_SENTINEL) return;
    sentinel_group_t *group = sentinel_group_new(redis);
    const address_t *primary = sentinel_group_ask(group, stop, &error);
    if (primary && servers_have_others(group)) primary = sentinel_group_ask(group, stop, &error);
    const sentinel_answer_t *answers = sentinel_group_answers(group, &count);
    servers->sentinels = mem_array(count + 1, sizeof *servers->sentinels);
    for (size_t i = 0; i < count; i++) servers_add_sentinel(servers, &answers[i]);
    if (primary) snprintf(servers->believed, sizeof servers->believed, "%s", address_text(primary).text);
    sentinel_group_disagrees(group, servers->quarrel, sizeof servers->quarrel);
    sentinel_group_free(group);
}

// ---- Primaries.

static void servers_copy(char *text, size_t size, slice_t value) { snprintf(text, size, "%.*s", (int)value.len, value.data); }

static int64_t servers_number(const redisReply *info, const char *field) {
    int64_t number;
    return slice_integer(reply_info(info, field), &number) ? number : -1;
}

// (redis src/server.c, genRedisInfoString)
static void servers_read_role(primary_view_t *view, const redisReply *info) {
    address_t primary = {.port = (int)servers_number(info, "master_port:")};
    if (!slice_is(reply_info(info, "role:"), "slave")) return;
    servers_copy(primary.host, sizeof primary.host, reply_info(info, "master_host:"));
    snprintf(view->replica_of, sizeof view->replica_of, "%s", address_text(&primary).text);
}

// The replies to INFO, in the order of the sections. A refused section is NULL.
enum { INFO_SERVER, INFO_MEMORY, INFO_REPLICATION, INFO_SECTIONS };

static void servers_read_info(primary_view_t *view, redisReply *const *info) {
    slice_t mode = reply_info(info[INFO_SERVER], "redis_mode:");
    if (mode.len == 0) mode = reply_info(info[INFO_SERVER], "server_mode:"); // valkey src/server.c, genValkeyInfoString
    servers_copy(view->mode, sizeof view->mode, mode);
    servers_copy(view->eviction, sizeof view->eviction, reply_info(info[INFO_MEMORY], "maxmemory_policy:"));
    servers_read_role(view, info[INFO_REPLICATION]);
    view->replicas = servers_number(info[INFO_REPLICATION], "connected_slaves:");
    // This field is there only if min-replicas-to-write is above 0 (redis src/server.c, genRedisInfoString).
    view->good_replicas = servers_number(info[INFO_REPLICATION], "min_slaves_good_slaves:");
}

// INFO does not tell whether stop-writes-on-bgsave-error holds, or how many replicas min-replicas-to-write wants. So ask for a
// write that changes nothing: nobody writes this key.
static void servers_try_write(primary_view_t *view, conn_t *conn, const char *absent, redis_error_t *error) {
    redis_error_t refusal = {0};
    request_append(conn, "DEL", absent);
    conn_reply_free(conn_read_next(conn, NULL, &refusal));
    if (refusal.outcome == OUTCOME_DISCONNECTED) *error = refusal;
    if (refusal.kind != ERROR_NO_WRITES) return;
    snprintf(view->refuses_writes, sizeof view->refuses_writes, "%.*s", (int)sizeof view->refuses_writes - 1, refusal.text);
    view->refuses_writes[strcspn(view->refuses_writes, ".")] = '\0'; // the first sentence is enough
}

void servers_forget_primaries(servers_t *servers) {
    free(servers->primaries);
    servers->primaries = NULL;
    servers->primary_count = 0;
}

static void servers_push(servers_t *servers, const primary_view_t *view) {
    servers->primaries = mem_grown(servers->primaries, servers->primary_count, sizeof *servers->primaries);
    servers->primaries[servers->primary_count++] = *view;
}

void servers_add_lost(servers_t *servers, const char *address, const redis_error_t *error) {
    primary_view_t view = {.certificate_end_ms = -1, .replicas = -1, .good_replicas = -1};
    snprintf(view.address, sizeof view.address, "%s", address);
    view.error = *error;
    servers_push(servers, &view);
}

outcome_t servers_add_primary(servers_t *servers, conn_t *conn, const char *absent, redis_error_t *error) {
    static const char *const sections[INFO_SECTIONS] = {"server", "memory", "replication"};
    redisReply *info[INFO_SECTIONS];
    redis_error_t refusal;
    primary_view_t view = {.certificate_end_ms = -1};
    *error = (redis_error_t){0};
    snprintf(view.address, sizeof view.address, "%s", conn_target(conn));
    snprintf(view.tls, sizeof view.tls, "%s", conn_tls_text(conn));
    if (conn_certificate_end(conn)) view.certificate_end_ms = conn_certificate_end(conn) * 1000;
    view.own_certificate_end_ms = conn_own_certificate_end(conn) * 1000;
    for (int i = 0; i < INFO_SECTIONS; i++) request_append(conn, "INFO", sections[i]);
    for (int i = 0; i < INFO_SECTIONS; i++) info[i] = conn_read_or_refusal(conn, &refusal, error);
    servers_read_info(&view, info);
    if (error->outcome == OUTCOME_OK) servers_try_write(&view, conn, absent, error);
    for (int i = 0; i < INFO_SECTIONS; i++) conn_reply_free(info[i]);
    if (error->outcome != OUTCOME_OK) return error->outcome;
    servers_push(servers, &view);
    return OUTCOME_OK;
}
