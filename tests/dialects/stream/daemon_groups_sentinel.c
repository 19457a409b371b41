/* Dialect stream behind sentinels: the pending entries of a group are on the new primary, and come back there. */
#include "daemon.h"
#include "sentinels.h"
#include "suite.h"
#include "wait.h"

enum { BACK_MS = 60000 };

static long long pending(redis_t *r) {
    return redis_int(r, "EVAL %s 1 mail", "return redis.call('XPENDING', KEYS[1], 'workers')[1]");
}

Test(daemon_groups_sentinel, entries_of_dead_consumers_survive_a_failover, .timeout = 300) {
    sentinels_t *s = sentinels_begin(NULL);
    char *settings = sentinels_settings(s);
    daemon_t *d = daemon_start(
        "group = \"g\";\nredis = { %s };\nlock = { ttl = \"2s\"; };\nmonitor = { scan_interval = \"200ms\"; };\n"
        "http = { port = 0; };\nlog = { format = \"json\"; };\n"
        "queues = ( { name = \"mail\"; dialect = \"stream\"; group = \"workers\"; protected_timeout = \"15s\"; } );\n",
        settings);
    int old = sentinels_primary(s, NULL);
    redis_t *r = redis_open(s->servers[old]);
    redis_ok(r, "XGROUP CREATE mail workers 0 MKSTREAM");
    redis_ok(r, "ZADD mail:delayed 1 job");
    static const char read[] = "local got = redis.call('XREADGROUP', 'GROUP', 'workers', 'w1', 'STREAMS', KEYS[1], '>') "
                               "return got and #got[1][2] or 0";
    cr_assert(wait_for(redis_int(r, "EVAL %s 1 mail", read) == 1, BACK_MS), "the job is not promoted");
    redis_int(r, "WAIT 2 10000");
    redis_close(r);
    sentinels_failover(s);
    int primary = sentinels_await_switch(s, old);
    r = redis_open(s->servers[primary]);
    cr_assert(wait_for(pending(r) == 0 && redis_int(r, "XLEN mail") == 1, BACK_MS), "%lld pending; %s", pending(r),
              daemon_log(d));
    cr_assert_eq(redis_int(r, "EVAL %s 1 mail", read), 1, "the copy can be read");
    redis_close(r);
    daemon_stop(d);
    free(settings);
    sentinels_end(s);
}
