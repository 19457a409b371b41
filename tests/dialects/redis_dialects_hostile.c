/* Bad input in every dialect: entries that are not jobs, hostile JSON, names of foreign keys, wrong types, missing hashes. The
 * sidecar keeps each entry, or ends it with a reason. It retries the valid job beside them, and writes only to keys of the
 * config.
 */
#include "base/json/json.h"
#include "base/utf8.h"
#include "inspect/preflight.h"
#include "monitor/monitor_fixture.h"

#include <criterion/parameterized.h>
#include <strings.h>

#define SETTINGS(queue)                                                                                                          \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; "                                                                 \
    "queues = ( { name = \"email\"; on_failure = \"told\"; " queue " } );"

#define KM_BACKUP "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="
#define KM_TASK(queue, retry, state)                                                                                             \
    "{\"data\":\"x\",\"id\":\"i\",\"queue\":\"" queue                                                                            \
    "\",\"taskStatus\":{\"excTimestamp\":1,\"genTimestamp\":2,\"retry\":" retry ",\"state\":\"" state                            \
    "\"},\"type\":\"t\",\"unique\":true}"

#define DE_CLASS "example.PaymentCheck"
#define DE_EVENT "{\"payload\":{\"id\":\"sound\"},\"type\":\"" DE_CLASS "\",\"attempt\":1,\"logContext\":{}}"
/* The delay is longer than any test, so each event is sent once. */
#define DE_SETTINGS                                                                                                              \
    SETTINGS("dialect = \"delayed_queue\"; types = [\"" DE_CLASS "\"]; delays = [\"*: 30d\"]; protected_timeout = \"100ms\";")

enum { DEEP = 100000, LARGE = 300 << 10, CLUTTER = 16 };

/* Bytes that are no job in any dialect, or that name foreign keys. Owned. */
typedef struct {
    buffer_t jobs[CLUTTER];
    size_t count;
} clutter_t;

static void add(clutter_t *clutter, const char *bytes, size_t len) {
    cr_assert_lt(clutter->count, CLUTTER);
    buffer_add(&clutter->jobs[clutter->count++], bytes, len);
}

static void add_text(clutter_t *clutter, const char *text) { add(clutter, text, strlen(text)); }

static clutter_t clutter_new(void) {
    clutter_t clutter = {.count = 0};
    char *much = kept(malloc(LARGE + 64));
    add(&clutter, "", 0);
    add(&clutter, "\0\0\0", 3);
    add(&clutter, "\xff\xfe\x80", 3);
    add_text(&clutter, "no json at all");
    add_text(&clutter, "{\"id\":");
    add_text(&clutter, "[1,2,3]");
    add_text(&clutter, "null");
    memset(much, '[', DEEP);
    add(&clutter, much, DEEP);
    for (int i = 0; i < 80; i++) memcpy(much + 5 * i, "{\"a\":", 5);
    add(&clutter, much, 5 * 80);
    int begins = sprintf(much, "{\"id\":\"large\",\"queue\":\"bank\",\"data\":\"");
    memset(much + begins, 'x', LARGE);
    memcpy(much + begins + LARGE, "\"}", 2);
    add(&clutter, much, (size_t)begins + LARGE + 2);
    add_text(&clutter, "{\"id\":\"a\",\"id\":\"b\",\"queue\":\"bank\",\"queue\":\"email\"}");
    add_text(&clutter, "{\"id\":\"sidecar:app:lock\",\"queue\":\"sidecar:app:lock\",\"type\":\"marker\"}");
    add_text(&clutter, KM_TASK("bank", "0", "normal"));
    add_text(&clutter, KM_TASK("sidecar:app:lock", "0", "normal"));
    add_text(&clutter, "{\"id\":{},\"queue\":[],\"type\":1e400,\"taskStatus\":null}");
    add_text(&clutter, "{\"id\":\"\\u0000\",\"queue\":\"\\ud800\"}");
    return clutter;
}

static void clutter_free(clutter_t *clutter) {
    for (size_t i = 0; i < clutter->count; i++) buffer_free(&clutter->jobs[i]);
}

