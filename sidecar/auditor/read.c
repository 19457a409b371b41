// Reads the failure streams, writes their entries to the log, and acknowledges them.
#include <malloc.h>

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"

enum {
    BLOCK_MAX_MS = 60000,               // longest wait of one XREAD
    REPLY_MAX_ENTRIES = 3000,           // entries of one reply; a reply is one transaction and costs an fsync
    REPLY_MAX_MEMORY = 6 * 1024 * 1024, // memory that one reply should take; REPLY_MAX_ENTRIES small entries take as much
    ENTRY_OVERHEAD = 1024,              // memory of an entry without its texts
    REPLY_MAX_BYTES = 4 * 1024 * 1024,  // received bytes after which a reply is aborted and a smaller one is requested
    AHEAD_MIN_ENTRIES = 64,             // of a reply during which Redis makes the next one
    RELEASE_MEMORY_FROM = 1024 * 1024,  // trim malloc's free memory after a reply larger than this
    CLOCK_SUSPECT_MS = 60000,           // a new record that is older than this causes a read of Redis's clock
    CLOCK_FRESH_MS = 1000,              // unless the clock was read since
};

static const char ROLE[] = "auditor";

// Puts the positions of the next XREAD into read->positions. `early`: the entries of the reply are not yet in the log. False: no
// stream is to be read. One XREAD cannot wait for streams in several slots, so of these it reads only those that a comparison has
// found to be behind.
static bool read_choose_streams(auditor_t *a, bool early) {
    stream_read_t *read = &a->read;
    size_t count = a->keys->queue_count, chosen = 0, last = 0;
    bool behind = false;
    for (size_t i = 0; i < count; i++) behind = behind || (a->cursors[i].behind && !a->cursors[i].unreadable);
    read->catching_up = (read->catching_up || read->one_by_one) && behind;
    bool one = read->catching_up;
    if (read->one_by_one && !behind) return false;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (read->first + n) % count;
        const stream_cursor_t *cursor = &a->cursors[queue];
        bool wanted = !cursor->unreadable && (!one || chosen == 0) && (!read->catching_up || cursor->behind);
        const char *from = early && *a->reply.ends[queue] ? a->reply.ends[queue] : cursor->read_id;
        stream_id_set(read->positions[queue], wanted ? from : "");
        if (!wanted) continue;
        chosen++;
        last = queue;
    }
    if (chosen == 0) return false;
    read->first = one ? (last + 1) % count : 0;
    if (one) read->streams = 1;
    return true;
}

static bool read_may_have_more(const auditor_t *a) { return a->read.catching_up || a->reply.full; }

// Returns how long the next XREAD may wait in Redis. If there may be more entries, it must not wait.
static int64_t read_block_ms(auditor_t *a, mono_t now) {
    if (read_may_have_more(a)) return 0;
    int64_t block_ms = mono_diff(auditor_next_timer(a), now) / NS_PER_MS;
    return block_ms < 1 ? 1 : block_ms < BLOCK_MAX_MS ? block_ms : BLOCK_MAX_MS;
}

static bool read_send(auditor_t *a, bool early) {
    stream_read_t *read = &a->read;
    redis_error_t error;
    mono_t now = mono_now();
    if (!read_choose_streams(a, early)) return early;
    int64_t block_ms = read_block_ms(a, now);
    read->count = read->budget / (read->streams ? read->streams : 1);
    if (read->count < 1) read->count = 1;
    read->received_before = conn_received(a->redis.conn);
    if (read->release_memory && !read_may_have_more(a)) {
        conn_release_flat(a->redis.conn);
        malloc_trim(0);
    }
    read->release_memory = read->release_memory && read_may_have_more(a);
    stream_read_append(a->redis.conn, a->keys, (const stream_id_t *)read->positions, read->count, block_ms);
    if (conn_flush(a->redis.conn, &error) != OUTCOME_OK) return auditor_back_off(a, &error);
    read->in_flight = true;
    read->deadline = mono_add(now, (block_ms + a->keys->config->redis.timeout_ms) * NS_PER_MS);
    return true;
}

bool auditor_send_read(auditor_t *a) { return read_send(a, false); }

static int64_t read_entry_age_ms(const auditor_t *a, const char *id) {
    int64_t age = auditor_redis_ms(a) - stream_id_ms(id);
    return age > 0 ? age : 0;
}

