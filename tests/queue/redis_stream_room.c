/* Room in a failure stream: trim.lua makes it, settle.lua needs it. */
#include "queue/settle_reply.h"
#include "trim_call.h"

/* Adds four old and six young entries of five bytes each, 1 to 10. */
static void add_old_and_young(fixture_t *f, long long now) {
    for (int i = 1; i <= 10; i++) redis_ok(f->r, "XADD " STREAM " %lld-%d event abcde", i <= 4 ? 1 : now, i);
    redis_ok(f->r, "HSET " META " bytes 50 entries 10");
}

/* Acknowledges the entries up to this one; 0: none, 11: an entry of an earlier stream. */
static void add_auditor_at(fixture_t *f, const char *instance, int entry, long long now, long long ago_ms) {
    stream_id_t id;
    snprintf(id, sizeof id, "%lld-%d", entry <= 4 ? 1 : now, entry);
    if (entry) add_auditor(f, instance, id, ago_ms);
}

enum { DAY_MS = 86400000 };
static const struct trim_case {
    const char *what;
    long long room, records;
    int copies, first, second; /* up to where two auditors have acknowledged */
    long long first_ago_ms;
    long long removed, early, wait; /* wait 1: any time until the oldest is old */
} trim_cases[] = {
    {"at the limit there is room", 50, 0, 1, 10, 0, 0, 4, 0, 1},
    {"above it, old entries make room", 49, 0, 1, 10, 0, 0, 4, 0, 1},
    {"old entries are enough", 30, 0, 1, 10, 0, 0, 4, 0, 1},
    {"a young entry goes too", 29, 0, 1, 10, 0, 0, 5, 1, 1},
    {"no more than needed", 25, 0, 1, 10, 0, 0, 5, 1, 1},
    {"one byte more", 24, 0, 1, 10, 0, 0, 6, 2, 1},
    {"all", 0, 0, 1, 10, 0, 0, 10, 6, -1},
    {"min_records keeps nothing", 0, 10, 1, 10, 0, 0, 10, 6, -1},
    {"min_records keeps entries once there is room", 30, 10, 1, 10, 0, 0, 4, 0, -1},
    {"min_records keeps old entries, too", 40, 8, 1, 10, 0, 0, 2, 0, -1},
    {"nobody has them", 0, 0, 1, 0, 0, 0, 0, 0, 0},
    {"only old ones have copies", 0, 0, 1, 3, 0, 0, 3, 0, 0},
    {"some young ones have copies", 0, 0, 1, 7, 0, 0, 7, 3, 0},
    {"one copy of two", 0, 0, 2, 10, 0, 0, 0, 0, 0},
    {"two copies of some", 0, 0, 2, 10, 6, 0, 6, 2, 0},
    {"a silent log is no copy", 0, 0, 1, 10, 0, DAY_MS + 60000, 0, 0, 0},
    {"a log of an earlier stream is no copy", 0, 0, 1, 11, 0, 0, 0, 0, 0},
};

static fixture_t f;
SUITE(redis_stream_room, f = fixture_start_locked(), fixture_stop(&f));

Test(redis_stream_room, above_the_limit_copied_entries_are_trimmed_at_any_age) {
    for (size_t i = 0; i < sizeof trim_cases / sizeof *trim_cases; i++) {
        const struct trim_case *row = &trim_cases[i];
        ask_t ask = ask_new();
        ask.retain = 3600000, ask.room = row->room, ask.records = row->records, ask.copies = row->copies;
        redis_ok(f.r, "DEL " STREAM " " AUDITORS " " META);
        long long now = redis_ms(f.r);
        add_old_and_young(&f, now);
        add_auditor_at(&f, "a", row->first, now, row->first_ago_ms);
        add_auditor_at(&f, "b", row->second, now, 0);
        redisReply *reply = call(&f, ask);
        cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 9, "%s: %s", row->what, reply->str);
        long long wait = reply->element[3]->integer;
        cr_expect_eq(reply->element[1]->integer, row->removed, "%s: %lld removed", row->what, reply->element[1]->integer);
        cr_expect_eq(reply->element[4]->integer, row->early, "%s: %lld young", row->what, reply->element[4]->integer);
        cr_expect_eq(reply->element[5]->integer, 5 * (10 - row->removed), "%s: bytes", row->what);
        cr_expect(row->wait == 1 ? wait > 0 : wait == row->wait, "%s: wait %lld", row->what, wait);
        cr_expect_eq(redis_int(f.r, "XLEN " STREAM), 10 - row->removed, "%s", row->what);
        char *bytes = redis_str(f.r, "HGET " META " bytes"), *early = redis_str(f.r, "HGET " META " trimmed_early");
        cr_expect_eq(strtoll(bytes, NULL, 10), 5 * (10 - row->removed), "%s: %s bytes in meta", row->what, bytes);
        cr_expect_eq(early && strtoll(early, NULL, 10) >= now, row->early > 0, "%s: trimmed_early %s", row->what, early);
    }
    redis_ok(f.r, "DEL " STREAM " " AUDITORS " " META);
    add_old_and_young(&f, redis_ms(f.r));
    acknowledge_all(&f);
    ask_t ask = ask_new();
    ask.room = 0, ask.token = "other";
    expect_kind(&f, ask, "fenced", NULL, NULL);
}

