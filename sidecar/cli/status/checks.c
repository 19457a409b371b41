#include "cli/status/checks.h"

#include <inttypes.h>
#include <string.h>

#include "cli/status/units.h"
#include "queue/lock.h"

enum {
    LATE_TTLS = 3,           // a due job may wait so many TTLs: a takeover is over by then
    LATE_MIN_MS = 5000,      // and so long
    UNCOPIED_MS = 60000,     // a record may wait so long for a log
    SCAN_MARGIN_MS = 180000, // after its alive timeout a job may wait so long for the pass that ends it
    HEARD_RECENTLY_MS = 2 * 3600 * 1000,
    NEARLY_FULL_PERCENT = 80, // of stream.max_bytes
};
static const int64_t TEN_YEARS_MS = INT64_C(3652) * 86400 * 1000; // ten years

// ---- Facts about one lock or queue.

static const overview_lock_t *checks_lock_of(const status_t *s, size_t queue) {
    return &s->view.locks[s->keys->queues[queue].lock];
}

static const queue_policy_t *checks_policy_of(const status_t *s, size_t queue) { return &s->keys->queues[queue].config->policy; }

static bool checks_is_led(const overview_lock_t *lock) { return token_ttl_ms(lock->holder) > 0; }

const char *status_leader(const overview_lock_t *lock) { return *lock->leader ? lock->leader : "the leader"; }

static bool check_no_leader(const status_t *s, size_t lock, buffer_t *what, int64_t *weight) {
    const overview_lock_t *view = &s->view.locks[lock];
    (void)weight;
    if (*view->holder || *view->error) return false;
    buffer_printf(what, "no instance leads: the lock %s is free", s->keys->locks[lock].key);
    return true;
}

static bool check_lock_foreign(const status_t *s, size_t lock, buffer_t *what, int64_t *weight) {
    const overview_lock_t *view = &s->view.locks[lock];
    (void)weight;
    if (!*view->holder || checks_is_led(view)) return false;
    buffer_printf(what, "the lock %s holds \"%s\", which no sidecar wrote", s->keys->locks[lock].key, view->holder);
    return true;
}

static bool check_clock_step(const status_t *s, size_t lock, buffer_t *what, int64_t *weight) {
    const overview_lock_t *view = &s->view.locks[lock];
    char left[UNITS_TEXT_SIZE], ttl[UNITS_TEXT_SIZE];
    int64_t ttl_ms = token_ttl_ms(view->holder);
    if (!checks_is_led(view) || (view->pttl_ms <= ttl_ms && view->pttl_ms != -1)) return false;
    *weight = view->pttl_ms;
    duration_text(ttl_ms, ttl);
    if (view->pttl_ms == -1)
        buffer_printf(what, "the lock never expires, but its holder gave it %s", ttl);
    else
        buffer_printf(what, "the lock expires in %s, but its holder gave it %s", duration_text(view->pttl_ms, left), ttl);
    return true;
}

static bool check_lock_fault(const status_t *s, size_t lock, buffer_t *what, int64_t *weight) {
    (void)weight;
    buffer_str(what, s->view.locks[lock].error);
    return what->len > 0;
}

static bool check_other_group(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const char *owner = s->view.queues[queue].owner, *ours = s->keys->locks[s->keys->queues[queue].lock].name;
    (void)weight;
    if (!*owner || strcmp(owner, ours) == 0) return false;
    buffer_printf(what, "group \"%s\" owns this queue, but this config has it in group \"%s\"", owner, ours);
    return true;
}

static bool check_unserved(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const overview_lock_t *lock = checks_lock_of(s, queue);
    buffer_t other = {0};
    bool owned = check_other_group(s, queue, &other, weight);
    buffer_free(&other);
    if (owned || !checks_is_led(lock) || s->view.queues[queue].served || *lock->error) return false;
    buffer_printf(what, "%s does not serve this queue", status_leader(lock));
    return true;
}

static bool checks_in_preflight(const status_t *s, size_t queue) {
    for (size_t i = 0; i < s->preflight_count; i++)
        if (s->preflight[i].queue == queue && s->preflight[i].kind != FINDING_FACT && s->preflight[i].kind != FINDING_WARN)
            return true;
    return false;
}

