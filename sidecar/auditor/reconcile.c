// Compares the log with the streams: finds gaps, streams that were reset, and acknowledgements that a lost log cannot honour.
// Also has the helpers of all files of the auditor.

#include <assert.h>

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "redis/failure.h"

enum {
    RECONCILE_S = 60,            // time between two comparisons
    CLOCK_STEP_MS = 1000,        // two reads of Redis's clock may differ by this and by the duration of the requests
    RECONCILE_UNREADABLE_S = 30, // time between two comparisons while a stream is unreadable
    // A comparison that is not of all streams is of this fraction of them, but at least of so many.
    RECONCILE_PARTS = 5,
    RECONCILE_PART_MIN = 10,
    // If only comparisons find new entries, the time begins at a second for so many streams, and doubles while none is found.
    RECONCILE_SLOTS_STREAMS = 10,
    RECONCILE_SLOTS_MAX_S = 40,
};

static const char ROLE[] = "auditor";

const char *auditor_queue_name(const auditor_t *a, size_t queue) { return a->keys->queues[queue].config->name; }

void stream_id_set(stream_id_t id, const char *text) { snprintf(id, STREAM_ID_SIZE, "%s", text); }

int64_t auditor_redis_ms(const auditor_t *a) { return a->redis.now_ms + mono_diff(mono_now(), a->redis.now_at) / NS_PER_MS; }

const char *auditor_copied_end(const auditor_t *a, size_t queue) {
    const char *end = a->copied.entries ? a->copied.ends[queue] : "";
    return *end ? end : a->cursors[queue].read_id;
}

const char *auditor_position(const auditor_t *a, size_t queue) {
    const char *copied = auditor_copied_end(a, queue), *logged = a->cursors[queue].logged_id;
    return stream_id_compare(copied, logged) > 0 ? copied : logged;
}

bool auditor_back_off(auditor_t *a, const redis_error_t *error) {
    backoff_failed(&a->redis.backoff, mono_now());
    if (error->kind == ERROR_NO_RIGHT)
        log_warn(ROLE, NULL, "redis refuses the auditor; no record is copied", F_STR("reason", error->text));
    else
        conn_report_failure(a->redis.conn, ROLE, error);
    if (error->outcome == OUTCOME_DISCONNECTED) conn_close(a->redis.conn);
    if (!conn_is_open(a->redis.conn)) {
        a->read.in_flight = false;
        metric_add(&a->metrics->reconnects, 1);
    }
    return false;
}

// Acknowledged records may be trimmed, so they must be on disk.
bool auditor_acknowledge(auditor_t *a, const stream_id_t *positions) {
    redis_error_t error;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        assert(!*positions[i] || stream_id_compare(positions[i], a->cursors[i].logged_id) <= 0);
    outcome_t outcome = stream_acknowledge(a->redis.conn, a->keys, a->writer->instance, positions, &error);
    if (outcome == OUTCOME_OK) return true;
    if (outcome != OUTCOME_REFUSED) {
        a->timers.renew_acks_at = mono_now(); // renew the acknowledgements as soon as possible
        return auditor_back_off(a, &error);
    }
    log_error(ROLE, NULL, "cannot acknowledge records; their failure stream is not trimmed", F_STR("reason", error.text));
    metric_add(&a->metrics->audit_faults, 1);
    return true;
}

// Why the log may lack records of a stream.
typedef struct gap_cause {
    const char *reason, *text;
    int64_t life;        // part of the row's id: the gaps of two lost logs get different ids; 0 = no log was lost
    const char *message; // message for a new gap; NULL = no message
} gap_cause_t;

static const gap_cause_t GAP_TRIMMED = {
    .reason = "trimmed",
    .text =
        "records after the first of these ids, up to the second, were trimmed from the failure stream before this log had them",
    .message = "failure stream was trimmed before its records were copied"};

static const gap_cause_t GAP_REMOVED = {
    .reason = "removed_by_others",
    .text =
        "records after the first of these ids and before the second may be missing: the failure stream was trimmed or deleted "
        "by others before this log had them",
    .message = "failure stream was trimmed or deleted by others; records may be missing"};

static const gap_cause_t GAP_OVERTAKEN = {
    .reason = "trimmed",
    .text =
        "records after the first of these ids and before the second may have been trimmed from the failure stream before this "
        "log had them",
    .message = "failure stream was trimmed while its records were copied; records may be missing"};

