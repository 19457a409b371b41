/* The setup for tests of dialect kmqueue: a monitor in a driver with one queue "email", which consists of two lists of KMQueue.
 * The tests act as workers by redis_* calls, with the commands of RedisTaskQueue.java. */
#pragma once

#include "monitor/monitor_fixture.h"

#define BACKUP "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="
#define PLAIN  "worker1_queue"
#define SAFE   "worker2_queue"
#define UNIQUE SAFE "_unique"

#define KM(settings)                                                                                                             \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( { name = \"email\"; dialect = \"kmqueue\"; "           \
    "queues = [\"worker1_queue\", \"worker2_queue:safe\"]; protected_timeout = \"100ms\"; " settings " } );"
#define KM_DEAF(settings) KM("heartbeat = \"off\"; " settings)

/* A task as a worker writes it to backup. Members without a value: executed an hour ago, state "normal", safe list, unique. */
typedef struct {
    const char *id, *queue, *state, *type; /* raw, as in the JSON; NULL = the default of km_json */
    long long exc, gen;                    /* ms from now; 0 of exc is -1 h, of gen -2 h */
    const char *exc_is, *gen_is;           /* raw values; replace exc and gen */
    long long retry;
    bool common; /* not unique */
} km_t;

static inline char *km_json(redis_t *r, km_t t) {
    long long now = redis_ms(r);
    char *exc = t.exc_is ? mem_str(t.exc_is) : mem_printf("%lld", now + (t.exc ? t.exc : -3600000));
    char *gen = t.gen_is ? mem_str(t.gen_is) : mem_printf("%lld", now + (t.gen ? t.gen : -7200000));
    char *bytes =
        mem_printf("{\"data\":\"caf\xc3\xa9 \\\"x\\\" 12345678901234567890\",\"id\":\"%s\",\"queue\":\"%s\",\"taskStatus\":{"
                   "\"excTimestamp\":%s,\"genTimestamp\":%s,\"retry\":%lld,\"state\":\"%s\"},\"type\":\"%s\",\"unique\":%s}",
                   t.id ? t.id : "t-1", t.queue ? t.queue : SAFE, exc, gen, t.retry, t.state ? t.state : "normal",
                   t.type ? t.type : "mail", t.common ? "false" : "true");
    free(exc), free(gen);
    return kept(bytes);
}

/* The bytes with one text in them replaced; kept. */
static inline char *km_with(const char *bytes, const char *from, const char *to) {
    const char *at = strstr(bytes, from);
    cr_assert(at, "%s is not in %s", from, bytes);
    return kept_printf("%.*s%s%s", (int)(at - bytes), bytes, to, at + strlen(from));
}

/* Returns the bytes that a retry of this task must push; kept. */
static inline char *km_again(const char *bytes, long long retries, const char *state) {
    char *from = kept_printf("\"retry\":%lld,\"state\":\"%s\"", retries, state);
    char *to = kept_printf("\"retry\":%lld,\"state\":\"retry\"", retries + 1);
    char *again = km_with(bytes, from, to);
    return kept(again);
}

static inline long long in(setup_t *d, const char *list, const char *bytes) { return in_list(d->f.r, list, slice_text(bytes)); }

/* Pushes the task to backup, as a worker that runs it. */
static inline void km_take(setup_t *d, const char *bytes) { redis_ok(d->f.r, "LPUSH " BACKUP " %s", bytes); }

/* Returns a field of the last record; kept. "-": the record lacks the field. */
static inline char *km_last(setup_t *d, const char *field) {
    return redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %s",
                     "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][2] "
                     "for i = 1, #e, 2 do if e[i] == ARGV[1] then return e[i + 1] end end return '-'",
                     field);
}

static inline void km_expect(setup_t *d, const char *field, const char *expected) {
    char *found = km_last(d, field);
    cr_assert_str_eq(found, expected, "%s", field);
}
