/* acquire, renew, release, break_stale_lock, claim and next_due against a real server, by the functions that the product uses. */
#include "base/host.h"
#include "cluster.h"
#include "fixture.h"
#include "queue/lock.h"
#include "queue/next_due.h"
#include "queue/scripts.h"
#include "queue/stream.h"
#include "redis/tracking.h"
#include "script_calls.h"
#include "wait.h"

#include <math.h>

#define TWO_QUEUES "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; } );"

enum { TTL = 60000 };

static fixture_t setup(void) { return fixture_start(&(fixture_options_t){.config = TWO_QUEUES}); }

static outcome_t acquire(fixture_t *f, const char *token, lock_state_t *state) {
    const lock_call_t call = fixture_lock_call(f, 0, token, TTL);
    return lock_acquire(&call, state);
}

static void expect_acquired(fixture_t *f, const char *token) {
    lock_state_t state = {0};
    cr_assert_eq(acquire(f, token, &state), OUTCOME_OK, "%s", f->error.text);
    cr_assert(state.acquired);
    cr_assert_str_eq(state.holder, token);
    cr_assert_eq(state.other_owner_count, 0);
    lock_state_clear(&state);
    redis_expect(f->r, token, "GET sidecar:app:lock");
}

static long long pttl(fixture_t *f) { return redis_int(f->r, "PTTL sidecar:app:lock"); }

static fixture_t f;
SUITE(redis_script_acquire, f = setup(), fixture_stop(&f));
TestSuite(redis_script_renew, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_release, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_break_stale_lock, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_claim, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_next_due, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_full_memory, .init = suite_start, .fini = suite_stop);
TestSuite(redis_script_text, .init = suite_start, .fini = suite_stop);

Test(redis_script_acquire, takes_a_free_lock_and_writes_its_queues) {
    redis_ok(f.r, "HSET sidecar:app:queues gone T1");
    expect_acquired(&f, "T1");
    cr_assert(pttl(&f) > TTL - 5000 && pttl(&f) <= TTL);
    redis_expect(f.r, "T1", "HGET sidecar:app:queues email");
    redis_expect(f.r, "T1", "HGET sidecar:app:queues sms");
    cr_assert_eq(redis_int(f.r, "HEXISTS sidecar:app:queues gone"), 0, "the former queue no longer counts as served");
    redis_expect(f.r, "app", "HGET sidecar:email:meta group");
    redis_expect(f.r, "app", "HGET sidecar:sms:meta group");
}

Test(redis_script_acquire, the_same_token_acquires_again) {
    expect_acquired(&f, "T1");
    redis_ok(f.r, "PEXPIRE sidecar:app:lock 1000");
    expect_acquired(&f, "T1");
    cr_assert_gt(pttl(&f), TTL - 5000, "the TTL begins again");
}

/* Checks the field "", '<token> <since> <instance>', and returns since. */
static int64_t who_leads(const char *token) {
    char *who = redis_str(f.r, "HGET sidecar:app:queues %s", ""), *rest = NULL;
    cr_assert_not_null(who);
    cr_assert_str_eq(strtok_r(who, " ", &rest), token);
    int64_t since = strtoll(strtok_r(NULL, " ", &rest), NULL, 10);
    cr_assert_str_eq(strtok_r(NULL, "", &rest), instance_name());
    return since;
}

Test(redis_script_acquire, returns_the_leader_and_its_start) {
    int64_t before = redis_ms(f.r);
    expect_acquired(&f, "T1");
    int64_t since = who_leads("T1");
    cr_assert(since >= before && since <= redis_ms(f.r));
    cr_assert(wait_for(redis_ms(f.r) > since, 1000));
    expect_acquired(&f, "T1");
    cr_assert_eq(who_leads("T1"), since, "the same term");
    redis_ok(f.r, "DEL sidecar:app:lock");
    expect_acquired(&f, "T2");
    cr_assert_gt(who_leads("T2"), since, "another term");
}