/* One dialect: how the test puts entries in progress, and which keys may have them at the end. */
typedef struct {
    const char *name, *config;
    const char *sound;                                                  /* a valid job, which must be retried */
    const char *again;                                                  /* the bytes of its retry; NULL = `sound` */
    const char *ready;                                                  /* the list that gets it */
    void (*put)(redis_t *r, size_t nth, const char *bytes, size_t len); /* an entry in progress; nth is unique */
    const char *busy, *waits; /* patterns of the keys that hold entries in progress, and of those that hold others */
    bool grouped;             /* `ready` is a stream with the group `g`, whose pending entries are in progress */
} dialect_case_t;

static void put_list(redis_t *r, size_t nth, const char *bytes, size_t len) {
    (void)nth;
    redis_ok(r, "LPUSH email:backup %b", bytes, len);
}

static void put_private(redis_t *r, size_t nth, const char *bytes, size_t len) {
    redis_ok(r, "LPUSH queue-w%d %b", (int)nth, bytes, len);
}

static void put_kmqueue(redis_t *r, size_t nth, const char *bytes, size_t len) {
    (void)nth;
    redis_ok(r, "LPUSH " KM_BACKUP " %b", bytes, len);
}

/* The bytes are an id; only `sound` names a job. */
static void make_bull(redis_t *r, const char *bytes, size_t len) {
    if (len == 5 && memcmp(bytes, "sound", 5) == 0)
        redis_ok(r, "HSET bull:email:sound name n data {} opts {} timestamp 1700000000000 attemptsMade 0 delay 0 priority 0");
}

static void put_bull(redis_t *r, size_t nth, const char *bytes, size_t len) {
    (void)nth;
    make_bull(r, bytes, len);
    redis_ok(r, "LPUSH bull:email:active %b", bytes, len);
}

static void put_bull_delayed(redis_t *r, size_t nth, const char *bytes, size_t len) {
    make_bull(r, bytes, len);
    redis_ok(r, "ZADD bull:email:delayed %d %b", (int)nth, bytes, len);
}

/* Each event is due after the ones before it. The valid job is the last, so when it is ready all others were handled. */
static void put_delayed(redis_t *r, size_t nth, const char *bytes, size_t len) {
    redis_ok(r, "ZADD de_delayed_events %d " DE_CLASS "###%d", (int)nth, (int)nth);
    redis_ok(r, "HSET de_events " DE_CLASS "###%d %b", (int)nth, bytes, len);
}

/* The bytes are the name of an event with a valid envelope. */
static void put_delayed_name(redis_t *r, size_t nth, const char *bytes, size_t len) {
    if (len == strlen(DE_EVENT) && memcmp(bytes, DE_EVENT, len) == 0) {
        put_delayed(r, nth, bytes, len);
        return;
    }
    redis_ok(r, "ZADD de_delayed_events %d %b", (int)nth, bytes, len);
    redis_ok(r, "HSET de_events %b %s", bytes, len, DE_EVENT);
}

static void put_pending(redis_t *r, size_t nth, const char *bytes, size_t len) {
    (void)nth;
    redis_int(r, "EVAL %s 1 email %b",
              "redis.pcall('XGROUP', 'CREATE', KEYS[1], 'g', '0', 'MKSTREAM') redis.call('XADD', KEYS[1], '*', 'data', ARGV[1]) "
              "redis.call('XREADGROUP', 'GROUP', 'g', 'w1', 'STREAMS', KEYS[1], '>') return 1",
              bytes, len);
}

/* The bytes are the payload of a job that a killed process ran. */
static void put_sidekiq(redis_t *r, size_t nth, const char *bytes, size_t len) {
    scoped(buffer_free) buffer_t value = {0};
    buffer_str(&value, "{\"queue\":\"default\",\"payload\":");
    json_write_string(&value, (slice_t){bytes, len});
    buffer_str(&value, ",\"run_at\":1700000000}");
    redis_ok(r, "SADD processes h:1:a");
    redis_ok(r, "HSET h:1:a beat 1700000100 rtt_us 9 info {}");
    redis_ok(r, "HSET h:1:a:work %d %b", (int)nth, value.data, value.len);
    redis_ok(r, "PEXPIRE h:1:a 9900");
    redis_ok(r, "PEXPIRE h:1:a:work 9900");
}

