/* The notifiers of docs/worker-contract.md, unchanged, between the real sidecar and a real webhook (webhook.py), which refuses
 * the first post. */
#include "child.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"
#include "text.h"

TestSuite(daemon_notifiers, .timeout = 120);

enum { FAILURES = 20, ALL_MS = 30000 };
#define QUEUE                                                                                                                    \
    "{ name = \"q\"; roles = [\"monitor\"]; id_path = \"/id\"; protected_timeout = \"100ms\"; heartbeat = \"off\"; "             \
    "retry_times = 0; on_failure = \"failed-jobs\"; }"

static char *posts(const native_t *native) { return temp_read(temp_path(native->dir, "posts")); }

static int count_posts(const native_t *native) {
    int count = 0;
    for (const char *at = posts(native); (at = strchr(at, '\n')); at++) count++;
    return count;
}

static child_t *start_webhook(const native_t *native) {
    char *program = kept(realpath("tests/clients/webhook.py", NULL)), *log = temp_path(native->dir, "webhook");
    const char *argv[] = {"python3", program, NULL};
    child_t *child = child_start(&(child_spec_t){.argv = argv, .dir = native->dir, .out = log, .err = log});
    cr_assert(wait_for(access(temp_path(native->dir, "port"), R_OK) == 0, ALL_MS), "%s", temp_read(log));
    return child;
}

/* Each failure is posted once, the oldest first, and none is left. */
static void expect_posted(const char *language, const char *part) {
    scoped(cluster_end) cluster_t s = cluster_begin(&(server_options_t){.tcp = true});
    scoped(native_end) native_t native = native_begin(language, s.server);
    scoped(child_drop) child_t *webhook = start_webhook(&native);
    char *url = kept_printf("WEBHOOK=http://127.0.0.1:%s/hook", temp_read(temp_path(native.dir, "port")));
    const char *const args[] = {"notifier", NULL}, *const env[] = {url, NULL};
    cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE, .scan = "50ms"});
    for (int i = 0; i < FAILURES; i++) {
        redis_ok(s.r, "LPUSH q:backup %s", kept_printf("{\"id\":%d}", i));
        if (!wait_for(redis_int(s.r, "LLEN failed-jobs") == i + 1, ALL_MS)) cluster_fail(&s, "a failure is not told");
    }
    child_t *refused = native_start(&native, args, env, NULL);
    cr_assert(child_wait(refused, ALL_MS));
    cr_expect_neq(refused->exit_code, 0, "the webhook has refused a post");
    child_free(refused);
    cr_expect_eq(redis_int(s.r, "LLEN failed-jobs"), FAILURES);
    child_t *notifier = native_start(&native, args, env, NULL);
    if (!wait_for(count_posts(&native) == FAILURES && redis_int(s.r, "LLEN failed-jobs") == 0, ALL_MS))
        native_fail(&native, "not each failure is posted");
    child_free(notifier);
    const char *at = posts(&native);
    for (int i = 0; i < FAILURES; i++) {
        at = strstr(at, kept_printf(part, i));
        cr_assert_not_null(at, "failure %d is missing, or late:\n%s", i, posts(&native));
    }
    cr_expect_eq(count_posts(&native), FAILURES);
}

Test(daemon_notifiers, python) { expect_posted("python", "{\"text\": \"a job of q has failed (retries_exhausted): %d \\n"); }
Test(daemon_notifiers, shell) { expect_posted("shell", "\"queue\":\"q\",\"group\":\"g\",\"type\":\"\",\"job_id\":\"%d\","); }
