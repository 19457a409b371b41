// Which failures a requeue or discard is about.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/audit/requeue.h"
#include "cli/terminal.h"

static void plan_add(requeue_plan_t *plan, int64_t seq, int64_t at) {
    if (at > plan->newest) plan->newest = at;
    plan->seqs = mem_grown(plan->seqs, plan->count, sizeof *plan->seqs);
    plan->seqs[plan->count++] = seq;
}

static plan_queue_t *plan_queue(requeue_plan_t *plan, slice_t name) {
    for (size_t i = 0; i < plan->queue_count; i++)
        if (slice_is(name, plan->queues[i].name)) return &plan->queues[i];
    plan->queues = mem_grown(plan->queues, plan->queue_count, sizeof *plan->queues);
    plan_queue_t *queue = &plan->queues[plan->queue_count++];
    *queue = (plan_queue_t){.name = mem_printf("%.*s", (int)name.len, name.data)};
    return queue;
}

static bool plan_add_match(void *self, const audit_match_t *match) {
    requeue_plan_t *plan = ((void **)self)[0];
    const requeue_options_t *options = ((void **)self)[1];
    if (options->filter.limit && plan->open == options->filter.limit) return false;
    plan_queue_t *queue = plan_queue(plan, match->queue);
    if (slice_is(match->state, "failed") || options->again) {
        queue->open++;
        plan->open++;
        plan_add(plan, match->seq, match->at);
    } else {
        queue->answered++;
        plan->answered++;
    }
    return true;
}

// The limit is of those that are to be done: what was answered before must not use it up, or a second run would do nothing.
bool plan_matches(const requeue_options_t *options, requeue_plan_t *plan, buffer_t *why) {
    const void *both[] = {plan, options};
    audit_filter_t filter = options->filter;
    filter.limit = 0;
    return audit_select(options->audit, &filter, plan_add_match, both, why);
}

static bool plan_add_ref(const requeue_options_t *options, const char *word, requeue_plan_t *plan, buffer_t *why) {
    audit_ref_match_t match;
    if (!audit_ref_find(options->audit, word, options->utc, &match, why)) return false;
    if (match.count == 1)
        plan_add(plan, match.seq, match.at);
    else
        plan->bad_refs++;
    return true;
}

static int plan_compare_seqs(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

// One failure that several refs name is one.
static void plan_remove_duplicates(requeue_plan_t *plan) {
    size_t kept = 0;
    if (plan->count) qsort(plan->seqs, plan->count, sizeof *plan->seqs, plan_compare_seqs);
    for (size_t i = 0; i < plan->count; i++)
        if (i == 0 || plan->seqs[i] != plan->seqs[kept - 1]) plan->seqs[kept++] = plan->seqs[i];
    plan->count = kept;
}

bool plan_refs(const requeue_options_t *options, const char *const *refs, size_t count, requeue_plan_t *plan, buffer_t *why) {
    for (size_t i = 0; i < count; i++)
        if (!plan_add_ref(options, refs[i], plan, why)) return false;
    plan_remove_duplicates(plan);
    plan->open = (int64_t)plan->count;
    return true;
}

void plan_free(requeue_plan_t *plan) {
    for (size_t i = 0; i < plan->queue_count; i++) free(plan->queues[i].name);
    free(plan->queues);
    free(plan->seqs);
    *plan = (requeue_plan_t){0};
}

void plan_format(const requeue_plan_t *plan, buffer_t *out) {
    char number[COUNT_TEXT_SIZE];
    const char *before = ": ";
    count_format(plan->open, number);
    buffer_printf(out, "%s job%s", number, plan->open == 1 ? "" : "s");
    for (size_t i = 0; i < plan->queue_count; i++) {
        if (!plan->queues[i].open) continue;
        count_format(plan->queues[i].open, number);
        buffer_str(out, before);
        terminal_escape(out, slice_text(plan->queues[i].name), false);
        buffer_printf(out, " %s", number);
        before = ", ";
    }
}