static const dialect_case_t CASES[] = {
    {.name = "list",
     .config = SETTINGS("protected_timeout = \"100ms\"; heartbeat = \"*_alive\"; id_path = \"/id\"; type_path = \"/type\"; "
                        "retry_times = 1;"),
     .sound = "{\"id\":\"sound\"}",
     .ready = "email",
     .put = put_list,
     .busy = "email:backup",
     .waits = "email"},
    {.name = "private_queues",
     .config = SETTINGS("dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\"; dedup = \"fights-done\"; "
                        "protected_timeout = \"100ms\"; id_path = \"/id\"; type_path = \"/type\"; retry_times = 1;"),
     .sound = "{\"id\":\"sound\"}",
     .ready = "fights",
     .put = put_private,
     .busy = "queue-*",
     .waits = "fights"},
    {.name = "stream",
     .config = SETTINGS("dialect = \"stream\"; group = \"g\"; heartbeat = \"alive:*\"; protected_timeout = \"100ms\"; "
                        "id_path = \"/id\"; type_path = \"/type\"; retry_times = 1;"),
     .sound = "{\"id\":\"sound\"}",
     .ready = "email",
     .put = put_pending,
     .grouped = true},
    {.name = "kmqueue",
     .config = SETTINGS("dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; "
                        "protected_timeout = \"100ms\"; heartbeat = \"off\"; retry_times = 1;"),
     .sound = KM_TASK("worker2_queue", "0", "normal"),
     .again = KM_TASK("worker2_queue", "1", "retry"),
     .ready = "worker2_queue",
     .put = put_kmqueue,
     .busy = KM_BACKUP,
     .waits = "worker2_queue"},
    {.name = "bull",
     .config = SETTINGS("dialect = \"bull\"; stalled_interval = \"1s\";"),
     .sound = "sound",
     .ready = "bull:email:wait",
     .put = put_bull,
     .busy = "bull:email:active",
     .waits = "bull:email:wait"},
    {.name = "bullmq",
     .config = SETTINGS("dialect = \"bullmq\"; stalled_interval = \"1s\";"),
     .sound = "sound",
     .ready = "bull:email:wait",
     .put = put_bull,
     .busy = "bull:email:active",
     .waits = "bull:email:wait"},
    {.name = "bullmq, delayed",
     .config = SETTINGS("dialect = \"bullmq\"; roles = [\"dispatcher\", \"monitor\"];"),
     .sound = "sound",
     .ready = "bull:email:wait",
     .put = put_bull_delayed,
     .busy = "sidecar:email:aside",
     .waits = "bull:email:wait"},
    {.name = "delayed_queue",
     .config = DE_SETTINGS,
     .sound = DE_EVENT,
     .ready = "de_paymentcheck",
     .put = put_delayed,
     .busy = "sidecar:email:aside",
     .waits = "de_paymentcheck"},
    {.name = "delayed_queue, by name",
     .config = DE_SETTINGS,
     .sound = DE_EVENT,
     .ready = "de_paymentcheck",
     .put = put_delayed_name,
     .busy = "sidecar:email:aside",
     .waits = "de_paymentcheck"},
    {.name = "sidekiq",
     .config = SETTINGS("dialect = \"sidekiq\";"),
     .sound = "{\"jid\":\"sound\"}",
     .ready = "queue:default",
     .put = put_sidekiq,
     .busy = "dead",
     .waits = "queue:default"},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* Number of entries in the lists and zsets whose names match, without sentinels. */
static long long entries(redis_t *r, const char *pattern) {
    return redis_int(
        r, "EVAL %s 0 %s",
        "local n = 0 for _, k in ipairs(redis.call('KEYS', ARGV[1])) do local t = redis.call('TYPE', k).ok "
        "if t == 'list' then for _, e in ipairs(redis.call('LRANGE', k, 0, -1)) do "
        "if not string.find(e, '^sidecar%-sentinel:') and not string.find(e, '\"type\":\"marker\",\"unique\"', 1, true) "
        "then n = n + 1 end end "
        "elseif t == 'zset' then n = n + redis.call('ZCARD', k) end end return n",
        pattern);
}

static long long in_progress(redis_t *r, const dialect_case_t *table) {
    if (!table->grouped) return entries(r, table->busy);
    return redis_int(r, "EVAL %s 1 %s", "return redis.call('XPENDING', KEYS[1], 'g')[1]", table->ready);
}

static long long not_in_progress(redis_t *r, const dialect_case_t *table) {
    if (!table->grouped) return entries(r, table->waits);
    return redis_int(r, "XLEN %s", table->ready) - in_progress(r, table);
}

static long long failed(redis_t *r, bool sound_reasons_only) {
    return redis_int(r, "EVAL %s 1 sidecar:email:failures %s",
                     "local good = {unreadable = 1, invalid_target = 1, retries_exhausted = 1} local n = 0 "
                     "for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == 'failed' and (ARGV[1] == '0' or good[f.reason]) then n = n + 1 end end return n",
                     sound_reasons_only ? "1" : "0");
}

/* Whether each record of a failure has a notification with its ref, in the order of the records. */
static void expect_told(redis_t *r, const char *name) {
    redisReply *records =
                   redis_do(r, "EVAL %s 1 sidecar:email:failures",
                            "local ids = {} for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do local f = {} "
                            "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                            "if f.kind == 'failed' then ids[#ids + 1] = f.event end end return ids"),
               *told = redis_do(r, "LRANGE told 0 -1");
    cr_assert_eq(told->elements, records->elements, "%s: %zu of %zu failures are told", name, told->elements, records->elements);
    for (size_t i = 0; i < told->elements; i++) {
        slice_t text = {told->element[i]->str, told->element[i]->len};
        json_pick_t picks[] = {{.pointer = "/ref"}, {.pointer = "/reason"}};
        char ref[EVENT_REF_SIZE];
        cr_assert(event_ref(slice_text(records->element[i]->str), ref));
        cr_assert(json_pick(text, picks, 2) && picks[0].found == JSON_FOUND && picks[1].found == JSON_FOUND, "%s", text.data);
        cr_expect(slice_is(picks[0].value.raw, ref), "%s is not %s", text.data, ref);
        cr_expect(utf8_is_valid(text.data, text.len), "%s", text.data);
    }
}

/* ---- Keys that commands wrote to, from MONITOR. */

static redis_t *spy_on(const server_t *server) {
    redis_t *spy = redis_open(server);
    redis_ok(spy, "MONITOR");
    return spy;
}

/* Reads the quoted argument at *at of a line, and resolves the escapes that names of keys need. *at moves behind the argument. */
static bool argument(const char **at, char *out, size_t size) {
    const char *begin = strchr(*at, '"');
    size_t len = 0;
    if (!begin) return false;
    for (begin++; *begin && *begin != '"'; begin++) {
        if (*begin == '\\' && begin[1]) begin++;
        if (len + 1 < size) out[len++] = *begin;
    }
    out[len] = '\0';
    *at = *begin ? begin + 1 : begin;
    return true;
}

static bool only_reads(const char *command) {
    static const char *const reads[] = {
        "get",        "exists",   "getrange",      "hget",      "hmget",   "hgetall", "hlen",    "hscan",  "hexists",
        "hstrlen",    "lindex",   "llen",          "lpos",      "lrange",  "pttl",    "scan",    "sscan",  "scard",
        "sismember",  "smembers", "strlen",        "time",      "type",    "xlen",    "xinfo",   "xrange", "zcard",
        "zcount",     "zrange",   "zrangebyscore", "zrevrange", "zscore",  "zmscore", "evalsha", "client", "zrevrangebyscore",
        "script",     "info",     "role",          "ping",      "pubsub",  "publish", "hello",   "auth",   "subscribe",
        "psubscribe", "select",   "xread",         "eval",      "xpending"};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (strcasecmp(command, reads[i]) == 0) return true;
    return false;
}

static bool allowed(const redis_keys_t *used, const char *key) {
    if (strncmp(key, "sidecar:email:", 14) == 0) return true;
    for (size_t i = 0; i < used->count; i++) {
        const redis_key_t *one = &used->items[i];
        const char *star = one->pattern ? strchr(one->name, '*') : NULL;
        if (one->use == KEY_READS) continue;
        if (!star && strcmp(key, one->name) == 0) return true;
        if (star && strncmp(key, one->name, (size_t)(star - one->name)) == 0) return true;
    }
    return false;
}

/* On Redis 6.2, scripts try a right on a key of their own (queue/lua/prologue/rights.lua). */
static bool is_scratch(const char *key) {
    size_t len = strlen(key);
    return strncmp(key, "sidecar:", 8) == 0 && len > 7 && strcmp(key + len - 7, ":rights") == 0;
}

/* Fails if a command wrote to a key that is not in the config. Closes the spy. Returns the number of writing commands. */
static int expect_own_keys(redis_t *spy, redis_t *r, const config_t *config) {
    scoped(config_redis_keys_free) redis_keys_t used = config_redis_keys(&config->queues[0]);
    int writes = 0;
    bool over = false;
    redis_ok(r, "ECHO end-of-test");
    while (!over) {
        redisReply *reply = NULL;
        cr_assert_eq(redisGetReply(spy, (void **)&reply), REDIS_OK, "%s", spy->errstr);
        char command[64] = "", key[256] = "";
        const char *at = strchr(reply->str, ']');
        over = strstr(reply->str, "end-of-test") != NULL;
        if (!over && at && argument(&at, command, sizeof command) && !only_reads(command)) {
            int keys = strcasecmp(command, "rpoplpush") == 0 || strcasecmp(command, "brpoplpush") == 0 ? 2 : 1;
            for (int i = 0; i < keys; i++) {
                cr_assert(argument(&at, key, sizeof key), "%s", reply->str);
                cr_assert(is_scratch(key) || allowed(&used, key), "a command wrote to %s: %.300s", key, reply->str);
            }
            writes++;
        }
        freeReplyObject(reply);
    }
    redis_close(spy);
    return writes;
}

/* ---- The tests. */

static void open_case(setup_t *d, const dialect_case_t *table) {
    d->f = fixture_start(&(fixture_options_t){.config = table->config, .closed = true});
    instance_start(&d->instance, d->f.keys, INSTANCE_MONITOR | INSTANCE_DISPATCHER);
    instance_lead(&d->instance, d->f.r);
}

static bool comes_back(setup_t *d, const dialect_case_t *table) {
    if (table->grouped)
        return redis_int(d->f.r, "EVAL %s 1 %s %s",
                         "for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do if e[2][2] == ARGV[1] and "
                         "#redis.call('XPENDING', KEYS[1], 'g', e[1], e[1], 1) == 0 then return 1 end end return 0",
                         table->ready, table->sound);
    return in_list(d->f.r, table->ready, slice_text(table->again ? table->again : table->sound)) == 1;
}

ParameterizedTestParameters(redis_dialects_hostile, clutter_is_kept_or_ended) {
    static int numbers[CASE_COUNT];
    for (int i = 0; i < CASE_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, CASE_COUNT);
}

static setup_t d;
SUITE(redis_dialects_hostile, , close_setup(&d));

ParameterizedTest(int *number, redis_dialects_hostile, clutter_is_kept_or_ended, .timeout = 120) {
    const dialect_case_t *table = &CASES[*number];
    scoped(clutter_free) clutter_t clutter = clutter_new();
    open_case(&d, table);
    redis_ok(d.f.r, "RPUSH bank precious");
    redis_ok(d.f.r, "RPUSH other:backup precious");
    for (size_t i = 0; i < clutter.count; i++) table->put(d.f.r, i, buffer_text(&clutter.jobs[i]), clutter.jobs[i].len);
    table->put(d.f.r, clutter.count, table->sound, strlen(table->sound));
    redis_t *spy = spy_on(d.f.server);
    cr_assert(driver_until(&d.instance.driver, comes_back(&d, table), 30000), "%s", table->name);
    cr_assert(driver_until(&d.instance.driver, in_progress(d.f.r, table) == 0, 30000), "%s: %lld entries stay in progress",
              table->name, in_progress(d.f.r, table));
    long long waiting = not_in_progress(d.f.r, table), ended = failed(d.f.r, false);
    cr_assert_eq(waiting + ended, (long long)clutter.count + 1, "%s: %lld wait, %lld ended", table->name, waiting, ended);
    cr_assert_eq(failed(d.f.r, true), ended, "%s: an unexpected reason", table->name);
    expect_told(d.f.r, table->name);
    cr_assert_gt(expect_own_keys(spy, d.f.r, d.f.config), 0);
    cr_assert_eq(redis_int(d.f.r, "LLEN bank") + redis_int(d.f.r, "LLEN other:backup"), 2);
    fprintf(stderr, "%s: %lld ready, %lld ended\n", table->name, waiting, ended);
}

ParameterizedTestParameters(redis_dialects_hostile, wrong_types_lose_nothing) {
    static int numbers[CASE_COUNT];
    for (int i = 0; i < CASE_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, CASE_COUNT);
}

/* Each key of the queue in turn has a wrong type. After the key is deleted the valid job is retried. */
ParameterizedTest(int *number, redis_dialects_hostile, wrong_types_lose_nothing, .timeout = 300) {
    const dialect_case_t *table = &CASES[*number];
    open_case(&d, table);
    scoped(config_redis_keys_free) redis_keys_t used = config_redis_keys(&d.f.config->queues[0]);
    for (size_t k = 0; k < used.count; k++) {
        if (used.items[k].pattern || !used.items[k].type) continue;
        const char *wrong = strcmp(used.items[k].type, "string") == 0 ? "list" : "string";
        redis_ok(d.f.r, "FLUSHALL");
        fixture_make_key(d.f.r, used.items[k].name, wrong);
        instance_lead(&d.instance, d.f.r);
        driver_run(&d.instance.driver, 300);
        redis_ok(d.f.r, "DEL %s", used.items[k].name);
        table->put(d.f.r, k, table->sound, strlen(table->sound));
        instance_lead(&d.instance, d.f.r);
        if (!driver_until(&d.instance.driver, comes_back(&d, table), 15000))
            cr_assert_fail("%s: no retry after %s was a %s", table->name, used.items[k].name, wrong);
    }
}

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    if (finding == PREFLIGHT_QUEUE_DISABLED) buffer_printf(self, "%s: %s\n", queue, text);
}

/* BullMQ uses the same key names for its jobs: the sidecar must not move, mark or end them. */
Test(redis_dialects_hostile, a_queue_of_bullmq_is_not_served_as_bull) {
    scoped(buffer_free) buffer_t said = {0};
    redis_error_t error;
    open_setup(&d, (fixture_options_t){.config = SETTINGS("dialect = \"bull\"; stalled_interval = \"1s\";")});
    redis_ok(d.f.r, "XADD bull:email:events * event added");
    redis_ok(d.f.r, "HSET bull:email:1 name n data {} opts {} timestamp 1700000000000");
    redis_ok(d.f.r, "ZADD bull:email:delayed 4096 1");
    redis_ok(d.f.r, "LPUSH bull:email:active 2");
    driver_run(&d.instance.driver, 300);
    scoped(conn_drop) conn_t *conn = conn_new(d.f.shard, "test", NULL);
    cr_assert_eq(conn_open(conn, &error), OUTCOME_OK, "%s", error.text);
    (void)preflight(&(preflight_call_t){conn, d.f.keys, note, &said, &error});
    cr_assert_not_null(strstr(buffer_text(&said), "email: the queue belongs to BullMQ"), "%s", buffer_text(&said));
    cr_assert_eq(redis_int(d.f.r, "ZCARD bull:email:delayed") + redis_int(d.f.r, "LLEN bull:email:active"), 2);
    cr_assert_eq(redis_int(d.f.r, "EXISTS bull:email:wait bull:email:stalled bull:email:stalled-check bull:email:failed"), 0);
}
