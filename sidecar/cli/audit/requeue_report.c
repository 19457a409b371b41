// The report of `audit requeue`, `audit discard` and `audit erase`: lines for each failure, and the summary.
#include "base/json/json.h"
#include "base/text/units.h"
#include "cli/audit/requeue.h"

enum { MAX_PRINTED_EACH = 10, MAX_JSON_PROBLEMS = 1000 };

static const char *report_doing(const requeue_options_t *options) {
    return options->erase ? "erasing" : options->discard ? "discarding" : "requeueing";
}

void report_begin(requeue_command_t *command) {
    requeue_report_t *report = &command->report;
    const requeue_plan_t *plan = &command->requeue->plan;
    report->began = mono_now();
    report->progress = progress_begin(report_doing(&command->requeue->options));
    report->progress.start = plan->answered + plan->earlier;
    if (!command->args->requeue.where || command->requeue->options.dry_run) report->progress.enabled = false;
}

static const char *report_verb(const requeue_t *requeue) {
    return requeue->options.erase ? "erased" : requeue->options.discard ? "discarded" : "put back";
}

static const char *report_queue_name(const requeue_t *requeue, const requeue_target_t *target) {
    return requeue->keys->queues[target->to].config->name;
}

static void report_print_success(const requeue_t *requeue, const requeue_target_t *target, requeue_result_t result) {
    buffer_t line = {0};
    buffer_printf(&line, "%s  %s%s", target->ref, result == RESULT_WOULD ? "would be " : "", report_verb(requeue));
    if (requeue_pushes(&requeue->options)) buffer_printf(&line, " into %s", report_queue_name(requeue, target));
    buffer_str(&line, ": ");
    terminal_escape(&line, slice_text(target->job), false);
    puts(buffer_text(&line));
    buffer_free(&line);
}

// The option of the command that helps with a result.
static const char *report_hint(requeue_result_t result) {
    switch (result) {
    case RESULT_ANSWERED: return " (--again repeats it)";
    case RESULT_EARLIER: return " (its REF puts it back too)";
    case RESULT_NO_QUEUE: return " (--to names one)";
    case RESULT_OTHER_GROUP: return " (--from-group with its name does it here)";
    default: return "";
    }
}

static void report_print_problem(const requeue_target_t *target, requeue_result_t result, const char *detail) {
    buffer_t line = {0};
    buffer_printf(&line, "queue-sidecar: %s (", target->ref);
    terminal_escape(&line, slice_text(target->queue), false);
    buffer_printf(&line, ") %s%s%s", requeue_words[result].text, result == RESULT_ANSWERED ? "" : report_hint(result),
                  *detail ? ": " : "");
    terminal_escape(&line, slice_text(detail), false);
    fflush(stdout);
    fprintf(stderr, "%s\n", buffer_text(&line));
    buffer_free(&line);
}

// A bulk run prints only problems, and of each kind only the first ones.
static void report_print(requeue_command_t *command, const requeue_target_t *target, requeue_result_t result,
                         const char *detail) {
    bool bulk = command->args->requeue.where;
    int64_t printed = command->requeue->counts.of[result];
    if (bulk && (result == RESULT_DONE || printed > MAX_PRINTED_EACH)) return;
    progress_end(&command->report.progress);
    if (result <= RESULT_WOULD) {
        report_print_success(command->requeue, target, result);
        return;
    }
    report_print_problem(target, result, detail);
    if (bulk && printed == MAX_PRINTED_EACH)
        fputs("queue-sidecar: further failures like this one are only counted; -o jsonl names each\n", stderr);
}

void report_add(void *self, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    requeue_command_t *command = self;
    requeue_report_t *report = &command->report;
    buffer_t line = {0};
    switch (command->args->format) {
    case FORMAT_JSON_LINES:
        requeue_write_result(&line, command->requeue, target, result, detail);
        buffer_str(&line, "\n");
        terminal_print(&line, stdout);
        break;
    case FORMAT_JSON_ARRAY:
        if (result <= RESULT_WOULD || report->problem_count >= MAX_JSON_PROBLEMS) break;
        buffer_str(&report->problems, report->problem_count++ ? ",\n  " : "\n  ");
        requeue_write_result(&report->problems, command->requeue, target, result, detail);
        break;
    default: report_print(command, target, result, detail); break;
    }
    report_progress(command);
}

void report_warn(void *self, const char *text) {
    (void)self;
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", text);
}

void report_progress(requeue_command_t *command) {
    const requeue_counts_t *counts = &command->requeue->counts;
    progress_show(&command->report.progress, counts->tried, counts->total);
}

static void report_print_json(const requeue_command_t *command, const char *stopped) {
    const requeue_counts_t *counts = &command->requeue->counts;
    const requeue_options_t *options = &command->requeue->options;
    buffer_t out = {0};
    buffer_printf(&out, "{\"action\":\"%s\",\"dry_run\":%s,\"planned\":%" PRId64 ",", requeue_action(options),
                  options->dry_run ? "true" : "false", counts->total);
    requeue_write_counts(&out, counts);
    buffer_printf(&out, ",\"left\":%" PRId64 ",\"stopped\":", counts->total - counts->tried);
    if (stopped)
        json_write_string(&out, slice_text(stopped));
    else
        buffer_str(&out, "null");
    buffer_printf(&out, ",\"problems\":[%s]}\n", buffer_text(&command->report.problems));
    terminal_print(&out, stdout);
}

static void report_print_counts(const requeue_command_t *command) {
    const requeue_counts_t *counts = &command->requeue->counts;
    bool dry_run = command->requeue->options.dry_run;
    double seconds = (double)mono_diff(mono_now(), command->report.began) / (double)NS_PER_S;
    if (dry_run)
        printf("%s would be %s\n", number_text(counts->of[RESULT_WOULD]).text, report_verb(command->requeue));
    else
        printf("%s %s in %.1f s\n", number_text(counts->of[RESULT_DONE]).text, report_verb(command->requeue), seconds);
    for (requeue_result_t i = RESULT_WOULD + 1; i < RESULT_COUNT; i++)
        if (counts->of[i]) printf("besides, %s: %s%s\n", number_text(counts->of[i]).text, requeue_words[i].text, report_hint(i));
}

static void report_print_stopped(const requeue_command_t *command, const char *stopped) {
    const requeue_counts_t *counts = &command->requeue->counts;
    fflush(stdout);
    if (command->args->format != FORMAT_TABLE)
        fprintf(stderr, "queue-sidecar: stopped: %s\n", stopped);
    else
        fprintf(stderr, "queue-sidecar: stopped, with %s left: %s. %s\n", number_text(counts->total - counts->tried).text,
                stopped,
                command->args->requeue.again
                    ? "The same command would repeat the jobs that are done, because of --again: see them with `audit list`"
                    : "Run the same command again: jobs that are done are skipped");
}

int report_end(requeue_command_t *command, const char *stopped) {
    requeue_report_t *report = &command->report;
    const audit_args_t *args = command->args;
    progress_end(&report->progress);
    if (args->format == FORMAT_JSON_ARRAY) report_print_json(command, stopped);
    if (args->format == FORMAT_TABLE && (args->requeue.where || command->requeue->counts.total > 1)) report_print_counts(command);
    if (stopped) report_print_stopped(command, stopped);
    fflush(stdout);
    buffer_free(&report->problems);
    return requeue_has_failed(&command->requeue->counts) ? CLI_FAILED : CLI_OK;
}