Test(redis_script_acquire, leaves_the_lock_of_another_alone) {
    scoped(lock_state_clear) lock_state_t state = {0};
    redis_ok(f.r, "SET sidecar:app:lock other PX 5000");
    redis_ok(f.r, "HSET sidecar:app:queues sms other");
    char *before = fixture_digest(f.r);
    cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_OK);
    cr_assert_not(state.acquired);
    cr_assert_str_eq(state.holder, "other");
    cr_assert(state.pttl_ms > 0 && state.pttl_ms <= 5000);
    cr_assert_eq(state.unserved_count, 1);
    cr_assert_str_eq(buffer_text(&state.unserved), "email");
    redis_ok(f.r, "DEL sidecar:app:queues");
    redis_ok(f.r, "PERSIST sidecar:app:lock");
    cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_OK);
    cr_assert_eq(state.pttl_ms, -1);
    cr_assert_str_eq(buffer_text(&state.unserved), "email, sms");
    redis_ok(f.r, "PEXPIRE sidecar:app:lock 5000");
    redis_ok(f.r, "HSET sidecar:app:queues sms other");
    redis_ok(f.r, "DEL sidecar:app:standbys"); /* the standby has written its name */
    redis_expect(f.r, before, "DEBUG DIGEST");
}

Test(redis_script_acquire, takes_over_when_the_ttl_is_over) {
    scoped(lock_state_clear) lock_state_t state = {0};
    redis_ok(f.r, "SET sidecar:app:lock other PX 30");
    cr_assert(wait_for(acquire(&f, "T1", &state) == OUTCOME_OK && state.acquired, 5000));
}

Test(redis_script_acquire, reports_queues_of_other_groups_and_does_not_serve_them) {
    scoped(lock_state_clear) lock_state_t state = {0};
    redis_ok(f.r, "HSET sidecar:sms:meta group others");
    cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_OK);
    cr_assert(state.acquired);
    cr_assert_eq(state.other_owner_count, 1);
    cr_assert_eq(state.other_owner[0].queue, 1);
    cr_assert_str_eq(state.other_owner[0].owner, "others");
    redis_expect(f.r, "others", "HGET sidecar:sms:meta group");
    redis_expect(f.r, "", "HGET sidecar:app:queues sms");
    fixture_make_key(f.r, "sidecar:email:meta", "list");
    cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_OK);
    cr_assert_eq(state.other_owner_count, 2);
    cr_assert_eq(state.other_owner[0].queue, 0);
    cr_assert_str_eq(state.other_owner[0].owner, "", "the meta key holds no hash");
    redis_expect(f.r, "list", "TYPE sidecar:email:meta");
    redis_expect(f.r, "", "HGET sidecar:app:queues email"); /* not served, although it was served with the same token */
}

Test(redis_script_acquire, wrong_types_fail_without_a_trace) {
    scoped(lock_state_clear) lock_state_t state = {0};
    for (size_t t = 1; t < FIXTURE_TYPES; t++) { /* all but string */
        fixture_make_key(f.r, "sidecar:app:lock", fixture_types[t]);
        char *before = fixture_digest(f.r);
        cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_REFUSED);
        cr_assert_eq(strncmp(f.error.text, "WRONGTYPE", 9), 0, "%s", f.error.text);
        redis_expect(f.r, before, "DEBUG DIGEST");
    }
    redis_ok(f.r, "DEL sidecar:app:lock");
    for (size_t t = 0; t < FIXTURE_TYPES; t++) { /* acquire replaces the sidecar's own key */
        fixture_make_key(f.r, "sidecar:app:queues", fixture_types[t]);
        expect_acquired(&f, "T1");
        redis_expect(f.r, "hash", "TYPE sidecar:app:queues");
    }
    for_other_types (type, "hash") { /* a standby gets an error, and the lock stays */
        fixture_make_key(f.r, "sidecar:app:queues", type);
        cr_assert_eq(acquire(&f, "T2", &state), OUTCOME_REFUSED);
        redis_expect(f.r, "T1", "GET sidecar:app:lock");
    }
}

Test(redis_script_acquire, a_call_after_a_lost_reply_acquires_again) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = TWO_QUEUES, .proxy = true});
    scoped(lock_state_clear) lock_state_t state = {0};
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "EVALSHA"});
    cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_DISCONNECTED);
    cr_assert_not(state.acquired);
    cr_assert_not(conn_is_open(f.conn));
    redis_expect(f.r, "T1", "GET sidecar:app:lock");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
    expect_acquired(&f, "T1");
}

