// What became of each failure, for people and programs.
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json/write.h"
#include "cli/audit/requeue.h"
#include "cli/terminal.h"

enum { MAX_PRINTED_EACH = 10, MAX_JSON_PROBLEMS = 1000, PROGRESS_MS = 200 };

static const struct {
    const char *word, *text;
    bool fails;
} results[RESULT_COUNT] = {
#define X(name, word_, fails_, text_) [RESULT_##name] = {.word = (word_), .text = (text_), .fails = (fails_)},
    RESULT_LIST(X)
#undef X
};

void report_begin(requeue_report_t *report, const requeue_options_t *options, int64_t total, int64_t answered) {
    *report =
        (requeue_report_t){.options = options, .total = total, .before = answered, .began = mono_now(), .shown = mono_now()};
    report->of[RESULT_ANSWERED] = answered;
}

static const char *report_verb(const requeue_options_t *options) { return options->discard ? "discarded" : "put back"; }

static void report_add_json(buffer_t *out, const requeue_report_t *report, const requeue_target_t *target,
                            requeue_result_t result, const char *detail) {
    const requeue_options_t *options = report->options;
    buffer_printf(out, "{\"ref\":\"%s\",\"event\":\"%s\",\"queue\":", target->ref, target->event);
    json_write_string(out, slice_text(target->queue));
    buffer_str(out, ",\"job_id\":");
    json_write_string(out, slice_text(target->job));
    buffer_printf(out, ",\"action\":\"%s\",\"result\":\"%s\"", options->discard ? "discard" : "requeue", results[result].word);
    if (!options->discard && result <= RESULT_WOULD) {
        buffer_str(out, ",\"to\":");
        json_write_string(out, slice_text(options->keys->queues[target->to].config->name));
    }
    buffer_str(out, ",\"detail\":");
    json_write_string(out, slice_text(detail ? detail : results[result].text));
    buffer_str(out, "}");
}

static void report_clear_progress(requeue_report_t *report) {
    if (report->progress) fputs("\r\x1b[K", stderr);
    report->progress = false;
}

// A line of plain text: nothing of a job may move the cursor.
static void report_print_escaped(FILE *to, const char *text) {
    buffer_t plain = {0};
    terminal_escape(&plain, slice_text(text), false);
    fputs(buffer_text(&plain), to);
    buffer_free(&plain);
}

// In bulk only what went wrong is told one by one, and of each kind no more than the first.
static bool report_is_shown(const requeue_report_t *report, requeue_result_t result) {
    return !report->options->bulk || (result != RESULT_DONE && report->of[result] <= MAX_PRINTED_EACH);
}

static void report_print_success(const requeue_report_t *report, const requeue_target_t *target, requeue_result_t result) {
    const requeue_options_t *options = report->options;
    printf("%s  %s%s", target->ref, result == RESULT_WOULD ? "would be " : "", report_verb(options));
    if (!options->discard) printf(" into %s", options->keys->queues[target->to].config->name);
    fputs(": ", stdout);
    report_print_escaped(stdout, target->job);
    fputs("\n", stdout);
}