// A fault that the preflight has named is not repeated.
static bool check_key_fault(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const char *text = s->view.queues[queue].error;
    (void)weight;
    if (checks_in_preflight(s, queue)) return false;
    buffer_str(what, *text ? text : s->counts[queue].error);
    return what->len > 0;
}

static int64_t checks_late_ms(const status_t *s, size_t queue) {
    int64_t late = census_overdue_ms(&s->counts[queue]), most = LATE_TTLS * s->config->lock.ttl_ms;
    bool ours = checks_policy_of(s, queue)->roles & ROLE_DISPATCHER;
    if (most < LATE_MIN_MS) most = LATE_MIN_MS;
    return ours && late > most && checks_is_led(checks_lock_of(s, queue)) && s->view.queues[queue].served ? late : 0;
}

static bool checks_ready_is_full(const status_t *s, size_t queue) {
    int64_t limit = checks_policy_of(s, queue)->ready_limit;
    return limit > 0 && s->counts[queue].ready >= limit;
}

static bool check_overdue(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    char late[UNITS_TEXT_SIZE], count[UNITS_TEXT_SIZE];
    *weight = checks_late_ms(s, queue);
    if (*weight == 0 || checks_ready_is_full(s, queue)) return false;
    buffer_printf(what, "due jobs do not reach ready although %s leads: the oldest is %s late; %s in delayed",
                  status_leader(checks_lock_of(s, queue)), duration_text(*weight, late),
                  count_text(s->counts[queue].delayed, count));
    return true;
}

static bool check_ready_limit(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    char late[UNITS_TEXT_SIZE], count[UNITS_TEXT_SIZE], limit[UNITS_TEXT_SIZE];
    *weight = checks_late_ms(s, queue);
    if (*weight == 0 || !checks_ready_is_full(s, queue)) return false;
    buffer_printf(what, "due jobs wait because ready holds %s and ready_limit is %s: the oldest is %s late",
                  count_text(s->counts[queue].ready, count), count_text(checks_policy_of(s, queue)->ready_limit, limit),
                  duration_text(*weight, late));
    return true;
}

static bool check_too_old(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const queue_policy_t *policy = checks_policy_of(s, queue);
    const census_t *counts = &s->counts[queue];
    char age[UNITS_TEXT_SIZE], most[UNITS_TEXT_SIZE];
    if (!(policy->roles & ROLE_MONITOR) || policy->alive_timeout_ms == 0 || counts->oldest_in_progress_ms < 0) return false;
    *weight = counts->now_ms - counts->oldest_in_progress_ms;
    if (!checks_is_led(checks_lock_of(s, queue)) || *weight <= policy->alive_timeout_ms + SCAN_MARGIN_MS) return false;
    buffer_printf(what, "a job has been in progress for %s, but alive_timeout is %s", duration_text(*weight, age),
                  duration_text(policy->alive_timeout_ms, most));
    return true;
}

static bool checks_stream_has_room(const status_t *s, size_t queue, int64_t percent) {
    const census_t *counts = &s->counts[queue];
    double most = (double)s->config->stream.max_bytes, held = (double)counts->record_bytes;
    if (counts->record_bytes < 0 || counts->records <= 0) return true;
    if (percent < 100) return held * 100 < most * (double)percent;
    return held + held / (double)counts->records <= most; // the next record is like the others
}

static void checks_describe_stream(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    char count[UNITS_TEXT_SIZE], held[UNITS_TEXT_SIZE], most[UNITS_TEXT_SIZE];
    *weight = s->counts[queue].record_bytes;
    buffer_printf(what, "%s records, %s of stream.max_bytes (%s)", count_text(s->counts[queue].records, count),
                  size_text(*weight, held), size_text(s->config->stream.max_bytes, most));
}

static bool check_stream_full(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    if (checks_stream_has_room(s, queue, 100)) return false;
    buffer_str(what, "its failure stream is full, so no job can end: ");
    checks_describe_stream(s, queue, what, weight);
    return true;
}

static bool check_stream_fills(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    if (!checks_stream_has_room(s, queue, 100) || checks_stream_has_room(s, queue, NEARLY_FULL_PERCENT)) return false;
    buffer_str(what, "its failure stream is nearly full: ");
    checks_describe_stream(s, queue, what, weight);
    return true;
}