static bool renew(const char *token) {
    const lock_call_t call = fixture_lock_call(&f, 0, token, TTL);
    lock_send_renewal(&call);
    outcome_t outcome = lock_read_renewal(&call);
    cr_assert(outcome == OUTCOME_OK || outcome == OUTCOME_FENCED, "%s", f.error.text);
    return outcome == OUTCOME_OK;
}

Test(redis_script_renew, prolongs_its_own_lock_only) {
    cr_assert_not(renew("T1"));
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 0, "renew creates no lock");
    redis_ok(f.r, "SET sidecar:app:lock T1 PX 1000");
    cr_assert(renew("T1"));
    cr_assert_gt(pttl(&f), TTL - 5000);
    redis_ok(f.r, "SET sidecar:app:lock T2 PX 1000");
    cr_assert_not(renew("T1"));
    cr_assert_leq(pttl(&f), 1000);
    redis_ok(f.r, "SET sidecar:app:lock T1");
    cr_assert(renew("T1"));
    cr_assert_gt(pttl(&f), 0, "renew restores a removed TTL");
}

static void release(const char *token) {
    const lock_call_t call = fixture_lock_call(&f, 0, token, TTL);
    cr_assert_eq(lock_release(&call), OUTCOME_OK, "%s", f.error.text);
}

static void note_vacancy(void *names, const char *channel, slice_t lock) {
    cr_assert_str_eq(channel, "sidecar:app:vacant");
    buffer_printf(names, "%.*s ", (int)lock.len, lock.data);
}

/* Reads until `names` is longer than `len`. */
static bool hears(conn_t *subscriber, buffer_t *names, size_t len) {
    return wait_for(tracking_read(subscriber, NULL, note_vacancy, names, &f.error) == OUTCOME_OK && names->len > len, 3000);
}

Test(redis_script_release, releases_its_own_lock_only_and_publishes) {
    scoped(buffer_free) buffer_t names = {0};
    scoped(conn_drop) conn_t *subscriber = conn_new(f.shard, "subscriber", NULL);
    cr_assert_eq(lock_listen(subscriber, f.keys->vacant, &f.error), OUTCOME_OK);
    redis_ok(f.r, "SET sidecar:app:lock T2");
    release("T1");
    redis_expect(f.r, "T2", "GET sidecar:app:lock");
    release("T2");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), 0);
    cr_assert(hears(subscriber, &names, 0));
    cr_assert_str_eq(buffer_text(&names), "app ");
    release("T2");
    cr_assert_eq(redis_int(f.r, "PUBLISH sidecar:app:vacant last"), 1);
    cr_assert(hears(subscriber, &names, 4));
    cr_assert_str_eq(buffer_text(&names), "app last ", "one message for each released lock");
}

static bool break_stale(const char *token) {
    bool removed = false;
    const lock_call_t call = fixture_lock_call(&f, 0, NULL, TTL);
    cr_assert_eq(lock_break_stale(&call, token, &removed), OUTCOME_OK, "%s", f.error.text);
    return removed;
}

Test(redis_script_break_stale_lock, removes_a_lock_that_a_clock_step_left) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.preload = "shim_clock"});
    char token[TOKEN_SIZE], other[TOKEN_SIZE];
    token_new(token, 5000);
    token_new(other, 5000);
    cr_assert_not(break_stale(token), "no lock");
    redis_ok(f.r, "SET sidecar:app:lock %s PX 5000", token);
    cr_assert_not(break_stale(token), "a lock with a normal TTL");
    server_step_clock(f.server, -3600 * 1000);
    cr_assert_gt(pttl(&f), 3600 * 1000);
    cr_assert_not(break_stale(other), "another token than the one read before");
    cr_assert(break_stale(token));
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), 0);
    redis_ok(f.r, "SET sidecar:app:lock %s", token);
    cr_assert(break_stale(token), "a lock without a TTL");
}

static bool claim(other_owner_t *other_owner) {
    bool ours = false;
    const lock_call_t call = fixture_lock_call(&f, 0, "T1", TTL);
    cr_assert_eq(lock_claim(&call, other_owner, &ours), OUTCOME_OK, "%s", f.error.text);
    return ours;
}

