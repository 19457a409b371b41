// bull_promote.lua and bullmq_promote.lua quarantine ids in `delayed` that name no job. This side task ends them with a record.
// The libraries' own scripts would promote them, and a worker would crash on a job without data.
#include "queue/quarantine.h"

#include "base/log.h"
#include "dialects/bull_tasks/bull_tasks.h"
#include "dialects/job_record.h"
#include "redis/reply.h"

enum { RETRY_MS = 1000 }; // until the next round, if this round could not settle all ids

static const char ROLE[] = "monitor";

typedef struct quarantine {
    const queue_keys_t *at;
    bool round_open;  // a round over all ids is in progress
    size_t skip;      // ids that this round could not settle
    bool full;        // the stream was full in this round
    bool full_logged; // the full stream was logged in the last round
    mono_t round_at;  // the latest start of the next round
    pace_t pace;
} quarantine_t;

static void *quarantine_open(const queue_keys_t *at) {
    quarantine_t *s = mem_alloc(sizeof *s);
    s->at = at;
    return s;
}

static void quarantine_forget(void *state) {
    quarantine_t *s = state;
    s->round_open = false;
    s->round_at = (mono_t){0};
}

static size_t quarantine_watched_keys(const void *state, const char **out) {
    out[0] = ((const quarantine_t *)state)->at->quarantine;
    return 1;
}

// Reads the keys of the ids. *reasons: why each id ends; NULL = the id is released, because it names a job now, or because
// another client has removed the id.
static outcome_t quarantine_judge(const call_t *call, const quarantine_page_t *page, const char **reasons) {
    *call->error = (redis_error_t){0};
    for (size_t i = 0; i < page->count; i++) {
        request_begin(call->conn, "HMGET");
        bull_job_key(call->conn, call_queue(call), "", page->jobs[i].member, "");
        request_text(call->conn, "name", "priority");
        request_end(call->conn);
    }
    for (size_t i = 0; i < page->count; i++) {
        redis_error_t refusal;
        conn_expect_job(call->conn);
        redisReply *reply = conn_read_or_refusal(call->conn, &refusal, call->error);
        bool wrong_type = refusal.kind == ERROR_WRONG_TYPE;
        bool names_job = reply_is_text(reply_at(reply, 0)) || reply_is_text(reply_at(reply, 1));
        reasons[i] = names_job || *page->jobs[i].score == '\0' ? NULL : wrong_type ? "invalid_target" : "unreadable";
        if (!wrong_type) redis_error_keep_worse(call->error, &refusal);
        conn_reply_free(reply);
    }
    return call->error->outcome;
}

// One id of a page.
typedef struct quarantine_item {
    quarantine_decision_t ask;
    job_record_t record;
    buffer_t key; // of its hash
    const char *reason;
    char ref[EVENT_REF_SIZE];
} quarantine_item_t;

static void quarantine_decide(const quarantine_t *s, const call_t *call, const quarantine_page_t *page, size_t index,
                              quarantine_item_t *item) {
    const quarantined_t *id = &page->jobs[index];
    job_record_begin(&item->record, call, id->member, (slice_t){0}, item->reason ? item->reason : "");
    job_record_date(&item->record, (double)page->now);
    if (!event_ref(item->record.event.event, item->ref)) *item->ref = '\0';
    buffer_printf(&item->key, "%s:", bull_config(s->at->config)->base);
    buffer_add(&item->key, id->member.data, id->member.len);
    // A decision has keys as C strings. A key with a NUL byte gets no check: the promotion found no job there.
    const char *hash = strlen(item->key.data) == item->key.len ? item->key.data : NULL;
    item->ask = (quarantine_decision_t){
        .job = id, .verdict = item->reason ? QUARANTINE_END : QUARANTINE_RELEASE, .hash = hash, .event = &item->record.event};
}

static void quarantine_note_settled(quarantine_t *s, side_task_call_t *call, const quarantine_item_t *item, settled_t settled) {
    if (settled == SETTLED_TYPE || settled == SETTLED_REFUSED) return; // the error stops this step
    if (settled != SETTLED) s->skip++;                                 // the next round decides again
    if (settled == SETTLED && item->reason) {
        metrics_end(call->metrics, item->reason, 1);
        log_warn(ROLE, s->at->config->name, "ended an id in delayed that has no job", F_STR("ref", item->ref),
                 F_STR("reason", item->reason), F_SLICE("job", slice_cut(item->ask.job->member, MAX_JOB_ID)));
    } else if (settled == SETTLED_FULL) {
        metric_add(&call->metrics->ends_held, 1);
        s->full = true;
    }
}

static void quarantine_settle_page(quarantine_t *s, side_task_call_t *call, const quarantine_page_t *page) {
    quarantine_item_t items[QUARANTINE_PAGE_JOBS];
    const quarantine_decision_t *asks[QUARANTINE_PAGE_JOBS] = {NULL};
    settled_t settled[QUARANTINE_PAGE_JOBS];
    const char *reasons[QUARANTINE_PAGE_JOBS] = {NULL};
    if (quarantine_judge(&call->redis, page, reasons) != OUTCOME_OK) return;
    for (size_t i = 0; i < page->count; i++) {
        items[i] = (quarantine_item_t){.reason = reasons[i]};
        quarantine_decide(s, &call->redis, page, i, &items[i]);
        asks[i] = &items[i].ask;
    }
    size_t answered = quarantine_settle(&call->redis, asks, page->count, &s->pace, settled);
    for (size_t i = 0; i < page->count; i++) {
        if (i < answered) quarantine_note_settled(s, call, &items[i], settled[i]);
        buffer_free(&items[i].key);
        job_record_free(&items[i].record);
    }
}

static void quarantine_end_round(quarantine_t *s, const side_task_call_t *call) {
    s->round_open = false;
    s->round_at = s->skip ? mono_add(call->now, RETRY_MS * NS_PER_MS) : mono_never();
    if (s->full && !s->full_logged)
        log_error(ROLE, s->at->config->name, "the failure stream is full or out of ids; no job is ended until it has room",
                  F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
    s->full_logged = s->full;
}

static outcome_t quarantine_step(void *state, side_task_call_t *call) {
    quarantine_t *s = state;
    quarantine_page_t page;
    call->next = s->round_at;
    if (!s->round_open && !call->changed && !mono_reached(s->round_at, call->now)) return OUTCOME_OK;
    if (!s->round_open) s->skip = 0, s->full = false;
    s->round_open = true;
    if (quarantine_read(&call->redis, NULL, s->skip, call->arm, &page) != OUTCOME_OK) return call->redis.error->outcome;
    if (page.count == 0)
        quarantine_end_round(s, call);
    else
        quarantine_settle_page(s, call, &page);
    quarantine_page_free(&page);
    call->next = s->round_open ? call->now : s->round_at;
    return call->redis.error->outcome;
}

const side_task_ops_t bull_quarantine_task = {.open = quarantine_open,
                                              .close = free,
                                              .forget = quarantine_forget,
                                              .watched_keys = quarantine_watched_keys,
                                              .step = quarantine_step};
