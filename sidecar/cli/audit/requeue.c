// queue-sidecar audit requeue and audit discard: what is asked for, and whether it is meant.
#include "cli/audit/requeue.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"

enum { MAX_NOTE = 1024, MAX_RATE = 1000000, MAX_SUGGESTIONS = 1000 };

static int requeue_print_usage_error(const audit_args_t *args, const char *text) {
    fprintf(stderr, "queue-sidecar audit %s: %s\nSee `queue-sidecar help audit %s`.\n", args->command, text, args->command);
    return CLI_USAGE;
}

// Nobody is to put everything back by forgetting a word.
static int requeue_check_selection(const audit_args_t *args) {
    bool filters = args->has_filter || args->has_limit;
    if (args->operands.count && (args->requeue.where || filters))
        return requeue_print_usage_error(args, "give refs, or --where and filters, not both");
    if (args->operands.count) return CLI_OK;
    if (!args->requeue.where && filters)
        return requeue_print_usage_error(args, "filters choose many failures at once: say --where before them");
    if (!args->requeue.where) return requeue_print_usage_error(args, "which failures: REF..., or --where and filters?");
    if (args->has_filter) return CLI_OK;
    return requeue_print_usage_error(
        args, "--where wants a filter: --queue, --failed-by, --since, --until or --grep (all there are: --since 1970-01-01)");
}

// `list` calls a filter --reason; here it is what the operator says.
static int requeue_parse_note(requeue_options_t *options, const audit_args_t *args) {
    const char *reason = args->requeue.reason, *because = args->requeue.because;
    if (reason && because) return requeue_print_usage_error(args, "--reason and --because say the same: give one");
    if (reason && audit_is_reason(reason)) {
        fprintf(
            stderr,
            "queue-sidecar audit %s: --reason %s: is it why they failed (--failed-by %s), or what you say of it (--because %s)?\n"
            "See `queue-sidecar help audit %s`.\n",
            args->command, reason, reason, reason, args->command);
        return CLI_USAGE;
    }
    options->note = because ? because : reason ? reason : "";
    return strlen(options->note) <= MAX_NOTE ? CLI_OK : requeue_print_usage_error(args, "--because takes at most 1024 bytes");
}

// "50/s", "300/m", "50".
static int requeue_parse_rate(requeue_options_t *options, const audit_args_t *args) {
    const char *word = args->requeue.rate;
    char *end;
    if (!word) return CLI_OK; // as fast as it goes
    long long number = strtoll(word, &end, 10);
    bool minute = strcmp(end, "/m") == 0;
    bool good = *word >= '0' && *word <= '9' && number > 0 && number <= MAX_RATE && (minute || !*end || strcmp(end, "/s") == 0);
    if (!good) return requeue_print_usage_error(args, "--rate is a number from 1 to 1000000 with /s or /m, like 50/s");
    options->per_minute = minute ? number : 60 * number;
    return CLI_OK;
}

static bool requeue_is_valid_name(const char *by) {
    size_t len = strlen(by);
    for (const char *at = by; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) return false;
    return len > 0 && len <= REQUEUE_BY_MOST;
}

// Who asks: as said, else the user behind sudo, else the user, on this machine. Owned.
static char *requeue_operator(const char *by) {
    const char *names[] = {getenv("SUDO_USER"), getenv("USER")};
    const struct passwd *user = getpwuid(getuid());
    char host[256] = "";
    if (by) return mem_str(by);
    const char *name = names[0] && *names[0] ? names[0] : names[1] && *names[1] ? names[1] : user ? user->pw_name : "nobody";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "unknown");
    return mem_printf("%.60s@%.60s", name, host);
}

static int requeue_parse_target(requeue_options_t *options, const audit_args_t *args) {
    const char *to = args->requeue.to;
    const config_t *config = options->keys->config;
    const char *names[MAX_SUGGESTIONS];
    size_t count = 0;
    options->to = -1;
    if (!to) return CLI_OK;
    for (size_t i = 0; i < config->queue_count; i++) {
        if (strcmp(config->queues[i].name, to) == 0) options->to = (int64_t)i;
        if (count < MAX_SUGGESTIONS) names[count++] = config->queues[i].name;
    }
    if (options->to >= 0) return CLI_OK;
    const char *nearest = suggest_nearest(to, names, count);
    fprintf(stderr, "queue-sidecar audit %s: --to %s: the config has no such queue%s%s%s\n", args->command, to,
            nearest ? ": did you mean `" : "", nearest ? nearest : "", nearest ? "`?" : "");
    return CLI_USAGE;
}

