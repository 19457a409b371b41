/* The survey: workers use other keys than the config names. */
#include "fixture.h"
#include "inspect/survey.h"
#include "redis/socket/reply_guard.h"

/* The names of the backup lists that KMQueue makes of [worker1_queue, worker2_queue:safe], of these two in the other order, and
 * of [mail:safe] (tests/data/kmqueue). */
#define BACKUP "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="
#define TURNED "back_up_queue_Iv49kCN9zxHEFCEaMjP9YQ=="
#define OTHER  "back_up_queue_uDqIalxDfM2awVRz/W8XiA=="

#define MARKER(list)                                                                                                             \
    "{\"id\":\"m\",\"queue\":\"" list "\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":1700000000000,\"retry\":0,"        \
    "\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}"
#define TASK(list)                                                                                                               \
    "{\"data\":\"x\",\"id\":\"1\",\"queue\":\"" list "\",\"taskStatus\":{\"excTimestamp\":1700000000000,\"genTimestamp\":"       \
    "1700000000000,\"retry\":0,\"state\":\"normal\"},\"type\":\"t\",\"unique\":true}"

static const char KMQUEUE[] = "group = \"app\"; queues = ( { name = \"email\"; dialect = \"kmqueue\"; queues = "
                              "[\"worker1_queue\", \"worker2_queue:safe\"]; "
                              "}, { name = \"sms\"; } );";

static void add_result(void *self, preflight_level_t level, const char *queue, const char *text) {
    cr_assert(level == PREFLIGHT_NOTE || level == PREFLIGHT_WARNING);
    buffer_printf(self, "%s %s: %s\n", level == PREFLIGHT_WARNING ? "warning" : "note", queue ? queue : "-", text);
}

/* Expects as many results as there are texts, each with its text; NULL ends the texts. */
static void expect_results(fixture_t *f, const char *const *texts) {
    scoped(buffer_free) buffer_t said = {0};
    const char *at;
    cr_assert_eq(survey(&(preflight_call_t){f->conn, f->keys, add_result, &said, &f->error}), OUTCOME_OK, "%s", f->error.text);
    const char *end = at = buffer_text(&said);
    for (; *texts; texts++, end = strchr(end, '\n') + 1) {
        cr_assert_not_null(at = strstr(end, *texts), "\"%s\" is not in:\n%s", *texts, buffer_text(&said));
        cr_assert(!memchr(end, '\n', (size_t)(at - end)), "more results than expected:\n%s", buffer_text(&said));
    }
    cr_assert_str_empty(end, "more results than expected:\n%s", buffer_text(&said));
}
#define expect(f, ...) expect_results(f, (const char *const[]){__VA_ARGS__, NULL})
#define expect_none(f) expect_results(f, (const char *const[]){NULL})

static fixture_t f;
SUITE(redis_survey, , fixture_stop(&f));

Test(redis_survey, warns_of_a_manager_with_the_same_names_in_another_order) {
    f = fixture_start(&(fixture_options_t){.config = KMQUEUE});
    redis_ok(f.r, "LPUSH " TURNED " %s", MARKER(TURNED));
    expect(&f, "note email: its backup list \"" BACKUP "\" does not exist: no KMQueueManager with exactly these `queues`");
    redis_ok(f.r, "LPUSH worker2_queue %s", TASK("worker2_queue"));
    expect(&f, "warning email: tasks wait, but the backup list \"" BACKUP "\" does not exist");
    expect(&f, "; Redis has \"" TURNED "\"");
    redis_ok(f.r, "RPOPLPUSH worker2_queue " TURNED);
    expect(&f, "warning email: the workers of its list \"worker2_queue\" use the backup list \"" TURNED "\", not \"" BACKUP "\"");
    redis_ok(f.r, "LPUSH " BACKUP " %s", MARKER(BACKUP)); /* left by a manager of another time */
    expect(&f, "warning email: the workers of its list \"worker2_queue\" use the backup list \"" TURNED "\", not \"" BACKUP "\"");
}

Test(redis_survey, notes_a_backup_list_with_tasks_of_no_queue) {
    f = fixture_start(&(fixture_options_t){.config = KMQUEUE});
    redis_ok(f.r, "LPUSH " BACKUP " %s", MARKER(BACKUP));
    redis_ok(f.r, "LPUSH " OTHER " %s", MARKER(OTHER));
    expect_none(&f);
    redis_ok(f.r, "RPUSH " OTHER " %s", TASK("mail"));
    expect(&f, "note -: no queue of this config has the backup list \"" OTHER "\", which has tasks of the list \"mail\"");
}

