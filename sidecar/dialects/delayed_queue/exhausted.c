// The watch of delayedQueue: what delayed_promote.lua has put aside is sent after all, or ended with a record.
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/utf8.h"
#include "dialects/delayed_queue/config.h"
#include "dialects/delayed_queue/envelope.h"
#include "dialects/delayed_queue/internal.h"
#include "queue/quarantine.h"

#define UNFIT "sha256:" // begins the job of a record whose id the audit log cannot keep

enum {
    FULL_MS = 1000,   // until the next look while the failure stream is full
    WAITS_MS = 10000, // until the next look at an event that waits in its list after its last push
    CHANGED_MS = 100, // until the next look at what changed while it was judged
    SHOWN_MOST = 256, // bytes of others in a log line
    SAID = 64,        // things that were logged once and are remembered
    SHORT = 64,       // members: a round that has left fewer begins again at each change
};

// What the fraction of a score tells: producers write whole ms, promote .25, .5 and .75.
enum { PART_PUT_OFF = 1, PART_LAST = 2 };

static const char ROLE[] = "monitor";

// A round looks at all of them, the longest aside first. What comes aside stands behind them, so where many are left a change is
// looked at from there on: else changes that go on coming would keep it from the end. Those of equal age, or after a step of
// Redis's clock, may stand elsewhere, so another round follows.
typedef struct board {
    const queue_keys_t *keys;
    size_t skip;         // members that this round has left where they are
    mono_t nearest;      // when the first of them must be looked at again
    mono_t began;        // this round
    mono_t again;        // when the next one begins
    bool behind;         // it was told of a change since it began
    bool armed;          // Redis will tell of a change since the last look
    bool full;           // the failure stream, in this round
    bool said_full;      // and in the last one
    uint64_t said[SAID]; // digests of what was logged
    size_t said_next;
    bool *waits; // of each class: an event of it that should end waits in its list, and so do those behind it; owned
} board_t;

static void *watch_open(const queue_keys_t *keys) {
    board_t *board = mem_alloc(sizeof *board);
    board->keys = keys;
    board->waits = mem_array(delayed_config(keys->config)->classes.count, sizeof *board->waits);
    board->nearest = board->again = mono_never();
    return board;
}

static void watch_close(void *state) {
    board_t *board = state;
    free(board->waits);
    free(board);
}

static void begin_round(board_t *board, mono_t now) {
    memset(board->waits, 0, delayed_config(board->keys->config)->classes.count * sizeof *board->waits);
    board->skip = 0;
    board->began = now;
    board->nearest = board->again = mono_never();
    board->armed = board->full = board->behind = false;
}

static void watch_forget(void *state) { begin_round(state, mono_now()); }

static size_t watch_watched(const void *state, const char **out) {
    out[0] = ((const board_t *)state)->keys->aside;
    return 1;
}

// Whether this is said for the first time, as far as is remembered.
static bool is_news(board_t *board, slice_t what) {
    uint64_t mark;
    digest_t digest = digest_of(what.data, what.len);
    memcpy(&mark, digest.bytes, sizeof mark);
    for (size_t i = 0; i < SAID; i++)
        if (board->said[i] == mark) return false;
    board->said[board->said_next] = mark;
    board->said_next = (board->said_next + 1) % SAID;
    return true;
}

static int parts_of(const char *score) {
    const char *point = strchr(score, '.');
    if (!point) return 0;
    if (strcmp(point, ".25") == 0) return PART_PUT_OFF;
    if (strcmp(point, ".5") == 0) return PART_LAST;
    return strcmp(point, ".75") == 0 ? PART_PUT_OFF | PART_LAST : 0;
}

