#include "queue/report_end.h"

#include "queue/scripts.h"
#include "redis/reply.h"

enum {
    FIRST_ENTRIES = 8,   // entries of the first step of list_end.lua; 1 while jobs or texts are large
    END_BYTES = 1 << 18, // bytes of entries and texts that one request reads, and one more step
};

static void report_end_add(const backup_status_t *status, report_end_t *end, backup_page_t *page, redisReply *const *report) {
    slice_t job = reply_slice(report[0]);
    if (page->count == BACKUP_PAGE || status->rotation->kind_of(status, job) != ENTRY_JOB) return;
    end->reports[page->count] = report_ref_of(report);
    backup_page_add(page, job);
}

outcome_t report_end_read(const call_t *call, const backup_status_t *status, report_end_t *end, backup_page_t *page) {
    const queue_config_t *config = call_queue(call)->config;
    redisReply *reply;
    request_script(call->conn, &script_list_end, 2);
    request_text(call->conn, config->backup, config->errors, end->tail ? "-1" : "1");
    request_int(call->conn, (int64_t)end->skip, (int64_t)end->count, end->large ? 1 : FIRST_ENTRIES, END_BYTES);
    conn_expect_job(call->conn);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    page->replies[page->reply_count++] = reply;
    page->ended = reply_int(reply_at(reply, 0)) == 1;
    page->in_place = true;
    end->read = (size_t)reply_int(reply_at(reply, 1));
    end->bytes = (size_t)reply_int(reply_at(reply, 2));
    end->largest = (size_t)reply_int(reply_at(reply, 3));
    for (size_t i = 4; reply->type == REDIS_REPLY_ARRAY && i + 2 < reply->elements; i += 3)
        report_end_add(status, end, page, &reply->element[i]);
    return OUTCOME_OK;
}
