// The jobs in progress by their start. Their list has another order: each scan puts its tail to its head, beside new jobs.
#include "operate/jobs/jobs.h"

enum { READS_MAX = 4 }; // of a list that scans rotate so far between two pages that the second one does not find its beginning

typedef struct held {
    jobs_item_t item;
    char *bytes;     // of its texts; owned
    digest_t digest; // of its list and its entry
    size_t page, place;
} held_t;

typedef struct oldest {
    held_t *jobs; // owned
    size_t count;
    size_t page, place; // of the next job
} oldest_t;

static slice_t held_text(char **at, slice_t text) {
    slice_t copy = {*at, text.len};
    if (text.len) memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

static bool oldest_hold(void *self, const jobs_item_t *item) {
    oldest_t *oldest = self;
    const slice_t parts[] = {item->key, item->entry};
    oldest->jobs = mem_grown(oldest->jobs, oldest->count, sizeof *oldest->jobs);
    held_t *held = &oldest->jobs[oldest->count++];
    *held = (held_t){.item = *item, .digest = digest_of_parts(parts, 2), .page = oldest->page, .place = oldest->place++};
    char *at = held->bytes =
        mem_alloc(item->job.len + item->type.len + item->worker.len + item->key.len + item->sha256.len + item->payload.len + 1);
    held->item.job = held_text(&at, item->job);
    held->item.type = held_text(&at, item->type);
    held->item.worker = held_text(&at, item->worker);
    held->item.key = held_text(&at, item->key);
    held->item.sha256 = held_text(&at, item->sha256);
    held->item.payload = held_text(&at, item->payload);
    held->item.entry = held->item.stamp_bytes = slice_text("");
    held->item.digest = NULL;
    held->item.stamp = NULL;
    return true;
}

static int held_compare_place(const held_t *x, const held_t *y) { return x->place < y->place ? -1 : x->place > y->place; }

static int held_compare_bytes(const void *a, const void *b) {
    const held_t *x = a, *y = b;
    int order = memcmp(&x->digest, &y->digest, sizeof x->digest);
    return order ? order : held_compare_place(x, y);
}

// A job that no sidecar has seen yet is a new one.
static int held_compare_start(const void *a, const void *b) {
    const held_t *x = a, *y = b;
    int64_t p = x->item.since ? x->item.since : INT64_MAX, q = y->item.since ? y->item.since : INT64_MAX;
    return p < q ? -1 : p > q ? 1 : held_compare_place(x, y);
}

// Frees the jobs that an earlier page had, because a scan has rotated them. Equal jobs of one page are several.
static void oldest_join(oldest_t *oldest) {
    size_t kept = 0, first = 0;
    if (oldest->count) qsort(oldest->jobs, oldest->count, sizeof *oldest->jobs, held_compare_bytes);
    for (size_t i = 0; i < oldest->count; i++) {
        held_t *held = &oldest->jobs[i];
        if (i == 0 || memcmp(&held->digest, &oldest->jobs[i - 1].digest, sizeof held->digest) != 0) first = held->page;
        if (held->page != first && !held->item.entry_cut)
            free(held->bytes);
        else
            oldest->jobs[kept++] = *held;
    }
    oldest->count = kept;
}

static outcome_t oldest_read(oldest_t *oldest, jobs_reader_t *reader, conn_t *conn, redis_error_t *error) {
    outcome_t outcome = OUTCOME_OK;
    for (int reads = 1; outcome == OUTCOME_OK; reads++) {
        const size_t most = oldest->count + JOBS_SORTED_MAX;
        while (outcome == OUTCOME_OK && !jobs_ended(reader) && oldest->count < most) {
            outcome = jobs_step(reader, conn, (int64_t)(most - oldest->count), oldest_hold, oldest, error);
            oldest->page++;
        }
        if (jobs_rotated(reader) || reads > 1) oldest_join(oldest);
        if (!jobs_rotated(reader) || !jobs_missing(reader) || reads == READS_MAX) break;
        jobs_rewind(reader);
    }
    return outcome;
}

outcome_t jobs_read_oldest(jobs_reader_t *reader, conn_t *conn, jobs_item_fn *fn, void *self, redis_error_t *error) {
    oldest_t oldest = {0};
    outcome_t outcome = oldest_read(&oldest, reader, conn, error);
    bool goes_on = true;
    if (oldest.count) qsort(oldest.jobs, oldest.count, sizeof *oldest.jobs, held_compare_start);
    for (size_t i = 0; i < oldest.count; i++) {
        goes_on = goes_on && fn(self, &oldest.jobs[i].item);
        free(oldest.jobs[i].bytes);
    }
    free(oldest.jobs);
    if (!goes_on || outcome != OUTCOME_OK || jobs_ended(reader) || jobs_rotated(reader)) return outcome;
    return jobs_read(reader, conn, 0, mono_never(), fn, self, error);
}
