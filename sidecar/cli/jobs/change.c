// queue-sidecar jobs run, and queue-sidecar jobs cancel.
#include "operate/jobs/change.h"
#include "base/json/json.h"
#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/jobs/jobs.h"
#include "cli/operator.h"
#include "cli/terminal.h"
#include "operate/requeue/requeue.h"

enum { MAX_PRINTED_EACH = 10, MAX_JSON_PROBLEMS = 1000 };

typedef struct change {
    const jobs_args_t *args;
    jobs_action_t action;
    progress_t progress;
    buffer_t problems; // for -o json; owned
    int64_t problem_count;
    sigset_t signals; // that stop it
    int signal;       // stopped it; 0 = none
} change_t;

static const char *change_verb(const change_t *change) { return change->action.cancel ? "cancelled" : "due now"; }

// ---- Results.

static void change_print_success(change_t *change, const jobs_target_t *target, jobs_result_t result) {
    buffer_t line = {0};
    if (*target->ref) buffer_printf(&line, "%s  ", target->ref);
    buffer_printf(&line, "%s%s: ", result == JOBS_RESULT_WOULD ? "would be " : "", change_verb(change));
    terminal_escape(&line, slice_text(target->job), false);
    buffer_printf(&line, " (due %s)",
                  target->due == INT64_MAX ? "never" : time_text(target->due, change->args->utc, TIME_SECONDS).text);
    puts(buffer_text(&line));
    buffer_free(&line);
}

static void change_print_problem(const jobs_target_t *target, jobs_result_t result, const char *detail) {
    buffer_t line = {0};
    terminal_escape(&line, slice_text(*target->job ? target->job : target->sha256), false);
    buffer_printf(&line, " %s%s", jobs_words[result].text, *detail ? ": " : "");
    terminal_escape(&line, slice_text(detail), false);
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", buffer_text(&line));
    buffer_free(&line);
}

// A bulk run prints only problems, and of each kind only the first ones.
static void change_print(change_t *change, const jobs_target_t *target, jobs_result_t result, const char *detail) {
    bool bulk = change->args->where;
    int64_t printed = change->action.of[result];
    if (bulk && (result == JOBS_RESULT_DONE || printed > MAX_PRINTED_EACH)) return;
    progress_end(&change->progress);
    if (result <= JOBS_RESULT_WOULD)
        change_print_success(change, target, result);
    else
        change_print_problem(target, result, detail);
    if (bulk && printed == MAX_PRINTED_EACH)
        fputs("queue-sidecar: further jobs like this one are only counted; -o jsonl names each\n", stderr);
}

static void change_show_progress(change_t *change) {
    int64_t tried = 0;
    for (int i = 0; i < JOBS_RESULT_COUNT; i++) tried += change->action.of[i];
    progress_show(&change->progress, tried, (int64_t)change->action.planned);
}

static void change_add_result(void *self, const jobs_target_t *target, jobs_result_t result, const char *detail) {
    change_t *change = self;
    buffer_t line = {0};
    switch (change->args->format) {
    case FORMAT_JSON_LINES:
        jobs_write_result(&line, &change->action, target, result, detail);
        buffer_str(&line, "\n");
        terminal_print(&line, stdout);
        break;
    case FORMAT_JSON_ARRAY:
        if (result <= JOBS_RESULT_WOULD || change->problem_count >= MAX_JSON_PROBLEMS) break;
        buffer_str(&change->problems, change->problem_count++ ? ",\n  " : "\n  ");
        jobs_write_result(&change->problems, &change->action, target, result, detail);
        break;
    default: change_print(change, target, result, detail); break;
    }
    change_show_progress(change);
}

static bool change_wait(void *self, int64_t ns) {
    change_t *change = self;
    change_show_progress(change);
    if (!change->signal) change->signal = operator_wait(&change->signals, ns);
    return change->signal != 0;
}

static void change_print_json(const change_t *change, const char *stopped) {
    buffer_t out = {0};
    buffer_printf(&out, "{\"action\":\"%s\",\"dry_run\":%s,\"planned\":%zu,", change->action.cancel ? "cancel" : "run",
                  change->action.dry_run ? "true" : "false", change->action.planned);
    jobs_write_counts(&out, &change->action);
    buffer_str(&out, ",\"stopped\":");
    if (stopped)
        json_write_string(&out, slice_text(stopped));
    else
        buffer_str(&out, "null");
    buffer_printf(&out, ",\"problems\":[%s]}\n", buffer_text(&change->problems));
    terminal_print(&out, stdout);
}

static void change_print_counts(const change_t *change) {
    const jobs_action_t *action = &change->action;
    jobs_result_t result = action->dry_run ? JOBS_RESULT_WOULD : JOBS_RESULT_DONE;
    printf("%s %s%s\n", number_text(action->of[result]).text,
           action->dry_run           ? "would be "
           : action->cancel          ? ""
           : action->of[result] == 1 ? "is "
                                     : "are ",
           change_verb(change));
    for (int i = JOBS_RESULT_WOULD + 1; i < JOBS_RESULT_COUNT; i++)
        if (action->of[i]) printf("besides, %s: %s\n", number_text(action->of[i]).text, jobs_words[i].text);
}

