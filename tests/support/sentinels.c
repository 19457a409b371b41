#include "sentinels.h"
#include "scoped.h"

#include "certificates.h"
#include "tempdir.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    START_MS = 15000,
    COMMAND_MS = 2000,
    DOWN_AFTER_MS = 500,
    DOWN_AFTER_62_MS = 2500,
    FAILOVER_TIMEOUT_MS = 3000,
    ENOUGH_ARGS = 64
};

int sentinels_port(const sentinels_t *s, int server) {
    return s->tls ? server_tls_port(s->servers[server]) : server_port(s->servers[server]);
}

static const char *sentinel_binary(void) {
    const char *chosen = getenv("QS_REDIS_SERVER_BIN");
    return chosen && *chosen ? chosen : "redis-server";
}

/* No assertion: a sentinel that is dead or frozen has no connection. */
static redis_t *sentinel_connect(sentinels_t *s, int number) {
    redis_t *r = redis_open_path(s->sentinels[number].socket, COMMAND_MS);
    if (!r || !s->password) return r;
    redisReply *reply = redisCommand(r, "AUTH %s", s->password);
    bool good = reply && reply->type != REDIS_REPLY_ERROR;
    if (reply) freeReplyObject(reply);
    if (good) return r;
    redis_close(r);
    return NULL;
}

redis_t *sentinel_open(sentinels_t *s, int number) {
    redis_t *r = sentinel_connect(s, number);
    cr_assert_not_null(r, "cannot connect to sentinel %d", number);
    return r;
}

static bool sentinel_answers(sentinels_t *s, int number) {
    scoped(redis_drop) redis_t *r = sentinel_connect(s, number);
    redisReply *reply = r ? redisCommand(r, "PING") : NULL;
    bool pong = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply) freeReplyObject(reply);
    return pong;
}

/* The sentinel sees sooner that a server has become a replica; during a failover its period is 1 s, whatever is set here
 * (redis src/sentinel.c, sentinelSendPeriodicCommands). And it connects again after 0.2 s instead of 1 s: with down-after 0.5 s,
 * it would begin a second failover after many a first one. Redis 6.2 does not know the command: see down_after_ms. */
static void sentinel_look_often(sentinels_t *s, int number) {
    scoped(redis_drop) redis_t *r = sentinel_open(s, number);
    redis_do(r, "SENTINEL DEBUG info-period 300 ping-period 200");
}

static bool sentinel_launch(sentinels_t *s, int number) {
    sentinel_t *sentinel = &s->sentinels[number];
    char *out = temp_path(sentinel->dir, "stderr");
    unlink(sentinel->socket);
    child_free(sentinel->child);
    const char *argv[] = {sentinel_binary(), sentinel->conf, "--sentinel", NULL};
    sentinel->child = child_start(&(child_spec_t){.argv = argv, .out = out, .err = out});
    bool up = wait_for(!child_running(sentinel->child) || sentinel_answers(s, number), START_MS) && sentinel->child->running;
    if (up) sentinel_look_often(s, number);
    return up;
}

static void print_conf(const sentinels_t *s, const sentinel_t *sentinel, FILE *out) {
    if (s->tls)
        fprintf(out,
                "port 0\ntls-port %d\ntls-replication yes\ntls-auth-clients no\n"
                "tls-cert-file %s/server.crt\ntls-key-file %s/server.key\ntls-ca-cert-file %s/ca.crt\n",
                sentinel->port, s->tls, s->tls, s->tls);
    else
        fprintf(out, "port %d\n", sentinel->port);
    fprintf(out, "bind 127.0.0.1 -::1\ndir %s\nlogfile %s/sentinel.log\nunixsocket %s\nprotected-mode no\n", sentinel->dir,
            sentinel->dir, sentinel->socket);
}

/* A sentinel of Redis 6.2 connects and pings once a second, whatever is set (src/sentinel.c, SENTINEL_PING_PERIOD). After a
 * switch it connects anew to each server. With less than 2 s it calls the new primary down at once: more failovers. */
