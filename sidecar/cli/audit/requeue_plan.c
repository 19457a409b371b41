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

static bool plan_add_match(void *self, const audit_match_t *match) {
    requeue_t *requeue = self;
    requeue_plan_t *plan = &requeue->plan;
    int64_t limit = requeue->args->filter.limit;
    if (limit && (int64_t)plan->count == limit) return false;
    if (slice_is(match->state, "failed") || requeue->args->requeue.again) {
        plan_find_queue(plan, match->queue)->open++;
        plan_add(plan, match->seq, match->at);
    } else {
        plan->answered++;
    }
    return true;
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

static void plan_refs(requeue_t *requeue) {
    const cli_operands_t *words = &requeue->args->operands;
    for (size_t i = 0; i < words->count; i++) {
        audit_found_t found;
        if (audit_find_event(requeue->args, words->all[i], &found) == CLI_OK)
            plan_add(&requeue->plan, found.seq, found.at);
        else
            requeue->plan.bad_refs = true;
    }
    plan_remove_duplicates(&requeue->plan);
}

// Failures that were answered before must not use up the limit, or a second run would do nothing.
bool plan_begin(requeue_t *requeue, buffer_t *why) {
    audit_filter_t filter = requeue->args->filter;
    filter.limit = 0;
    if (requeue->args->requeue.where) return audit_select(requeue->args->audit, &filter, plan_add_match, requeue, why);
    plan_refs(requeue);
    return true;
}

void plan_end(requeue_plan_t *plan) {
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
