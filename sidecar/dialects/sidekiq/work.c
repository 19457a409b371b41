// The processes of Sidekiq, and the jobs that each of them notes as its work.
#include "base/json/json.h"
#include "dialects/sidekiq/internal.h"
#include "dialects/sidekiq/scripts.h"
#include "redis/reply.h"

enum {
    LIST_COUNT = 500,     // names of one read
    PROCESSES_MAX = 4096, // each name is compared with all others
    HEAD = 8,             // elements of a reply before its entries
};

void sidekiq_processes_append(conn_t *conn, const queue_config_t *queue, const char *cursor) {
    request_begin(conn, "SSCAN", sidekiq_config(queue)->processes, *cursor ? cursor : "0", "COUNT");
    request_int(conn, LIST_COUNT);
}

char *sidekiq_process_key(const queue_config_t *queue, slice_t name, const void *known, size_t count, size_t size) {
    if (count == PROCESSES_MAX) return NULL;
    if (!name.len || memchr(name.data, '\0', name.len) || !strncmp(name.data, "sidecar:", 8)) return NULL;
    char *key = mem_printf("%s%.*s", queue->prefix, (int)name.len, name.data);
    for (size_t i = 0; key && i < count; i++) {
        if (strcmp(*(char *const *)(const void *)((const char *)known + i * size), key) != 0) continue;
        free(key);
        key = NULL;
    }
    return key;
}

void sidekiq_work_append(conn_t *conn, const queue_config_t *queue, const sidekiq_page_t *page) {
    char *work = mem_printf("%s:work", page->process), *workers = mem_printf("%s:workers", page->process);
    request_script(conn, &script_sidekiq_work, 3);
    request_text(conn, page->process, work, workers);
    if (page->left_ms == SIDEKIQ_LIVING)
        request_text(conn, "");
    else
        request_int(conn, page->left_ms);
    request_int(conn, queue->policy.max_payload, page->bytes, page->jobs);
    request_text(conn, *page->cursor ? page->cursor : "0");
    free(work);
    free(workers);
    conn_expect_job(conn);
}

size_t sidekiq_work_count(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > HEAD ? (reply->elements - HEAD) / 2 : 0;
}

slice_t sidekiq_work_field(const redisReply *reply, size_t index) { return reply_slice(reply_at(reply, HEAD + 2 * index)); }
slice_t sidekiq_work_value(const redisReply *reply, size_t index) { return reply_slice(reply_at(reply, HEAD + 2 * index + 1)); }

// A value: {"queue":"default","payload":"{...}","run_at":1700000000}.
bool sidekiq_work_read(const sidekiq_config_t *own, slice_t value, sidekiq_work_t *out) {
    json_pick_t picks[] = {{.pointer = "/queue"}, {.pointer = "/payload"}, {.pointer = "/run_at"}};
    sidekiq_job_t named = {0};
    job_t job;
    if (!json_pick(value, picks, 3) || picks[0].found != JSON_FOUND || picks[1].found != JSON_FOUND) return false;
    if (picks[0].value.type != JSON_STRING || picks[1].value.type != JSON_STRING) return false;
    named.queue = picks[0].value.raw;
    if (!sidekiq_job_list(own, &named, &out->list) || !json_decode(picks[1].value.raw, &out->payload)) return false;
    bool dated = picks[2].found == JSON_FOUND && picks[2].value.type == JSON_NUMBER;
    if (dated) out->run_at = strtod(picks[2].value.raw.data, NULL);
    sidekiq_job_describe((slice_t){out->payload.data, out->payload.len}, &job);
    snprintf(out->jid, sizeof out->jid, "%s", job.id);
    out->stamp = digest_of(out->jid, strlen(out->jid));
    return true;
}
