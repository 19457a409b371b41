/* A right that is withdrawn between the preflight and a call changes nothing: each script proves all its writes before the first.
 * Each row is one branch of a script. For each right that docs/acl.md publishes the test withdraws that right, or only the right
 * to write to these keys, and calls the script. */
#include "fixture.h"
#include "queue/settle_reply.h"
#include "rights.h"
#include "withdrawn_bull.h"
#include "withdrawn_rights.h"

enum { MAX_WORDS = 64 };

typedef struct {
    const char *argv[MAX_WORDS];
    size_t lens[MAX_WORDS];
    int argc;
    char *text; /* owned; argv points into it */
} words_t;

/* The words of a line; '' is the empty one, and ~ a space within a word. */
static words_t words_split(const char *line) {
    words_t words = {.text = mem_str(line)};
    char *rest = words.text;
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        cr_assert_lt(words.argc, MAX_WORDS);
        for (char *at = word; (at = strchr(at, '~'));) *at = ' ';
        words.argv[words.argc] = word;
        words.lens[words.argc++] = strcmp(word, "''") == 0 ? 0 : strlen(word);
    }
    return words;
}

static redisReply *do_line(redis_t *r, const char *line) {
    words_t words = words_split(line);
    redisReply *reply = redisCommandArgv(r, words.argc, words.argv, words.lens);
    cr_assert_not_null(reply, "%s: %s", line, r->errstr);
    free(words.text);
    return kept(reply);
}

/* The keys with their types and lengths. */
static char *summary_of(redis_t *r) {
    return redis_str(
        r, "EVAL %s 0",
        "local sizes = {list = 'LLEN', zset = 'ZCARD', hash = 'HLEN', set = 'SCARD', stream = 'XLEN', string = 'STRLEN'} "
        "local all = redis.call('KEYS', '*') table.sort(all) "
        "for i, key in ipairs(all) do local type = redis.call('TYPE', key).ok "
        "all[i] = key .. ' ' .. type .. ' ' .. redis.call(sizes[type], key) end return table.concat(all, ', ')");
}

typedef struct {
    fixture_t f;
    rights_t rights;
    redis_t *user;
    bool old; /* as on Redis 6.2, which has no right to read only */
} table_t;

static void lay_out(redis_t *r, const withdrawn_call_t *call) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    for (size_t i = 0; i < MAX_WITHDRAWN_SETUP && call->setup[i]; i++) {
        redisReply *reply = do_line(r, call->setup[i]);
        cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s: %s: %s", call->branch, call->setup[i], reply->str);
    }
}

static redisReply *call_as_sidecar(table_t *t, const withdrawn_call_t *call, const char *sha) {
    char *line = kept_printf("EVALSHA %s %s", sha, call->arguments);
    redisReply *reply = do_line(t->user, line);
    if (call->script == &script_promote) return kept(promote_answer(reply));
    bool answers_each = call->script == &script_settle || call->script == &script_stream_settle ||
                        call->script == &script_bull_settle || call->script == &script_bullmq_settle ||
                        call->script == &script_quarantine_settle;
    return kept(answers_each ? settle_answer(reply) : reply);
}

static void expect_reply(const redisReply *reply, const withdrawn_call_t *call, const char *what) {
    const redisReply *first = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0] : reply;
    const char *word = first->type == REDIS_REPLY_INTEGER ? "integer" : first->str;
    cr_expect_neq(reply->type, REDIS_REPLY_ERROR, "%s, %s, %s: %s", call->script->name, call->branch, what, word);
    cr_expect_str_eq(word, call->reply ? call->reply : word, "%s, %s, %s: %s", call->script->name, call->branch, what, word);
}

/* Calls with all rights. Asserts that the branch is the right one, and returns what there is then; kept. */
static char *succeed(table_t *t, const withdrawn_call_t *call, const char *sha, const char *after) {
    char *before = fixture_digest(t->f.r);
    rights_grant(t->f.r, &t->rights, NULL);
    redisReply *reply = call_as_sidecar(t, call, sha);
    expect_reply(reply, call, after);
    char *digest = fixture_digest(t->f.r);
    cr_assert_str_neq(before, digest, "%s, %s writes nothing", call->script->name, call->branch);
    return summary_of(t->f.r);
}

/* `word` is the right that goes. Returns whether the script did nothing without it. */
static bool withdraw(table_t *t, const withdrawn_call_t *call, const char *sha, const char *complete, const char *word) {
    redis_t *r = t->f.r;
    char *before = fixture_digest(r);
    redisReply *reply = call_as_sidecar(t, call, sha);
    bool refused = reply->type == REDIS_REPLY_ERROR;
    char *what = kept_printf("%s, %s, without %s: %s", call->script->name, call->branch, word, refused ? reply->str : "no error");
    if (refused) {
        char *after = fixture_digest(r);
        cr_expect_str_eq(before, after, "%s: something has changed", what);
        char *again = succeed(t, call, sha, what);
        cr_expect_str_eq(again, complete, "%s: with the right again: %s, not %s", what, again, complete);
    } else if (strcmp(word, "+xinfo|stream") != 0) { /* without the last id of the stream a script does less */
        char *summary = summary_of(r);
        expect_reply(reply, call, what);
        cr_expect_str_eq(summary, complete, "%s: %s, not %s", what, summary, complete);
    }
    return refused;
}

