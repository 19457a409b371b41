/* Least privilege: the ACL line that docs/acl.md publishes is enough, each of its rights is needed, and a missing right
 * costs no job. */
#include "fixture.h"
#include "inspect/preflight.h"
#include "queue/lock.h"
#include "queue/scripts.h"
#include "queue/settle_reply.h"
#include "rights.h"
#include "wait.h"

/* An entry above 1 KiB is oversized; ready has room for five. */
#define ONE_QUEUE                                                                                                                \
    "group = \"app\"; lock = { ttl = \"300ms\"; }; dispatcher = { safety_poll = \"50ms\"; };"                                    \
    "queues = ( { name = \"email\"; max_payload = \"1KiB\"; ready_limit = 5; } );"
#define AS_SIDECAR RIGHTS_LOGIN " db = 1;"

/* The name by which the server refuses a command: Redis 6.2 names "client" in place of "client|id". Kept. */
static char *refused_name(const fixture_t *f, const char *command) {
    return kept(strndup(command, server_major(f->server) < 7 ? strcspn(command, "|") : strlen(command)));
}

/* Whether Redis has refused the command to a user. */
static bool refused(redis_t *r, const char *command) {
    redisReply *log = redis_do(r, "ACL LOG 100");
    bool found = false;
    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        for (size_t k = 0; k + 1 < entry->elements; k += 2)
            found |= strcmp(entry->element[k]->str, "object") == 0 && strcasecmp(entry->element[k + 1]->str, command) == 0;
    }
    return found;
}

/* Two due jobs, an oversized one, and a queue that a group without a leader owns. */
static void lay_out(redis_t *r) {
    char large[2000];
    memset(large, 'L', sizeof large);
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "ZADD email:delayed 1 job1 2 %b 3 job2", large, sizeof large);
    redis_ok(r, "HSET sidecar:email:meta group gone");
    for (int i = 1; i < 5; i++) redis_ok(r, "XADD sidecar:email:failures 1-%d event e%d", i, i);
    redis_ok(r, "HSET sidecar:email:auditors long_gone %s you %s", "1-4 1", "1-4 99999999999999");
    redis_ok(r, "RPUSH email:backup job3");
    redis_ok(r, "HSET email:errors job4 text");
}

static long long copies_of(redis_t *r, const char *job) {
    redisReply *found = redis_do(r, "LPOS email %s COUNT 0", job);
    long long count = (long long)found->elements;
    char *score = redis_str(r, "ZSCORE email:delayed %s", job);
    count += score != NULL;
    return count;
}

static bool in_progress(redis_t *r, const char *job) {
    redisReply *backup = redis_do(r, "LPOS email:backup %s COUNT 0", job), *ready = redis_do(r, "LPOS email %s COUNT 0", job);
    return backup->elements || ready->elements;
}

/* The findings of preflight with the current rights; the text is owned. */
typedef struct {
    buffer_t text;
    int count;
} findings_t;

static void note(void *self, preflight_level_t finding, const char *queue, const char *text) {
    findings_t *findings = self;
    (void)queue;
    if (finding == PREFLIGHT_FACT) return;
    findings->count++;
    buffer_printf(&findings->text, "%s\n", text);
}

static findings_t run_preflight(fixture_t *f) {
    findings_t findings = {0};
    conn_close(f->conn);
    outcome_t outcome = conn_open(f->conn, &f->error);
    if (outcome == OUTCOME_OK) outcome = preflight(&(preflight_call_t){f->conn, f->keys, note, &findings, &f->error});
    if (outcome != OUTCOME_OK) note(&findings, PREFLIGHT_REFUSED, NULL, f->error.text);
    return findings;
}

static fixture_t setup(void) {
    fixture_t f = fixture_start(&(fixture_options_t){.config = ONE_QUEUE, .redis = AS_SIDECAR, .closed = true});
    redis_ok(f.r, "SELECT 1");
    return f;
}

static fixture_t f;
SUITE(redis_acl, f = setup(), fixture_stop(&f));

