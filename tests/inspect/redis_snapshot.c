/* The snapshot: what `status` reads about locks, owners, streams and copies. */
#include "base/host.h"
#include "cluster.h"
#include "fixture.h"
#include "inspect/snapshot.h"
#include "queue/lock.h"

#define TWO_QUEUES "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"

static snapshot_t read_snapshot(fixture_t *f) {
    snapshot_t view;
    cr_assert_eq(snapshot_read(f->conn, f->keys, &view, &f->error), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(view.queue_count, f->keys->queue_count);
    return view;
}

static outcome_t acquire_lock(fixture_t *f, size_t lock, const char *token, int64_t ttl_ms, lock_state_t *state) {
    const lock_call_t call = fixture_lock_call(f, lock, token, ttl_ms);
    return lock_acquire(&call, state);
}

static void lead(fixture_t *f, size_t lock, const char *token) {
    scoped(lock_state_clear) lock_state_t state = {0};
    cr_assert_eq(acquire_lock(f, lock, token, 60000, &state), OUTCOME_OK, "%s", f->error.text);
    cr_assert(state.acquired);
}

static fixture_t f;
SUITE(redis_snapshot, f = fixture_start(&(fixture_options_t){.config = TWO_QUEUES}), fixture_stop(&f));

Test(redis_snapshot, an_empty_server_has_no_leader) {
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    cr_assert_eq(view.lock_count, 1);
    cr_assert_str_empty(view.locks[0].holder);
    cr_assert_str_empty(view.locks[0].error.text);
    cr_assert_eq(view.locks[0].pttl_ms, -2);
    cr_assert(llabs(view.now_ms - redis_ms(f.r)) < 60000);
    cr_assert_gt(view.memory_used, 0);
    cr_assert_eq(view.memory_most, 0);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_not(view.queues[i].served);
        cr_assert_str_empty(view.queues[i].owner);
        cr_assert_str_empty(view.queues[i].error.text);
        cr_assert_eq(view.queues[i].stream.length, 0);
        cr_assert_eq(view.queues[i].copy_count, 0);
    }
}

/* As between two looks of `status --watch`. */
Test(redis_snapshot, a_connection_that_was_closed_meanwhile_is_replaced) {
    snapshot_t view = read_snapshot(&f);
    snapshot_free(&view);
    redis_ok(f.r, "CLIENT KILL TYPE normal SKIPME yes");
    view = read_snapshot(&f);
    cr_assert_gt(view.memory_used, 0);
    snapshot_free(&view);
}

Test(redis_snapshot, names_leaders_and_copies) {
    const stream_id_t one[2] = {"7-1", ""}, other[2] = {"5-5", ""};
    redis_ok(f.r, "HSET sidecar:sms:meta group others");
    lead(&f, 0, "T1");
    redis_ok(f.r, "XADD sidecar:email:failures 7-1 kind failed");
    redis_ok(f.r, "XADD sidecar:email:failures 9-2 kind failed");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "b", one, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "a", other, &f.error), OUTCOME_OK, "%s", f.error.text);
    redis_ok(f.r, "HSET sidecar:email:auditors stranger nonsense");
    char *before = fixture_digest(f.r);
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    cr_assert_str_eq(view.locks[0].holder, "T1");
    cr_assert_str_eq(view.locks[0].leader, instance_name());
    cr_assert(view.locks[0].pttl_ms > 0 && view.locks[0].pttl_ms <= 60000);
    cr_assert(view.locks[0].since_ms > 0 && view.locks[0].since_ms <= view.now_ms);
    const snapshot_queue_t *email = &view.queues[0], *sms = &view.queues[1];
    cr_assert(email->served && !sms->served);
    cr_assert_eq(view.locks[0].others, 0, "a queue of another group is one of this config");
    cr_assert_str_eq(email->owner, "app");
    cr_assert_str_eq(sms->owner, "others");
    cr_assert_eq(email->stream.length, 2);
    cr_assert_str_eq(email->stream.first, "7-1");
    cr_assert_str_eq(email->stream.last, "9-2");
    cr_assert_eq(email->copy_count, 2);
    cr_assert_str_eq(email->copies[0].instance, "a");
    cr_assert_str_eq(email->copies[0].position, "5-5");
    cr_assert_str_eq(email->copies[1].position, "7-1");
    cr_assert(email->copies[1].heard_ms > 0 && email->copies[1].heard_ms <= view.now_ms);
    redis_expect(f.r, before, "DEBUG DIGEST");
    redis_ok(f.r, "HSET sidecar:app:queues push T1");
    snapshot_free(&view);
    view = read_snapshot(&f);
    cr_assert_eq(view.locks[0].others, 1, "the leader has a queue that this config does not have");
    /* Another term began: the name of the leader belongs to the old term. */
    redis_ok(f.r, "SET sidecar:app:lock T2 PX 5000");
    snapshot_free(&view);
    view = read_snapshot(&f);
    cr_assert_str_eq(view.locks[0].holder, "T2");
    cr_assert_str_empty(view.locks[0].leader);
    cr_assert_eq(view.locks[0].since_ms, 0);
    cr_assert_eq(view.locks[0].others, 0);
    cr_assert_not(view.queues[0].served);
}

