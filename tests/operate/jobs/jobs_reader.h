/* Reads the jobs of the first queue, and keeps what it has read. */
#pragma once

#include "fixture.h"
#include "operate/jobs/jobs.h"
#include "suite.h"

enum { READ_MAX = 110000 };

typedef struct {
    char *id, *type, *payload, *worker, *key, *sha256; /* kept */
    int64_t due, since, created, retries, size;
    bool cut;
} read_job_t;

static read_job_t read_jobs[READ_MAX];
static size_t read_count;

static inline char *read_text(slice_t text) { return kept_printf("%.*s", (int)text.len, text.data); }

static bool read_add(void *self, const jobs_item_t *item) {
    (void)self;
    cr_assert_lt(read_count, READ_MAX);
    read_jobs[read_count++] = (read_job_t){.id = read_text(item->job),
                                           .type = read_text(item->type),
                                           .payload = read_text(item->payload),
                                           .worker = read_text(item->worker),
                                           .key = read_text(item->key),
                                           .sha256 = read_text(item->sha256),
                                           .due = item->due,
                                           .since = item->since,
                                           .created = item->created,
                                           .retries = item->retries,
                                           .size = item->size,
                                           .cut = item->payload_cut};
    return true;
}

/* Reads at most `most` more jobs (0 = all). */
static inline void read_more(fixture_t *f, jobs_reader_t *reader, int64_t most) {
    outcome_t outcome = jobs_read(reader, f->conn, most, mono_never(), read_add, NULL, &f->error);
    cr_assert_eq(outcome, OUTCOME_OK, "%s", f->error.text);
}

static inline void read_all(fixture_t *f, const jobs_query_t *query) {
    jobs_reader_t *reader = jobs_open(f->keys, 0, query, NULL);
    read_count = 0;
    read_more(f, reader, 0);
    cr_assert(jobs_ended(reader) && !jobs_missing(reader));
    jobs_close(reader);
}

static inline void read_state(fixture_t *f, jobs_state_t state) { read_all(f, &(jobs_query_t){.state = state}); }

/* Reads all jobs in slices of one request each, as the API does, each by a reader of its own that asks for `most` jobs. A slice
   stops behind job `stop` (0 = never). Returns whether none may be missing. */
static size_t read_stop;
static bool read_add_some(void *self, const jobs_item_t *item) {
    read_add(self, item);
    return read_count != read_stop;
}
static inline bool read_slices(fixture_t *f, jobs_state_t state, int64_t most, size_t stop) {
    bool ended = false, missing = false;
    buffer_t cursor = {0};
    read_count = 0;
    read_stop = stop;
    for (int slices = 0; !ended; slices++) {
        cr_assert_lt(slices, 100, "%zu jobs, and no end", read_count);
        jobs_reader_t *reader = jobs_open(f->keys, 0, &(jobs_query_t){.state = state}, cursor.len ? buffer_text(&cursor) : NULL);
        cr_assert_not_null(reader, "%s", buffer_text(&cursor));
        outcome_t outcome = jobs_read(reader, f->conn, most, mono_now(), read_add_some, NULL, &f->error);
        cr_assert_eq(outcome, OUTCOME_OK, "%s", f->error.text);
        ended = jobs_ended(reader);
        missing |= jobs_missing(reader);
        buffer_clear(&cursor);
        jobs_cursor(reader, &cursor);
        jobs_close(reader);
    }
    buffer_free(&cursor);
    return !missing;
}

static inline int times_read(const char *id) {
    int times = 0;
    for (size_t i = 0; i < read_count; i++) times += strcmp(read_jobs[i].id, id) == 0;
    return times;
}
