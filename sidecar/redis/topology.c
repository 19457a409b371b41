#include "redis/topology.h"

#include "base/buffer.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/wakeup.h"
#include "redis/tls/failure.h"
#include "redis/topology_internal.h"

enum { UNWATCHED_MS = 1000 };

size_t topology_add_shard(topology_t *topology) {
    size_t index = topology->shard_count;
    if (index == TOPOLOGY_SHARDS_MAX) return index;
    topology->shards[index] = mem_alloc(sizeof *topology->shards[index]);
    topology->shards[index]->topology = topology;
    topology->shard_count++;
    return index;
}

static topology_t *topology_new_empty(const redis_config_t *redis) {
    topology_t *topology = mem_alloc(sizeof *topology);
    topology->redis = redis;
    topology->metrics = topology->own_metrics = metrics_new(0);
    topology->refresh_fd = topology->slots_fd = -1;
    pthread_mutex_init(&topology->mutex, NULL);
    topology_add_shard(topology);
    return topology;
}

topology_t *topology_new_at(const redis_config_t *redis, const char *host, int port) {
    topology_t *topology = topology_new_empty(redis);
    endpoint_set(&topology->shards[0]->endpoint, host, port);
    return topology;
}

topology_t *topology_new(const redis_config_t *redis) {
    topology_t *topology = topology_new_empty(redis);
    address_t seed = {.port = (int)redis->port};
    endpoint_t *first = &topology->shards[0]->endpoint;
    snprintf(seed.host, sizeof seed.host, "%s", redis->host);
    if (redis->nodes.count) address_parse(slice_text(redis->nodes.items[0]), &seed);
    if (*redis->socket)
        snprintf(first->text, sizeof first->text, "%s", redis->socket);
    else
        endpoint_set(first, seed.host, seed.port);
    if (config_redis_mode(redis) == REDIS_MODE_SENTINEL) {
        *first = (endpoint_t){0};
        snprintf(first->text, sizeof first->text, "primary %s of the sentinels", redis->master);
    }
    if (config_redis_mode(redis) != REDIS_MODE_CLUSTER) return topology;
    topology->needed_count = SLOT_COUNT;
    topology->slots = mem_array(SLOT_COUNT, sizeof *topology->slots);
    for (size_t i = 0; i < SLOT_COUNT; i++) topology->slots[i] = TOPOLOGY_SHARDS_MAX;
    return topology;
}

void topology_free(topology_t *topology) {
    if (!topology) return;
    for (size_t i = 0; i < topology->shard_count; i++) {
        if (topology->shards[i]->missing) metric_add(&topology->metrics->primaries_missing, -1);
        free(topology->shards[i]);
    }
    condition_free(&topology->password_refused);
    pthread_mutex_destroy(&topology->mutex);
    metrics_free(topology->own_metrics);
    free((void *)topology->slots);
    if (topology->locator) topology->locator_ops->free(topology->locator);
    free(topology);
}

void topology_wake_on_change(topology_t *topology, int wake_fd) {
    pthread_mutex_lock(&topology->mutex);
    if (topology->wake_fd_count < MAX_WAKE_FDS) topology->wake_fds[topology->wake_fd_count++] = wake_fd;
    pthread_mutex_unlock(&topology->mutex);
}

// Call it with the mutex held.
static void topology_wake_all(const topology_t *topology) {
    for (size_t i = 0; i < topology->wake_fd_count; i++) wakeup_raise(topology->wake_fds[i]);
}

void topology_wake(topology_t *topology) {
    pthread_mutex_lock(&topology->mutex);
    topology_wake_all(topology);
    pthread_mutex_unlock(&topology->mutex);
}

void topology_stop_waking(topology_t *topology, int wake_fd) {
    pthread_mutex_lock(&topology->mutex);
    for (size_t i = 0; i < topology->wake_fd_count; i++)
        if (topology->wake_fds[i] == wake_fd) topology->wake_fds[i--] = topology->wake_fds[--topology->wake_fd_count];
    pthread_mutex_unlock(&topology->mutex);
}

