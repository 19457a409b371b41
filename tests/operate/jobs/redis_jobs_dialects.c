/* The jobs of each dialect, as people see them. */
#include "jobs_reader.h"

static fixture_t f;
SUITE(redis_jobs_dialects, , fixture_stop(&f));

static void begin(const char *queue) {
    f = fixture_start(
        &(fixture_options_t){.config = kept_printf("group = \"app\"; queues = ( { name = \"email\"; %s } );", queue)});
}

#define TASK(list, id, exc, retry)                                                                                               \
    "{\"data\":\"d\",\"id\":\"" id "\",\"queue\":\"" list "\",\"taskStatus\":{\"excTimestamp\":" exc                             \
    ",\"genTimestamp\":1700000000000,\"retry\":" retry ",\"state\":\"normal\"},\"type\":\"mail\",\"unique\":true}"

Test(redis_jobs_dialects, kmqueue_shows_all_lists_of_a_group_without_the_marker) {
    begin("dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"];");
    redis_ok(f.r, "LPUSH worker1_queue %s", TASK("worker1_queue", "a", "0", "0"));
    redis_ok(f.r, "LPUSH worker2_queue %s", TASK("worker2_queue", "b", "0", "1"));
    redis_ok(f.r, "LPUSH %s %s", f.config->queues[0].backup, TASK("worker2_queue", "c", "1700000005000", "2"));
    redis_ok(f.r, "LPUSH %s %s", f.config->queues[0].backup,
             kept_printf("{\"id\":\"0f8fad5b-d9cb-469f-a165-70867728950e\",\"queue\":\"%s\",\"taskStatus\":{\"excTimestamp\":0,"
                         "\"genTimestamp\":1,\"retry\":0,\"state\":\"normal\"},\"type\":\"marker\",\"unique\":false}",
                         f.config->queues[0].backup));
    read_state(&f, JOBS_READY);
    cr_assert_eq(read_count, 2);
    cr_expect_str_eq(read_jobs[0].id, "a");
    cr_expect_str_eq(read_jobs[0].key, "worker1_queue");
    cr_expect_str_eq(read_jobs[1].id, "b");
    cr_expect_eq(read_jobs[1].retries, 1);
    read_state(&f, JOBS_IN_PROGRESS);
    cr_assert_eq(read_count, 1);
    cr_expect_str_eq(read_jobs[0].id, "c");
    cr_expect_str_eq(read_jobs[0].type, "mail");
    cr_expect_eq(read_jobs[0].since, 1700000005000);
    cr_expect_eq(read_jobs[0].retries, 2);
    read_state(&f, JOBS_DELAYED);
    cr_expect_eq(read_count, 0);
}

Test(redis_jobs_dialects, delayed_queue_shows_member_and_envelope) {
    begin("dialect = \"delayed_queue\"; types = [\"com.shop.Payment\"];");
    redis_ok(f.r, "ZADD de_delayed_events 4000000000000 com.shop.Payment###17");
    redis_ok(f.r, "HSET de_events com.shop.Payment###17 %s",
             "{\"payload\":{\"sum\":5},\"type\":\"com.shop.Payment\",\"attempt\":3,\"logContext\":{}}");
    redis_ok(f.r, "LPUSH %s %s", "de_payment",
             "{\"payload\":{\"sum\":6},\"type\":\"com.shop.Payment\",\"attempt\":2,\"logContext\":{}}");
    read_all(&f, &(jobs_query_t){.state = JOBS_DELAYED, .texts = (const char *const[]){"\"sum\":5"}, .text_count = 1});
    cr_assert_eq(read_count, 1);
    cr_expect_str_eq(read_jobs[0].id, "17");
    cr_expect_str_eq(read_jobs[0].type, "com.shop.Payment");
    cr_expect_eq(read_jobs[0].retries, 2);
    cr_expect_eq(read_jobs[0].due, 4000000000000);
    cr_expect(strstr(read_jobs[0].payload, "\"sum\":5") != NULL);
    read_state(&f, JOBS_READY);
    cr_assert_eq(read_count, 1);
    cr_expect_str_eq(read_jobs[0].type, "com.shop.Payment");
    cr_expect_eq(read_jobs[0].retries, 1);
    read_state(&f, JOBS_IN_PROGRESS);
    cr_expect_eq(read_count, 0);
}

