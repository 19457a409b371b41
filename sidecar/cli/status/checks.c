#include "cli/status/checks.h"

#include <inttypes.h>
#include <string.h>

#include "base/text/units.h"
#include "queue/lock.h"

enum {
    LATE_TTLS = 3,           // a due job may wait for so many TTLs, in which a takeover ends
    LATE_MIN_MS = 5000,      // and for so long
    UNCOPIED_MS = 60000,     // a record may wait so long for a log
    SCAN_MARGIN_MS = 180000, // a scan may take so long to end a job that is past its alive timeout
    HEARD_RECENTLY_MS = 2 * 3600 * 1000,
    NEARLY_FULL_PERCENT = 80, // of stream.max_bytes
};
static const int64_t TEN_YEARS_MS = INT64_C(3652) * 86400 * 1000;

// ---- Facts about one lock or queue.

static const snapshot_lock_t *checks_lock_of(const status_t *s, size_t queue) {
    return &s->snapshot.locks[s->keys->queues[queue].lock];
}

static const queue_policy_t *checks_policy_of(const status_t *s, size_t queue) { return &s->keys->queues[queue].config->policy; }

static bool checks_is_led(const snapshot_lock_t *lock) { return token_ttl_ms(lock->holder) > 0; }

const char *status_leader(const snapshot_lock_t *lock) { return *lock->leader ? lock->leader : "the leader"; }

const snapshot_copy_t *status_own_copy(const status_t *s, size_t queue) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    for (size_t i = 0; i < snapshot->copy_count; i++)
        if (strcmp(snapshot->copies[i].instance, s->log.instance) == 0) return &snapshot->copies[i];
    return NULL;
}

bool status_is_complete(const snapshot_queue_t *queue, const snapshot_copy_t *copy) {
    return stream_id_compare(copy->position, queue->stream.last) >= 0;
}

// The name of the other group that owns the queue; NULL = it is ours, or nobody's.
static const char *checks_other_owner(const status_t *s, size_t queue) {
    const char *owner = s->snapshot.queues[queue].owner, *ours = s->keys->locks[s->keys->queues[queue].lock].name;
    return *owner && strcmp(owner, ours) != 0 ? owner : NULL;
}

static bool checks_in_preflight(const status_t *s, size_t queue) {
    for (size_t i = 0; i < s->preflight_count; i++)
        if (s->preflight[i].queue == queue && s->preflight[i].kind != PREFLIGHT_FACT && s->preflight[i].kind != PREFLIGHT_WARNING)
            return true;
    return false;
}

// 0 = no due job is late, or another takes care of it.
static int64_t checks_late_ms(const status_t *s, size_t queue) {
    int64_t late = sizes_overdue_ms(&s->sizes[queue]), allowed = LATE_TTLS * s->config->lock.ttl_ms;
    if (allowed < LATE_MIN_MS) allowed = LATE_MIN_MS;
    bool ours = checks_policy_of(s, queue)->roles & ROLE_DISPATCHER;
    return ours && late > allowed && checks_is_led(checks_lock_of(s, queue)) && s->snapshot.queues[queue].served ? late : 0;
}

static bool checks_ready_is_full(const status_t *s, size_t queue) {
    int64_t limit = checks_policy_of(s, queue)->ready_limit;
    return limit > 0 && s->sizes[queue].ready >= limit;
}

static bool checks_stream_is_full(const sizes_t *sizes, int64_t max_bytes) {
    if (sizes->record_bytes < 0 || sizes->records <= 0) return false;
    double held = (double)sizes->record_bytes;
    return held + held / (double)sizes->records > (double)max_bytes; // the next record is like the others
}

// ---- Checks of a lock.

static int64_t check_no_leader(const status_t *s, size_t lock, buffer_t *what) {
    const snapshot_lock_t *snapshot = &s->snapshot.locks[lock];
    if (*snapshot->holder || *snapshot->error) return 0;
    buffer_printf(what, "no instance leads: the lock %s is free", s->keys->locks[lock].key);
    return 1;
}

static int64_t check_lock_foreign(const status_t *s, size_t lock, buffer_t *what) {
    const snapshot_lock_t *snapshot = &s->snapshot.locks[lock];
    if (!*snapshot->holder || checks_is_led(snapshot)) return 0;
    buffer_printf(what, "the lock %s holds \"%s\", which no sidecar wrote", s->keys->locks[lock].key, snapshot->holder);
    return 1;
}

