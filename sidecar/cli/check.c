// queue-sidecar check: checks the config; with --redis also the audit path, the preflight and the leader.

#include <sys/stat.h>

#include "audit/audit.h"
#include "base/file.h"
#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/args.h"
#include "cli/terminal.h"
#include "http/api/tokens.h"
#include "http/http.h"
#include "inspect/preflight.h"
#include "inspect/snapshot.h"
#include "inspect/survey.h"
#include "operate/shards.h"
#include "operate/status/servers_text.h"
#include "queue/lock.h"

enum { INDENT = 9 }; // columns of a label

// `self` is an int, the number of faults so far.
static void check_print(void *self, preflight_level_t finding, const char *queue, const char *text) {
    static const char *const LABELS[] = {"ok", "note", "warning", "FAULT", "FAULT", "FAULT"};
    int *faults = self;
    if (finding == PREFLIGHT_QUEUE_MOVING) return; // check_moving tells
    if (finding > PREFLIGHT_WARNING) ++*faults;
    char *line = queue ? mem_printf("queue \"%s\": %s", queue, text) : mem_str(text);
    size_t columns = terminal_columns(stderr);
    buffer_t out = {0}, safe = {0};
    terminal_escape(&safe, slice_text(line), false); // the name of a type or a key may come from Redis
    wrap_at(&out, buffer_text(&safe), INDENT, columns ? columns : SIZE_MAX);
    fprintf(stderr, "%-*s%s", INDENT, LABELS[finding], buffer_text(&out)); // stdout has the config, and may be a file
    buffer_free(&out);
    buffer_free(&safe);
    free(line);
}

// Prints the leader of a lock, and the queues of the config that this leader does not serve.
static void check_lock(const preflight_call_t *call, const snapshot_t *all, size_t index) {
    const lock_keys_t *lock = &call->keys->locks[index];
    const snapshot_lock_t *view = &all->locks[index];
    buffer_t unserved = {0};
    if (view->error.kind == ERROR_SLOT_IS_MOVING) return; // check_moving tells
    if (*view->error.text) {
        preflight_report(call, PREFLIGHT_REFUSED, NULL, "cannot read the leader of \"%s\": %s", lock->name, view->error.text);
    } else if (!*view->holder) {
        bool leads = call->keys->config->lock.lead;
        preflight_report(call, leads ? PREFLIGHT_FACT : PREFLIGHT_WARNING, NULL, "\"%s\" has no leader now%s", lock->name,
                         leads ? "" : ", and an instance of this config never leads");
    } else if (token_ttl_ms(view->holder) <= 0) {
        preflight_report(
            call, PREFLIGHT_REFUSED, NULL,
            "\"%s\": the lock %s holds \"%s\", which no sidecar wrote; no instance can lead until that key is deleted",
            lock->name, lock->key, view->holder);
    } else {
        preflight_report(call, PREFLIGHT_FACT, NULL, "\"%s\" is led by %s, lock TTL %s", lock->name,
                         *view->leader ? view->leader : view->holder, duration_text(view->pttl_ms).text);
        for (size_t i = 0; i < lock->queue_count; i++)
            if (!all->queues[lock->queues[i]].served)
                buffer_printf(&unserved, "%s%s", unserved.len ? ", " : "", call->keys->queues[lock->queues[i]].config->name);
    }
    if (unserved.len)
        preflight_report(call, PREFLIGHT_REFUSED, NULL,
                         "the leader of \"%s\" does not serve: %s; give instances with other queues their own group", lock->name,
                         buffer_text(&unserved));
    buffer_free(&unserved);
}

static void check_owner(const preflight_call_t *call, const snapshot_t *all, size_t queue) {
    const queue_keys_t *keys = &call->keys->queues[queue];
    const char *owner = all->queues[queue].owner;
    if (*owner && strcmp(owner, call->keys->locks[keys->lock].name) != 0)
        preflight_report(call, PREFLIGHT_WARNING, keys->config->name,
                         "group \"%s\" owns this queue: while that group has a leader, instances of this config do not serve it",
                         owner);
}