// Whether it is meant. CLI_OK: it is.
static int requeue_confirm(const requeue_options_t *options, const requeue_plan_t *plan) {
    buffer_t what = {0};
    char line[16] = "";
    char number[COUNT_TEXT_SIZE];
    if (!options->bulk || options->yes || options->dry_run || plan->open == 0) return CLI_OK;
    plan_format(plan, &what);
    bool asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    fprintf(stderr, "queue-sidecar: about to %s %s", options->discard ? "discard" : "put back", buffer_text(&what));
    if (plan->answered) {
        count_format(plan->answered, number);
        bool one = plan->answered == 1;
        fprintf(stderr, " (%s %s answered before, and %s left out)", number, one ? "was" : "were", one ? "is" : "are");
    }
    fputs(asks ? ".\nGo on? [y/N] " : ".\nNobody can be asked here: add --yes to go on, or --dry-run to look first\n", stderr);
    fflush(stderr);
    buffer_free(&what);
    if (!asks) return CLI_USAGE;
    bool yes = fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
    if (!yes) fputs("queue-sidecar: nothing was done\n", stderr);
    return yes ? CLI_OK : CLI_FAILED;
}

static int requeue_plan_and_run(const requeue_options_t *options, const audit_args_t *args) {
    requeue_plan_t plan = {0};
    buffer_t why = {0};
    bool planned = options->bulk ? plan_matches(options, &plan, &why)
                                 : plan_refs(options, (const char *const *)args->operands.all, args->operands.count, &plan, &why);
    int status = planned ? requeue_confirm(options, &plan) : audit_print_error(&why);
    if (planned && options->bulk && plan.open == 0 && plan.answered == 0) audit_print_no_match(options->audit, &options->filter);
    if (status == CLI_OK) {
        status = requeue_run(options, &plan);
        if (status == CLI_OK && plan.bad_refs) status = CLI_FAILED;
    }
    plan_free(&plan);
    return status;
}

static int requeue_main(const audit_args_t *args, bool discard) {
    char *by = requeue_operator(args->requeue.by);
    keyspace_t *keys = keyspace_new(args->config);
    requeue_options_t options = {.audit = args->audit,
                                 .keys = keys,
                                 .discard = discard,
                                 .bulk = args->requeue.where,
                                 .again = args->requeue.again,
                                 .yes = args->requeue.yes,
                                 .dry_run = args->requeue.dry_run,
                                 .utc = args->utc,
                                 .format = args->format,
                                 .filter = args->filter,
                                 .by = by};
    signal(SIGPIPE, SIG_IGN); // Redis is at the other end of a socket
    int status = requeue_check_selection(args);
    if (status == CLI_OK) status = requeue_parse_note(&options, args);
    if (status == CLI_OK) status = requeue_parse_rate(&options, args);
    if (status == CLI_OK) status = requeue_parse_target(&options, args);
    if (status == CLI_OK && !requeue_is_valid_name(by))
        status = requeue_print_usage_error(args, "--by takes 1 to 128 bytes without control characters");
    if (status == CLI_OK) status = requeue_plan_and_run(&options, args);
    keyspace_free(keys);
    free(by);
    return status;
}

static int requeue_command(audit_args_t *args) { return requeue_main(args, false); }

static int discard_command(audit_args_t *args) { return requeue_main(args, true); }

#define AT(field) offsetof(audit_args_t, field)
#define REQUEUE_OPTIONS                                                                                                          \
    AUDIT_OPERANDS("REF", "what `audit list` shows, or the beginning of it", NULL),                                              \
        AUDIT_OPTIONS_CONFIG("Redis, queues and the log", "another log than that of the config"),                                \
        {.name = "because",                                                                                                      \
         .argument = "TEXT",                                                                                                     \
         .at = AT(requeue.because),                                                                                              \
         .help = "why, for the log; --reason TEXT is the same, unless TEXT is a reason of failures"},                            \
        {.name = "reason", .argument = "TEXT", .at = AT(requeue.reason)},                                                        \
        {.name = "by",                                                                                                           \
         .argument = "NAME",                                                                                                     \
         .at = AT(requeue.by),                                                                                                   \
         .help = "who asks; otherwise $SUDO_USER or the user, at this host"},                                                    \
        {.name = "again", .at = AT(requeue.again), .help = "also what was answered before"},                                     \
        {.name = "rate", .argument = "N/s", .at = AT(requeue.rate), .help = "at most so many a second (N/m: a minute), evenly"}, \
        {.name = "dry-run", .at = AT(requeue.dry_run), .help = "only says what would be done"},                                  \
        {.letter = 'y',                                                                                                          \
         .name = "yes",                                                                                                          \
         .at = AT(requeue.yes),                                                                                                  \
         .help = "does not ask; needed for --where where nobody can be asked"},                                                  \
        AUDIT_OPTION_LIMIT("at most so many, the oldest first"),                                                                 \
        AUDIT_OPTION_OUTPUT("table json jsonl",                                                                                  \
                            "table, json (one object at the end), jsonl (one for each failure that is tried)")
