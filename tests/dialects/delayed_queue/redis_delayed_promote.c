/* delayed_promote.lua: which events it sends, how it changes zset and hash, and which events it quarantines. */
#include "delayed_call.h"
#include "tempdir.h"

/* ---- The bytes that Jackson writes */

enum { MAX_VECTOR = 1 << 20 };

/* Copies the value of a string member of one line of a vector file to `out`, without decoding; "" = no such member. */
static const char *part(const char *line, const char *name, char *out) {
    char key[32];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(line, key);
    *out = '\0';
    if (!at) return out;
    at += strlen(key);
    size_t len = strcspn(at, "\"");
    cr_assert_lt(len, MAX_VECTOR);
    memcpy(out, at, len);
    out[len] = '\0';
    return out;
}

static size_t unhex(char *text) {
    size_t len = strlen(text) / 2;
    for (size_t i = 0; i < len; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        text[i] = (char)strtol(pair, NULL, 16);
    }
    text[len] = '\0';
    return len;
}

/* One scene of the vector file: the keys and envelopes that the library wrote. */
typedef struct {
    char what[64], *member, *list, *events, *second, *seventieth;
    size_t events_len, second_len, seventieth_len;
} vector_t;

static void vector_free(vector_t *v) {
    char *const all[] = {v->member, v->list, v->events, v->second, v->seventieth};
    for (size_t i = 0; i < 5; i++) free(all[i]);
    *v = (vector_t){0};
}

static void vector_note(vector_t *v, const char *key, const char *bytes, size_t len) {
    struct {
        const char *key;
        char **text;
        size_t *len;
    } rows[] = {{"member", &v->member, NULL},
                {"list", &v->list, NULL},
                {"events", &v->events, &v->events_len},
                {"attempt 2", &v->second, &v->second_len},
                {"attempt 70", &v->seventieth, &v->seventieth_len}};
    for (size_t i = 0; i < 5; i++) {
        if (strcmp(key, rows[i].key) != 0 || *rows[i].text) continue;
        *rows[i].text = malloc(len + 1);
        memcpy(*rows[i].text, bytes, len + 1);
        if (rows[i].len) *rows[i].len = len;
    }
}

/* Attempt 1 becomes 2 in the hash, and 69 becomes 70. The list gets the envelope as it was before. */
static void check_vector(redis_t *r, const vector_t *v) {
    slice_t first = {v->events, v->events_len}, second = {v->second, v->second_len};
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    de_add(r, v->member, first);
    cr_assert_eq(de_moved(r, de_new()), 1, "%s", v->what);
    de_expect_popped(r, v->list, first);
    de_expect_stored(r, v->member, second);
    scoped(buffer_free) buffer_t last = {0};
    size_t digits = v->seventieth_len - strlen("70,\"logContext\":{}}");
    buffer_add(&last, v->seventieth, digits);
    buffer_str(&last, "69,\"logContext\":{}}");
    redis_ok(r, "HSET de_events %s %b", v->member, last.data, last.len);
    de_due(r);
    cr_assert_eq(de_moved(r, de_new()), 1);
    de_expect_popped(r, v->list, (slice_t){last.data, last.len});
    de_expect_stored(r, v->member, (slice_t){v->seventieth, v->seventieth_len});
    cr_assert_str_eq(strchr(de_score(r, DELAYED_KEYS, v->member), '.'), ".5");
}

static fixture_t f;
SUITE(redis_delayed_promote, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_delayed_promote, only_the_digits_of_attempt_change) {
    char *all = temp_read("tests/data/delayed_queue/jackson-2.17.2.jsonl"), *rest = all, *text = kept(malloc(MAX_VECTOR));
    vector_t v = {0};
    int scenes = 0;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        char what[64], key[64];
        snprintf(what, sizeof what, "%s", part(line, "what", text));
        snprintf(key, sizeof key, "%s", part(line, "key", text));
        if (strcmp(what, v.what) != 0) vector_free(&v);
        memcpy(v.what, what, sizeof what);
        part(line, "hex", text);
        vector_note(&v, key, text, unhex(text));
        if (strcmp(key, "attempt 70") != 0 || !v.member) continue;
        check_vector(f.r, &v);
        scenes++;
    }
    cr_assert_geq(scenes, 8, "%d scenes", scenes);
    vector_free(&v);
}

