#include "cli/audit/requeue.h"

#include <pwd.h>
#include <signal.h>

#include "base/text/units.h"

enum { MAX_NOTE = 1024, MAX_RATE = 1000000 };

static bool requeue_is_ref(const char *word) { return word[strspn(word, "abcdefghijklmnopqrstuvwxyz234567")] == '\0'; }

// An omitted filter must not select everything.
static int requeue_check_selection(const audit_args_t *args) {
    bool refs = args->operands.count > 0, where = args->requeue.where, filters = args->has_filter || args->has_limit;
    if (where && refs && !requeue_is_ref(args->operands.all[0]))
        return audit_usage_error(args, "--where takes no text; to search for one: --where --grep '%s'", args->operands.all[0]);
    if (refs && (where || filters)) return audit_usage_error(args, "specify REFs, or --where with a filter, not both");
    if (refs) return CLI_OK;
    if (!where && filters) return audit_usage_error(args, "filters select many failures: add --where");
    if (!where) return audit_usage_error(args, "specify REFs, or --where with a filter");
    if (args->has_filter) return CLI_OK;
    return audit_usage_error(args, "--where needs a filter: --queue, --failed-by, --since, --until or --grep (for all failures: "
                                   "--since 1970-01-01)");
}

// In `list` --reason is a filter; in `requeue` and `discard` it is the operator's reason.
static int requeue_parse_note(requeue_t *requeue) {
    const audit_args_t *args = requeue->args;
    const char *reason = args->requeue.reason, *because = args->requeue.because;
    if (reason && because) return audit_usage_error(args, "--reason and --because are the same: specify one of them");
    if (reason && args_has_word(AUDIT_FAILURE_REASONS, reason))
        return audit_usage_error(args,
                                 "--reason %s is ambiguous: use --failed-by %s to filter, or --because %s for your own reason",
                                 reason, reason, reason);
    requeue->note = because ? because : reason ? reason : "";
    return strlen(requeue->note) <= MAX_NOTE ? CLI_OK : audit_usage_error(args, "--because takes at most 1024 bytes");
}

// Reads "50/s", "300/m" or "50" (a second).
static int requeue_parse_rate(requeue_t *requeue) {
    const char *word = requeue->args->requeue.rate;
    char *end;
    if (!word) return CLI_OK;
    long long number = strtoll(word, &end, 10);
    bool minute = strcmp(end, "/m") == 0;
    bool good = *word >= '0' && *word <= '9' && number > 0 && number <= MAX_RATE && (minute || !*end || strcmp(end, "/s") == 0);
    if (!good) return audit_usage_error(requeue->args, "--rate takes a number from 1 to 1000000 with /s or /m, like 50/s");
    requeue->per_minute = minute ? number : 60 * number;
    return CLI_OK;
}

static int requeue_check_operator(const requeue_t *requeue) {
    size_t len = strlen(requeue->by);
    bool good = len > 0 && len <= MAX_REQUEUE_BY;
    for (const char *at = requeue->by; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) good = false;
    return good ? CLI_OK : audit_usage_error(requeue->args, "--by takes 1 to 128 bytes without control characters");
}

// Returns --by, else $SUDO_USER or the user, at this host. Owned.
static char *requeue_operator(const char *by) {
    const char *sudo = getenv("SUDO_USER"), *user = getenv("USER");
    const struct passwd *entry = getpwuid(getuid());
    char host[256] = "";
    if (by) return mem_str(by);
    const char *name = sudo && *sudo ? sudo : user && *user ? user : entry ? entry->pw_name : "nobody";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "unknown");
    return mem_printf("%.60s@%.60s", name, host);
}

