/* `status` and `check --redis` in a real Redis Cluster. */
#include "base/buffer.h"
#include "daemon.h"
#include "redis_cluster.h"
#include "suite.h"
#include "tempdir.h"
#include "text.h"
#include "wait.h"

typedef struct {
    nodes_t nodes;
    char *config;
    unsigned slots[2]; /* of the two queues, which are on different primaries */
} fixture_t;

static fixture_t begin(void) {
    fixture_t f = {.nodes = nodes_start(2, 0)};
    int other = 1;
    char *names[2] = {mem_str("{q0}"), mem_printf("{q%d}", other)};
    f.slots[0] = nodes_slot(&f.nodes, names[0]);
    while ((f.slots[1] = nodes_slot(&f.nodes, names[1])),
           nodes_owner(&f.nodes, f.slots[0]) == nodes_owner(&f.nodes, f.slots[1])) {
        free(names[1]);
        names[1] = mem_printf("{q%d}", ++other);
    }
    char *seeds = nodes_seeds(&f.nodes), *log = temp_path(temp_root(), "audit.db");
    char *text = kept_printf("group = \"g\"; redis = { nodes = [%s]; }; http = { port = 0; }; audit = { path = \"%s\"; };\n"
                             "defaults = { heartbeat = \"off\"; };\nqueues = ( { name = \"%s\"; }, { name = \"%s\"; } );\n",
                             seeds, log, names[0], names[1]);
    f.config = temp_file("cluster.cfg", text);
    for (int i = 0; i < 2; i++) free(names[i]);
    return f;
}

static void finish(fixture_t *f) {
    free(f->config);
    nodes_free(&f->nodes);
}

static void expect_part(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void expect_part(const char *text, const char *format, ...) {
    char part[256];
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
    cr_assert(has(text, part), "no %s in %s", part, text);
}

static fixture_t f;
SUITE(daemon_status_cluster, f = begin(), finish(&f));

Test(daemon_status_cluster, each_primary_tells_of_itself_and_its_queues, .timeout = 60) {
    const daemon_output_t *check = daemon_run("check", "-c", f.config, "--redis");
    cr_assert_eq(check->code, 0, "%s%s", check->out, check->err);
    expect_part(check->err, "\nok       cluster, queues on 2 primaries\n");
    for (int i = 0; i < 2; i++)
        expect_part(check->err, "\nok       primary %s: ", nodes_address(&f.nodes, nodes_owner(&f.nodes, f.slots[i])));
    expect_part(check->err, "; queue {q0}\n");
    const daemon_output_t *text = daemon_run("status", "-c", f.config);
    expect_part(text->out, "\nredis    cluster, queues on 2 primaries\n         127.0.0.1:");
    const daemon_output_t *json = daemon_run("status", "-c", f.config, "-o", "json");
    expect_part(json->out, "\"mode\":\"cluster\"");
    for (int i = 0; i < 2; i++)
        expect_part(json->out, "\"primary\":\"%s\",\"slot\":%u,\"waits_for_slot\":null",
                    nodes_address(&f.nodes, nodes_owner(&f.nodes, f.slots[i])), f.slots[i]);
}

Test(daemon_status_cluster, a_queue_whose_slot_is_being_moved_is_named_once, .timeout = 60) {
    nodes_move_begin(&f.nodes, f.slots[0], nodes_owner(&f.nodes, f.slots[1]));
    const daemon_output_t *json = daemon_run("status", "-c", f.config, "-o", "json");
    expect_part(json->out, "\"waits_for_slot\":\"its slot, %u, is being moved to another node\"", f.slots[0]);
    expect_part(json->out, "\"severity\":\"warning\",\"code\":\"slot\",\"queues\":[\"{q0}\"]");
    cr_assert(!has(json->out, "\"preflight\"") && !has(json->out, "\"key_fault\"") && !has(json->out, "\"lock_fault\""), "%s",
              json->out);
    const daemon_output_t *check = daemon_run("check", "-c", f.config, "--redis");
    cr_assert_eq(check->code, 0, "%s%s", check->out, check->err);
    expect_part(check->err, "warning  queue \"{q0}\": its slot, %u, is being moved to another node", f.slots[0]);
    cr_assert(!has(check->err, "cannot look at key"), "%s", check->err);
}

Test(daemon_status_cluster, a_dead_primary_hides_no_other_queue, .timeout = 60) {
    redis_t *r = nodes_open(&f.nodes, "{q0}");
    for (int i = 0; i < 2; i++) {
        scoped(redis_drop) redis_t *any = redis_open(f.nodes.servers[i]);
        redis_ok(any, "CONFIG SET cluster-require-full-coverage no");
    }
    redis_ok(r, "LPUSH {q0} job");
    size_t dead = nodes_owner(&f.nodes, f.slots[1]);
    server_kill(f.nodes.servers[dead]);
    const daemon_output_t *json = daemon_run("status", "-c", f.config, "-o", "json");
    cr_assert_eq(json->code, 1, "%s", json->err);
    expect_part(json->out, "\"waits_for_slot\":\"its slot, %u: cannot connect to %s: ", f.slots[1],
                nodes_address(&f.nodes, dead));
    expect_part(json->out, "\"severity\":\"fault\",\"code\":\"slot\"");
    expect_part(json->out, "\"waits_for_slot\":null,\"delayed\":0,\"ready\":1");
    const daemon_output_t *check = daemon_run("check", "-c", f.config, "--redis");
    cr_assert_eq(check->code, 69);
    expect_part(check->err, "redis at %s: ", nodes_address(&f.nodes, dead));
    expect_part(check->err, "; queue {q0}\n");
    redis_close(r);
    f.nodes.down[dead] = true;
}
