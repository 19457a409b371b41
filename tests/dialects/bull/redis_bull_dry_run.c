/* The dry run of bull's scripts: it finds each right that is missing before anybody leads, and leaves nothing behind. */
#include "bull_call.h"
#include "dialects/registry.h"

#define CONFIG "group = \"app\"; queues = ( { name = \"scratch\"; }, { name = \"video\"; dialect = \"bull\"; } );"

typedef struct {
    int refused;
    char why[256];
} found_t;

static bool passed(const dry_run_t *room, const script_t *script, outcome_t outcome) {
    found_t *found = room->self;
    (void)script;
    if (outcome == OUTCOME_REFUSED) snprintf(found->why, sizeof found->why, "%s", room->error->text);
    if (outcome != OUTCOME_OK) found->refused++;
    return outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED;
}

/* As the preflight does it, with this connection. */
static found_t dry_run(fixture_t *f, conn_t *conn) {
    found_t found = {0};
    redis_error_t error = {0};
    dry_run_t room = {.conn = conn,
                      .keys = f->keys,
                      .config = f->keys->queues[1].config,
                      .prefix = "sidecar:scratch:",
                      .token = "T",
                      .error = &error,
                      .passed = passed,
                      .self = &found};
    redis_ok(f->r, "SET " BULL_LOCK " T");
    cr_assert(dialect_bull.dry_run(&room));
    return found;
}

Test(redis_bull_dry_run, dry_run_succeeds_and_leaves_no_key) {
    fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG});
    found_t found = dry_run(&f, f.conn);
    cr_assert_eq(found.refused, 0, "%s", found.why);
    redisReply *left = redis_do(f.r, "KEYS *");
    for (size_t i = 0; i < left->elements; i++) {
        const char *key = left->element[i]->str;
        bool own = strcmp(key, BULL_LOCK) == 0 || strcmp(key, "sidecar:scratch:failures") == 0 ||
                   strcmp(key, "sidecar:scratch:meta") == 0;
        cr_assert(own, "%s is left", key); /* the last two are the preflight's, which gives them a TTL */
    }
    redisReply *records = redis_do(f.r, "XLEN sidecar:scratch:failures");
    cr_assert_eq(records->integer, 6, "one goes back, two end; one that a worker ended, and two that are put back");
    freeReplyObject(records);
    freeReplyObject(left);
    fixture_stop(&f);
}

Test(redis_bull_dry_run, finds_each_right_that_is_missing) {
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
    fixture_t f = fixture_start(&(fixture_options_t){.config = CONFIG});
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redis_ok(f.r, "FLUSHALL");
        redis_ok(f.r, "ACL SETUSER default +@all -%s", rights[i]);
        found_t found = dry_run(&f, f.conn);
        redis_ok(f.r, "ACL SETUSER default +@all");
        cr_assert_gt(found.refused, 0, "without %s", rights[i]);
    }
    fixture_stop(&f);
}