static void try_all_rights(table_t *t, const withdrawn_call_t *call) {
    size_t len, refusals = 0;
    const char *text = fixture_script(call->script, &len);
    char *copy = kept(mem_str(text));
    for (char *at = copy; t->old && (at = strstr(at, "redis.acl_check_cmd"));) memcpy(at, "redis.acl_check_not", 19);
    char *sha = redis_str(t->f.r, "SCRIPT LOAD %b", copy, len);
    lay_out(t->f.r, call);
    char *complete = succeed(t, call, sha, "with all rights");
    for (size_t i = 0; i < t->rights.count; i++) {
        const char *word = t->rights.words[i];
        lay_out(t->f.r, call);
        rights_grant(t->f.r, &t->rights, word);
        refusals += withdraw(t, call, sha, complete, word);
        if (*word != '~' || t->old || server_major(t->f.server) < 7) continue; /* %R~ is new in Redis 7 */
        char *reads = kept_printf("%%R%s", word);
        t->rights.words[i] = reads;
        lay_out(t->f.r, call);
        rights_grant(t->f.r, &t->rights, NULL);
        t->rights.words[i] = word;
        refusals += withdraw(t, call, sha, complete, reads);
    }
    cr_assert_geq(refusals, 3, "%s, %s: only %zu rights matter", call->script->name, call->branch, refusals);
}

static void try_calls(rights_t rights, const withdrawn_call_t *calls, size_t count) {
    table_t t = {.f = fixture_start(&(fixture_options_t){.closed = true}), .rights = rights};
    rights_grant(t.f.r, &t.rights, NULL);
    t.user = redis_open(t.f.server);
    redis_ok(t.user, "AUTH sidecar secret");
    for (size_t i = 0; i < 2 * count; i++) {
        t.old = i % 2;
        try_all_rights(&t, &calls[i / 2]);
    }
    redis_close(t.user);
    rights_free(&t.rights);
    fixture_stop(&t.f);
}

#define TRY(dialect, calls) try_calls(rights_read(dialect), calls, sizeof(calls) / sizeof *(calls))

Test(redis_withdrawn_rights, list_scripts_change_nothing, .timeout = 60) { TRY(NULL, withdrawn_list); }
Test(redis_withdrawn_rights, kmqueue_scripts_change_nothing) { TRY("kmqueue", withdrawn_kmqueue); }
Test(redis_withdrawn_rights, private_queues_scripts_change_nothing) { TRY("private_queues", withdrawn_private_queues); }
Test(redis_withdrawn_rights, sidekiq_scripts_change_nothing) { TRY("sidekiq", withdrawn_sidekiq); }
Test(redis_withdrawn_rights, stream_scripts_change_nothing) { TRY("stream", withdrawn_stream); }
Test(redis_withdrawn_rights, delayed_queue_scripts_change_nothing) { TRY("delayed_queue", withdrawn_delayed_queue); }
Test(redis_withdrawn_rights, bull_scripts_change_nothing, .timeout = 60) { TRY("bull", withdrawn_bull); }

Test(redis_withdrawn_rights, scripts_of_jobs_change_nothing) {
    rights_t rights = rights_read(NULL);
    scoped(rights_free) rights_t own = rights_read_behind("This is for `jobs run` and `jobs cancel`");
    cr_assert_gt(own.count, 0);
    for (size_t i = 0; i < own.count; i++) rights.words[rights.count++] = own.words[i];
    try_calls(rights, withdrawn_jobs, sizeof withdrawn_jobs / sizeof *withdrawn_jobs);
}

#define RUNNING "group = \"app\"; queues = ( { name = \"email\"; } );"

/* The roles meet the refusal at several attempts, and are then given the right back. */
/* Returns whether each job and each record is there once. */
static bool withdraw_while_running(const char *command) {
    scoped(fixture_stop) fixture_t f =
        fixture_start(&(fixture_options_t){.config = RUNNING, .redis = RIGHTS_LOGIN, .closed = true});
    scoped(rights_free) rights_t rights = rights_read(NULL);
    rights_grant(f.r, &rights, NULL);
    scoped(instance_stop) instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    instance_lead(&instance, f.r);
    driver_step(&instance.driver, 1);
    redis_ok(f.r, "ACL SETUSER sidecar -%s", command);
    redis_ok(f.r, "HSET email:errors ended !why again why");
    redis_ok(f.r, "RPUSH email:backup ended again");
    redis_ok(f.r, "ZADD email:delayed 1 due");
    for (int attempt = 0; attempt < 4; attempt++) {
        driver_run(&instance.driver, 100);
        fixture_step_boottime(5001);
    }
    cr_expect_gt(metric_get(&instance.metrics->queues[0].faults), 1, "without %s nothing was refused twice", command);
    redis_ok(f.r, "ACL SETUSER sidecar +%s", command);
    bool done = driver_until(&instance.driver,
                             redis_int(f.r, "LLEN email") >= 2 && redis_int(f.r, "XLEN sidecar:email:failures") >= 2 &&
                                 redis_int(f.r, "EXISTS email:errors email:delayed") == 0,
                             10000);
    cr_expect(done, "with %s again the roles do not go on", command);
    bool once = redis_int(f.r, "LLEN email") == 2 && redis_int(f.r, "XLEN sidecar:email:failures") == 2;
    cr_expect_leq(redis_int(f.r, "LLEN email:backup"), 1, "without %s more than the sentinel is in backup", command);
    return once;
}

Test(redis_withdrawn_rights, roles_repeat_nothing_and_go_on_when_a_right_is_back, .timeout = 60) {
    static const char *const commands[] = {"zremrangebyrank", "lpush", "hset", "hdel", "rpush", "lrem", "xadd"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        cr_expect(withdraw_while_running(commands[i]), "without %s a job or a record is there twice", commands[i]);
}
