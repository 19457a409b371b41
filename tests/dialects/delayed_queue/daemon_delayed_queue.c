/* Events of delayedQueue with real sidecars: a class that is not configured. */
#include "cli/audit/requeue_fixture.h"

#define OTHER    "com.example.Other"
#define ENVELOPE "{\"payload\":{\"id\":\"1\"},\"type\":\"" OTHER "\",\"attempt\":1,\"logContext\":{}}"
#define DELAYED(types, more)                                                                                                     \
    "{ name = \"q\"; dialect = \"delayed_queue\"; roles = [\"dispatcher\", \"monitor\"]; types = [" types                        \
    "]; delays = [\"*: 1s\"]; " more " }"

/* The sidecar keeps and logs the event, ends the event after protected_timeout, and requeues it once the leader has read a config
 * with the class. */
Test(daemon_delayed, ends_and_requeues_events_of_an_unknown_class) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = DELAYED("\"a.B\"", "protected_timeout = \"5s\";")});
    redis_ok(s.r, "HSET de_events " OTHER "###1 %s", ENVELOPE);
    redis_ok(s.r, "ZADD de_delayed_events 1 " OTHER "###1");
    await(&s, cluster_says(d, "class is not among", OTHER), 10000);
    cr_assert_eq(redis_int(s.r, "HLEN de_events"), 1);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    cr_assert_eq(redis_int(s.r, "EXISTS de_events de_delayed_events sidecar:q:aside de_other"), 0);
    const daemon_output_t *list = cli(d, "list", "-o", "json");
    cr_assert(has(list->out, "\"reason\":\"invalid_target\"") && has(list->out, "\"type\":\"" OTHER "\""), "%s", list->out);
    char *ref = kept(ref_of(d, "1"));
    const daemon_output_t *refused = cli(d, "requeue", ref);
    cr_assert_neq(refused->code, 0);
    cr_assert(has(refused->err, "its class is not among `types`"), "%s", refused->err);
    const sidecar_t wider = {.queues = DELAYED("\"a.B\", \"" OTHER "\"", "")};
    daemon_pause(d); /* the leader has not read the new file yet */
    cluster_reconfigure(&s, d, wider);
    refused = cli(d, "requeue", ref);
    cr_assert_neq(refused->code, 0);
    cr_assert(has(refused->err, "the leader does not send its class yet"), "%s", refused->err);
    cr_assert_eq(redis_int(s.r, "EXISTS de_events de_delayed_events"), 0);
    daemon_continue(d);
    await(&s, cluster_says(d, "\"msg\":\"new configuration\"", "q: types"), 10000);
    await(&s,
          redis_int(s.r, "EVAL %s 1 sidecar:q:meta",
                    "return string.find(redis.call('HGET', KEYS[1], 'types'), '" OTHER "') and 1 or 0"),
          10000);
    const daemon_output_t *done = cli(d, "requeue", ref, "--by", "ann");
    cr_assert_eq(done->code, 0, "%s", done->err);
    char *event = cluster_take(s.r, "de_other", 10000);
    cr_assert_str_eq(event, ENVELOPE);
    await(&s, answers(d, 1), COPY_MS);
    const daemon_output_t *again = cli(d, "requeue", ref, "--again");
    cr_assert(has(again->out, "it is scheduled already") || has(again->err, "it is scheduled already"), "%s%s", again->out,
              again->err);
    cr_assert(!has(again->out, "use --again") && !has(again->err, "use --again"), "--again was given: %s", again->err);
    cr_assert_eq(redis_int(s.r, "ZCARD de_delayed_events"), 1);
}
