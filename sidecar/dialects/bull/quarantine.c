// Ids in `delayed` that name no job, quarantined by bull_promote.lua. Bull's own script would promote them, and a worker would
// crash on a job without data. Here they end with a record.
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "queue/quarantine.h"
#include "redis/reply.h"

enum { FULL_WAIT_MS = 1000 }; // until the next try while the stream is full

static const char ROLE[] = "monitor";

// One id of a page.
typedef struct quarantined_id {
    quarantine_verdict_t verdict;
    const char *reason; // the reason of an end
    char *key;          // owned
    bull_record_t record;
} quarantined_id_t;

struct bull_quarantine {
    const queue_keys_t *at;
    bool round_open;  // a round over all ids is in progress
    size_t skip;      // ids that this round could not settle
    bool full;        // the stream was full in this round
    bool full_logged; // the full stream was logged in the last round
    mono_t round_at;  // the latest start of the next round
    quarantined_id_t items[QUARANTINE_PAGE_JOBS];
};

bull_quarantine_t *bull_quarantine_open(const queue_keys_t *at) {
    bull_quarantine_t *s = mem_alloc(sizeof *s);
    s->at = at;
    return s;
}

void bull_quarantine_close(bull_quarantine_t *s) {
    for (size_t i = 0; i < QUARANTINE_PAGE_JOBS; i++) bull_record_free(&s->items[i].record);
    free(s);
}

void bull_quarantine_forget(bull_quarantine_t *s) {
    s->round_open = false;
    s->round_at = (mono_t){0};
}

static void quarantine_append_look(conn_t *conn, const queue_keys_t *at, slice_t id) {
    request_begin(conn, "HMGET");
    bull_job_key(conn, at, id, "");
    request_text(conn, "name", "priority");
    request_end(conn);
}

// Reads the reply for the key of the id. False: the reply is an error.
static bool quarantine_judge(conn_t *conn, const quarantined_t *job, quarantined_id_t *item, redis_error_t *error) {
    redisReply *reply;
    item->verdict = QUARANTINE_END;
    item->reason = "unreadable";
    outcome_t outcome = conn_read(conn, 0, &reply, error);
    if (outcome == OUTCOME_REFUSED && strncmp(error->text, "WRONGTYPE", 9) == 0) {
        item->reason = "invalid_target";
        *error = (redis_error_t){0};
    } else if (outcome != OUTCOME_OK) {
        return false;
    } else if (reply_is_text(reply_at(reply, 0)) || reply_is_text(reply_at(reply, 1))) {
        item->verdict = QUARANTINE_RELEASE; // the id now names a job
    }
    conn_reply_free(reply);
    if (*job->score == '\0') item->verdict = QUARANTINE_RELEASE; // another client has removed the id
    return true;
}

