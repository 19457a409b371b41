#include "config/table.h"

#include "config/file/source.h"

static const char *const mode_words[] = {"auto", "single", "sentinel", "cluster", NULL};
static const char *const verify_words[] = {"full", "ca", "none", NULL};
static const char *const tls_words[] = {"1.2", "1.3", NULL};
static const char *const scope_words[] = {"auto", "group", "queue", NULL};
static const char *const backoff_words[] = {"none", "fixed", "exponential", NULL};
static const char *const unit_words[] = {"ms", "s", NULL};
static const char *const level_words[] = {"error", "warn", "info", "debug", NULL};
static const char *const history_words[] = {"minute", "off", NULL};
static const char *const format_words[] = {"auto", "json", "text", NULL};

#define TOP(field)    offsetof(config_t, field)
#define POLICY(field) offsetof(queue_policy_t, field)
#define QUEUE(field)  offsetof(queue_config_t, field)
#define ROW           CONFIG_KEY
#define PLAIN         CONFIG_PLAIN

// clang-format off
const config_key_t config_keys[] = {
    ROW("", "group", KEY_NAME, "default", "1", "128", TOP(group), false,
        "Name of the instances that serve the same queues under one lock; name it after the application.", PLAIN),
    ROW("", "history", KEY_ENUM, "minute", NULL, NULL, TOP(history), true,
        "Whether the leader keeps in Redis, for a day, what it counts in each queue every minute: 32KiB a queue, or 7KiB for every five minutes with more than 256 queues. off removes it.", .words = history_words),

    ROW("redis", "url", KEY_TEXT, "", "0", "4096", TOP(redis.url), false,
        "Redis in one line, redis://[user][:password]@host:port/db or unix:///path, instead of host, port, socket, db, username, password and tls; rediss:// is TLS.", .secret = true),
    ROW("redis", "host", KEY_ADDRESS, "127.0.0.1", "1", "255", TOP(redis.host), false,
        "Host name or address of Redis.", PLAIN),
    ROW("redis", "port", KEY_INT, "6379", "1", "65535", TOP(redis.port), false,
        "TCP port of Redis.", PLAIN),
    ROW("redis", "socket", KEY_ADDRESS, "", "0", "107", TOP(redis.socket), false,
        "Path of Redis's unix socket; wins over host and port; empty means none.", PLAIN),
    ROW("redis", "db", KEY_INT, "0", "0", "65535", TOP(redis.db), false,
        "Number of the Redis database.", PLAIN),
    ROW("redis", "username", KEY_USER, "", "0", "512", TOP(redis.username), false,
        "User of the Redis ACL; empty means the default user.", PLAIN),
    ROW("redis", "password", KEY_TEXT, "", "0", "4096", TOP(redis.password), false,
        "Password in the file itself; prefer password_file, which wins over it.", .secret = true),
    ROW("redis", "password_file", KEY_TEXT, "", "0", "4095", TOP(redis.password_file), false,
        "Path of a file that holds the password, read again at each connect and each second; empty means none.", .secret_file = true),
    ROW("redis", "timeout", KEY_DURATION, "5s", "100ms", "1m", TOP(redis.timeout_ms), false,
        "How long a connect or one reply of Redis may take.", PLAIN),

    ROW("redis", "mode", KEY_ENUM, "auto", NULL, NULL, TOP(redis.mode), false,
        "What Redis is: single for one server, sentinel for servers behind sentinels, cluster for a Cluster. auto finds out: sentinel if sentinels is set, cluster if nodes is set, and otherwise what the server says at the start.", .words = mode_words),
    ROW("redis", "nodes", KEY_STRINGS, "", "0", "32", TOP(redis.nodes), false,
        "Nodes of a Cluster that are asked for the others, \"host:port\" or \"[v6]:port\", instead of host and port.", PLAIN),
    ROW("redis", "sentinels", KEY_STRINGS, "", "0", "32", TOP(redis.sentinels), false,
        "Sentinels that are asked for the primary, \"host:port\" or \"[v6]:port\", instead of host and port.", PLAIN),
    ROW("redis", "master", KEY_TEXT, "", "0", "255", TOP(redis.master), false,
        "Name under which the sentinels monitor the primary.", PLAIN),
    ROW("redis", "sentinel_username", KEY_USER, "", "0", "512", TOP(redis.sentinel_username), false,
        "User of the sentinels' own ACL; empty means the default user.", PLAIN),
    ROW("redis", "sentinel_password", KEY_TEXT, "", "0", "4096", TOP(redis.sentinel_password), false,
        "Password of the sentinels in the file itself; prefer sentinel_password_file, which wins over it.", .secret = true),
    ROW("redis", "sentinel_password_file", KEY_TEXT, "", "0", "4095", TOP(redis.sentinel_password_file), false,
        "Path of a file that holds the password of the sentinels, read again at each connect; empty means none.", .secret_file = true),
    ROW("redis", "sentinel_tls", KEY_BOOL, CONFIG_AS_REDIS_TLS, NULL, NULL, TOP(redis.sentinel_tls), false,
        "Whether the sentinels speak TLS; the default is the value of tls.", PLAIN),
    ROW("redis", "addresses", KEY_STRINGS, "", "0", "32", TOP(redis.addresses), false,
        "Addresses that sentinels or nodes announce and the sidecar cannot reach, and the ones to use instead, \"announced:port=reachable:port\".", PLAIN),

    ROW("redis", "slice", KEY_MICROS, "500us", "50us", "100ms", TOP(redis.slice_us), true,
        "How long one script of the sidecar may keep Redis from other clients; batches of jobs grow and shrink with it.", PLAIN),

    ROW("redis", "tls", KEY_BOOL, "false", NULL, NULL, TOP(redis.tls), false,
        "Whether connections to Redis use TLS.", PLAIN),
    ROW("redis", "tls_ca_file", KEY_TEXT, "", "0", "4095", TOP(redis.tls_ca_file), false,
        "Path of a PEM file with the CA certificates to trust, read again at each connect; empty means those of the system.", PLAIN),
    ROW("redis", "tls_cert_file", KEY_TEXT, "", "0", "4095", TOP(redis.tls_cert_file), false,
        "Path of a PEM file with the client certificate, read again at each connect; empty means none.", PLAIN),
    ROW("redis", "tls_key_file", KEY_TEXT, "", "0", "4095", TOP(redis.tls_key_file), false,
        "Path of a PEM file with the key of the client certificate, read again at each connect.", .secret_file = true),
    ROW("redis", "tls_server_name", KEY_ADDRESS, "", "0", "255", TOP(redis.tls_server_name), false,
        "Name that the server's certificate must carry; empty means the host that the sidecar connects to.", PLAIN),
    ROW("redis", "tls_verify", KEY_ENUM, "full", NULL, NULL, TOP(redis.tls_verify), false,
        "What is checked of the server's certificate: chain and name, the chain to the CA alone, or nothing.", .words = verify_words),
    ROW("redis", "tls_min", KEY_ENUM, "1.2", NULL, NULL, TOP(redis.tls_min), false,
        "Oldest version of TLS to accept.", .words = tls_words),

    ROW("lock", "ttl", KEY_DURATION, "5s", "200ms", "10m", TOP(lock.ttl_ms), false,
        "How long the leader's lock lives without a renewal; also the longest pause at a takeover after a crash. The leader renews the lock after a third of this time.", PLAIN),
    ROW("lock", "scope", KEY_ENUM, "auto", NULL, NULL, TOP(lock.scope), false,
        "One lock for the whole group, or one for each hash tag, as Redis Cluster needs; auto is queue in a Cluster, and otherwise group.", .words = scope_words),
    ROW("lock", "lead", KEY_BOOL, "true", NULL, NULL, TOP(lock.lead), false,
        "Whether this instance may lead; with false it only copies failures into its audit log and serves page and API.", PLAIN),

    ROW("dispatcher", "batch", KEY_INT, "5000", "1", "5000", TOP(dispatcher.batch), true,
        "Maximum number of jobs that one promote script moves; fewer if these would take longer than redis.slice.", PLAIN),
    ROW("dispatcher", "safety_poll", KEY_DURATION, "30s", "50ms", "24h", TOP(dispatcher.safety_poll_ms), true,
        "Time between two polls of all queues. A poll finds jobs whose wake-up was lost.", PLAIN),
    ROW("dispatcher", "blind_poll", KEY_DURATION, "500ms", "50ms", "1h", TOP(dispatcher.blind_poll_ms), true,
        "How often new jobs are looked for where Redis refuses CLIENT TRACKING.", PLAIN),

    ROW("monitor", "scan_interval", KEY_DURATION, "auto", "50ms", "1h", TOP(monitor.scan_interval_ms), true,
        "Time between two scans of a backup list; auto is a tenth of the protected timeout, between 1s and 1m.", .zero = "auto"),
    ROW("monitor", "rotation", KEY_INT, "1000", "0", "1000000000", TOP(monitor.rotation), true,
        "Entries up to which a scan rotates a backup list; it reads a longer list in place, unless its jobs are large.", PLAIN),

    ROW("stream", "retain", KEY_DURATION, "24h", "1m", "365d", TOP(stream.retain_ms), true,
        "How long records stay in the failure stream; above half of max_bytes, or while Redis is nearly full, copied records go earlier.", PLAIN),
    ROW("stream", "min_records", KEY_INT, "10000", "0", "100000000", TOP(stream.min_records), true,
        "How many records stay in the failure stream at any age; above half of max_bytes, or while Redis is nearly full, copied records go nevertheless.", PLAIN),
    ROW("stream", "max_bytes", KEY_SIZE, "256MiB", "1MiB", "1TiB", TOP(stream.max_bytes), true,
        "Largest failure stream. Records that min_copies audit logs hold are trimmed in time; if the others fill it, no job is ended until they are copied.", PLAIN),
    ROW("stream", "min_copies", KEY_INT, "1", "1", "100", TOP(stream.min_copies), true,
        "How many audit logs must hold a record before it may be trimmed.", PLAIN),

    ROW("audit", "path", KEY_TEXT, "/var/lib/queue-sidecar/audit.db", "1", "4095", TOP(audit.path), false,
        "Path of the audit log, an SQLite file on a local disk.", PLAIN),
    ROW("audit", "retain", KEY_DURATION, "30d", "1h", "3650d", TOP(audit.retain_ms), true,
        "How long rows stay in the audit log.", PLAIN),
    ROW("audit", "retain_rows", KEY_INT, "0", "0", "1000000000000", TOP(audit.retain_rows), true,
        "Maximum number of rows in the audit log; 0 means no limit.", PLAIN),
    ROW("audit", "retain_bytes", KEY_SIZE, "1GiB", "1MiB", "16TiB", TOP(audit.retain_bytes), true,
        "Largest audit log; 0 means no limit.", .zero = "0"),
    ROW("audit", "ephemeral", KEY_BOOL, "false", NULL, NULL, TOP(audit.ephemeral), true,
        "Whether the audit log goes when the instance ends: it then takes back its acknowledgements.", PLAIN),

    ROW("http", "listen", KEY_TEXT, "127.0.0.1", "1", "255", TOP(http.listen), false,
        "Address that health, metrics, page and API are served on.", PLAIN),
    ROW("http", "port", KEY_INT, "8642", "0", "65535", TOP(http.port), false,
        "Port that health, metrics, page and API are served on; 0 turns them off.", PLAIN),
    ROW("http", "page", KEY_BOOL, "true", NULL, NULL, TOP(http.page), false,
        "Whether the page is served at /; health, metrics and API do not depend on it.", PLAIN),
    ROW("http", "token_file", KEY_TEXT, "", "0", "4095", TOP(http.token_file), false,
        "Path of a file with the tokens of page and API, read again when it changes; empty means none: then only what /metrics tells is shown.", .secret_file = true),
    ROW("http", "hosts", KEY_HOSTS, "", "0", "32", TOP(http.hosts), false,
        "Host names under which page and API are reached, without a port; addresses and localhost are always allowed.", PLAIN),
    ROW("http", "user_header", KEY_HEADER, "", "0", "64", TOP(http.user_header), false,
        "Header in which a proxy names the person, believed only with a token that has the right proxy; empty means none.", PLAIN),

    ROW("log", "level", KEY_ENUM, "info", NULL, NULL, TOP(log.level), true,
        "How much is logged.", .words = level_words),
    ROW("log", "format", KEY_ENUM, "auto", NULL, NULL, TOP(log.format), false,
        "Shape of a log line; auto is text on a terminal and JSON elsewhere.", .words = format_words),

    ROW("reload", "poll", KEY_DURATION, "30s", "50ms", "24h", TOP(reload.poll_ms), true,
        "Time between two checks of the file for changes; off means none. A SIGHUP or a swapped ConfigMap is noticed at once, even with off.", .zero = "off"),

    ROW("queue", "protected_timeout", KEY_DURATION, "3m", "50ms", "30d", POLICY(protected_timeout_ms), true,
        "How long one execution may take before the job counts as stalled.", PLAIN),
    ROW("queue", "alive_timeout", KEY_DURATION, "off", "50ms", "3650d", POLICY(alive_timeout_ms), true,
        "How long a job may exist in all before it is ended; off means for ever.", .zero = "off"),
    ROW("queue", "alive_kills", KEY_BOOL, "false", NULL, NULL, POLICY(alive_kills), true,
        "Whether a job past its alive timeout is ended even while its heartbeat is there.", PLAIN),
    // The default has no name of a queue: configs that lack the key rely on it, and their workers write <job id>_alive.
    ROW("queue", "heartbeat", KEY_PATTERN, "*_alive", "1", "1024", POLICY(heartbeat), true,
        "Key that a worker keeps while it works on a job, with the name of the queue and * for the job id; off means none.", PLAIN),
    ROW("queue", "retry_times", KEY_INT, "3", "0", "1000", POLICY(retry.times), true,
        "How many retries a job gets before its final failure.", PLAIN),
    ROW("queue", "retry_window", KEY_DURATION, "24h", "1s", "3650d", POLICY(retry.window_ms), true,
        "How long after the last retry the count of retries starts again.", PLAIN),
    ROW("queue", "retry_backoff", KEY_ENUM, "none", NULL, NULL, POLICY(retry.backoff), true,
        "How long a retry waits: not at all, always retry_delay, or doubling from retry_delay to retry_delay_max.", .words = backoff_words),
    ROW("queue", "retry_delay", KEY_DURATION, "10s", "50ms", "30d", POLICY(retry.delay_ms), true,
        "The first delay of a retry.", PLAIN),
    ROW("queue", "retry_delay_max", KEY_DURATION, "1h", "50ms", "30d", POLICY(retry.delay_max_ms), true,
        "The longest delay of a retry.", PLAIN),
    ROW("queue", "retry_jitter", KEY_REAL, "0.2", "0", "1", POLICY(retry.jitter), true,
        "Share of a delay that is random, from 0 to 1.", PLAIN),
    ROW("queue", "ready_limit", KEY_INT, "0", "0", "1000000000", POLICY(ready_limit), true,
        "Promotion waits while the ready list has this many jobs; 0 means no limit.", PLAIN),
    ROW("queue", "score_unit", KEY_ENUM, "ms", NULL, NULL, POLICY(score_unit), false,
        "Unit of the scores in the delayed zset, counted since 1970: milliseconds or seconds.", .words = unit_words),
    ROW("queue", "id_path", KEY_POINTER, "", "0", "512", POLICY(id_path), true,
        "JSON pointer to the job's id; empty means the SHA-256 of the job, which is also the id of a job above 64KiB.", PLAIN),
    ROW("queue", "created_path", KEY_POINTER, "", "0", "512", POLICY(created_path), true,
        "JSON pointer to the time a job was made, in score_unit since 1970; empty, or a time before 1973, means when the job was first seen.", PLAIN),
    ROW("queue", "type_path", KEY_POINTER, "", "0", "512", POLICY(type_path), true,
        "JSON pointer to the job's type, for the audit log; empty means none.", PLAIN),
    ROW("queue", "trace_path", KEY_POINTER, "", "0", "512", POLICY(trace_path), true,
        "JSON pointer to a W3C traceparent in the payload, which is kept with a failure; empty means none.", PLAIN),
    ROW("queue", "end_duplicates", KEY_BOOL, "false", NULL, NULL, POLICY(end_duplicates), true,
        "Whether jobs of equal bytes may be ended while several are in progress, instead of retried.", PLAIN),
    ROW("queue", "max_payload", KEY_SIZE, "16MiB", "1KiB", "512MiB", POLICY(max_payload), true,
        "Largest job that is handled; larger jobs stay where they are, and are counted and logged.", PLAIN),
    ROW("queue", "roles", KEY_ROLES, "dispatcher, monitor", NULL, NULL, POLICY(roles), true,
        "Roles that serve the queue: dispatcher promotes due jobs, monitor finds stalled jobs.", PLAIN),
    ROW("queue", "on_failure", KEY_REDIS, "", "0", "1024", POLICY(on_failure), true,
        "Key of a list that gets a small JSON of each final failure, for a worker who tells people; empty means none. Of more than 10,000 the oldest go.", PLAIN),
    ROW("queue", "hide", KEY_POINTERS, "", "0", "16", POLICY(hide), true,
        "JSON pointers to values in the payload that page and API never show, find or group by. They hide a payload that is no JSON object or array as a whole. Log and requeue keep every byte.", PLAIN),

    ROW("queue-only", "name", KEY_NAME, NULL, "1", "128", QUEUE(name), false,
        "Name of the queue; its keys take their names from it.", PLAIN),
    ROW("queue-only", "dialect", KEY_DIALECT, NULL, NULL, NULL, QUEUE(dialect), false,
        "How the queue's workers lay it out in Redis.", PLAIN),
    ROW("queue-only", "ready", KEY_REDIS, "<name>", "1", "1024", QUEUE(ready), false,
        "Key of the list that workers take jobs from.", PLAIN),
    ROW("queue-only", "delayed", KEY_REDIS, "<name>:delayed", "1", "1024", QUEUE(delayed), false,
        "Key of the zset of jobs that are not yet due.", PLAIN),
    ROW("queue-only", "backup", KEY_REDIS, "<name>:backup", "0", "1024", QUEUE(backup), false,
        "Key of the list of jobs in progress; empty means none, where only watch matters.", PLAIN),
    ROW("queue-only", "errors", KEY_REDIS, "<name>:errors", "1", "1024", QUEUE(errors), false,
        "Key of the hash in which workers report failed jobs.", PLAIN),
    ROW("queue-only", "dlq", KEY_REDIS, "", "0", "1024", QUEUE(dlq), false,
        "Key of a list that gets the bytes of each job that is ended, beside its record; empty means none. You must shorten this list yourself. In some dialects a requeue removes the job from it.", PLAIN),

    ROW("queue-only", "prefix", KEY_REDIS, CONFIG_DIALECT_PREFIX, "0", "256", QUEUE(prefix), false,
        "How the queue's keys begin in the foreign system; each dialect has a default of its own.", PLAIN),
};
// clang-format on