Test(redis_acl, the_published_line_is_enough) {
    scoped(rights_free) rights_t line = rights_read(NULL);
    rights_grant(f.r, &line, NULL);
    lay_out(f.r);
    findings_t findings = run_preflight(&f);
    cr_assert_eq(findings.count, 0, "%s", buffer_text(&findings.text));
    instance_t instance, standby;
    instance_start(&instance, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER);
    instance_start(&standby, f.keys, INSTANCE_LEADER);
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "HSTRLEN sidecar:app:queues email"), 10000)); /* claim.lua has run */
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN email") == 2, 10000));
    driver_step(&standby.driver, 1);
    driver_step(&standby.driver, 1); /* the second step subscribes to released locks */
    redis_ok(f.r, "ZADD email:delayed 1 job3");
    cr_assert(driver_until(&instance.driver, metric_get(&instance.metrics->queues[0].wakeups) > 0, 10000));
    for (int i = 0; i < 5; i++) redis_ok(f.r, "ZADD email:delayed 1 more%d", i);
    cr_assert(driver_until(&instance.driver, redis_int(f.r, "LLEN email") == 5, 10000));
    leader_finish(instance.leader);
    cr_assert(driver_until(&standby.driver, metric_get(&standby.metrics->leading) == 1, 10000));
    cr_assert_eq(rights_refused(f.r), 0);
    instance_stop(&standby);
    instance_stop(&instance);
    buffer_free(&findings.text);
}

/* Redis refuses AUTH to nobody; the line has it for the people who read the line. */
static bool never_refused(const char *command) { return strcmp(command, "auth") == 0; }

/* Whether preflight names the command in an error or a warning. Redis 7.0 does not name a command that a script may not run, so
 * the name of the script is enough. */
static bool names_command(const findings_t *findings, const char *command) {
    char word[40];
    snprintf(word, sizeof word, "'%s'", command);
    return findings->count > 0 && (strstr(buffer_text(&findings->text), word) || strstr(buffer_text(&findings->text), "script "));
}

static bool claimed(redis_t *r) { return redis_int(r, "HSTRLEN sidecar:app:queues email"); }

/* Lets a leader, a dispatcher and a standby work with the current rights until Redis refuses the command, or all is done. */
static void let_work(const char *command) {
    scoped(instance_stop) instance_t instance, standby;
    instance_start(&instance, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER);
    instance_start(&standby, f.keys, INSTANCE_LEADER);
    driver_until(&instance.driver, metric_get(&instance.metrics->leading) || refused(f.r, command), 10000);
    for (int i = 0; i < 3; i++) driver_step(&standby.driver, 1);
    driver_until(&instance.driver, claimed(f.r) || refused(f.r, command), 10000);
    fixture_step_boottime(5001); /* the dispatcher asks again for the queue that the other group owned */
    driver_until(&instance.driver, refused(f.r, command), 10000);
    leader_finish(instance.leader);
}

Test(redis_acl, each_command_is_needed_and_preflight_names_a_missing_one, .timeout = 60) {
    scoped(rights_free) rights_t line = rights_read(NULL);
    for (size_t i = 0; i < line.count; i++) {
        if (line.words[i][0] != '+' || never_refused(line.words[i] + 1)) continue;
        char *command = refused_name(&f, line.words[i] + 1);
        lay_out(f.r);
        redis_ok(f.r, "SCRIPT FLUSH"); /* loaded scripts need no SCRIPT LOAD */
        rights_grant(f.r, &line, line.words[i]);
        findings_t findings = run_preflight(&f);
        cr_expect(names_command(&findings, command), "preflight does not name the missing %s: %s", command,
                  buffer_text(&findings.text));
        if (!refused(f.r, command)) let_work(command);
        cr_expect(refused(f.r, command), "nothing needs %s", line.words[i]);
        cr_expect(copies_of(f.r, "job1") > 0 && copies_of(f.r, "job2") > 0, "without %s a job is lost", command);
        cr_expect(redis_int(f.r, "ZCARD email:delayed") >= 1);
        redisReply *left = redis_do(f.r, "KEYS *preflight*");
        cr_expect(left->elements == 0 || strcmp(command, "del") == 0, "without %s scratch keys are left", command);
        buffer_free(&findings.text);
    }
}

/* An empty argument in a format of redis_do. */
#define NOTHING "%b"
#define SETTLE_KEYS                                                                                                              \
    "11 sidecar:app:lock sidecar:email:stamps email:errors sidecar:email:failures sidecar:sms:meta sidecar:app:lock email:dead " \
    "sidecar:app:lock sidecar:app:lock email:backup email T ms 9999 " NOTHING " 0 "