// A new record with an old time has two causes: the record has waited, or Redis's clock went back. Retention must know the
// cause.
static void read_check_clock(auditor_t *a, int64_t at) {
    mono_t now = mono_now();
    if (auditor_redis_ms(a) - at > CLOCK_SUSPECT_MS && mono_diff(now, a->redis.now_at) > CLOCK_FRESH_MS * NS_PER_MS)
        a->timers.reconcile_at = now;
}

static void read_skip_entry(auditor_t *a, size_t queue, const char *id, const char *reason) {
    log_warn(ROLE, auditor_queue_name(a, queue), "skipping invalid entry in failure stream", F_STR("id", id),
             F_STR("reason", reason));
    metric_add(&a->metrics->audit_faults, 1);
}

// The id of an entry is at least as late as the `at` of an honest record, whatever has happened to Redis's clock since.
static bool read_check_entry(auditor_t *a, size_t queue, const char *id, const event_t *event) {
    buffer_t why = {0};
    int64_t now_ms = auditor_redis_ms(a), id_ms = stream_id_ms(id);
    bool valid = event_check(event, id_ms > now_ms ? id_ms : now_ms, &why);
    bool of_a_log = slice_is(event->kind, "gap") || slice_is(event->kind, "filled");
    if (valid && of_a_log) buffer_str(&why, "is of a kind that only an audit log has");
    if (!valid || of_a_log) read_skip_entry(a, queue, id, buffer_text(&why));
    buffer_free(&why);
    return valid && !of_a_log;
}

// False: the write failed.
static bool read_insert(auditor_t *a, size_t queue, const char *id, const event_t *event) {
    bool fits, added = false;
    if (!audit_writer_begin(a->writer) || !audit_writer_answer_fits(a->writer, event, &fits)) return false;
    if (!fits)
        read_skip_entry(a, queue, id, EVENT_ANSWERS_OTHER);
    else if (!audit_writer_insert(a->writer, event, &added))
        return false;
    a->reply.added += added;
    return true;
}

static void read_entry(void *self, size_t queue, const char *id, const event_t *entry, size_t bytes) {
    auditor_t *a = self;
    stream_reply_t *reply = &a->reply;
    event_t event = *entry;
    (void)bytes;
    snprintf(reply->events[queue], EVENT_ID_SIZE, "%.*s", entry->event.len ? (int)entry->event.len : 1,
             entry->event.len ? entry->event.data : STREAM_NO_EVENT);
    if (reply->write_failed) return;
    if (event.queue.len == 0) event.queue = slice_text(auditor_queue_name(a, queue));
    if (!read_check_entry(a, queue, id, &event)) return;
    bool is_new = stream_id_compare(id, a->cursors[queue].logged_id) > 0;
    // Retention may have removed this record before. After Redis's clock went back, a new record may have an old time too.
    if (!is_new && audit_has_removed(a->writer->audit, event.at)) return;
    if (is_new) {
        a->cursors[queue].growth_left--;
        int64_t age_ms = read_entry_age_ms(a, id);
        if (age_ms > reply->oldest_ms) reply->oldest_ms = age_ms;
        read_check_clock(a, event.at);
    }
    reply->write_failed = !read_insert(a, queue, id, &event);
}

// Commits rows and positions in one transaction. False: the write failed, and nothing has changed.
static bool read_commit(auditor_t *a) {
    if (!audit_writer_begin(a->writer)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        const char *end = a->reply.ends[i];
        if (!*end || stream_id_compare(end, a->cursors[i].logged_id) <= 0) continue;
        if (!audit_writer_set_position(a->writer, auditor_queue_name(a, i), end)) return false;
    }
    failpoint("audit_before_commit");
    if (!audit_writer_commit(a->writer)) return false;
    failpoint("audit_committed");
    a->retained = false;
    metric_add(&a->metrics->audit_rows, a->reply.added);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        if (!*a->reply.ends[i]) continue;
        stream_id_set(cursor->read_id, a->reply.ends[i]);
        if (stream_id_compare(cursor->read_id, cursor->logged_id) > 0) stream_id_set(cursor->logged_id, cursor->read_id);
    }
    return true;
}

static int64_t read_min(int64_t a, int64_t b) { return a < b ? a : b; }

