// The report of `audit requeue` and `audit discard`: lines for each failure, and the summary.
#include "base/json/json.h"
#include "base/text/units.h"
#include "cli/audit/requeue.h"

enum { MAX_PRINTED_EACH = 10, MAX_JSON_PROBLEMS = 1000 };

static const struct {
    const char *word, *text;
    bool fails;
} results[RESULT_COUNT] = {
#define X(name, word_, fails_, text_) [RESULT_##name] = {.word = (word_), .text = (text_), .fails = (fails_)},
    RESULT_LIST(X)
#undef X
};

void report_begin(requeue_t *requeue) {
    requeue_report_t *report = &requeue->report;
    report->of[RESULT_ANSWERED] = requeue->plan.answered;
    report->of[RESULT_EARLIER] = requeue->plan.earlier;
    report->tried = requeue->plan.answered + requeue->plan.earlier;
    report->total = (int64_t)requeue->plan.count + report->tried;
    report->began = mono_now();
    report->progress = progress_begin(requeue->discard ? "discarding" : "requeueing");
    report->progress.start = report->tried;
    if (!requeue->args->requeue.where || requeue->args->requeue.dry_run) report->progress.enabled = false;
}

static const char *report_verb(const requeue_t *requeue) { return requeue->discard ? "discarded" : "put back"; }

static const char *report_queue_name(const requeue_t *requeue, const requeue_target_t *target) {
    return requeue->keys->queues[target->to].config->name;
}

static void report_add_json_text(buffer_t *out, const char *name, const char *text) {
    buffer_printf(out, "%s\"%s\":", out->data[out->len - 1] == '{' ? "" : ",", name);
    json_write_string(out, slice_text(text));
}

static void report_add_json(buffer_t *out, const requeue_t *requeue, const requeue_target_t *target, requeue_result_t result,
                            const char *detail) {
    bool discard = requeue->discard;
    buffer_str(out, "{");
    report_add_json_text(out, "ref", target->ref);
    report_add_json_text(out, "event", target->event);
    report_add_json_text(out, "queue", target->queue);
    report_add_json_text(out, "job_id", target->job);
    report_add_json_text(out, "action", discard ? "discard" : "requeue");
    report_add_json_text(out, "result", results[result].word);
    if (!discard && result <= RESULT_WOULD) report_add_json_text(out, "to", report_queue_name(requeue, target));
    report_add_json_text(out, "detail", *detail ? detail : results[result].text);
    buffer_str(out, "}");
}

static void report_print_success(const requeue_t *requeue, const requeue_target_t *target, requeue_result_t result) {
    buffer_t line = {0};
    buffer_printf(&line, "%s  %s%s", target->ref, result == RESULT_WOULD ? "would be " : "", report_verb(requeue));
    if (!requeue->discard) buffer_printf(&line, " into %s", report_queue_name(requeue, target));
    buffer_str(&line, ": ");
    terminal_escape(&line, slice_text(target->job), false);
    puts(buffer_text(&line));
    buffer_free(&line);
}

static void report_print_problem(const requeue_target_t *target, requeue_result_t result, const char *detail) {
    buffer_t line = {0};
    buffer_printf(&line, "queue-sidecar: %s (", target->ref);
    terminal_escape(&line, slice_text(target->queue), false);
    buffer_printf(&line, ") %s%s", results[result].text, *detail ? ": " : "");
    terminal_escape(&line, slice_text(detail), false);
    fflush(stdout);
    fprintf(stderr, "%s\n", buffer_text(&line));
    buffer_free(&line);
}

// A bulk run prints only problems, and of each kind only the first ones.
static void report_print(requeue_t *requeue, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    bool bulk = requeue->args->requeue.where;
    int64_t printed = requeue->report.of[result];
    if (bulk && (result == RESULT_DONE || printed > MAX_PRINTED_EACH)) return;
    progress_end(&requeue->report.progress);
    if (result <= RESULT_WOULD) {
        report_print_success(requeue, target, result);
        return;
    }
    report_print_problem(target, result, detail);
    if (bulk && printed == MAX_PRINTED_EACH)
        fputs("queue-sidecar: further failures like this one are only counted; -o jsonl names each\n", stderr);
}