// Adds the gap after the id `after`, up to `end`. The id of the row is made from its range. So the same gap stays one row, even
// if it is found again.
static bool reconcile_insert_gap(auditor_t *a, size_t queue, const gap_cause_t *cause, const char *after, const char *end) {
    char id[EVENT_ID_SIZE];
    char *range = mem_printf("%s..%s", after, end);
    event_t event = {.kind = slice_text("gap"),
                     .dialect = slice_text(config_dialect_word(a->keys->queues[queue].config->dialect)),
                     .queue = slice_text(auditor_queue_name(a, queue)),
                     .job = slice_text(range),
                     .reason = slice_text(cause->reason),
                     .error = slice_text(cause->text),
                     .group = slice_text(a->keys->config->group),
                     .at = a->redis.now_ms};
    bool added = false;
    event_id(&event, cause->life, 0, id);
    bool done = audit_writer_insert(a->writer, &event, &added);
    if (added) metric_add(&a->metrics->gaps, 1);
    if (added && cause->message)
        log_warn(ROLE, auditor_queue_name(a, queue), cause->message, F_STR("after", after), F_STR("end", end));
    free(range);
    return done;
}

// The last entry of the log is gone from the stream, and no trim of the sidecar removed it.
static bool reconcile_was_cut(const stream_cursor_t *cursor, const stream_ends_t *state) {
    bool begun = strcmp(cursor->logged_id, STREAM_ID_NONE) != 0 && strcmp(state->first, STREAM_ID_NONE) != 0;
    return begun && stream_id_compare(state->first, cursor->logged_id) > 0 &&
           stream_id_compare(state->trimmed, cursor->logged_id) < 0;
}

// Sixty bits of the name of a lost log. So each lost log gets gap rows of its own.
static int64_t reconcile_life(const char *instance) {
    char digits[16];
    snprintf(digits, sizeof digits, "%.15s", instance);
    return (int64_t)strtoull(digits, NULL, 16);
}

// After a loss the new log gets only the records that are still in the streams.
static bool reconcile_insert_loss(auditor_t *a, const audit_loss_t *loss) {
    char *text =
        mem_printf("this log replaced a lost one (%s%s%s): of earlier records it holds only those that the failure stream "
                   "still held. Other instances may have the rest: `audit import FILE`",
                   loss->reason, *loss->set_aside_as ? ", the old one is " : "", loss->set_aside_as);
    const gap_cause_t lost = {.reason = loss->reason, .text = text, .life = reconcile_life(a->writer->instance)};
    bool done = audit_writer_begin(a->writer);
    for (size_t i = 0; done && i < a->keys->queue_count; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        const char *last = a->states[i].trimmed;
        bool trimmed = stream_id_compare(last, cursor->logged_id) > 0 && stream_id_compare(last, a->states[i].last) <= 0;
        done = reconcile_insert_gap(a, i, &lost, STREAM_ID_NONE, trimmed ? last : cursor->logged_id) &&
               (!trimmed || audit_writer_set_position(a->writer, auditor_queue_name(a, i), last));
        if (done && trimmed) stream_id_set(cursor->logged_id, last);
    }
    free(text);
    failpoint("audit_loss_before_commit");
    return done && audit_writer_commit(a->writer);
}

// Whether the auditors of all shards have noted the loss of a log.
static bool reconcile_all_verified(const auditor_t *a) {
    for (size_t i = 0; i < a->share->auditor_count; i++) {
        const auditor_t *other = a->share->auditors[i];
        if (other->opened != a->opened || other->acks_unverified) return false;
    }
    return true;
}

// Trimming trusts acknowledgements. So revoke acknowledgements that a lost or restored log cannot honour.
static bool auditor_revoke_acks(auditor_t *a) {
    redis_error_t error;
    int64_t queues;
    const audit_loss_t *loss = audit_loss(a->writer->audit);
    if (!a->acks_unverified) return true;
    if (loss && stream_revoke_acks(a->redis.conn, a->keys, loss->instance, NULL, &queues, &error) != OUTCOME_OK)
        return auditor_back_off(a, &error);
    for (size_t i = 0; i < a->keys->queue_count; i++) stream_id_set(a->read.positions[i], a->cursors[i].logged_id);
    if (stream_revoke_acks(a->redis.conn, a->keys, a->writer->instance, (const stream_id_t *)a->read.positions, &queues,
                           &error) != OUTCOME_OK)
        return auditor_back_off(a, &error);
    if (queues > 0)
        log_warn(ROLE, NULL, "acknowledgements are ahead of the audit log; reading failure streams again",
                 F_STR("path", a->writer->path), F_INT("queues", queues));
    failpoint("audit_loss_forgotten");
    if (loss && !reconcile_insert_loss(a, loss)) return false;
    failpoint("audit_loss_noted");
    a->acks_unverified = false;
    return !loss || !reconcile_all_verified(a) || audit_writer_clear_loss(a->writer);
}