static int64_t check_clock_step(const status_t *s, size_t lock, buffer_t *what) {
    const snapshot_lock_t *snapshot = &s->snapshot.locks[lock];
    int64_t ttl_ms = token_ttl_ms(snapshot->holder), left_ms = snapshot->pttl_ms == -1 ? INT64_MAX : snapshot->pttl_ms;
    if (!checks_is_led(snapshot) || left_ms <= ttl_ms) return 0;
    if (left_ms == INT64_MAX)
        buffer_printf(what, "the lock never expires, but its holder gave it %s", duration_text(ttl_ms).text);
    else
        buffer_printf(what, "the lock expires in %s, but its holder gave it %s", duration_text(left_ms).text,
                      duration_text(ttl_ms).text);
    return left_ms;
}

static int64_t check_lock_fault(const status_t *s, size_t lock, buffer_t *what) {
    buffer_str(what, s->snapshot.locks[lock].error);
    return what->len > 0;
}

// ---- Checks of a queue.

static int64_t check_other_group(const status_t *s, size_t queue, buffer_t *what) {
    const char *owner = checks_other_owner(s, queue);
    if (!owner) return 0;
    buffer_printf(what, "group \"%s\" owns this queue, but this config has it in group \"%s\"", owner,
                  s->keys->locks[s->keys->queues[queue].lock].name);
    return 1;
}

static int64_t check_unserved(const status_t *s, size_t queue, buffer_t *what) {
    const snapshot_lock_t *lock = checks_lock_of(s, queue);
    if (checks_other_owner(s, queue) || !checks_is_led(lock) || s->snapshot.queues[queue].served || *lock->error) return 0;
    buffer_printf(what, "%s does not serve this queue", status_leader(lock));
    return 1;
}

// A fault that the preflight has named is not repeated.
static int64_t check_key_fault(const status_t *s, size_t queue, buffer_t *what) {
    const char *text = s->snapshot.queues[queue].error;
    if (checks_in_preflight(s, queue)) return 0;
    buffer_str(what, *text ? text : s->sizes[queue].error);
    return what->len > 0;
}

static int64_t check_overdue(const status_t *s, size_t queue, buffer_t *what) {
    int64_t late = checks_late_ms(s, queue);
    if (late == 0 || checks_ready_is_full(s, queue)) return 0;
    buffer_printf(what, "due jobs do not reach ready although %s leads: the oldest is %s late; %s in delayed",
                  status_leader(checks_lock_of(s, queue)), duration_text(late).text, count_text(s->sizes[queue].delayed).text);
    return late;
}

static int64_t check_ready_limit(const status_t *s, size_t queue, buffer_t *what) {
    int64_t late = checks_late_ms(s, queue);
    if (late == 0 || !checks_ready_is_full(s, queue)) return 0;
    buffer_printf(what, "due jobs wait because ready holds %s and ready_limit is %s: the oldest is %s late",
                  count_text(s->sizes[queue].ready).text, count_text(checks_policy_of(s, queue)->ready_limit).text,
                  duration_text(late).text);
    return late;
}

static int64_t check_too_old(const status_t *s, size_t queue, buffer_t *what) {
    const queue_policy_t *policy = checks_policy_of(s, queue);
    const sizes_t *sizes = &s->sizes[queue];
    if (!(policy->roles & ROLE_MONITOR) || policy->alive_timeout_ms == 0 || sizes->oldest_in_progress_ms < 0) return 0;
    int64_t age = sizes->now_ms - sizes->oldest_in_progress_ms;
    if (!checks_is_led(checks_lock_of(s, queue)) || age <= policy->alive_timeout_ms + SCAN_MARGIN_MS) return 0;
    buffer_printf(what, "a job has been in progress for %s, but alive_timeout is %s", duration_text(age).text,
                  duration_text(policy->alive_timeout_ms).text);
    return age;
}

static int64_t checks_describe_stream(const status_t *s, size_t queue, const char *state, buffer_t *what) {
    const sizes_t *sizes = &s->sizes[queue];
    buffer_printf(what, "its failure stream is %s: %s records, %s of stream.max_bytes (%s)", state,
                  count_text(sizes->records).text, size_text(sizes->record_bytes).text,
                  size_text(s->config->stream.max_bytes).text);
    return sizes->record_bytes;
}

static int64_t check_stream_full(const status_t *s, size_t queue, buffer_t *what) {
    if (!checks_stream_is_full(&s->sizes[queue], s->config->stream.max_bytes)) return 0;
    return checks_describe_stream(s, queue, "full, so no job can end", what);
}

