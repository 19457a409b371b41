// Settings of the group `redis` that depend on each other.

#include <arpa/inet.h>

#include "base/text/address.h"
#include "base/text/units.h"
#include "config/dialect.h"
#include "config/literal.h"
#include "config/load.h"
#include "config/value.h"

enum { SLICES_PER_TTL = 10 };

redis_mode_t config_redis_mode(const redis_config_t *redis) {
    if (redis->mode != REDIS_MODE_AUTO) return redis->mode;
    if (redis->sentinels.count) return REDIS_MODE_SENTINEL;
    return redis->nodes.count ? REDIS_MODE_CLUSTER : redis->found;
}

bool config_may_be_cluster(const config_t *config) {
    const redis_config_t *redis = &config->redis;
    if (redis->mode != REDIS_MODE_AUTO || redis->sentinels.count || redis->nodes.count || *redis->socket || redis->db)
        return false;
    for (size_t i = 0; i < config->queue_count; i++)
        if (config->queues[i].dialect->many_slots) return false;
    return config->lock.scope != LOCK_SCOPE_GROUP;
}

lock_scope_t config_lock_scope(const config_t *config, redis_mode_t mode) {
    if (config->lock.scope != LOCK_SCOPE_AUTO) return config->lock.scope;
    return mode == REDIS_MODE_CLUSTER ? LOCK_SCOPE_QUEUE : LOCK_SCOPE_GROUP;
}

static const location_t *redis_location(const load_t *load, const char *name) {
    return &load->keys[config_key_row(config_key_find("redis", name))];
}

static bool redis_is_from_url(const load_t *load, const char *name) {
    const location_t *url = redis_location(load, "url"), *key = redis_location(load, name);
    if (url == key || url->origin == ORIGIN_DEFAULT || url->origin != key->origin) return false;
    return url->line == key->line && url->file == key->file;
}

// Returns (owned) the name of a key for messages: "`redis.db`", "the db of `redis.url`", or a variable of the environment.
static char *redis_shown(const load_t *load, const char *name) {
    bool in_url = redis_is_from_url(load, name);
    const config_key_t *key = config_key_find("redis", in_url ? "url" : name);
    char *shown = config_load_shown(key, redis_location(load, name)->origin);
    char *whole = in_url ? mem_printf("the %s of %s", name, shown) : mem_str(shown);
    free(shown);
    return whole;
}