static void check_moving(const preflight_call_t *call, const snapshot_t *all, size_t queue) {
    const queue_keys_t *keys = &call->keys->queues[queue];
    if (all->queues[queue].error.kind == ERROR_SLOT_IS_MOVING || all->locks[keys->lock].error.kind == ERROR_SLOT_IS_MOVING)
        preflight_report(call, PREFLIGHT_WARNING, keys->config->name,
                         "its slot, %u, is being moved to another node; check again when that is done",
                         keyspace_slot(call->keys->locks[keys->lock].key));
}

static outcome_t check_locks(const preflight_call_t *call) {
    snapshot_t view;
    outcome_t outcome = snapshot_read(call->conn, call->keys, &view, call->error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < call->keys->lock_count; i++) check_lock(call, &view, i);
    for (size_t i = 0; outcome == OUTCOME_OK && i < call->keys->queue_count; i++) check_owner(call, &view, i);
    for (size_t i = 0; outcome == OUTCOME_OK && i < call->keys->queue_count; i++) check_moving(call, &view, i);
    snapshot_free(&view);
    return outcome;
}

static void check_print_path(void *self, audit_severity_t finding, const char *text) {
    static const preflight_level_t OF[] = {
        [AUDIT_OK] = PREFLIGHT_FACT, [AUDIT_WARNING] = PREFLIGHT_WARNING, [AUDIT_ERROR] = PREFLIGHT_REFUSED};
    check_print(self, OF[finding], NULL, text);
}

// In a container there is nobody else, so the right to read is only noted.
static void check_rights(const char *key, const char *path, int *faults) {
    unsigned rights = *path ? file_rights_of_others(path) : 0;
    char *text =
        mem_printf("%s %s can be %s by every user of this machine: chmod o-rw", key, path, rights & S_IWOTH ? "written" : "read");
    if (rights) check_print(faults, rights & S_IWOTH ? PREFLIGHT_WARNING : PREFLIGHT_NOTE, NULL, text);
    free(text);
}

static void check_print_mode(const servers_t *servers, const queue_shards_t *shards, const redis_config_t *redis, int *faults) {
    const servers_t cluster = {.mode = REDIS_MODE_CLUSTER, .primary_count = shards->count};
    buffer_t line = {0};
    if (config_redis_mode(redis) < REDIS_MODE_SENTINEL) return;
    bool unknown = shards_in_cluster(shards) ? !cluster.primary_count : !*servers->believed;
    servers_text_mode(shards_in_cluster(shards) ? &cluster : servers, redis, &line);
    check_print(faults, unknown ? PREFLIGHT_REFUSED : PREFLIGHT_FACT, NULL, buffer_text(&line));
    buffer_free(&line);
}

static void check_primary(const preflight_call_t *call, const primary_view_t *primary) {
    redis_mode_t mode = config_redis_mode(&call->keys->config->redis);
    buffer_t line = {0};
    servers_text_primary(primary, &line);
    if (mode == REDIS_MODE_CLUSTER) servers_text_queues(call->keys, &line);
    preflight_report(call, PREFLIGHT_FACT, NULL, "%s %s: %s", mode >= REDIS_MODE_SENTINEL ? "primary" : "single server",
                     primary->address, buffer_text(&line));
    buffer_free(&line);
}

static void check_print_problems(const servers_t *servers, int *faults) {
    static const struct {
        servers_problem_fn *find;
        const char *remedy;
    } problems[] = {
        {servers_refuse_writes, SERVERS_WRITES_REMEDY},
        {servers_sentinels_silent, "see that they run, and that redis.sentinels and redis.sentinel_* fit them"},
        {servers_sentinels_quarrel, "see that all monitor the same servers under this name; the highest epoch is believed"},
        {servers_certificate_ends, "renew it, or every new connection fails then"},
        {servers_one_node, "set redis.mode to \"cluster\", so that it finds the others"},
        {servers_failover_loses, "set it to 1 on all servers, if writes may wait while no replica keeps up"},
    };
    buffer_t line = {0};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        buffer_clear(&line);
        if (!problems[i].find(servers, time_now_ms(), &line)) continue;
        buffer_printf(&line, "; %s", problems[i].remedy);
        check_print(faults, PREFLIGHT_WARNING, NULL, buffer_text(&line));
    }
    buffer_free(&line);
}