Test(redis_script_claim, takes_a_queue_only_from_a_group_without_a_leader) {
    other_owner_t sms = {.queue = 1, .owner = "others"};
    redis_ok(f.r, "SET sidecar:app:lock T1");
    redis_ok(f.r, "SET sidecar:others:lock T9");
    redis_ok(f.r, "HSET sidecar:sms:meta group others");
    char *before = fixture_digest(f.r);
    cr_assert_not(claim(&sms));
    cr_assert_str_eq(sms.owner, "others");
    redis_expect(f.r, before, "DEBUG DIGEST");
    redis_ok(f.r, "HSET sidecar:sms:meta group third");
    redis_ok(f.r, "DEL sidecar:others:lock");
    cr_assert_not(claim(&sms), "another owner than the one whose lock was checked");
    cr_assert_str_eq(sms.owner, "third");
    cr_assert(claim(&sms));
    redis_expect(f.r, "app", "HGET sidecar:sms:meta group");
    redis_expect(f.r, "T1", "HGET sidecar:app:queues sms");
    cr_assert(claim(&sms), "again, after a lost reply");
    redis_ok(f.r, "DEL sidecar:sms:meta");
    cr_assert(claim(&sms), "owned by nobody");
    redis_expect(f.r, "app", "HGET sidecar:sms:meta group");
}

Test(redis_script_claim, is_fenced) {
    other_owner_t sms = {.queue = 1, .owner = "others"};
    redis_ok(f.r, "HSET sidecar:sms:meta group others");
    for (int other = 0; other < 2; other++) {
        if (other) redis_ok(f.r, "SET sidecar:app:lock T2");
        char *before = fixture_digest(f.r);
        cr_assert_not(claim(&sms));
        redis_expect(f.r, before, "DEBUG DIGEST");
        cr_assert_str_eq(sms.owner, "others");
    }
}

/* Reads the next due scores of queues 0 and 1, and checks `now` of the reply. */
static void read_next_due(next_due_t heads[2], const int64_t skip[2]) {
    int64_t now_us = 0;
    next_due_request_t asks[2] = {{.queue = 0, .skip = skip[0]}, {.queue = 1, .skip = skip[1]}};
    next_due_append(f.conn, f.keys, asks, 2, false);
    cr_assert_eq(next_due_read(f.conn, 2, false, heads, &now_us, &f.error), OUTCOME_OK, "%s", f.error.text);
    redisReply *time = redis_do(f.r, "TIME");
    int64_t after_us = strtoll(time->element[0]->str, NULL, 10) * 1000000 + strtoll(time->element[1]->str, NULL, 10);
    cr_assert(now_us <= after_us && now_us > after_us - 10000000, "now is %lld, was %lld", (long long)after_us,
              (long long)now_us);
}

Test(redis_script_next_due, returns_the_next_score_of_each_queue) {
    next_due_t heads[2];
    static const int64_t first[2] = {0, 0}, second[2] = {1, 0}, beyond[2] = {9, 1};
    read_next_due(heads, first);
    cr_assert(!heads[0].exists && !heads[1].exists && !*heads[0].error);
    redis_ok(f.r, "ZADD email:delayed -inf a 1800000000123.25 b");
    redis_ok(f.r, "ZADD sms:delayed +inf c");
    read_next_due(heads, first);
    cr_assert(heads[0].exists && isinf(heads[0].score) && heads[0].score < 0);
    cr_assert(heads[1].exists && isinf(heads[1].score) && heads[1].score > 0);
    read_next_due(heads, second);
    cr_assert(heads[0].exists && heads[0].score == 1800000000123.25 && heads[1].exists);
    read_next_due(heads, beyond);
    cr_assert(!heads[0].exists && !heads[1].exists);
}

Test(redis_script_next_due, one_key_of_the_wrong_type_spoils_no_other) {
    next_due_t heads[2];
    static const int64_t skip[2] = {0, 0};
    redis_ok(f.r, "ZADD sms:delayed 7 c");
    for_other_types (type, "zset") {
        fixture_make_key(f.r, "email:delayed", type);
        read_next_due(heads, skip);
        cr_assert_not(heads[0].exists);
        cr_assert_eq(strncmp(heads[0].error, "WRONGTYPE", 9), 0, "%s", heads[0].error);
        cr_assert(heads[1].exists && heads[1].score == 7 && !*heads[1].error);
    }
}