static int change_report_end(change_t *change, const char *stopped) {
    progress_end(&change->progress);
    if (change->args->format == FORMAT_JSON_ARRAY) change_print_json(change, stopped);
    if (change->args->format == FORMAT_TABLE && (change->args->where || change->action.planned > 1)) change_print_counts(change);
    fflush(stdout);
    if (stopped) fprintf(stderr, "queue-sidecar: stopped: %s; run the same command again for the other jobs\n", stopped);
    buffer_free(&change->problems);
    return jobs_has_failed(&change->action) ? CLI_FAILED : CLI_OK;
}

// ---- The run.

static int change_confirm(const change_t *change, const char *queue) {
    const jobs_action_t *action = &change->action;
    buffer_t name = {0};
    if (!change->args->where || change->args->yes || action->dry_run || action->planned == 0) return CLI_OK;
    terminal_escape(&name, slice_text(queue), false);
    fprintf(stderr, "queue-sidecar: about to %s %s delayed job%s of %s, due from %s", action->cancel ? "cancel" : "make due",
            number_text((int64_t)action->planned).text, action->planned == 1 ? "" : "s", buffer_text(&name),
            time_text(action->first_due, change->args->utc, TIME_SECONDS).text);
    fprintf(stderr, " to %s",
            action->last_due == INT64_MAX ? "never" : time_text(action->last_due, change->args->utc, TIME_SECONDS).text);
    buffer_free(&name);
    return operator_confirms();
}

static int change_carry_out(change_t *change, const jobs_server_t *server) {
    redis_error_t error = {0};
    jobs_end_t end = jobs_carry_out(&change->action, &error);
    char *warning = change->action.of[JOBS_RESULT_DONE] ? shards_wait_for_replica(server->conn) : NULL;
    if (warning) fprintf(stderr, "queue-sidecar: %s\n", warning);
    free(warning);
    const char *stopped = end == JOBS_ENDED ? NULL : end == JOBS_STOPPED ? strsignal(change->signal) : error.text;
    if (end == JOBS_BROKEN && error.outcome == OUTCOME_OK) stopped = "the failure stream is full";
    int status = change_report_end(change, stopped);
    if (end == JOBS_STOPPED) return 128 + change->signal;
    if (end == JOBS_BROKEN) return error.outcome == OUTCOME_DISCONNECTED ? CLI_REDIS_UNREACHABLE : CLI_FAILED;
    return status;
}

static int change_plan_and_run(change_t *change, const jobs_server_t *server, const char *queue) {
    redis_error_t error = {0};
    bool stopped = jobs_plan(&change->action, &error);
    if (error.outcome != OUTCOME_OK) return jobs_print_error(server, &error);
    if (stopped) return 128 + change->signal;
    if (change->args->where && change->action.planned == 0)
        fprintf(stderr, "queue-sidecar: no delayed jobs of queue `%s` match\n", queue);
    int status = change_confirm(change, queue);
    return status == CLI_OK ? change_carry_out(change, server) : status;
}

static int change_connect(change_t *change, const config_t *config, size_t queue) {
    jobs_server_t server = {0};
    int status = jobs_connect(&server, config, queue);
    change->action.conn = server.conn;
    change->action.keys = server.keys;
    change->action.queue = server.queue;
    change->progress = progress_begin(change->action.cancel ? "cancelling" : "making due");
    if (!change->args->where || change->action.dry_run) change->progress.enabled = false;
    if (status == CLI_OK) status = change_plan_and_run(change, &server, config->queues[queue].name);
    progress_end(&change->progress);
    jobs_action_free(&change->action);
    shards_free(server.shards);
    return status;
}

// An omitted filter must not select everything.
static int change_check_args(const jobs_args_t *args) {
    bool ids = args->operands.count > 1, filters = args->grep || args->type || args->since || args->until;
    if (ids && (args->where || filters || args->limit))
        return cli_usage_error(args->command, "specify IDs, or --where with a filter, not both");
    if (ids) return CLI_OK;
    if (!args->where && (filters || args->limit)) return cli_usage_error(args->command, "filters select many jobs: add --where");
    if (!args->where) return cli_usage_error(args->command, "specify IDs, or --where with a filter");
    if (filters) return CLI_OK;
    return cli_usage_error(args->command,
                           "--where needs a filter: --grep, --type, --since or --until (for all jobs: --since 1970-01-01)");
}

