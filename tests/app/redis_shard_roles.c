/* The roles of a shard, as others take their locks over. */
#include "app/shard_roles.h"
#include "disk_fault.h"
#include "fixture.h"
#include "tempdir.h"
#include "wait.h"

static const char CONFIG[] = "group = \"app\"; lock = { ttl = \"60s\"; scope = \"queue\"; };\n"
                             "audit = { path = \"/dev/null/audit.db\"; };\n"
                             "defaults = { roles = [\"dispatcher\"]; }; queues = ( { name = \"email\"; } );";

static shard_roles_t *roles_of(fixture_t *f, metrics_t *metrics) {
    shard_roles_t *roles =
        shard_roles_new(&(shard_roles_spec_t){.config = f->config, .topology = f->topology, .metrics = metrics, .told_fd = -1});
    cr_assert_not_null(roles);
    return roles;
}

/* Another instance must not wait for the TTL because a disk is slow. */
Test(redis_shard_roles, a_slow_disk_does_not_delay_the_release_of_the_lock_at_the_stop) {
    char *path = temp_path(temp_root(), "audit.db");
    char *config = kept_printf("group = \"app\"; audit = { path = \"%s\"; }; queues = ( { name = \"email\"; } );", path);
    fixture_t f = fixture_start(&(fixture_options_t){.config = config});
    metrics_t *metrics = metrics_new(1);
    shard_roles_t *roles = roles_of(&f, metrics);
    disk_fault_on("audit.db", DISK_SYNC, 1, 1000, 0);
    cr_assert(shard_roles_start(roles));
    cr_assert(wait_for(disk_fault_hits() > 0 && redis_int(f.r, "EXISTS sidecar:app:lock"), 10000));
    cr_assert(wait_for((shard_roles_end(roles), redis_int(f.r, "EXISTS sidecar:app:lock") == 0), 10000));
    cr_expect_not(shard_roles_end(roles), "the auditor still writes");
    disk_fault_off();
    cr_assert(wait_for(shard_roles_end(roles), 10000));
    shard_roles_free(roles);
    fixture_stop(&f);
    metrics_free(metrics);
    free(path);
}

static void end(shard_roles_t *roles) {
    cr_assert(wait_for(shard_roles_end(roles), 10000));
    shard_roles_free(roles);
}

/* In a Cluster a slot may move on before the roles of its new node have acquired the lock. */
Test(redis_shard_roles, roles_that_are_replaced_before_their_first_term_pass_the_lock_on) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG});
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    shard_roles_t *first = roles_of(&f, metrics), *second = roles_of(&f, metrics), *third = roles_of(&f, metrics);
    cr_assert(shard_roles_start(first));
    char *token = NULL;
    cr_assert(wait_for((token = redis_str(f.r, "GET sidecar:email:lock")) != NULL, 10000));
    cr_assert(wait_for(fixture_log_count("leading") == 1, 10000));
    shard_roles_stop_for_others(first);
    cr_assert(wait_for(shard_roles_ended(first), 10000));
    shard_roles_adopt(second, first);
    shard_roles_adopt(third, second); /* whose threads have never run */
    cr_assert(shard_roles_start(third));
    cr_assert(wait_for(fixture_log_count("still leading") == 1, 10000), "%s", fixture_log());
    redis_expect(f.r, token, "GET sidecar:email:lock");
    shard_roles_retire(first, NULL);
    shard_roles_free(first);
    shard_roles_free(second);
    end(third);
    cr_assert_eq(redis_int(f.r, "EXISTS sidecar:email:lock"), 0);
}