/* ---- Events to send, and events for the monitor */

static const struct {
    const char *envelope;
    const char *next; /* envelope in the hash after the call; NULL: the event is quarantined */
} shapes[] = {
    {ENVELOPE(1), ENVELOPE(2)},
    {ENVELOPE(9), ENVELOPE(10)},
    {ENVELOPE(99999), ENVELOPE(100000)},
    {ENVELOPE(100000), NULL},
    {ENVELOPE(0), NULL},
    {ENVELOPE(01), NULL},
    {ENVELOPE(-1), NULL},
    {ENVELOPE(1.0), NULL},
    {ENVELOPE(1e1), NULL},
    {ENVELOPE("1"), NULL},
    {ENVELOPE(null), NULL},
    {ENVELOPE(1) " ", NULL},
    {ENVELOPE(1) "}", NULL},
    {"", NULL},
    {"{}", NULL},
    {"[1,2]", NULL},
    {"\"attempt\":1,\"logContext\":{}}", NULL},
    {"{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":1}", NULL},
    {"{\"payload\":{},\"type\":\"" PAYMENT "\",\"attempt\":1,\"logContext\":{\"a\":1}}", NULL},
    {"{\"payload\":{},\"type\":\"" PAYMENT "\",\"logContext\":{},\"attempt\":1}", NULL},
    {"{\"payload\":{},\"type\":\"" WELCOME "\",\"attempt\":1,\"logContext\":{}}", NULL},
    {"{\"payload\":{},\"type\": \"" PAYMENT "\",\"attempt\":1,\"logContext\":{}}", NULL},
    {"{\"a\":\",\\\"type\\\":\\\"" PAYMENT "\\\",\\\"attempt\\\":1,\\\"logContext\\\":{}}\"}", NULL},
    /* text in the payload that looks like an envelope stays */
    {"{\"payload\":{\"attempt\":7,\"text\":\"},\\\"attempt\\\":1,\\\"logContext\\\":{}}\"}" TAIL(1),
     "{\"payload\":{\"attempt\":7,\"text\":\"},\\\"attempt\\\":1,\\\"logContext\\\":{}}\"}" TAIL(2)},
    {"{\"payload\":{\"n\":123456789012345678901234567890.5e-400,\"u\":\"\xc3\xa9\\u00e9\\\\\"}" TAIL(69),
     "{\"payload\":{\"n\":123456789012345678901234567890.5e-400,\"u\":\"\xc3\xa9\\u00e9\\\\\"}" TAIL(70)},
};

Test(redis_delayed_promote, detects_the_shape_of_an_envelope) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        slice_t envelope = slice_text(shapes[i].envelope);
        redis_ok(f.r, "DEL " DELAYED_KEYS " de_events de_paymentcheck sidecar:email:aside");
        de_add(f.r, PAYMENT "###1", envelope);
        cr_assert_eq(de_moved(f.r, de_new()), shapes[i].next != NULL, "%s", shapes[i].envelope);
        de_expect_stored(f.r, PAYMENT "###1", shapes[i].next ? slice_text(shapes[i].next) : envelope);
        cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:aside"), !shapes[i].next);
        cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), shapes[i].next != NULL);
        if (shapes[i].next) de_expect_popped(f.r, "de_paymentcheck", envelope);
    }
}

