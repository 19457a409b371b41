/* Compares how delayed_promote.lua reads random envelopes with base/json_pick. If the script sends an envelope that is valid
 * JSON, script and JSON reader must change the same digits. The script quarantines all other envelopes. */
#include "delayed_call.h"

#include "base/json/json.h"
#include "cluster.h"

enum { ENVELOPES = 100000, AT_ONCE = 1000 };

/* Parts of payloads; many look like parts of an envelope. The other tables have the parts of the envelopes. */
static const char *const texts[] = {
    "x",        "\\\"",           "\\\\", "}",  "{", "\\\",\\\"attempt\\\":1,\\\"logContext\\\":{}}",
    "\xc3\xa9", "\\u00e9\\n",     "###",  "]",  ",", "\\\\\\\"",
    "attempt",  "\\ud83d\\ude00", " ",    "\"", "\\"};
static const char *const attempts[] = {
    "1",   "2",   "9",     "10",   "69",  "70", "99999", "100000", "0",  "-1", "01",
    "1.0", "1e1", "\"1\"", "null", "[1]", "{}", "1 ",    " 1",     "+1", "",   "12345678901234567890"};
static const char *const contexts[] = {"{}", "{ }", "{\"a\":1}", "[]", "null", "{}}", "{}]"};
static const char *const types[] = {PAYMENT, PAYMENT,         PAYMENT,     PAYMENT,
                                    WELCOME, "example.Other", PAYMENT " ", "\\u0065xample.PaymentCheck"};
static const char *const between[] = {",", ",", ",", ",", ",", ",", " ,", ", ", ",\n", ""};

#define PICK(random, all) ((all)[cluster_random(random, sizeof(all) / sizeof *(all))])

static void add_text(uint64_t *random, buffer_t *out) {
    buffer_str(out, "\"");
    for (uint64_t i = cluster_random(random, 5); i > 0; i--) {
        /* The last two texts end the string too early: use them seldom. */
        size_t most = sizeof texts / sizeof *texts - (cluster_random(random, 50) ? 2 : 0);
        buffer_str(out, texts[cluster_random(random, most)]);
    }
    buffer_str(out, "\"");
}

static void add_value(uint64_t *random, buffer_t *out, int depth) {
    switch (cluster_random(random, depth > 0 ? 6 : 4)) {
    case 0: add_text(random, out); return;
    case 1: buffer_str(out, PICK(random, attempts)); return;
    case 2: buffer_str(out, "true"); return;
    case 3: buffer_printf(out, "%llu.5e-400", (unsigned long long)cluster_random(random, UINT64_MAX)); return;
    case 4:
        buffer_str(out, "[");
        add_value(random, out, depth - 1);
        buffer_str(out, "]");
        return;
    default:
        buffer_str(out, "{\"attempt\":");
        add_value(random, out, depth - 1);
        buffer_str(out, ",\"type\":\"" PAYMENT "\"}");
    }
}

static bool seldom(uint64_t *random) { return cluster_random(random, 12) == 0; }

static void add_member(uint64_t *random, buffer_t *out, const char *name) {
    buffer_printf(out, "\"%s\":%s", name, seldom(random) ? " " : "");
    if (strcmp(name, "payload") == 0) {
        buffer_str(out, "{\"id\":");
        add_value(random, out, 3);
        buffer_str(out, "}");
    } else if (strcmp(name, "type") == 0) {
        buffer_printf(out, "\"%s\"", PICK(random, types));
    } else if (strcmp(name, "attempt") == 0) {
        if (seldom(random) || seldom(random))
            buffer_str(out, PICK(random, attempts));
        else
            buffer_printf(out, "%d", 1 + (int)cluster_random(random, 120));
    } else {
        buffer_str(out, seldom(random) ? PICK(random, contexts) : "{}");
    }
}

/* Makes an envelope, mostly with its members in Jackson's order. */
static void make_envelope(uint64_t *random, buffer_t *out) {
    static const char *const names[] = {"payload", "type", "attempt", "logContext"};
    buffer_clear(out);
    buffer_str(out, "{");
    bool first = true;
    uint64_t turned = seldom(random) ? cluster_random(random, 4) : 0;
    for (size_t i = 0; i < 4; i++) {
        if (seldom(random) && seldom(random)) continue;
        if (!first) buffer_str(out, seldom(random) ? PICK(random, between) : ",");
        first = false;
        if (seldom(random) && seldom(random)) {
            add_member(random, out, PICK(random, names));
            buffer_str(out, ",");
        }
        add_member(random, out, names[(i + turned) % 4]);
    }
    buffer_str(out, seldom(random) && seldom(random) ? " }" : "}");
}