static int down_after_ms(const sentinels_t *s) { return server_major(s->servers[0]) < 7 ? DOWN_AFTER_62_MS : DOWN_AFTER_MS; }

static void sentinel_write_conf(sentinels_t *s, int number, const sentinels_options_t *options) {
    sentinel_t *sentinel = &s->sentinels[number];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    print_conf(s, sentinel, out);
    if (options->hostnames) fprintf(out, "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n");
    if (s->password) fprintf(out, "requirepass %s\nsentinel sentinel-pass %s\n", s->password, s->password);
    fprintf(out, "sentinel monitor " SENTINEL_MASTER " %s %d 2\n", options->hostnames ? "localhost" : "127.0.0.1",
            sentinels_port(s, 0));
    fprintf(out, "sentinel down-after-milliseconds " SENTINEL_MASTER " %d\n", down_after_ms(s));
    fprintf(out, "sentinel failover-timeout " SENTINEL_MASTER " %d\n", FAILOVER_TIMEOUT_MS);
    fprintf(out, "sentinel parallel-syncs " SENTINEL_MASTER " 2\n%s\n", options->conf ? options->conf : "");
    fclose(out);
    temp_write(sentinel->conf, text);
    free(text);
}

static void sentinel_start(sentinels_t *s, int number, const sentinels_options_t *options) {
    sentinel_t *sentinel = &s->sentinels[number];
    bool up = false;
    sentinel->dir = temp_dir("sentinel");
    sentinel->socket = temp_path(sentinel->dir, "sentinel.sock");
    sentinel->conf = temp_path(sentinel->dir, "sentinel.conf");
    for (int tries = 0; !up && tries < 20; tries++) {
        sentinel->port = server_free_port();
        sentinel_write_conf(s, number, options);
        up = sentinel_launch(s, number);
    }
    cr_assert(up, "sentinel %d did not start", number);
}

static server_t *start_server(const sentinels_t *s, const sentinels_options_t *options) {
    const char *args[ENOUGH_ARGS] = {"--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--repl-timeout", "5"};
    size_t used = 6;
    if (s->tls) args[used++] = "--tls-replication", args[used++] = "yes";
    if (options->hostnames) args[used++] = "--replica-announce-ip", args[used++] = "localhost";
    for (size_t i = 0; options->args && options->args[i] && used + 1 < ENOUGH_ARGS; i++) args[used++] = options->args[i];
    return server_start(&(server_options_t){.args = args, .preload = options->preload, .tcp = true, .tls = s->tls});
}

sentinels_t *sentinels_begin(const sentinels_options_t *options) {
    static const sentinels_options_t defaults;
    if (!options) options = &defaults;
    sentinels_t *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->password = options->password ? strdup(options->password) : NULL;
    s->silent_port = options->silent_port;
    s->tls = options->tls ? certificate_dir() : NULL;
    for (int i = 0; i < SENTINEL_SERVERS; i++) s->servers[i] = start_server(s, options);
    for (int i = 1; i < SENTINEL_SERVERS; i++) {
        scoped(redis_drop) redis_t *r = redis_open(s->servers[i]);
        redis_ok(r, "REPLICAOF 127.0.0.1 %d", sentinels_port(s, 0));
    }
    for (int i = 0; i < SENTINELS; i++) sentinel_start(s, i, options);
    sentinels_await_settled(s);
    return s;
}

void sentinels_end(sentinels_t *s) {
    if (!s) return;
    for (int i = 0; i < SENTINELS; i++) {
        child_free(s->sentinels[i].child);
        temp_remove(s->sentinels[i].dir);
        free(s->sentinels[i].dir);
        free(s->sentinels[i].socket);
        free(s->sentinels[i].conf);
    }
    for (int i = 0; i < SENTINEL_SERVERS; i++) server_free(s->servers[i]);
    free(s->password);
    free(s->tls);
    free(s);
}

