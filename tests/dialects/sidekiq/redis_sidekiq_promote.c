/* Due jobs go from Sidekiq's zsets to their queues, each with one enqueued_at. */
#include "base/json/json.h"
#include "dialects/registry.h"
#include "dialects/sidekiq/internal.h"
#include "fixture.h"
#include "sidekiq_jobs.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; queues = ( { name = \"video\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; "               \
    "max_payload = \"1KiB\"; } );"

static fixture_t f;
static redis_t *r;
SUITE(redis_sidekiq_promote, f = fixture_start(&(fixture_options_t){.config = CONFIG}); r = f.r;
      redis_ok(r, "SET sidecar:app:lock T"), fixture_stop(&f));

static promote_reply_t promote(int64_t skip) {
    promote_reply_t reply;
    redis_error_t error = {0};
    const call_t call = fixture_call(&f, "T");
    const promote_request_t ask = {.batch = 100, .skip = skip, .first = 1, .bytes = PROMOTE_BYTES};
    dialect_sidekiq.promote->append(&call, &ask);
    promote_read_replies(f.conn, &reply, 1, &error);
    cr_assert_eq(error.outcome, OUTCOME_OK, "%s", error.text);
    return reply;
}

static void due(const char *job, double score) { redis_ok(r, "ZADD schedule %.3f %s", score, job); }

/* The entry with its last enqueued_at as T, after a check of its unit. */
static char *waiting(const char *list, int at, bool seconds) {
    char *text = redis_str(r, "LINDEX %s %d", list, at), *last = NULL;
    for (char *next = text; (next = strstr(next, "\"enqueued_at\":1")) || (next = NULL, false);) last = next++;
    cr_assert_not_null(last, "%s", text);
    char *number = last + 14, *end = number + strspn(number, "0123456789.");
    cr_expect_eq(strchr(number, '.') != NULL && strchr(number, '.') < end, seconds, "%s", text);
    double ms = strtod(number, NULL) * (seconds ? 1000 : 1);
    cr_expect(ms > (double)redis_ms(r) - 60000 && ms <= (double)redis_ms(r) + 1, "%s", text);
    return kept_printf("%.*sT%s", (int)(number - text), text, end);
}

