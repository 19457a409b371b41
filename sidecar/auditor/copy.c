// Writes the entries of replies to the log, commits them, and acknowledges them. A transaction costs an fsync, so it takes the
// entries of several replies. It ends with the turn: the writer may be shared.
#include <assert.h>

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"

enum {
    TRANSACTION_ENTRIES = 8192,          // after so many entries the transaction is committed,
    TRANSACTION_BYTES = 4 * 1024 * 1024, // or after so many bytes
    CLOCK_SUSPECT_MS = 60000,            // a new record that is older than this causes a read of Redis's clock
    CLOCK_FRESH_MS = 1000,               // unless the clock was read since
};

static const char ROLE[] = "auditor";

static int64_t copy_entry_age_ms(const auditor_t *a, const char *id) {
    int64_t age = auditor_redis_ms(a) - stream_id_ms(id);
    return age > 0 ? age : 0;
}

// A new record with an old time has two causes: the record has waited, or Redis's clock went back. Retention must know the
// cause.
static void copy_check_clock(auditor_t *a, int64_t at) {
    mono_t now = mono_now();
    if (auditor_redis_ms(a) - at > CLOCK_SUSPECT_MS && mono_diff(now, a->redis.now_at) > CLOCK_FRESH_MS * NS_PER_MS)
        a->timers.reconcile_at = now;
}

static void copy_skip_entry(auditor_t *a, size_t queue, const char *id, const char *reason) {
    log_warn(ROLE, auditor_queue_name(a, queue), "skipping invalid entry in failure stream", F_STR("id", id),
             F_STR("reason", reason));
    metric_add(&a->metrics->audit_faults, 1);
}

// The id of an entry is at least as late as the `at` of an honest record, whatever has happened to Redis's clock since.
static bool copy_check_entry(auditor_t *a, size_t queue, const char *id, const event_t *event) {
    buffer_t why = {0};
    int64_t now_ms = auditor_redis_ms(a), id_ms = stream_id_ms(id);
    bool valid = event_check(event, id_ms > now_ms ? id_ms : now_ms, &why);
    bool of_a_log = event_is_of_a_log(event);
    if (valid && of_a_log) buffer_str(&why, "is of a kind that only an audit log has");
    if (!valid || of_a_log) copy_skip_entry(a, queue, id, buffer_text(&why));
    buffer_free(&why);
    return valid && !of_a_log;
}

// False: the write failed.
static bool copy_insert(auditor_t *a, size_t queue, const char *id, const event_t *event) {
    bool fits;
    if (!audit_writer_begin(a->writer)) return false;
    // The failure that is answered may be one of those before.
    if (event_is_answer(event) && !audit_writer_flush(a->writer)) return false;
    if (!audit_writer_answer_fits(a->writer, event, &fits)) return false;
    if (fits) return audit_writer_insert_later(a->writer, event);
    copy_skip_entry(a, queue, id, EVENT_ANSWERS_OTHER);
    return true;
}

static void copy_entry(void *self, size_t queue, const char *id, const event_t *entry, size_t bytes) {
    auditor_t *a = self;
    stream_reply_t *reply = &a->reply;
    event_t event = *entry;
    (void)bytes;
    snprintf(a->copied.events[queue], EVENT_ID_SIZE, "%.*s", entry->event.len ? (int)entry->event.len : 1,
             entry->event.len ? entry->event.data : STREAM_NO_EVENT);
    if (reply->write_failed) return;
    if (event.queue.len == 0) event.queue = slice_text(auditor_queue_name(a, queue));
    if (!copy_check_entry(a, queue, id, &event)) return;
    bool is_new = stream_id_compare(id, a->cursors[queue].logged_id) > 0;
    // Retention may have removed this record before. After Redis's clock went back, a new record may have an old time too.
    if (!is_new && audit_has_removed(a->writer->audit, event.at)) return;
    if (is_new) {
        a->cursors[queue].growth_left--;
        int64_t age_ms = copy_entry_age_ms(a, id);
        if (age_ms > reply->oldest_ms) reply->oldest_ms = age_ms;
        copy_check_clock(a, event.at);
    }
    reply->write_failed = !copy_insert(a, queue, id, &event);
}

void auditor_forget_copied(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++) *a->copied.ends[i] = '\0';
    a->copied = (copied_t){.ends = a->copied.ends, .events = a->copied.events};
}

void auditor_drop_copied(auditor_t *a) {
    audit_writer_rollback(a->writer);
    auditor_forget_copied(a);
}