Test(redis_script_next_due, reads_a_thousand_queues) {
    scoped(buffer_free) buffer_t config = {0};
    buffer_str(&config, "group = \"app\"; queues = (");
    for (int i = 0; i < 1000; i++) buffer_printf(&config, "%s{ name = \"q%d\"; }", i ? "," : "", i);
    buffer_str(&config, ");");
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.config = buffer_text(&config)});
    next_due_request_t asks[1000] = {{0}};
    next_due_t *heads = kept(calloc(1000, sizeof *heads));
    int64_t now_us;
    for (size_t i = 0; i < 1000; i++) asks[i].queue = 999 - i;
    redis_ok(f.r, "ZADD q3:delayed 3 x");
    next_due_append(f.conn, f.keys, asks, 1000, false);
    cr_assert_eq(next_due_read(f.conn, 1000, false, heads, &now_us, &f.error), OUTCOME_OK);
    for (size_t i = 0; i < 1000; i++) cr_assert_eq(heads[i].exists, i == 996);
    scoped(lock_state_clear) lock_state_t state = {0};
    cr_assert_eq(acquire(&f, "T1", &state), OUTCOME_OK, "%s", f.error.text);
    cr_assert(state.acquired);
    cr_assert_eq(redis_int(f.r, "HLEN sidecar:app:queues"), 1000 + 1);
    cr_assert_eq(acquire(&f, "T2", &state), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(state.unserved_count, 0);
}

/* Sets maxmemory so low that Redis refuses every write. */
static void fill_memory(redis_t *r) {
    redis_ok(r, "CONFIG SET maxmemory %d", 1);
    char *error = redis_error(r, "SET one more");
    cr_assert_eq(strncmp(error, "OOM", 3), 0, "%s", error);
}

Test(redis_script_full_memory, refuses_no_script) {
    other_owner_t sms = {.queue = 1, .owner = "others"};
    next_due_t heads[2];
    static const int64_t skip[2] = {0, 0};
    redis_ok(f.r, "ZADD email:delayed 1 job");
    fill_memory(f.r);
    expect_acquired(&f, "T1");
    cr_assert(renew("T1"));
    cr_assert(claim(&sms));
    read_next_due(heads, skip);
    cr_assert(heads[0].exists);
    size_t len;
    const char *text = fixture_script(&script_promote, &len);
    redis_ok(f.r, "EVAL %b 4 sidecar:app:lock email:delayed email sidecar:email:meta T1 app 999 9 ms 0 99 0 99 2", text, len);
    redis_expect(f.r, "job", "LINDEX email 0");
    cr_assert_not(break_stale("T1-60000"));
    stream_trimmed_t trimmed;
    const stream_id_t done[2] = {"5-5", ""};
    cr_assert_eq(stream_acknowledge(f.conn, f.keys, "me", done, &f.error), OUTCOME_OK, "%s", f.error.text);
    const call_t call = fixture_call(&f, "T1");
    cr_assert_eq(stream_trim(&call, stream_room(f.keys), STREAM_TRIM_MAX, &trimmed), OUTCOME_OK, "%s", f.error.text);
    release("T1");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), 0);
}

Test(redis_script_text, runs_without_its_first_line) {
    redis_ok(f.r, "ZADD email:delayed 1 job");
    redis_ok(f.r, "XADD sidecar:email:failures 5-5 event e");
    redis_ok(f.r, "XGROUP CREATE mail workers 0 MKSTREAM");
    cr_assert_eq(sizeof CALLS / sizeof *CALLS, all_script_count);
    for (size_t i = 0; i < all_script_count; i++) {
        size_t whole, cut;
        const char *name = CALLS[i].script->name, *text = script_text(CALLS[i].script, true, &whole);
        cr_assert_eq(strncmp(text, "#!lua", 5), 0, "%s", name);
        cr_assert_eq(strlen(text), whole);
        text = script_text(CALLS[i].script, false, &cut);
        cr_assert_eq(strncmp(text, "-- ", 3), 0, "%s", name);
        cr_assert_eq(strlen(text), cut);
        char *format = kept_printf("EVAL %%b %s", CALLS[i].arguments);
        redis_ok(f.r, format, text, cut);
        cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), CALLS[i].script != &script_release, "after %s", name);
    }
    redis_expect(f.r, "job", "LINDEX email 0");
    redis_expect(f.r, "5-5", "HGET sidecar:email:meta trimmed");
    redis_expect(f.r, "app", "HGET sidecar:sms:meta group");
}