// One member under judgement.
typedef struct finding {
    board_t *board;
    const watch_call_t *call;
    const aside_job_t *job;
    int64_t now; // ms by Redis's clock
    aside_ask_t ask;
    bool leaves;  // nothing is done about it now
    size_t class; // of an event that ran out of attempts
    delayed_name_t name;
    event_t event; // of an end
    buffer_t next; // owned
    char sha256[DIGEST_HEX_SIZE], id[DIGEST_HEX_SIZE], job_id[sizeof UNFIT + DIGEST_HEX_SIZE];
} finding_t;

// Nothing is done about it now; looked at again after so long (INT64_MAX: with the next round).
static void leave(finding_t *finding, int64_t for_ms) {
    finding->leaves = true;
    if (for_ms == INT64_MAX) return;
    board_t *board = finding->board;
    board->nearest = mono_min(board->nearest, mono_add(finding->call->now, for_ms * NS_PER_MS));
}

static void end(finding_t *finding, const char *reason, int64_t attempts) {
    finding->ask.verdict = ASIDE_END;
    finding->event.reason = slice_text(reason);
    finding->event.attempts = attempts;
}

// Bytes of others on their way into a log line.
static char *shown(slice_t text) {
    return mem_printf("%.*s", (int)(text.len < SHOWN_MOST ? text.len : SHOWN_MOST), text.data ? text.data : "");
}

// Its class is not configured: it may be soon, by a config that is on its way to all instances.
static void judge_foreign(finding_t *finding) {
    const queue_config_t *queue = finding->board->keys->config;
    int64_t left = finding->job->since + queue->policy.protected_timeout_ms - finding->now;
    delayed_envelope_t envelope;
    if (left <= 0) {
        bool readable = delayed_read(finding->job->envelope, finding->name.class, &envelope);
        end(finding, readable ? "invalid_target" : "unreadable", readable ? envelope.attempt - 1 : 0);
        return;
    }
    leave(finding, left);
    if (!is_news(finding->board, finding->name.class)) return;
    char *class = shown(finding->name.class);
    log_warn(ROLE, queue->name, "cannot send events of a class that is not among `types`: they are ended after protected_timeout",
             F_STR("class", class));
    free(class);
}

// Its last push was a whole delay ago. While that waits for a worker nobody has failed.
static void judge_last(finding_t *finding, size_t class, const delayed_envelope_t *envelope) {
    const delayed_config_t *own = delayed_config(finding->board->keys->config);
    if (finding->board->waits[class]) {
        leave(finding, WAITS_MS);
        return;
    }
    end(finding, "retries_exhausted", envelope->attempt - 1);
    finding->event.started = finding->job->since - delayed_delay_ms(own, envelope->attempt);
    delayed_splice(finding->job->envelope, envelope, envelope->attempt - 1, &finding->next);
    finding->ask.next = (slice_t){buffer_text(&finding->next), finding->next.len};
    finding->ask.ready = own->lists.items[class];
    finding->class = class;
}

static void judge_event(finding_t *finding, size_t class) {
    const delayed_config_t *own = delayed_config(finding->board->keys->config);
    const aside_job_t *job = finding->job;
    int64_t limit = own->retry_attempts < 2 ? 2 : own->retry_attempts; // the only push of an event makes its attempt 2
    delayed_envelope_t envelope;
    if (!delayed_read(job->envelope, finding->name.class, &envelope)) {
        end(finding, "unreadable", 0);
    } else if (envelope.attempt >= limit && (parts_of(job->score) & PART_LAST)) {
        judge_last(finding, class, &envelope);
    } else if (!delayed_is_fast(job->envelope, finding->name.class, &envelope)) {
        delayed_splice(job->envelope, &envelope, envelope.attempt + 1, &finding->next);
        finding->ask.verdict = ASIDE_PUSH;
        finding->ask.ready = own->lists.items[class];
        finding->ask.next = (slice_t){buffer_text(&finding->next), finding->next.len};
        finding->ask.delay_ms = delayed_delay_ms(own, envelope.attempt + 1);
        finding->ask.last = envelope.attempt + 1 >= own->retry_attempts;
    } // else its class was configured meanwhile, and promote sends it when it is due again
}

