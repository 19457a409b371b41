// Handles events that delayed_promote.lua has quarantined: sends them, or ends them with a record.
#include <math.h>

#include "base/keyset.h"
#include "base/log.h"
#include "base/utf8.h"
#include "dialects/delayed_queue/internal.h"
#include "dialects/delayed_queue/scripts.h"
#include "model/anomaly.h"
#include "queue/quarantine.h"
#include "queue/record.h"

#define DIGEST_PREFIX "sha256:" // prefix of the digest that replaces a job id which the audit log cannot store

enum {
    FULL_MS = 1000,   // read again after this while the failure stream is full
    WAITS_MS = 10000, // read an event again after this while its last push waits in its list
    CHANGED_MS = 100, // read an event again after this if the event changed meanwhile
    MAX_SHOWN = 256,  // bytes of a class, member or id in a log line
    LOGGED_MAX = 64,  // digests of logged events and classes to remember, so that each is logged once
    SHORT = 64,       // a change restarts a round that has skipped fewer members than this
};

// Producers write whole ms as scores; the promote script adds .25, .5 or .75 as flags.
enum { FLAG_POSTPONED = 1, FLAG_LAST_ATTEMPT = 2 };

static const char ROLE[] = "monitor";

// A round reads all quarantined members, the oldest first; new members come last. After SHORT skipped members a change does not
// restart the round, or steady changes would never let the round end. But a new member may sort before the members
// read, by equal age or after a step of Redis's clock. So another round follows.
typedef struct quarantine {
    const queue_keys_t *keys;
    size_t skip;      // members that this round has skipped: they stay in quarantine
    mono_t nearest;   // when the first skipped member must be read again
    mono_t began;     // when this round began
    mono_t again;     // when the next round begins
    bool announced;   // delayed_serve.lua has said what this leader sends
    bool behind;      // the quarantine changed after this round had skipped members
    bool full;        // the failure stream was full in this round
    int64_t large;    // oversized events that this round has met
    bool full_logged; // the full stream was logged in the last round
    delayed_pass_t pass;
    pace_t pace;
    keymap_t logged; // digests of logged events and classes
    bool waits[];    // for each class: an event without further attempts waits in its list
} quarantine_t;

static void *quarantine_open(const queue_keys_t *keys) {
    quarantine_t *quarantine = mem_alloc(sizeof *quarantine + delayed_config(keys->config)->classes.count);
    quarantine->keys = keys;
    quarantine->nearest = quarantine->again = mono_never();
    return quarantine;
}

static void quarantine_close(void *state) {
    quarantine_t *quarantine = state;
    keymap_free(&quarantine->logged);
    free(quarantine);
}

static void quarantine_begin_round(quarantine_t *quarantine, mono_t now) {
    memset(quarantine->waits, 0, delayed_config(quarantine->keys->config)->classes.count);
    quarantine->skip = 0;
    quarantine->large = 0;
    quarantine->began = now;
    quarantine->nearest = quarantine->again = mono_never();
    quarantine->full = quarantine->behind = false;
}

static void quarantine_forget(void *state) {
    quarantine_t *quarantine = state;
    quarantine_begin_round(quarantine, mono_now());
    quarantine->announced = false;
    quarantine->pass = (delayed_pass_t){0};
}

static outcome_t quarantine_announce(quarantine_t *quarantine, const call_t *call) {
    const strings_t *classes = &delayed_config(quarantine->keys->config)->classes;
    buffer_t text = {0};
    for (size_t i = 0; i < classes->count; i++) buffer_printf(&text, " %s ", classes->items[i]);
    call_script(call, &script_delayed_serve, 2);
    request_text(call->conn, quarantine->keys->meta, call->token, buffer_text(&text));
    buffer_free(&text);
    quarantine->announced = call_ask(call, NULL) == OUTCOME_OK;
    return call->error->outcome;
}

static size_t quarantine_watched_keys(const void *state, const char **out) {
    out[0] = ((const quarantine_t *)state)->keys->quarantine;
    return 1;
}

// False: a recent log line names the same event or class.
static bool quarantine_is_news(quarantine_t *quarantine, slice_t what) {
    digest_t digest = digest_of(what.data, what.len);
    if (keymap_find(&quarantine->logged, digest.bytes)) return false;
    if (quarantine->logged.count == LOGGED_MAX) keymap_free(&quarantine->logged);
    keymap_put(&quarantine->logged, digest.bytes);
    return true;
}