static void check_replica(const preflight_call_t *call, const primary_view_t *replica) {
    bool found = config_redis_mode(&call->keys->config->redis) >= REDIS_MODE_SENTINEL;
    preflight_report(call, PREFLIGHT_REFUSED, NULL,
                     "the server at %s is a replica of %s, and the sidecar must talk to the primary: %s", replica->address,
                     replica->replica_of,
                     found ? "a failover may be under way, so check again in some seconds"
                           : "set redis.host and redis.port (or redis.url) to the primary, or set redis.sentinels and "
                             "redis.master, which find it after each failover");
}

// Checks one primary and its queues.
static outcome_t check_shard(const queue_shard_t *shard, servers_t *servers, int *faults, redis_error_t *error) {
    const preflight_call_t call = {shard->conn, shard->keys, check_print, faults, error};
    outcome_t outcome = conn_connect(shard->conn, error);
    if (outcome == OUTCOME_OK) outcome = servers_add_primary(servers, shard->conn, shard->keys->queues[0].absent, error);
    if (outcome != OUTCOME_OK) return outcome;
    const primary_view_t *primary = &servers->primaries[servers->primary_count - 1];
    if (*primary->replica_of) {
        check_replica(&call, primary);
        return OUTCOME_OK; // it refuses the requests that follow
    }
    check_primary(&call, primary);
    outcome = conn_open(shard->conn, error);
    if (outcome == OUTCOME_OK) outcome = preflight(&call);
    // check_moving tells of a slot that is being moved.
    if (outcome == OUTCOME_REFUSED && error_kind_is_slot(error->kind)) outcome = OUTCOME_OK;
    if (outcome == OUTCOME_OK) outcome = survey(&call);
    if (outcome == OUTCOME_OK) outcome = check_locks(&call);
    return outcome;
}

// Returns the worst outcome.
static outcome_t check_shards(const queue_shards_t *shards, const config_t *config, servers_t *servers, int *faults) {
    outcome_t worst = OUTCOME_OK;
    for (size_t i = 0; i < shards->count; i++) {
        redis_error_t error = {0};
        outcome_t outcome = check_shard(&shards->items[i], servers, faults, &error);
        if (outcome != OUTCOME_OK) cli_print_redis_error(conn_target(shards->items[i].conn), &error);
        if (outcome > worst) worst = outcome;
    }
    for (size_t i = 0; i < config->queue_count; i++) {
        char *text = mem_printf("no node serves its slot, %u; see CLUSTER SLOTS", shards->slots[i]);
        if (!shards_is_served(shards, i)) check_print(faults, PREFLIGHT_QUEUE_REFUSED, config->queues[i].name, text);
        free(text);
    }
    return worst;
}

// Another instance on this machine needs a port of its own. The sidecar of this very config may run, too.
static void check_http(const config_t *config, int *faults) {
    char why[200];
    if (config->http.port == 0 || http_can_listen(config->http.listen, config->http.port, why, sizeof why)) return;
    char *line = mem_printf("%s. Do nothing if the sidecar of this config runs here", why);
    check_print(faults, PREFLIGHT_NOTE, NULL, line);
    free(line);
}

typedef struct check_tokens {
    const char *path;
    bool here; // whether the sidecar runs on this machine
    int *faults;
} check_tokens_t;

static void check_print_token(void *self, int64_t line, const char *why) {
    const check_tokens_t *check = self;
    char *place = line ? mem_printf(":%" PRId64, line) : mem_str("");
    char *text = mem_printf("http.token_file %s%s: %s%s", check->path, place, why, line ? "" : "; nobody can sign in");
    check_print(check->faults, check->here ? PREFLIGHT_REFUSED : PREFLIGHT_WARNING, NULL, text);
    free(text);
    free(place);
}

// Another machine, such as one that only tests the config, has no tokens.
static void check_tokens(const config_t *config, bool here, int *faults) {
    check_tokens_t check = {config->http.token_file, here, faults};
    unsigned rights = 0;
    bool read = *check.path && (here || access(check.path, R_OK) == 0);
    if (read) rights = tokens_check(check.path, check_print_token, &check);
    if ((read || !*check.path) && *config->http.user_header && !(rights & RIGHT_PROXY))
        check_print(faults, PREFLIGHT_WARNING, NULL,
                    "http.user_header is believed only with a token that has the right proxy, and http.token_file has none");
}

