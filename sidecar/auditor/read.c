// Reads the failure streams. A reply has as many entries as Redis can give in about a fourth of redis.slice, because it
// serves no other client meanwhile.
#include <malloc.h>
#include <poll.h>

#include "auditor/internal.h"
#include "base/log.h"
#include "redis/keepalive.h"

enum {
    REPLY_MAX_ENTRIES = 3000,          // entries of one reply
    ENTRY_NS = 1000,                   // an XREAD takes Redis about so long for an entry,
    KIB_NS = 1000,                     // and so long for a KiB of its texts
    REPLY_MAX_BYTES = 4 * 1024 * 1024, // received bytes after which a reply is aborted and a smaller one is requested
    AHEAD_MIN_ENTRIES = 64,            // of a reply during which Redis makes the next one, unless the slice allows fewer
    AWAIT_MS = 20,                     // an open transaction waits so long for the reply: a commit takes as long
    CAREFUL_REPLIES = 64,              // so many are acknowledged one by one after one that was too large: it comes again
    RELEASE_MEMORY_FROM = 1024 * 1024, // trim malloc's free memory after this many bytes of replies
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
        const char *from = early && *a->reply.ends[queue] ? a->reply.ends[queue] : auditor_copied_end(a, queue);
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

static int64_t read_min(int64_t a, int64_t b) { return a < b ? a : b; }

static bool read_may_have_more(const auditor_t *a) { return a->read.catching_up || a->reply.full; }

// Returns how long the next XREAD may wait in Redis. If there may be more entries, it must not wait.
static int64_t read_block_ms(auditor_t *a, mono_t now) {
    if (read_may_have_more(a)) return 0;
    int64_t block_ms = mono_diff(auditor_next_timer(a), now) / NS_PER_MS;
    return read_min(block_ms < 1 ? 1 : block_ms, conn_keep_alive_ms(a->redis.conn));
}

// Before a wait.
static void read_release_memory(auditor_t *a) {
    stream_read_t *read = &a->read;
    if (!read->release_memory || read_may_have_more(a)) return;
    conn_release_flat(a->redis.conn);
    if (a->writer->audit) audit_release_memory(a->writer->audit);
    malloc_trim(0);
    read->unreleased = 0;
    read->release_memory = false;
}

static bool read_send(auditor_t *a, bool early) {
    stream_read_t *read = &a->read;
    redis_error_t error;
    mono_t now = mono_now();
    if (!read_choose_streams(a, early)) {
        if (!early) read_release_memory(a);
        return early;
    }
    int64_t block_ms = read_block_ms(a, now);
    read->count = read->budget / (read->streams ? read->streams : 1);
    if (read->count < 1) read->count = 1;
    read->received_before = conn_received(a->redis.conn);
    read_release_memory(a);
    stream_read_append(a->redis.conn, a->keys, (const stream_id_t *)read->positions, read->count, block_ms);
    if (conn_flush(a->redis.conn, &error) != OUTCOME_OK) return auditor_back_off(a, &error);
    read->in_flight = true;
    read->deadline = mono_add(now, (block_ms + a->keys->config->redis.timeout_ms) * NS_PER_MS);
    return true;
}

bool auditor_send_read(auditor_t *a) { return read_send(a, false); }

// XREAD counts entries, and does not tell how long it took. Approach the right number in steps, by the size of the last reply.
static void read_adapt_budget(stream_read_t *read, const stream_reply_t *reply, int64_t slice_us) {
    int64_t each = reply->bytes / reply->entries + 1;
    read->budget = read_min(4 * reply->entries, REPLY_MAX_ENTRIES);
    read->budget = read_min(read->budget, slice_us / AUDITOR_SHARE * NS_PER_US / (ENTRY_NS + each * KIB_NS / 1024));
    read->budget = read_min(read->budget, REPLY_MAX_BYTES / each);
    if (read->budget < 1) read->budget = 1;
    read->unreleased += reply->bytes;
    if (read->unreleased > RELEASE_MEMORY_FROM) read->release_memory = true;
}

// While an XREAD waits without an entry, the log is complete; or between two comparisons of streams in different slots.
void auditor_note_lag(auditor_t *a) {
    bool waits = a->read.in_flight || (a->read.one_by_one && conn_is_open(a->redis.conn));
    if (a->writer->audit && waits && !read_may_have_more(a))
        auditor_set_missing_since(a, 0);
    else
        auditor_note_missing(a, 0);
}

// While this process writes a reply to the log, Redis makes the next one. Timers come before the next transaction. A reply that
// fails takes the acknowledgement of the one before with it, and without one a new connection begins where the last one began.
static bool read_ahead(auditor_t *a) {
    stream_reply_t *reply = &a->reply;
    reply->full = reply->entries >= a->read.count;
    read_adapt_budget(&a->read, reply, a->keys->config->redis.slice_us);
    a->read.streams = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++) a->read.streams += *reply->ends[i] != '\0';
    bool large = reply->entries >= AHEAD_MIN_ENTRIES || reply->entries >= a->read.budget;
    bool ahead = reply->full && large && !a->read.careful;
    bool timers = auditor_transaction_ends(a) && mono_reached(auditor_next_timer(a), mono_now());
    return !ahead || timers || read_send(a, true);
}

