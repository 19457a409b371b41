/* Calls each script with each wrong type in each of its keys, without the right to each command, and at the begin of a second: a
 * refused call has written nothing, and times are whole. The tests of each script check what happens to the job. */
#include "fixture.h"
#include "queue/settle_reply.h"
#include "script_calls.h"

enum { CALL_COUNT = sizeof CALLS / sizeof *CALLS, MAX_KEYS = 24 };

static redisReply *call(redis_t *r, size_t at) {
    size_t len;
    const char *text = fixture_script(CALLS[at].script, &len);
    char *format = kept_printf("EVAL %%b %s", CALLS[at].arguments);
    redisReply *reply = redis_do(r, format, text, len);
    return kept(CALLS[at].script == &script_promote ? promote_answer(reply) : reply);
}

/* Makes the calls before number `at`. Then adds the lock with the token T, and jobs to move and to end. */
static void lay_out(redis_t *r, size_t at) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "ZADD email:delayed 1 job");
    redis_ok(r, "XADD sidecar:email:failures 5-5 event e");
    for (size_t i = 0; i < at; i++) freeReplyObject(call(r, i));
    redis_ok(r, "SET sidecar:app:lock T PX 60000");
    redis_int(r, "PERSIST b:stalled-check"); /* without this, the key expires between two digests */
    redis_ok(r, "ZADD email:delayed 1 job2 2 job3 4000000000000 later");
    redis_ok(r, "HSET sidecar:email:stamps digest3 stamp3");
    redis_ok(r, "RPUSH email:backup job");
    redis_ok(r, "HSET email:errors job text");
    redis_ok(r, "ZADD b:delayed 4096 1");
    redis_ok(r, "HSET b:1 name n delay 0 priority 0");
    redis_ok(r, "RPUSH b:active 2 1");
    redis_ok(r, "SADD b:stalled 1");
    redis_ok(r, "ZADD b:failed 5 1");
    redis_ok(r, "RPUSH dlq dead");
    redis_ok(r, "XGROUP CREATE mail workers 0 MKSTREAM");
    redis_ok(r, "XADD mail 5-5 data job3");
    redis_ok(r, "XREADGROUP GROUP workers w1 STREAMS mail >");
    redis_ok(r, "ZADD de_delayed_events 1 X###1");
    redis_ok(r, "HSET de_events X###1 %s", "{\"payload\":{},\"type\":\"X\",\"attempt\":1,\"logContext\":{}}");
}

/* Splits the KEYS off `copy`, a copy of the arguments of a call. `keys` point into `copy`. Returns their number. */
static size_t keys_of(char *copy, char **keys) {
    char *rest = copy;
    size_t count = strtoul(strsep(&rest, " "), NULL, 10);
    cr_assert_leq(count, MAX_KEYS);
    for (size_t i = 0; i < count; i++) keys[i] = strsep(&rest, " ");
    return count;
}

/* An error, or a reply that begins with the word "type". */
static bool is_refusal(const redisReply *reply) {
    const redisReply *first = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0] : reply;
    return reply->type == REDIS_REPLY_ERROR || (first->str && strncmp(first->str, "type", 4) == 0);
}

/* Tries each type for one key; returns how many calls were refused. */
static int expect_no_trace(redis_t *r, size_t at, const char *key) {
    int refusals = 0;
    for (size_t t = 0; t < FIXTURE_TYPES; t++) {
        lay_out(r, at);
        fixture_make_key(r, key, fixture_types[t]);
        char *before = fixture_digest(r);
        redisReply *reply = call(r, at);
        char *after = fixture_digest(r);
        refusals += is_refusal(reply);
        if (is_refusal(reply))
            cr_expect_str_eq(before, after, "%s wrote before it refused %s, a %s: %s", CALLS[at].script->name, key,
                             fixture_types[t], reply->str ? reply->str : "");
    }
    return refusals;
}

static fixture_t f;
SUITE(redis_script_types, f = fixture_start(NULL), fixture_stop(&f));

Test(redis_script_types, a_refused_call_has_written_nothing, .timeout = 120) {
    int refusals = 0;
    cr_assert_eq(CALL_COUNT, all_script_count);
    for (size_t at = 0; at < CALL_COUNT; at++) {
        char *copy = kept_printf("%s", CALLS[at].arguments), *keys[MAX_KEYS];
        size_t count = keys_of(copy, keys);
        for (size_t k = 0; k < count; k++) refusals += expect_no_trace(f.r, at, keys[k]);
    }
    cr_assert_gt(refusals, 400, "most scripts check their keys");
}

/* The jobs of lay_out that are in no list, zset or stream; kept. */
static char *gone(redis_t *r) {
    static const char script[] =
        "local seen = {} "
        "local function see(all) for _, one in ipairs(all) do if type(one) == 'table' then see(one) "
        "else seen[one] = true end end end "
        "for _, key in ipairs(redis.call('KEYS', '*')) do local kind = redis.call('TYPE', key).ok "
        "if kind == 'list' then see(redis.call('LRANGE', key, 0, -1)) end "
        "if kind == 'zset' then see(redis.call('ZRANGE', key, 0, -1)) end "
        "if kind == 'stream' then see(redis.call('XRANGE', key, '-', '+')) end end "
        "local gone = '' for _, job in ipairs({'job', 'job2', 'job3', 'later', '1', '2', 'dead', 'X###1'}) do "
        "if not seen[job] then gone = gone .. job .. ' ' end end return gone";
    return redis_str(r, "EVAL %s 0", script);
}