static outcome_t quarantine_judge_page(bull_quarantine_t *s, const side_task_call_t *call, const quarantine_page_t *page,
                                       redis_error_t *error) {
    redis_error_t worst = {0};
    for (size_t i = 0; i < page->count; i++) quarantine_append_look(call->conn, s->at, page->jobs[i].member);
    for (size_t i = 0; i < page->count; i++) {
        if (quarantine_judge(call->conn, &page->jobs[i], &s->items[i], error)) continue;
        if (error->outcome == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        worst = *error;
    }
    *error = worst;
    return worst.outcome;
}

static void quarantine_append_settle(const bull_quarantine_t *s, const side_task_call_t *call, const quarantine_page_t *page,
                                     size_t index, quarantined_id_t *item) {
    const quarantined_t *job = &page->jobs[index];
    bull_job_t named = {.id = job->member};
    bull_record_make(&item->record, s->at->config, &named, item->reason, call->token, (double)page->now, false, 0);
    // mem_printf cannot write a key with a NUL. The id has no job, or it would not be in quarantine.
    bool whole = job->member.len == 0 || !memchr(job->member.data, '\0', job->member.len);
    item->key = whole ? mem_printf("%s:%.*s", bull_config(s->at->config)->base, (int)job->member.len,
                                   job->member.len ? job->member.data : "")
                      : NULL;
    bool looks = whole && strcmp(item->reason, "unreadable") == 0;
    const call_t to = side_task_call(call, NULL);
    quarantine_settle_append(
        &to, &(quarantine_decision_t){
                 .job = job, .verdict = item->verdict, .hash = looks ? item->key : NULL, .event = &item->record.event});
}

static void quarantine_note_settled(bull_quarantine_t *s, side_task_call_t *call, const quarantined_id_t *item,
                                    settled_t settled) {
    char id[JOB_ID_MOST + 1];
    const event_t *event = &item->record.event;
    switch (settled) {
    case SETTLED:
        if (item->verdict == QUARANTINE_RELEASE) break;
        metrics_end(call->metrics, item->reason, 1);
        snprintf(id, sizeof id, "%.*s", (int)event->job.len, event->job.len ? event->job.data : "");
        log_warn(ROLE, s->at->config->name, "ended an id in delayed that has no job", F_STR("reason", item->reason),
                 F_STR("job", id));
        break;
    case SETTLED_FULL:
        metric_add(&call->metrics->ends_held, 1);
        s->full = true;
        s->skip++;
        break;
    default: s->skip++; break; // the entry has changed; the next round decides again
    }
}

static outcome_t quarantine_settle_page(bull_quarantine_t *s, side_task_call_t *call, const quarantine_page_t *page,
                                        redis_error_t *error) {
    redis_error_t worst = {0};
    for (size_t i = 0; i < page->count; i++) quarantine_append_settle(s, call, page, i, &s->items[i]);
    failpoint("aside_before");
    if (conn_flush(call->conn, error) != OUTCOME_OK) worst = *error;
    failpoint("aside_sent");
    for (size_t i = 0; i < page->count; i++) {
        settled_t settled;
        outcome_t outcome =
            worst.outcome == OUTCOME_DISCONNECTED ? OUTCOME_DISCONNECTED : settle_read(call->conn, &settled, error);
        failpoint("aside_answered");
        if (outcome == OUTCOME_OK)
            quarantine_note_settled(s, call, &s->items[i], settled);
        else if (outcome > worst.outcome)
            worst = *error;
        free(s->items[i].key);
        s->items[i].key = NULL;
    }
    *error = worst;
    return worst.outcome;
}

static void quarantine_end_round(bull_quarantine_t *s, const side_task_call_t *call) {
    s->round_open = false;
    s->round_at = s->skip ? mono_add(call->now, FULL_WAIT_MS * NS_PER_MS) : mono_never();
    if (s->full && !s->full_logged)
        log_error(ROLE, s->at->config->name, "the failure stream is full; no job is ended until it shrinks",
                  F_INT("max_bytes", call->keys->config->stream.max_bytes));
    s->full_logged = s->full;
}

outcome_t bull_quarantine_step(bull_quarantine_t *s, side_task_call_t *call, redis_error_t *error) {
    quarantine_page_t page;
    if (!s->round_open && !call->changed && !mono_reached(s->round_at, call->now)) {
        call->next = mono_min(call->next, s->round_at);
        return OUTCOME_OK;
    }
    if (!s->round_open) s->skip = 0, s->full = false;
    s->round_open = true;
    const call_t of = side_task_call(call, error);
    if (quarantine_read(&of, NULL, s->skip, call->arm, &page) != OUTCOME_OK) return error->outcome;
    if (page.count == 0)
        quarantine_end_round(s, call);
    else if (quarantine_judge_page(s, call, &page, error) == OUTCOME_OK)
        quarantine_settle_page(s, call, &page, error);
    quarantine_page_free(&page);
    call->next = mono_min(call->next, s->round_open ? call->now : s->round_at);
    return error->outcome;
}