static bool reconcile_set_position(auditor_t *a, size_t queue, const char *position) {
    if (!audit_writer_set_position(a->writer, auditor_queue_name(a, queue), position) || !audit_writer_commit(a->writer))
        return false;
    stream_id_set(a->cursors[queue].logged_id, position);
    return true;
}

// Redis has lost a part of the stream, or all of it: no entry of the stream counts as copied, because new records may have got
// the ids of lost ones. The acknowledgement goes down. If the stream is gone, every record after the log's position up to now may
// be missing.
static bool reconcile_reset_stream(auditor_t *a, size_t queue, const char *trimmed) {
    stream_cursor_t *cursor = &a->cursors[queue];
    const char *last = a->states[queue].last;
    stream_id_t now;
    stream_id_set(cursor->read_id, STREAM_ID_NONE);
    stream_id_set(cursor->acked_id, STREAM_ID_NONE);
    snprintf(now, sizeof now, "%lld-0", (long long)a->redis.now_ms);
    for (size_t i = 0; i < a->keys->queue_count; i++) stream_id_set(a->read.positions[i], i == queue ? trimmed : "");
    if (!auditor_acknowledge(a, (const stream_id_t *)a->read.positions) || !audit_writer_begin(a->writer)) return false;
    if (strcmp(last, STREAM_ID_NONE) == 0 && !reconcile_insert_gap(a, queue, &GAP_REMOVED, cursor->logged_id, now)) return false;
    return reconcile_set_position(a, queue, trimmed);
}

// Streams only grow. So an entry that is still in the stream with its event proves that no earlier entry has changed. Without
// this proof a new connection may lead to a server that has lost the end of the stream and has given its ids to other records.
// Only an acknowledged entry proves it: others may have been read from a primary that was being replaced.
static bool reconcile_is_proved(const stream_cursor_t *cursor, const stream_ends_t *state) {
    bool known = strcmp(cursor->acked_id, STREAM_ID_NONE) != 0 && strcmp(cursor->acked_event, state->event) == 0;
    return !cursor->unproved || strcmp(cursor->read_id, STREAM_ID_NONE) == 0 || known;
}

// Why the proof is missing. Only the last cause is somebody else's doing.
static const char *reconcile_doubt(const stream_cursor_t *cursor, const stream_ends_t *state, const char *trimmed) {
    if (strcmp(cursor->acked_id, STREAM_ID_NONE) == 0) return "the connection ended before the first acknowledgement";
    if (!*state->event && stream_id_compare(trimmed, cursor->acked_id) >= 0) return "its last copied record was trimmed";
    return "its last copied record is gone";
}

// Inserts a gap if records above the log's position were removed. False: a write failed.
static bool reconcile_insert_gaps(auditor_t *a, size_t queue, const char *trimmed) {
    const stream_cursor_t *cursor = &a->cursors[queue];
    const stream_ends_t *state = &a->states[queue];
    if (stream_id_compare(trimmed, cursor->logged_id) > 0)
        return audit_writer_begin(a->writer) && reconcile_insert_gap(a, queue, &GAP_TRIMMED, cursor->logged_id, trimmed) &&
               reconcile_set_position(a, queue, trimmed);
    if (!reconcile_was_cut(cursor, state)) return true;
    return audit_writer_begin(a->writer) && reconcile_insert_gap(a, queue, &GAP_REMOVED, cursor->logged_id, state->first) &&
           audit_writer_commit(a->writer);
}