static int score_flags(const char *score) {
    double quarters = fmod(fabs(strtod(score, NULL)), 1) * 4;
    return quarters == floor(quarters) ? (int)quarters : 0;
}

// One member of a page.
typedef struct item {
    quarantine_t *quarantine;
    const side_task_call_t *call;
    const quarantined_t *job;
    int64_t now; // ms by Redis's clock
    quarantine_decision_t ask;
    bool skipped; // nothing to do now
    size_t class; // index of the class of an event that ran out of attempts
    delayed_name_t name;
    event_t event;         // the record of an end
    buffer_t next, pushed; // for quarantine_decision_t; owned
    char sha256[DIGEST_HEX_SIZE], id[DIGEST_HEX_SIZE], job_id[sizeof DIGEST_PREFIX + DIGEST_HEX_SIZE];
} quarantine_item_t;

// Leaves the member in quarantine. Reads the member again after `for_ms`; INT64_MAX: in the next round.
static void item_skip(quarantine_item_t *item, int64_t for_ms) {
    quarantine_t *quarantine = item->quarantine;
    item->skipped = true;
    quarantine->skip++;
    if (for_ms == INT64_MAX) return;
    quarantine->nearest = mono_min(quarantine->nearest, mono_add(item->call->now, for_ms * NS_PER_MS));
}

static void item_end(quarantine_item_t *item, const char *reason, int64_t attempts) {
    item->ask.verdict = QUARANTINE_END;
    item->event.reason = slice_text(reason);
    item->event.attempts = attempts;
}

// Wait for the protected timeout, so that a config that lacks a class by mistake does not end its events at once.
static void item_judge_unknown_class(quarantine_item_t *item) {
    const queue_config_t *queue = item->quarantine->keys->config;
    int64_t left = item->job->since + queue->policy.protected_timeout_ms - item->now;
    delayed_envelope_t envelope;
    if (left <= 0) {
        bool readable = delayed_read(item->job->envelope, item->name.class, &envelope);
        item_end(item, readable ? "invalid_target" : "unreadable", readable ? envelope.attempt - 1 : 0);
        return;
    }
    item_skip(item, left);
    if (quarantine_is_news(item->quarantine, item->name.class))
        log_warn(ROLE, queue->name, "class is not among `types`; its delayed events end after protected_timeout",
                 F_SLICE("class", slice_cut(item->name.class, MAX_SHOWN)));
}

// The last push of the event was a whole delay ago. While the event still waits for a worker, the last attempt has not failed.
static void item_judge_last(quarantine_item_t *item, size_t class, const delayed_envelope_t *envelope) {
    const delayed_config_t *own = delayed_config(item->quarantine->keys->config);
    if (item->quarantine->waits[class]) {
        item_skip(item, WAITS_MS);
        return;
    }
    item_end(item, "retries_exhausted", envelope->attempt - 1);
    item->event.started = item->job->since - delayed_delay_ms(own, envelope->attempt);
    delayed_splice(item->job->envelope, envelope, envelope->attempt - 1, &item->pushed);
    item->ask.ready = own->lists.items[class];
    item->class = class;
}

static void item_judge_event(quarantine_item_t *item, size_t class) {
    const delayed_config_t *own = delayed_config(item->quarantine->keys->config);
    const quarantined_t *job = item->job;
    int64_t limit = own->retry_attempts < 2 ? 2 : own->retry_attempts; // even a single push sets attempt 2
    delayed_envelope_t envelope;
    if (!delayed_read(job->envelope, item->name.class, &envelope)) {
        item_end(item, "unreadable", 0);
    } else if (envelope.attempt >= limit && (score_flags(job->score) & FLAG_LAST_ATTEMPT)) {
        item_judge_last(item, class, &envelope);
    } else if (!delayed_is_fast(job->envelope, item->name.class, &envelope)) {
        delayed_splice(job->envelope, &envelope, envelope.attempt + 1, &item->next);
        if (envelope.attempt > 1) delayed_splice(job->envelope, &envelope, envelope.attempt - 1, &item->pushed);
        item->ask.verdict = QUARANTINE_PUSH;
        item->ask.ready = own->lists.items[class];
        item->ask.delay_ms = delayed_delay_ms(own, envelope.attempt + 1);
        item->ask.last = envelope.attempt + 1 >= own->retry_attempts;
    } // else the class is configured now; promote sends the event when the event is due
}