/* Each script as the product calls it. After lay_out, each script that can write does write. */
static const struct {
    const script_t *script;
    const char *arguments;
} CALLS[] = {
    {&script_acquire, "4 sidecar:app:lock sidecar:app:queues sidecar:app:standbys sidecar:email:meta T 1000 app me email"},
    {&script_renew, "1 sidecar:app:lock T 60000"},
    {&script_claim, "4 sidecar:app:lock sidecar:email:meta sidecar:gone:lock sidecar:app:queues T app gone email"},
    {&script_promote, "4 sidecar:app:lock email:delayed email sidecar:sms:meta T app 999 9 ms 0 99999 0 99999 2 right"},
    {&script_promote, "4 sidecar:app:lock email:delayed email sidecar:sms:meta T app 999 9 ms 5 1024 0 99999 2 right"},
    {&script_next_due, "1 email:delayed 0"},
    {&script_sizes, "1 email:delayed due"},
    {&script_stream_ends, "2 sidecar:email:failures sidecar:email:meta 1-1 0-0"},
    {&script_acknowledge, "3 sidecar:email:auditors sidecar:email:failures sidecar:email:meta me 5-5"},
    {&script_trim, "4 sidecar:app:lock sidecar:email:failures sidecar:email:auditors sidecar:email:meta T 0 1 1 9 999 9999 999"},
    {&script_stamp, "3 sidecar:app:lock sidecar:email:stamps sidecar:sms:meta T 0123456789abcdef " NOTHING " " NOTHING},
    {&script_push_marker,
     "3 sidecar:app:lock email:backup sidecar:email:sentinel T " NOTHING " 0123456789abcdef0123456789abcdef sentinel"},
    {&script_settle, SETTLE_KEYS "0 0 " NOTHING " 0 1 kind 10,11,0,9,1,r job3 digest " NOTHING " stamp retried"},
    {&script_settle, SETTLE_KEYS "9 0 " NOTHING " 0 1 kind 10,11,0,9,1,e job3 digest " NOTHING " " NOTHING " failed"},
    {&script_requeue, "9 sidecar:email:requeued sidecar:email:failures sidecar:email:meta email sidecar:email:stamps "
                      "sidecar:email:meta sidecar:email:requeued sidecar:email:requeued "
                      "sidecar:email:requeued event requeued me 0 job5 digest 9 - right kind requeued"},
    {&script_reports, "1 email:errors 0 0 10 1000"},
    {&script_list_end, "2 email:backup email:errors -1 0 10 8 1000"},
    {&script_list_page, "1 email:backup 0 10 8 1000 1"},
    {&script_prune, "2 sidecar:app:lock email:errors T value job4 text"},
    {&script_break_stale_lock, "1 sidecar:app:lock T 5000"},
    {&script_release, "1 sidecar:app:lock T sidecar:app:vacant app"},
};

/* Makes call number `nth` as the user `sidecar`, without one right. *before is the digest of the data before the call. */
static redisReply *call(redis_t *user, const rights_t *line, const char *without, size_t nth, char **before) {
    size_t len;
    const char *text = fixture_script(CALLS[nth].script, &len);
    lay_out(f.r);
    if (CALLS[nth].script != &script_acquire) redis_ok(f.r, "SET sidecar:app:lock T PX 60000");
    char *sha = redis_str(f.r, "SCRIPT LOAD %b", text, len), *format = kept_printf("EVALSHA %%s %s", CALLS[nth].arguments);
    *before = fixture_digest(f.r);
    rights_grant(f.r, line, without);
    redisReply *reply = redis_do(user, format, sha, "", (size_t)0, "", (size_t)0, "", (size_t)0, "", (size_t)0, "", (size_t)0);
    return kept(CALLS[nth].script == &script_promote ? promote_answer(reply) : settle_answer(reply));
}

static redis_t *open_user(const rights_t *line) {
    rights_grant(f.r, line, NULL);
    redis_t *user = redis_open(f.server);
    redis_ok(user, "AUTH sidecar secret");
    redis_ok(user, "SELECT 1");
    return user;
}

/* Otherwise the next test would prove nothing. */
Test(redis_acl, with_all_rights_each_call_succeeds) {
    scoped(rights_free) rights_t line = rights_read(NULL);
    scoped(redis_drop) redis_t *user = open_user(&line);
    for (size_t c = 0; c < sizeof CALLS / sizeof *CALLS; c++) {
        const script_t *script = CALLS[c].script;
        bool reads = script == &script_next_due || script == &script_sizes || script == &script_stream_ends ||
                     script == &script_reports || script == &script_list_end || script == &script_list_page ||
                     script == &script_renew; /* a digest has no TTLs */
        char *before;
        redisReply *reply = call(user, &line, NULL, c, &before);
        char *after = fixture_digest(f.r);
        cr_expect_neq(reply->type, REDIS_REPLY_ERROR, "%s: %s", script->name, reply->str);
        cr_expect_eq(strcmp(before, after) == 0, reads, "%zu, %s: it writes %s", c, script->name, reads ? "" : "nothing");
    }
}

