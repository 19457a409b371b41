#include "queue/elsewhere.h"

#include "queue/scripts.h"
#include "redis/reply.h"

outcome_t elsewhere_find(conn_t *conn, const keyspace_t *keys, const char *const *names, size_t count, elsewhere_t *out,
                         redis_error_t *error) {
    redisReply *reply;
    *out = (elsewhere_t){.database = -1};
    request_script(conn, &script_elsewhere, (int)count);
    request_text_list(conn, names, count);
    request_int(conn, keys->config->redis.db);
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return error->outcome;
    int64_t index = reply_int(reply_at(reply, 2));
    out->others = reply_int(reply_at(reply, 0));
    out->database = reply_int(reply_at(reply, 1));
    out->key = index > 0 && (size_t)index <= count ? names[index - 1] : NULL;
    if (!reply_at(reply, 2)) redis_error_set(error, OUTCOME_REFUSED, "elsewhere: unexpected reply");
    freeReplyObject(reply);
    return error->outcome;
}