static void item_note_large(quarantine_item_t *item) {
    const queue_config_t *queue = item->quarantine->keys->config;
    item_skip(item, INT64_MAX);
    item->quarantine->large++;
    anomaly_sample(item->call->metrics, ANOMALY_large_events, "%.*s, %" PRId64 " bytes",
                   (int)slice_cut(item->job->member, MAX_SHOWN).len, item->job->member.data, item->job->too_large);
    if (!quarantine_is_news(item->quarantine, item->job->member)) return;
    log_warn(ROLE, queue->name, "left entries larger than max_payload in delayed", F_INT("entries", 1),
             F_INT("bytes", item->job->too_large), F_SLICE("member", slice_cut(item->job->member, MAX_SHOWN)),
             F_INT("max_payload", queue->policy.max_payload));
}

// The default verdict is QUARANTINE_RELEASE.
static void item_judge(quarantine_item_t *item) {
    size_t class;
    item->name = delayed_name(item->job->member);
    // The application removed the event or scheduled the event again. Promote handles the event when the event is due.
    if (!(score_flags(item->job->score) & FLAG_POSTPONED)) return;
    if (item->job->too_large)
        item_note_large(item);
    else if (!item->job->has_envelope)
        return; // a worker has handled the event; promote removes the member
    else if (delayed_class(delayed_config(item->quarantine->keys->config), item->name.class, &class))
        item_judge_event(item, class);
    else
        item_judge_unknown_class(item);
}