Test(redis_acl, no_missing_command_costs_a_job) {
    static const char everywhere[] = "local n = 0 for _, key in ipairs(KEYS) do "
                                     "n = n + #redis.call('LPOS', key, 'job3', 'COUNT', 0) end return n";
    scoped(rights_free) rights_t line = rights_read(NULL);
    scoped(redis_drop) redis_t *user = open_user(&line);
    for (size_t i = 0; i < line.count; i++) {
        if (line.words[i][0] != '+') continue;
        for (size_t c = 0; c < sizeof CALLS / sizeof *CALLS; c++) {
            char *before;
            redisReply *reply = call(user, &line, line.words[i], c, &before);
            long long one = copies_of(f.r, "job1"), two = copies_of(f.r, "job2");
            cr_assert(one == two && (one == 1 || one == 2), "%s without %s: %lld and %lld copies", CALLS[c].script->name,
                      line.words[i], one, two);
            cr_assert(one == 1 || reply->type == REDIS_REPLY_ERROR, "jobs were doubled without an error, without %s",
                      line.words[i]);
            char *after = fixture_digest(f.r);
            bool writes_first = CALLS[c].script == &script_settle || CALLS[c].script == &script_push_marker ||
                                CALLS[c].script == &script_acquire || CALLS[c].script == &script_claim || one == 2 ||
                                (CALLS[c].script == &script_trim && strcmp(line.words[i], "+hdel") == 0);
            if (CALLS[c].script == &script_push_marker && redis_int(f.r, "LLEN email:backup") > 1)
                cr_assert_eq(redis_int(f.r, "HLEN sidecar:email:sentinel"), 2, "without %s a sentinel looks like a job",
                             line.words[i]);
            if (CALLS[c].script == &script_settle) /* settle.lua writes the record, then the copy, and removes the job last */
                cr_assert(in_progress(f.r, "job3") ||
                              (strstr(CALLS[c].arguments, " failed") && redis_int(f.r, "XLEN sidecar:email:failures")),
                          "without %s a job in progress is lost", line.words[i]);
            if (CALLS[c].script == &script_settle)
                cr_assert_leq(redis_int(f.r, "EVAL %s 2 email email:backup", everywhere), 1, "without %s a job is in two places",
                              line.words[i]);
            if (CALLS[c].script == &script_release && strcmp(line.words[i], "+publish") == 0)
                cr_assert_eq(redis_int(f.r, "EXISTS sidecar:app:lock"), 0, "without PUBLISH the lock is released, too");
            if (reply->type == REDIS_REPLY_ERROR && !writes_first)
                cr_assert_str_eq(before, after, "%s without %s: changed the data before the error", CALLS[c].script->name,
                                 line.words[i]);
        }
    }
}

Test(redis_acl, keys_without_rights_are_named_and_lose_nothing) {
    static const struct {
        const char *word, *key;
    } rows[] = {{"~email", "email"}, {"~email:*", "email:delayed"}, {"~sidecar:*", "sidecar:app:lock"}};
    scoped(rights_free) rights_t line = rights_read(NULL);
    size_t tried = 0;
    for (size_t i = 0; i < line.count; i++) {
        for (size_t k = 0; k < 3; k++) {
            if (strcmp(line.words[i], rows[k].word) != 0) continue;
            tried++;
            lay_out(f.r);
            redis_ok(f.r, "SET sidecar:app:lock T");
            rights_grant(f.r, &line, line.words[i]);
            findings_t findings = run_preflight(&f);
            char *quoted = kept_printf("\"%s\"", rows[k].key);
            cr_assert_not_null(strstr(buffer_text(&findings.text), quoted), "%s", buffer_text(&findings.text));
            instance_t instance;
            instance_start(&instance, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER);
            driver_run(&instance.driver, 300);
            instance_stop(&instance);
            cr_assert(copies_of(f.r, "job1") == 1 && copies_of(f.r, "job2") == 1);
            buffer_free(&findings.text);
        }
    }
    cr_assert_eq(tried, 3, "docs/acl.md has other words for these keys");
}