Test(redis_jobs_dialects, bull_shows_the_hashes_of_its_ids) {
    begin("dialect = \"bull\"; bull_queue = \"video\";");
    for (int i = 1; i <= 3; i++)
        redis_ok(
            f.r,
            "HSET bull:video:%s name resize data %s opts {} timestamp 1700000000000 processedOn 1700000009000 attemptsMade 1",
            kept_printf("%d", i), kept_printf("{\"image\":%d}", i));
    redis_ok(f.r, "ZADD bull:video:delayed %s 1", kept_printf("%lld", 4000000000000LL * 4096 + 1));
    redis_ok(f.r, "LPUSH bull:video:wait 2 9");
    redis_ok(f.r, "LPUSH bull:video:active 3");
    redis_ok(f.r, "SET bull:video:9 x");
    read_state(&f, JOBS_DELAYED);
    cr_assert_eq(read_count, 1);
    cr_expect_str_eq(read_jobs[0].id, "1");
    cr_expect_str_eq(read_jobs[0].type, "resize");
    cr_expect_str_eq(read_jobs[0].payload, "{\"image\":1}");
    cr_expect_eq(read_jobs[0].due, 4000000000000);
    cr_expect_eq(read_jobs[0].created, 1700000000000);
    cr_expect_eq(read_jobs[0].retries, 1);
    read_state(&f, JOBS_READY);
    cr_assert_eq(read_count, 2, "an id without a job is shown, too");
    cr_expect_str_eq(read_jobs[0].id, "2");
    read_state(&f, JOBS_IN_PROGRESS);
    cr_assert_eq(read_count, 1);
    cr_expect_eq(read_jobs[0].since, 1700000009000);
    read_all(&f, &(jobs_query_t){.state = JOBS_READY, .texts = (const char *const[]){"image\":2"}, .text_count = 1});
    cr_assert_eq(read_count, 1);
}

Test(redis_jobs_dialects, private_queues_show_the_running_job_of_each_worker) {
    begin("dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\";");
    redis_ok(f.r, "LPUSH fights waits");
    for (int i = 0; i < 150; i++) redis_ok(f.r, "LPUSH %s %s later", kept_printf("queue-w%d", i), kept_printf("job %d", i));
    read_state(&f, JOBS_READY);
    cr_assert_eq(read_count, 1);
    read_state(&f, JOBS_IN_PROGRESS);
    cr_assert_eq(read_count, 150);
    for (int i = 0; i < 150; i++) {
        char *job = kept_printf("job %d", i), *worker = kept_printf("w%d", i);
        bool found = false;
        for (size_t k = 0; k < read_count; k++)
            found |= strcmp(read_jobs[k].payload, job) == 0 && strcmp(read_jobs[k].worker, worker) == 0;
        cr_expect(found, "%s", job);
    }
    jobs_reader_t *reader = jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_IN_PROGRESS}, NULL);
    buffer_t cursor = {0};
    read_count = 0;
    read_more(&f, reader, 40);
    cr_assert_eq(read_count, 40);
    cr_assert(!jobs_missing(reader));
    jobs_cursor(reader, &cursor);
    jobs_close(reader);
    reader = jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_IN_PROGRESS}, buffer_text(&cursor));
    read_more(&f, reader, 0);
    cr_assert(jobs_ended(reader));
    cr_assert(jobs_missing(reader), "SCAN may return the lists in another order");
    jobs_close(reader);
    buffer_free(&cursor);
    cr_assert_eq(read_count, 150);
}

Test(redis_jobs_dialects, a_slice_of_private_queues_does_not_go_back) {
    begin("dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\";");
    for (int i = 0; i < 150; i++) redis_ok(f.r, "LPUSH %s job", kept_printf("queue-w%d", i));
    static const int64_t most[] = {40, 1, 0};
    buffer_t cursor = {0};
    read_count = 0;
    for (int slice = 0; slice < 3; slice++) {
        jobs_reader_t *reader =
            jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_IN_PROGRESS}, slice ? buffer_text(&cursor) : NULL);
        mono_t deadline = slice == 1 ? mono_now() : mono_never();
        cr_assert_eq(jobs_read(reader, f.conn, most[slice], deadline, read_add, NULL, &f.error), OUTCOME_OK, "%s", f.error.text);
        buffer_clear(&cursor);
        jobs_cursor(reader, &cursor);
        jobs_close(reader);
    }
    buffer_free(&cursor);
    cr_assert_eq(read_count, 150, "%zu jobs", read_count);
}

