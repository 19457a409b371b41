#include "operate/status/servers_text.h"

#include "base/text/time_text.h"
#include "base/text/units.h"

enum { CERTIFICATE_DAYS = 14 };
static const int64_t DAY_MS = INT64_C(86400000);

// "1 replica", "2 replicas"
static void servers_text_count(buffer_t *out, int64_t count, const char *thing) {
    buffer_printf(out, "%" PRId64 " %s%s", count, thing, count == 1 ? "" : "s");
}

static void servers_text_sentinels(const servers_t *servers, const char *master, buffer_t *out) {
    size_t naming = 0, seeing_down = 0;
    int64_t epoch = 0, quorum = 0;
    for (size_t i = 0; i < servers->sentinel_count; i++) {
        const sentinel_view_t *sentinel = &servers->sentinels[i];
        if (*sentinel->error) continue;
        naming++;
        seeing_down += sentinel->sees_down;
        if (sentinel->epoch >= epoch) {
            epoch = sentinel->epoch;
            quorum = sentinel->quorum;
        }
    }
    buffer_printf(out, "%zu of ", naming);
    servers_text_count(out, (int64_t)servers->sentinel_count, "sentinel");
    if (!*servers->believed) {
        buffer_printf(out, " name a primary for \"%s\"", master);
        return;
    }
    buffer_printf(out, " answer: \"%s\" is %s; quorum %" PRId64 ", epoch %" PRId64, master, servers->believed, quorum, epoch);
    if (seeing_down) buffer_printf(out, "; %zu cannot reach it", seeing_down);
}

void servers_text_mode(const servers_t *servers, const redis_config_t *redis, buffer_t *out) {
    switch (servers->mode) {
    case REDIS_MODE_SENTINEL: servers_text_sentinels(servers, redis->master, out); break;
    case REDIS_MODE_CLUSTER:
        if (servers->primary_count == 0)
            buffer_str(out, "cluster, no primary is known");
        else
            buffer_printf(out, "cluster, queues on %zu %s", servers->primary_count,
                          servers->primary_count == 1 ? "primary" : "primaries");
        break;
    default: buffer_str(out, "single server");
    }
}

void servers_text_primary(const primary_view_t *primary, buffer_t *out) {
    if (primary->error.outcome != OUTCOME_OK) {
        char *why = redis_error_without(&primary->error, primary->address);
        buffer_str(out, why);
        free(why);
        return;
    }
    buffer_str(out, *primary->tls ? primary->tls : "no TLS");
    if (primary->certificate_end_ms >= 0)
        buffer_printf(out, ", certificate until %s", time_text(primary->certificate_end_ms, true, "%Y-%m-%d").text);
    if (primary->replicas >= 0) {
        buffer_str(out, "; ");
        servers_text_count(out, primary->replicas, "replica");
        if (primary->good_replicas >= 0)
            buffer_printf(out, ", %" PRId64 " in time for min-replicas-to-write", primary->good_replicas);
        else if (primary->replicas > 0)
            buffer_str(out, ", min-replicas-to-write 0");
    }
    if (*primary->eviction) buffer_printf(out, "; maxmemory-policy %s", primary->eviction);
}

void servers_text_queues(const keyspace_t *keys, buffer_t *out) {
    buffer_str(out, keys->queue_count == 1 ? "; queue" : "; queues");
    for (size_t i = 0; i < keys->queue_count; i++) buffer_printf(out, "%s %s", i ? "," : "", keys->queues[i].config->name);
}

// ---- Problems.

int64_t servers_refuse_writes(const servers_t *servers, int64_t now_ms, buffer_t *what) {
    const primary_view_t *first = NULL;
    int64_t count = 0;
    (void)now_ms;
    for (size_t i = 0; i < servers->primary_count; i++) {
        if (!*servers->primaries[i].refuses_writes) continue;
        if (count++ == 0) first = &servers->primaries[i];
    }
    if (count == 0) return 0;
    buffer_printf(what, "Redis at %s", first->address);
    if (count > 1) buffer_printf(what, " and at %" PRId64 " more", count - 1);
    buffer_printf(what, " takes no writes: %s", first->refuses_writes);
    return count;
}

int64_t servers_sentinels_silent(const servers_t *servers, int64_t now_ms, buffer_t *what) {
    const char *first = NULL;
    int64_t silent = 0;
    (void)now_ms;
    for (size_t i = 0; i < servers->sentinel_count; i++) {
        if (!*servers->sentinels[i].error) continue;
        if (!first) first = servers->sentinels[i].error;
        silent++;
    }
    if (silent)
        buffer_printf(what, "%" PRId64 " of %zu sentinels %s no primary: %s", silent, servers->sentinel_count,
                      silent == 1 ? "names" : "name", first);
    return silent;
}

int64_t servers_sentinels_quarrel(const servers_t *servers, int64_t now_ms, buffer_t *what) {
    (void)now_ms;
    buffer_printf(what, "sentinels disagree about the primary: %s", servers->quarrel);
    return *servers->quarrel != '\0';
}

int64_t servers_certificate_ends(const servers_t *servers, int64_t now_ms, buffer_t *what) {
    const char *whose = NULL;
    int64_t end_ms = INT64_MAX;
    for (size_t i = 0; i < servers->primary_count; i++) {
        const primary_view_t *primary = &servers->primaries[i];
        if (primary->certificate_end_ms >= 0 && primary->certificate_end_ms < end_ms) {
            whose = primary->address;
            end_ms = primary->certificate_end_ms;
        }
        if (primary->own_certificate_end_ms > 0 && primary->own_certificate_end_ms < end_ms) {
            whose = "the sidecar (redis.tls_cert_file)";
            end_ms = primary->own_certificate_end_ms;
        }
    }
    if (!whose || end_ms - now_ms > CERTIFICATE_DAYS * DAY_MS) return 0;
    int64_t left_ms = end_ms - now_ms;
    buffer_printf(what, "the certificate of %s ", whose);
    if (left_ms > 0)
        buffer_printf(what, "ends in %s", duration_text(left_ms).text);
    else
        buffer_str(what, "has ended");
    return CERTIFICATE_DAYS * DAY_MS - left_ms + 1;
}

int64_t servers_failover_loses(const servers_t *servers, int64_t now_ms, buffer_t *what) {
    const primary_view_t *first = NULL;
    int64_t count = 0;
    (void)now_ms;
    for (size_t i = 0; i < servers->primary_count; i++) {
        const primary_view_t *primary = &servers->primaries[i];
        if (primary->replicas <= 0 || primary->good_replicas >= 0) continue;
        if (count++ == 0) first = primary;
    }
    if (count == 0) return 0;
    buffer_printf(what, "a failover of %s", first->address);
    if (count > 1) buffer_printf(what, " or %" PRId64 " more", count - 1);
    buffer_str(what, " may lose the newest writes: min-replicas-to-write is 0, so it takes writes that no replica has");
    return count;
}

int64_t servers_one_node(const servers_t *servers, int64_t now_ms, buffer_t *what) {
    (void)now_ms;
    if (servers->mode != REDIS_MODE_SINGLE || !servers->primary_count) return 0;
    buffer_printf(what, "%s is one node of a Cluster, and the sidecar uses this node alone", servers->primaries[0].address);
    return strcmp(servers->primaries[0].mode, "cluster") == 0;
}