metrics_t *topology_metrics(const topology_t *topology) { return topology->metrics; }
void topology_set_metrics(topology_t *topology, metrics_t *metrics) { topology->metrics = metrics; }
const redis_config_t *topology_config(const topology_t *topology) { return topology->redis; }
shard_t *topology_shard(topology_t *topology, size_t index) { return topology->shards[index]; }
size_t topology_shard_count(const topology_t *topology) { return topology->shard_count; }

const redis_config_t *shard_config(const shard_t *shard) { return shard->topology->redis; }
topology_t *shard_topology(const shard_t *shard) { return shard->topology; }
metrics_t *shard_metrics(const shard_t *shard) { return shard->topology->metrics; }
unsigned shard_epoch(const shard_t *shard) { return atomic_load(&shard->epoch); }
const atomic_uint *shard_epoch_place(const shard_t *shard) { return &shard->epoch; }

unsigned shard_address(shard_t *shard, endpoint_t *endpoint) {
    pthread_mutex_lock(&shard->topology->mutex);
    *endpoint = shard->endpoint;
    unsigned epoch = shard_epoch(shard);
    pthread_mutex_unlock(&shard->topology->mutex);
    return epoch;
}

// Call it with the mutex held.
static void shard_raise_epoch(shard_t *shard) {
    atomic_fetch_add(&shard->epoch, 1);
    topology_wake_all(shard->topology);
}

void shard_set_address(shard_t *shard, const char *host, int port) {
    bool was_named = shard->named;
    endpoint_t before = shard->endpoint;
    shard->named = true;
    if (before.port == port && address_host_equal(before.host, host)) return;
    endpoint_set(&shard->endpoint, host, port);
    if (was_named) {
        metric_add(&shard->topology->metrics->primary_changes, 1);
        log_info("watcher", NULL, "another server is the primary", F_STR("primary", shard->endpoint.text),
                 F_STR("before", before.text));
    }
    atomic_fetch_add(&shard->moves, 1);
    shard_raise_epoch(shard);
}

void shard_move(shard_t *shard, const char *host, int port) {
    pthread_mutex_lock(&shard->topology->mutex);
    shard_set_address(shard, host, port);
    pthread_mutex_unlock(&shard->topology->mutex);
}

void shard_suspect(shard_t *shard, unsigned epoch) {
    pthread_mutex_lock(&shard->topology->mutex);
    if (shard_epoch(shard) == epoch) shard_raise_epoch(shard);
    pthread_mutex_unlock(&shard->topology->mutex);
    topology_want_refresh(shard->topology);
}

// ---- Metrics.

static unsigned topology_needed(const topology_t *topology, size_t i) {
    return topology->needed ? topology->needed[i] : (unsigned)i;
}

static bool shard_has_slots(const shard_t *shard) {
    const topology_t *topology = shard->topology;
    for (size_t i = 0; topology->slots && i < topology->needed_count; i++) {
        size_t at = topology->slots[topology_needed(topology, i)];
        if (at < TOPOLOGY_SHARDS_MAX && topology->shards[at] == shard) return true;
    }
    return !topology->slots;
}

// Other connections may be open while a new one fails. A node without slots of our queues does not count as missing.
void shard_count_missing(shard_t *shard) {
    bool missing = shard->connect_failed && shard->connections == 0 && shard_has_slots(shard);
    if (missing != shard->missing) metric_add(&shard->topology->metrics->primaries_missing, missing ? 1 : -1);
    shard->missing = missing;
}

static void shard_count_connection(shard_t *shard, int more) {
    shard->connections += more;
    assert(shard->connections >= 0);
    metric_add(&shard->topology->metrics->connections, more);
    shard_count_missing(shard);
}

void shard_connect_failed(shard_t *shard) {
    pthread_mutex_lock(&shard->topology->mutex);
    shard->connect_failed = true;
    shard_count_missing(shard);
    pthread_mutex_unlock(&shard->topology->mutex);
}

// Call it with the mutex held.
static void topology_count_certificates(const topology_t *topology) {
    int64_t first = topology->sentinel_certificate_end;
    for (size_t i = 0; i < topology->shard_count; i++) first = tls_earlier(first, topology->shards[i]->certificate_end);
    metric_set(&topology->metrics->certificate_end_s, first);
}