/* It skips what stood before its cursor, a step at a time: somebody may wait for the connection. */
Test(redis_jobs_dialects, a_reader_that_is_behind_its_cursor_keeps_the_slice) {
    enum { LISTS = 150, SKIPPED = 140 };
    begin("dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\";");
    for (int i = 0; i < LISTS; i++) redis_ok(f.r, "LPUSH %s job", kept_printf("queue-w%d", i));
    jobs_reader_t *reader =
        jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_IN_PROGRESS}, kept_printf("0_%d_0_0_0", SKIPPED - 1));
    cr_assert_not_null(reader);
    int slices = 0;
    for (read_count = 0; slices == 0 || jobs_is_behind(reader); slices++) {
        cr_assert_eq(jobs_read(reader, f.conn, 10, mono_now(), read_add, NULL, &f.error), OUTCOME_OK, "%s", f.error.text);
        scoped(buffer_free) buffer_t cursor = {0};
        jobs_cursor(reader, &cursor);
        cr_assert_geq(atoi(buffer_text(&cursor) + 2), SKIPPED - 1, "the cursor went back: %s", buffer_text(&cursor));
    }
    cr_expect_geq(slices, SKIPPED / 10);
    cr_assert_eq(jobs_read(reader, f.conn, 0, mono_never(), read_add, NULL, &f.error), OUTCOME_OK, "%s", f.error.text);
    jobs_close(reader);
    cr_assert_eq(read_count, LISTS - SKIPPED, "%zu jobs", read_count);
}

static void expect_entries(jobs_state_t state, int first, int count) {
    cr_assert(read_slices(&f, state, 40, 0));
    cr_assert_eq(read_count, (size_t)count, "%zu jobs", read_count);
    for (int i = 0; i < count; i++) cr_assert_str_eq(read_jobs[i].payload, kept_printf("job %d", first + i));
}

Test(redis_jobs_dialects, a_slice_of_a_stream_begins_where_the_last_one_has_ended) {
    begin("dialect = \"stream\"; stream = \"mail\"; group = \"workers\";");
    redis_ok(f.r, "XGROUP CREATE mail workers 0 MKSTREAM");
    for (int i = 0; i < 700; i++) redis_ok(f.r, "XADD mail * data %s", kept_printf("job %d", i));
    expect_entries(JOBS_READY, 0, 700);
    redis_ok(f.r, "XREADGROUP GROUP workers w COUNT 300 STREAMS mail >");
    expect_entries(JOBS_READY, 300, 400);
    expect_entries(JOBS_IN_PROGRESS, 0, 300);
    jobs_reader_t *reader =
        jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_READY}, "0_9_0_0_00000000000000010000000000000001");
    read_count = 0;
    read_more(&f, reader, 1);
    jobs_close(reader);
    cr_expect_str_eq(read_jobs[0].payload, "job 300", "what a consumer has read meanwhile is not ready");
}

#define WORK(queue, payload) "{\"queue\":\"" queue "\",\"payload\":\"" payload "\",\"run_at\":1700000005}"
#define SIDEKIQ_JOB(jid, more)                                                                                                   \
    "{\\\"class\\\":\\\"Mail\\\",\\\"args\\\":[],\\\"jid\\\":\\\"" jid "\\\",\\\"created_at\\\":1700000000.5" more "}"

