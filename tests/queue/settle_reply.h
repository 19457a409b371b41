/* The replies of settle.lua, which has an answer for each job, and of promote.lua, which has one for each queue. */
#pragma once

#include "client.h"
#include "suite.h"

static inline bool is_settle_reply(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "settled") == 0;
}

/* Frees the reply to a call with one job, and returns the answer for this job; owned. The script may also have refused the call
 * as a whole: then this returns the reply. */
static inline redisReply *settle_answer(redisReply *reply) {
    if (!is_settle_reply(reply)) return reply;
    cr_assert_eq(reply->elements, 4, "the call had one job");
    redisReply *answer = reply->element[3];
    reply->element[3] = NULL;
    freeReplyObject(reply);
    return answer;
}

/* The same for a call of promote.lua with one queue. */
static inline redisReply *promote_answer(redisReply *reply) {
    bool each = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->type != REDIS_REPLY_STRING;
    if (!each) return reply;
    cr_assert_eq(reply->elements, 1, "the call had one queue");
    redisReply *answer = reply->element[0];
    reply->element[0] = NULL;
    freeReplyObject(reply);
    return answer;
}
