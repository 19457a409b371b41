// The head of `status`: address, time, leader and standbys.
#include <stdlib.h>
#include <string.h>

#include "base/text/units.h"
#include "cli/status/checks.h"
#include "cli/status/lines.h"
#include "cli/time_text.h"
#include "queue/lock.h"

enum { LEADERS_MAX = 3, STANDBYS_MAX = 4, TERM_DIGITS = 8 };

static void head_leader(const snapshot_lock_t *lock, int64_t now_ms, buffer_t *line) {
    if (!*lock->holder) {
        buffer_str(line, "nobody");
        return;
    }
    if (token_ttl_ms(lock->holder) == 0) {
        buffer_str(line, "nobody: no sidecar wrote the value of the lock");
        return;
    }
    buffer_str(line, *lock->leader ? lock->leader : "an instance of unknown name");
    if (lock->since_ms) buffer_printf(line, ", for %s", duration_text(now_ms - lock->since_ms).text);
    buffer_printf(line, ", term %.*s", TERM_DIGITS, lock->holder);
    if (lock->pttl_ms >= 0) buffer_printf(line, ", lock TTL %s", duration_text(lock->pttl_ms).text);
}

typedef struct holder {
    const char *leader; // borrowed
    int64_t locks;
} holder_t;

static int head_by_locks(const void *a, const void *b) {
    const holder_t *one = a, *other = b;
    if (one->locks != other->locks) return one->locks < other->locks ? 1 : -1;
    return strcmp(one->leader, other->leader);
}

// With a lock for each queue: how many are held, and the instances that hold most of them.
static void head_leaders(const snapshot_t *snapshot, buffer_t *line) {
    holder_t *holders = mem_array(snapshot->lock_count + 1, sizeof *holders);
    size_t count = 0;
    int64_t locks = 0;
    for (size_t i = 0; i < snapshot->lock_count; i++) {
        const snapshot_lock_t *lock = &snapshot->locks[i];
        if (token_ttl_ms(lock->holder) == 0) continue;
        size_t at = 0;
        const char *name = *lock->leader ? lock->leader : "unknown";
        locks++;
        while (at < count && strcmp(holders[at].leader, name) != 0) at++;
        if (at == count) holders[count++] = (holder_t){.leader = name};
        holders[at].locks++;
    }
    qsort(holders, count, sizeof *holders, head_by_locks);
    buffer_printf(line, "%s of %s locks are held", count_text(locks).text, count_text((int64_t)snapshot->lock_count).text);
    for (size_t i = 0; i < count && i < LEADERS_MAX; i++)
        buffer_printf(line, "%s %s %s", i ? "," : ":", holders[i].leader, count_text(holders[i].locks).text);
    if (count > LEADERS_MAX) buffer_printf(line, " and %zu more instances", count - LEADERS_MAX);
    free(holders);
}

static bool head_is_first_lock_of(const snapshot_t *snapshot, size_t lock, size_t standby) {
    const char *instance = snapshot->locks[lock].standbys[standby].instance;
    for (size_t i = 0; i < lock; i++)
        for (size_t n = 0; n < snapshot->locks[i].standby_count; n++)
            if (snapshot->locks[i].standbys[n].lives && strcmp(snapshot->locks[i].standbys[n].instance, instance) == 0)
                return false;
    return true;
}

// Each instance once, even if it stands by for several locks.
static void head_standbys(const snapshot_t *snapshot, buffer_t *line) {
    size_t count = 0;
    for (size_t i = 0; i < snapshot->lock_count; i++)
        for (size_t n = 0; n < snapshot->locks[i].standby_count; n++) {
            if (!snapshot->locks[i].standbys[n].lives || !head_is_first_lock_of(snapshot, i, n)) continue;
            if (count < STANDBYS_MAX) buffer_printf(line, "%s%s", count ? ", " : "", snapshot->locks[i].standbys[n].instance);
            count++;
        }
    if (count > STANDBYS_MAX) buffer_printf(line, " and %zu more", count - STANDBYS_MAX);
    if (count == 0) buffer_str(line, "none");
}

// The audit log here, and whether it has all records of the streams.
static void head_log(const status_t *s, buffer_t *line) {
    size_t lacks = 0;
    buffer_str(line, s->config->audit.path);
    for (size_t i = 0; s->reached && i < s->snapshot.queue_count; i++) {
        const snapshot_copy_t *copy = status_own_copy(s, i);
        lacks += copy && !status_is_complete(&s->snapshot.queues[i], copy);
    }
    if (!s->log.readable)
        buffer_str(line, s->log.absent ? " is not here" : " cannot be read here");
    else if (lacks)
        buffer_printf(line, " lacks the newest records of %zu %s", lacks, lacks == 1 ? "queue" : "queues");
}

void status_head(const status_t *s, const status_view_t *view, buffer_t *out) {
    char time[TIME_TEXT_SIZE], zone[TIME_TEXT_SIZE];
    buffer_t line = {0};
    int64_t now_ms = s->reached ? s->snapshot.now_ms : s->wall_ms;
    time_format(now_ms, view->utc, time);
    time_zone_name(now_ms, view->utc, zone);
    buffer_printf(&line, "%s, %s at %s, %s %s", s->config->group, s->reached ? s->server : "Redis", s->target, time, zone);
    lines_labelled(out, "group", buffer_text(&line), view);
    if (s->reached) {
        buffer_clear(&line);
        if (s->config->lock.scope == LOCK_SCOPE_QUEUE)
            head_leaders(&s->snapshot, &line);
        else
            head_leader(&s->snapshot.locks[0], now_ms, &line);
        lines_labelled(out, "leader", buffer_text(&line), view);
        buffer_clear(&line);
        head_standbys(&s->snapshot, &line);
        lines_labelled(out, "standby", buffer_text(&line), view);
    }
    buffer_clear(&line);
    head_log(s, &line);
    lines_labelled(out, "log", buffer_text(&line), view);
    const local_check_t *config = local_instance_check(&s->local, "config");
    if (config && *config->state) lines_labelled(out, "config", config->state, view);
    buffer_free(&line);
}
