// Chooses the failures to requeue, discard or erase.
#include "operate/requeue/requeue.h"

#include "operate/requeue/servers.h"

requeue_t *requeue_new(const config_t *config, audit_t *audit) {
    requeue_t *requeue = mem_alloc(sizeof *requeue);
    *requeue = (requeue_t){.audit = audit, .keys = keyspace_new(config), .options = {.by = "", .note = "", .to = -1}};
    return requeue;
}

void requeue_free(requeue_t *requeue) {
    requeue_plan_t *plan = &requeue->plan;
    for (size_t i = 0; i < plan->queue_count; i++) free(plan->queues[i].name);
    free(plan->queues);
    free(plan->seqs);
    requeue_servers_free(requeue->servers, requeue);
    keyspace_free(requeue->keys);
    free(requeue);
}

enum { MAX_RATE = 1000000 };

bool requeue_read_rate(const char *word, int64_t *per_minute) {
    char *end;
    long long number = strtoll(word, &end, 10);
    bool minute = strcmp(end, "/m") == 0;
    bool good = *word >= '0' && *word <= '9' && number > 0 && number <= MAX_RATE && (minute || !*end || strcmp(end, "/s") == 0);
    if (good) *per_minute = minute ? number : 60 * number;
    return good;
}

static void plan_insert(requeue_plan_t *plan, size_t place, int64_t seq, int64_t at) {
    if (at > plan->newest) plan->newest = at;
    plan->seqs = mem_grown(plan->seqs, plan->count, sizeof *plan->seqs);
    memmove(&plan->seqs[place + 1], &plan->seqs[place], (plan->count - place) * sizeof *plan->seqs);
    plan->seqs[place] = seq;
    plan->count++;
}

static plan_queue_t *plan_find_queue(requeue_plan_t *plan, slice_t name) {
    for (size_t i = 0; i < plan->queue_count; i++)
        if (slice_is(name, plan->queues[i].name)) return &plan->queues[i];
    plan->queues = mem_grown(plan->queues, plan->queue_count, sizeof *plan->queues);
    plan_queue_t *queue = &plan->queues[plan->queue_count++];
    *queue = (plan_queue_t){.name = mem_printf("%.*s", (int)name.len, name.data)};
    return queue;
}

enum { SLICE_US = 40000 }; // of a read transaction: a longer one keeps the auditor's checkpoints away

typedef struct plan_search {
    requeue_t *requeue;
    int64_t limit; // 0 = none
    bool only_open;
    bool full;
} plan_search_t;

static void plan_see(requeue_plan_t *plan, const audit_match_t *match) {
    digest_t digest = digest_of(match->event.data, match->event.len);
    uint64_t part = 0;
    for (size_t i = 0; i < sizeof part; i++) part = part << 8 | digest.bytes[i];
    plan->seen = (int64_t)(((uint64_t)plan->seen + part) & INT64_MAX);
    if (match->at > plan->seen_newest) plan->seen_newest = match->at;
}

static bool plan_add_match(void *self, const audit_match_t *match) {
    plan_search_t *search = self;
    requeue_plan_t *plan = &search->requeue->plan;
    const requeue_options_t *options = &search->requeue->options;
    search->full = search->limit && (int64_t)plan->count == search->limit;
    if (search->full) return false;
    plan_see(plan, match);
    if (search->only_open && !slice_is(match->state, "failed")) return true;
    bool open = options->again || (options->erase ? !match->erased : slice_is(match->state, "failed"));
    if (open && match->superseded && requeue_pushes(options)) {
        plan->earlier++;
    } else if (open) {
        plan_find_queue(plan, match->queue)->open++;
        plan_insert(plan, plan->count, match->seq, match->at);
    } else {
        plan->answered++;
    }
    return true;
}

// The limit must not count failures that were requeued or discarded before, or a second run would do nothing.
bool requeue_plan_filter(requeue_t *requeue, const audit_filter_t *filter, buffer_t *why) {
    plan_search_t search = {.requeue = requeue, .limit = filter->limit};
    audit_filter_t all = *filter;
    search.only_open = filter->state && strcmp(filter->state, "failed") == 0;
    if (search.only_open) all.state = NULL; // what was seen must not change with each answer
    audit_place_t place = {.more = true};
    const requeue_caller_t *caller = &requeue->caller;
    all.limit = 0;
    while (place.more && !search.full && !(caller->wait && caller->wait(caller->self, 0)))
        if (!audit_select(requeue->audit, &all, &place, SLICE_US, plan_add_match, &search, why)) return false;
    return true;
}

void requeue_plan_event(requeue_t *requeue, ref_event_t event) {
    requeue_plan_t *plan = &requeue->plan;
    size_t place = plan->count;
    while (place > 0 && plan->seqs[place - 1] >= event.seq) place--;
    if (place == plan->count || plan->seqs[place] != event.seq) plan_insert(plan, place, event.seq, event.at);
}
