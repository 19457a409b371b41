#include "dialects/kmqueue/kmqueue.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "queue/scripts.h"
#include "redis/reply.h"

bool kmqueue_dry_run(const dry_run_t *run) {
    // The commands that settle, requeue and unique_ids.c use on a set of unique ids, one by one, so that a refusal names its
    // command.
    static const struct {
        const char *command, *argument;
        const script_t *script;
    } steps[] = {
        {"SADD", "scratch", &script_requeue}, {"PEXPIRE", "60000", &script_requeue}, {"SISMEMBER", "scratch", &script_requeue},
        {"SCARD", NULL, &script_requeue},     {"SREM", "scratch", &script_settle},
    };
    char *key = mem_printf("%sunique", run->prefix);
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < sizeof steps / sizeof *steps; i++) {
        redisReply *reply;
        request_begin(run->conn, steps[i].command, key);
        if (steps[i].argument) request_text(run->conn, steps[i].argument);
        outcome_t outcome = request_ask(run->conn, &reply, run->error);
        conn_reply_free(reply);
        // A full Redis refuses the first command. A leader of a full Redis needs none of these commands at once.
        if (i > 0 || outcome != OUTCOME_RETRY) goes_on = run->passed(run, steps[i].script, outcome);
    }
    free(key);
    return goes_on;
}
