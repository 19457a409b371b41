#include "queue/jobs/jobs.h"

#include <math.h>

#include "queue/record.h"
#include "queue/scripts.h"
#include "queue/stamps.h"
#include "redis/reply.h"

enum {
    PAGE_HEAD = 9,
    ENTRY_HEAD = 3,
    SCORE_SIZE = 40,
    SLICE_SHARE = 3, // of redis.slice the script may read for a third: then it ends its step, and Redis writes the reply
};

static const char *jobs_score(char text[SCORE_SIZE], double score) {
    snprintf(text, SCORE_SIZE, "%.17g", score);
    return text;
}

void jobs_page_append(const call_t *call, const jobs_range_t *range, const jobs_place_t *place) {
    conn_t *conn = call->conn;
    char score[SCORE_SIZE];
    const char *kind = range->zset ? "zset" : range->from_head ? "head" : "list";
    request_script(conn, &script_jobs_page, 2);
    request_text(conn, range->key, range->hash ? range->hash : range->key, kind);
    request_bytes(conn, range->prefix.data, range->prefix.len);
    request_int(conn, range->count, range->examine, range->most, call->keys->config->redis.slice_us / SLICE_SHARE, range->whole,
                range->head, range->longest);
    request_text(conn, jobs_score(score, range->least));
    request_text(conn, range->below < (double)INFINITY ? jobs_score(score, range->below) : "");
    request_int(conn, place->place);
    request_text(conn, jobs_score(score, place->score));
    request_int(conn, place->size);
    request_text(conn, place->id);
    request_bytes(conn, buffer_text(&place->bytes), place->bytes.len);
    request_int(conn, (int64_t)range->text_count);
    for (size_t i = 0; i < range->text_count; i++) request_text(conn, range->texts[i]);
    for (size_t i = 0; i < range->field_count; i++) request_text(conn, range->fields[i]);
    request_end(conn);
}

static double reply_score(const redisReply *reply) { return strtod(reply_text(reply), NULL); }

outcome_t jobs_page_read(const call_t *call, const jobs_range_t *range, jobs_place_t *place, jobs_page_t *page) {
    *page = (jobs_page_t){.values = 1 + (size_t)(range->hash != NULL) + range->field_count};
    conn_expect_job(call->conn);
    if (conn_read(call->conn, 0, &page->reply, call->error) != OUTCOME_OK) return call->error->outcome;
    const redisReply *reply = page->reply;
    size_t each = ENTRY_HEAD + page->values;
    if (script_refusal(reply, call->error) != OUTCOME_OK) return call->error->outcome;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < PAGE_HEAD || (reply->elements - PAGE_HEAD) % each)
        return redis_error_set(call->error, OUTCOME_REFUSED, "jobs_page: unexpected reply");
    page->count = (reply->elements - PAGE_HEAD) / each;
    page->now_ms = reply_number(reply_at(reply, 0)) / 1000;
    page->ended = reply_int(reply_at(reply, 1)) == 1;
    page->missing = reply_int(reply_at(reply, 2)) == 1;
    page->examined = reply_int(reply_at(reply, 3));
    if (!page->examined) return OUTCOME_OK;
    place->place = reply_int(reply_at(reply, 4));
    place->score = reply_score(reply_at(reply, 5));
    place->size = reply_int(reply_at(reply, 6));
    snprintf(place->id, sizeof place->id, "%s", reply_text(reply_at(reply, 7)));
    buffer_clear(&place->bytes);
    buffer_add(&place->bytes, reply_text(reply_at(reply, 8)), reply_len(reply_at(reply, 8)));
    return OUTCOME_OK;
}

void jobs_page_entry(const jobs_page_t *page, size_t index, jobs_entry_t *out) {
    size_t at = PAGE_HEAD + index * (ENTRY_HEAD + page->values);
    *out = (jobs_entry_t){.score = reply_score(reply_at(page->reply, at)),
                          .size = reply_int(reply_at(page->reply, at + 1)),
                          .cut = reply_int(reply_at(page->reply, at + 2)) == 1};
    for (size_t i = 0; i < page->values; i++) out->values[i] = reply_slice(reply_at(page->reply, at + ENTRY_HEAD + i));
}

void jobs_page_free(jobs_page_t *page) {
    conn_reply_free(page->reply);
    *page = (jobs_page_t){0};
}

void jobs_run_append(const call_t *call, slice_t job, double score) {
    const queue_config_t *queue = call_queue(call)->config;
    char text[SCORE_SIZE];
    request_script(call->conn, &script_jobs_run, 1);
    request_text(call->conn, queue->delayed, queue->policy.score_unit == SCORE_S ? "s" : "ms");
    request_bytes(call->conn, job.data, job.len);
    request_text(call->conn, jobs_score(text, score));
    request_end(call->conn);
}

void jobs_cancel_append(const call_t *call, const jobs_cancel_t *ask) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    char score[SCORE_SIZE];
    request_script(conn, &script_jobs_cancel, 4);
    request_text(conn, at->config->delayed, at->failures, at->meta, at->stamps);
    request_bytes(conn, ask->job.data, ask->job.len);
    request_text(conn, jobs_score(score, ask->score));
    request_bytes(conn, ask->digest->bytes, STAMP_FIELD_BYTES);
    request_bytes(conn, ask->stamp.data, ask->stamp.len);
    request_text(conn, ask->ends_stamp ? "1" : "0");
    request_int(conn, call->keys->config->stream.max_bytes);
    request_text(conn, at->config->policy.on_failure);
    request_bytes(conn, ask->record->error.data, ask->record->error.len);
    record_append(conn, ask->record);
    request_end(conn);
}

outcome_t jobs_change_read(const call_t *call, jobs_change_t *out) {
    static const char *const words[] = {
        [JOBS_DONE] = "done", [JOBS_DUE] = "due", [JOBS_GONE] = "gone", [JOBS_CHANGED] = "changed", [JOBS_FULL] = "full"};
    redisReply *reply;
    if (conn_read(call->conn, 0, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    const redisReply *word = reply_at(reply, 0);
    *out = JOBS_FULL;
    while (*out > JOBS_DONE && !reply_is(word, words[*out])) (*out)--;
    if (script_refusal(reply, call->error) == OUTCOME_OK && !reply_is(word, words[*out]))
        redis_error_set(call->error, OUTCOME_REFUSED, "jobs: unexpected reply");
    conn_reply_free(reply);
    return call->error->outcome;
}
