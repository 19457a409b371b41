// Reads the replies of promote scripts, which are alike in all dialects.
#include <math.h>

#include "dialects/dialect.h"
#include "redis/reply.h"

static void promote_read_moved(const redisReply *reply, promote_reply_t *out) {
    const char *oldest = reply_text(reply_at(reply, 3));
    out->moved = reply_int(reply_at(reply, 1));
    out->now_us = reply_number(reply_at(reply, 2));
    out->has_oldest = *oldest != '\0';
    out->oldest = strtod(oldest, NULL);
    out->bytes = reply_int(reply_at(reply, 4));
    out->large = reply_int(reply_at(reply, 5));
    out->took_us = reply_int(reply_at(reply, 9));
    out->fixed_us = reply_int(reply_at(reply, 10));
    out->large_score = strtod(reply_text(reply_at(reply, 6)), NULL);
    out->large_bytes = reply_int(reply_at(reply, 7));
    snprintf(out->large_sha1, sizeof out->large_sha1, "%s", reply_text(reply_at(reply, 8)));
    out->foreign = reply_int(reply_at(reply, 13));
    snprintf(out->stranger, sizeof out->stranger, "%s", reply_text(reply_at(reply, 14)));
    out->early = reply_int(reply_at(reply, 11));
    out->early_score = strtod(reply_text(reply_at(reply, 12)), NULL);
}

// The reply for one queue.
static void promote_read_queue(const redisReply *reply, promote_reply_t *out, redis_error_t *error) {
    const redisReply *kind = reply_at(reply, 0);
    *out = (promote_reply_t){.more = reply_is(kind, "more"), .later = reply_is(kind, "later")};
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        redis_error_from_reply(error, reply->str, reply->len);
    } else if (out->more || reply_is(kind, "moved")) {
        promote_read_moved(reply, out);
    } else if (reply_is(kind, "full")) {
        out->full = true;
        out->now_us = reply_number(reply_at(reply, 1));
    } else if (reply_is(kind, "owner")) {
        redis_error_set(error, OUTCOME_REFUSED, "group %s owns this queue", reply_text(reply_at(reply, 1)));
    } else if (!out->later && script_refusal(reply, error) == OUTCOME_OK) {
        redis_error_set(error, OUTCOME_REFUSED, "promote: unexpected reply");
    }
}

outcome_t promote_read_replies(conn_t *conn, promote_reply_t *replies, size_t count, redis_error_t *error) {
    redisReply *reply;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    const redisReply *first = reply_at(reply, 0);
    if (first && (first->type == REDIS_REPLY_ARRAY || first->type == REDIS_REPLY_ERROR)) {
        for (size_t i = 0; i < count; i++) {
            redis_error_t own = {0};
            promote_read_queue(reply_at(reply, i), &replies[i], &own);
            replies[i].error = own;
        }
    } else {
        promote_read_queue(reply, replies, error);
    }
    freeReplyObject(reply);
    return error->outcome;
}

int64_t promote_due_us(const queue_config_t *queue, double score) {
    double us = ceil(score * (queue->policy.score_unit == SCORE_S ? 1e6 : 1e3));
    if (us >= 9e18) return INT64_MAX;
    if (us <= -9e18) return INT64_MIN;
    return (int64_t)us;
}
