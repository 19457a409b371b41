#include "cli/audit/requeue.h"

#include "base/text/units.h"
#include "cli/operator.h"

static bool requeue_is_ref(const char *word) { return word[strspn(word, "abcdefghijklmnopqrstuvwxyz234567")] == '\0'; }

// An omitted filter must not select everything.
static int requeue_check_selection(const audit_args_t *args) {
    bool refs = args->operands.count > 0, where = args->requeue.where,
         filters = filter_is_given(&args->filter) || args->has_limit;
    if (where && refs && !requeue_is_ref(args->operands.all[0]))
        return cli_usage_error(args->command, "--where takes no text; to search for one: --where --grep '%s'",
                               args->operands.all[0]);
    if (refs && (where || filters)) return cli_usage_error(args->command, "specify REFs, or --where with a filter, not both");
    if (refs) return CLI_OK;
    if (!where && filters) return cli_usage_error(args->command, "filters select many failures: add --where");
    if (!where) return cli_usage_error(args->command, "specify REFs, or --where with a filter");
    if (filter_narrows(&args->filter)) return CLI_OK;
    return cli_usage_error(args->command,
                           "--where needs a filter: --queue, --failed-by, --type, --job, --worker, --trace, --since, --until or "
                           "--grep (for all failures: --since 1970-01-01)");
}

// --group selects; only --from-group admits a requeue. Without this check each failure would be refused, one after the other.
static int requeue_check_group(const requeue_command_t *command) {
    const audit_args_t *args = command->args;
    const char *wanted = args->filter.group, *from = args->requeue.from_group;
    bool admitted = !wanted || !*wanted || strcmp(wanted, args->config->group) == 0 || (from && strcmp(wanted, from) == 0);
    if (admitted || !requeue_pushes(&command->requeue->options)) return CLI_OK;
    return cli_usage_error(args->command, "--group selects failures of group `%s`, which is not this one: add --from-group %s",
                           wanted, wanted);
}

// In `list` --reason is a filter; in `requeue`, `discard` and `erase` it is the operator's reason.
static int requeue_parse_note(requeue_command_t *command) {
    const audit_args_t *args = command->args;
    const char *reason = args->requeue.reason, *because = args->requeue.because;
    if (reason && because) return cli_usage_error(args->command, "--reason and --because are the same: specify one of them");
    if (reason && args_has_word(AUDIT_FAILURE_REASONS, reason))
        return cli_usage_error(args->command,
                               "--reason %s is ambiguous: use --failed-by %s to filter, or --because %s for your own reason",
                               reason, reason, reason);
    command->requeue->options.note = because ? because : reason ? reason : "";
    return strlen(command->requeue->options.note) <= OPERATOR_MAX_NOTE
               ? CLI_OK
               : cli_usage_error(args->command, "--because takes at most 1024 bytes");
}

static int requeue_parse_rate(requeue_command_t *command) {
    const char *word = command->args->requeue.rate;
    if (!word || requeue_read_rate(word, &command->requeue->options.per_minute)) return CLI_OK;
    return cli_usage_error(command->args->command, OPERATOR_RATE_WRONG);
}

static int requeue_check_operator(const requeue_command_t *command) {
    return operator_name_is_good(command->by) ? CLI_OK : cli_usage_error(command->args->command, OPERATOR_NAME_WRONG);
}

static int requeue_parse_target(requeue_command_t *command) {
    size_t index;
    if (!command->args->requeue.to) return CLI_OK;
    if (!cli_find_queue(command->args->command, command->requeue->keys->config, command->args->requeue.to, &index))
        return CLI_USAGE;
    command->requeue->options.to = (int64_t)index;
    return CLI_OK;
}

