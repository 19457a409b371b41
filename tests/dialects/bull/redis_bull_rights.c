/* The preflight of dialect bull finds each missing right before an instance leads, and does not take a broken reply for BullMQ.
 */
#include "bull_call.h"
#include "dialects/registry.h"
#include "inspect/preflight.h"

#define CONFIG "group = \"app\"; queues = ( { name = \"video\"; dialect = \"bull\"; } );"

static void count_disabled(void *self, preflight_level_t level, const char *queue, const char *text) {
    int *disabled = self;
    (void)queue;
    if (level == PREFLIGHT_QUEUE_DISABLED && strstr(text, "script ")) ++*disabled;
}

static int disabled_queues(fixture_t *f) {
    int disabled = 0;
    cr_assert_eq(preflight(&(preflight_call_t){f->conn, f->keys, count_disabled, &disabled, &f->error}), OUTCOME_OK, "%s",
                 f->error.text);
    return disabled;
}

Test(redis_bull_rights, all_rights_pass_and_leave_no_key) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG});
    cr_assert_eq(disabled_queues(&f), 0);
    cr_assert_eq(redis_int(f.r, "DBSIZE"), 0);
}

Test(redis_bull_rights, finds_each_missing_right) {
    static const char *const rights[] = {"hexists",
                                         "hstrlen",
                                         "lindex",
                                         "linsert",
                                         "sadd",
                                         "sismember",
                                         "sscan",
                                         "srem",
                                         "zcount",
                                         "zrem",
                                         "zremrangebyrank",
                                         "zrangebyscore",
                                         "rpush",
                                         "lpush",
                                         "lrem",
                                         "llen",
                                         "lrange",
                                         "lpos",
                                         "hget",
                                         "hset",
                                         "hmget",
                                         "zadd",
                                         "xadd",
                                         "xlen",
                                         "type",
                                         "exists",
                                         "pttl",
                                         "rename",
                                         "zmscore",
                                         "del",
                                         "zscore",
                                         "zrevrangebyscore",
                                         "zremrangebyscore"};
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG});
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "ACL SETUSER default +@all -%s", rights[i]);
        int disabled = disabled_queues(&f);
        redis_ok(f.r, "ACL SETUSER default +@all");
        cr_assert_eq(disabled, 1, "without %s", rights[i]);
    }
}

Test(redis_bull_rights, a_broken_reply_does_not_mean_bullmq) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG, .proxy = true});
    buffer_t text = {0};
    const call_t call = fixture_call(&f, NULL);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "HMGET", .error = "+what"});
    cr_assert_eq(dialect_bull.adopt(&call, &text), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(text.len, 0, "%s", buffer_text(&text));
}