static int check_redis(const config_t *config) {
    queue_shards_t *shards = shards_new(config, "queue-sidecar-check", NULL);
    servers_t servers = {0};
    redis_error_t error;
    int faults = 0;
    audit_check_path(config->audit.path, config->audit.retain_bytes, check_print_path, &faults);
    if (!config->lock.lead)
        check_print(&faults, PREFLIGHT_NOTE, NULL,
                    "lock.lead is false: an instance of this config copies failures and serves page and API, and never leads");
    check_http(config, &faults);
    check_tokens(config, true, &faults);
    check_rights("audit.path", config->audit.path, &faults);
    check_rights("redis.password_file", config->redis.password_file, &faults);
    check_rights("redis.sentinel_password_file", config->redis.sentinel_password_file, &faults);
    check_rights("redis.tls_key_file", config->redis.tls_key_file, &faults);
    check_rights("http.token_file", config->http.token_file, &faults);
    servers_read_sentinels(&servers, &config->redis, NULL);
    outcome_t outcome = shards_find(shards, true, &error);
    if (outcome != OUTCOME_OK) cli_print_redis_error("", &error);
    check_print_mode(&servers, shards, &config->redis, &faults);
    if (outcome == OUTCOME_OK) outcome = check_shards(shards, config, &servers, &faults);
    check_print_problems(&servers, &faults);
    if (outcome == OUTCOME_OK && !faults) check_print(&faults, PREFLIGHT_FACT, NULL, "preflight passed");
    servers_free(&servers);
    shards_free(shards);
    if (outcome != OUTCOME_OK && outcome != OUTCOME_REFUSED) return CLI_REDIS_UNREACHABLE;
    return outcome == OUTCOME_REFUSED || faults ? CLI_FAILED : CLI_OK;
}

static int check_run(const cli_args_t *args) {
    config_t *config = cli_load_config_file(args->config);
    buffer_t dump = {0}, faults = {0};
    if (!config || !cli_check_tls_files(config, &faults)) {
        fputs(buffer_text(&faults), stderr);
        buffer_free(&faults);
        config_free(config);
        return CLI_BAD_CONFIG;
    }
    config_dump(config, &dump);
    fwrite(dump.data, 1, dump.len, stdout);
    fflush(stdout); // before the findings, where both go to a terminal
    buffer_free(&dump);
    if (args->redis) cli_find_mode(config);
    int warnings = 0, status = CLI_OK;
    if (args->redis)
        status = check_redis(config);
    else
        check_tokens(config, false, &warnings);
    config_free(config);
    return status;
}

static const cli_option_t check_table[] = {
    CLI_OPTION_CONFIG,
    CLI_FLAG(cli_args_t, 0, "redis", redis,
             "connect and run the preflight: version, settings, key types, rights, leader; tell of sentinels, primaries, "
             "replicas and TLS; check audit.path: rights, disk space, writer; check that http.port is free, and http.token_file"),
};

const cli_command_t cli_check_command = {
    .name = "check",
    .summary = "Check a config and print every effective value",
    .examples = "queue-sidecar check\tthe config that `run` would read\n"
                "queue-sidecar check -c queue-sidecar.cfg\tanother config\n"
                "queue-sidecar check -c my.cfg --redis\talso check Redis and the audit log\n"
                "queue-sidecar check -c my.cfg >effective.cfg\tthe output is itself a config\n",
    .usage = "check [-c FILE] [--redis]",
    CLI_OPTIONS(check_table),
    .text = "Prints every effective value and its origin; secrets are redacted. Warnings and faults of the config and of "
            "http.token_file, each with file and line, and what --redis finds go to standard error. Without --redis a file of "
            "tokens that is not there is no fault: it may be on another machine.",
    .exits = "0 good\n1 with --redis: there is a fault, or Redis refuses a command\n2 wrong usage\n69 with --redis: Redis is "
             "unreachable\n78 bad config\n",
    .run = check_run,
};
