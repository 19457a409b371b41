#include "queue/quarantine.h"

#include "base/failpoint.h"
#include "queue/record.h"
#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/tracking.h"

enum {
    MEMBER_PARTS = 4, // of a reply: member, since, score, envelope
    SETTLE_KEYS = 6,  // keys of a settle, without the lists and hashes that its members name
    FIRST_JOBS = 16,  // members of the first settle, while the time of Redis for one is unknown
};

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

// The lists and hashes that the members of a request name by number. Borrowed. Equal pointers are equal keys.
typedef struct quarantine_keys {
    const char *keys[2 * QUARANTINE_PAGE_JOBS];
    size_t count;
} quarantine_keys_t;

static int64_t quarantine_key_number(quarantine_keys_t *keys, const char *key) {
    size_t i = 0;
    if (!key) return 0;
    while (i < keys->count && keys->keys[i] != key) i++;
    if (i == keys->count) keys->keys[keys->count++] = key;
    return SETTLE_KEYS + 1 + (int64_t)i;
}

static const char *quarantine_hash(const quarantine_decision_t *ask) { return ask->verdict == QUARANTINE_END ? ask->hash : NULL; }

// A member that is not ended has no record.
static const event_t *quarantine_event(const quarantine_decision_t *ask) {
    static const event_t none;
    return ask->verdict == QUARANTINE_END ? ask->event : &none;
}

static void quarantine_append_member(conn_t *conn, const quarantine_decision_t *ask, quarantine_keys_t *keys) {
    static const char *const words[] = {[QUARANTINE_RELEASE] = "forget", [QUARANTINE_PUSH] = "push", [QUARANTINE_END] = "end"};
    request_bytes(conn, ask->job->member.data, ask->job->member.len);
    request_text(conn, ask->job->score, words[ask->verdict]);
    request_bytes(conn, ask->job->envelope.data, ask->job->envelope.len);
    request_int(conn, quarantine_key_number(keys, ask->ready), quarantine_key_number(keys, quarantine_hash(ask)));
    request_bytes(conn, ask->next.data, ask->next.len);
    request_int(conn, ask->delay_ms);
    request_text(conn, ask->last ? ".5" : ".25");
    request_bytes(conn, ask->pushed.data, ask->pushed.len);
}

static void quarantine_append(const call_t *call, const quarantine_decision_t *const *asks, size_t count) {
    const queue_keys_t *at = call_queue(call);
    const char *delayed = at->config->delayed;
    quarantine_keys_t keys = {.count = 0};
    const event_t *first = NULL;
    record_form_t form = {0};
    for (size_t i = 0; i < count; i++) {
        quarantine_key_number(&keys, asks[i]->ready);
        quarantine_key_number(&keys, quarantine_hash(asks[i]));
        if (asks[i]->verdict != QUARANTINE_END) continue;
        if (!first) first = asks[i]->event;
        record_form_add(&form, first, asks[i]->event);
    }
    call_script(call, &script_quarantine_settle, SETTLE_KEYS + (int)keys.count);
    request_text(call->conn, at->quarantine, delayed, asks[0]->events ? asks[0]->events : delayed, at->failures, at->meta);
    request_text_list(call->conn, keys.keys, keys.count);
    request_text(call->conn, call->token);
    request_int(call->conn, call->keys->config->stream.max_bytes);
    request_text(call->conn, at->config->policy.on_failure);
    record_append_form(call->conn, &form, first);
    for (size_t i = 0; i < count; i++) {
        quarantine_append_member(call->conn, asks[i], &keys);
        record_append_values(call->conn, &form, quarantine_event(asks[i]));
    }
    request_end(call->conn);
}

size_t quarantine_settle(const call_t *call, const quarantine_decision_t *const *asks, size_t count, pace_t *pace,
                         settled_t *out) {
    size_t done = 0;
    while (done < count) {
        int64_t slice_us = call_settle_us(call);
        settle_reply_t answers;
        size_t jobs = (size_t)pace_jobs_least(pace, slice_us, FIRST_JOBS, (int64_t)(count - done));
        quarantine_append(call, &asks[done], jobs);
        failpoint("quarantine_before");
        conn_flush(call->conn, call->error);
        failpoint("quarantine_sent");
        if (!settle_read_answers(call, jobs, &out[done], &answers)) break;
        for (size_t i = 0; i < jobs; i++) failpoint("quarantine_answered");
        pace_note_whole(pace, (int64_t)jobs, answers.took_us);
        done += jobs;
    }
    return done;
}
