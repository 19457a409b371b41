/* The reply of settle.lua, which has an answer for each job. */
#pragma once

#include "client.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static inline bool is_settle_reply(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "settled") == 0;
}

/* Frees the reply to a call with one job, and returns the answer for this job; owned. The script may also have refused the call
 * as a whole: then this returns the reply. */
static inline redisReply *settle_answer(redisReply *reply) {
    if (!is_settle_reply(reply)) return reply;
    cr_assert_eq(reply->elements, 3, "the call had one job");
    redisReply *answer = reply->element[2];
    reply->element[2] = NULL;
    freeReplyObject(reply);
    return answer;
}