/* Removes the right to one command from the user `worker`. */
static void forbid(redis_t *admin, const char *command) {
    redis_ok(admin, "ACL SETUSER worker on nopass +@all ~* &* -%s", command);
}

/* Copies the next command that a script calls, in lower case, and returns the text behind it; NULL = no more commands. */
static const char *next_command(const char *at, char *out, size_t size) {
    at = strstr(at, "call('");
    if (!at) return NULL;
    at += strlen("call('");
    size_t len = strcspn(at, "'");
    cr_assert_lt(len, size);
    for (size_t i = 0; i < len; i++) out[i] = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] + 'a' - 'A' : at[i]);
    out[len] = '\0';
    return at + len;
}

/* Calls each script without the right to one of its commands, for each of these commands: no job is lost. */
Test(redis_script_types, no_missing_command_costs_a_job, .timeout = 120) {
    redis_ok(f.r, "ACL SETUSER worker on nopass +@all ~* &*");
    scoped(redis_drop) redis_t *worker = redis_open(f.server);
    redis_ok(worker, "AUTH worker any");
    int refused = 0;
    for (size_t at = 0; at < CALL_COUNT; at++) {
        char command[32];
        size_t len;
        const char *text = fixture_script(CALLS[at].script, &len);
        while ((text = next_command(text, command, sizeof command))) {
            lay_out(f.r, at);
            char *before = gone(f.r);
            forbid(f.r, command);
            redisReply *reply = call(worker, at);
            char *after = gone(f.r);
            refused += reply->type == REDIS_REPLY_ERROR;
            if (reply->type == REDIS_REPLY_ERROR)
                cr_expect_str_eq(after, before, "%s without %s has lost %s", CALLS[at].script->name, command, after);
        }
    }
    cr_assert_gt(refused, 100);
}

/* Sets the clock of Redis to the begin of a second, to 005 ms: with 000 ms, us without their zeros could look like ms. Returns
 * this second, kept. */
static char *begin_second(void) {
    long long us = redis_us(f.r);
    server_step_clock(f.server, 5 - us % 1000000 / 1000);
    return kept_printf("%lld", us / 1000000);
}

/* Whether the time since then is short: milliseconds and microseconds begin with a zero. */
static bool has_begun(const char *second) {
    long long us = redis_us(f.r);
    return us % 1000000 < 100000 && us / 1000000 == strtoll(second, NULL, 10);
}

/* Each number that begins with this second is a time of this second: in s, ms or us. */
static void expect_whole_times(const char *script, const redisReply *reply, const char *second) {
    char *number = reply->type == REDIS_REPLY_INTEGER ? kept_printf("%lld", reply->integer) : NULL;
    for (size_t i = 0; i < reply->elements; i++) expect_whole_times(script, reply->element[i], second);
    for (const char *at = number ? number : reply->str; at && (at = strstr(at, second)); at += strlen(second)) {
        size_t digits = strspn(at, "0123456789");
        cr_expect(digits == 10 || digits == 13 || digits == 16, "%s: %.*s", script, (int)digits, at);
    }
}

/* A time in ms or us without its zeros would be decades ago. */
Test(redis_script_types, times_have_their_zeros_at_the_begin_of_a_second) {
    static const char all[] = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do "
                              "local kind, read = redis.call('TYPE', key).ok, {hash = {'HGETALL', key}, string = {'GET', key}, "
                              "zset = {'ZRANGE', key, 0, -1, 'WITHSCORES'}, stream = {'XRANGE', key, '-', '+'}} "
                              "if read[kind] then all[#all + 1] = redis.call(unpack(read[kind])) end end return all";
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.preload = "shim_clock"});
    lay_out(f.r, 0);
    for (size_t at = 0; at < CALL_COUNT; at++) {
        char *second;
        do {
            second = begin_second();
            expect_whole_times(CALLS[at].script->name, call(f.r, at), second);
            expect_whole_times(CALLS[at].script->name, redis_do(f.r, "EVAL %s 0", all), second);
        } while (!has_begun(second));
    }
}

Test(redis_script_types, due_jobs_move_at_the_begin_of_a_second) {
    static const struct {
        const script_t *script;
        const char *add, *moved;
    } rows[] = {{&script_promote, "ZADD email:delayed 1700000000000 job", "LLEN email"},
                {&script_bull_promote, "ZADD b:delayed 6963200000000000 1", "LLEN b:wait"},
                {&script_bullmq_promote, "ZADD b:delayed 6963200000000000 1", "LLEN b:wait"},
                {&script_delayed_promote, "ZADD de_delayed_events 1700000000000 X###1", "ZCARD sidecar:d:aside"},
                {&script_stream_promote, "ZADD email:delayed 1700000000000 job", "XLEN mail"}};
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.preload = "shim_clock"});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t at = 0;
        char *second;
        long long before, moved;
        while (CALLS[at].script != rows[i].script) at++;
        do {
            lay_out(f.r, 0);
            redis_ok(f.r, "DEL email:delayed b:delayed b:active de_delayed_events");
            redis_ok(f.r, rows[i].add);
            second = begin_second();
            before = redis_int(f.r, rows[i].moved);
            call(f.r, at);
            moved = redis_int(f.r, rows[i].moved);
        } while (!has_begun(second));
        cr_assert_eq(moved - before, 1, "%s", rows[i].script->name);
    }
}
