/* Dead letters of workers, and the records that a monitor in a driver makes of them. */
#pragma once

#include "dialects/dialect.h"
#include "dialects/requeue.h"
#include "monitor/monitor_fixture.h"

/* Returns the number of entries of a list with these bytes. */
static inline long long there(setup_t *d, const char *list, const char *job) { return in_list(d->f.r, list, slice_text(job)); }

/* Returns a field of the newest record of a kind; kept. NULL: no such record, or no such field. */
static inline char *value_of(setup_t *d, const char *kind, const char *name) {
    return redis_str(d->f.r, "EVAL %s 1 sidecar:email:failures %s %s",
                     "for _, e in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do local f = {} "
                     "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                     "if f.kind == ARGV[1] then return f[ARGV[2]] end end",
                     kind, name);
}

static inline void expect_value(setup_t *d, const char *kind, const char *name, const char *expected) {
    char *value = value_of(d, kind, name);
    cr_assert(expected ? value && strcmp(value, expected) == 0 : !value, "%s of %s is %s", name, kind, value);
}

/* Returns the number of records with this reason. */
static inline long long reasons(setup_t *d, const char *reason) {
    return redis_int(
        d->f.r, "EVAL %s 1 sidecar:email:failures %s",
        "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
        "for i = 1, #e[2], 2 do if e[2][i] == 'reason' and e[2][i + 1] == ARGV[1] then n = n + 1 end end end return n",
        reason);
}

/* Requeues a job of this failure's queue, as an operator does. */
static inline void requeue_job(setup_t *d, const char *job, const char *queue) {
    requeue_reply_t reply;
    digest_t digest = digest_of(job, strlen(job));
    char *id = value_of(d, "failed", "event");
    char *marker = kept(keyspace_requeued_of(slice_text(queue)));
    const event_t record = {.kind = slice_text("requeued"), .answers = slice_text(id)};
    const event_t row = {.payload = slice_text(job)};
    requeue_push_t where;
    buffer_t bytes = {0}, why = {0};
    cr_assert(requeue_prepare(d->f.keys->queues[0].config, &row, 0, &where, &bytes, &why));
    cr_assert_eq(conn_open(d->f.conn, &d->f.error), OUTCOME_OK);
    requeue_append(d->f.conn, d->f.keys,
                   &(requeue_request_t){.marker = marker, .where = &where, .digest = &digest, .by = "ann", .record = &record});
    cr_assert_eq(requeue_read(d->f.conn, &reply, &d->f.error), OUTCOME_OK, "%s", d->f.error.text);
    cr_assert_eq(reply.kind, REQUEUE_DONE, "%s", reply.why);
}