// A stream of the wrong type makes Redis refuse the XREAD. Find this stream and skip it.
static bool read_refused(auditor_t *a, redis_error_t *error) {
    bool found = false;
    if (error->outcome != OUTCOME_REFUSED) return auditor_back_off(a, error);
    if (!a->read.one_by_one && error->kind == ERROR_CROSS_SLOT) {
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
    read->release_memory = true;
    read->careful = CAREFUL_REPLIES;
    read->budget = read->count > 16 ? read->count / 16 : 1;
    a->timers.reconcile_at = mono_now();
    return true;
}

// While a transaction is open, waits for more of the reply, at most until `end`. False: nothing has come.
static bool read_await(const auditor_t *a, mono_t end) {
    struct pollfd ready = {.fd = conn_fd(a->redis.conn), .events = POLLIN};
    int64_t left_ms = mono_diff(end, mono_now()) / NS_PER_MS;
    return a->copied.entries > 0 && left_ms > 0 && poll(&ready, 1, (int)left_ms) == 1;
}

// Reads what has arrived.
static outcome_t read_receive(auditor_t *a, bool *arrived, redis_error_t *error) {
    const mono_t end = mono_add(mono_now(), AWAIT_MS * NS_PER_MS);
    int64_t before;
    outcome_t outcome;
    bool more;
    do {
        before = conn_received(a->redis.conn);
        outcome = stream_read_reply(a->redis.conn, arrived, error);
        if (outcome != OUTCOME_OK || *arrived || read_abort_oversized(a)) return outcome;
        more = conn_received(a->redis.conn) > before || read_await(a, end);
    } while (more);
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
    a->reply = (stream_reply_t){.ends = reply->ends, .firsts = reply->firsts, .full = reply->full};
}

// Every request comes before read_ahead, after which the next reply is that of the next XREAD.
static bool read_take_entries(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->read.positions[i]) a->cursors[i].behind = a->read.catching_up && a->reply.entries >= a->read.count;
    if (a->reply.entries == 0) return read_nothing(a);
    if (!auditor_check_reply(a)) return false;
    auditor_want_memory(a);
    if (read_ahead(a)) return auditor_copy_reply(a);
    auditor_drop_copied(a);
    return false;
}

static bool read_take(auditor_t *a, outcome_t outcome, redis_error_t *error) {
    if (outcome != OUTCOME_DISCONNECTED && !auditor_acknowledge_copied(a)) return false;
    read_begin_reply(a);
    if (outcome == OUTCOME_OK) outcome = stream_read_ids(a->redis.conn, a->keys, read_note_id, a, &a->reply.bytes, error);
    if (outcome == OUTCOME_OK) return read_take_entries(a);
    return (outcome == OUTCOME_DISCONNECTED || auditor_commit_copied(a)) && read_refused(a, error);
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
        read->careful = CAREFUL_REPLIES;
    }
    read->in_flight = false;
    return read_take(a, outcome, &error);
}