static int requeue_parse_target(requeue_t *requeue) {
    size_t index;
    requeue->to = -1;
    if (!requeue->args->requeue.to) return CLI_OK;
    if (!cli_find_queue(requeue->args->command, requeue->keys->config, requeue->args->requeue.to, &index)) return CLI_USAGE;
    requeue->to = (int64_t)index;
    return CLI_OK;
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

static bool plan_add_match(void *self, const audit_match_t *match) {
    requeue_t *requeue = self;
    requeue_plan_t *plan = &requeue->plan;
    int64_t limit = requeue->args->filter.limit;
    if (limit && (int64_t)plan->count == limit) return false;
    bool open = slice_is(match->state, "failed") || requeue->args->requeue.again;
    if (open && match->superseded && !requeue->discard) {
        plan->earlier++;
    } else if (open) {
        plan_find_queue(plan, match->queue)->open++;
        plan_insert(plan, plan->count, match->seq, match->at);
    } else {
        plan->answered++;
    }
    return true;
}

// Adds a failure once, even if several refs name it.
static void plan_add_ref(requeue_t *requeue, const char *ref) {
    requeue_plan_t *plan = &requeue->plan;
    size_t place = plan->count;
    audit_found_t found;
    if (audit_find_event(requeue->args, ref, &found) != CLI_OK) {
        plan->bad_refs = true;
        return;
    }
    while (place > 0 && plan->seqs[place - 1] >= found.seq) place--;
    if (place == plan->count || plan->seqs[place] != found.seq) plan_insert(plan, place, found.seq, found.at);
}

// --limit must not count failures that were requeued or discarded before, or a second run would do nothing.
static bool plan_begin(requeue_t *requeue, buffer_t *why) {
    audit_filter_t filter = requeue->args->filter;
    filter.limit = 0;
    if (requeue->args->requeue.where) return audit_select(requeue->args->audit, &filter, plan_add_match, requeue, why);
    for (size_t i = 0; i < requeue->args->operands.count; i++) plan_add_ref(requeue, requeue->args->operands.all[i]);
    return true;
}

static void plan_end(requeue_plan_t *plan) {
    for (size_t i = 0; i < plan->queue_count; i++) free(plan->queues[i].name);
    free(plan->queues);
    free(plan->seqs);
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
static int requeue_confirm(const requeue_t *requeue) {
    const requeue_plan_t *plan = &requeue->plan;
    const audit_args_t *args = requeue->args;
    buffer_t jobs = {0};
    char line[16] = "";
    if (!args->requeue.where || args->requeue.yes || args->requeue.dry_run || plan->count == 0) return CLI_OK;
    plan_format(plan, &jobs);
    bool can_ask = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    fprintf(stderr, "queue-sidecar: about to %s %s", requeue->discard ? "discard" : "put back", buffer_text(&jobs));
    bool one = plan->answered == 1;
    if (plan->answered)
        fprintf(stderr, " (%s %s answered before, and %s skipped)", number_text(plan->answered).text, one ? "was" : "were",
                one ? "is" : "are");
    fputs(can_ask ? ".\nGo on? [y/N] " : ".\nCannot ask without a terminal: add --yes, or try --dry-run first\n", stderr);
    fflush(stderr);
    buffer_free(&jobs);
    if (!can_ask) return CLI_USAGE;
    bool yes = fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
    if (!yes) fputs("queue-sidecar: nothing was done\n", stderr);
    return yes ? CLI_OK : CLI_FAILED;
}

static int requeue_plan_and_run(requeue_t *requeue) {
    const audit_args_t *args = requeue->args;
    requeue_plan_t *plan = &requeue->plan;
    buffer_t why = {0};
    if (!plan_begin(requeue, &why)) return audit_print_error(&why);
    int status = requeue_confirm(requeue);
    if (args->requeue.where && plan->count == 0 && plan->answered == 0 && plan->earlier == 0)
        audit_print_no_match(args->audit, &args->filter);
    if (status == CLI_OK) status = requeue_run(requeue);
    return status == CLI_OK && plan->bad_refs ? CLI_FAILED : status;
}

static int requeue_main(audit_args_t *args) {
    bool discard = strcmp(args->command, "audit discard") == 0;
    requeue_t requeue = {.args = args, .keys = keyspace_new(args->config), .discard = discard};
    signal(SIGPIPE, SIG_IGN); // a lost connection to Redis must not end the process
    requeue.by = requeue_operator(args->requeue.by);
    bool wrong = requeue_check_selection(args) || requeue_parse_note(&requeue) || requeue_parse_rate(&requeue) ||
                 requeue_parse_target(&requeue) || requeue_check_operator(&requeue);
    int status = wrong ? CLI_USAGE : requeue_plan_and_run(&requeue);
    plan_end(&requeue.plan);
    keyspace_free(requeue.keys);
    free(requeue.by);
    return status;
}

#define REQUEUE_OPTIONS                                                                                                          \
    AUDIT_OPERANDS("REF", "from `audit list`, or its first characters", NULL),                                                   \
        AUDIT_OPTIONS_CONFIG("the config of Redis, the queues and the log", "another log than the config's"),                    \
        AUDIT_VALUE(0, "because", "TEXT", requeue.because, NULL,                                                                 \
                    "your reason, for the log; --reason TEXT is the same, but not with a word of --failed-by"),                  \
        AUDIT_VALUE(0, "reason", "TEXT", requeue.reason, NULL, NULL),                                                            \
        AUDIT_VALUE(0, "by", "NAME", requeue.by, NULL,                                                                           \
                    "your name, for the log; by default $SUDO_USER or the user, at this host"),                                  \
        AUDIT_FLAG(0, "again", requeue.again, "also failures that were requeued or discarded before"),                           \
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
        AUDIT_OPTIONS_TIME, AUDIT_OPTION_UTC
#define REQUEUE_TEXT_ONCE                                                                                                        \
    "Each failure is requeued or discarded once, over all instances, unless you give --again. After an interruption repeat "     \
    "the command: it skips and reports the failures of the first run. With --again it repeats these too. Ctrl-C stops a run "    \
    "after the requests in flight. Each requeue or discard is an event, which reaches every instance's log."
#define REQUEUE_EXITS                                                                                                            \
    "0 ok\n1 something was refused or not found\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n130 interrupted by "     \
    "Ctrl-C\n"

static const cli_option_t requeue_option_rows[] = {
    REQUEUE_OPTIONS,
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

static const cli_option_t discard_option_rows[] = {REQUEUE_OPTIONS, REQUEUE_OPTIONS_WHERE};

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