static void note_large(finding_t *finding) {
    const queue_config_t *queue = finding->board->keys->config;
    leave(finding, INT64_MAX);
    if (!is_news(finding->board, finding->job->member)) return;
    char *member = shown(finding->job->member);
    metric_add(&finding->call->metrics->large, 1);
    log_warn(ROLE, queue->name, "left entries in delayed that are larger than max_payload", F_INT("entries", 1),
             F_INT("bytes", finding->job->too_large), F_STR("member", member), F_INT("max_payload", queue->policy.max_payload));
    free(member);
}

// The verdict is to forget it, unless it says otherwise.
static void judge(finding_t *finding) {
    size_t class;
    finding->name = delayed_name(finding->job->member);
    // Whoever has removed it, or scheduled it again, has taken it out of our hands: promote looks at it when it is due.
    if (!(parts_of(finding->job->score) & PART_PUT_OFF)) return;
    if (finding->job->too_large)
        note_large(finding);
    else if (!finding->job->has_envelope)
        return; // it is over, and promote removes its member
    else if (delayed_class(delayed_config(finding->board->keys->config), finding->name.class, &class))
        judge_event(finding, class);
    else
        judge_foreign(finding);
}

static bool is_utf8(slice_t text) {
    for (size_t i = 0, len; i < text.len; i += len)
        if (!(len = utf8_sequence(text.data + i, text.len - i))) return false;
    return true;
}