void report_add(requeue_t *requeue, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    buffer_t line = {0};
    requeue_report_t *report = &requeue->report;
    report->of[result]++;
    report->tried++;
    switch (requeue->args->format) {
    case FORMAT_JSON_LINES:
        report_add_json(&line, requeue, target, result, detail);
        buffer_str(&line, "\n");
        terminal_print(&line, stdout);
        break;
    case FORMAT_JSON_ARRAY:
        if (result <= RESULT_WOULD || report->problem_count >= MAX_JSON_PROBLEMS) break;
        buffer_str(&report->problems, report->problem_count++ ? ",\n  " : "\n  ");
        report_add_json(&report->problems, requeue, target, result, detail);
        break;
    default: report_print(requeue, target, result, detail); break;
    }
    report_progress(report);
}

void report_progress(requeue_report_t *report) { progress_show(&report->progress, report->tried, report->total); }

static void report_print_json(const requeue_t *requeue, const char *stopped) {
    const requeue_report_t *report = &requeue->report;
    buffer_t out = {0};
    buffer_printf(&out, "{\"action\":\"%s\",\"dry_run\":%s,\"planned\":%" PRId64, requeue->discard ? "discard" : "requeue",
                  requeue->args->requeue.dry_run ? "true" : "false", report->total);
    for (int i = 0; i < RESULT_COUNT; i++) buffer_printf(&out, ",\"%s\":%" PRId64, results[i].word, report->of[i]);
    buffer_printf(&out, ",\"left\":%" PRId64 ",\"stopped\":", report->total - report->tried);
    if (stopped)
        json_write_string(&out, slice_text(stopped));
    else
        buffer_str(&out, "null");
    buffer_printf(&out, ",\"problems\":[%s]}\n", buffer_text(&report->problems));
    terminal_print(&out, stdout);
}

static void report_print_counts(const requeue_t *requeue) {
    const requeue_report_t *report = &requeue->report;
    bool dry_run = requeue->args->requeue.dry_run;
    double seconds = (double)mono_diff(mono_now(), report->began) / (double)NS_PER_S;
    if (dry_run)
        printf("%s would be %s\n", number_text(report->of[RESULT_WOULD]).text, report_verb(requeue));
    else
        printf("%s %s in %.1f s\n", number_text(report->of[RESULT_DONE]).text, report_verb(requeue), seconds);
    for (int i = RESULT_WOULD + 1; i < RESULT_COUNT; i++)
        if (report->of[i])
            printf("besides, %s: %s%s\n", number_text(report->of[i]).text, results[i].text,
                   i == RESULT_ANSWERED  ? " (--again repeats it)"
                   : i == RESULT_EARLIER ? " (its REF puts it back too)"
                                         : "");
}

static void report_print_stopped(const requeue_t *requeue, const char *stopped) {
    fflush(stdout);
    if (requeue->args->format != FORMAT_TABLE)
        fprintf(stderr, "queue-sidecar: stopped: %s\n", stopped);
    else
        fprintf(stderr, "queue-sidecar: stopped, with %s left: %s. %s\n",
                number_text(requeue->report.total - requeue->report.tried).text, stopped,
                requeue->args->requeue.again
                    ? "The same command would repeat the jobs that are done, because of --again: see them with `audit list`"
                    : "Run the same command again: jobs that are done are skipped");
}

int report_end(requeue_t *requeue, const char *stopped) {
    requeue_report_t *report = &requeue->report;
    const audit_args_t *args = requeue->args;
    int status = CLI_OK;
    progress_end(&report->progress);
    for (int i = 0; i < RESULT_COUNT; i++)
        if (report->of[i] && results[i].fails) status = CLI_FAILED;
    if (args->format == FORMAT_JSON_ARRAY) report_print_json(requeue, stopped);
    if (args->format == FORMAT_TABLE && (args->requeue.where || report->total > 1)) report_print_counts(requeue);
    if (stopped) report_print_stopped(requeue, stopped);
    fflush(stdout);
    buffer_free(&report->problems);
    return status;
}