// False: the write failed, and nothing has changed.
static bool copy_commit_positions(auditor_t *a) {
    if (!audit_writer_begin(a->writer)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        const char *end = a->copied.ends[i];
        if (!*end || stream_id_compare(end, a->cursors[i].logged_id) <= 0) continue;
        if (!audit_writer_set_position(a->writer, auditor_queue_name(a, i), end)) return false;
    }
    if (!audit_writer_flush(a->writer)) return false;
    failpoint("audit_before_commit");
    if (!audit_writer_commit(a->writer)) return false;
    failpoint("audit_committed");
    return true;
}

void auditor_set_missing_since(auditor_t *a, int64_t ns) {
    int64_t first = ns;
    atomic_store(&a->missing_since_ns, ns);
    for (size_t i = 0; i < a->share->auditor_count; i++) {
        int64_t other = atomic_load(&a->share->auditors[i]->missing_since_ns);
        if (other && (!first || other < first)) first = other;
    }
    metric_set(&a->metrics->audit_lacks_ns, first);
}

void auditor_note_missing(auditor_t *a, int64_t age_ms) {
    int64_t since_ns = mono_now().ns - age_ms * NS_PER_MS;
    if (since_ns < 1) since_ns = 1;
    if (a->missing_since_ns == 0 || since_ns < a->missing_since_ns) auditor_set_missing_since(a, since_ns);
}

bool auditor_acknowledge_copied(auditor_t *a) {
    copied_t *copied = &a->copied;
    if (!copied->ack_due) return true;
    copied->ack_due = false;
    failpoint("audit_before_acknowledge");
    if (!auditor_acknowledge(a, (const stream_id_t *)copied->ends)) return false;
    failpoint("audit_acknowledged");
    if (a->read.careful > 0) a->read.careful--;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        if (!*copied->ends[i]) continue;
        stream_id_set(a->cursors[i].acked_id, copied->ends[i]);
        memcpy(a->cursors[i].acked_event, copied->events[i], sizeof *copied->events);
    }
    auditor_forget_copied(a);
    return true;
}

// Entries after the last reply are at most as old as its last ones.
static void copy_note_rest(auditor_t *a) {
    int64_t oldest_ms = 0;
    auditor_set_missing_since(a, 0);
    if (!a->reply.full) return;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->reply.ends[i] && copy_entry_age_ms(a, a->reply.ends[i]) > oldest_ms)
            oldest_ms = copy_entry_age_ms(a, a->reply.ends[i]);
    auditor_note_missing(a, oldest_ms);
}

bool auditor_commit_copied(auditor_t *a) {
    if (!a->copied.entries) return true;
    assert(!a->copied.ack_due); // the positions of the last transaction were acknowledged, or forgotten with its connection
    if (!copy_commit_positions(a)) {
        auditor_drop_copied(a);
        return false;
    }
    a->retained = false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        if (!*a->copied.ends[i]) continue;
        stream_id_set(cursor->read_id, a->copied.ends[i]);
        if (stream_id_compare(cursor->read_id, cursor->logged_id) > 0) stream_id_set(cursor->logged_id, cursor->read_id);
        // XREAD goes on behind read_id, so an entry up to it that is not on disk would never come.
        assert(stream_id_compare(cursor->read_id, cursor->logged_id) <= 0);
    }
    a->committed = a->copied.entries;
    a->copied.entries = 0;
    a->copied.ack_due = true;
    copy_note_rest(a);
    audit_writer_note_added(a->writer);
    return a->read.in_flight || !conn_is_open(a->redis.conn) || auditor_acknowledge_copied(a);
}

bool auditor_transaction_ends(const auditor_t *a) {
    return a->copied.entries + a->reply.entries >= TRANSACTION_ENTRIES || a->copied.bytes + a->reply.bytes >= TRANSACTION_BYTES;
}

bool auditor_copy_reply(auditor_t *a) {
    const stream_reply_t *reply = &a->reply;
    copied_t *copied = &a->copied;
    const bool full = auditor_transaction_ends(a);
    stream_read_each(a->redis.conn, a->keys, copy_entry, a);
    auditor_note_missing(a, reply->oldest_ms);
    if (reply->write_failed) {
        auditor_drop_copied(a);
        return false;
    }
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*reply->ends[i]) stream_id_set(copied->ends[i], reply->ends[i]);
    copied->entries += reply->entries;
    copied->bytes += reply->bytes;
    return (a->read.in_flight && !full) || auditor_commit_copied(a);
}
