/* The state of an answer in Redis, as other instances read it. */
#include "fixture.h"
#include "http/api/answers/share.h"
#include "redis_cluster.h"

enum { GROUPS = 8 };

static const char ID[] = "0123456789abcdef";

static void share_drop(share_t **share) { share_free(*share); }

/* Most of these groups have their slot on a node that holds no queue. */
Test(redis_share, state_and_stop_reach_the_node_of_the_group_in_a_cluster, .timeout = 60) {
    scoped(nodes_free) nodes_t nodes = nodes_start(3, 0);
    for (int i = 0; i < GROUPS; i++) {
        scoped(config_drop) config_t *config = fixture_config(
            "group = \"g%d\"; redis = { nodes = [\"%s\"]; }; queues = ( { name = \"{a}\"; } );", i, nodes_address(&nodes, 0));
        scoped(share_drop) share_t *share = share_new(config, ID, NULL);
        char *key = kept_printf("sidecar:{g%d}:answer:%s", i, ID);
        cr_assert_not(share_write(share, slice_text("one")));
        scoped(redis_drop) redis_t *r = nodes_open(&nodes, key);
        cr_assert_str_eq(redis_str(r, "GET %s", key), "one");
        redis_ok(r, "SET %s:stop 1", key);
        cr_assert(share_write(share, slice_text("two")));
        cr_assert_str_eq(redis_str(r, "GET %s", key), "two");
    }
}

Test(redis_share, state_that_moves_to_another_node_is_written_there, .timeout = 60) {
    scoped(nodes_free) nodes_t nodes = nodes_start(2, 0);
    scoped(config_drop) config_t *config = fixture_config(
        "group = \"g\"; redis = { nodes = [\"%s\"]; }; queues = ( { name = \"{a}\"; } );", nodes_address(&nodes, 0));
    scoped(share_drop) share_t *share = share_new(config, ID, NULL);
    const char *key = "sidecar:{g}:answer:0123456789abcdef";
    share_write(share, slice_text("one"));
    unsigned slot = nodes_slot(&nodes, key);
    nodes_move(&nodes, slot, 1 - nodes_owner(&nodes, slot));
    share_write(share, slice_text("two")); /* learns of the move */
    share_write(share, slice_text("two"));
    scoped(redis_drop) redis_t *r = nodes_open(&nodes, key);
    cr_assert_str_eq(redis_str(r, "GET %s", key), "two");
}

Test(redis_share, state_is_written_when_it_changes_and_renewed_when_not) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    scoped(share_drop) share_t *share = share_new(f.config, ID, NULL);
    char *key = kept_printf("sidecar:{%s}:answer:%s", f.config->group, ID);
    cr_expect(share_is_due(share));
    share_write(share, slice_text("one"));
    cr_expect_not(share_is_due(share), "at most one report a second");
    cr_assert_str_eq(redis_str(f.r, "GET %s", key), "one");
    redis_ok(f.r, "SET %s other PX 5000", key);
    share_write(share, slice_text("one"));
    cr_expect_str_eq(redis_str(f.r, "GET %s", key), "other", "a state that is still the same is not sent");
    cr_expect_gt(redis_int(f.r, "PTTL %s", key), 3590000);
    redis_ok(f.r, "DEL %s", key);
    share_write(share, slice_text("one")); /* notices that the key is gone */
    share_write(share, slice_text("one"));
    cr_expect_str_eq(redis_str(f.r, "GET %s", key), "one");
}