/* A stream that somebody has trimmed by hand must not count as large for ever. */
Test(redis_stream_room, a_trim_corrects_the_count_of_a_stream_trimmed_by_hand) {
    add(&f, 10);
    redis_ok(f.r, "HSET " META " bytes 5000 entries 1000");
    acknowledge_all(&f);
    ask_t ask = ask_new();
    ask.most = 4;
    cr_assert_eq(trim(&f, ask, NULL), 4);
    redis_expect(f.r, "30", "HGET " META " bytes");
    redis_expect(f.r, "6", "HGET " META " entries");
}

/* Ends a job with a record of 29 bytes; the stream may have 100. Returns the first word of the reply; kept. */
static char *end_job(void) {
    size_t len;
    const char *text = fixture_script(&script_settle, &len);
    redis_ok(f.r, "DEL email:backup");
    redis_ok(f.r, "RPUSH email:backup job");
    redisReply *reply =
        settle_answer(redis_do(f.r,
                               "EVAL %b 11 sidecar:app:lock sidecar:email:stamps email:errors " STREAM " " META
                               " sidecar:app:lock sidecar:app:lock sidecar:app:lock sidecar:app:lock email:backup email "
                               "T ms 100 %s 0 0 0 %s 0 2 kind payload %s job digest %s %s failed 0123456789",
                               text, len, "", "", "10,11,0,1,1,e", "", ""));
    cr_assert_eq(reply->type, REDIS_REPLY_STRING, "%s", reply->str);
    char *word = strdup(reply->str);
    freeReplyObject(reply);
    return kept(word);
}

static void expect_ends(const char *word, const char *bytes) {
    char *said = end_job();
    cr_assert_str_eq(said, word);
    redis_expect(f.r, bytes, "HGET " META " bytes");
}

/* An operator trims a full stream by hand. Then the stream has room, although trim.lua has not counted the removal. */
Test(redis_stream_room, a_full_stream_trimmed_by_hand_has_room_again) {
    expect_ends("settled", "29");
    expect_ends("settled", "58");
    expect_ends("settled", "87");
    expect_ends("full", "87");
    redis_ok(f.r, "XTRIM " STREAM " MAXLEN 1");
    expect_ends("settled", "58");
    expect_ends("settled", "87");
    redis_ok(f.r, "DEL " STREAM);
    expect_ends("settled", "29");
    expect_ends("settled", "58");
    acknowledge_all(&f);
    ask_t ask = ask_new();
    ask.records = 1;
    ask.retain = -1000; /* entries of this millisecond are old too */
    cr_assert_eq(trim(&f, ask, NULL), 1, "one entry is above min_records");
    expect_ends("settled", "58");
}

/* Redis 6.2 counts no subcommands. */
static long long asked(void) { return server_commandstat(f.server, "xinfo|stream") + server_commandstat(f.server, "xinfo"); }

/* XINFO STREAM would copy the newest entry, 4 MB. */
Test(redis_stream_room, a_large_newest_entry_costs_a_trim_nothing) {
    static char large[4000000];
    memset(large, 'x', sizeof large - 1);
    for (int other = 0; other < 2; other++) { /* a script of 0.1.0 has added a record */
        redis_ok(f.r, "DEL " STREAM " " AUDITORS " " META);
        add_old_and_young(&f, redis_ms(f.r));
        char *before = kept(redis_str(f.r, "XADD " STREAM " * payload x"));
        char *id = kept(redis_str(f.r, "XADD " STREAM " * payload %s", large));
        redis_ok(f.r, "HSET " META " last %s", other ? before : id);
        add_auditor(&f, "a", id, 0);
        add_auditor(&f, "of an earlier stream", HUGE "-1", 0);
        redis_ok(f.r, "CONFIG RESETSTAT");
        ask_t ask = ask_new();
        ask.most = 6;
        cr_assert_eq(trim(&f, ask, NULL), 6);
        cr_assert_eq(trim(&f, ask, NULL), 6);
        cr_assert_eq(asked(), other, "it asks once, and keeps the answer");
        cr_assert_eq(redis_int(f.r, "HLEN " AUDITORS), 1);
    }
}

/* The paces of all scripts follow such times, so that each script takes Redis a slice. */
Test(redis_stream_room, a_trim_tells_how_many_microseconds_it_took) {
    enum { ENTRIES = 20000, LEAST_US = 500 };
    add(&f, ENTRIES);
    acknowledge_all(&f);
    ask_t ask = ask_new();
    ask.most = ENTRIES;
    long long began = redis_us(f.r);
    redisReply *reply = call(&f, ask);
    long long took = redis_us(f.r) - began, told = reply->element[6]->integer;
    cr_assert_eq(reply->element[1]->integer, ENTRIES);
    cr_assert(told >= LEAST_US && told <= took, "%lld us of %lld", told, took);
    cr_assert_lt(reply->element[7]->integer, told, "the time before it looks at entries");
}