/* A payload of 1 MiB with every byte value stays unchanged. */
Test(redis_delayed_promote, payload_bytes_stay_unchanged) {
    enum { SIZE = 1 << 20 };
    scoped(buffer_free) buffer_t envelope = {0}, next = {0};
    buffer_str(&envelope, "{\"payload\":{\"id\":\"");
    for (int i = 0; i < SIZE; i++) buffer_add(&envelope, &(char){(char)(i * 7 % 256)}, 1);
    buffer_add(&next, envelope.data, envelope.len);
    buffer_str(&envelope, "\"}" TAIL(1));
    buffer_str(&next, "\"}" TAIL(2));
    de_add(f.r, PAYMENT "###1", (slice_t){envelope.data, envelope.len});
    cr_assert_eq(de_moved(f.r, de_new()), 1);
    de_expect_popped(f.r, "de_paymentcheck", (slice_t){envelope.data, envelope.len});
    de_expect_stored(f.r, PAYMENT "###1", (slice_t){next.data, next.len});
}

Test(redis_delayed_promote, the_class_selects_the_list) {
    static const struct {
        const char *member, *class, *list; /* list NULL: the event is quarantined */
    } rows[] = {
        {PAYMENT "###1", PAYMENT, "de_paymentcheck"},
        {WELCOME "###1", WELCOME, "de_welcome"},
        {PAYMENT "###", PAYMENT, "de_paymentcheck"},
        {PAYMENT "###1###2", PAYMENT, "de_paymentcheck"},
        {PAYMENT "####", PAYMENT, "de_paymentcheck"},
        {PAYMENT "##1", PAYMENT, NULL},
        {PAYMENT, PAYMENT, NULL},
        {PAYMENT "s###1", PAYMENT, NULL},
        {"example.Paymentcheck###1", PAYMENT, NULL},
        {"###" PAYMENT "###1", PAYMENT, NULL},
        {"example.Other###1", "example.Other", NULL},
        {"sidecar:app:lock###1", "sidecar:app:lock", NULL},
        {PAYMENT "###9", WELCOME, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *envelope = kept_printf("{\"payload\":{},\"type\":\"%s\",\"attempt\":1,\"logContext\":{}}", rows[i].class);
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "SET sidecar:app:lock T");
        de_add(f.r, rows[i].member, slice_text(envelope));
        cr_assert_eq(de_moved(f.r, de_new()), rows[i].list != NULL, "%s", rows[i].member);
        if (rows[i].list) de_expect_popped(f.r, rows[i].list, slice_text(envelope));
        cr_assert_eq(redis_int(f.r, "EXISTS de_paymentcheck de_welcome"), 0, "%s", rows[i].member);
    }
}

/* The delays are those of the library's nextDelay. The oldest event is sent first. */
Test(redis_delayed_promote, sends_due_events_in_order_and_schedules_them_again) {
    static const struct {
        const char *envelope;
        long long delay_s;
    } rows[] = {{ENVELOPE(1), 10},   {ENVELOPE(8), 10},    {ENVELOPE(9), 60},    {ENVELOPE(18), 60},  {ENVELOPE(19), 300},
                {ENVELOPE(38), 300}, {ENVELOPE(39), 1440}, {ENVELOPE(68), 1440}, {ENVELOPE(69), 1440}};
    enum { ROWS = sizeof rows / sizeof *rows };
    for (int i = 0; i < ROWS; i++) {
        char *member = kept_printf(PAYMENT "###%d", i);
        redis_ok(f.r, "ZADD " DELAYED_KEYS " %d %s", 1000 + i, member);
        redis_ok(f.r, "HSET de_events %s %s", member, rows[i].envelope);
    }
    redis_ok(f.r, "ZADD " DELAYED_KEYS " -inf " PAYMENT "###first %lld " PAYMENT "###soon", redis_ms(f.r) + 60000);
    redis_ok(f.r, "HSET de_events " PAYMENT "###first %s " PAYMENT "###soon %s", ENVELOPE(3), ENVELOPE(4));
    redisReply *reply = delayed_promote_call(f.r, de_new());
    cr_assert_eq(reply->element[1]->integer, ROWS + 1);
    cr_assert_str_eq(reply->element[3]->str, "-inf");
    de_expect_popped(f.r, "de_paymentcheck", slice_text(ENVELOPE(3)));
    for (int i = 0; i < ROWS; i++) {
        char *member = kept_printf(PAYMENT "###%d", i);
        long long delay = de_delay(f.r, member);
        de_expect_popped(f.r, "de_paymentcheck", slice_text(rows[i].envelope));
        cr_assert(delay <= rows[i].delay_s * 1000 && delay > rows[i].delay_s * 1000 - 5000, "%s: %lld", rows[i].envelope, delay);
        cr_assert_eq(strchr(de_score(f.r, DELAYED_KEYS, member), '.') != NULL, i == ROWS - 1,
                     "only the push that sets attempt 70 is the last");
    }
    cr_assert_eq(de_moved(f.r, de_new()), 0, "events that are not due must stay");
}

