/* The status of a Cluster whose nodes hang. */
#include "fixture.h"
#include "operate/status/status.h"
#include "redis_cluster.h"
#include "role/role.h"
#include "wait.h"

static void status_drop(status_t **status) { status_free(*status); }

typedef struct {
    status_t *status;
    role_t role;
    int64_t begins_ns, ends_ns; /* role.due_ns before and after the read */
    atomic_bool read;
} reader_t;

static void read_tick(void *self, role_wait_t *wait) {
    reader_t *reader = self;
    reader->begins_ns = atomic_load(&reader->role.due_ns);
    status_read(reader->status);
    reader->ends_ns = atomic_load(&reader->role.due_ns);
    atomic_store(&reader->read, true);
    (void)wait;
}

/* The API reads the status for anybody. The role that does it must not count as hanging because many nodes do. */
Test(redis_status_cluster, each_node_that_hangs_may_take_its_time, .timeout = 60) {
    enum { TIMEOUT_MS = 300 };
    scoped(nodes_free) nodes_t nodes = nodes_start(3, 0);
    scoped(config_drop) config_t *config = fixture_config("redis = { nodes = [%s]; timeout = \"%dms\"; }; queues = ( { name = "
                                                          "\"{a}\"; }, { name = \"{b}\"; }, { name = \"{c}\"; } );",
                                                          nodes_seeds(&nodes), TIMEOUT_MS);
    scoped(status_drop) status_t *status = status_new(config, NULL);
    status_read(status);
    cr_assert(status->reached && status->shards->count == 3);
    status->slow_at = mono_never(); /* the slots are known */
    for (size_t i = 0; i < nodes.count; i++) server_freeze(nodes.servers[i]);
    reader_t reader = {.status = status};
    cr_assert(role_init(&reader.role, "reader", read_tick, NULL, &reader));
    cr_assert(role_start(&reader.role));
    cr_assert(wait_for(atomic_load(&reader.read), 30000));
    role_stop(&reader.role);
    cr_assert(role_join(&reader.role, 30000));
    role_destroy(&reader.role);
    for (size_t i = 0; i < nodes.count; i++) server_thaw(nodes.servers[i]);
    cr_expect_gt(reader.ends_ns - reader.begins_ns, TIMEOUT_MS * NS_PER_MS, "the third node was asked after two timeouts");
}