Test(redis_sidekiq_promote, entries_of_each_version_get_one_enqueued_at) {
    static const struct {
        const char *job, *list, *pushed;
        bool seconds;
    } rows[] = {
        {"{\"queue\":\"default\",\"args\":[\"} \\\"\",{\"enqueued_at\":1}],\"created_at\":1700000000.5}", "queue:default",
         "{\"queue\":\"default\",\"args\":[\"} \\\"\",{\"enqueued_at\":1}],\"created_at\":1700000000.5,\"enqueued_at\":T}", true},
        {"{\"queue\":\"mailers\",\"created_at\":1700000000123,\"enqueued_at\":1700000000234,\"retry_count\":3}", "queue:mailers",
         "{\"queue\":\"mailers\",\"created_at\":1700000000123,\"enqueued_at\":T,\"retry_count\":3}", false},
        {" { \"queue\" : \"default\" , \"enqueued_at\" : 1700000000.25 , \"a\\\\\":\"\\\\\" } \n", "queue:default",
         " { \"queue\" : \"default\" , \"enqueued_at\" : T , \"a\\\\\":\"\\\\\" } \n", true},
        {"{\"created_at\":1700000000123,\"queue\":\"mailers\",\"x\":12345678901234567890} ", "queue:mailers",
         "{\"created_at\":1700000000123,\"queue\":\"mailers\",\"x\":12345678901234567890,\"enqueued_at\":T}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(r, "DEL schedule queue:default queue:mailers");
        due(rows[i].job, 1);
        promote_reply_t reply = promote(0);
        cr_assert_eq(reply.moved, 1, "row %zu", i);
        bool spaced = strstr(rows[i].job, "\" : 1") != NULL; /* the search above wants no space */
        if (spaced) {
            cr_expect_eq(redis_int(r, "LLEN %s", rows[i].list), 1);
            sidekiq_job_t job;
            char *text = redis_str(r, "LINDEX %s 0", rows[i].list);
            cr_assert(sidekiq_job_read(slice_text(text), &job), "%s", text);
            cr_expect(sidekiq_time_ms(job.enqueued_at) > 1750000000000, "%s", text);
            continue;
        }
        char *found = waiting(rows[i].list, 0, rows[i].seconds);
        cr_expect_str_eq(found, rows[i].pushed, "row %zu: %s", i, found);
        cr_expect_eq(redis_int(r, "ZCARD schedule"), 0);
        cr_expect_eq(redis_int(r, "SISMEMBER queues %s", rows[i].list + 6), 1);
    }
}

Test(redis_sidekiq_promote, jobs_keep_their_order_and_later_ones_stay) {
    for (int i = 0; i < 250; i++) due(kept_printf("{\"queue\":\"%s\",\"n\":%d}", i % 2 ? "default" : "mailers", i), 1000 + i);
    due("{\"queue\":\"default\",\"n\":\"later\"}", 4e9);
    promote_reply_t reply = promote(0);
    cr_expect(reply.moved == 100 && reply.has_oldest && reply.oldest == 1000 && reply.large == 0);
    while (promote(0).moved) {
    }
    cr_expect_eq(redis_int(r, "ZCARD schedule"), 1);
    cr_expect_eq(
        redis_int(r, "EVAL %s 1 queue:default",
                  "local n = -1 for i = redis.call('LLEN', KEYS[1]) - 1, 0, -1 do "
                  "local m = cjson.decode(redis.call('LINDEX', KEYS[1], i)).n if m ~= n + 2 then return i + 1000 end n = m end "
                  "return n"),
        249);
}

/* Sidekiq's own poller has them. */
Test(redis_sidekiq_promote, entries_that_are_no_jobs_of_the_config_stay) {
    static const char *const entries[] = {"x",
                                          "[]",
                                          "{\"queue\":\"other\"}",
                                          "{\"queue\":5}",
                                          "{\"a\":1}",
                                          "{\"queue\":\"default\"",
                                          "[{\"queue\":\"default\"}]",
                                          "{\"queue\":\"default\",\"queue\":\"mailers\"}",
                                          "{\"queue\":\"default\",\"enqueued_at\":1,\"enqueued_at\":2}",
                                          "{\"queue\":\"default\",\"created_at\":1,\"created_at\":2}",
                                          "{\"queue\":\"default\",\"enqueued_at\":\"now\"}",
                                          "{\"queue\":\"default\",\"enqueued_\\u0061t\":1}",
                                          "{\"qu\\u0065ue\":\"default\"}",
                                          "{\"queue\":\"default\"} {}"};
    enum { ENTRIES = sizeof entries / sizeof *entries };
    for (size_t i = 0; i < ENTRIES; i++) due(entries[i], (double)i);
    due(kept_printf("{\"queue\":\"default\",\"x\":\"%01100d\"}", 0), ENTRIES);
    due("{\"queue\":\"default\",\"good\":1}", ENTRIES + 1);
    promote_reply_t reply = promote(0);
    cr_expect_eq(reply.moved, 1);
    cr_expect(reply.large == ENTRIES + 1 && reply.foreign == ENTRIES, "%d %d", (int)reply.large, (int)reply.foreign);
    cr_expect(reply.large_score == ENTRIES && reply.large_bytes > 1100);
    cr_expect_str_eq(reply.stranger, "(no JSON)");
    cr_expect_eq(redis_int(r, "ZCARD schedule"), ENTRIES + 1);
    cr_expect_eq(redis_int(r, "EXISTS queue:other queue:mailers"), 0);
    due("{\"queue\":\"default\",\"good\":2}", ENTRIES + 2);
    reply = promote(ENTRIES + 1);
    cr_expect(reply.moved == 1 && reply.large == 0);
}

Test(redis_sidekiq_promote, another_leader_another_owner_and_keys_of_other_types_change_nothing) {
    static const struct {
        const char *command;
        outcome_t outcome;
    } rows[] = {{"SET sidecar:app:lock other", OUTCOME_FENCED},
                {"HSET sidecar:video:meta group other", OUTCOME_REFUSED},
                {"SET queue:mailers x", OUTCOME_REFUSED},
                {"SET queues x", OUTCOME_REFUSED},
                {"SET sidecar:video:meta x", OUTCOME_REFUSED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        promote_reply_t reply;
        redis_error_t error = {0};
        redis_ok(r, "FLUSHALL");
        redis_ok(r, "SET sidecar:app:lock T");
        due("{\"queue\":\"default\"}", 1);
        redis_ok(r, rows[i].command);
        const call_t call = fixture_call(&f, "T");
        dialect_sidekiq.promote->append(&call, &(promote_request_t){.batch = 9, .first = 1, .bytes = PROMOTE_BYTES});
        cr_expect_eq(promote_read_replies(f.conn, &reply, 1, &error), rows[i].outcome, "row %zu: %s", i, error.text);
        cr_expect_eq(redis_int(r, "ZCARD schedule"), 1);
        cr_expect_eq(redis_int(r, "EXISTS queue:default"), 0);
    }
}