void shard_connected(shard_t *shard, int64_t certificate_end) {
    pthread_mutex_lock(&shard->topology->mutex);
    shard->connect_failed = false;
    shard->certificate_end = certificate_end;
    shard_count_connection(shard, 1);
    topology_count_certificates(shard->topology);
    pthread_mutex_unlock(&shard->topology->mutex);
}

void shard_set_reach(shard_t *shard, shard_reach_t reach, metric_t *up) {
    topology_t *topology = shard->topology;
    bool reached = false, lost = false;
    pthread_mutex_lock(&topology->mutex);
    shard->reach = reach;
    for (size_t i = 0; i < topology->shard_count; i++) {
        reached = reached || topology->shards[i]->reach == SHARD_REACHED;
        lost = lost || topology->shards[i]->reach == SHARD_LOST;
    }
    metric_set(up, reached && !lost);
    pthread_mutex_unlock(&topology->mutex);
}

void shard_disconnected(shard_t *shard) {
    pthread_mutex_lock(&shard->topology->mutex);
    shard_count_connection(shard, -1);
    pthread_mutex_unlock(&shard->topology->mutex);
}

// ---- Facts that all connections share.

mono_t shard_note_server(shard_t *shard, unsigned epoch, const char *id) {
    pthread_mutex_lock(&shard->topology->mutex);
    bool same = *id && strcmp(shard->server_id, id) == 0 && shard->server_epoch == epoch;
    if (!same) shard->server_since = mono_now();
    if (*id && strcmp(shard->server_id, id) != 0) { // a restart or a failover closed the connections, not a limit
        shard->idle_close = (idle_close_t){0};
        atomic_store(&shard->keepalive_ms, 0);
    }
    snprintf(shard->server_id, sizeof shard->server_id, "%s", id);
    shard->server_epoch = epoch;
    mono_t since = shard->server_since;
    pthread_mutex_unlock(&shard->topology->mutex);
    return since;
}

int64_t shard_keepalive_ms(const shard_t *shard) {
    int64_t learned_ms = atomic_load(&shard->keepalive_ms);
    return learned_ms ? learned_ms : KEEPALIVE_S * 1000;
}

idle_news_t shard_note_idle_close(shard_t *shard, int64_t idle_ms, mono_t now) {
    enum { SAME_TIME_MS = 2000, LEAST_MS = 500 }; // a server counts `timeout` in seconds, and looks once a second
    pthread_mutex_lock(&shard->topology->mutex);
    idle_close_t before = shard->idle_close;
    bool first = !before.at.ns, other_moment = !first && mono_diff(now, before.at) >= NS_PER_S;
    int64_t half_ms = (before.idle_ms < idle_ms ? before.idle_ms : idle_ms) / 2;
    bool limit = other_moment && llabs(before.idle_ms - idle_ms) <= SAME_TIME_MS && half_ms < shard_keepalive_ms(shard);
    if (first || other_moment) shard->idle_close = (idle_close_t){now, idle_ms};
    if (limit) atomic_store(&shard->keepalive_ms, half_ms > LEAST_MS ? half_ms : LEAST_MS);
    pthread_mutex_unlock(&shard->topology->mutex);
    return first ? IDLE_FIRST : limit ? IDLE_LIMIT : IDLE_NO_NEWS;
}

uint64_t password_tag(const char *password) {
    digest_t digest = digest_of(password, strlen(password));
    uint64_t tag;
    memcpy(&tag, digest.bytes, sizeof tag);
    return tag ? tag : 1;
}

unsigned topology_password_changes(topology_t *topology) {
    pthread_mutex_lock(&topology->mutex);
    unsigned changes = topology->password.changes;
    pthread_mutex_unlock(&topology->mutex);
    return changes;
}

bool topology_password_is_old(topology_t *topology, const password_mark_t *sent) {
    pthread_mutex_lock(&topology->mutex);
    bool old = topology->password.changes != sent->changes && topology->password.tag != sent->tag;
    pthread_mutex_unlock(&topology->mutex);
    return old;
}

