#include "dialects/erase.h"

#include "dialects/dialect.h"
#include "queue/record.h"
#include "queue/scripts.h"
#include "redis/reply.h"

// One request takes Redis some hundred microseconds.
enum { TEXTS_BYTES = 64 * 1024, TEXTS_ENTRIES = 64, ENTRY_TEXTS = 4 };

static digest_t erase_digest_of_job(slice_t queue, slice_t job) { return digest_of_parts((const slice_t[]){queue, job}, 2); }

static void texts_add(stream_texts_t *texts, const redisReply *reply, size_t at) {
    slice_t queue = reply_slice(reply_at(reply, at + 2)), job = reply_slice(reply_at(reply, at + 3));
    stream_text_t text;
    if (!digest_parse(reply_slice(reply_at(reply, at + 1)), &text.event)) return; // no auditor takes this entry
    text.of = queue.len || job.len ? erase_digest_of_job(queue, job) : text.event;
    snprintf(text.id, sizeof text.id, "%s", reply_text(reply_at(reply, at)));
    texts->all = mem_grown(texts->all, texts->count, sizeof *texts->all);
    texts->all[texts->count++] = text;
}

static int texts_compare(const void *a, const void *b) {
    return memcmp(&((const stream_text_t *)a)->of, &((const stream_text_t *)b)->of, sizeof(digest_t));
}

outcome_t stream_texts_find(const call_t *call, stream_texts_t *out) {
    stream_id_t last = "";
    bool more = true;
    while (more) {
        char from[STREAM_ID_SIZE + 1];
        redisReply *reply;
        snprintf(from, sizeof from, *last ? "(%s" : "-", last);
        request_script(call->conn, &script_stream_texts, 1);
        request_text(call->conn, call_queue(call)->failures, from);
        request_int(call->conn, TEXTS_BYTES, TEXTS_ENTRIES);
        if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
        for (size_t i = 1; i + ENTRY_TEXTS <= reply->elements; i += ENTRY_TEXTS) texts_add(out, reply, i);
        snprintf(last, sizeof last, "%s", reply_text(reply_at(reply, 0)));
        more = *last != '\0';
        freeReplyObject(reply);
    }
    if (out->count) qsort(out->all, out->count, sizeof *out->all, texts_compare);
    return OUTCOME_OK;
}

void stream_texts_free(stream_texts_t *texts) {
    free(texts->all);
    *texts = (stream_texts_t){0};
}

// Returns the number of texts of `of`; *first is the first one.
static size_t texts_of(const stream_texts_t *texts, const digest_t *of, const stream_text_t **first) {
    size_t low = 0, high = texts->count, count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(&texts->all[middle].of, of, sizeof *of) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *first = texts->all + low;
    while (low + count < texts->count && memcmp(&texts->all[low + count].of, of, sizeof *of) == 0) count++;
    return count;
}

static void erase_append_texts(conn_t *conn, const stream_text_t *texts, size_t count) {
    char event[EVENT_ID_SIZE];
    for (size_t i = 0; i < count; i++) {
        digest_hex(&texts[i].event, event);
        request_text(conn, texts[i].id, event);
    }
}

void erase_append(conn_t *conn, const keyspace_t *keys, const erase_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const stream_text_t *failure = NULL, *retries = NULL;
    digest_t event, job = erase_digest_of_job(ask->record->queue, ask->record->job);
    digest_parse(ask->record->answers, &event);
    size_t failures = texts_of(ask->texts, &event, &failure);
    size_t retried = ask->record->job.len ? texts_of(ask->texts, &job, &retries) : 0;
    request_script(conn, &script_erase, 3);
    request_text(conn, ask->marker, home->failures, home->meta);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_int(conn, (int64_t)(failures + retried));
    erase_append_texts(conn, failure, failures);
    erase_append_texts(conn, retries, retried);
    record_append(conn, ask->record);
    request_end(conn);
}
