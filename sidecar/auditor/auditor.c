#include "auditor/auditor.h"

#include "auditor/internal.h"
#include "base/log.h"
#include "redis/auth.h"
#include "redis/keepalive.h"

// Longest duration of a tick, which is one transaction in a storm; shorter where auditors of other shards wait for the log.
enum { TICK_MAX_MS = 500, SHARED_TICK_MAX_MS = 100 };
enum { CERTIFICATE_S = 3600 };
enum { CHECK_CLOSED_MS = 1000 }; // while the log is closed, the leader checks the sizes of streams so often

// While one auditor waits for a reply, those of other shards wait for the log.
enum { SHARED_TIMEOUT_MS = 1000 };

auditor_t *auditor_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    auditor_t *a = auditor_new_shared(audit_share_new(keys->config, metrics, stop), keys, shard, leases, stop);
    a->owns_share = true;
    return a;
}

auditor_t *auditor_new_shared(audit_share_t *share, const keyspace_t *keys, shard_t *shard, leases_t *leases,
                              const atomic_bool *stop) {
    auditor_t *a = mem_alloc(sizeof *a);
    *a = (auditor_t){.keys = keys,
                     .leases = leases,
                     .metrics = share->writer.metrics,
                     .stop = stop,
                     .share = share,
                     .writer = &share->writer,
                     .redis.backoff = BACKOFF_REDIS};
    a->redis.conn = conn_new(shard, "queue-sidecar-auditor", stop);
    if (topology_is_cluster(shard_topology(shard))) conn_limit_timeout(a->redis.conn, SHARED_TIMEOUT_MS);
    a->cursors = mem_array(keys->queue_count, sizeof *a->cursors);
    a->states = mem_array(keys->queue_count, sizeof *a->states);
    a->read.positions = mem_array(keys->queue_count, sizeof *a->read.positions);
    a->reply.ends = mem_array(keys->queue_count, sizeof *a->reply.ends);
    a->reply.firsts = mem_array(keys->queue_count, sizeof *a->reply.firsts);
    a->copied.ends = mem_array(keys->queue_count, sizeof *a->copied.ends);
    a->copied.events = mem_array(keys->queue_count, sizeof *a->copied.events);
    a->read.budget = 1;
    for (size_t i = 0; i < keys->queue_count; i++)
        a->cursors[i] = (stream_cursor_t){
            .read_id = STREAM_ID_NONE, .logged_id = STREAM_ID_NONE, .acked_id = STREAM_ID_NONE, .urgent = BACKOFF_TRIM};
    audit_share_add(share, a);
    return a;
}

void auditor_hand_over(auditor_t *next, const auditor_t *old) { next->missing_since_ns = old->missing_since_ns; }

bool auditor_is_behind(const auditor_t *a) { return a->missing_since_ns != 0; }

void auditor_finish(void *self) {
    auditor_t *a = self;
    if (a->owns_share) audit_share_finish(a->share);
}

void auditor_withdraw(auditor_t *a) {
    redis_error_t error;
    int64_t queues;
    if (!conn_is_open(a->redis.conn) || !*a->writer->instance) return;
    if (a->read.in_flight) conn_close(a->redis.conn); // it waits in XREAD
    a->read.in_flight = false;
    if (conn_open(a->redis.conn, &error) != OUTCOME_OK ||
        stream_revoke_acks(a->redis.conn, a->keys, a->writer->instance, NULL, &queues, &error) != OUTCOME_OK)
        log_warn("auditor", NULL, "cannot withdraw acknowledgements; this log counts as a copy for a day",
                 F_STR("reason", error.text));
}

void auditor_free(auditor_t *a) {
    if (!a) return;
    audit_share_remove(a->share, a);
    if (a->owns_share) audit_share_free(a->share);
    conn_free(a->redis.conn);
    free(a->cursors);
    stream_ends_free(a->states, a->keys->queue_count);
    free(a->read.positions);
    free(a->reply.ends);
    free(a->reply.firsts);
    free(a->copied.ends);
    free(a->copied.events);
    free(a);
}

