/* A storm in one queue holds up neither the jobs of another queue nor the renewal of the lock. */
#include "base/buffer.h"
#include "cluster.h"
#include "proxy.h"
#include "queue/scripts.h"

enum { STORM = 50000, STEP = 5000, STORM_MS = 60000, TRIES = 5, ROUNDS = 20, RENEWALS = 6, WAIT_MS = 20000 };

/* Each job in the backup list of `storm` stalls at once. */
static const char QUEUES[] = "{ name = \"storm\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"50ms\"; }, "
                             "{ name = \"calm\"; }";

static cluster_t s;

/* Workers take new jobs and die. */
static void take_jobs(int storm, int count) {
    redis_ok(s.r, "DEL storm");
    for (int i = 0; i < count; i += STEP)
        redis_ok(s.r, "EVAL %s 1 storm:backup %d %d %d",
                 "for i = 1, ARGV[3] do redis.call('LPUSH', KEYS[1], 'job ' .. ARGV[1] .. '/' .. ARGV[2] + i) end", storm, i,
                 STEP);
}

static char *token(void) { return redis_str(s.r, "GET sidecar:g:lock"); }

static bool is_token(const char *wanted) {
    char *found = token();
    return found && wanted && strcmp(found, wanted) == 0;
}

/* Delays jobs of `calm` one after another until the storm is over. Returns how many were promoted meanwhile. */
static int storm_rounds(void) {
    int rounds = 0;
    wait_t storm = wait_begin(STORM_MS);
    while (redis_int(s.r, "LLEN storm") < STORM) {
        cluster_round(&s, "calm", 0);
        if (++rounds % ROUNDS == 0 && !wait_again(&storm)) cluster_fail(&s, "the storm does not end");
    }
    return rounds;
}

SUITE(daemon_fairness, s = cluster_begin(NULL), cluster_end(&s));

/* The storm is longer than the lock lives. A machine that stalls may cost any leader its lock, so only one storm of a few has to
 * leave it alone. */
Test(daemon_fairness, a_storm_holds_up_neither_another_queue_nor_the_lock, .timeout = 400) {
    bool kept = false;
    take_jobs(0, STORM);
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "600ms", .scan = "50ms", .queues = QUEUES});
    for (int try = 0; try < TRIES && !kept; try++) {
        if (try) take_jobs(try, STORM);
        char *before = token();
        kept = storm_rounds() >= ROUNDS && is_token(before);
        cr_assert_eq(redis_int(s.r, "LLEN storm"), STORM);
    }
    if (!kept) cluster_fail(&s, "each storm has cost the lock, or has held up the other queue");
}

/* The calls of a script, on a server with or without flags of scripts. */
static char *call_of(const script_t *script) {
    return kept_printf("EVALSHA %s", server_major(s.server) < 7 ? script->sha1_without_flags : script->sha1);
}

/* Redis's answer to the monitor is on its way for longer than the lock lives. */
Test(daemon_fairness, a_waiting_monitor_holds_up_neither_another_queue_nor_the_lock, .timeout = 120) {
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    char *settle = call_of(&script_settle), *renew = call_of(&script_renew);
    proxy_rule(proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = settle, .begins = true});
    take_jobs(0, STEP);
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "1s", .scan = "50ms", .queues = QUEUES, .socket = proxy_socket(proxy)});
    if (!wait_for(proxy_fired(proxy) > 0, WAIT_MS)) cluster_fail(&s, "no job is given back");
    char *before = token();
    long renewals = proxy_requests(proxy, renew);
    if (!wait_for(proxy_requests(proxy, renew) >= renewals + RENEWALS, WAIT_MS)) cluster_fail(&s, "the lock is not renewed");
    for (int i = 0; i < ROUNDS; i++) cluster_round(&s, "calm", 0);
    cr_assert(is_token(before), "the leader has lost its lock");
    cr_assert_eq(proxy_requests(proxy, settle), 1, "the monitor does not wait, so the test proves nothing");
    proxy_pass(proxy);
    if (!wait_for(redis_int(s.r, "LLEN storm") == STEP, STORM_MS)) cluster_fail(&s, "not all jobs are given back");
    cluster_end(&s); /* before its proxy */
}