const size_t config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "raise CONFIG_KEYS_MAX");

bool config_key_in_policy(const config_key_t *key) { return strcmp(key->section, "queue") == 0; }

bool config_key_in_queue(const config_key_t *key) { return config_key_in_policy(key) || strcmp(key->section, "queue-only") == 0; }

const config_key_t *config_key_find(const char *section, const char *name) {
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0) return &config_keys[i];
    }
    return NULL;
}

size_t config_key_row(const config_key_t *key) { return (size_t)(key - config_keys); }

bool config_key_begins_section(size_t row) {
    const config_key_t *key = &config_keys[row];
    if (!*key->section || config_key_in_queue(key)) return false;
    return row == 0 || strcmp(key[-1].section, key->section) != 0;
}

enum {
    ANY_TEXT = 1 << NODE_TEXT,
    ANY_NUMBER = 1 << NODE_INT | 1 << NODE_REAL,
    ANY_LIST = 1 << NODE_ARRAY | 1 << NODE_LIST,
};

_Static_assert(MAX_CONFIG_STRING == 256 && CONFIG_STEPS_MAX == 16, "the descriptions name them");

const config_key_type_t config_key_types[] = {
    [KEY_INT] = {"integer", sizeof(int64_t), 1 << NODE_INT, "an integer from %s to %s"},
    [KEY_DURATION] = {"duration", sizeof(int64_t), ANY_TEXT, "a duration from \"%s\" to \"%s\""},
    [KEY_MICROS] = {"duration", sizeof(int64_t), ANY_TEXT, "a duration from \"%s\" to \"%s\""},
    [KEY_SIZE] = {"size", sizeof(int64_t), 1 << NODE_INT | ANY_TEXT, "a size from \"%s\" to \"%s\""},
    [KEY_REAL] = {"number", sizeof(double), ANY_NUMBER, "a number from %s to %s"},
    [KEY_BOOL] = {"boolean", sizeof(bool), 1 << NODE_BOOL, "true or false"},
    [KEY_ENUM] = {"word", sizeof(int), ANY_TEXT, NULL},
    [KEY_ROLES] = {"roles", sizeof(unsigned), ANY_LIST, "[\"dispatcher\"], [\"monitor\"] or [\"dispatcher\", \"monitor\"]"},
    [KEY_DIALECT] = {"word", sizeof(config_dialect_t *), ANY_TEXT, NULL},
    [KEY_TEXT] = {"text", sizeof(char *), ANY_TEXT, "text of %s to %s bytes without control characters"},
    [KEY_ADDRESS] = {"address", sizeof(char *), ANY_TEXT,
                     "text of %s to %s bytes without control characters, :// and @, as a URL belongs in redis.url"},
    [KEY_USER] = {"user", sizeof(char *), ANY_TEXT,
                  "text of %s to %s bytes without control characters and ://, as a URL belongs in redis.url"},
    [KEY_NAME] = {"name", sizeof(char *), ANY_TEXT,
                  "text of %s to %s bytes without spaces and control characters, and not begin with \"" CONFIG_OWN_PREFIX "\""},
    [KEY_HEADER] = {"header", sizeof(char *), ANY_TEXT,
                    "the name of a header, %s to %s letters, digits and -, such as \"X-Forwarded-User\", and none that holds a "
                    "secret"},
    [KEY_REDIS] = {"key", sizeof(char *), ANY_TEXT,
                   "the name of a Redis key, %s to %s bytes, and not begin with \"" CONFIG_OWN_PREFIX "\""},
    [KEY_PATTERN] = {"pattern", sizeof(char *), ANY_TEXT,
                     "\"off\", or the name of a Redis key with one * for the job id, such as \"email:*_alive\"; for stream also "
                     "\"consumer\""},
    [KEY_POINTER] = {"pointer", sizeof(char *), ANY_TEXT, "\"\" or a JSON pointer, such as \"/meta/id\""},
    [KEY_STRINGS] = {"texts", sizeof(strings_t), ANY_LIST, "a list of %s to %s texts, each of 1 to 256 bytes"},
    [KEY_POINTERS] = {"pointers", sizeof(strings_t), ANY_LIST,
                      "a list of %s to %s JSON pointers, each of 1 to 256 bytes, such as [\"/card/number\"]"},
    [KEY_HOSTS] = {"hosts", sizeof(strings_t), ANY_LIST,
                   "a list of %s to %s host names without scheme, port and path, such as [\"queues.example.com\"]"},
    [KEY_STEPS] = {"delays", sizeof(delay_steps_t), ANY_LIST,
                   "a list of at most 16 steps, such as [\"10: 10s\", \"*: 1m\"], ascending, each delay from %s to %s and the "
                   "last for *"},
};