// Opens the log if it is closed, and reads its positions after each opening. False: it cannot be opened now.
static bool auditor_open_log(auditor_t *a) {
    if (!audit_writer_open(a->writer)) return false;
    if (a->opened == a->writer->opened) return true;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        char position[AUDIT_POSITION_SIZE];
        stream_cursor_t *cursor = &a->cursors[i];
        if (!audit_writer_position(a->writer, auditor_queue_name(a, i), position)) return false;
        bool same_log = !a->writer->file.other && stream_id_compare(position, cursor->logged_id) == 0;
        if (!same_log) stream_id_set(cursor->read_id, STREAM_ID_NONE);
        if (!same_log) stream_id_set(cursor->acked_id, STREAM_ID_NONE); // it proves nothing about this log
        stream_id_set(cursor->logged_id, position);
    }
    if (a->read.in_flight) conn_close(a->redis.conn); // its reply would be for the former log
    a->read.in_flight = false;
    a->opened = a->writer->opened;
    a->acks_unverified = a->read.catching_up = a->read.release_memory = true;
    a->timers.reconcile_at = mono_now();
    return true;
}

// Opens a closed connection, and replaces one that waits with a former password. False: the connection cannot be opened now.
static bool auditor_connect(auditor_t *a) {
    redis_error_t error;
    bool fresh = !conn_is_open(a->redis.conn);
    if (a->read.in_flight && !conn_replace_blocked(&a->redis.conn)) return true;
    fresh = fresh || a->read.in_flight;
    a->read.in_flight = false;
    if (conn_open(a->redis.conn, &error) != OUTCOME_OK) return auditor_back_off(a, &error);
    if (!fresh) return true;
    for (size_t i = 0; i < a->keys->queue_count; i++) a->cursors[i].unproved = true;
    a->timers.reconcile_at = a->timers.renew_acks_at = mono_now();
    a->timers.certificate_at = mono_add(mono_now(), CERTIFICATE_S * NS_PER_S);
    a->read.catching_up = true;
    auditor_forget_copied(a); // all acknowledgements are renewed
    return true;
}

static bool auditor_keep_alive(auditor_t *a) {
    redis_error_t error;
    return conn_keep_alive(a->redis.conn, &error) == OUTCOME_OK || auditor_back_off(a, &error);
}

static bool auditor_work_step(auditor_t *a) {
    if (a->read.in_flight) return auditor_read_reply(a);
    return auditor_commit_copied(a) && auditor_keep_alive(a) && auditor_run_timers(a) && auditor_send_read(a);
}

// While Redis's clock is to be read again, its old time could choose the newest rows for removal.
static bool auditor_must_shrink(const auditor_t *a) {
    return audit_writer_must_shrink(a->writer) && !mono_reached(a->timers.reconcile_at, mono_now());
}

// True: the time of this tick is over, or the log has to shrink first, and more work is due at once.
static bool auditor_work(auditor_t *a) {
    mono_t started = mono_now();
    int64_t most_ms = a->share->auditor_count > 1 ? SHARED_TICK_MAX_MS : TICK_MAX_MS;
    bool ok = true, over = false;
    while (ok && !over && !atomic_load(a->stop)) {
        ok = auditor_work_step(a);
        over = mono_diff(mono_now(), started) >= most_ms * NS_PER_MS || auditor_must_shrink(a);
    }
    return auditor_commit_copied(a) && ok && over;
}

// Keeps the log within its limits. Returns when to call it again. A reply arrives in hundreds of parts, and each step is a commit
// that delays the next part. So make one step for each transaction of new rows, unless a limit is far exceeded.
static mono_t auditor_retain(auditor_t *a) {
    bool receiving = a->read.in_flight && conn_received(a->redis.conn) > a->read.received_before;
    if (receiving && a->retained && !a->writer->retention.falling_behind) return a->writer->file.check_at;
    a->retained = true;
    if (!atomic_load(a->stop) && audit_writer_retain(a->writer, a->redis.now_ms ? auditor_redis_ms(a) : 0)) return mono_now();
    return mono_min(a->writer->file.check_at, a->writer->retention.next_at);
}

