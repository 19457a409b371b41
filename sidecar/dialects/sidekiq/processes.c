// Processes whose beat has ended, and their jobs. A living process renews its hash for 60 s with each beat, so the time left
// tells how long ago the last beat was, by Redis's clock alone. The sidecar asks for it when a process that has died since could
// be due, and for the list of processes every 10 s.
#include "base/failpoint.h"
#include "base/json/json.h"
#include "base/log.h"
#include "dialects/sidekiq/internal.h"
#include "dialects/sidekiq/scripts.h"
#include "queue/record.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum {
    BEAT_TTL_MS = 60000,  // lib/sidekiq/launcher.rb
    LIST_MS = 10000,      // between two reads of the list of processes
    ASKED = 128,          // processes that one step asks for their time left
    PRUNE_MS = 600000,    // between two removals of old stamps
    LATER_MS = 1000,      // until the next try for jobs that could not be settled
    PAGE_BYTES = 1 << 22, // of jobs that one read returns, and one more step
    PAGE_JOBS = 256,      // likewise
};

static const char ROLE[] = "monitor";

typedef struct process {
    char *key;                   // of its hash; owned
    mono_t due;                  // when to ask for its time left
    bool dead;                   // its beat has ended, and its jobs are next
    bool told;                   // its jobs that stay were logged
    char cursor[SIDEKIQ_CURSOR]; // of its jobs; "0" or "" = from the first one
} process_t;

typedef struct processes {
    const queue_keys_t *at;
    process_t *all; // owned
    size_t count;
    char cursor[SIDEKIQ_CURSOR]; // of the list of processes
    mono_t list_at, prune_at;
    uint64_t pruned; // cursor of the removal
    int64_t window_ms, now_ms;
    bool full; // the stream was full, and that was logged
} processes_t;

static void processes_forget(void *state) {
    processes_t *s = state;
    for (size_t i = 0; i < s->count; i++) free(s->all[i].key);
    s->count = 0;
    snprintf(s->cursor, sizeof s->cursor, "0");
    s->list_at = (mono_t){0};
}

static void *processes_open(const queue_keys_t *at) {
    processes_t *s = mem_alloc(sizeof *s);
    s->at = at;
    processes_forget(s);
    s->prune_at = mono_add(mono_now(), PRUNE_MS * NS_PER_MS);
    return s;
}

static void processes_close(void *state) {
    processes_t *s = state;
    processes_forget(s);
    free(s->all);
    free(s);
}

static int64_t processes_dead_ttl(const processes_t *s) { return BEAT_TTL_MS - sidekiq_config(s->at->config)->dead_after_ms; }

// ---- The list.

static void processes_add(processes_t *s, slice_t name) {
    char *key = sidekiq_process_key(s->at->config, name, s->all, s->count, sizeof *s->all);
    if (!key) return;
    s->all = mem_grown(s->all, s->count, sizeof *s->all);
    s->all[s->count++] = (process_t){.key = key};
}

static outcome_t processes_list(processes_t *s, side_task_call_t *call) {
    conn_t *conn = call->redis.conn;
    redisReply *reply;
    sidekiq_processes_append(conn, s->at->config, s->cursor);
    if (request_ask(conn, &reply, call->redis.error) != OUTCOME_OK) return call->redis.error->outcome;
    const redisReply *names = reply_at(reply, 1);
    for (size_t i = 0; names && names->type == REDIS_REPLY_ARRAY && i < names->elements; i++)
        processes_add(s, reply_slice(names->element[i]));
    snprintf(s->cursor, sizeof s->cursor, "%s", reply_text(reply_at(reply, 0)));
    freeReplyObject(reply);
    if (strcmp(s->cursor, "0") == 0) s->list_at = mono_add(call->now, LIST_MS * NS_PER_MS);
    return OUTCOME_OK;
}

// ---- Jobs of a process.

typedef struct work {
    slice_t field, value;
    sidekiq_work_t of; // owns its bytes
    stamp_t old;
    stamp_raw_t raw;
    bool ends;
    job_record_t record;
} work_t;

typedef struct tally {
    int64_t retried, ended, young, foreign, large;
    bool again; // some of the others may be settled later
} tally_t;

// `beat`: when the jobs were written, by the clock of the process, in s; 0 = unknown. False: the entry stays.
static bool work_read(const processes_t *s, double beat, work_t *work, tally_t *tally) {
    const sidekiq_config_t *own = sidekiq_config(s->at->config);
    bool ours = sidekiq_work_read(own, work->value, &work->of);
    bool dated = work->of.run_at > 0 && beat > 0;
    bool young = ours && dated && (beat - work->of.run_at) * 1000 < (double)own->min_run_ms;
    tally->foreign += !ours;
    tally->young += young;
    return ours && !young;
}

