#include <stdio.h>

#include "dialects/requeue.h"
#include "redis/reply.h"

bool requeue_read_mark(const char *mark, requeue_reply_t *out) {
    long long at;
    int used = 0;
    if (sscanf(mark, "%15s %lld %n", out->state, &at, &used) < 2 || !used) return false;
    out->at_ms = at;
    snprintf(out->by, sizeof out->by, "%s", mark + used);
    return true;
}

outcome_t requeue_read(conn_t *conn, requeue_reply_t *out, redis_error_t *error) {
    redisReply *reply;
    *out = (requeue_reply_t){.kind = REQUEUE_DONE};
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    const redisReply *word = reply_at(reply, 0);
    const char *detail = reply_text(reply_at(reply, 1));
    snprintf(out->why, sizeof out->why, "%s", detail);
    if (reply_is(word, "known")) {
        out->kind = REQUEUE_KNOWN;
        requeue_read_mark(detail, out);
    } else if (reply_is(word, "unrecorded")) {
        out->kind = REQUEUE_UNRECORDED;
    } else if (reply_is(word, "waiting")) {
        out->kind = REQUEUE_WAITING;
    } else if (reply_is(word, "failed")) {
        out->kind = REQUEUE_FAILED;
    } else if (reply_is(word, "type")) {
        redis_error_set(error, OUTCOME_REFUSED, "its key `%s` holds a %s", detail, reply_text(reply_at(reply, 2)));
    } else if (!reply_is(word, "done")) {
        redis_error_set(error, OUTCOME_REFUSED, "requeue: unexpected reply");
    }
    freeReplyObject(reply);
    return error->outcome;
}