#define REQUEUE_OPTIONS_WHERE                                                                                                    \
    {.name = "where",                                                                                                            \
     .at = AT(requeue.where),                                                                                                    \
     .heading = "Many at once, by at least one FILTER:",                                                                         \
     .help = "not refs, but all that match what follows"},                                                                       \
        AUDIT_OPTION_QUEUE,                                                                                                      \
        {.letter = 'r',                                                                                                          \
         .name = "failed-by",                                                                                                    \
         .argument = "NAME",                                                                                                     \
         .at = AT(filter.reason),                                                                                                \
         .values = AUDIT_FAILURE_REASONS,                                                                                        \
         .help = "what `list` calls --reason: retries_exhausted, reported, alive_timeout, ..."},                                 \
        AUDIT_OPTIONS_TIME, AUDIT_OPTION_UTC
#define REQUEUE_TEXT_ONCE                                                                                                        \
    "Each failure is answered once, whoever asks, on whichever instance, unless --again: what was answered before is left out "  \
    "and said. So an interrupted run (Ctrl-C finishes what is under way) is simply run again, unless it had --again, which "     \
    "would do all of it once more. The answer is an event of its own: every instance's log gets it."
#define REQUEUE_EXITS                                                                                                            \
    "0 ok\n1 something was refused or not found\n2 wrong usage\n69 Redis unreachable\n78 bad config\n130 interrupted by "        \
    "Ctrl-C\n"

static const cli_option_t requeue_option_rows[] = {
    REQUEUE_OPTIONS,
    {.name = "to",
     .argument = "QUEUE",
     .at = AT(requeue.to),
     .values = CLI_QUEUES,
     .help = "into this queue of the config, instead of each job's own"},
    REQUEUE_OPTIONS_WHERE,
};

const audit_command_t audit_requeue_command = {
    .about = {.name = "requeue",
              .summary = "Puts failed jobs back among the ready ones of their queue",
              .examples = "queue-sidecar audit requeue k3vq7m2zt4pa --because 'address corrected'\n"
                          "queue-sidecar audit requeue --where --queue email --since 2h --grep 'SMTP timeout' --dry-run\n"
                          "queue-sidecar audit requeue --where --queue email --since 2h --grep 'SMTP timeout' --rate 50/s\n",
              .usage = "audit requeue REF... | --where FILTERS [--to QUEUE] [OPTIONS]",
              CLI_OPTIONS(requeue_option_rows),
              .text =
                  "A job goes to the left end, as producers add it: behind what waits there now. It begins a new life: all its "
                  "retries, and a whole alive timeout. The same bytes elsewhere in the queue do not matter: it is added all the "
                  "same.\n\n" REQUEUE_TEXT_ONCE,
              .exits = REQUEUE_EXITS},
    .opens_log = true,
    .needs_config = true,
    .max_operands = SIZE_MAX,
    .run = requeue_command,
};

static const cli_option_t discard_option_rows[] = {REQUEUE_OPTIONS, REQUEUE_OPTIONS_WHERE};

const audit_command_t audit_discard_command = {
    .about = {.name = "discard",
              .summary = "Notes that failed jobs are done with, so that they no longer count as open",
              .examples = "queue-sidecar audit discard k3vq7m2zt4pa --because 'customer is gone'\n"
                          "queue-sidecar audit discard --where --queue email --until 7d --yes\n",
              .usage = "audit discard REF... | --where FILTERS [OPTIONS]",
              CLI_OPTIONS(discard_option_rows),
              .text = "Nothing is removed from the log.\n\n" REQUEUE_TEXT_ONCE,
              .exits = REQUEUE_EXITS},
    .opens_log = true,
    .needs_config = true,
    .max_operands = SIZE_MAX,
    .run = discard_command,
};