// Counts the runs that ended with their process, by jid, within recovery_window.
static void work_judge(const processes_t *s, work_t *work, const redisReply *stamp, int64_t now_ms) {
    const sidekiq_config_t *own = sidekiq_config(s->at->config);
    work->old = stamp_unpack(reply_text(stamp), reply_len(stamp));
    work->raw = stamp_pack(&work->old);
    if (reply_len(stamp) != STAMP_BYTES) work->raw.len = 0;
    stamp_correct(&work->old, now_ms);
    if (now_ms - work->old.retried_at > own->recovery_window_ms) work->old.retries = 0;
    work->ends = work->old.retries >= own->recoveries;
}

static void work_append(const processes_t *s, const side_task_call_t *step, const process_t *process, const char *work_key,
                        work_t *work, int64_t now_ms) {
    const call_t *call = &step->redis;
    const sidekiq_config_t *own = sidekiq_config(s->at->config);
    event_t *event = &work->record.event;
    slice_t bytes = {work->of.payload.data, work->of.payload.len};
    stamp_t next = {.born_us = now_ms * 1000, .retries = work->old.retries + 1, .retried_at = now_ms};
    stamp_raw_t raw = stamp_pack(&next);
    sidekiq_record_begin(&work->record, call, bytes, slice_text(work->of.jid), work->ends ? "retries_exhausted" : "stalled");
    event->attempts = work->old.retries + 1;
    if (!work->ends) event->kind = slice_text("retried");
    event->error = slice_text("");
    job_record_date(&work->record, (double)now_ms);
    if (!work->ends) event->payload = (slice_t){0};
    call_script(call, &script_sidekiq_settle, 10);
    request_text(call->conn, process->key, work_key, own->lists.items[work->of.list], own->names, own->dead, s->at->stamps,
                 s->at->failures, s->at->meta, s->at->recorded, call->token);
    request_int(call->conn, processes_dead_ttl(s));
    request_bytes(call->conn, work->field.data, work->field.len);
    request_bytes(call->conn, work->value.data, work->value.len);
    request_bytes(call->conn, bytes.data, bytes.len);
    request_text(call->conn, own->queues.items[work->of.list]);
    request_bytes(call->conn, work->of.stamp.bytes, STAMP_FIELD_BYTES);
    request_bytes(call->conn, work->raw.bytes, work->raw.len);
    request_bytes(call->conn, raw.bytes, work->ends ? 0 : raw.len);
    request_int(call->conn, call->keys->config->stream.max_bytes);
    request_text(call->conn, s->at->config->policy.on_failure);
    record_append(call->conn, event);
    if (work->ends) request_text(call->conn, "error", "its process was gone while it ran, as often as `recoveries` allows");
    request_end(call->conn);
}

