#include "http/api/answers/answers.h"

#include "base/json/json.h"
#include "base/text/time_text.h"
#include "http/api/answers/run.h"
#include "http/api/api.h"

enum { ANSWERS_RUNNING_MAX = 4, ANSWERS_KEPT_MAX = 16 };
enum { STACK_BYTES = 256 * 1024, LOOK_AGAIN_MS = 5, GRACE_MS = 1000 };

typedef struct answers {
    answer_run_t *first; // the newest
} answers_t;

static answer_state_t answers_state(answer_run_t *run) {
    pthread_mutex_lock(&run->mutex);
    answer_state_t state = run->state;
    pthread_mutex_unlock(&run->mutex);
    return state;
}

static bool answers_is_over(answer_run_t *run) { return answers_state(run) >= ANSWER_DONE; }

// Waits for the thread, which has ended or will soon.
static void answers_drop(answer_run_t *run) {
    if (run->started) pthread_join(run->thread, NULL);
    answer_run_free(run);
}

// Runs get a moment for the requests in flight.
static void answers_free(void *self) {
    answers_t *answers = self;
    mono_t end = mono_add(mono_now(), GRACE_MS * NS_PER_MS);
    for (answer_run_t *run = answers->first; run; run = run->next) atomic_store(&run->stop, true);
    for (answer_run_t *run = answers->first, *next; run; run = next) {
        next = run->next;
        while (!answers_is_over(run) && !mono_reached(end, mono_now())) nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
        atomic_store(&run->quit, true);
        answers_drop(run);
    }
    free(answers);
}

static void answers_remove(answers_t *answers, answer_run_t *run) {
    answer_run_t **at = &answers->first;
    while (*at != run) at = &(*at)->next;
    *at = run->next;
    answers_drop(run);
}

// Forgets the oldest of those that are over. Returns how many are not.
static size_t answers_tidy(answers_t *answers) {
    size_t running = 0, kept = 0;
    for (answer_run_t *run = answers->first, *next; run; run = next) {
        next = run->next;
        if (!answers_is_over(run))
            running++;
        else if (!run->waited && ++kept >= ANSWERS_KEPT_MAX)
            answers_remove(answers, run);
    }
    return running;
}

static bool answers_start(answer_run_t *run) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    run->started = pthread_create(&run->thread, &attr, answer_main, run) == 0;
    pthread_attr_destroy(&attr);
    return run->started;
}

static answers_t *answers_of(api_t *api) {
    if (!*api_kept(api)) api_keep(api, mem_alloc(sizeof(answers_t)), answers_free);
    return *api_kept(api);
}

// ---- What is written.

static void answers_write_text(buffer_t *out, const char *name, const char *text) {
    buffer_printf(out, ",\"%s\":", name);
    if (text)
        json_write_string(out, slice_text(text));
    else
        buffer_str(out, "null");
}

static void answers_write_items(const answer_run_t *run, size_t most, buffer_t *out) {
    size_t first = run->item_count > most ? run->item_count - most : 0;
    buffer_str(out, ",\"items\":[");
    for (size_t i = first; i < run->item_count; i++)
        buffer_printf(out, "%s%s", i > first ? ",\n " : "", run->items[i % ANSWER_ITEMS_MAX]);
    buffer_str(out, "]");
}

static void answers_write_run(answer_run_t *run, size_t most, buffer_t *out) {
    static const char *const words[] = {"running", "running", "done", "stopped", "failed"};
    pthread_mutex_lock(&run->mutex);
    int64_t done = run->counts.tried - run->answered - run->earlier;
    buffer_printf(out,
                  "{\"id\":\"%s\",\"action\":\"%s\",\"state\":\"%s\",\"jobs\":%" PRId64 ",\"done\":%" PRId64 ",\"results\":{",
                  run->id, run->order.discard ? "discard" : "requeue", words[run->state], run->jobs, done > 0 ? done : 0);
    requeue_write_counts(out, &run->counts);
    buffer_str(out, "}");
    answers_write_items(run, most, out);
    answers_write_text(out, "by", run->by);
    answers_write_text(out, "because", run->order.because ? run->order.because : "");
    answers_write_text(out, "error", run->error);
    buffer_str(out, "}\n");
    pthread_mutex_unlock(&run->mutex);
}