// Adds "NAME text" at the place of the key.
static void redis_report(load_t *load, diagnostics_t *list, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void redis_report(load_t *load, diagnostics_t *list, const char *name, const char *format, ...) {
    va_list args;
    char *shown = redis_shown(load, name), *prefix = mem_printf("%s ", shown);
    va_start(args, format);
    diagnostic_vadd(list, redis_location(load, name), prefix, format, args);
    va_end(args);
    free(prefix);
    free(shown);
}

// Whether the value is another than the default: a config may name each key with its default.
static bool redis_is_set(const load_t *load, const char *name) {
    const config_key_t *key = config_key_find("redis", name);
    const void *field = (const char *)load->config + key->at;
    switch (key->type) {
    case KEY_BOOL: return *(const bool *)field;
    case KEY_ENUM: return *(const int *)field != 0; // the first word is the default
    case KEY_STRINGS: return ((const strings_t *)field)->count != 0;
    default: return **(char *const *)field != '\0';
    }
}

// ---- Lists of addresses.

static bool list_read(const char *text, bool pair, address_t *address) {
    address_t reachable;
    return pair ? address_parse_pair(slice_text(text), address, &reachable) : address_parse(slice_text(text), address);
}

static bool list_has_before(const strings_t *list, size_t end, bool pair, const address_t *wanted) {
    address_t address;
    for (size_t i = 0; i < end; i++)
        if (list_read(list->items[i], pair, &address) && address_equal(&address, wanted)) return true;
    return false;
}

static void list_check(load_t *load, const char *name, const strings_t *list, bool pair) {
    for (size_t i = 0; i < list->count; i++) {
        address_t address;
        buffer_t item = {0};
        config_value_show(list->items[i], &item);
        if (!list_read(list->items[i], pair, &address))
            redis_report(load, load->errors, name, "has %s, but each text must be %s", buffer_text(&item),
                         pair ? "\"announced=reachable\", each of them host:port or [v6]:port" : "host:port or [v6]:port");
        else if (list_has_before(list, i, pair, &address))
            redis_report(load, load->errors, name, "has %s twice: remove one of them", address_text(&address).text);
        buffer_free(&item);
    }
}

// ---- Keys that need or exclude each other.

static const struct {
    const char *key, *needs, *why;
} needs[] = {
    {"sentinels", "master", "the name under which the sentinels monitor the primary, such as \"mymaster\""},
    {"master", "sentinels", "the addresses of the sentinels, such as [\"10.0.0.1:26379\"]"},
    {"sentinel_username", "sentinels", "the addresses of the sentinels; the user of Redis is `username`"},
    {"sentinel_password", "sentinels", "the addresses of the sentinels; the password of Redis is `password`"},
    {"sentinel_password_file", "sentinels", "the addresses of the sentinels; the password of Redis is in `password_file`"},
    {"tls_cert_file", "tls_key_file", "the file with the certificate's key"},
    {"tls_key_file", "tls_cert_file", "the file with the key's certificate"},
};

static void redis_check_needs(load_t *load) {
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (redis_is_set(load, needs[i].key) && !redis_is_set(load, needs[i].needs))
            redis_report(load, load->errors, needs[i].key, "needs `redis.%s`, %s", needs[i].needs, needs[i].why);
    const location_t *sentinel_tls = redis_location(load, "sentinel_tls");
    bool means_redis = load->config->redis.sentinel_tls && !load->config->redis.tls; // with both, the effective config has it
    if (means_redis && sentinel_tls->origin != ORIGIN_DEFAULT && !redis_is_set(load, "sentinels"))
        redis_report(load, load->errors, "sentinel_tls", "needs `redis.sentinels`; TLS to Redis itself is `tls`");
}

static void redis_check_pair(load_t *load, const char *name, const char *other, const char *remedy) {
    if (!redis_is_set(load, name) || !redis_is_set(load, other)) return;
    char *shown = redis_shown(load, other);
    redis_report(load, load->errors, name, "and %s are both set: %s", shown, remedy);
    free(shown);
}

static void redis_check_mode(load_t *load) {
    static const struct {
        redis_mode_t mode;
        const char *key;
    } refusals[] = {
        {REDIS_MODE_SINGLE, "sentinels"}, {REDIS_MODE_SINGLE, "nodes"},      {REDIS_MODE_SENTINEL, "nodes"},
        {REDIS_MODE_SENTINEL, "socket"},  {REDIS_MODE_CLUSTER, "sentinels"}, {REDIS_MODE_CLUSTER, "socket"},
    };
    redis_mode_t mode = load->config->redis.mode;
    const char *word = config_key_find("redis", "mode")->words[mode], *remedy = "remove one of them";
    redis_check_pair(load, "tls", "socket", "TLS is for host and port only, so remove one of them");
    if (mode == REDIS_MODE_AUTO) {
        redis_check_pair(load, "nodes", "socket", remedy);
        redis_check_pair(load, "nodes", "sentinels", remedy);
        redis_check_pair(load, "sentinels", "socket", remedy);
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (refusals[i].mode != mode || !redis_is_set(load, refusals[i].key)) continue;
        char *shown = redis_shown(load, refusals[i].key);
        redis_report(load, load->errors, "mode", "is \"%s\", but %s is set: %s", word, shown, remedy);
        free(shown);
    }
    if (mode == REDIS_MODE_SENTINEL && !redis_is_set(load, "sentinels"))
        redis_report(load, load->errors, "mode", "is \"%s\" and needs `redis.sentinels` and `redis.master`", word);
}

static void redis_check_cluster(load_t *load) {
    const config_t *config = load->config;
    if (config_redis_mode(&config->redis) != REDIS_MODE_CLUSTER) return;
    if (config->redis.db)
        redis_report(load, load->errors, "db", "is %" PRId64 ", but a Cluster has database 0 only: remove it", config->redis.db);
    const config_key_t *scope = config_key_find("lock", "scope");
    const location_t *location = &load->keys[config_key_row(scope)];
    if (config->lock.scope != LOCK_SCOPE_GROUP) return;
    char *shown = config_load_shown(scope, location->origin);
    diagnostic_add(load->errors, location,
                   "%s is \"group\", but queues of a Cluster need locks in their own slots: set \"queue\", or remove it", shown);
    free(shown);
}

// ---- TLS.

static void redis_check_tls(load_t *load) {
    static const char *const keys[] = {"tls_ca_file",     "tls_cert_file", "tls_key_file",
                                       "tls_server_name", "tls_verify",    "tls_min"};
    const redis_config_t *redis = &load->config->redis;
    bool used = redis->tls || redis->sentinel_tls;
    for (size_t i = 0; !used && !load->url_refused && i < sizeof keys / sizeof *keys; i++)
        if (redis_is_set(load, keys[i]))
            redis_report(load, load->errors, keys[i], "has no effect without TLS: set `redis.tls` to true, or remove it");
    if (used && redis->tls_verify == TLS_VERIFY_CA)
        redis_report(load, load->warnings, "tls_verify",
                     "is \"ca\": any server with a certificate of the CA can pose as Redis; prefer \"full\" with "
                     "`tls_server_name`");
    if (used && redis->tls_verify == TLS_VERIFY_NONE)
        redis_report(load, load->warnings, "tls_verify",
                     "is \"none\": any server can pose as Redis and read the password; set `tls_ca_file` and \"full\"");
}

// ---- Passwords.

static void redis_check_secret(load_t *load, const char *inline_key, const char *file_key) {
    if (!redis_is_set(load, inline_key)) return;
    const location_t *inline_location = redis_location(load, inline_key);
    if (inline_location->origin == ORIGIN_FILE)
        diagnostic_add(load->warnings, inline_location, "`redis`: inline secret: use %s", file_key);
    if (redis_is_set(load, file_key))
        diagnostic_add(load->warnings, inline_location, "`redis`: %s is ignored, as %s is set: remove one of them", inline_key,
                       file_key);
}

static void redis_check_user_alone(load_t *load) {
    redis_config_t *redis = &load->config->redis;
    const location_t *url = redis_location(load, "url");
    if (*redis->password || *redis->password_file || redis_location(load, "username")->origin != url->origin)
        redis->user_alone = false;
    if (redis->user_alone)
        diagnostic_add(load->warnings, url,
                       "the URL of Redis has a user and no password: if the user is a password, write :PASSWORD@");
}

// ---- All.

static void redis_check_host(load_t *load) {
    const char *host = load->config->redis.host;
    char *v6 = mem_printf("%.*s", (int)strcspn(host, "%"), host); // without the zone
    unsigned char bytes[16];
    bool good = !strpbrk(host, ":[") || inet_pton(AF_INET6, v6, bytes) == 1;
    buffer_t shown = {0};
    config_value_show(host, &shown);
    if (!good)
        redis_report(load, load->errors, "host",
                     "is %s, but must be a name or an address: write the port in `redis.port`, and an IPv6 address without "
                     "brackets",
                     buffer_text(&shown));
    buffer_free(&shown);
    free(v6);
}

static void redis_warn_unused_host(load_t *load) {
    const redis_config_t *redis = &load->config->redis;
    const char *instead = redis->sentinels.count ? "sentinels" : redis->nodes.count ? "nodes" : NULL;
    if (instead && strcmp(redis->host, config_key_find("redis", "host")->fallback) != 0)
        redis_report(load, load->warnings, "host", "is ignored, as `redis.%s` is set: remove it", instead);
}

// While one script runs, no instance can renew its lock.
static void redis_check_slice(load_t *load) {
    const config_t *config = load->config;
    int64_t most_us = config->lock.ttl_ms * 1000 / SLICES_PER_TTL;
    if (config->redis.slice_us > most_us)
        redis_report(load, load->warnings, "slice",
                     "is %s, more than a tenth of `lock.ttl`, which is %s: no lock can be renewed while one script runs. Set "
                     "`slice` to at most \"%s\", or set a longer `lock.ttl`",
                     micros_exact(config->redis.slice_us).text, duration_exact(config->lock.ttl_ms).text,
                     micros_exact(most_us).text);
}

void config_load_redis(load_t *load) {
    redis_config_t *redis = &load->config->redis;
    if (redis_location(load, "sentinel_tls")->origin == ORIGIN_DEFAULT) redis->sentinel_tls = redis->tls;
    list_check(load, "nodes", &redis->nodes, false);
    list_check(load, "sentinels", &redis->sentinels, false);
    list_check(load, "addresses", &redis->addresses, true);
    redis_check_needs(load);
    redis_check_mode(load);
    redis_check_cluster(load);
    redis_check_tls(load);
    redis_check_secret(load, "password", "password_file");
    redis_check_secret(load, "sentinel_password", "sentinel_password_file");
    redis_check_user_alone(load);
    redis_check_host(load);
    redis_warn_unused_host(load);
    redis_check_slice(load);
}