static int64_t uncopied(void) {
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    return view.queues[0].uncopied_ms;
}

Test(redis_snapshot, names_standbys_and_silent_instances) {
    lock_state_t state = {0};
    redis_ok(f.r, "HSET sidecar:app:standbys gone %s", "1 5000");
    lead(&f, 0, "0123456789abcdef0123456789abcdef-5000");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:standbys"), 0, "a new leader deletes the list of standbys");
    cr_assert_eq(acquire_lock(&f, 0, "T2", 5000, &state), OUTCOME_OK, "%s", f.error.text);
    cr_assert_not(state.acquired);
    lock_state_clear(&state);
    long long pttl = redis_int(f.r, "PTTL sidecar:app:standbys");
    cr_assert(pttl > 50000 && pttl <= 60000, "%lld", pttl);
    redis_ok(f.r, "HSET sidecar:app:standbys silent %s", "1 5000");
    redis_ok(f.r, "HSET sidecar:app:standbys stranger nonsense");
    snapshot_t view = read_snapshot(&f);
    const snapshot_lock_t *lock = &view.locks[0];
    cr_assert_eq(lock->standby_count, 2);
    size_t us = strcmp(lock->standbys[0].instance, "silent") == 0;
    cr_assert_str_eq(lock->standbys[us].instance, instance_name());
    cr_assert_str_eq(lock->standbys[1 - us].instance, "silent");
    cr_assert(lock->standbys[us].lives && !lock->standbys[1 - us].lives);
    snapshot_free(&view);
    /* The list of standbys does not grow for ever. */
    for (int i = 0; i < 120; i++) redis_ok(f.r, "HSET sidecar:app:standbys pod-%d %s", i, "1 5000");
    redis_ok(f.r, "HDEL sidecar:app:standbys %s", instance_name());
    cr_assert_eq(acquire_lock(&f, 0, "T2", 5000, &state), OUTCOME_OK);
    cr_assert_leq(redis_int(f.r, "HLEN sidecar:app:standbys"), 100);
    /* A key of any type keeps no instance from standing by. */
    for (size_t t = 0; t < FIXTURE_TYPES; t++) {
        fixture_make_key(f.r, "sidecar:app:standbys", fixture_types[t]);
        cr_assert_eq(acquire_lock(&f, 0, "T2", 5000, &state), OUTCOME_OK, "%s", f.error.text);
        cr_assert(!state.acquired && state.pttl_ms > 0);
    }
    lock_state_clear(&state);
}

Test(redis_snapshot, finds_the_oldest_record_that_too_few_logs_have) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = "stream = { min_copies = 2; }; " TWO_QUEUES});
    const stream_id_t all[2] = {"9-0", ""}, half[2] = {"5-0", ""}, most[2] = {"7-0", ""};
    cr_assert_eq(uncopied(), 0);
    for (int i = 5; i <= 9; i++) redis_ok(f.r, "XADD sidecar:email:failures %d-0 kind failed", i);
    cr_assert_eq(uncopied(), 5, "no log has a record");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "a", all, &f.error), OUTCOME_OK);
    cr_assert_eq(uncopied(), 5, "one log has the records, min_copies is 2");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "b", half, &f.error), OUTCOME_OK);
    cr_assert_eq(uncopied(), 6);
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "c", most, &f.error), OUTCOME_OK);
    cr_assert_eq(uncopied(), 8);
    redis_ok(f.r, "XDEL sidecar:email:failures 8-0 9-0");
    cr_assert_eq(uncopied(), 0);
    /* A log without an acknowledgement for a day no longer counts as a copy. */
    redis_ok(f.r, "HSET sidecar:email:auditors c %s", "7-0 1");
    redis_ok(f.r, "HSET sidecar:email:auditors a %s", "9-0 1");
    cr_assert_eq(uncopied(), 5);
}

/* A CronJob's pods have left a field each, and no leader has removed them yet. The three that live are among those that are kept.
 */