/* Writes the envelope that the script should write. False: the envelope is not valid JSON with one numeric `attempt`. */
static bool expected(slice_t envelope, buffer_t *out) {
    enum { ATTEMPT, TYPE };
    json_pick_t picks[] = {{.pointer = "/attempt"}, {.pointer = "/type"}};
    int64_t attempt;
    buffer_clear(out);
    if (!json_pick(envelope, picks, 2) || picks[ATTEMPT].found != JSON_FOUND || picks[TYPE].found != JSON_FOUND) return false;
    if (picks[ATTEMPT].value.type != JSON_NUMBER || !json_integer(picks[ATTEMPT].value.raw, &attempt)) return false;
    if (picks[TYPE].value.type != JSON_STRING || !slice_is(picks[TYPE].value.raw, PAYMENT)) return false;
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)attempt + 1);
    json_cut_t cut = {.raw = picks[ATTEMPT].value.raw, .with = slice_text(digits)};
    return json_splice(envelope, &cut, 1, out);
}

static slice_t slice_of(const buffer_t *buffer) { return (slice_t){buffer_text(buffer), buffer->len}; }

/* Compares one envelope. Adds 1 to *good if the JSON reader accepts it, and to *sent if the script sent it. */
static void check(redis_t *r, const char *member, slice_t envelope, int *good, int *sent) {
    scoped(buffer_free) buffer_t wanted = {0};
    bool reads = expected(envelope, &wanted);
    char *quarantine = redis_str(r, "ZSCORE sidecar:email:aside %s", member);
    redisReply *reply;
    slice_t stored = de_stored(r, member, &reply);
    *good += reads;
    *sent += !quarantine;
    if (quarantine)
        cr_assert(slice_equal(stored, envelope), "%.*s was quarantined, but changed", (int)envelope.len, envelope.data);
    else if (reads)
        cr_assert(slice_equal(stored, slice_of(&wanted)), "%.*s became %.*s", (int)envelope.len, envelope.data, (int)stored.len,
                  stored.data);
    else /* not valid JSON, or a doubled member: only digits at the end may differ */
        cr_assert(!json_pick(envelope, NULL, 0) || stored.len - envelope.len <= 1, "%.*s", (int)envelope.len, envelope.data);
    freeReplyObject(reply);
}

Test(redis_delayed_shape, the_script_agrees_with_the_json_reader, .timeout = 300) {
    scoped(fixture_stop) fixture_t f = fixture_start_locked();
    uint64_t random = cluster_seed("redis_delayed_shape");
    static buffer_t all[AT_ONCE];
    int good = 0, sent = 0;
    for (int done = 0; done < ENVELOPES; done += AT_ONCE) {
        redis_ok(f.r, "DEL " DELAYED_KEYS " de_events de_paymentcheck de_welcome sidecar:email:aside");
        for (int i = 0; i < AT_ONCE; i++) {
            make_envelope(&random, &all[i]);
            redisAppendCommand(f.r, "ZADD " DELAYED_KEYS " 1 " PAYMENT "###%d", i);
            redisAppendCommand(f.r, "HSET de_events " PAYMENT "###%d %b", i, all[i].data, all[i].len);
        }
        for (int i = 0; i < 2 * AT_ONCE; i++) {
            void *reply;
            cr_assert_eq(redisGetReply(f.r, &reply), REDIS_OK);
            freeReplyObject(reply);
        }
        long long moved = de_moved(f.r, de_new()), before = sent;
        for (int i = 0; i < AT_ONCE; i++) {
            char member[64];
            snprintf(member, sizeof member, PAYMENT "###%d", i);
            check(f.r, member, slice_of(&all[i]), &good, &sent);
        }
        cr_assert_eq(sent - before, moved);
        cr_assert_eq(redis_int(f.r, "LLEN de_paymentcheck"), moved);
    }
    cr_assert(sent > ENVELOPES / 4 && good > sent / 2 && sent < ENVELOPES, "%d sent, %d good: too few cases", sent, good);
    for (int i = 0; i < AT_ONCE; i++) buffer_free(&all[i]);
}