static void plan_format(const requeue_plan_t *plan, buffer_t *out) {
    buffer_printf(out, "%s job%s", number_text((int64_t)plan->count).text, plan->count == 1 ? "" : "s");
    for (size_t i = 0; i < plan->queue_count; i++) {
        buffer_str(out, i ? ", " : ": ");
        terminal_escape(out, slice_text(plan->queues[i].name), false);
        buffer_printf(out, " %s", number_text(plan->queues[i].open).text);
    }
}

// CLI_OK: the run may begin.
static int requeue_confirm(const requeue_command_t *command) {
    const requeue_plan_t *plan = &command->requeue->plan;
    const audit_args_t *args = command->args;
    buffer_t jobs = {0};
    if (!args->requeue.where || args->requeue.yes || args->requeue.dry_run || plan->count == 0) return CLI_OK;
    plan_format(plan, &jobs);
    fprintf(stderr, "queue-sidecar: about to %s %s",
            command->requeue->options.erase     ? "erase payload and error of"
            : command->requeue->options.discard ? "discard"
                                                : "put back",
            buffer_text(&jobs));
    bool one = plan->answered == 1;
    if (plan->answered)
        fprintf(stderr, " (%s %s %s before, and %s skipped)", number_text(plan->answered).text, one ? "was" : "were",
                command->requeue->options.erase ? "erased" : "answered", one ? "is" : "are");
    buffer_free(&jobs);
    return operator_confirms();
}

static bool requeue_wait(void *self, int64_t ns) {
    requeue_command_t *command = self;
    if (command->requeue->counts.total) report_progress(command); // planned
    command->signal = operator_wait(&command->signals, ns);
    return command->signal != 0;
}

static int requeue_report_end(requeue_command_t *command, requeue_end_t end, buffer_t *why) {
    char *stopped = end == REQUEUE_ENDED        ? NULL
                    : end == REQUEUE_STOPPED    ? mem_printf("interrupted (%s)", strsignal(command->signal))
                    : end == REQUEUE_UNREADABLE ? mem_str("the audit log cannot be read")
                                                : mem_str(buffer_text(why));
    int status = report_end(command, stopped);
    free(stopped);
    if (end == REQUEUE_UNREADABLE) return audit_print_error(why);
    buffer_free(why);
    switch (end) {
    case REQUEUE_STOPPED: return 128 + command->signal;
    case REQUEUE_LOST: return CLI_REDIS_UNREACHABLE;
    case REQUEUE_NOT_READY: return CLI_FAILED;
    default: return status;
    }
}

static int requeue_connect_and_run(requeue_command_t *command) {
    const char *target;
    redis_error_t error;
    buffer_t why = {0};
    operator_block_signals(&command->signals);
    outcome_t outcome = requeue_connect(command->requeue, &target, &error);
    if (outcome != OUTCOME_OK) {
        cli_print_redis_error(target, &error);
        return outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    }
    report_begin(command);
    return requeue_report_end(command, requeue_run(command->requeue, &why), &why);
}

static void requeue_plan_refs(requeue_command_t *command) {
    for (size_t i = 0; i < command->args->operands.count; i++) {
        ref_event_t found;
        if (audit_find_event(command->args, command->args->operands.all[i], &found) == CLI_OK)
            requeue_plan_event(command->requeue, found);
        else
            command->bad_refs = true;
    }
}

static int requeue_plan_and_run(requeue_command_t *command) {
    const audit_args_t *args = command->args;
    const requeue_plan_t *plan = &command->requeue->plan;
    buffer_t why = {0};
    if (!args->requeue.where)
        requeue_plan_refs(command);
    else if (!requeue_plan_filter(command->requeue, &args->filter, &why))
        return audit_print_error(&why);
    int status = requeue_confirm(command);
    if (args->requeue.where && plan->count == 0 && plan->answered == 0 && plan->earlier == 0)
        audit_print_no_match(args->audit, &args->filter);
    if (status == CLI_OK) status = requeue_connect_and_run(command);
    return status == CLI_OK && command->bad_refs ? CLI_FAILED : status;
}

