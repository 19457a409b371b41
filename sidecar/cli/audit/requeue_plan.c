// Which failures a requeue or discard is about.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/audit/requeue.h"
#include "cli/terminal.h"

enum { MAX_CANDIDATES = 20 };

typedef struct search {
    const audit_ref_t *ref;
    int count;
    int64_t seq, at;
    buffer_t refs; // owned: what begins like that
} plan_search_t;

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

static bool plan_add_candidate(void *self, const audit_row_t *row) {
    plan_search_t *search = self;
    if (*search->ref->event && !slice_is(row->event.event, search->ref->event)) return true;
    search->seq = row->seq;
    search->at = row->event.at;
    buffer_printf(&search->refs, "%s%.*s", search->count++ ? ", " : "", (int)row->ref.len, row->ref.data);
    return true;
}

static bool plan_add_ref(const requeue_options_t *options, const char *word, requeue_plan_t *plan, buffer_t *why) {
    audit_ref_t ref;
    plan_search_t search = {.ref = &ref};
    bool read = audit_ref_parse(word, &ref);
    if (read && !audit_find_ref(options->audit, ref.prefix, MAX_CANDIDATES, plan_add_candidate, &search, why)) return false;
    if (!read)
        fprintf(stderr, "queue-sidecar: `%s` is no ref: " AUDIT_REF_SYNTAX "\n", word);
    else if (search.count == 0)
        fprintf(stderr, "queue-sidecar: no event has the ref `%s`: it may be older than what this log keeps\n", word);
    else if (search.count > 1)
        fprintf(stderr, "queue-sidecar: several refs begin with `%s` (%s): give more of it\n", word, buffer_text(&search.refs));
    if (search.count == 1)
        plan_add(plan, search.seq, search.at);
    else
        plan->bad_refs++;
    buffer_free(&search.refs);
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