// The thread of the run has ended.
static void answers_write_plan(const answer_run_t *run, buffer_t *out) {
    plan_text_t plan = run->plan;
    char text[PLAN_SIZE];
    plan.expires = wall_ms() + PLAN_MS;
    plan_of_order(&run->order, &plan);
    plan_write(&plan, text);
    buffer_printf(out, "{\"plan\":\"%s\",\"expires\":\"%s\",\"jobs\":%" PRId64 ",\"queues\":[", text,
                  time_rfc3339(plan.expires).text, run->jobs);
    for (size_t i = 0; i < run->queue_count; i++) {
        buffer_str(out, i ? ",{\"queue\":" : "{\"queue\":");
        json_write_string(out, slice_text(run->queues[i].name));
        buffer_printf(out, ",\"jobs\":%" PRId64 "}", run->queues[i].open);
    }
    buffer_printf(out, "],\"answered\":%" PRId64 ",\"earlier\":%" PRId64 "}\n", run->answered, run->earlier);
}

// ---- POST.

// The run of a request while it is planned.
typedef struct answers_wait {
    answers_t *answers;
    answer_run_t *run; // of the registry
} answers_wait_t;

// The client has gone before the run began: nobody would learn of it.
static void answers_give_up(void *self) {
    answers_wait_t *wait = self;
    if (wait->run) {
        atomic_store(&wait->run->stop, true);
        wait->run->waited = false;
    }
    free(wait);
}

static bool answers_begin(api_t *api, request_t *request) {
    answers_t *answers = answers_of(api);
    answer_run_t *run = mem_alloc(sizeof *run);
    pthread_mutex_init(&run->mutex, NULL);
    run->config = config_share(api_config(api));
    run->write = answers_write_run;
    run->by = mem_str(request->by);
    run->payloads = request_may(request, RIGHT_PAYLOADS);
    random_hex(run->id, ANSWER_ID_SIZE - 1);
    bool good = order_read((slice_t){buffer_text(&request->body), request->body.len}, &run->order, &request->answer);
    if (good && run->order.filtered && !request_may(request, RIGHT_LOOK)) {
        answer_problem(&request->answer, 403, NULL,
                       "a `filter` needs the right look, which the token of %s lacks: name the failures by `refs`", request->by);
        good = false;
    }
    if (good && answers_tidy(answers) >= ANSWERS_RUNNING_MAX) {
        answer_problem(&request->answer, 429, NULL, "%d answers are running: wait for one of them, or stop it",
                       ANSWERS_RUNNING_MAX);
        good = false;
    }
    if (good && !answers_start(run)) {
        answer_problem(&request->answer, 503, NULL, "cannot start a thread");
        good = false;
    }
    if (!good) {
        answer_run_free(run);
        return false;
    }
    run->waited = true;
    run->next = answers->first;
    answers->first = run;
    answers_wait_t *wait = request->work = mem_alloc(sizeof *wait);
    *wait = (answers_wait_t){answers, run};
    request->free_work = answers_give_up;
    return true;
}

// Moves the problem, or the plan of a dry run, to the answer, and forgets the run.
static void answers_finish(answers_wait_t *wait, answer_t *answer) {
    answer_run_t *run = wait->run;
    if (run->problem.status) {
        *answer = run->problem;
        run->problem = (answer_t){0};
    } else {
        answers_write_plan(run, &answer->body);
        answer_json(answer, 200);
    }
    wait->run = NULL;
    answers_remove(wait->answers, run);
}

bool answers_post(api_t *api, request_t *request) {
    answer_t *answer = &request->answer;
    if (!request->work && !answers_begin(api, request)) return true;
    answers_wait_t *wait = request->work;
    answer_run_t *run = wait->run;
    request->due = mono_add(mono_now(), LOOK_AGAIN_MS * NS_PER_MS);
    answer_state_t state = answers_state(run);
    if (state == ANSWER_PLANNING) return false;
    if (run->order.dry_run || run->problem.status) {
        answers_finish(wait, answer);
        return true;
    }
    run->waited = false;
    wait->run = NULL;
    answers_write_run(run, ANSWER_ITEMS_MAX, &answer->body);
    answer_json(answer, 202);
    answer->location = mem_printf(API_ROOT "/answers/%s", run->id);
    return true;
}

// ---- GET and DELETE.

static answer_run_t *answers_find(api_t *api, const request_t *request) {
    answer_run_t *run = answers_of(api)->first;
    while (run && strcmp(run->id, request->argument) != 0) run = run->next;
    return run && answers_state(run) != ANSWER_PLANNING ? run : NULL;
}

bool answers_get(api_t *api, request_t *request) {
    answer_run_t *run = answers_find(api, request);
    if (!run) return share_ask(request);
    answers_write_run(run, ANSWER_ITEMS_MAX, &request->answer.body);
    answer_json(&request->answer, 200);
    return true;
}

bool answers_delete(api_t *api, request_t *request) {
    answer_run_t *run = answers_find(api, request);
    if (run) atomic_store(&run->stop, true);
    return answers_get(api, request);
}