// A requeue makes the member again from the record's id and class. If the audit log cannot store these two, a digest of the
// member replaces the id.
static void item_name_job(quarantine_item_t *item) {
    slice_t id = item->name.id;
    bool fits = id.len > 0 && id.len <= MAX_JOB_ID && item->name.class.len <= MAX_JOB_TYPE && !memchr(id.data, 0, id.len) &&
                utf8_is_valid(id.data, id.len) && utf8_is_valid(item->name.class.data, item->name.class.len);
    item->event.type = fits ? item->name.class : (slice_t) { 0 };
    item->event.job = id;
    if (fits) return;
    char hex[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(item->job->member.data, item->job->member.len);
    digest_hex(&digest, hex);
    snprintf(item->job_id, sizeof item->job_id, DIGEST_PREFIX "%s", hex);
    item->event.job = slice_text(item->job_id);
}

static void item_make_event(quarantine_item_t *item) {
    const quarantined_t *job = item->job;
    event_t *event = &item->event;
    digest_t digest = digest_of(job->envelope.data, job->envelope.len);
    digest_hex(&digest, item->sha256);
    item_name_job(item);
    event->kind = slice_text("failed");
    event->dialect = slice_text("delayed_queue");
    event->queue = slice_text(item->quarantine->keys->config->name);
    event->term = slice_text(item->call->redis.token);
    event->group = slice_text(item->call->redis.keys->config->group);
    event->sha256 = slice_text(item->sha256);
    event->size = (int64_t)job->envelope.len;
    event->payload = job->envelope;
    event->traceparent = job_traceparent(&item->quarantine->keys->config->policy, job->envelope);
    // Each end of an event has its own score, because an end removes member and score.
    event_id(event, (int64_t)(strtod(job->score, NULL) * 1e3), 0, item->id);
}

static void item_finish(quarantine_item_t *item) {
    item->ask.job = item->job;
    item->ask.next = (slice_t){buffer_text(&item->next), item->next.len};
    item->ask.pushed = (slice_t){buffer_text(&item->pushed), item->pushed.len};
    item->ask.events = delayed_config(item->quarantine->keys->config)->events;
    if (item->ask.verdict == QUARANTINE_END) item_make_event(item);
    item->ask.event = &item->event;
}

static void quarantine_note_ended(const quarantine_item_t *item) {
    metrics_end(item->call->metrics, item->event.reason.data, 1);
    record_log_failure(ROLE, item->quarantine->keys->config->name, &item->event);
}

static void quarantine_note_settled(quarantine_item_t *item, settled_t settled, side_task_call_t *call) {
    quarantine_t *quarantine = item->quarantine;
    if (settled == SETTLED_TYPE || settled == SETTLED_REFUSED) return; // the error stops this step
    if (settled == SETTLED) {
        if (item->ask.verdict == QUARANTINE_END) quarantine_note_ended(item);
        if (item->ask.verdict == QUARANTINE_PUSH) metric_add(&call->metrics->promoted, 1);
        return;
    }
    item_skip(item, settled == SETTLED_FULL ? FULL_MS : settled == SETTLED_ALIVE ? WAITS_MS : CHANGED_MS);
    if (settled == SETTLED_ALIVE && item->ask.verdict == QUARANTINE_END) quarantine->waits[item->class] = true;
    if (settled != SETTLED_FULL) return;
    metric_add(&call->metrics->ends_held, 1);
    quarantine->full = true;
}

static outcome_t quarantine_settle_page(quarantine_t *quarantine, side_task_call_t *call, const quarantine_page_t *page) {
    quarantine_item_t items[QUARANTINE_PAGE_JOBS];
    const quarantine_decision_t *asks[QUARANTINE_PAGE_JOBS] = {NULL};
    settled_t settled[QUARANTINE_PAGE_JOBS];
    size_t asked = 0;
    for (size_t i = 0; i < page->count; i++) {
        quarantine_item_t *item = &items[asked];
        *item = (quarantine_item_t){.quarantine = quarantine, .call = call, .job = &page->jobs[i], .now = page->now};
        item_judge(item);
        if (item->skipped) continue;
        item_finish(item);
        asks[asked++] = &item->ask;
    }
    size_t answered = quarantine_settle(&call->redis, asks, asked, &quarantine->pace, settled);
    for (size_t i = 0; i < asked; i++) {
        if (i < answered) quarantine_note_settled(&items[i], settled[i], call);
        buffer_free(&items[i].next);
        buffer_free(&items[i].pushed);
    }
    return call->redis.error->outcome;
}

static mono_t quarantine_end_round(quarantine_t *quarantine, const side_task_call_t *call, bool armed, int64_t now_ms) {
    if (quarantine->full && !quarantine->full_logged)
        log_error(ROLE, quarantine->keys->config->name,
                  "the failure stream is full or out of ids; no job is ended until it has room",
                  F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
    quarantine->full_logged = quarantine->full;
    anomaly_set(call->metrics, ANOMALY_large_events, quarantine->large, now_ms);
    quarantine->again = quarantine->nearest;
    if (!armed) quarantine->again = mono_min(quarantine->again, mono_add(call->now, DELAYED_LATER_MS * NS_PER_MS));
    if (quarantine->behind)
        quarantine->again = mono_min(quarantine->again, mono_add(quarantine->began, DELAYED_LATER_MS * NS_PER_MS));
    return quarantine->again;
}

static outcome_t quarantine_step(void *state, side_task_call_t *call) {
    quarantine_t *quarantine = state;
    quarantine_page_t page;
    bool moved = false;
    if (!quarantine->announced && quarantine_announce(quarantine, &call->redis) != OUTCOME_OK) return call->redis.error->outcome;
    if (delayed_reschedule(&quarantine->pass, call, &moved) != OUTCOME_OK) return call->redis.error->outcome;
    if (moved || mono_reached(quarantine->again, call->now) || (call->changed && quarantine->skip < SHORT))
        quarantine_begin_round(quarantine, call->now);
    if (call->changed) quarantine->behind = quarantine->skip > 0;
    // Arm at each read, because the sidecar's own writes clear tracking. The last read of a round comes after the last write.
    outcome_t outcome =
        quarantine_read(&call->redis, delayed_config(quarantine->keys->config)->events, quarantine->skip, call->arm, &page);
    if (outcome != OUTCOME_OK) return outcome;
    call->next = page.count ? call->now : quarantine_end_round(quarantine, call, page.armed, page.now);
    call->next = mono_min(call->next, quarantine->pass.next);
    outcome = quarantine_settle_page(quarantine, call, &page);
    quarantine_page_free(&page);
    return outcome;
}

const side_task_ops_t delayed_task = {.open = quarantine_open,
                                      .close = quarantine_close,
                                      .forget = quarantine_forget,
                                      .watched_keys = quarantine_watched_keys,
                                      .step = quarantine_step};
