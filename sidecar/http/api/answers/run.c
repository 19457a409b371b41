#include "http/api/answers/run.h"

#include "base/json/json.h"
#include "base/log.h"
#include "base/text/suggest.h"
#include "base/text/time_text.h"
#include "http/api/questions/search.h"

enum { WAIT_MS = 20, NAMES_MAX = 1000 };

static const char ROLE[] = "api";

void answer_run_free(answer_run_t *run) {
    order_free(&run->order);
    config_free(run->config);
    answer_free(&run->problem);
    free(run->by);
    free(run->error);
    for (size_t i = 0; i < run->queue_count; i++) free(run->queues[i].name);
    free(run->queues);
    for (size_t i = 0; i < ANSWER_ITEMS_MAX; i++) free(run->items[i]);
    pthread_mutex_destroy(&run->mutex);
    free(run);
}

static void answer_set_state(answer_run_t *run, answer_state_t state) {
    pthread_mutex_lock(&run->mutex);
    run->state = state;
    pthread_mutex_unlock(&run->mutex);
}

// ---- The plan.

static void answer_count_queue(answer_run_t *run, slice_t name, int64_t jobs) {
    size_t at = 0;
    while (at < run->queue_count && !slice_is(name, run->queues[at].name)) at++;
    if (at == run->queue_count) {
        run->queues = mem_grown(run->queues, run->queue_count, sizeof *run->queues);
        run->queues[run->queue_count++] = (plan_queue_t){.name = mem_printf("%.*s", (int)name.len, name.data)};
    }
    run->queues[at].open += jobs;
}

// Facts about a ref.
typedef struct answer_ref {
    answer_run_t *run;
    buffer_t answer; // who answered or erased it, and when; empty = nobody
    bool erased;     // so it cannot be put back
    buffer_t queue;
} answer_ref_t;

static void answer_ref_write(answer_ref_t *ref, slice_t of, slice_t state, slice_t by, int64_t at) {
    buffer_printf(&ref->answer, "%.*s was %.*s by %.*s at %s", (int)of.len, of.data, (int)state.len, state.data, (int)by.len,
                  by.data, time_rfc3339(at).text);
}

static bool answer_take_ref(void *self, const audit_row_t *row) {
    answer_ref_t *ref = self;
    const order_t *order = &ref->run->order;
    buffer_clear(&ref->answer);
    buffer_clear(&ref->queue);
    buffer_add(&ref->queue, row->event.queue.data, row->event.queue.len);
    ref->erased = row->erased_at && !order->discard && (order->again || !row->answered_at);
    if (ref->erased)
        answer_ref_write(ref, row->ref, slice_text("erased"), row->erased_by, row->erased_at);
    else if (row->answered_at)
        answer_ref_write(ref, row->ref, row->state, row->answered_by, row->answered_at);
    return true;
}

// Plans one ref. False: the problem is set.
static bool answer_plan_ref(answer_run_t *run, requeue_t *requeue, const char *word, answer_ref_t *ref) {
    static const unsigned statuses[] = {
        [REF_MALFORMED] = 404, [REF_UNKNOWN] = 404, [REF_AMBIGUOUS] = 409, [REF_UNREADABLE] = 503};
    buffer_t why = {0};
    ref_event_t found;
    ref_result_t result = ref_find(requeue->audit, word, answer_take_ref, ref, &found, &why);
    if (result != REF_FOUND) answer_problem(&run->problem, statuses[result], NULL, "%s", buffer_text(&why));
    buffer_free(&why);
    if (result != REF_FOUND) return false;
    size_t before = requeue->plan.count;
    requeue_plan_event(requeue, found);
    if (requeue->plan.count == before) return true; // it came before
    if (ref->erased || (ref->answer.len && !run->order.again))
        run->answered++;
    else
        answer_count_queue(run, (slice_t){buffer_text(&ref->queue), ref->queue.len}, 1);
    return true;
}

static bool answer_plan_refs(answer_run_t *run, requeue_t *requeue) {
    const order_t *order = &run->order;
    answer_ref_t ref = {.run = run};
    bool good = true;
    for (size_t i = 0; good && i < order->ref_count; i++) good = answer_plan_ref(run, requeue, order->refs[i], &ref);
    if (good && run->answered == (int64_t)requeue->plan.count && !order->dry_run) {
        answer_problem(&run->problem, 409, NULL, ref.erased ? "erased: %s" : "answered before: %s; `again` repeats it",
                       buffer_text(&ref.answer));
        good = false;
    }
    buffer_free(&ref.answer);
    buffer_free(&ref.queue);
    run->jobs = (int64_t)requeue->plan.count - run->answered;
    return good;
}