static bool check_uncopied(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const overview_queue_t *view = &s->view.queues[queue];
    char age[UNITS_TEXT_SIZE];
    size_t heard = 0;
    *weight = view->uncopied_ms ? s->view.now_ms - view->uncopied_ms : 0;
    if (*weight <= UNCOPIED_MS) return false;
    for (size_t i = 0; i < view->copy_count; i++)
        if (s->view.now_ms - view->copies[i].heard_ms <= STREAM_HEARD_MS) heard++;
    buffer_printf(what, "records of the last %s are in fewer than stream.min_copies (%" PRId64 ") audit logs; %zu %s active",
                  duration_text(*weight, age), s->config->stream.min_copies, heard, heard == 1 ? "log is" : "logs are");
    return true;
}

bool status_is_complete(const overview_queue_t *queue, const overview_copy_t *copy) {
    return stream_id_compare(copy->position, queue->stream.last) >= 0;
}

// Logs that lack a record after a minute although their instance was active lately: instances report once an hour.
static bool check_behind(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const overview_queue_t *view = &s->view.queues[queue];
    char age[UNITS_TEXT_SIZE];
    int64_t behind = 0, newest = s->view.now_ms - stream_id_ms(view->stream.last);
    if (view->stream.length == 0 || newest <= UNCOPIED_MS) return false;
    for (size_t i = 0; i < view->copy_count; i++)
        if (s->view.now_ms - view->copies[i].heard_ms <= HEARD_RECENTLY_MS && !status_is_complete(view, &view->copies[i]))
            behind++;
    *weight = behind;
    if (behind)
        buffer_printf(what, "%" PRId64 " of %zu audit logs %s the newest record, which is %s old", behind, view->copy_count,
                      behind == 1 ? "lacks" : "lack", duration_text(newest, age));
    return behind > 0;
}

// An emptyDir ends with its pod. Redis forgets such a log after a week; meanwhile it does not count.
static bool check_silent_log(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const overview_queue_t *view = &s->view.queues[queue];
    int64_t silent = 0, longest = 0;
    char age[UNITS_TEXT_SIZE];
    for (size_t i = 0; i < view->copy_count; i++) {
        int64_t since = s->view.now_ms - view->copies[i].heard_ms;
        if (since <= STREAM_HEARD_MS) continue;
        silent++;
        if (since > longest) longest = since;
    }
    *weight = silent;
    if (silent)
        buffer_printf(what, "%" PRId64 " of %zu audit logs %s been silent, the longest for %s", silent, view->copy_count,
                      silent == 1 ? "has" : "have", duration_text(longest, age));
    return silent > 0;
}

static bool checks_count_failures(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const status_recent_t *recent = &s->recent[queue];
    char count[UNITS_TEXT_SIZE];
    const char *between = ": ";
    *weight = recent->failed;
    if (recent->failed <= 0) return false;
    buffer_printf(what, "%s%s final %s in the last hour", recent->more ? "at least " : "", count_text(recent->failed, count),
                  recent->failed == 1 ? "failure" : "failures");
    for (size_t i = 0; i < STATUS_REASONS; i++) {
        if (recent->reasons[i] == 0) continue;
        buffer_printf(what, "%s%s %s", between, count_text(recent->reasons[i], count), status_reasons[i]);
        between = ", ";
    }
    return true;
}

static bool check_failures_logged(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    return s->source != STATUS_FROM_STREAM && checks_count_failures(s, queue, what, weight);
}

static bool check_failures_streamed(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    return s->source == STATUS_FROM_STREAM && checks_count_failures(s, queue, what, weight);
}

// Nobody delays a job for ten years: its score has another unit.
static bool check_score_unit(const status_t *s, size_t queue, buffer_t *what, int64_t *weight) {
    const census_t *counts = &s->counts[queue];
    char span[UNITS_TEXT_SIZE], count[UNITS_TEXT_SIZE];
    *weight = counts->next_due_ms - counts->now_ms;
    if (!config_queue_knows(s->keys->queues[queue].config, "score_unit") || counts->next_due_ms == INT64_MAX ||
        *weight <= TEN_YEARS_MS)
        return false;
    buffer_printf(what, "the first of %s delayed jobs falls due in %s", count_text(counts->delayed, count),
                  duration_text(*weight, span));
    return true;
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
    {{STATUS_FAULT, "lock_fault", "No instance leads, or nobody can tell which one does.",
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