/* A reply with jobs may be larger than others, and the survey must not end the preflight. */
Test(redis_survey, reads_a_backup_list_with_large_tasks) {
    f = fixture_start(&(fixture_options_t){.config = KMQUEUE});
    redis_ok(f.r, "LPUSH " BACKUP " %s", MARKER(BACKUP));
    redis_ok(f.r, "EVAL %s 1 " OTHER " %d", "redis.call('RPUSH', KEYS[1], string.rep('x', ARGV[1]))", MAX_REPLY + 1);
    expect_none(&f);
    redis_ok(f.r, "RPUSH " OTHER " %s", TASK("mail"));
    expect(&f, "note -: no queue of this config has the backup list \"" OTHER "\", which has tasks of the list \"mail\"");
}

Test(redis_survey, says_nothing_of_the_managers_that_the_config_names) {
    f = fixture_start(&(fixture_options_t){.config =
                                               "group = \"app\"; queues = ( { name = \"email\"; dialect = \"kmqueue\"; queues = "
                                               "[\"worker1_queue\", \"worker2_queue:safe\"]; }, { name = \"mail\"; dialect = "
                                               "\"kmqueue\"; queues = [\"mail:safe\"]; } );"});
    redis_ok(f.r, "LPUSH " BACKUP " %s %s", MARKER(BACKUP), TASK("worker2_queue"));
    redis_ok(f.r, "LPUSH worker2_queue %s", TASK("worker2_queue"));
    char *backup = kept(mem_str(f.config->queues[1].backup));
    redis_ok(f.r, "LPUSH %s %s", backup, TASK("mail"));
    redis_ok(f.r, "EVAL %s 0", "for i = 1, 5000 do redis.call('SET', 'key' .. i, '') end"); /* several steps of SCAN */
    expect_none(&f);
    redis_ok(f.r, "LPUSH " TURNED " %s", TASK("worker1_queue"));
    expect(&f, "warning email: the workers of its list \"worker1_queue\" use the backup list \"" TURNED "\"");
}

Test(redis_survey, without_the_right_to_scan_it_still_sees_an_absent_backup_list) {
    f = fixture_start(&(fixture_options_t){.config = KMQUEUE});
    redis_ok(f.r, "ACL SETUSER default -scan");
    expect(&f, "note email: its backup list");
    redis_ok(f.r, "LPUSH worker1_queue task");
    expect(&f, "warning email: tasks wait");
}

Test(redis_survey, notes_a_queue_of_which_no_key_exists) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"video\"; dialect = \"bull\"; }, { name = \"events\"; dialect = "
                  "\"delayed_queue\"; types = [\"a.Check\"]; }, { name = \"sms\"; } );"});
    redis_ok(f.r, "SET bull:video:stalled-check 1"); /* the sidecar's own */
    expect(&f, "note video: Redis has no key of this queue, such as \"bull:video:delayed\"",
           "note events: Redis has no key of this queue, such as \"de_delayed_events\"");
    redis_ok(f.r, "INCR bull:video:id");
    redis_ok(f.r, "LPUSH de_check event");
    expect_none(&f);
}

/* A typo in a name: the keys of these dialects come and go with the jobs, so absence alone says nothing. */
Test(redis_survey, names_a_key_that_looks_like_a_queue_without_keys) {
    f = fixture_start(
        &(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"email2\"; }, { name = "
                                       "\"sms\"; }, { name = \"fights\"; "
                                       "dialect = \"private_queues\"; main = \"fight-requests\"; private = \"w-*\"; } );"});
    expect_none(&f);
    redis_ok(f.r, "MSET emial 1 sidecar:email:x 1");
    redis_ok(f.r, "LPUSH email2 job");
    redis_ok(f.r, "LPUSH a-list-of-another-application job");
    expect_none(&f);
    redis_ok(f.r, "LPUSH emails job");
    redis_ok(f.r, "ZADD smss:delayed 1 job");
    redis_ok(f.r, "LPUSH fight_request job");
    expect(&f, "note email: none of its keys exists; near: \"emails\"", "note sms: none of its keys exists; near: \"smss\"",
           "note fights: none of its keys exists; near: \"fight_request\"");
    redis_ok(f.r, "ACL SETUSER default -scan");
    expect_none(&f);
    redis_ok(f.r, "ACL SETUSER default +scan");
    redis_ok(f.r, "LPUSH email job");
    redis_ok(f.r, "HSET sidecar:sms:stamps job stamp"); /* it had jobs lately */
    expect(&f, "note fights: none of its keys exists");
}

/* Promoted jobs would get a field that no worker reads. */
Test(redis_survey, warns_of_a_stream_whose_entries_have_other_fields) {
    f = fixture_start(
        &(fixture_options_t){.config = "group = \"app\"; queues = ( { name = \"mail\"; dialect = \"stream\"; group = \"g\"; }, "
                                       "{ name = \"sms\"; dialect = \"stream\"; group = \"g\"; roles = [\"monitor\"]; } );"});
    redis_ok(f.r, "XADD mail * trace t data job");
    redis_ok(f.r, "XADD sms * body job");
    expect_none(&f);
    redis_ok(f.r, "XADD mail * body job");
    expect(
        &f,
        "warning mail: the newest entry of \"mail\" has no field \"data\", which promoted jobs get (its first one is \"body\")");
}