static void report_print(requeue_report_t *report, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    if (!report_is_shown(report, result)) return;
    report_clear_progress(report);
    if (result == RESULT_DONE || result == RESULT_WOULD) {
        report_print_success(report, target, result);
        return;
    }
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s (", target->ref);
    report_print_escaped(stderr, target->queue);
    fprintf(stderr, ") %s%s", results[result].text, detail ? ": " : "");
    report_print_escaped(stderr, detail ? detail : "");
    fputs("\n", stderr);
    if (report->options->bulk && report->of[result] == MAX_PRINTED_EACH)
        fputs("queue-sidecar: others like this are counted; -o jsonl names each\n", stderr);
}

void report_add(requeue_report_t *report, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    bool good = result == RESULT_DONE || result == RESULT_WOULD;
    buffer_t line = {0};
    report->of[result]++;
    switch (report->options->format) {
    case FORMAT_JSON_LINES:
        report_add_json(&line, report, target, result, detail);
        buffer_str(&line, "\n");
        fwrite(line.data, 1, line.len, stdout);
        buffer_free(&line);
        break;
    case FORMAT_JSON_ARRAY:
        if (good || report->problem_count >= MAX_JSON_PROBLEMS) break;
        buffer_str(&report->problems, report->problem_count++ ? ",\n  " : "\n  ");
        report_add_json(&report->problems, report, target, result, detail);
        break;
    default: report_print(report, target, result, detail); break;
    }
}

static int64_t report_count_tried(const requeue_report_t *report) {
    int64_t sum = 0;
    for (int i = 0; i < RESULT_COUNT; i++) sum += report->of[i];
    return sum;
}

void report_progress(requeue_report_t *report, bool last) {
    char done[COUNT_TEXT_SIZE], total[COUNT_TEXT_SIZE], rate[COUNT_TEXT_SIZE];
    mono_t now = mono_now();
    if (!report->options->bulk || report->options->dry_run || !isatty(STDERR_FILENO)) return;
    if (last) report_clear_progress(report);
    if (last || mono_diff(now, report->shown) < PROGRESS_MS * NS_PER_MS) return;
    report->shown = now;
    int64_t ms = mono_diff(now, report->began) / NS_PER_MS + 1, so_far = report_count_tried(report),
            left = report->total - so_far;
    int64_t by_now = so_far - report->before;
    count_format(so_far, done);
    count_format(report->total, total);
    count_format(by_now * 1000 / ms, rate);
    fprintf(stderr, "\r%s of %s (%d %%), %s/s, %" PRId64 " s left\x1b[K", done, total,
            (int)(report->total ? so_far * 100 / report->total : 100), rate, by_now ? left * ms / by_now / 1000 : 0);
    fflush(stderr);
    report->progress = true;
}

static void report_print_json(const requeue_report_t *report, const char *stopped) {
    buffer_t out = {0};
    buffer_printf(&out, "{\"action\":\"%s\",\"dry_run\":%s,\"planned\":%" PRId64,
                  report->options->discard ? "discard" : "requeue", report->options->dry_run ? "true" : "false", report->total);
    for (int i = 0; i < RESULT_COUNT; i++) buffer_printf(&out, ",\"%s\":%" PRId64, results[i].word, report->of[i]);
    buffer_printf(&out, ",\"left\":%" PRId64 ",\"stopped\":", report->total - report_count_tried(report));
    if (stopped)
        json_write_string(&out, slice_text(stopped));
    else
        buffer_str(&out, "null");
    buffer_printf(&out, ",\"problems\":[%s]}\n", buffer_text(&report->problems));
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

static void report_print_summary(const requeue_report_t *report, const char *stopped) {
    const requeue_options_t *options = report->options;
    char number[COUNT_TEXT_SIZE];
    double seconds = (double)mono_diff(mono_now(), report->began) / (double)NS_PER_S;
    count_format(report->of[options->dry_run ? RESULT_WOULD : RESULT_DONE], number);
    if (options->bulk || report->total > 1) {
        printf("%s%s %s", number, options->dry_run ? " would be" : "", report_verb(options));
        if (!options->dry_run) printf(" in %.1f s", seconds);
        fputs("\n", stdout);
    }
    for (int i = RESULT_WOULD + 1; (options->bulk || report->total > 1) && i < RESULT_COUNT; i++) {
        if (!report->of[i]) continue;
        count_format(report->of[i], number);
        printf("besides, %s: %s%s\n", number, results[i].text, i == RESULT_ANSWERED ? " (--again does it once more)" : "");
    }
    if (!stopped) return;
    count_format(report->total - report_count_tried(report), number);
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: stopped, with %s left: %s. %s\n", number, stopped,
            options->again
                ? "The same command would do again what is done now, because of --again: `audit list` shows what that is"
                : "Run the same command again: what is done is left out");
}

int report_end(requeue_report_t *report, const char *stopped) {
    int status = CLI_OK;
    report_clear_progress(report);
    for (int i = 0; i < RESULT_COUNT; i++)
        if (report->of[i] && results[i].fails) status = CLI_FAILED;
    if (report->options->format == FORMAT_JSON_ARRAY)
        report_print_json(report, stopped);
    else if (report->options->format == FORMAT_TABLE)
        report_print_summary(report, stopped);
    if (stopped && report->options->format != FORMAT_TABLE) fprintf(stderr, "queue-sidecar: stopped: %s\n", stopped);
    fflush(stdout);
    buffer_free(&report->problems);
    return status;
}
