// Writes imported events to the log, in small transactions.

#include "audit/import/internal.h"
#include "base/clock.h"
#include "base/failpoint.h"

// The auditor waits at most 5 s for the write lock (audit/wait.c), and polls for it. So keep each transaction short, and pause as
// long afterwards: then a poll finds the lock free.
enum { PAUSE_MIN_MS = 1, PAUSE_MAX_MS = 200 };

import_t *import_begin(audit_t *audit) {
    import_t *import = mem_alloc(sizeof *import);
    import->audit = audit;
    return import;
}

void import_count_refused(import_t *import) { import->counts.refused++; }

const import_counts_t *import_counted(const import_t *import) { return &import->counts; }

void import_copy(import_event_t *copy, const event_t *event) {
    size_t used = 0;
    *copy = (import_event_t){.event = *event};
#define X(name, help) used += event->name.len;
    EVENT_TEXTS(X)
#undef X
    copy->block = mem_array(used, 1);
    used = 0;
#define X(name, help)                                                                                                            \
    if (event->name.len) memcpy(copy->block + used, event->name.data, event->name.len);                                          \
    copy->event.name.data = copy->block + used;                                                                                  \
    used += event->name.len;
    EVENT_TEXTS(X)
#undef X
}

bool import_add(import_t *import, const event_t *event, buffer_t *why) {
    bool full = import->count == IMPORT_ROWS || import->bytes >= IMPORT_BYTES;
    if (full && !import_flush(import, why)) return false;
    if (!import->batch) import->batch = mem_array(IMPORT_ROWS, sizeof *import->batch);
    import_copy(&import->batch[import->count++], event);
    import->bytes += event->payload.len + event->error.len;
    return true;
}

bool import_answer_fits(import_t *import, const event_t *event, buffer_t *why) {
    bool fits;
    if (!audit_answer_fits(import->audit, event, &fits, why)) return false;
    for (size_t i = 0; event_is_answer(event) && i < import->count; i++) {
        const event_t *failure = &import->batch[i].event;
        if (!slice_equal(failure->event, event->answers)) continue;
        fits = fits && slice_is(failure->kind, "failed") && slice_equal(failure->queue, event->queue) &&
               slice_equal(failure->job, event->job);
    }
    if (!fits) buffer_str(why, EVENT_ANSWERS_OTHER);
    return fits;
}

static void import_clear_batch(import_t *import) {
    for (size_t i = 0; i < import->count; i++) free(import->batch[i].block);
    import->count = import->bytes = 0;
}

void import_free(import_t *import) {
    if (!import) return;
    import_clear_batch(import);
    free(import->batch);
    free(import);
}

static void import_pause(mono_t began) {
    int64_t ms = mono_diff(mono_now(), began) / NS_PER_MS;
    ms = ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : ms;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

// A gap is of one log. If this log has no auditor that follows the queue, no row of its own says what it may lack.
static bool import_wants(const import_t *import, const event_t *event, bool *wants, buffer_t *why) {
    char position[AUDIT_POSITION_SIZE];
    *wants = true;
    if (!event_is_of_a_log(event)) return true;
    if (!audit_position(import->audit, event->queue, position, why)) return false;
    *wants = strcmp(position, "0-0") == 0;
    return true;
}

bool import_put(import_t *import, const event_t *event, buffer_t *why) {
    bool wants, new = false;
    if (!import_wants(import, event, &wants, why) || (wants && !audit_insert(import->audit, event, &new, why))) return false;
    import->counts.added += new;
    import->counts.known += wants && !new;
    import->counts.gaps_skipped += !wants;
    return true;
}

bool import_in_transaction(import_t *import, import_work_fn *work, void *self, buffer_t *why) {
    const import_counts_t before = import->counts;
    bool done = audit_begin(import->audit, why);
    mono_t began = mono_now(); // not earlier: the pause must not include the wait for the write lock
    done = done && work(self, why);
    if (done) failpoint("import_before_commit");
    done = done && audit_commit(import->audit, why);
    if (done) {
        failpoint("import_committed");
        import_pause(began);
        return true;
    }
    audit_rollback(import->audit);
    import->counts = before;
    return false;
}

static bool import_put_batch(void *self, buffer_t *why) {
    import_t *import = self;
    for (size_t i = 0; i < import->count; i++)
        if (!import_put(import, &import->batch[i].event, why)) return false;
    return true;
}

bool import_flush(import_t *import, buffer_t *why) {
    if (import->count == 0) return true;
    bool done = import_in_transaction(import, import_put_batch, import, why);
    import_clear_batch(import);
    return done;
}