static void work_note(processes_t *s, const side_task_call_t *call, const work_t *work, settled_t settled, tally_t *tally) {
    tally->again |=
        settled == SETTLED_FULL || settled == SETTLED_CHANGED || settled == SETTLED_TYPE || settled == SETTLED_REFUSED;
    if (settled == SETTLED_FULL) {
        metric_add(&call->metrics->ends_held, 1);
        if (!s->full)
            log_error(ROLE, s->at->config->name, "the failure stream is full or out of ids; no job is ended until it has room",
                      F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
        s->full = true;
    }
    if (settled != SETTLED && settled != SETTLED_UNRECORDED) return;
    metrics_stall(call->metrics, CAUSE_worker_gone);
    if (settled == SETTLED_UNRECORDED) metric_add(&call->metrics->retried_unrecorded, 1);
    if (work->ends) {
        tally->ended++;
        metrics_end(call->metrics, "retries_exhausted", 1);
        record_log_failure(ROLE, s->at->config->name, &work->record.event);
    } else {
        tally->retried++;
        metric_add(&call->metrics->retried, 1);
    }
}

// The stamps of all jobs in one request.
static void works_read_stamps(const processes_t *s, side_task_call_t *call, work_t *works, size_t count, int64_t now_ms) {
    redisReply *stamps;
    request_begin(call->redis.conn, "HMGET", s->at->stamps);
    for (size_t i = 0; i < count; i++) request_bytes(call->redis.conn, works[i].of.stamp.bytes, STAMP_FIELD_BYTES);
    if (request_ask(call->redis.conn, &stamps, call->redis.error) != OUTCOME_OK) return;
    for (size_t i = 0; i < count; i++) work_judge(s, &works[i], reply_at(stamps, i), now_ms);
    freeReplyObject(stamps);
}

static void works_settle(processes_t *s, side_task_call_t *call, const process_t *process, const redisReply *reply, work_t *works,
                         size_t count, tally_t *tally) {
    int64_t now_ms = reply_number(reply_at(reply, 1));
    s->now_ms = now_ms;
    works_read_stamps(s, call, works, count, now_ms);
    if (call->redis.error->outcome != OUTCOME_OK) return;
    for (size_t i = 0; i < count; i++) work_append(s, call, process, reply_text(reply_at(reply, 2)), &works[i], now_ms);
    failpoint("settle_before");
    conn_flush(call->redis.conn, call->redis.error);
    failpoint("settle_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled = SETTLED_REFUSED;
        settle_read(&call->redis, &settled);
        failpoint("settle_answered");
        work_note(s, call, &works[i], settled, tally);
    }
}

// The error of one process or queue must not keep the jobs of others from their turn.
static void process_skip_refusal(const processes_t *s, const side_task_call_t *call, const process_t *process) {
    redis_error_t *error = call->redis.error;
    if (error->outcome != OUTCOME_REFUSED) return;
    if (!process->told)
        log_error(ROLE, s->at->config->name, "cannot give back jobs of a process that is gone", F_STR("process", process->key),
                  F_STR("reason", error->text));
    *error = (redis_error_t){0};
}

static void process_log(const processes_t *s, process_t *process, const tally_t *tally, bool pro) {
    bool stays = tally->foreign || tally->large || pro;
    if (tally->retried || tally->ended || (tally->young && !process->told))
        log_warn(ROLE, s->at->config->name, "a process of Sidekiq is gone", F_STR("process", process->key),
                 F_INT("retried", tally->retried), F_INT("ended", tally->ended), F_INT("young", tally->young));
    if (stays && !process->told)
        log_warn(ROLE, s->at->config->name, "left jobs of a process that is gone", F_STR("process", process->key),
                 F_INT("foreign", tally->foreign), F_INT("large", tally->large), F_INT("super_fetch", pro));
    process->told |= stays || tally->young;
}

// Whether the process gives back its jobs by itself: its label on Sidekiq's page Busy is `reliable`.
static bool process_is_reliable(slice_t info) {
    json_pick_t pick = {.pointer = "/labels"};
    if (!json_pick(info, &pick, 1) || pick.found != JSON_FOUND) return false;
    char *labels = mem_printf("%.*s", (int)pick.value.raw.len, pick.value.raw.data);
    bool reliable = strstr(labels, "\"reliable\"") != NULL;
    free(labels);
    return reliable;
}

// Settles the jobs of a reply of sidekiq_work.lua.
static void process_settle(processes_t *s, side_task_call_t *call, process_t *process, const redisReply *reply) {
    tally_t tally = {.large = reply_int(reply_at(reply, 5))};
    double beat = strtod(reply_text(reply_at(reply, 3)), NULL);
    if (beat > 0) beat += (double)reply_int(reply_at(reply, 6)) / 1000;
    bool pro = process_is_reliable(reply_slice(reply_at(reply, 4)));
    size_t most = pro ? 0 : sidekiq_work_count(reply), count = 0;
    work_t *works = mem_array(most + 1, sizeof *works);
    for (size_t i = 0; i < most; i++) {
        works[count] = (work_t){.field = sidekiq_work_field(reply, i), .value = sidekiq_work_value(reply, i)};
        if (work_read(s, beat, &works[count], &tally))
            count++;
        else
            buffer_free(&works[count].of.payload);
    }
    if (count) works_settle(s, call, process, reply, works, count, &tally);
    for (size_t i = 0; i < count; i++) {
        buffer_free(&works[i].of.payload);
        job_record_free(&works[i].record);
    }
    free(works);
    process_skip_refusal(s, call, process);
    if (tally.again) process->due = mono_add(call->now, LATER_MS * NS_PER_MS);
    snprintf(process->cursor, sizeof process->cursor, "%s", reply_text(reply_at(reply, 7)));
    process->dead = !sidekiq_cursor_ended(process->cursor);
    process_log(s, process, &tally, pro && sidekiq_work_count(reply) > 0);
}

static outcome_t process_recover(processes_t *s, side_task_call_t *call, process_t *process) {
    conn_t *conn = call->redis.conn;
    redisReply *reply;
    const sidekiq_page_t page = {process->key, processes_dead_ttl(s), PAGE_BYTES, PAGE_JOBS, process->cursor};
    sidekiq_work_append(conn, s->at->config, &page);
    // A process that comes back and dies is due later.
    if (sidekiq_cursor_ended(process->cursor)) process->due = mono_add(call->now, LIST_MS * NS_PER_MS);
    process->dead = false;
    *process->cursor = '\0';
    if (call_ask(&call->redis, &reply) != OUTCOME_OK) {
        process_skip_refusal(s, call, process);
        return call->redis.error->outcome;
    }
    if (script_reply_begins(reply, "work", "alive", call->redis.error) && reply_is(reply_at(reply, 0), "work"))
        process_settle(s, call, process, reply);
    freeReplyObject(reply);
    return call->redis.error->outcome;
}

// ---- The step.

// Notes the time left of a process. False: it has no keys any more.
static bool process_read_ttl(const processes_t *s, process_t *process, int64_t ttl, mono_t now) {
    int64_t left = ttl == -1 ? LIST_MS : ttl - processes_dead_ttl(s); // -1: somebody has taken its expiry away
    if (ttl == -2) return false;
    process->dead = left <= 0;
    process->due = mono_add(now, (left + 1) * NS_PER_MS);
    return true;
}

static outcome_t processes_ask(processes_t *s, side_task_call_t *call) {
    size_t asked[ASKED], count = 0;
    for (size_t i = 0; i < s->count && count < ASKED; i++)
        if (!s->all[i].dead && mono_reached(s->all[i].due, call->now)) asked[count++] = i;
    for (size_t i = 0; i < count; i++) request_append(call->redis.conn, "PTTL", s->all[asked[i]].key);
    for (size_t i = 0; i < count; i++) {
        process_t *process = &s->all[asked[i]];
        redis_error_t refusal;
        redisReply *reply = conn_read_or_refusal(call->redis.conn, &refusal, call->redis.error);
        process->due = mono_add(call->now, LIST_MS * NS_PER_MS); // if Redis refuses
        if (reply && !process_read_ttl(s, process, reply_int(reply), call->now)) process->due = mono_never();
        conn_reply_free(reply);
    }
    for (size_t i = s->count; i-- > 0;) {
        if (s->all[i].due.ns != mono_never().ns) continue;
        free(s->all[i].key);
        s->all[i] = s->all[--s->count];
    }
    return call->redis.error->outcome;
}

// Recovers the jobs of one process.
static outcome_t processes_recover(processes_t *s, side_task_call_t *call) {
    size_t i = 0;
    while (i < s->count && !s->all[i].dead) i++;
    return i < s->count ? process_recover(s, call, &s->all[i]) : OUTCOME_OK;
}

static bool processes_keep_stamp(void *self, const uint8_t field[STAMP_FIELD_BYTES], stamp_t *stamp) {
    const processes_t *s = self;
    (void)field;
    return s->now_ms - stamp->retried_at < s->window_ms;
}

static outcome_t processes_prune(processes_t *s, side_task_call_t *call) {
    s->window_ms = sidekiq_config(s->at->config)->recovery_window_ms;
    outcome_t outcome = stamps_prune(&call->redis, &s->pruned, processes_keep_stamp, s);
    if (outcome == OUTCOME_OK && !s->pruned) s->prune_at = mono_add(call->now, PRUNE_MS * NS_PER_MS);
    return outcome;
}

static outcome_t processes_step(void *state, side_task_call_t *call) {
    processes_t *s = state;
    if (mono_reached(s->list_at, call->now) && processes_list(s, call) != OUTCOME_OK) return call->redis.error->outcome;
    if (processes_ask(s, call) != OUTCOME_OK) return call->redis.error->outcome;
    if (processes_recover(s, call) != OUTCOME_OK) return call->redis.error->outcome;
    // Before the first job is given back, Redis's time is unknown, and all stamps stay.
    if (mono_reached(s->prune_at, call->now) && s->now_ms && processes_prune(s, call) != OUTCOME_OK)
        return call->redis.error->outcome;
    call->next = s->now_ms ? mono_min(s->list_at, s->prune_at) : s->list_at;
    for (size_t i = 0; i < s->count; i++) call->next = mono_min(call->next, s->all[i].dead ? call->now : s->all[i].due);
    return OUTCOME_OK;
}

const side_task_ops_t sidekiq_processes_task = {
    .open = processes_open, .close = processes_close, .forget = processes_forget, .step = processes_step};
