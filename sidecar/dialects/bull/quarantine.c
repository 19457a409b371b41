// What bull_promote has put aside: ids in delayed that name no job. Bull's own script would take each for a job without data, and
// a worker would stumble over it; here it ends with a record.
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/bull/config.h"
#include "dialects/bull/job.h"
#include "dialects/bull/keys.h"
#include "dialects/bull/quarantine.h"
#include "queue/quarantine.h"
#include "redis/reply.h"

enum { FULL_WAIT_MS = 1000 }; // until the next try while the stream is full

static const char ROLE[] = "monitor";

// One id of a page.
typedef struct bull_ghost {
    aside_verdict_t verdict;
    const char *reason; // of an end
    char *key;          // owned
    bull_record_t record;
} bull_ghost_t;

struct bull_aside {
    const queue_keys_t *at;
    bool going;   // a round is under way
    size_t skip;  // ids that it has left where they are
    bool full;    // the stream was, in this round
    bool said;    // and that was logged
    mono_t again; // when the next round is to begin, whatever is told
    bull_ghost_t ghosts[ASIDE_PAGE];
};

bull_aside_t *bull_aside_open(const queue_keys_t *at) {
    bull_aside_t *s = mem_alloc(sizeof *s);
    s->at = at;
    return s;
}

void bull_aside_close(bull_aside_t *s) {
    for (size_t i = 0; i < ASIDE_PAGE; i++) bull_record_free(&s->ghosts[i].record);
    free(s);
}

void bull_aside_forget(bull_aside_t *s) {
    s->going = false;
    s->again = (mono_t){0};
}

static void ask_job(conn_t *conn, const queue_keys_t *at, slice_t id) {
    request_begin(conn, "HMGET");
    bull_job_key(conn, at, id, "");
    request_text(conn, "name");
    request_text(conn, "priority");
    request_end(conn);
}

// What stands under the id now. False: it cannot be told.
static bool judge(conn_t *conn, const aside_job_t *job, bull_ghost_t *ghost, redis_error_t *error) {
    redisReply *reply;
    ghost->verdict = ASIDE_END;
    ghost->reason = "unreadable";
    outcome_t outcome = conn_read(conn, 0, &reply, error);
    if (outcome == OUTCOME_REFUSED && strncmp(error->text, "WRONGTYPE", 9) == 0) {
        ghost->reason = "invalid_target";
        *error = (redis_error_t){0};
    } else if (outcome != OUTCOME_OK) {
        return false;
    } else if (reply_is_text(reply_at(reply, 0)) || reply_is_text(reply_at(reply, 1))) {
        ghost->verdict = ASIDE_FORGET; // it has become a job
    }
    conn_reply_free(reply);
    if (*job->score == '\0') ghost->verdict = ASIDE_FORGET; // somebody has removed it
    return true;
}

static outcome_t judge_page(bull_aside_t *s, const watch_call_t *call, const aside_page_t *page, redis_error_t *error) {
    redis_error_t worst = {0};
    for (size_t i = 0; i < page->count; i++) ask_job(call->conn, s->at, page->jobs[i].member);
    for (size_t i = 0; i < page->count; i++) {
        if (judge(call->conn, &page->jobs[i], &s->ghosts[i], error)) continue;
        if (error->outcome == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        worst = *error;
    }
    *error = worst;
    return worst.outcome;
}

static void append_settle(const bull_aside_t *s, const watch_call_t *call, const aside_page_t *page, size_t index,
                          bull_ghost_t *ghost) {
    const aside_job_t *job = &page->jobs[index];
    bull_job_t named = {.id = job->member};
    bull_record_make(&ghost->record, s->at->config, &named, ghost->reason, call->token, (double)page->now, false, 0);
    // An id with a NUL names no key that could be written here; it has no job, or it would not be aside.
    bool whole = job->member.len == 0 || !memchr(job->member.data, '\0', job->member.len);
    ghost->key = whole ? mem_printf("%s:%.*s", bull_config(s->at->config)->base, (int)job->member.len,
                                    job->member.len ? job->member.data : "")
                       : NULL;
    // What is no hash cannot be looked into.
    bool looks = whole && strcmp(ghost->reason, "unreadable") == 0;
    const call_t to = watch_call(call, NULL);
    aside_settle_append(
        &to,
        &(aside_ask_t){.job = job, .verdict = ghost->verdict, .hash = looks ? ghost->key : NULL, .event = &ghost->record.event});
}

static void note_settled(bull_aside_t *s, watch_call_t *call, const bull_ghost_t *ghost, settled_t settled) {
    char id[JOB_ID_MOST + 1];
    const event_t *event = &ghost->record.event;
    switch (settled) {
    case SETTLED:
        if (ghost->verdict == ASIDE_FORGET) break;
        metrics_end(call->metrics, ghost->reason, 1);
        snprintf(id, sizeof id, "%.*s", (int)event->job.len, event->job.len ? event->job.data : "");
        log_warn(ROLE, s->at->config->name, "an id in delayed names no job: it has failed for good",
                 F_STR("reason", ghost->reason), F_STR("job", id));
        break;
    case SETTLED_FULL:
        metric_add(&call->metrics->ends_held, 1);
        s->full = true;
        s->skip++;
        break;
    default: s->skip++; break; // changed: the next round sees it as it is then
    }
}

static outcome_t settle_page(bull_aside_t *s, watch_call_t *call, const aside_page_t *page, redis_error_t *error) {
    redis_error_t worst = {0};
    for (size_t i = 0; i < page->count; i++) append_settle(s, call, page, i, &s->ghosts[i]);
    failpoint("aside_before");
    if (conn_flush(call->conn, error) != OUTCOME_OK) worst = *error;
    failpoint("aside_sent");
    for (size_t i = 0; i < page->count; i++) {
        settled_t settled;
        outcome_t outcome =
            worst.outcome == OUTCOME_DISCONNECTED ? OUTCOME_DISCONNECTED : settle_read(call->conn, &settled, error);
        failpoint("aside_answered");
        if (outcome == OUTCOME_OK)
            note_settled(s, call, &s->ghosts[i], settled);
        else if (outcome > worst.outcome)
            worst = *error;
        free(s->ghosts[i].key);
        s->ghosts[i].key = NULL;
    }
    *error = worst;
    return worst.outcome;
}

static void end_round(bull_aside_t *s, const watch_call_t *call) {
    s->going = false;
    s->again = s->skip ? mono_add(call->now, FULL_WAIT_MS * NS_PER_MS) : mono_never();
    if (s->full && !s->said)
        log_error(ROLE, s->at->config->name, "the failure stream is full: no job is ended until it shrinks",
                  F_INT("max_bytes", call->keys->config->stream.max_bytes));
    s->said = s->full;
}

outcome_t bull_aside_step(bull_aside_t *s, watch_call_t *call, redis_error_t *error) {
    aside_page_t page;
    if (!s->going && !call->changed && !mono_reached(s->again, call->now)) {
        call->next = mono_min(call->next, s->again);
        return OUTCOME_OK;
    }
    if (!s->going) s->skip = 0, s->full = false;
    s->going = true;
    const call_t of = watch_call(call, error);
    if (aside_read(&of, NULL, s->skip, call->arm, &page) != OUTCOME_OK) return error->outcome;
    if (page.count == 0)
        end_round(s, call);
    else if (judge_page(s, call, &page, error) == OUTCOME_OK)
        settle_page(s, call, &page, error);
    aside_page_free(&page);
    call->next = mono_min(call->next, s->going ? call->now : s->again);
    return error->outcome;
}