// An XREAD does not tell that a trim has removed entries between the position of the log and `first`, its first new entry. The
// state of the stream was read later: `first` may be trimmed itself since.
static bool reconcile_check_overtaken(auditor_t *a, size_t queue, const char *first) {
    const stream_ends_t *state = &a->states[queue];
    const char *logged = auditor_position(a, queue);
    if (state->error || stream_id_compare(state->trimmed, logged) <= 0) return true;
    if (stream_id_compare(state->trimmed, state->last) > 0) return true; // of an earlier stream
    bool before = stream_id_compare(state->trimmed, first) < 0;
    return audit_writer_begin(a->writer) &&
           reconcile_insert_gap(a, queue, before ? &GAP_TRIMMED : &GAP_OVERTAKEN, logged, before ? state->trimmed : first);
}

bool auditor_check_reply(auditor_t *a) {
    redis_error_t error;
    const stream_id_t *firsts = (const stream_id_t *)a->reply.firsts;
    bool overtaken = false;
    int64_t now_ms;
    outcome_t outcome = stream_read_counts(a->redis.conn, a->keys, firsts, a->states, &error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < a->keys->queue_count; i++) {
        if (!*firsts[i]) continue;
        a->cursors[i].room_left = stream_room(a->keys) - a->states[i].bytes;
        overtaken = overtaken || stream_id_compare(a->states[i].trimmed, auditor_position(a, i)) > 0;
    }
    if (overtaken) outcome = stream_read_ends(a->redis.conn, a->keys, NULL, a->states, &now_ms, &error);
    if (outcome != OUTCOME_OK) return auditor_back_off(a, &error);
    for (size_t i = 0; overtaken && i < a->keys->queue_count; i++)
        if (*firsts[i] && !reconcile_check_overtaken(a, i, firsts[i])) return false;
    return true;
}

// Compares the log's position with the stream: inserts a gap or resets the position. False: a write or a request failed.
static bool reconcile_stream(auditor_t *a, size_t queue) {
    stream_cursor_t *cursor = &a->cursors[queue];
    const stream_ends_t *state = &a->states[queue];
    // An id above the last id of the stream is from before a reset of the stream.
    const char *trimmed = stream_id_compare(state->trimmed, state->last) <= 0 ? state->trimmed : STREAM_ID_NONE;
    bool proved = reconcile_is_proved(cursor, state), shorter = stream_id_compare(state->last, cursor->logged_id) < 0;
    if (shorter || !proved)
        log_info(ROLE, auditor_queue_name(a, queue), "reading failure stream from the beginning, to miss no record",
                 F_STR("reason", shorter ? "it was reset" : reconcile_doubt(cursor, state, trimmed)),
                 F_STR("was_at", cursor->logged_id), F_STR("is_at", state->last));
    bool done = shorter ? reconcile_reset_stream(a, queue, trimmed)
                        : reconcile_insert_gaps(a, queue, trimmed) && (proved || reconcile_reset_stream(a, queue, trimmed));
    if (!done) return false;
    if (cursor->unproved && strcmp(cursor->read_id, STREAM_ID_NONE) != 0) stream_id_set(cursor->read_id, cursor->acked_id);
    cursor->unproved = false;
    return true;
}

// *found: the stream has become unreadable.
static void reconcile_check_readable(auditor_t *a, size_t queue, bool *found) {
    stream_cursor_t *cursor = &a->cursors[queue];
    const char *error = a->states[queue].error;
    bool was = cursor->unreadable;
    cursor->unreadable = error != NULL;
    if (was && !cursor->unreadable) log_info(ROLE, auditor_queue_name(a, queue), "failure stream can be read again");
    if (was || !cursor->unreadable) return;
    LOG_AT(error_kind_is_slot(a->states[queue].error_kind) ? LOG_INFO : LOG_ERROR, ROLE, auditor_queue_name(a, queue),
           "cannot read failure stream; skipping it", F_STR("reason", error));
    metric_add(&a->metrics->audit_faults, 1);
    if (found) *found = true;
}

// Another primary may have another clock, and jobs go by it. `asked`: when the time was requested.
static void reconcile_take_time(auditor_t *a, int64_t now_ms, mono_t asked) {
    auditor_redis_t *redis = &a->redis;
    mono_t now = mono_now();
    if (!now_ms) return; // no stream could be read
    int64_t took_ms = mono_diff(now, asked) / NS_PER_MS;
    int64_t step_ms = redis->now_ms ? now_ms - redis->now_ms - mono_diff(now, redis->now_at) / NS_PER_MS : 0;
    if (llabs(step_ms) > CLOCK_STEP_MS + took_ms + redis->now_took_ms) {
        metric_set(&a->metrics->redis_clock_step_ms, step_ms);
        log_warn(ROLE, NULL, "redis's clock has stepped", F_INT("step_ms", step_ms), F_STR("redis", conn_target(redis->conn)));
    }
    redis->now_ms = now_ms;
    redis->now_at = now;
    redis->now_took_ms = took_ms;
}

