#include "replica.h"

#include "wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static bool is_linked(const server_t *replica) {
    char *info = server_info(replica, "replication");
    bool linked = strstr(info, "master_link_status:up") != NULL;
    free(info);
    return linked;
}

server_t *replica_start(server_t *primary, const server_options_t *options) {
    server_t *replica = server_start(options);
    redis_t *r = redis_open(primary);
    redis_ok(r, "CONFIG SET repl-diskless-sync-delay 0");
    redis_close(r);
    r = redis_open(replica);
    redis_ok(r, "REPLICAOF 127.0.0.1 %d", server_port(primary));
    redis_close(r);
    cr_assert(wait_for(is_linked(replica), 15000), "the replica has no link to its primary");
    return replica;
}

void replica_promote(server_t *replica) {
    redis_t *r = redis_open(replica);
    redis_ok(r, "REPLICAOF NO ONE");
    redis_close(r);
}