// XREAD counts entries, not bytes. Approach the right number in steps, by the size of the last reply.
static void read_adapt_budget(stream_read_t *read, const stream_reply_t *reply) {
    int64_t each = reply->bytes / reply->entries + 1;
    read->budget = read_min(4 * reply->entries, REPLY_MAX_ENTRIES);
    read->budget = read_min(read->budget, REPLY_MAX_MEMORY / (each + ENTRY_OVERHEAD));
    read->budget = read_min(read->budget, REPLY_MAX_BYTES / each);
    if (read->budget < 1) read->budget = 1;
    if (reply->bytes > RELEASE_MEMORY_FROM) read->release_memory = true;
}

static void read_set_missing_since(auditor_t *a, int64_t ns) {
    int64_t first = ns;
    atomic_store(&a->missing_since_ns, ns);
    for (size_t i = 0; i < a->share->auditor_count; i++) {
        int64_t other = atomic_load(&a->share->auditors[i]->missing_since_ns);
        if (other && (!first || other < first)) first = other;
    }
    metric_set(&a->metrics->audit_lacks_ns, first);
}

// Notes that the log lacks an entry of this age. Age 0: the log may lack a new entry.
static void read_note_missing(auditor_t *a, int64_t age_ms) {
    int64_t since_ns = mono_now().ns - age_ms * NS_PER_MS;
    if (since_ns < 1) since_ns = 1;
    if (a->missing_since_ns == 0 || since_ns < a->missing_since_ns) read_set_missing_since(a, since_ns);
}

// While an XREAD waits without an entry, the log is complete; or between two comparisons of streams in different slots.
void auditor_note_lag(auditor_t *a) {
    bool waits = a->read.in_flight || (a->read.one_by_one && conn_is_open(a->redis.conn));
    if (a->writer->audit && waits && !read_may_have_more(a))
        read_set_missing_since(a, 0);
    else
        read_note_missing(a, 0);
}

// Acknowledges the entries of the last reply. False: the request failed.
static bool read_acknowledge(auditor_t *a) {
    stream_reply_t *reply = &a->reply;
    a->read.ack_due = false;
    failpoint("audit_before_acknowledge");
    if (!auditor_acknowledge(a, (const stream_id_t *)reply->ends)) return false;
    failpoint("audit_acknowledged");
    a->read.failed = false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        if (!*reply->ends[i]) continue;
        stream_id_set(a->cursors[i].acked_id, reply->ends[i]);
        memcpy(a->cursors[i].acked_event, reply->events[i], sizeof *reply->events);
    }
    return true;
}

// While this process writes a reply to the log, Redis makes the next one. Timers come first. A reply that fails takes the
// acknowledgement of the one before with it, and without one a new connection begins where the last one began.
static bool read_ahead(auditor_t *a) {
    stream_reply_t *reply = &a->reply;
    reply->full = reply->entries >= a->read.count;
    read_adapt_budget(&a->read, reply);
    a->read.streams = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++) a->read.streams += *reply->ends[i] != '\0';
    bool ahead = reply->full && reply->entries >= AHEAD_MIN_ENTRIES && !a->read.failed;
    return !ahead || mono_reached(auditor_next_timer(a), mono_now()) || read_send(a, true);
}

// Stores the entries of a reply, and acknowledges them unless the next reply comes first. False: a write or a request failed.
static bool read_store(auditor_t *a) {
    stream_reply_t *reply = &a->reply;
    int64_t next_age_ms = 0; // entries after this reply are at most as old as its last ones
    stream_read_each(a->redis.conn, a->keys, read_entry, a);
    read_note_missing(a, reply->oldest_ms);
    if (reply->write_failed || !read_commit(a)) return false;
    read_set_missing_since(a, 0);
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*reply->ends[i] && read_entry_age_ms(a, reply->ends[i]) > next_age_ms)
            next_age_ms = read_entry_age_ms(a, reply->ends[i]);
    if (reply->full) read_note_missing(a, next_age_ms);
    a->read.ack_due = true;
    return a->read.in_flight || read_acknowledge(a);
}