static int change_run(jobs_args_t *args, const config_t *config, size_t queue, bool cancel) {
    buffer_t why = {0};
    char *by = operator_name(args->by);
    change_t change = {.args = args};
    change.action = (jobs_action_t){.cancel = cancel,
                                    .dry_run = args->dry_run,
                                    .query = args->query,
                                    .ids = (const char *const *)args->operands.all + 1,
                                    .id_count = args->operands.count - 1,
                                    .limit = args->max_rows > 0 ? args->max_rows : 0,
                                    .by = by,
                                    .because = args->because ? args->because : "",
                                    .caller = {.self = &change, .wait = change_wait, .result = change_add_result}};
    int status = change_check_args(args);
    if (status == CLI_OK && !jobs_may_change(&config->queues[queue], &why))
        status = cli_usage_error(args->command, "%s", buffer_text(&why));
    if (status == CLI_OK && args->rate && !requeue_read_rate(args->rate, &change.action.per_minute))
        status = cli_usage_error(args->command, OPERATOR_RATE_WRONG);
    if (status == CLI_OK && !operator_name_is_good(by)) status = cli_usage_error(args->command, OPERATOR_NAME_WRONG);
    if (status == CLI_OK && strlen(change.action.because) > OPERATOR_MAX_NOTE)
        status = cli_usage_error(args->command, "--because takes at most 1024 bytes");
    signal(SIGPIPE, SIG_IGN); // a lost connection to Redis must not end the process
    operator_block_signals(&change.signals);
    if (status == CLI_OK) status = change_connect(&change, config, queue);
    buffer_free(&why);
    free(by);
    return status;
}

static int run_run(jobs_args_t *args, const config_t *config, size_t queue) { return change_run(args, config, queue, false); }
static int cancel_run(jobs_args_t *args, const config_t *config, size_t queue) { return change_run(args, config, queue, true); }

#define CHANGE_OPERANDS                                                                                                          \
    JOBS_OPERANDS("QUEUE ID", "a queue of the config, and ids from `jobs list`; in place of an id its sha256, or at least 12 "   \
                              "digits of it")
#define CHANGE_OPTIONS                                                                                                           \
    JOBS_VALUE(0, "rate", "N/s", rate, NULL, "at most N jobs a second, evenly spaced (N/m: a minute)"),                          \
        JOBS_FLAG(0, "dry-run", dry_run, "only print what would be done"),                                                       \
        JOBS_FLAG('y', "yes", yes, "do not ask; without a terminal, --where needs -y"),                                          \
        JOBS_VALUE('n', "limit", "N", limit, NULL, "at most N jobs, the next ones to be due"),                                   \
        JOBS_VALUE('o', "output", "FORMAT", output, "table json jsonl",                                                          \
                   "table, json (one object at the end), jsonl (an object for each job)"),                                       \
        {.name = "where",                                                                                                        \
         .at = offsetof(jobs_args_t, where),                                                                                     \
         .heading = "Many at once, with at least one FILTER:",                                                                   \
         .help = "all delayed jobs that match the filters, instead of IDs"},                                                     \
        JOBS_OPTIONS_FILTERS, JOBS_OPTION_UTC
#define CHANGE_TEXT                                                                                                              \
    "First the command chooses the jobs; one that comes later is left alone. A job that was promoted meanwhile is reported, "    \
    "and "                                                                                                                       \
    "nothing is done to it. Ctrl-C stops after the requests in flight. Only dialect list has these commands: jobs of the "       \
    "others "                                                                                                                    \
    "belong to their libraries."
#define CHANGE_EXITS                                                                                                             \
    "0 ok\n1 a job was refused, was not found or is no longer delayed\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n"  \
    "130 interrupted by Ctrl-C\n"

static const cli_option_t run_options[] = {CHANGE_OPERANDS, JOBS_OPTION_CONFIG, CHANGE_OPTIONS};

const jobs_command_t jobs_run_command = {
    .about = {.name = "run",
              .summary = "Make delayed jobs due now",
              .examples = "queue-sidecar jobs run email 8d1f2c\n"
                          "queue-sidecar jobs run email --where --type digest --rate 50/s\n",
              .usage = "jobs run QUEUE ID... | --where FILTERS [OPTIONS]",
              CLI_OPTIONS(run_options),
              .text = "The job stays where it is, with a score of now, and the leader promotes it as any other, once. "
                      "Without a leader it waits.\n\n" CHANGE_TEXT,
              .exits = CHANGE_EXITS},
    .run = run_run,
};

static const cli_option_t cancel_options[] = {
    CHANGE_OPERANDS,
    JOBS_OPTION_CONFIG,
    JOBS_VALUE(0, "because", "TEXT", because, NULL, "your reason, for the log"),
    JOBS_VALUE(0, "by", "NAME", by, NULL, "your name, for the log; by default $SUDO_USER or the user, at this host"),
    CHANGE_OPTIONS,
};

const jobs_command_t jobs_cancel_command = {
    .about = {.name = "cancel",
              .summary = "End delayed jobs, with a record of a final failure",
              .examples = "queue-sidecar jobs cancel email 8d1f2c --because 'order withdrawn'\n"
                          "queue-sidecar jobs cancel email --where --grep 'customer\":4711' --dry-run\n",
              .usage = "jobs cancel QUEUE ID... | --where FILTERS [OPTIONS]",
              CLI_OPTIONS(cancel_options),
              .text =
                  "The failure has the reason `cancelled`, your name as worker and your reason as error. It reaches the log of "
                  "every instance, and `audit requeue` puts the job back. A job that has retries left is ended too; a job that "
                  "runs is not. Nothing is pushed to `dlq`.\n\n" CHANGE_TEXT,
              .exits = CHANGE_EXITS},
    .run = cancel_run,
};