// Whether the plan of the order allows it now. It limits the filter to what the dry run has seen.
static bool answer_obey_plan(answer_run_t *run, audit_filter_t *filter, plan_text_t *plan) {
    answer_t *problem = &run->problem;
    bool good = plan_read(run->order.plan, plan);
    plan_text_t own = *plan;
    plan_of_order(&run->order, &own);
    if (!good)
        answer_problem(problem, 400, NULL, "bad `plan`: send the member plan of a dry run as it is");
    else if (plan->expires < wall_ms())
        answer_problem(problem, 409, NULL, "the plan is outdated since %s: make another dry run",
                       time_rfc3339(plan->expires).text);
    else if (strcmp(plan->order, own.order) != 0)
        answer_problem(problem, 409, NULL,
                       "the plan is of another order, or was changed: action, filter, to and again must be the same");
    if (problem->status) return false;
    filter->since_ms = plan->since;
    if (!filter->until_ms || filter->until_ms > plan->newest) filter->until_ms = plan->newest + 1;
    return true;
}

static bool answer_plan_filter(answer_run_t *run, requeue_t *requeue) {
    const requeue_plan_t *made = &requeue->plan;
    audit_filter_t filter;
    plan_text_t plan = {0};
    buffer_t why = {0};
    answer_t *problem = &run->problem;
    if (!search_read_filter(failure_filters, failure_filter_count, &run->order.filter, &filter, problem)) return false;
    viewer_t viewer;
    viewer_init(&viewer, run->payloads, run->config);
    if (!viewer_sees_all(&viewer)) filter.view = &viewer.view;
    if (run->order.plan && !answer_obey_plan(run, &filter, &plan)) return false;
    if (!requeue_plan_filter(requeue, &filter, &why))
        answer_problem(problem, 503, NULL, "the audit log cannot be read: %s", buffer_text(&why));
    else if (run->order.plan && made->seen != plan.seen)
        answer_problem(
            problem, 409, NULL,
            "the plan is outdated: failures of its time have arrived in the log or were removed; make another dry run");
    buffer_free(&why);
    for (size_t i = 0; i < made->queue_count; i++)
        answer_count_queue(run, slice_text(made->queues[i].name), made->queues[i].open);
    run->jobs = (int64_t)made->count;
    run->answered = made->answered;
    run->earlier = made->earlier;
    run->plan = (plan_text_t){.since = filter.since_ms, .newest = made->seen_newest, .seen = made->seen};
    return !problem->status;
}

static bool answer_find_target(answer_run_t *run, requeue_t *requeue) {
    const char *names[NAMES_MAX];
    size_t count = 0;
    const keyspace_t *keys = requeue->keys;
    if (!run->order.to) return true;
    for (size_t i = 0; i < keys->queue_count; i++) {
        if (strcmp(keys->queues[i].config->name, run->order.to) == 0) requeue->options.to = (int64_t)i;
        if (count < NAMES_MAX) names[count++] = keys->queues[i].config->name;
    }
    if (requeue->options.to < 0)
        answer_problem(&run->problem, 400, suggest_nearest(run->order.to, names, count), "bad `to`: no queue has this name");
    return requeue->options.to >= 0;
}

static bool answer_connect(answer_run_t *run, requeue_t *requeue) {
    const char *target;
    redis_error_t error;
    if (run->order.dry_run || requeue_connect(requeue, &target, &error) == OUTCOME_OK) return true;
    answer_problem(&run->problem, 503, NULL, "Redis cannot be used: %s", error.text);
    return false;
}

static bool answer_plan(answer_run_t *run, requeue_t *requeue) {
    bool good = answer_find_target(run, requeue) &&
                (run->order.filtered ? answer_plan_filter(run, requeue) : answer_plan_refs(run, requeue)) &&
                answer_connect(run, requeue);
    return good;
}

// ---- The run.

// Tells the other instances how far it is.
static void answer_share(answer_run_t *run) {
    buffer_t state = {0};
    run->write(run, SHARE_ITEMS_MAX, &state);
    if (share_write(run->share, (slice_t){buffer_text(&state), state.len})) atomic_store(&run->stop, true);
    buffer_free(&state);
}

static void answer_share_if_due(answer_run_t *run) {
    if (run->share && share_is_due(run->share)) answer_share(run); // none while it is planned
}

