#include "replica.h"

#include "suite.h"
#include "wait.h"

static bool says(const server_t *server, const char *text) {
    char *info = server_info(server, "replication");
    bool says = strstr(info, text) != NULL;
    free(info);
    return says;
}

server_t *replica_start(server_t *primary, const server_options_t *options) {
    server_t *replica = server_start(options);
    redis_t *r = redis_open(primary);
    redis_ok(r, "CONFIG SET repl-diskless-sync-delay 0");
    redis_close(r);
    r = redis_open(replica);
    redis_ok(r, "REPLICAOF 127.0.0.1 %d", server_port(primary));
    redis_close(r);
    cr_assert(wait_for(says(replica, "master_link_status:up") && says(primary, "state=online"), 15000),
              "the replica has no link to its primary");
    return replica;
}

void replica_promote(server_t *replica) {
    scoped(redis_drop) redis_t *r = redis_open(replica);
    redis_ok(r, "REPLICAOF NO ONE");
}