static int64_t check_stream_fills(const status_t *s, size_t queue, buffer_t *what) {
    const sizes_t *sizes = &s->sizes[queue];
    double limit = (double)s->config->stream.max_bytes * NEARLY_FULL_PERCENT / 100;
    if (checks_stream_is_full(sizes, s->config->stream.max_bytes) || sizes->records <= 0) return 0;
    return (double)sizes->record_bytes < limit ? 0 : checks_describe_stream(s, queue, "nearly full", what);
}

static int64_t check_uncopied(const status_t *s, size_t queue, buffer_t *what) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    size_t active = 0;
    int64_t age = snapshot->uncopied_ms ? s->snapshot.now_ms - snapshot->uncopied_ms : 0;
    if (age <= UNCOPIED_MS) return 0;
    for (size_t i = 0; i < snapshot->copy_count; i++)
        active += s->snapshot.now_ms - snapshot->copies[i].heard_ms <= STREAM_HEARD_MS;
    buffer_printf(what, "records of the last %s are in fewer than stream.min_copies (%" PRId64 ") audit logs; %zu %s active",
                  duration_text(age).text, s->config->stream.min_copies, active, active == 1 ? "log is" : "logs are");
    return age;
}

// Logs that lack a record after a minute although their instance was active lately: instances report once an hour.
static int64_t check_behind(const status_t *s, size_t queue, buffer_t *what) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    int64_t behind = 0, newest = s->snapshot.now_ms - stream_id_ms(snapshot->stream.last);
    if (snapshot->stream.length == 0 || newest <= UNCOPIED_MS) return 0;
    for (size_t i = 0; i < snapshot->copy_count; i++)
        behind += s->snapshot.now_ms - snapshot->copies[i].heard_ms <= HEARD_RECENTLY_MS &&
                  !status_is_complete(snapshot, &snapshot->copies[i]);
    if (behind)
        buffer_printf(what, "%" PRId64 " of %zu audit logs %s the newest record, which is %s old", behind, snapshot->copy_count,
                      behind == 1 ? "lacks" : "lack", duration_text(newest).text);
    return behind;
}

// An emptyDir ends with its pod. Redis forgets such a log after a week; meanwhile it does not count.
static int64_t check_silent_log(const status_t *s, size_t queue, buffer_t *what) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    int64_t silent = 0, longest = 0;
    for (size_t i = 0; i < snapshot->copy_count; i++) {
        int64_t since = s->snapshot.now_ms - snapshot->copies[i].heard_ms;
        if (since <= STREAM_HEARD_MS) continue;
        silent++;
        if (since > longest) longest = since;
    }
    if (silent)
        buffer_printf(what, "%" PRId64 " of %zu audit logs %s been silent, the longest for %s", silent, snapshot->copy_count,
                      silent == 1 ? "has" : "have", duration_text(longest).text);
    return silent;
}

static int64_t checks_count_failures(const status_recent_t *recent, buffer_t *what) {
    const char *between = ": ";
    if (recent->failed <= 0) return 0;
    buffer_printf(what, "%s%s final %s in the last hour", recent->partial ? "at least " : "", count_text(recent->failed).text,
                  recent->failed == 1 ? "failure" : "failures");
    for (size_t i = 0; i < STATUS_REASONS; i++) {
        if (recent->reasons[i] == 0) continue;
        buffer_printf(what, "%s%s %s", between, count_text(recent->reasons[i]).text, status_reasons[i]);
        between = ", ";
    }
    return recent->failed;
}

static int64_t check_failures_logged(const status_t *s, size_t queue, buffer_t *what) {
    return s->source == STATUS_FROM_STREAM ? 0 : checks_count_failures(&s->recent[queue], what);
}

static int64_t check_failures_streamed(const status_t *s, size_t queue, buffer_t *what) {
    return s->source == STATUS_FROM_STREAM ? checks_count_failures(&s->recent[queue], what) : 0;
}

// Nobody delays a job for ten years: its score has another unit.
static int64_t check_score_unit(const status_t *s, size_t queue, buffer_t *what) {
    const sizes_t *sizes = &s->sizes[queue];
    int64_t ahead = sizes->next_due_ms - sizes->now_ms;
    bool has_unit = config_queue_knows(s->keys->queues[queue].config, "score_unit");
    if (!has_unit || sizes->next_due_ms == INT64_MAX || ahead <= TEN_YEARS_MS) return 0;
    buffer_printf(what, "the first of %s delayed jobs falls due in %s", count_text(sizes->delayed).text,
                  duration_text(ahead).text);
    return ahead;
}

