#include "cli/status/text_locks.h"

#include "base/text/units.h"

enum { LEADERS_MAX = 3, STANDBYS_MAX = 4, TERM_DIGITS = 8 };

void text_leader(const snapshot_lock_t *lock, int64_t now_ms, buffer_t *line) {
    if (token_ttl_ms(lock->holder) == 0) {
        buffer_str(line, *lock->holder ? "nobody: no sidecar wrote the value of the lock" : "nobody");
        return;
    }
    buffer_str(line, *lock->leader ? lock->leader : "an instance of unknown name");
    if (lock->since_ms) buffer_printf(line, ", for %s", duration_text(now_ms - lock->since_ms).text);
    buffer_printf(line, ", term %.*s", TERM_DIGITS, lock->holder);
    if (lock->pttl_ms >= 0) buffer_printf(line, ", lock TTL %s", duration_text(lock->pttl_ms).text);
}

// The count of each name; names in the order in which they came first.
typedef struct text_names {
    struct text_name {
        const char *name; // borrowed
        int64_t times;
    } * all; // owned
    size_t count;
} text_names_t;

static void text_count_name(text_names_t *names, const char *name) {
    size_t at = 0;
    while (at < names->count && strcmp(names->all[at].name, name) != 0) at++;
    if (at == names->count) {
        names->all = mem_grown(names->all, names->count++, sizeof *names->all);
        names->all[at].name = name;
    }
    names->all[at].times++;
}

// If each queue has its own lock: adds how many locks are held, and by which instances.
void text_leaders(const snapshot_t *snapshot, buffer_t *line) {
    text_names_t leaders = {0};
    int64_t held = 0;
    for (size_t i = 0; i < snapshot->lock_count; i++) {
        const snapshot_lock_t *lock = &snapshot->locks[i];
        if (token_ttl_ms(lock->holder) == 0) continue;
        text_count_name(&leaders, *lock->leader ? lock->leader : "unknown");
        held++;
    }
    buffer_printf(line, "%s of %s locks are held", count_text(held).text, count_text((int64_t)snapshot->lock_count).text);
    for (size_t i = 0; i < leaders.count && i < LEADERS_MAX; i++)
        buffer_printf(line, "%s %s %s", i ? "," : ":", leaders.all[i].name, count_text(leaders.all[i].times).text);
    if (leaders.count > LEADERS_MAX) buffer_printf(line, " and %zu more instances", leaders.count - LEADERS_MAX);
    free(leaders.all);
}

// Adds each standby once, even if it stands by for several locks.
void text_standbys(const snapshot_t *snapshot, buffer_t *line) {
    text_names_t standbys = {0};
    for (size_t i = 0; i < snapshot->lock_count; i++)
        for (size_t n = 0; n < snapshot->locks[i].standby_count; n++)
            if (snapshot->locks[i].standbys[n].lives) text_count_name(&standbys, snapshot->locks[i].standbys[n].instance);
    for (size_t i = 0; i < standbys.count && i < STANDBYS_MAX; i++)
        buffer_printf(line, "%s%s", i ? ", " : "", standbys.all[i].name);
    if (standbys.count > STANDBYS_MAX) buffer_printf(line, " and %zu more", standbys.count - STANDBYS_MAX);
    if (standbys.count == 0) buffer_str(line, "none");
    free(standbys.all);
}
