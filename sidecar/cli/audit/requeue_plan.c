// Which failures a requeue or discard is about.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/audit/requeue.h"
#include "cli/encode.h"

enum { CANDIDATES = 20 };

typedef struct found {
    const audit_ref_t *ref;
    int count;
    int64_t seq, at;
    buffer_t refs; // owned: what begins like that
} found_t;

static void add(plan_t *plan, int64_t seq, int64_t at) {
    if (at > plan->newest) plan->newest = at;
    plan->seqs = mem_grown(plan->seqs, plan->count, sizeof *plan->seqs);
    plan->seqs[plan->count++] = seq;
}

static plan_queue_t *queue_of(plan_t *plan, slice_t name) {
    for (size_t i = 0; i < plan->queue_count; i++)
        if (slice_is(name, plan->queues[i].name)) return &plan->queues[i];
    plan->queues = mem_grown(plan->queues, plan->queue_count, sizeof *plan->queues);
    plan_queue_t *queue = &plan->queues[plan->queue_count++];
    *queue = (plan_queue_t){.name = mem_printf("%.*s", (int)name.len, name.data)};
    return queue;
}

static bool take_match(void *self, const audit_match_t *match) {
    plan_t *plan = ((void **)self)[0];
    const requeue_wish_t *wish = ((void **)self)[1];
    if (wish->filter.limit && plan->open == wish->filter.limit) return false;
    plan_queue_t *queue = queue_of(plan, match->queue);
    if (slice_is(match->state, "failed") || wish->again) {
        queue->open++;
        plan->open++;
        add(plan, match->seq, match->at);
    } else {
        queue->answered++;
        plan->answered++;
    }
    return true;
}

// The limit is of those that are to be done: what was answered before must not use it up, or a second run would do nothing.
bool plan_matches(const requeue_wish_t *wish, plan_t *plan, buffer_t *why) {
    const void *both[] = {plan, wish};
    audit_filter_t filter = wish->filter;
    filter.limit = 0;
    return audit_select(wish->audit, &filter, take_match, both, why);
}

static bool take_candidate(void *self, const audit_row_t *row) {
    found_t *found = self;
    if (*found->ref->event && !slice_is(row->event.event, found->ref->event)) return true;
    found->seq = row->seq;
    found->at = row->event.at;
    buffer_printf(&found->refs, "%s%.*s", found->count++ ? ", " : "", (int)row->ref.len, row->ref.data);
    return true;
}

static bool plan_ref(const requeue_wish_t *wish, const char *word, plan_t *plan, buffer_t *why) {
    audit_ref_t ref;
    found_t found = {.ref = &ref};
    bool read = audit_ref_read(word, &ref);
    if (read && !audit_find_ref(wish->audit, ref.prefix, CANDIDATES, take_candidate, &found, why)) return false;
    if (!read)
        fprintf(stderr, "queue-sidecar: `%s` is no ref: " AUDIT_REF_IS "\n", word);
    else if (found.count == 0)
        fprintf(stderr, "queue-sidecar: no event has the ref `%s`: it may be older than what this log keeps\n", word);
    else if (found.count > 1)
        fprintf(stderr, "queue-sidecar: several refs begin with `%s` (%s): give more of it\n", word, buffer_text(&found.refs));
    if (found.count == 1)
        add(plan, found.seq, found.at);
    else
        plan->bad_refs++;
    buffer_free(&found.refs);
    return true;
}

static int compare_seqs(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

// One failure that several refs name is one.
static void drop_doubles(plan_t *plan) {
    size_t kept = 0;
    if (plan->count) qsort(plan->seqs, plan->count, sizeof *plan->seqs, compare_seqs);
    for (size_t i = 0; i < plan->count; i++)
        if (i == 0 || plan->seqs[i] != plan->seqs[kept - 1]) plan->seqs[kept++] = plan->seqs[i];
    plan->count = kept;
}

bool plan_refs(const requeue_wish_t *wish, const char *const *refs, size_t count, plan_t *plan, buffer_t *why) {
    for (size_t i = 0; i < count; i++)
        if (!plan_ref(wish, refs[i], plan, why)) return false;
    drop_doubles(plan);
    plan->open = (int64_t)plan->count;
    return true;
}

void plan_clear(plan_t *plan) {
    for (size_t i = 0; i < plan->queue_count; i++) free(plan->queues[i].name);
    free(plan->queues);
    free(plan->seqs);
    *plan = (plan_t){0};
}

void plan_describe(const plan_t *plan, buffer_t *out) {
    char number[NUMBER_SIZE];
    const char *before = ": ";
    audit_number_text(plan->open, number);
    buffer_printf(out, "%s job%s", number, plan->open == 1 ? "" : "s");
    for (size_t i = 0; i < plan->queue_count; i++) {
        if (!plan->queues[i].open) continue;
        audit_number_text(plan->queues[i].open, number);
        buffer_str(out, before);
        encode_plain(out, slice_text(plan->queues[i].name), false);
        buffer_printf(out, " %s", number);
        before = ", ";
    }
}