/* The stream of a typo, and the events of a system that the sidecar would take for jobs. */
Test(redis_survey, names_streams_that_are_near_or_of_another_system) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"mail\"; dialect = \"stream\"; stream = \"mails:in\"; group = \"g\"; "
                  "roles = [\"monitor\"]; }, { name = \"v\"; dialect = \"stream\"; stream = \"bull:video:events\"; group = "
                  "\"g\"; roles = [\"monitor\"]; } );"});
    redis_ok(f.r, "LPUSH mail:in job"); /* no stream */
    redis_ok(f.r, "XADD bull:video:events * event added");
    expect(&f, "note mail: Redis has no key of this queue");
    redis_ok(f.r, "XADD mail:ins * data job");
    redis_ok(f.r, "HSET bull:video:meta version bullmq:5.81.5");
    expect(&f, "note mail: Redis has no key of this queue",
           "warning v: its key \"bull:video:events\" seems to be of Bull or BullMQ",
           "note mail: none of its keys exists; near: \"mail:ins\"");
}

/* A typo in one key: the application writes to the one of the usual name. */
Test(redis_survey, names_the_default_key_where_an_option_names_one_that_does_not_exist) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"email\"; backup = \"email:bakup\"; delayed = \"email:delay\"; }, "
                  "{ name = \"sms\"; delayed = \"email:delayed\"; } );"});
    redis_ok(f.r, "LPUSH email job");
    redis_ok(f.r, "LPUSH sms job");
    redis_ok(f.r, "SET email:backup text");    /* another type, so it is something else */
    redis_ok(f.r, "ZADD email:delayed 1 job"); /* of another queue of this config */
    expect_none(&f);
    redis_ok(f.r, "DEL email:backup");
    redis_ok(f.r, "LPUSH email:backup job");
    expect(
        &f,
        "note email: its key \"email:bakup\" does not exist, but \"email:backup\" does, the default of `backup`: jobs there are "
        "not seen");
    redis_ok(f.r, "LPUSH email:bakup job");
    expect_none(&f);
}

/* The dispatcher would push ids and envelopes of other systems as jobs. */
Test(redis_survey, warns_of_a_list_that_is_laid_over_another_system) {
    f = fixture_start(&(fixture_options_t){
        .config =
            "group = \"app\"; queues = ( { name = \"bull:video\"; }, { name = \"mail\"; ready = \"queue:mail\"; }, { name = "
            "\"rq:queue:high\"; }, { name = \"a\"; ready = \"asynq:{a}:pending\"; }, { name = \"de\"; delayed = "
            "\"de_delayed_events\"; }, { name = \"own\"; } );"});
    redis_ok(f.r, "INCR own:id"); /* the application's counter */
    redis_ok(f.r, "LPUSH queue:mail job");
    redis_ok(f.r, "LPUSH own job");
    expect_none(&f);
    redis_ok(f.r, "INCR bull:video:id");
    redis_ok(f.r, "ZADD bull:video:completed 1 7");
    redis_ok(f.r, "SADD queues mail");
    redis_ok(f.r, "SADD rq:queues rq:queue:high");
    redis_ok(f.r, "SADD asynq:queues a");
    redis_ok(f.r, "HSET de_events a b");
    expect(&f, "warning bull:video: its key \"bull:video:delayed\" seems to be of Bull or BullMQ",
           "warning mail: its key \"queue:mail\" seems to be of RQ, Resque or Sidekiq",
           "warning rq:queue:high: its key \"rq:queue:high\" seems to be of RQ", "warning a: its key \"asynq:{a}:pending\"",
           "warning de: its key \"de_delayed_events\" seems to be of delayedQueue");
}

/* Another database may hold a queue of the same name, or redis.db is wrong. */
Test(redis_survey, notes_keys_of_a_queue_in_another_database) {
    f = fixture_start(&(fixture_options_t){
        .config = "group = \"app\"; queues = ( { name = \"video\"; dialect = \"bull\"; }, { name = \"sms\"; } );"});
    redis_ok(f.r, "INCR bull:video:id");
    redis_ok(f.r, "SELECT 2");
    redis_ok(f.r, "SET sms:other value");
    expect_none(&f);
    redis_ok(f.r, "LPUSH sms job");
    redis_ok(f.r, "SELECT 3");
    redis_ok(f.r, "INCR bull:video:id");
    expect(&f,
           "note video: database 3 also has \"bull:video:id\", and this config serves database 0 (`redis.db`): messages of Redis "
           "reach clients of every database, so failures of jobs that Bull removes at once are not recorded",
           "note sms: database 2 also has \"sms\"");
    redis_ok(f.r, "ACL SETUSER default -select");
    expect_none(&f);
}