Test(redis_snapshot, keeps_the_copies_that_were_heard_of_last) {
    enum { PODS = 10080, MOST = 256 };
    const stream_id_t all[2] = {"9-0", ""};
    redis_ok(f.r, "XADD sidecar:email:failures 9-0 kind failed");
    redis_ok(f.r, "EVAL %s 1 sidecar:email:auditors %d",
             "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'pod' .. i, '5-0 ' .. i) end", PODS);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(stream_acknowledge(f.conn, f.keys, (const char *[]){"a", "q", "z"}[i], all, &f.error), OUTCOME_OK);
    redis_ok(f.r, "CONFIG RESETSTAT");
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    const snapshot_queue_t *email = &view.queues[0];
    cr_assert_eq(email->copy_count, MOST);
    cr_assert_str_eq(email->copies[0].instance, "a");
    cr_assert_str_eq(email->copies[MOST - 1].instance, "z");
    cr_assert_eq(email->uncopied_ms, 0);
    cr_assert_geq(server_commandstat(f.server, "hscan"), PODS / 600, "one request reads a page");
    cr_assert_eq(server_commandstat(f.server, "hgetall"), 1, "the standbys");
}

/* Somebody has deleted the stream, and a new one has begun below the ids of the old one. */
Test(redis_snapshot, a_position_in_an_earlier_stream_is_no_copy) {
    const stream_id_t all[2] = {"9-0", ""};
    redis_ok(f.r, "XADD sidecar:email:failures 9-0 kind failed");
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "a", all, &f.error), OUTCOME_OK);
    redis_ok(f.r, "DEL sidecar:email:failures");
    cr_assert_eq(uncopied(), 0);
    redis_ok(f.r, "XADD sidecar:email:failures 5-0 kind failed");
    cr_assert_eq(uncopied(), 5, "no log has read the new stream");
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    cr_assert_str_eq(view.queues[0].copies[0].position, STREAM_ID_NONE);
}

/* Gives each key every wrong type. The snapshot still has all facts from the other keys. */
Test(redis_snapshot, key_of_wrong_type_hides_only_its_own_facts) {
    static const char *const keys[] = {"sidecar:app:lock",   "sidecar:app:queues",     "sidecar:app:standbys",
                                       "sidecar:email:meta", "sidecar:email:failures", "sidecar:email:auditors"};
    static const char *const types[] = {"string", "hash", "hash", "hash", "stream", "hash"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t t = 0; t < FIXTURE_TYPES; t++) {
            redis_ok(f.r, "FLUSHALL");
            lead(&f, 0, "T1");
            redis_ok(f.r, "XADD sidecar:sms:failures 9-2 kind failed");
            fixture_make_key(f.r, keys[k], fixture_types[t]);
            scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
            const char *error = k < 3 ? view.locks[0].error.text : view.queues[0].error.text;
            if (strcmp(fixture_types[t], types[k]) == 0)
                cr_assert_str_empty(error, "%s as a %s: %s", keys[k], fixture_types[t], error);
            else
                cr_assert_not_null(strstr(error, keys[k]), "%s as a %s: %s", keys[k], fixture_types[t], error);
            cr_assert_str_empty(view.queues[1].error.text);
            cr_assert_eq(view.queues[1].stream.length, 1);
            cr_assert_str_eq(view.queues[1].owner, "app");
        }
}

Test(redis_snapshot, a_lock_for_each_queue) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = "lock = { scope = \"queue\"; }; " TWO_QUEUES});
    lead(&f, 1, "T1");
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    cr_assert_eq(view.lock_count, 2);
    cr_assert_str_empty(view.locks[0].holder);
    cr_assert_str_eq(view.locks[1].holder, "T1");
    cr_assert(!view.queues[0].served && view.queues[1].served);
}

Test(redis_snapshot, a_lost_server_gives_no_snapshot) {
    scoped(snapshot_free) snapshot_t view;
    server_kill(f.server);
    cr_assert_eq(snapshot_read(f.conn, f.keys, &view, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_not(conn_is_open(f.conn));
}

/* The leader writes the field; an old one, or one by a foreign hand, says nothing. */
Test(redis_snapshot, growth_of_ready_counts_only_while_it_is_recent) {
    const struct {
        long long ago_ms;
        int64_t grows_ms, grows_to;
    } rows[] = {{0, 300000, 11}, {60000, 300000, 11}, {100000, 0, 0}, {-100000, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *field = kept_printf("%lld 300000 11", redis_ms(f.r) - rows[i].ago_ms);
        redis_ok(f.r, "HSET sidecar:email:meta ready_grows %s", field);
        scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
        cr_assert(view.queues[0].grows_ms == rows[i].grows_ms && view.queues[0].grows_to == rows[i].grows_to, "row %zu", i);
    }
    redis_ok(f.r, "HSET sidecar:email:meta ready_grows foreign");
    scoped(snapshot_free) snapshot_t view = read_snapshot(&f);
    cr_assert_eq(view.queues[0].grows_ms, 0);
}
