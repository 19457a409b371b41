#include <stdio.h>
#include <stdlib.h>

#include "base/text/units.h"
#include "cli/audit/requeue.h"
#include "cli/terminal.h"

static void plan_add(requeue_plan_t *plan, int64_t seq, int64_t at) {
    if (at > plan->newest) plan->newest = at;
    plan->seqs = mem_grown(plan->seqs, plan->count, sizeof *plan->seqs);
    plan->seqs[plan->count++] = seq;
}

static plan_queue_t *plan_find_queue(requeue_plan_t *plan, slice_t name) {
    for (size_t i = 0; i < plan->queue_count; i++)
        if (slice_is(name, plan->queues[i].name)) return &plan->queues[i];
    plan->queues = mem_grown(plan->queues, plan->queue_count, sizeof *plan->queues);
    plan_queue_t *queue = &plan->queues[plan->queue_count++];
    *queue = (plan_queue_t){.name = mem_printf("%.*s", (int)name.len, name.data)};
    return queue;
}

typedef struct plan_matcher {
    const audit_args_t *args;
    requeue_plan_t *plan;
} plan_matcher_t;

static bool plan_add_match(void *self, const audit_match_t *match) {
    const plan_matcher_t *matcher = self;
    requeue_plan_t *plan = matcher->plan;
    int64_t limit = matcher->args->filter.limit;
    if (limit && (int64_t)plan->count == limit) return false;
    if (slice_is(match->state, "failed") || matcher->args->requeue.again) {
        plan_find_queue(plan, match->queue)->open++;
        plan_add(plan, match->seq, match->at);
    } else {
        plan->answered++;
    }
    return true;
}

// Failures that were answered before must not use up the limit, or a second run would do nothing.
bool plan_matches(const requeue_options_t *options, requeue_plan_t *plan, buffer_t *why) {
    plan_matcher_t matcher = {options->args, plan};
    audit_filter_t filter = options->args->filter;
    filter.limit = 0;
    return audit_select(options->args->audit, &filter, plan_add_match, &matcher, why);
}

static int plan_compare_seqs(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

// Several refs may name one failure.
static void plan_remove_duplicates(requeue_plan_t *plan) {
    size_t kept = 0;
    if (plan->count) qsort(plan->seqs, plan->count, sizeof *plan->seqs, plan_compare_seqs);
    for (size_t i = 0; i < plan->count; i++)
        if (i == 0 || plan->seqs[i] != plan->seqs[kept - 1]) plan->seqs[kept++] = plan->seqs[i];
    plan->count = kept;
}

bool plan_refs(const requeue_options_t *options, requeue_plan_t *plan, buffer_t *why) {
    const audit_args_t *args = options->args;
    for (size_t i = 0; i < args->operands.count; i++) {
        audit_ref_match_t match;
        if (!audit_ref_find(args->audit, args->operands.all[i], args->utc, &match, why)) return false;
        if (match.count == 1)
            plan_add(plan, match.seq, match.at);
        else
            plan->bad_refs++;
    }
    plan_remove_duplicates(plan);
    return true;
}

void plan_free(requeue_plan_t *plan) {
    for (size_t i = 0; i < plan->queue_count; i++) free(plan->queues[i].name);
    free(plan->queues);
    free(plan->seqs);
}

void plan_format(const requeue_plan_t *plan, buffer_t *out) {
    buffer_printf(out, "%s job%s", number_text((int64_t)plan->count).text, plan->count == 1 ? "" : "s");
    for (size_t i = 0; i < plan->queue_count; i++) {
        buffer_str(out, i ? ", " : ": ");
        terminal_escape(out, slice_text(plan->queues[i].name), false);
        buffer_printf(out, " %s", number_text(plan->queues[i].open).text);
    }
}