char *sentinels_settings(const sentinels_t *s) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "sentinels = [\"127.0.0.1:%d\", \"127.0.0.1:%d\", \"127.0.0.1:%d\"", s->sentinels[0].port, s->sentinels[1].port,
            s->sentinels[2].port);
    if (s->silent_port) fprintf(out, ", \"127.0.0.1:%d\"", s->silent_port);
    fprintf(out, "]; master = \"" SENTINEL_MASTER "\";");
    if (s->tls) fprintf(out, " tls = true; tls_ca_file = \"%s/ca.crt\";", s->tls);
    fclose(out);
    return kept(text);
}

/* The value of a field in a flat array of names and values; "" = none. */
static const char *field(const redisReply *reply, const char *name) {
    for (size_t i = 0; reply && i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, name) == 0) return reply->element[i + 1]->str;
    return "";
}

static int server_of_port(const sentinels_t *s, int port) {
    for (int i = 0; i < SENTINEL_SERVERS; i++)
        if (sentinels_port(s, i) == port) return i;
    return -1;
}

/* Returns the server that this sentinel names, -1: none. */
static int sentinel_names(sentinels_t *s, int number, long long *epoch) {
    scoped(redis_drop) redis_t *r = child_running(s->sentinels[number].child) ? sentinel_connect(s, number) : NULL;
    redisReply *address = r ? redisCommand(r, "SENTINEL GET-MASTER-ADDR-BY-NAME " SENTINEL_MASTER) : NULL;
    redisReply *master = address ? redisCommand(r, "SENTINEL MASTER " SENTINEL_MASTER) : NULL;
    bool good = master && address->type == REDIS_REPLY_ARRAY && address->elements == 2 && master->type == REDIS_REPLY_ARRAY;
    int found = good ? server_of_port(s, atoi(address->element[1]->str)) : -1;
    *epoch = good ? strtoll(field(master, "config-epoch"), NULL, 10) : -1;
    if (address) freeReplyObject(address);
    if (master) freeReplyObject(master);
    return found;
}

int sentinels_primary(sentinels_t *s, long long *epoch) {
    int best = -1;
    long long highest = -1;
    for (int i = 0; i < SENTINELS; i++) {
        long long own;
        int named = sentinel_names(s, i, &own);
        if (named < 0 || own <= highest) continue;
        best = named;
        highest = own;
    }
    if (epoch) *epoch = highest;
    return best;
}

int sentinels_await_switch(sentinels_t *s, int old) {
    int now = -1;
    cr_assert(wait_for((now = sentinels_primary(s, NULL)) >= 0 && now != old, SENTINELS_SWITCH_MS),
              "no sentinel names a new primary");
    return now;
}

/* Whether the sentinel sees two replicas without a flag of trouble, and all other running sentinels. */
static bool sentinel_is_settled(sentinels_t *s, int number, int primary) {
    long long epoch;
    if (!child_running(s->sentinels[number].child)) return true;
    if (sentinel_names(s, number, &epoch) != primary) return false;
    scoped(redis_drop) redis_t *r = sentinel_connect(s, number);
    redisReply *replicas = r ? redisCommand(r, "SENTINEL REPLICAS " SENTINEL_MASTER) : NULL;
    redisReply *master = replicas ? redisCommand(r, "SENTINEL MASTER " SENTINEL_MASTER) : NULL;
    int good = 0;
    for (size_t i = 0; master && i < replicas->elements; i++)
        if (strcmp(field(replicas->element[i], "flags"), "slave") == 0 &&
            strcmp(field(replicas->element[i], "master-link-status"), "ok") == 0 &&
            atoi(field(replicas->element[i], "master-port")) == sentinels_port(s, primary))
            good++;
    bool settled = good >= SENTINEL_SERVERS - 1 && strcmp(field(master, "flags"), "master") == 0 &&
                   atoi(field(master, "num-other-sentinels")) == SENTINELS - 1;
    if (replicas) freeReplyObject(replicas);
    if (master) freeReplyObject(master);
    return settled;
}

bool sentinels_are_settled(sentinels_t *s) {
    int primary = sentinels_primary(s, NULL);
    if (primary < 0) return false;
    for (int i = 0; i < SENTINELS; i++)
        if (!sentinel_is_settled(s, i, primary)) return false;
    return true;
}

