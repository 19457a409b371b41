// Checks of a queue.
#include "base/text/units.h"
#include "operate/status/checks.h"
#include "queue/lock.h"

enum {
    LATE_TTLS = 3,           // longest wait of a due job, in TTLs; a takeover takes less
    LATE_MIN_MS = 5000,      // lower limit of that wait
    SCAN_MARGIN_MS = 180000, // longest time until a scan ends a job past its alive timeout
};
static const int64_t TEN_YEARS_MS = INT64_C(3652) * 86400 * 1000;

const char *status_leader(const snapshot_lock_t *lock) { return *lock->leader ? lock->leader : "the leader"; }

bool checks_is_led(const snapshot_lock_t *lock) { return token_ttl_ms(lock->holder) > 0; }

// The name of the other group that owns the queue; NULL = this group owns it, or no group does.
static const char *checks_other_owner(const check_subject_t *x) {
    const char *owner = x->stream->owner;
    return *owner && strcmp(owner, x->lock_keys->name) != 0 ? owner : NULL;
}

int64_t check_other_group(const check_subject_t *x, buffer_t *what) {
    const char *owner = checks_other_owner(x);
    if (!owner) return 0;
    buffer_printf(what, "group \"%s\" owns this queue, but this config has it in group \"%s\"", owner, x->lock_keys->name);
    return 1;
}

int64_t check_unserved(const check_subject_t *x, buffer_t *what) {
    if (checks_other_owner(x) || !checks_is_led(x->lock) || x->stream->served || *x->lock->error.text) return 0;
    buffer_printf(what, "%s does not serve this queue", status_leader(x->lock));
    return 1;
}

// Does not repeat a fault that the preflight has named.
int64_t check_key_fault(const check_subject_t *x, buffer_t *what) {
    for (size_t i = 0; i < x->s->preflight_count; i++)
        if (x->s->preflight[i].queue == x->queue && x->s->preflight[i].kind > PREFLIGHT_WARNING) return 0;
    buffer_str(what, *x->stream->error.text ? x->stream->error.text : x->sizes->error.text);
    return what->len > 0;
}

// 0 = no due job is too late, or no leader promotes jobs of this queue.
static int64_t checks_late_ms(const check_subject_t *x, const sizes_t *sizes) {
    int64_t late = sizes_overdue_ms(sizes), allowed = LATE_TTLS * x->s->config->lock.ttl_ms;
    if (allowed < LATE_MIN_MS) allowed = LATE_MIN_MS;
    bool promotes = x->policy->roles & ROLE_DISPATCHER;
    return promotes && late > allowed && checks_is_led(x->lock) && x->stream->served ? late : 0;
}

static bool checks_ready_is_full(const check_subject_t *x) {
    return x->policy->ready_limit > 0 && x->sizes->ready >= x->policy->ready_limit;
}

// Jobs that are larger than max_payload do not count: check_anomaly reports them.
int64_t check_overdue(const check_subject_t *x, buffer_t *what) {
    anomaly_seen_t large;
    sizes_t sizes = *x->sizes;
    if (checks_has_anomaly(x, ANOMALY_large_delayed, &large)) sizes.next_due_ms = sizes.behind_large_ms;
    int64_t late = checks_late_ms(x, &sizes);
    if (late == 0 || checks_ready_is_full(x)) return 0;
    buffer_printf(what, "due jobs do not reach ready although %s leads: the oldest is %s late; %s in delayed",
                  status_leader(x->lock), duration_text(late).text, count_text(x->sizes->delayed).text);
    return late;
}

int64_t check_ready_limit(const check_subject_t *x, buffer_t *what) {
    int64_t late = checks_late_ms(x, x->sizes);
    if (late == 0 || !checks_ready_is_full(x)) return 0;
    buffer_printf(what, "due jobs wait because ready holds %s and ready_limit is %s: the oldest is %s late",
                  count_text(x->sizes->ready).text, count_text(x->policy->ready_limit).text, duration_text(late).text);
    return late;
}

int64_t check_ready_grows(const check_subject_t *x, buffer_t *what) {
    bool limited = checks_late_ms(x, x->sizes) > 0 && checks_ready_is_full(x); // check_ready_limit reports it
    if (x->stream->grows_ms <= 0 || x->sizes->ready < x->stream->grows_to || limited) return 0;
    buffer_printf(what, "ready has only grown for %s: %s jobs wait", duration_text(x->stream->grows_ms).text,
                  count_text(x->sizes->ready).text);
    return x->stream->grows_ms;
}

int64_t check_too_old(const check_subject_t *x, buffer_t *what) {
    int64_t allowed = x->policy->alive_timeout_ms, age = x->sizes->now_ms - x->sizes->oldest_in_progress_ms;
    if (!(x->policy->roles & ROLE_MONITOR) || allowed == 0 || x->sizes->oldest_in_progress_ms < 0) return 0;
    if (!checks_is_led(x->lock) || age <= allowed + SCAN_MARGIN_MS) return 0;
    buffer_printf(what, "a job has been in progress for %s, but alive_timeout is %s", duration_text(age).text,
                  duration_text(allowed).text);
    return age;
}

int64_t check_stale_unique(const check_subject_t *x, buffer_t *what) {
    int64_t ids = x->stream->stale_unique;
    buffer_printf(what, "%s %s in the sets of unique tasks, but no task", count_text(ids).text, ids == 1 ? "id is" : "ids are");
    return ids > 0 ? ids : 0;
}

// Nobody delays a job for ten years, so its score must have another unit.
int64_t check_score_unit(const check_subject_t *x, buffer_t *what) {
    int64_t ahead = x->sizes->next_due_ms - x->sizes->now_ms;
    bool has_unit = config_queue_knows(x->keys->config, "score_unit");
    if (!has_unit || x->sizes->next_due_ms == INT64_MAX || ahead <= TEN_YEARS_MS) return 0;
    buffer_printf(what, "the first of %s delayed jobs falls due in %s", count_text(x->sizes->delayed).text,
                  duration_text(ahead).text);
    return ahead;
}

int64_t check_failures(const check_subject_t *x, buffer_t *what) {
    const status_recent_t *recent = x->recent;
    const char *between = ": ";
    int64_t open = status_open(recent);
    if (open == 0 || (x->s->source == STATUS_FROM_STREAM) != (x->row->variant == STATUS_FROM_STREAM)) return 0;
    buffer_printf(what, "%s%s final %s in the last hour", recent->partial ? "at least " : "", count_text(recent->failed).text,
                  recent->failed == 1 ? "failure" : "failures");
    if (recent->answered) buffer_printf(what, ", %s of them answered", count_text(recent->answered).text);
    for (size_t i = 0; i < STATUS_REASONS; i++) {
        if (recent->reasons[i] == 0) continue;
        buffer_printf(what, "%s%s %s", between, count_text(recent->reasons[i]).text, status_reasons[i]);
        between = ", ";
    }
    return open;
}