static int requeue_main(audit_args_t *args) {
    requeue_command_t command = {.args = args, .by = operator_name(args->requeue.by)};
    requeue_t *requeue = command.requeue = requeue_new(args->config, args->audit);
    signal(SIGPIPE, SIG_IGN); // a lost connection to Redis must not end the process
    requeue->options = (requeue_options_t){.discard = strcmp(args->command, "audit discard") == 0,
                                           .erase = strcmp(args->command, "audit erase") == 0,
                                           .dry_run = args->requeue.dry_run,
                                           .again = args->requeue.again,
                                           .by = command.by,
                                           .from_group = args->requeue.from_group,
                                           .to = -1,
                                           .utc = args->utc};
    requeue->caller = (requeue_caller_t){.self = &command, .wait = requeue_wait, .result = report_add, .warn = report_warn};
    bool wrong = requeue_check_selection(args) || requeue_check_group(&command) || requeue_parse_note(&command) ||
                 requeue_parse_rate(&command) || requeue_parse_target(&command) || requeue_check_operator(&command);
    int status = wrong ? CLI_USAGE : requeue_plan_and_run(&command);
    requeue_free(requeue);
    free(command.by);
    return status;
}

#define REQUEUE_OPTIONS(before_)                                                                                                 \
    AUDIT_OPERANDS("REF", "from `audit list`, or its first characters", NULL),                                                   \
        AUDIT_OPTIONS_CONFIG("the config of Redis, the queues and the log", "another log than the config's"),                    \
        AUDIT_VALUE(0, "because", "TEXT", requeue.because, NULL,                                                                 \
                    "your reason, for the log; --reason TEXT is the same, but not with a word of --failed-by"),                  \
        AUDIT_VALUE(0, "reason", "TEXT", requeue.reason, NULL, NULL),                                                            \
        AUDIT_VALUE(0, "by", "NAME", requeue.by, NULL,                                                                           \
                    "your name, for the log; by default $SUDO_USER or the user, at this host"),                                  \
        AUDIT_FLAG(0, "again", requeue.again, "also failures that were " before_ " before"),                                     \
        AUDIT_VALUE(0, "rate", "N/s", requeue.rate, NULL, "at most N jobs a second, evenly spaced (N/m: a minute)"),             \
        AUDIT_FLAG(0, "dry-run", requeue.dry_run, "only print what would be done"),                                              \
        AUDIT_FLAG('y', "yes", requeue.yes, "do not ask; without a terminal, --where needs -y"),                                 \
        AUDIT_OPTION_LIMIT("at most N jobs, the oldest first"),                                                                  \
        AUDIT_OPTION_OUTPUT("table json jsonl", "table, json (one object at the end), jsonl (an object for each failure)")
#define REQUEUE_OPTIONS_WHERE                                                                                                    \
    {.name = "where",                                                                                                            \
     .at = offsetof(audit_args_t, requeue.where),                                                                                \
     .heading = "Many at once, with at least one FILTER:",                                                                       \
     .help = "all failures that match the filters, instead of REFs"},                                                            \
        AUDIT_OPTION_QUEUE,                                                                                                      \
        AUDIT_VALUE('r', "failed-by", "NAME", filter.reason, AUDIT_FAILURE_REASONS,                                              \
                    "only this reason (--reason in `list`): retries_exhausted, reported, alive_timeout, ..."),                   \
        AUDIT_OPTIONS_JOB, AUDIT_OPTIONS_TIME, AUDIT_OPTION_UTC
#define REQUEUE_TEXT_ONCE                                                                                                        \
    "Each failure is requeued or discarded once, over all instances, unless you give --again. After an interruption repeat "     \
    "the command: it skips and reports the failures of the first run. With --again it repeats these too. Ctrl-C stops a run "    \
    "after the requests in flight. Each requeue or discard is an event, which reaches every instance's log."