Test(redis_jobs_dialects, sidekiq_shows_what_each_process_runs) {
    begin("dialect = \"sidekiq\"; queues = [\"default\"]; prefix = \"shop:\"; max_payload = \"1KiB\";");
    redis_ok(f.r, "SADD shop:processes h:1:a h:2:b h:3:c h:4:d sidecar:x");
    redis_ok(f.r, "HSET shop:h:1:a beat 1700000006.5");
    redis_ok(f.r, "HSET shop:h:1:a:work t1 %s t2 %s t3 x t4 %s", WORK("default", SIDEKIQ_JOB("j1", ",\\\"retry_count\\\":1")),
             WORK("other", SIDEKIQ_JOB("j2", "")), kept_printf(WORK("default", "%01100d"), 0));
    redis_ok(f.r, "HSET shop:h:2:b:workers t1 %s", WORK("default", SIDEKIQ_JOB("j3", "")));
    redis_ok(f.r, "SET shop:h:3:c:work x");
    read_state(&f, JOBS_IN_PROGRESS);
    cr_assert_eq(read_count, 2);
    const read_job_t *one = &read_jobs[strcmp(read_jobs[0].id, "j1") != 0], *two = &read_jobs[one == read_jobs];
    cr_expect_str_eq(one->id, "j1");
    cr_expect_str_eq(one->type, "Mail");
    cr_expect_str_eq(one->worker, "h:1:a");
    cr_expect_str_eq(one->key, "shop:h:1:a:work");
    cr_expect_str_eq(one->payload,
                     "{\"class\":\"Mail\",\"args\":[],\"jid\":\"j1\",\"created_at\":1700000000.5,\"retry_count\":1}");
    cr_expect_eq(one->since, 1700000005000);
    cr_expect_eq(one->created, 1700000000500);
    cr_expect_eq(one->retries, 2);
    cr_expect_str_eq(two->id, "j3");
    cr_expect_str_eq(two->worker, "h:2:b");
    cr_expect_str_eq(two->key, "shop:h:2:b:workers");
    cr_expect_eq(two->retries, 0);
    read_all(&f, &(jobs_query_t){.state = JOBS_IN_PROGRESS, .texts = (const char *const[]){"j3"}, .text_count = 1});
    cr_expect_eq(read_count, 1);
}

/* Also of a process whose hash Redis returns as a whole, because its values are small. Pages have as many as were asked for. */
Test(redis_jobs_dialects, sidekiq_shows_processes_of_any_size_in_pages) {
    enum { LARGE = 1000, SMALL = 400, MANY = 700 };
    begin("dialect = \"sidekiq\";");
    redis_ok(f.r, "CONFIG SET hash-max-ziplist-entries 1000");
    for (int i = 0; i < LARGE; i++)
        redis_ok(f.r, "HSET h:1:a:work %s %s", kept_printf("t%d", i), kept_printf(WORK("default", SIDEKIQ_JOB("a%d", "")), i));
    for (int i = 0; i < SMALL; i++)
        redis_ok(f.r, "HSET h:2:b:work %s %s", kept_printf("t%d", i),
                 kept_printf("{\"queue\":\"default\",\"payload\":\"b%d\"}", i));
    redis_ok(f.r, "SADD processes h:1:a h:2:b");
    for (int i = 0; i < MANY; i++) {
        redis_ok(f.r, "SADD processes %s", kept_printf("h:9:%d", i));
        redis_ok(f.r, "HSET %s t %s", kept_printf("h:9:%d:work", i), kept_printf(WORK("default", SIDEKIQ_JOB("c%d", "")), i));
    }
    read_state(&f, JOBS_IN_PROGRESS);
    cr_assert_eq(read_count, LARGE + SMALL + MANY);
    for (int i = 0; i < LARGE; i++) cr_expect_eq(times_read(kept_printf("a%d", i)), 1);
    for (int i = 0; i < MANY; i++) cr_expect_eq(times_read(kept_printf("c%d", i)), 1);
    buffer_t cursor = {0};
    read_count = 0;
    for (size_t most = 10; read_count < LARGE + SMALL + MANY; most += 190) {
        size_t before = read_count;
        jobs_reader_t *reader =
            jobs_open(f.keys, 0, &(jobs_query_t){.state = JOBS_IN_PROGRESS}, cursor.len ? buffer_text(&cursor) : NULL);
        read_more(&f, reader, (int64_t)most);
        cr_assert(jobs_ended(reader) || read_count == before + most);
        buffer_clear(&cursor);
        jobs_cursor(reader, &cursor);
        bool ended = jobs_ended(reader);
        jobs_close(reader);
        if (ended) break;
    }
    buffer_free(&cursor);
    cr_assert_eq(read_count, LARGE + SMALL + MANY);
    for (int i = 0; i < LARGE; i++) cr_expect_eq(times_read(kept_printf("a%d", i)), 1);
}

/* The entry of the other zset has the same queues: their jobs are shown once. */
Test(redis_jobs_dialects, sidekiq_shows_running_jobs_at_one_entry) {
    begin("dialect = \"sidekiq\"; set = \"retry\"; roles = [\"dispatcher\"];");
    redis_ok(f.r, "SADD processes h:1:a");
    redis_ok(f.r, "HSET h:1:a:work t1 %s", WORK("default", SIDEKIQ_JOB("j1", "")));
    read_state(&f, JOBS_IN_PROGRESS);
    cr_expect_eq(read_count, 0);
}