// What the audit log can keep as it is, so that a requeue finds the member again; else its digest.
static void name_job(finding_t *finding) {
    slice_t id = finding->name.id;
    bool fits = id.len > 0 && id.len <= JOB_ID_MOST && finding->name.class.len <= JOB_TYPE_MOST && !memchr(id.data, 0, id.len) &&
                is_utf8(id) && is_utf8(finding->name.class);
    finding->event.type = fits ? finding->name.class : (slice_t) { 0 };
    finding->event.job = id;
    if (fits) return;
    char hex[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(finding->job->member.data, finding->job->member.len);
    digest_hex(&digest, hex);
    snprintf(finding->job_id, sizeof finding->job_id, UNFIT "%s", hex);
    finding->event.job = slice_text(finding->job_id);
}

static void make_event(finding_t *finding) {
    const aside_job_t *job = finding->job;
    event_t *event = &finding->event;
    digest_t digest = digest_of(job->envelope.data, job->envelope.len);
    digest_hex(&digest, finding->sha256);
    name_job(finding);
    event->kind = slice_text("failed");
    event->dialect = slice_text("delayed_queue");
    event->queue = slice_text(finding->board->keys->config->name);
    event->term = slice_text(finding->call->token);
    event->sha256 = slice_text(finding->sha256);
    event->size = (int64_t)job->envelope.len;
    event->payload = job->envelope;
    // An event cannot end twice at one score: this one is gone with it.
    event_id(event, (int64_t)(strtod(job->score, NULL) * 1e3), 0, finding->id);
    event->event = slice_text(finding->id);
}

static void append_settle(finding_t *finding) {
    const call_t call = watch_call(finding->call, NULL);
    finding->ask.job = finding->job;
    finding->ask.events = delayed_config(finding->board->keys->config)->events;
    if (finding->ask.verdict == ASIDE_END) make_event(finding);
    finding->ask.event = &finding->event;
    aside_settle_append(&call, &finding->ask);
}

static void note_ended(finding_t *finding) {
    char *job = shown(finding->event.job), *reason = shown(finding->event.reason);
    metrics_end(finding->call->metrics, reason, 1);
    log_warn(ROLE, finding->board->keys->config->name, "a job has failed for good", F_STR("reason", reason), F_STR("job", job),
             F_INT("attempts", finding->event.attempts));
    free(job);
    free(reason);
}

// What did not come to be stays, and is looked at again.
static void note_settled(finding_t *finding, settled_t settled, watch_call_t *call) {
    board_t *board = finding->board;
    if (settled == SETTLED) {
        if (finding->ask.verdict == ASIDE_END) note_ended(finding);
        if (finding->ask.verdict == ASIDE_PUSH) metric_add(&call->metrics->promoted, 1);
        return;
    }
    board->skip++;
    if (settled == SETTLED_CHANGED) leave(finding, CHANGED_MS);
    if (settled == SETTLED_ALIVE) {
        board->waits[finding->class] = true;
        leave(finding, WAITS_MS);
    }
    if (settled != SETTLED_FULL) return;
    metric_add(&call->metrics->ends_held, 1);
    leave(finding, FULL_MS);
    bool news = !board->full && !board->said_full;
    board->full = true;
    if (!news) return;
    log_error(ROLE, board->keys->config->name, "the failure stream is full: no job is ended until it shrinks",
              F_INT("max_bytes", call->keys->config->stream.max_bytes));
}

// Every reply is read; of several faults the first one is told.
static outcome_t settle_page(board_t *board, watch_call_t *call, const aside_page_t *page, finding_t *findings,
                             redis_error_t *error) {
    redis_error_t first = {0};
    bool any = false;
    for (size_t i = 0; i < page->count; i++) {
        findings[i] = (finding_t){.board = board, .call = call, .job = &page->jobs[i], .now = page->now};
        judge(&findings[i]);
        if (findings[i].leaves)
            board->skip++;
        else
            append_settle(&findings[i]);
        any |= !findings[i].leaves;
    }
    if (any) failpoint("aside_before");
    if (any && conn_flush(call->conn, error) != OUTCOME_OK) return error->outcome;
    if (any) failpoint("aside_sent");
    for (size_t i = 0; i < page->count; i++) {
        settled_t settled;
        if (findings[i].leaves || first.outcome == OUTCOME_DISCONNECTED) continue;
        settle_read(call->conn, &settled, error);
        failpoint("aside_answered");
        if (error->outcome == OUTCOME_OK)
            note_settled(&findings[i], settled, call);
        else if (first.outcome == OUTCOME_OK || error->outcome >= OUTCOME_FENCED)
            first = *error;
    }
    *error = first;
    return first.outcome;
}

static mono_t end_of_round(board_t *board, const watch_call_t *call) {
    board->said_full = board->full;
    board->again = board->nearest;
    if (!board->armed) board->again = mono_min(board->again, mono_add(call->now, DELAYED_LATER_MS * NS_PER_MS));
    if (board->behind) board->again = mono_min(board->again, mono_add(board->began, DELAYED_LATER_MS * NS_PER_MS));
    return board->again;
}

static outcome_t watch_step(void *state, watch_call_t *call, redis_error_t *error) {
    board_t *board = state;
    aside_page_t page;
    if (mono_reached(board->again, call->now) || (call->changed && board->skip < SHORT)) begin_round(board, call->now);
    if (call->changed) board->behind = board->skip > 0;
    // Each look arms, as our own writes make Redis forget whom to tell; the last one of a round comes behind the last of them.
    const call_t request = watch_call(call, error);
    outcome_t outcome = aside_read(&request, delayed_config(board->keys->config)->events, board->skip, call->arm, &page);
    if (outcome != OUTCOME_OK) return outcome;
    board->armed = page.armed;
    call->next = call->now; // there may be more
    if (page.count == 0) {
        call->next = end_of_round(board, call);
    } else {
        finding_t *findings = mem_array(page.count, sizeof *findings);
        outcome = settle_page(board, call, &page, findings, error);
        for (size_t i = 0; i < page.count; i++) buffer_free(&findings[i].next);
        free(findings);
    }
    aside_page_free(&page);
    return outcome;
}

const watch_ops_t delayed_watch = {
    .open = watch_open, .close = watch_close, .forget = watch_forget, .watched = watch_watched, .step = watch_step};