static bool answer_wait(void *self, int64_t ns) {
    answer_run_t *run = self;
    mono_t end = mono_add(mono_now(), ns);
    answer_share_if_due(run);
    for (int64_t left; !atomic_load(&run->stop) && (left = mono_diff(end, mono_now())) > 0;) {
        int64_t pause = left < WAIT_MS * NS_PER_MS ? left : WAIT_MS * NS_PER_MS;
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        answer_share_if_due(run);
    }
    return atomic_load(&run->stop);
}

typedef struct answer_work {
    answer_run_t *run;
    requeue_t *requeue;
} answer_work_t;

static bool work_wait(void *self, int64_t ns) { return answer_wait(((answer_work_t *)self)->run, ns); }

static void work_result(void *self, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    const answer_work_t *work = self;
    answer_run_t *run = work->run;
    buffer_t item = {0};
    requeue_target_t shown = *target;
    digest_t digest;
    viewer_t viewer;
    viewer_init(&viewer, run->payloads, run->config);
    if (digest_parse(slice_text(target->job), &digest) && !viewer_sees_queue(&viewer, slice_text(target->queue)))
        memcpy(shown.job, shown.ref, sizeof shown.ref);
    requeue_write_result(&item, work->requeue, &shown, result, detail);
    pthread_mutex_lock(&run->mutex);
    char **place = &run->items[run->item_count++ % ANSWER_ITEMS_MAX];
    free(*place);
    *place = item.data;
    run->counts = work->requeue->counts;
    pthread_mutex_unlock(&run->mutex);
}

static void work_warn(void *self, const char *text) {
    const answer_work_t *work = self;
    log_warn(ROLE, NULL, "warning of an answer", F_STR("answer", work->run->id), F_STR("reason", text));
}

static void answer_end(answer_run_t *run, const requeue_t *requeue, requeue_end_t end, buffer_t *why) {
    pthread_mutex_lock(&run->mutex);
    run->counts = requeue->counts;
    run->state = end == REQUEUE_ENDED ? ANSWER_DONE : end == REQUEUE_STOPPED ? ANSWER_STOPPED : ANSWER_FAILED;
    if (why->len) run->error = mem_str(buffer_text(why));
    pthread_mutex_unlock(&run->mutex);
    log_info(ROLE, NULL, "an answer has ended", F_STR("answer", run->id), F_STR("by", run->by),
             F_INT("done", requeue->counts.of[RESULT_DONE]), F_INT("jobs", run->jobs),
             F_STR("reason", why->len ? buffer_text(why) : NULL));
}

static void answer_carry_out(answer_run_t *run, requeue_t *requeue) {
    buffer_t why = {0};
    log_info(ROLE, NULL, "an answer begins", F_STR("answer", run->id), F_STR("by", run->by),
             F_STR("action", run->order.discard ? "discard" : "requeue"), F_INT("jobs", run->jobs));
    run->share = share_new(run->config, run->id, &run->quit);
    answer_share(run); // before the client learns of it, and asks another instance
    answer_set_state(run, ANSWER_RUNNING);
    requeue_end_t end = requeue_run(requeue, &why);
    answer_end(run, requeue, end, &why);
    answer_share(run);
    share_free(run->share);
    buffer_free(&why);
}

void *answer_main(void *self) {
    answer_run_t *run = self;
    buffer_t why = {0};
    audit_t *audit = audit_open(run->config->audit.path, AUDIT_READ, &why);
    if (!audit) answer_problem(&run->problem, 503, NULL, "the audit log cannot be read: %s", buffer_text(&why));
    buffer_free(&why);
    if (audit) {
        requeue_t *requeue = requeue_new(run->config, audit);
        answer_work_t work = {run, requeue};
        requeue->options = (requeue_options_t){.discard = run->order.discard,
                                               .again = run->order.again,
                                               .by = run->by,
                                               .note = run->order.because ? run->order.because : "",
                                               .to = -1,
                                               .per_minute = run->order.per_minute,
                                               .utc = true};
        requeue->caller =
            (requeue_caller_t){.self = &work, .wait = work_wait, .result = work_result, .warn = work_warn, .quit = &run->quit};
        if (answer_plan(run, requeue) && !run->order.dry_run && !atomic_load(&run->stop)) answer_carry_out(run, requeue);
        requeue_free(requeue);
    }
    audit_close(audit);
    pthread_mutex_lock(&run->mutex);
    if (run->state == ANSWER_PLANNING) run->state = run->problem.status ? ANSWER_FAILED : ANSWER_DONE;
    pthread_mutex_unlock(&run->mutex);
    return NULL;
}