void sentinels_print(sentinels_t *s) {
    for (int i = 0; i < SENTINELS; i++) {
        long long epoch;
        int named = sentinel_names(s, i, &epoch);
        fprintf(stderr, "sentinel %d names server %d, epoch %lld\n", i, named, epoch);
        scoped(redis_drop) redis_t *r = child_running(s->sentinels[i].child) ? sentinel_connect(s, i) : NULL;
        redisReply *replicas = r ? redisCommand(r, "SENTINEL REPLICAS " SENTINEL_MASTER) : NULL;
        for (size_t j = 0; replicas && j < replicas->elements; j++)
            fprintf(stderr, "  replica %s flags %s link %s of %s\n", field(replicas->element[j], "port"),
                    field(replicas->element[j], "flags"), field(replicas->element[j], "master-link-status"),
                    field(replicas->element[j], "master-port"));
        if (replicas) freeReplyObject(replicas);
        char *path = temp_path(s->sentinels[i].dir, "sentinel.log");
        fprintf(stderr, "%s", temp_read(path));
    }
}

void sentinels_await_settled(sentinels_t *s) {
    if (wait_for(sentinels_are_settled(s), SENTINELS_SWITCH_MS)) return;
    sentinels_print(s);
    cr_assert_fail("the sentinels do not agree on a primary with two replicas");
}

void sentinels_failover(sentinels_t *s) {
    bool begun = false;
    for (wait_t wait = wait_begin(SENTINELS_SWITCH_MS); !begun && wait_again(&wait);) {
        for (int i = 0; i < SENTINELS && !begun; i++) {
            scoped(redis_drop) redis_t *r = child_running(s->sentinels[i].child) ? sentinel_connect(s, i) : NULL;
            redisReply *reply = r ? redisCommand(r, "SENTINEL FAILOVER " SENTINEL_MASTER) : NULL;
            begun = reply && reply->type == REDIS_REPLY_STATUS;
            if (reply) freeReplyObject(reply);
        }
    }
    cr_assert(begun, "no sentinel begins a failover");
}

void sentinels_demote(sentinels_t *s, int server) {
    int primary = sentinels_primary(s, NULL);
    if (primary == server) return; /* a loaded machine made them fail over once more */
    scoped(redis_drop) redis_t *r = redis_open(s->servers[server]);
    redis_ok(r, "REPLICAOF 127.0.0.1 %d", sentinels_port(s, primary));
}

void sentinel_kill(sentinels_t *s, int number) { child_kill(s->sentinels[number].child); }

void sentinel_restart(sentinels_t *s, int number) {
    cr_assert(sentinel_launch(s, number), "sentinel %d did not start again", number);
}

static void sentinel_begin_again(sentinels_t *s, int number, int port, int epoch, const char *more) {
    sentinel_t *sentinel = &s->sentinels[number];
    char *text = NULL;
    size_t size = 0;
    sentinel_kill(s, number);
    FILE *out = open_memstream(&text, &size);
    print_conf(s, sentinel, out);
    fprintf(out, "sentinel monitor " SENTINEL_MASTER " 127.0.0.1 %d 2\nsentinel config-epoch " SENTINEL_MASTER " %d\n%s", port,
            epoch, more);
    fclose(out);
    temp_write(sentinel->conf, text);
    free(text);
    sentinel_restart(s, number);
}

/* It hears of the other sentinels by PUBLISH. They would believe its epoch. */
void sentinel_lie(sentinels_t *s, int number, int port, int epoch) {
    sentinel_begin_again(s, number, port, epoch, "user default on nopass allkeys allchannels +@all -publish\n");
}

void sentinel_forget(sentinels_t *s, int number) {
    sentinel_begin_again(s, number, sentinels_port(s, sentinels_primary(s, NULL)), 0, "");
}

void sentinel_freeze(sentinels_t *s, int number) { child_freeze(s->sentinels[number].child); }
void sentinel_thaw(sentinels_t *s, int number) { child_thaw(s->sentinels[number].child); }
