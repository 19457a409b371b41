/* Dialect bullmq takes keys of BullMQ for its own, and refuses keys of other systems by name. */
#include "dialects/bull/bull_call.h"
#include "dialects/registry.h"

#define CONFIG "group = \"app\"; queues = ( { name = \"video\"; dialect = \"bullmq\"; } );"

static fixture_t f;
SUITE(redis_bullmq, f = fixture_start(&(fixture_options_t){.config = CONFIG}), fixture_stop(&f));

static char *refusal(void) {
    buffer_t text = {0};
    const call_t call = fixture_call(&f, NULL);
    cr_assert_eq(dialect_bullmq.adopt(&call, &text), OUTCOME_OK, "%s", f.error.text);
    char *said = kept_printf("%s", buffer_text(&text));
    buffer_free(&text);
    return said;
}

Test(redis_bullmq, adopts_only_what_it_knows) {
#define OTHER                                                                                                                    \
    "the queue does not belong to BullMQ 5 or 6 (bull:video:meta has no version, and bull:video:events is no stream): dialect "  \
    "bull serves Bull 4"
    static const struct {
        const char *make[2], *said;
    } rows[] = {
        {{NULL}, ""},
        {{"HSET " BULL "meta version bullmq:5.81.5"}, ""},
        {{"HSET " BULL "meta version bullmq:6.7.0", "LPUSH " BULL "wait 1"}, ""},
        {{"HSET " BULL "meta version bullmq-elixir:5.2.3"}, ""},
        {{"XADD " BULL "events * event waiting", "LPUSH " BULL "wait 1"}, ""}, /* only workers have run */
        {{"HSET " BULL "meta version bullmq:4.18.2", "XADD " BULL "events * event waiting"},
         BULL
         "meta has the version \"bullmq:4.18.2\": dialect bullmq serves BullMQ 5 and 6: update the application to one of them, "
         "or the sidecar if the application is newer"},
        {{"HSET " BULL "meta version bullmq:7.0.0"},
         BULL
         "meta has the version \"bullmq:7.0.0\": dialect bullmq serves BullMQ 5 and 6: update the application to one of them, "
         "or the sidecar if the application is newer"},
        {{"HSET " BULL "meta version a\"name"},
         BULL "meta has the version \"a\\\"name\": dialect bullmq serves BullMQ 5 and 6: update the application to one of them, "
              "or the sidecar if the application is newer"},
        {{"INCR " BULL "id"}, OTHER},
        {{"LPUSH " BULL "wait 1"}, OTHER},
        {{"ZADD " BULL "failed 1 1", "SET " BULL "events 1"}, OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redis_ok(f.r, "FLUSHALL");
        for (size_t k = 0; k < 2 && rows[i].make[k]; k++) redis_ok(f.r, rows[i].make[k]);
        char *said = refusal();
        cr_expect_str_eq(said, rows[i].said, "row %zu: %s", i, said);
    }
}

Test(redis_bullmq, a_meta_of_another_type_is_an_error_that_names_it) {
    buffer_t text = {0};
    const call_t call = fixture_call(&f, NULL);
    redis_ok(f.r, "SET " BULL "meta 1");
    cr_assert_eq(dialect_bullmq.adopt(&call, &text), OUTCOME_REFUSED);
    cr_expect_eq(text.len, 0);
    cr_expect_not_null(strstr(f.error.text, "WRONGTYPE"), "%s", f.error.text);
}

static void add_note(void *self, bool lost, size_t queue, const char *text) {
    buffer_printf(self, "%s%zu %s\n", lost ? "lost " : "", queue, text);
}

Test(redis_bullmq, notes_a_version_that_was_not_tested) {
    static const char *const known[] = {"bullmq:5.81.5", "bullmq:5.81.9", "bullmq:6.7.0", "bullmq:5.53.2", "what"};
    buffer_t said = {0};
    const call_t call = fixture_call(&f, NULL);
    cr_assert_eq(dialect_bullmq.survey(&call, add_note, &said), OUTCOME_OK);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        redis_ok(f.r, "HSET " BULL "meta version %s", known[i]);
        cr_assert_eq(dialect_bullmq.survey(&call, add_note, &said), OUTCOME_OK);
        cr_assert_eq(said.len, 0, "%s: %s", known[i], buffer_text(&said));
    }
    redis_ok(f.r, "HSET " BULL "meta version bullmq:6.12.3");
    cr_assert_eq(dialect_bullmq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_str_eq(buffer_text(&said), "0 BullMQ 6.12.3 is newer than 6.7, the newest that dialect bullmq was tested with\n");
    buffer_clear(&said);
    redis_ok(f.r, "HSET " BULL "meta version bullmq:5.53.1");
    cr_assert_eq(dialect_bullmq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_str_eq(buffer_text(&said), "lost 0 BullMQ 5.53.1 is older than 5.53.2: its delayed and stalled jobs are left to "
                                         "the workers until you update the application\n");
    buffer_free(&said);
}

Test(redis_bullmq, notes_a_paused_queue) {
    buffer_t said = {0};
    const call_t call = fixture_call(&f, NULL);
    redis_ok(f.r, "HSET " BULL "meta paused 1"); /* also where only workers have run, which write no version */
    cr_assert_eq(dialect_bullmq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_str_eq(buffer_text(&said), "0 the application has paused this queue: no worker takes a job until it is resumed\n");
    buffer_clear(&said);
    redis_ok(f.r, "HDEL " BULL "meta paused");
    cr_assert_eq(dialect_bullmq.survey(&call, add_note, &said), OUTCOME_OK);
    cr_expect_eq(said.len, 0);
    buffer_free(&said);
}
