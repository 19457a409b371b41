/* Calls the scripts of dialect bull by EVAL, with any arguments; and loads Bull's own scripts from npm, to compare with. The
 * queue is `video`, the prefix is `bull`, and the lock's token is "T". */
#pragma once

#include "monitor/monitor_call.h"
#include "tempdir.h"

#include <glob.h>

#define BULL      "bull:video:"
#define BULL_LOCK "sidecar:app:lock"
/* Follows the type in the refusal of a key that only BullMQ has. */
#define OF_BULLMQ ": the queue belongs to BullMQ, and dialect bull serves Bull 4 (see dialect bullmq)"

/* Begins a call with these keys; the last one is NULL. */
static inline eval_t bull_begin(const script_t *script, const char *const *keys) {
    static char number[24]; /* of keys; the call borrows it */
    size_t count = 0;
    while (keys[count]) count++;
    snprintf(number, sizeof number, "%zu", count);
    eval_t call = call_begin(script, number);
    for (size_t i = 0; i < count; i++) call_text(&call, keys[i]);
    return call;
}

static inline const char *bull_word(const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements && reply->element[0]->str) return reply->element[0]->str;
    return reply->str ? reply->str : "";
}

static inline void bull_expect(redisReply *reply, const char *word, const char *a, const char *b) {
    cr_assert_str_eq(bull_word(reply), word);
    if (a) cr_assert_str_eq(reply->element[1]->str, a);
    if (b) cr_assert_str_eq(reply->element[2]->str, b);
    freeReplyObject(reply);
}

/* All keys that begin with `bull:`, with their content, as text. Kept. */
static inline char *bull_dump(redis_t *r) {
    return redis_str(r, "EVAL %s 0",
                     "local out, keys = {}, redis.call('KEYS', 'bull:*') table.sort(keys) "
                     "local function quoted(t) for i, v in ipairs(t) do t[i] = string.format('%q', v) end return t end "
                     "for _, k in ipairs(keys) do local t, v = redis.call('TYPE', k).ok "
                     "if t == 'string' then v = {redis.call('GET', k)} end "
                     "if t == 'list' then v = redis.call('LRANGE', k, 0, -1) end "
                     "if t == 'zset' then v = redis.call('ZRANGE', k, 0, -1, 'WITHSCORES') end "
                     "if t == 'set' then v = redis.call('SMEMBERS', k) table.sort(v) end "
                     "if t == 'stream' then v = {} for _, e in ipairs(redis.call('XRANGE', k, '-', '+')) do "
                     "v[#v + 1] = table.concat(e[2], ' ') end end "
                     "if t == 'hash' then local h = redis.call('HGETALL', k) v = {} "
                     "for i = 1, #h, 2 do v[#v + 1] = h[i] .. '=' .. h[i + 1] end table.sort(v) end "
                     "out[#out + 1] = k .. ' ' .. t .. ' ' .. table.concat(quoted(v), ' ') end "
                     "return table.concat(out, '\\n')");
}

/* Bull's own script of this version, with its includes inserted as Bull does. Kept. If npm's package is not installed, skips the
 * test, or fails it with QS_CLIENTS_REQUIRED=1, as in CI. */
static inline char *bull_own_script(const char *version, const char *name) {
    const char *clients = getenv("QS_CLIENTS_DIR");
    char pattern[512], include[600], line[512];
    snprintf(pattern, sizeof pattern, "%s/bull/%s/node_modules/bull/lib/commands/%s-*.lua", clients ? clients : "build/clients",
             version, name);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) {
        const char *required = getenv("QS_CLIENTS_REQUIRED");
        cr_assert(!required || strcmp(required, "1") != 0, "no %s", pattern);
        cr_skip_test("no %s (tests/clients/install.sh fetches it)", pattern);
    }
    FILE *in = fopen(found.gl_pathv[0], "r");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(in && out);
    while (fgets(line, sizeof line, in)) {
        const char *what = strstr(line, "@include \"");
        if (!what) {
            fputs(line, out);
            continue;
        }
        what += strlen("@include \"");
        snprintf(include, sizeof include, "%.*s/%.*s.lua", (int)(strrchr(found.gl_pathv[0], '/') - found.gl_pathv[0]),
                 found.gl_pathv[0], (int)strcspn(what, "\""), what);
        char *part = temp_read(include);
        cr_assert_neq(*part, '\0', "no %s", include);
        fprintf(out, "%s\n", part);
    }
    fclose(in);
    fclose(out);
    globfree(&found);
    return kept(text);
}

/* Makes the hash of a job as Bull writes it. */
static inline void bull_job(redis_t *r, const char *id, const char *priority) {
    redis_ok(r, "HSET " BULL "%s name n data {} opts {} timestamp 1700000000000 delay 5000 priority %s", id, priority);
}
