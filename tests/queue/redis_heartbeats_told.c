/* Groups of one database tell each other which heartbeats their queues have. */
#include "fixture.h"
#include "queue/heartbeat.h"

#define CONFIG                                                                                                                   \
    "group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; heartbeat = \"off\"; }, { name = \"own\"; heartbeat "  \
    "= \"own:*\"; } );"

static fixture_t f;
SUITE(redis_heartbeats_told, f = fixture_start(&(fixture_options_t){.config = CONFIG}), fixture_stop(&f));

static outcome_t tell(void) { return heartbeats_tell(&(lock_call_t){.conn = f.conn, .keys = f.keys, .error = &f.error}); }

/* Returns "our queue, other queue, group, heartbeat"; NULL = no overlap. Kept. */
static char *overlap(void) {
    heartbeat_overlap_t out;
    bool found;
    cr_assert_eq(heartbeats_find_overlap(f.conn, f.keys, &found, &out, &f.error), OUTCOME_OK, "%s", f.error.text);
    if (!found) return NULL;
    return kept_printf("%s %s %s %s", f.keys->queues[out.queue].config->name, out.other, out.group, out.heartbeat);
}

/* Another group with a leader. */
static void others(const char *queue, const char *pattern) {
    redis_ok(f.r, "HSET sidecar:heartbeats %s %s", queue, kept_printf("shop %s", pattern));
    redis_ok(f.r, "HSET sidecar:shop:queues %s T", queue);
    redis_ok(f.r, "SET sidecar:shop:lock T");
}

Test(redis_heartbeats_told, each_queue_of_a_lock_is_told) {
    cr_assert_eq(tell(), OUTCOME_OK);
    redis_expect(f.r, "app *_alive", "HGET sidecar:heartbeats email");
    redis_expect(f.r, "app off", "HGET sidecar:heartbeats sms");
    redis_expect(f.r, "app own:*", "HGET sidecar:heartbeats own");
    cr_assert_null(overlap(), "a queue meets itself");
}

Test(redis_heartbeats_told, a_queue_of_another_group_with_our_heartbeat_is_found_while_it_has_a_leader) {
    others("orders", "orders:*_alive");
    cr_assert_null(overlap());
    others("orders", "*_alive");
    cr_assert_str_eq(overlap(), "email orders shop *_alive");
    redis_ok(f.r, "HSET sidecar:shop:queues orders old"); /* the leader's config lost the queue */
    cr_assert_null(overlap());
    redis_ok(f.r, "HSET sidecar:shop:queues orders T");
    redis_ok(f.r, "DEL sidecar:shop:lock");
    cr_assert_null(overlap());
    redis_ok(f.r, "HSET sidecar:shop:queues orders %s", ""); /* no holder and no leader are no match */
    cr_assert_null(overlap());
}

Test(redis_heartbeats_told, heartbeats_that_differ_by_a_number_meet_too) {
    others("own2", "own:1*");
    cr_assert_str_eq(overlap(), "own own2 shop own:1*");
}

Test(redis_heartbeats_told, the_queue_of_this_config_is_no_other_queue) {
    others("email", "*_alive"); /* another group owned it */
    cr_assert_null(overlap());
}

Test(redis_heartbeats_told, others_are_found_among_many) {
    for (int i = 0; i < 1000; i++) redis_ok(f.r, "HSET sidecar:heartbeats q%d %s", i, kept_printf("shop q%d:*", i));
    others("orders", "*_alive");
    cr_assert_str_eq(overlap(), "email orders shop *_alive");
}

/* No config has most of them any more. HSCAN gives some 5,000 at once. */
Test(redis_heartbeats_told, others_are_found_behind_the_first_page) {
    redis_ok(f.r, "EVAL %s 1 sidecar:heartbeats",
             "for i = 1, 12000 do redis.call('HSET', KEYS[1], 'q' .. i, 'shop q' .. i .. ':*') end");
    char *last = redis_str(f.r, "EVAL %s 1 sidecar:heartbeats",
                           "local cursor, all = '0', '' repeat local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 5000) "
                           "cursor, all = page[1], page[2][1] or all until cursor == '0' return all");
    others(last, "*_alive");
    cr_assert_str_eq(overlap(), kept_printf("email %s shop *_alive", last));
}

Test(redis_heartbeats_told, foreign_texts_and_keys_of_a_wrong_type_harm_nothing) {
    static const char *const texts[] = {"", " ", "shop", "shop ", " *_alive", "shop off", "*_alive"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        redis_ok(f.r, "HSET sidecar:heartbeats orders %s", texts[i]);
        cr_assert_null(overlap(), "\"%s\"", texts[i]);
    }
    char *name = kept_printf("%0500d", 0);
    others(name, "*_alive");
    overlap();
    redis_ok(f.r, "DEL sidecar:heartbeats");
    redis_ok(f.r, "SET sidecar:heartbeats x");
    cr_assert_null(overlap());
    cr_assert_eq(tell(), OUTCOME_OK);
    redis_expect(f.r, "x", "GET sidecar:heartbeats");
}

Test(redis_heartbeats_told, a_full_redis_and_a_missing_right_stop_no_leader) {
    redis_ok(f.r, "CONFIG SET maxmemory 1");
    cr_assert_eq(tell(), OUTCOME_OK);
    redis_ok(f.r, "CONFIG SET maxmemory 0");
    redis_ok(f.r, "ACL SETUSER default -hset -hscan");
    cr_assert_eq(tell(), OUTCOME_OK);
    cr_assert_null(overlap());
    redis_ok(f.r, "ACL SETUSER default +hset +hscan");
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:heartbeats"), 0);
}