const status_check_t status_checks[] = {
    {{STATUS_FAULT, "no_leader", "Due jobs wait in delayed, and jobs of dead workers stay in progress. Nothing is lost.",
      "Start an instance: queue-sidecar run -c {config}. If one runs, its log says why it does not lead; so does queue-sidecar "
      "check -c {config} --redis"},
     true,
     check_no_leader},
    {{STATUS_FAULT, "lock_foreign", "No instance can lead while this key exists.",
      "Find out who writes it, then: redis-cli DEL {lock}"},
     true,
     check_lock_foreign},
    {{STATUS_WARNING, "clock_step",
      "Somebody changed the key, or the clock of Redis's host was set back. If this leader dies, a standby takes over only after "
      "it has seen this twice, one TTL apart.",
      "Do nothing while {leader} lives: a standby removes the lock by itself. Check the clock of Redis's host (NTP)"},
     true,
     check_clock_step},
    {{STATUS_FAULT, "lock_fault", "No instance leads, or the leader is unknown.",
      "Rename or delete a key of the wrong type, or grant the right: queue-sidecar check -c {config} --redis"},
     true,
     check_lock_fault},
    {{STATUS_FAULT, "other_group", "Only the leader of that group serves it, with the settings of that group.",
      "Take the queue out of one of the two configs. When that group has no leader any more, this one takes the queue over "
      "within a TTL"},
     false,
     check_other_group},
    {{STATUS_FAULT, "unserved", "The leader runs with another config, so no instance promotes or watches the jobs of this queue.",
      "Give all instances of the group the same queues (a rollout may still be under way), or give these another `group`. If "
      "the leader refuses the queue, its log names it"},
     false,
     check_unserved},
    {{STATUS_FAULT, "key_fault", "The sidecar cannot use this queue, or part of it.",
      "Rename or delete a key of the wrong type, or grant the right: queue-sidecar check -c {config} --redis names each"},
     false,
     check_key_fault},
    {{STATUS_FAULT, "overdue", "Delayed jobs run late, and nothing else moves them.",
      "Search the log of {leader} for this queue: a refused key, an entry larger than max_payload at the head of {delayed}, or a "
      "Redis that is full or slow"},
     false,
     check_overdue},
    {{STATUS_WARNING, "ready_limit", "Workers take fewer jobs than fall due.",
      "Start more workers, find out why they are slow, or raise `ready_limit`"},
     false,
     check_ready_limit},
    {{STATUS_FAULT, "stream_full", "Jobs that should end stay in progress; retries go on without a record.",
      "Where AUDIT is `copied`: lower stream.retain, or raise stream.max_bytes. Otherwise make an instance copy the stream (its "
      "log says why it does not; `audit.path` must be writable), or lower stream.min_copies to the number of instances"},
     false,
     check_stream_full},
    {{STATUS_WARNING, "stream_fills", "When it is full, no job can end.",
      "See that audit logs copy it (below), lower stream.retain or stream.min_records, or raise stream.max_bytes"},
     false,
     check_stream_fills},
    {{STATUS_WARNING, "uncopied", "Redis keeps these records until enough audit logs have them.",
      "Search the logs of the instances for `audit log`. If there are fewer instances than stream.min_copies, lower that"},
     false,
     check_uncopied},
    {{STATUS_WARNING, "too_old", "Its heartbeat keeps it (alive_kills is off), or no scan has come round.",
      "If its worker hangs, end the worker, or set `alive_kills`. Otherwise search the log of {leader} for this queue"},
     false,
     check_too_old},
    {{STATUS_WARNING, "score_unit", "Its score probably has another unit than `score_unit`, so these jobs never run.",
      "Look at a score: redis-cli ZRANGE {delayed} 0 0 WITHSCORES. Set `score_unit` to what producers write, and restart"},
     false,
     check_score_unit},
    {{STATUS_NOTE, "failures", "These jobs do not run again by themselves.",
      "queue-sidecar audit list -c {config} --queue {queue} --since 1h"},
     false,
     check_failures_logged},
    {{STATUS_NOTE, "failures", "These jobs do not run again by themselves.",
      "Beside an instance whose audit log has them: queue-sidecar audit list -c {config} --queue {queue} --since 1h. From Redis: "
      "redis-cli XREVRANGE {failures} + - COUNT 10"},
     false,
     check_failures_streamed},
    {{STATUS_NOTE, "behind", "Their instances have ended, or cannot write.",
      "If their pods are gone, do nothing. Otherwise search the log of each instance for `audit log`"},
     false,
     check_behind},
    {{STATUS_NOTE, "silent_log", "A log that has been silent for a day no longer counts as a copy.",
      "If their pods are gone, do nothing: Redis forgets them after 7 days"},
     false,
     check_silent_log},
};
const size_t status_check_count = sizeof status_checks / sizeof *status_checks;
