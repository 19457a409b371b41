#include "queue/quarantine.h"

#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/tracking.h"

enum { MEMBER_PARTS = 4 }; // of a reply: member, since, score, envelope

static void quarantine_read_job(const redisReply *const *parts, quarantined_t *out) {
    *out = (quarantined_t){.member = {reply_text(parts[0]), reply_len(parts[0])},
                           .since = reply_number(parts[1]),
                           .score = reply_text(parts[2]),
                           .has_envelope = reply_is_text(parts[3]),
                           .envelope = {reply_text(parts[3]), reply_len(parts[3])},
                           .too_large = reply_int(parts[3])};
}

static outcome_t quarantine_read_page(const call_t *call, quarantine_page_t *page) {
    redis_error_t *error = call->error;
    redisReply *reply;
    conn_expect_job(call->conn);
    if (conn_read(call->conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    page->reply = reply;
    page->now = reply_number(reply_at(reply, 0));
    if (script_refusal(reply, error) == OUTCOME_OK &&
        (page->now <= 0 || reply->elements % MEMBER_PARTS != 1 || reply->elements > 1 + QUARANTINE_PAGE_JOBS * MEMBER_PARTS))
        redis_error_set(error, OUTCOME_REFUSED, "quarantine_read: unexpected reply");
    if (error->outcome != OUTCOME_OK) {
        quarantine_page_free(page);
        return error->outcome;
    }
    for (size_t i = 1; i < reply->elements; i += MEMBER_PARTS)
        quarantine_read_job((const redisReply *const *)&reply->element[i], &page->jobs[page->count++]);
    return OUTCOME_OK;
}

outcome_t quarantine_read(const call_t *call, const char *events, size_t skip, bool arm, quarantine_page_t *page) {
    const queue_keys_t *at = call_queue(call);
    *page = (quarantine_page_t){0};
    *call->error = (redis_error_t){0};
    // Arm with a read of the quarantine zset alone. A script would register all its keys, and `delayed` changes all the time.
    if (arm) request_caching(call->conn);
    if (arm) request_append(call->conn, "EXISTS", at->quarantine);
    request_script(call->conn, &script_quarantine_read, 3);
    request_text(call->conn, at->quarantine, at->config->delayed, events ? events : at->config->delayed);
    request_int(call->conn, (int64_t)skip, QUARANTINE_PAGE_JOBS, QUARANTINE_PAGE_BYTES, at->config->policy.max_payload);
    request_end(call->conn);
    for (int i = 0; arm && i < 2; i++) freeReplyObject(conn_read_next(call->conn, NULL, call->error));
    if (call->error->outcome == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
    page->armed = arm && call->error->outcome == OUTCOME_OK;
    return quarantine_read_page(call, page);
}

void quarantine_page_free(quarantine_page_t *page) {
    conn_reply_free(page->reply);
    *page = (quarantine_page_t){0};
}

void quarantine_settle_append(const call_t *call, const quarantine_decision_t *ask) {
    static const char *const words[] = {[QUARANTINE_RELEASE] = "forget", [QUARANTINE_PUSH] = "push", [QUARANTINE_END] = "end"};
    const queue_keys_t *at = call_queue(call);
    const char *delayed = at->config->delayed;
    conn_t *conn = call->conn;
    call_script(call, &script_quarantine_settle, 8);
    request_text(conn, at->quarantine, delayed, ask->events ? ask->events : delayed, ask->ready ? ask->ready : delayed,
                 ask->verdict == QUARANTINE_END && ask->hash ? ask->hash : delayed, at->failures, at->meta, call->token);
    request_bytes(conn, ask->job->member.data, ask->job->member.len);
    request_text(conn, ask->job->score);
    request_bytes(conn, ask->job->envelope.data, ask->job->envelope.len);
    request_text(conn, words[ask->verdict]);
    request_bytes(conn, ask->next.data, ask->next.len);
    request_int(conn, ask->delay_ms);
    request_text(conn, ask->last ? ".5" : ".25");
    request_int(conn, call->keys->config->stream.max_bytes);
    request_bytes(conn, ask->pushed.data, ask->pushed.len);
    if (ask->verdict == QUARANTINE_END) record_append(conn, ask->event);
    request_end(conn);
}