static int64_t reconcile_pause_s(auditor_t *a, bool unreadable, bool behind) {
    int64_t pause_s = unreadable ? RECONCILE_UNREADABLE_S : RECONCILE_S;
    int64_t first_s = 1 + (int64_t)a->keys->queue_count / RECONCILE_SLOTS_STREAMS;
    int64_t *slots_s = &a->timers.slots_pause_s;
    if (!a->read.one_by_one) return pause_s;
    *slots_s = behind || *slots_s == 0 ? first_s : 2 * *slots_s;
    if (*slots_s > RECONCILE_SLOTS_MAX_S) *slots_s = RECONCILE_SLOTS_MAX_S;
    return *slots_s < pause_s ? *slots_s : pause_s;
}

// The event of the last acknowledged entry proves that the stream is the same. The first id tells whether others have removed
// entries that the log lacks.
static stream_wanted_t reconcile_wanted(const stream_cursor_t *cursor) {
    stream_wanted_t wanted = {0};
    bool proves = cursor->unproved && strcmp(cursor->read_id, STREAM_ID_NONE) != 0;
    bool begun = strcmp(cursor->logged_id, STREAM_ID_NONE) != 0;
    stream_id_set(wanted.event_of, proves ? cursor->acked_id : "");
    stream_id_set(wanted.after, begun ? cursor->logged_id : STREAM_ID_MAX);
    return wanted;
}

// Compares the cursors of the queues from `first` up to `end`.
static bool reconcile_range(auditor_t *a, size_t first, size_t end, bool *found) {
    redis_error_t error;
    bool unreadable = false, behind = false;
    int64_t now_ms;
    mono_t asked = mono_now();
    const call_t call = {a->redis.conn, a->keys, first, NULL, &error};
    stream_wanted_t *wanted = mem_array(a->keys->queue_count, sizeof *wanted);
    for (size_t i = first; i < end; i++) wanted[i] = reconcile_wanted(&a->cursors[i]);
    outcome_t outcome = stream_read_some_ends(&call, end - first, wanted, a->states, &now_ms);
    free(wanted);
    if (outcome != OUTCOME_OK) return auditor_back_off(a, &error);
    reconcile_take_time(a, now_ms, asked);
    if (!auditor_revoke_acks(a)) return false;
    for (size_t i = first; i < end; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        const stream_ends_t *state = &a->states[i];
        reconcile_check_readable(a, i, found);
        unreadable = unreadable || cursor->unreadable;
        if (cursor->unreadable) continue;
        cursor->growth_left = a->keys->config->stream.min_records - state->length;
        cursor->room_left = stream_room(a->keys) - state->bytes;
        if (!reconcile_stream(a, i)) return false;
        cursor->behind = stream_id_compare(state->last, cursor->read_id) > 0;
        behind = behind || cursor->behind;
    }
    a->timers.memory_at = mono_now();
    a->timers.reconcile_at = mono_add(mono_now(), reconcile_pause_s(a, unreadable, behind) * NS_PER_S);
    return true;
}

bool auditor_reconcile(auditor_t *a, bool *found) { return reconcile_range(a, 0, a->keys->queue_count, found); }

// A new log or a new connection may differ from every stream. An unreadable stream spoils the XREAD of others, and with an XREAD
// for each stream only a comparison finds new entries.
static bool reconcile_wants_all(const auditor_t *a) {
    bool all = a->acks_unverified || a->read.one_by_one;
    for (size_t i = 0; i < a->keys->queue_count; i++) all = all || a->cursors[i].unproved || a->cursors[i].unreadable;
    return all;
}

bool auditor_reconcile_next(auditor_t *a) {
    size_t count = a->keys->queue_count, first = a->timers.reconcile_from;
    size_t part = (count + RECONCILE_PARTS - 1) / RECONCILE_PARTS;
    if (part < RECONCILE_PART_MIN) part = RECONCILE_PART_MIN;
    if (reconcile_wants_all(a)) return auditor_reconcile(a, NULL);
    size_t end = count - first < part ? count : first + part;
    a->timers.reconcile_from = end < count ? end : 0;
    return reconcile_range(a, first, end, NULL);
}