/* Input: retry_attempts, the envelope, the score. Result: whether the event is sent, and the fraction of the new score. */
Test(redis_delayed_promote, retry_attempts_limits_pushes) {
    static const struct {
        long long attempts;
        const char *envelope, *score;
        bool sent;
        const char *fraction;
    } rows[] = {
        {1, ENVELOPE(1), "7", true, ".5"},     /* the only push */
        {1, ENVELOPE(2), "7.5", false, ".75"}, /* after the only push */
        {1, ENVELOPE(1), "7.5", true, ".5"},   /* enqueued again meanwhile: HSET, and ZADD NX keeps the score */
        {2, ENVELOPE(1), "7", true, ".5"},
        {2, ENVELOPE(2), "7.5", false, ".75"},
        {2, ENVELOPE(2), "7.75", false, ".75"}, /* postponed once more */
        {70, ENVELOPE(68), "7", true, ""},
        {70, ENVELOPE(69), "7", true, ".5"},
        {70, ENVELOPE(70), "7.5", false, ".75"},
        {70, ENVELOPE(70), "7", true, ".5"}, /* enqueued at the limit or above: one push */
        {70, ENVELOPE(500), "7", true, ".5"},
        {70, ENVELOPE(501), "7.5", false, ".75"},
        {70, ENVELOPE(1), "7.5", true, ""},      /* enqueued again after its last push */
        {71, ENVELOPE(70), "7.5", true, ".5"},   /* the limit was raised */
        {69, ENVELOPE(70), "7.5", false, ".75"}, /* the limit was lowered */
        {60, ENVELOPE(65), "7", true, ".5"},     /* the limit was lowered between two attempts: one push */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        de_ask_t ask = de_new();
        ask.attempts = rows[i].attempts;
        redis_ok(f.r, "DEL " DELAYED_KEYS " de_paymentcheck sidecar:email:aside");
        redis_ok(f.r, "ZADD " DELAYED_KEYS " %s " PAYMENT "###1", rows[i].score);
        redis_ok(f.r, "HSET de_events " PAYMENT "###1 %s", rows[i].envelope);
        cr_assert_eq(de_moved(f.r, ask), rows[i].sent, "row %zu", i);
        const char *score = de_score(f.r, DELAYED_KEYS, PAYMENT "###1"), *point = strchr(score, '.');
        cr_assert_str_eq(point ? point : "", rows[i].fraction, "row %zu: %s", i, score);
        cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), rows[i].sent);
        if (!rows[i].sent) de_expect_stored(f.r, PAYMENT "###1", slice_text(rows[i].envelope));
    }
}

/* ---- Handlers that finish: HDEL and ZREM, or one of them */