bool topology_note_password(topology_t *topology, const char *password) {
    pthread_mutex_lock(&topology->mutex);
    uint64_t before = topology->password.tag;
    topology->password.tag = password_tag(password);
    bool changed = before != topology->password.tag;
    topology->password.changes += changed;
    pthread_mutex_unlock(&topology->mutex);
    return before && changed;
}

condition_change_t topology_note_refusal(topology_t *topology, const char *refusal) {
    pthread_mutex_lock(&topology->mutex);
    condition_change_t change = condition_update_reason(&topology->password_refused, refusal);
    pthread_mutex_unlock(&topology->mutex);
    return change;
}

// ---- Redis Sentinel.

void topology_set_locator(topology_t *topology, const locator_ops_t *ops, locator_t *locator) {
    topology->locator_ops = ops;
    topology->locator = locator;
}

locator_t *topology_locator(const topology_t *topology) { return topology->locator; }
unsigned shard_moves(const shard_t *shard) { return atomic_load(&shard->moves); }

void topology_note_watched(topology_t *topology, mono_t at) {
    int64_t before = atomic_load(&topology->watched_ns);
    while (before < at.ns && !atomic_compare_exchange_weak(&topology->watched_ns, &before, at.ns)) continue;
}

bool topology_is_unwatched(const topology_t *topology, mono_t now) {
    const mono_t watched = {atomic_load(&topology->watched_ns)};
    return topology->locator && mono_diff(now, watched) > UNWATCHED_MS * NS_PER_MS;
}

static void shard_take_located(shard_t *shard, const located_t *located) {
    pthread_mutex_lock(&shard->topology->mutex);
    if (located->number > shard->located_number) { // another thread may have been faster with a later ask
        unsigned moves = shard_moves(shard);
        shard->located_number = located->number;
        shard_set_address(shard, located->address.host, located->address.port);
        if (moves == shard_moves(shard) && located->config_epoch != shard->config_epoch) shard_raise_epoch(shard);
        shard->config_epoch = located->config_epoch;
    }
    shard->topology->sentinel_certificate_end = located->certificate_end;
    topology_count_certificates(shard->topology);
    pthread_mutex_unlock(&shard->topology->mutex);
}

outcome_t shard_locate(shard_t *shard, mono_t since, const atomic_bool *stop, redis_error_t *error) {
    topology_t *topology = shard->topology;
    located_t located;
    *error = (redis_error_t){0};
    if (!topology->locator) return OUTCOME_OK;
    if (topology->locator_ops->find(topology->locator, since, stop, &located, error) == OUTCOME_OK)
        shard_take_located(shard, &located);
    topology_note_watched(topology, located.asked_at);
    return error->outcome;
}

// ---- Redis Cluster. See also topology_slots.c.

bool topology_is_cluster(const topology_t *topology) { return topology->slots != NULL; }

void topology_need_slots(topology_t *topology, const unsigned *slots, size_t count) {
    topology->needed = slots;
    topology->needed_count = count;
}

bool topology_lacks_slots(const topology_t *topology) {
    for (size_t i = 0; topology->slots && i < topology->needed_count; i++)
        if (topology->slots[topology_needed(topology, i)] == TOPOLOGY_SHARDS_MAX) return true;
    return false;
}

size_t topology_shard_of(const topology_t *topology, unsigned slot) { return topology->slots ? topology->slots[slot] : 0; }

int64_t topology_map_epoch(const topology_t *topology) { return atomic_load(&topology->map_epoch); }

unsigned topology_version(const topology_t *topology) { return atomic_load(&topology->version); }

void topology_wake_on_refresh(topology_t *topology, int wake_fd) { topology->refresh_fd = wake_fd; }
void topology_wake_on_slots(topology_t *topology, int wake_fd) { topology->slots_fd = wake_fd; }

void topology_want_refresh(topology_t *topology) {
    if (atomic_exchange(&topology->refresh_wanted, true)) return;
    wakeup_raise(topology->refresh_fd);
}

bool topology_take_refresh(topology_t *topology) { return atomic_exchange(&topology->refresh_wanted, false); }
