// Which failures a requeue or discard is about.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/audit_requeue.h"
#include "cli/encode.h"

enum { CANDIDATES = 20 };

typedef struct found {
    const audit_ref_t *ref;
    int count;
    int64_t seq;
    buffer_t refs; // owned: what begins like that
} found_t;

static void add_seq(plan_t *plan, int64_t seq) {
    if ((plan->count & (plan->count - 1)) == 0) { // only powers of two, and 0, are full
        int64_t *larger = mem_array(plan->count ? 2 * plan->count : 1, sizeof *larger);
        if (plan->count) memcpy(larger, plan->seqs, plan->count * sizeof *larger);
        free(plan->seqs);
        plan->seqs = larger;
    }
    plan->seqs[plan->count++] = seq;
}

static plan_queue_t *queue_of(plan_t *plan, slice_t name) {
    for (size_t i = 0; i < plan->queue_count; i++)
        if (slice_is(name, plan->queues[i].name)) return &plan->queues[i];
    plan_queue_t *larger = mem_array(plan->queue_count + 1, sizeof *larger);
    if (plan->queue_count) memcpy(larger, plan->queues, plan->queue_count * sizeof *larger);
    free(plan->queues);
    plan->queues = larger;
    plan_queue_t *queue = &plan->queues[plan->queue_count++];
    *queue = (plan_queue_t){.name = mem_printf("%.*s", (int)name.len, name.data)};
    return queue;
}

static bool take_match(void *self, const audit_match_t *match) {
    plan_t *plan = ((void **)self)[0];
    const requeue_wish_t *wish = ((void **)self)[1];
    plan_queue_t *queue = queue_of(plan, match->queue);
    if (slice_is(match->state, "failed") || wish->again) {
        queue->open++;
        plan->open++;
        add_seq(plan, match->seq);
    } else {
        queue->answered++;
        plan->answered++;
    }
    return true;
}

bool plan_matches(const requeue_wish_t *wish, plan_t *plan, buffer_t *why) {
    const void *both[] = {plan, wish};
    return audit_select(wish->audit, &wish->filter, take_match, both, why);
}

static bool take_candidate(void *self, const audit_row_t *row) {
    found_t *found = self;
    if (*found->ref->event && !slice_is(row->event.event, found->ref->event)) return true;
    found->seq = row->seq;
    buffer_printf(&found->refs, "%s%.*s", found->count++ ? ", " : "", (int)row->ref.len, row->ref.data);
    return true;
}

static bool plan_ref(const requeue_wish_t *wish, const char *word, plan_t *plan, buffer_t *why) {
    audit_ref_t ref;
    found_t found = {.ref = &ref};
    bool read = audit_ref_read(word, &ref);
    if (read && !audit_find(wish->audit, ref.prefix, CANDIDATES, take_candidate, &found, why)) return false;
    if (!read)
        fprintf(stderr, "queue-sidecar: `%s` is no ref: " AUDIT_REF_IS "\n", word);
    else if (found.count == 0)
        fprintf(stderr, "queue-sidecar: no event has the ref `%s`: it may be older than what this log keeps\n", word);
    else if (found.count > 1)
        fprintf(stderr, "queue-sidecar: several refs begin with `%s` (%s): give more of it\n", word, buffer_text(&found.refs));
    if (found.count == 1)
        add_seq(plan, found.seq);
    else
        plan->bad_refs++;
    buffer_free(&found.refs);
    return true;
}

bool plan_refs(const requeue_wish_t *wish, const char *const *refs, size_t count, plan_t *plan, buffer_t *why) {
    for (size_t i = 0; i < count; i++)
        if (!plan_ref(wish, refs[i], plan, why)) return false;
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