// A stream of the wrong type makes Redis refuse the XREAD. Find this stream and skip it.
static bool read_refused(auditor_t *a, redis_error_t *error) {
    bool found = false;
    if (error->outcome != OUTCOME_REFUSED) return auditor_back_off(a, error);
    if (!a->read.one_by_one && strncmp(error->text, "CROSSSLOT", 9) == 0) {
        a->timers.reconcile_at = mono_now();
        return a->read.one_by_one = true;
    }
    if (!auditor_reconcile(a, &found)) return false;
    if (found) return true;
    error->outcome = OUTCOME_DISCONNECTED; // unknown cause: begin with a new connection
    return auditor_back_off(a, error);
}

// Aborts a reply that is too long and may hold more than one entry: closing the connection frees the memory here and in Redis.
static bool read_abort_oversized(auditor_t *a) {
    stream_read_t *read = &a->read;
    size_t streams = 0;
    if (conn_received(a->redis.conn) - read->received_before <= REPLY_MAX_BYTES) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) streams += *read->positions[i] != '\0';
    if (read->count == 1 && streams == 1) return false;
    log_debug(ROLE, NULL, "reading large records in smaller batches", F_INT("entries", read->count));
    conn_close(a->redis.conn);
    read->in_flight = false;
    read->release_memory = read->failed = true;
    read->budget = read->count > 16 ? read->count / 16 : 1;
    a->timers.reconcile_at = mono_now();
    return true;
}

// Reads what has arrived.
static outcome_t read_receive(auditor_t *a, bool *arrived, redis_error_t *error) {
    int64_t before;
    outcome_t outcome;
    do {
        before = conn_received(a->redis.conn);
        outcome = stream_read_reply(a->redis.conn, arrived, error);
    } while (outcome == OUTCOME_OK && !*arrived && conn_received(a->redis.conn) > before && !read_abort_oversized(a));
    return outcome;
}

// An empty reply, or one whose XREAD Redis refused.
static bool read_nothing(auditor_t *a) {
    backoff_reset(&a->redis.backoff); // not before: Redis may refuse XREAD alone
    a->reply.full = false;
    if (a->read.catching_up) return true;
    a->read.budget = 1;
    a->read.streams = 0;
    return true;
}

static void read_note_id(void *self, size_t queue, const char *id) {
    auditor_t *a = self;
    stream_reply_t *reply = &a->reply;
    stream_id_set(reply->ends[queue], id);
    reply->entries++;
    if (!*reply->firsts[queue] && stream_id_compare(id, a->cursors[queue].logged_id) > 0) stream_id_set(reply->firsts[queue], id);
}

static void read_begin_reply(auditor_t *a) {
    const stream_reply_t *reply = &a->reply;
    for (size_t i = 0; i < a->keys->queue_count; i++) *reply->ends[i] = *reply->firsts[i] = '\0';
    a->reply = (stream_reply_t){.ends = reply->ends, .firsts = reply->firsts, .events = reply->events, .full = reply->full};
}

// Every request comes before read_ahead, after which the next reply is that of the next XREAD.
static bool read_take_entries(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->read.positions[i]) a->cursors[i].behind = a->read.catching_up && a->reply.entries >= a->read.count;
    if (a->reply.entries == 0) return read_nothing(a);
    if (!auditor_check_reply(a)) return false;
    if (read_ahead(a)) return read_store(a);
    audit_writer_rollback(a->writer);
    return false;
}

static bool read_take(auditor_t *a, outcome_t outcome, redis_error_t *error) {
    if (outcome != OUTCOME_DISCONNECTED && a->read.ack_due && !read_acknowledge(a)) return false;
    read_begin_reply(a);
    if (outcome == OUTCOME_OK) outcome = stream_read_ids(a->redis.conn, a->keys, read_note_id, a, &a->reply.bytes, error);
    if (outcome == OUTCOME_OK) return read_take_entries(a);
    audit_writer_rollback(a->writer);
    return read_refused(a, error);
}

bool auditor_read_reply(auditor_t *a) {
    stream_read_t *read = &a->read;
    redis_error_t error;
    bool arrived;
    outcome_t outcome = read_receive(a, &arrived, &error);
    if (outcome == OUTCOME_OK && !arrived) {
        if (!read->in_flight || !mono_reached(read->deadline, mono_now())) return false;
        outcome = redis_error_set(&error, OUTCOME_DISCONNECTED, "%s: no reply in time", conn_target(a->redis.conn));
        read->budget = read->budget > 4 ? read->budget / 4 : 1; // the reply was perhaps too long for this network
        read->failed = true;
    }
    read->in_flight = false;
    return read_take(a, outcome, &error);
}