Test(redis_delayed_promote, does_not_send_finished_events) {
    de_add(f.r, PAYMENT "###hdel", slice_text(ENVELOPE(1)));
    de_add(f.r, PAYMENT "###zrem", slice_text(ENVELOPE(1)));
    de_add(f.r, PAYMENT "###both", slice_text(ENVELOPE(1)));
    redis_ok(f.r, "HDEL de_events " PAYMENT "###hdel " PAYMENT "###both");
    redis_ok(f.r, "ZREM " DELAYED_KEYS " " PAYMENT "###zrem " PAYMENT "###both");
    cr_assert_eq(de_moved(f.r, de_new()), 0);
    cr_assert_eq(redis_int(f.r, "EXISTS de_paymentcheck sidecar:email:aside " DELAYED_KEYS), 0);
    de_expect_stored(f.r, PAYMENT "###zrem", slice_text(ENVELOPE(1)));
    /* an event that is removed after its push is not sent again */
    de_add(f.r, PAYMENT "###sent", slice_text(ENVELOPE(1)));
    cr_assert_eq(de_moved(f.r, de_new()), 1);
    redis_ok(f.r, "HDEL de_events " PAYMENT "###sent");
    de_due(f.r);
    cr_assert_eq(de_moved(f.r, de_new()), 0);
    cr_assert_eq(redis_int(f.r, "EXISTS " DELAYED_KEYS), 0);
}

/* ---- Quarantine */

Test(redis_delayed_promote, a_full_quarantine_does_not_delay_other_events) {
    enum { POISON = 40 };
    char quarantine[64];
    for (int i = 0; i < POISON; i++) {
        char *member = kept_printf("example.Unknown###%d", i);
        de_add(f.r, member, slice_text(ENVELOPE(1)));
    }
    redis_ok(f.r, "ZADD " DELAYED_KEYS " 1800000000 " PAYMENT "###1"); /* all other members sort before this one */
    redis_ok(f.r, "EVAL %s 1 " DELAYED_KEYS,
             "for i = 0, 39 do redis.call('ZADD', KEYS[1], 1000 + i, 'example.Unknown###' .. i) end return 1");
    redis_ok(f.r, "HSET de_events " PAYMENT "###1 %s", ENVELOPE(1));
    de_ask_t few = de_new();
    few.batch = few.first = 16;
    cr_assert_eq(de_moved(f.r, few) + de_moved(f.r, few) + de_moved(f.r, few), 1);
    cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:aside"), POISON);
    snprintf(quarantine, sizeof quarantine, "%s", de_score(f.r, "sidecar:email:aside", "example.Unknown###7"));
    long long delay = de_delay(f.r, "example.Unknown###7");
    cr_assert(delay > 5000 && delay <= 10000, "%lld", delay);
    cr_assert_str_eq(strchr(de_score(f.r, DELAYED_KEYS, "example.Unknown###7"), '.'), ".25");
    for (int i = 0; i < 3; i++) {
        redis_ok(f.r, "DEL de_paymentcheck");
        de_due(f.r);
        cr_assert_eq(de_moved(f.r, de_new()), 1, "the event with a known class is not sent again");
    }
    cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:aside"), POISON);
    cr_assert_str_eq(de_score(f.r, "sidecar:email:aside", "example.Unknown###7"), quarantine, "the time in quarantine changed");
    cr_assert_str_eq(strchr(de_score(f.r, DELAYED_KEYS, "example.Unknown###7"), '.'), ".25");
}

Test(redis_delayed_promote, large_envelopes_are_read_in_small_steps_or_left) {
    enum { EVENTS = 12, SIZE = 300000 };
    scoped(buffer_free) buffer_t large = {0};
    buffer_str(&large, "{\"payload\":{\"id\":\"");
    for (int i = 0; i < SIZE; i++) buffer_str(&large, "x");
    buffer_str(&large, "\"}" TAIL(1));
    for (int i = 0; i < EVENTS; i++) {
        char *member = kept_printf(PAYMENT "###%02d", i);
        de_add(f.r, member, (slice_t){large.data, large.len});
    }
    de_ask_t ask = de_new();
    ask.first = 2;
    ask.bytes = 1000000;
    cr_assert_eq(de_moved(f.r, ask), 4, "the batch must end after the fourth event, which exceeds `bytes`");
    cr_assert_eq(de_moved(f.r, ask), 4);
    ask.payload = SIZE;
    cr_assert_eq(de_moved(f.r, ask), 0, "envelopes above max_payload must not be sent");
    cr_assert_eq(redis_int(f.r, "ZCARD sidecar:email:aside"), 4);
    cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), 8);
    cr_assert_eq(redis_int(f.r, "ZCARD " DELAYED_KEYS), EVENTS);
}