// An open connection outlives the server's certificate. So connect anew from time to time: the metric tells the end of the
// certificate that the next connect will meet, and the log tells if that connect would fail. The auditor does it because no lock
// waits for this role.
static void auditor_check_certificate(auditor_t *a) {
    redis_error_t error;
    if (!conn_certificate_end(a->redis.conn) || !mono_reached(a->timers.certificate_at, mono_now())) return;
    a->timers.certificate_at = mono_add(mono_now(), CERTIFICATE_S * NS_PER_S);
    conn_t *fresh = conn_like(a->redis.conn, "queue-sidecar-certificate");
    if (conn_connect(fresh, &error) != OUTCOME_OK)
        log_warn("auditor", NULL, "cannot open another connection to redis; open ones go on", F_STR("reason", error.text));
    conn_free(fresh);
}

// Connects without the mutex: a node that does not answer must not stop the auditors of other shards. False: the log was opened
// or closed meanwhile, or the connection cannot be opened now.
static bool auditor_connect_unlocked(auditor_t *a) {
    const audit_t *audit = a->writer->audit;
    if (!mono_reached(a->redis.backoff.retry_at, mono_now())) return false;
    pthread_mutex_unlock(&a->share->mutex);
    bool connected = auditor_connect(a);
    if (connected) auditor_check_certificate(a);
    audit_share_lock(a->share);
    return connected && a->writer->audit == audit && (!audit || a->opened == a->writer->opened);
}

// Only this instance may trim, although its log is closed. Returns when to call it again.
static mono_t auditor_lead_without_log(auditor_t *a) {
    mono_t again = mono_add(mono_now(), CHECK_CLOSED_MS * NS_PER_MS);
    if (!auditor_leads(a)) return mono_never();
    if (a->read.in_flight) conn_close(a->redis.conn); // its reply cannot be written
    a->read.in_flight = false;
    return auditor_connect_unlocked(a) && auditor_keep_alive(a) ? mono_min(again, auditor_trim_for_others(a)) : again;
}

// No reply will come from a former primary. The watcher has logged the change.
static void auditor_notice_move(auditor_t *a) {
    if (!conn_take_move(a->redis.conn)) return;
    a->redis.backoff = BACKOFF_REDIS;
    if (!conn_is_open(a->redis.conn)) a->read.in_flight = false;
}

static void auditor_tick_locked(auditor_t *a, role_wait_t *wait) {
    mono_t retain_at = {0};
    bool more = false;
    auditor_notice_move(a);
    audit_writer_check_file(a->writer);
    if (auditor_open_log(a)) {
        if (!auditor_must_shrink(a)) more = auditor_connect_unlocked(a) && auditor_work(a);
        retain_at = auditor_retain(a);
    }
    auditor_note_lag(a);
    if (!a->writer->audit) {
        wait->trouble = true;
        wait->until = mono_min(a->writer->backoff.retry_at, auditor_lead_without_log(a));
        return;
    }
    mono_t idle_until = mono_min(auditor_next_timer(a), conn_keep_alive_at(a->redis.conn));
    wait->until = more ? mono_now() : a->read.in_flight ? mono_min(a->read.deadline, auth_renew_at(a->redis.conn)) : idle_until;
    if (role_backing_off(wait, a->redis.backoff.retry_at))
        wait->until = a->redis.backoff.retry_at;
    else if (a->read.in_flight)
        role_wait_fd(wait, conn_fd(a->redis.conn));
    wait->until = mono_min(wait->until, retain_at);
}

void auditor_tick(void *self, role_wait_t *wait) {
    auditor_t *a = self;
    audit_share_lock(a->share);
    auditor_tick_locked(a, wait);
    pthread_mutex_unlock(&a->share->mutex);
}
