/* Dialect sidekiq behind sentinels: due jobs and jobs of a killed process are on the new primary, and come back there. */
#include "daemon.h"
#include "sentinels.h"
#include "suite.h"
#include "wait.h"

enum { BACK_MS = 60000 };

Test(daemon_sidekiq_sentinel, jobs_survive_a_failover, .timeout = 300) {
    sentinels_t *s = sentinels_begin(NULL);
    char *settings = sentinels_settings(s);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { %s };\nlock = { ttl = \"2s\"; };\n"
                               "http = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "queues = ( { name = \"sidekiq\"; dialect = \"sidekiq\"; } );\n",
                               settings);
    int old = sentinels_primary(s, NULL);
    redis_t *r = redis_open(s->servers[old]);
    redis_ok(r, "ZADD schedule 1 %s", "{\"queue\":\"default\",\"jid\":\"one\"}");
    cr_assert(wait_for(redis_int(r, "LLEN queue:default") == 1, BACK_MS), "the job is not promoted");
    redis_ok(r, "HSET h:1:a beat 1700000100 rtt_us 9 info {}");
    redis_ok(r, "HSET h:1:a:work t1 %s",
             "{\"queue\":\"default\",\"payload\":\"{\\\"jid\\\":\\\"two\\\"}\",\"run_at\":1700000000}");
    redis_int(r, "WAIT 2 10000");
    redis_close(r);
    sentinels_failover(s);
    int primary = sentinels_await_switch(s, old);
    r = redis_open(s->servers[primary]);
    redis_ok(r, "ZADD schedule 1 %s", "{\"queue\":\"default\",\"jid\":\"three\"}");
    /* The process was killed some 50 s ago. */
    redis_ok(r, "SADD processes h:1:a");
    redis_ok(r, "PEXPIRE h:1:a 30000");
    redis_ok(r, "PEXPIRE h:1:a:work 30000");
    cr_assert(wait_for(redis_int(r, "LLEN queue:default") == 3, BACK_MS), "%s", daemon_log(d));
    cr_expect_eq(redis_int(r, "EXISTS schedule h:1:a:work"), 0);
    redis_close(r);
    daemon_stop(d);
    free(settings);
    sentinels_end(s);
}