/* ---- Preconditions and errors of Redis */

Test(redis_delayed_promote, only_the_owner_with_the_lock_promotes) {
    de_ask_t ask = de_new();
    de_add(f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
    ask.token = "another";
    eval_t call = de_call(&ask);
    expect_word(call_in_vain(&call, f.r), "fenced");
    redis_ok(f.r, "HSET sidecar:email:meta group others");
    ask.token = "T";
    call = de_call(&ask);
    redisReply *reply = call_in_vain(&call, f.r);
    cr_assert_str_eq(reply->element[1]->str, "others");
    expect_word(reply, "owner");
    redis_ok(f.r, "HSET sidecar:email:meta group app");
    cr_assert_eq(de_moved(f.r, ask), 1);
}

Test(redis_delayed_promote, keys_of_the_wrong_type_change_nothing) {
    static const struct {
        const char *key, *name, *right;
    } keys[] = {{DELAYED_KEYS, "delayed", "zset"},
                {"de_events", "events", "hash"},
                {"sidecar:email:meta", "meta", "hash"},
                {"sidecar:email:aside", "aside", "zset"},
                {"de_paymentcheck", "ready", "list"}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for_other_types (type, keys[k].right) {
            redis_ok(f.r, "FLUSHALL");
            redis_ok(f.r, "SET sidecar:app:lock T");
            de_add(f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
            de_add(f.r, "odd", slice_text(ENVELOPE(1)));
            fixture_make_key(f.r, keys[k].key, type);
            de_ask_t ask = de_new();
            eval_t call = de_call(&ask);
            expect_type(call_in_vain(&call, f.r), keys[k].name, type);
        }
}

Test(redis_delayed_promote, a_missing_right_sends_nothing_until_it_is_back) {
    static const char *const commands[] = {"zadd", "lpush", "hset", "zrem", "hmget", "zrangebyscore", "type", "time", "zrange"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        redis_ok(f.r, "DEL " DELAYED_KEYS " de_events de_paymentcheck sidecar:email:aside");
        de_add(f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
        de_add(f.r, PAYMENT "###gone", slice_text(ENVELOPE(1)));
        redis_ok(f.r, "HDEL de_events " PAYMENT "###gone");
        redis_ok(f.r, "ACL SETUSER default -%s", commands[i]);
        for (int twice = 0; twice < 2; twice++) {
            redisReply *reply = delayed_promote_call(f.r, de_new());
            cr_assert_eq(reply->type, REDIS_REPLY_ERROR, "the script does not use %s", commands[i]);
        }
        redis_ok(f.r, "ACL SETUSER default +@all");
        cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), 0, "without %s the event is sent", commands[i]);
        cr_assert_eq(de_moved(f.r, de_new()), 1, "%s", commands[i]);
        cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), 1, "without %s the event is lost", commands[i]);
        cr_assert_eq(redis_int(f.r, "HEXISTS de_events " PAYMENT "###1"), 1);
        cr_assert_eq(redis_int(f.r, "ZCARD " DELAYED_KEYS), 1);
    }
}

Test(redis_delayed_promote, a_full_redis_still_sends) {
    de_add(f.r, PAYMENT "###1", slice_text(ENVELOPE(1)));
    de_add(f.r, "odd", slice_text(ENVELOPE(1)));
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    if (conn_version(f.conn) >= 70000) cr_assert_eq(de_moved(f.r, de_new()), 1);
}