#define REQUEUE_EXITS                                                                                                            \
    "0 ok\n1 something was refused or not found\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n130 interrupted by "     \
    "Ctrl-C\n"

static const cli_option_t requeue_option_rows[] = {
    REQUEUE_OPTIONS("requeued or discarded"),
    AUDIT_VALUE(0, "to", "QUEUE", requeue.to, CLI_QUEUES,
                "put all jobs into this queue of the config, instead of each into its own"),
    AUDIT_VALUE(0, "from-group", "G", requeue.from_group, NULL,
                "also failures of group G; otherwise only those of the config's group and those of an unknown group"),
    REQUEUE_OPTIONS_WHERE,
};

const audit_command_t audit_requeue_command = {
    .about = {.name = "requeue",
              .summary = "Put failed jobs back into the ready list of their queue",
              .examples = "queue-sidecar audit requeue k3vq7m2zt4pa --because 'address corrected'\n"
                          "queue-sidecar audit requeue --where --queue email --since 2h --grep 'SMTP timeout' --dry-run\n"
                          "queue-sidecar audit requeue --where --queue email --since 2h --grep 'SMTP timeout' --rate 50/s\n",
              .usage = "audit requeue REF... | --where FILTERS [--to QUEUE] [OPTIONS]",
              CLI_OPTIONS(requeue_option_rows),
              .text = "A job goes behind the waiting jobs, like a new job, with all its retries and a full alive timeout. The "
                      "command adds the job even if the queue already holds the same bytes. It refuses a failure that the log "
                      "has from another group.\n\n" REQUEUE_TEXT_ONCE,
              .exits = REQUEUE_EXITS},
    .needs_config = true,
    .run = requeue_main,
};

static const cli_option_t discard_option_rows[] = {REQUEUE_OPTIONS("requeued or discarded"), REQUEUE_OPTIONS_WHERE};

const audit_command_t audit_discard_command = {
    .about = {.name = "discard",
              .summary = "Mark failures as discarded, so that they no longer count as open",
              .examples = "queue-sidecar audit discard k3vq7m2zt4pa --because 'customer is gone'\n"
                          "queue-sidecar audit discard --where --queue email --until 7d --yes\n",
              .usage = "audit discard REF... | --where FILTERS [OPTIONS]",
              CLI_OPTIONS(discard_option_rows),
              .text = "Nothing is removed from the log.\n\n" REQUEUE_TEXT_ONCE,
              .exits = REQUEUE_EXITS},
    .needs_config = true,
    .run = requeue_main,
};

static const cli_option_t erase_option_rows[] = {REQUEUE_OPTIONS("erased"), REQUEUE_OPTIONS_WHERE};

const audit_command_t audit_erase_command = {
    .about =
        {.name = "erase",
         .summary = "Remove payload and error text of failures from all logs of the group",
         .examples = "queue-sidecar audit erase k3vq7m2zt4pa --because 'asked for by letter'\n"
                     "queue-sidecar audit erase --where --grep ann@example.org --dry-run\n"
                     "queue-sidecar audit erase --where --grep ann@example.org --because 'ticket 17' --yes\n",
         .usage = "audit erase REF... | --where FILTERS [OPTIONS]",
         CLI_OPTIONS(erase_option_rows),
         .text = "For people who must delete one person's data. The payload and the error of each failure are removed, also "
                 "from the failure stream, and so are the errors that earlier retries of its job reported. The row stays, with "
                 "its state, job id, worker and digest, and says who erased it. It cannot be requeued. This cannot be undone.\n\n"
                 "Each erasure is an event, which reaches every instance's log: now, or when an instance that is away comes "
                 "back. An import of an older copy does not bring the text back. After an interruption repeat the command. "
                 "Not erased: jobs that wait or run, dead-letter lists, Bull's failed jobs, exports, backups and logs that "
                 "were set aside; docs/audit.md has the list.",
         .exits = REQUEUE_EXITS},
    .needs_config = true,
    .run = requeue_main,
};
