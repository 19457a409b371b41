/* `audit requeue` pushes a task of KMQueue to the list that the task names, with a new creation date and its unique id. */
#include "cli/audit/requeue_fixture.h"

#define SAFE   "worker2_queue"
#define BACKUP "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="
#define GROUP                                                                                                                    \
    "{ name = \"q\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; roles = [\"monitor\"]; "       \
    "heartbeat = \"off\"; protected_timeout = \"100ms\"; retry_times = 0; }"
#define TASK(id, queue, unique)                                                                                                  \
    "{\"data\":\"caf\xc3\xa9 1e400\",\"id\":\"" id "\",\"queue\":\"" queue "\",\"taskStatus\":{\"excTimestamp\":1700000005000,"  \
    "\"genTimestamp\":1700000000000,\"retry\":3,\"state\":\"retry\"},\"type\":\"t\",\"unique\":" unique "}"

/* Starts a sidecar. Returns after all tasks have ended and the audit log has them. */
static daemon_t *ended(cluster_t *s, const char *const *tasks, int count) {
    daemon_t *d = cluster_sidecar_up(s, (sidecar_t){.queues = GROUP, .scan = "50ms"});
    for (int i = 0; i < count; i++) redis_ok(s->r, "LPUSH " BACKUP " %s", tasks[i]);
    await(s, audit_log_rows(daemon_audit_path(d)) == count, COPY_MS);
    return d;
}

/* The requeued task has a new creation date, retry 0 and state "normal". `before`: a time before the requeue, in ms. */
static void expect_anew(redis_t *r, const char *task, int64_t before) {
    char *found = redis_str(r, "LINDEX " SAFE " 0");
    const char *gen = strstr(found, "\"genTimestamp\":") + strlen("\"genTimestamp\":");
    int64_t made = strtoll(gen, NULL, 10);
    cr_assert(made >= before && made <= redis_ms(r), "%s", found);
    const char *at = strstr(task, "1700000000000");
    char *expected = kept_printf("%.*s%lld%s", (int)(at - task), task, (long long)made, at + 13);
    char *retry = strstr(expected, "\"retry\":3,\"state\":\"retry\"");
    char *anew = kept_printf("%.*s\"retry\":0,\"state\":\"normal\"%s", (int)(retry - expected), expected, retry + 25);
    cr_assert_str_eq(found, anew);
}

static cluster_t s;
SUITE(daemon_kmqueue_requeue, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_kmqueue_requeue, a_task_begins_anew_with_its_unique_id) {
    const char *const tasks[] = {TASK("u", SAFE, "true"), TASK("c", SAFE, "false")};
    daemon_t *d = ended(&s, tasks, 2);
    for (int i = 0; i < 2; i++) {
        char *ref = kept(ref_of(d, i ? "\"id\":\"c\"" : "\"id\":\"u\""));
        int64_t before = redis_ms(s.r);
        const daemon_output_t *done = cli(d, "requeue", ref, "--because", "mended");
        cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
        expect_anew(s.r, tasks[i], before);
        cr_assert_eq(redis_int(s.r, "SCARD " SAFE "_unique"), 1, "only the unique task has an id in the set");
        cr_assert_eq(redis_int(s.r, "SISMEMBER " SAFE "_unique u"), 1);
        await(&s, answers(d, i + 1), COPY_MS);
    }
    cr_assert_eq(redis_int(s.r, "LLEN " SAFE), 2);
}

/* The producer has pushed the task again before the requeue. */
Test(daemon_kmqueue_requeue, a_unique_task_that_waits_is_not_doubled) {
    const char *const tasks[] = {TASK("u", SAFE, "true")};
    daemon_t *d = ended(&s, tasks, 1);
    char *ref = kept(ref_of(d, "\"id\":\"u\""));
    redis_ok(s.r, "SADD " SAFE "_unique u");
    const daemon_output_t *refused = cli(d, "requeue", ref);
    cr_assert_eq(refused->code, 1, "%s%s", refused->out, refused->err);
    cr_assert(has(refused->err, "is not put back now: its id is taken") && has(refused->err, "--again"), "%s", refused->err);
    cr_assert_eq(redis_int(s.r, "EXISTS " SAFE), 0);
    redis_ok(s.r, "SREM " SAFE "_unique u");
    const daemon_output_t *done = cli(d, "requeue", ref);
    cr_assert_eq(done->code, 0, "the requeue failed: %s%s", done->out, done->err);
    cr_assert_eq(redis_int(s.r, "LLEN " SAFE), 1);
}

Test(daemon_kmqueue_requeue, refuses_to_requeue_a_task_without_a_list) {
    const char *const tasks[] = {"no task", TASK("f", "elsewhere", "true")};
    static const char *const why[] = {"its payload is not a task of KMQueue", "its list `elsewhere` is not among `queues`"};
    daemon_t *d = ended(&s, tasks, 2);
    for (int i = 0; i < 2; i++) {
        char *ref = kept(ref_of(d, i ? "elsewhere" : "no task"));
        const daemon_output_t *refused = cli(d, "requeue", ref);
        cr_assert_eq(refused->code, 1, "%s%s", refused->out, refused->err);
        cr_assert(has(refused->err, why[i]), "%s", refused->err);
        cr_assert_eq(redis_int(s.r, "EXISTS elsewhere elsewhere_unique " SAFE), 0);
    }
}
