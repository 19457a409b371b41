// queue-sidecar audit requeue and audit discard: what is asked for, and whether it is meant.
#include "cli/audit/requeue.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"

enum { NOTE_MOST = 1024, RATE_MOST = 1000000, QUEUES_NAMED = 1000 };

static int misuse(const audit_ask_t *ask, const char *text) {
    fprintf(stderr, "queue-sidecar audit %s: %s\nSee `queue-sidecar help audit %s`.\n", ask->command, text, ask->command);
    return CLI_USAGE;
}

// Nobody is to put everything back by forgetting a word.
static int check_aim(const audit_ask_t *ask) {
    bool filters = ask->filtered || ask->limit_given;
    if (ask->words.count && (ask->answer.where || filters)) return misuse(ask, "give refs, or --where and filters, not both");
    if (ask->words.count) return CLI_OK;
    if (!ask->answer.where && filters) return misuse(ask, "filters choose many failures at once: say --where before them");
    if (!ask->answer.where) return misuse(ask, "which failures: REF..., or --where and filters?");
    if (ask->filtered) return CLI_OK;
    return misuse(ask,
                  "--where wants a filter: --queue, --failed-by, --since, --until or --grep (all there are: --since 1970-01-01)");
}

// `list` calls a filter --reason; here it is what the operator says.
static int read_note(requeue_wish_t *wish, const audit_ask_t *ask) {
    const char *reason = ask->answer.reason, *because = ask->answer.because;
    if (reason && because) return misuse(ask, "--reason and --because say the same: give one");
    if (reason && audit_is_reason(reason)) {
        fprintf(
            stderr,
            "queue-sidecar audit %s: --reason %s: is it why they failed (--failed-by %s), or what you say of it (--because %s)?\n"
            "See `queue-sidecar help audit %s`.\n",
            ask->command, reason, reason, reason, ask->command);
        return CLI_USAGE;
    }
    wish->note = because ? because : reason ? reason : "";
    return strlen(wish->note) <= NOTE_MOST ? CLI_OK : misuse(ask, "--because takes at most 1024 bytes");
}

// "50/s", "300/m", "50".
static int read_rate(requeue_wish_t *wish, const audit_ask_t *ask) {
    const char *word = ask->answer.rate;
    char *end;
    if (!word) return CLI_OK; // as fast as it goes
    long long number = strtoll(word, &end, 10);
    bool minute = strcmp(end, "/m") == 0;
    bool good = *word >= '0' && *word <= '9' && number > 0 && number <= RATE_MOST && (minute || !*end || strcmp(end, "/s") == 0);
    if (!good) return misuse(ask, "--rate is a number from 1 to 1000000 with /s or /m, like 50/s");
    wish->per_minute = minute ? number : 60 * number;
    return CLI_OK;
}

static bool fits_name(const char *by) {
    size_t len = strlen(by);
    for (const char *at = by; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) return false;
    return len > 0 && len <= REQUEUE_BY_MOST;
}

// Who asks: as said, else the user behind sudo, else the user, on this machine. Owned.
static char *operator_name(const char *by) {
    const char *names[] = {getenv("SUDO_USER"), getenv("USER")};
    const struct passwd *user = getpwuid(getuid());
    char host[256] = "";
    if (by) return mem_str(by);
    const char *name = names[0] && *names[0] ? names[0] : names[1] && *names[1] ? names[1] : user ? user->pw_name : "nobody";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "unknown");
    return mem_printf("%.60s@%.60s", name, host);
}

static int read_target(requeue_wish_t *wish, const audit_ask_t *ask) {
    const char *to = ask->answer.to;
    const config_t *config = wish->keys->config;
    const char *names[QUEUES_NAMED];
    size_t count = 0;
    wish->to = -1;
    if (!to) return CLI_OK;
    for (size_t i = 0; i < config->queue_count; i++) {
        if (strcmp(config->queues[i].name, to) == 0) wish->to = (int64_t)i;
        if (count < QUEUES_NAMED) names[count++] = config->queues[i].name;
    }
    if (wish->to >= 0) return CLI_OK;
    const char *nearest = suggest_nearest(to, names, count);
    fprintf(stderr, "queue-sidecar audit %s: --to %s: the config has no such queue%s%s%s\n", ask->command, to,
            nearest ? ": did you mean `" : "", nearest ? nearest : "", nearest ? "`?" : "");
    return CLI_USAGE;
}

// Whether it is meant. CLI_OK: it is.
static int confirm(const requeue_wish_t *wish, const plan_t *plan) {
    buffer_t what = {0};
    char line[16] = "";
    char number[NUMBER_SIZE];
    if (!wish->bulk || wish->yes || wish->dry || plan->open == 0) return CLI_OK;
    plan_describe(plan, &what);
    bool asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    fprintf(stderr, "queue-sidecar: about to %s %s", wish->discards ? "discard" : "put back", buffer_text(&what));
    if (plan->answered) {
        audit_number_text(plan->answered, number);
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

static int carry_out(const requeue_wish_t *wish, const audit_ask_t *ask) {
    plan_t plan = {0};
    buffer_t why = {0};
    bool planned = wish->bulk ? plan_matches(wish, &plan, &why)
                              : plan_refs(wish, (const char *const *)ask->words.all, ask->words.count, &plan, &why);
    int status = planned ? confirm(wish, &plan) : audit_complain(&why);
    if (planned && wish->bulk && plan.open == 0 && plan.answered == 0) audit_explain_nothing(wish->audit, &wish->filter);
    if (status == CLI_OK) {
        status = requeue_run(wish, &plan);
        if (status == CLI_OK && plan.bad_refs) status = CLI_FAILED;
    }
    plan_clear(&plan);
    return status;
}

static int act(const audit_ask_t *ask, bool discards) {
    char *by = operator_name(ask->answer.by);
    keyspace_t *keys = keyspace_new(ask->config);
    requeue_wish_t wish = {.audit = ask->audit,
                           .keys = keys,
                           .discards = discards,
                           .bulk = ask->answer.where,
                           .again = ask->answer.again,
                           .yes = ask->answer.yes,
                           .dry = ask->answer.dry_run,
                           .utc = ask->utc,
                           .format = ask->format,
                           .filter = ask->filter,
                           .by = by};
    signal(SIGPIPE, SIG_IGN); // Redis is at the other end of a socket
    int status = check_aim(ask);
    if (status == CLI_OK) status = read_note(&wish, ask);
    if (status == CLI_OK) status = read_rate(&wish, ask);
    if (status == CLI_OK) status = read_target(&wish, ask);
    if (status == CLI_OK && !fits_name(by)) status = misuse(ask, "--by takes 1 to 128 bytes without control characters");
    if (status == CLI_OK) status = carry_out(&wish, ask);
    keyspace_free(keys);
    free(by);
    return status;
}

static int requeue(audit_ask_t *ask) { return act(ask, false); }

static int discard(audit_ask_t *ask) { return act(ask, true); }

#define AT(field) offsetof(audit_ask_t, field)
#define OPTIONS_ANSWER                                                                                                           \
    AUDIT_WORDS("REF", "what `audit list` shows, or the beginning of it", NULL),                                                 \
        AUDIT_OPTIONS_CONFIG("Redis, queues and the log", "another log than that of the config"),                                \
        {.name = "because",                                                                                                      \
         .argument = "TEXT",                                                                                                     \
         .at = AT(answer.because),                                                                                               \
         .help = "why, for the log; --reason TEXT is the same, unless TEXT is a reason of failures"},                            \
        {.name = "reason", .argument = "TEXT", .at = AT(answer.reason)},                                                         \
        {.name = "by",                                                                                                           \
         .argument = "NAME",                                                                                                     \
         .at = AT(answer.by),                                                                                                    \
         .help = "who asks; otherwise $SUDO_USER or the user, at this host"},                                                    \
        {.name = "again", .at = AT(answer.again), .help = "also what was answered before"},                                      \
        {.name = "rate", .argument = "N/s", .at = AT(answer.rate), .help = "at most so many a second (N/m: a minute), evenly"},  \
        {.name = "dry-run", .at = AT(answer.dry_run), .help = "only says what would be done"},                                   \
        {.letter = 'y',                                                                                                          \
         .name = "yes",                                                                                                          \
         .at = AT(answer.yes),                                                                                                   \
         .help = "does not ask; needed for --where where nobody can be asked"},                                                  \
        AUDIT_OPTION_LIMIT("at most so many, the oldest first"),                                                                 \
        AUDIT_OPTION_OUTPUT("table json jsonl",                                                                                  \
                            "table, json (one object at the end), jsonl (one for each failure that is tried)")
#define OPTIONS_WHERE                                                                                                            \
    {.name = "where",                                                                                                            \
     .at = AT(answer.where),                                                                                                     \
     .heading = "Many at once, by at least one FILTER:",                                                                         \
     .help = "not refs, but all that match what follows"},                                                                       \
        AUDIT_OPTION_QUEUE,                                                                                                      \
        {.letter = 'r',                                                                                                          \
         .name = "failed-by",                                                                                                    \
         .argument = "NAME",                                                                                                     \
         .at = AT(filter.reason),                                                                                                \
         .values = AUDIT_FAILURE_REASONS,                                                                                        \
         .help = "what `list` calls --reason: retries_exhausted, reported, alive_timeout, ..."},                                 \
        AUDIT_OPTIONS_WHEN, AUDIT_OPTION_UTC
#define TEXT_ONCE                                                                                                                \
    "Each failure is answered once, whoever asks, on whichever instance, unless --again: what was answered before is left out "  \
    "and said. So an interrupted run (Ctrl-C finishes what is under way) is simply run again, unless it had --again, which "     \
    "would do all of it once more. The answer is an event of its own: every instance's log gets it."
#define EXITS                                                                                                                    \
    "0 ok\n1 something was refused or not found\n2 wrong usage\n69 Redis unreachable\n78 bad config\n130 interrupted by "        \
    "Ctrl-C\n"

static const cli_option_t requeue_options[] = {
    OPTIONS_ANSWER,
    {.name = "to",
     .argument = "QUEUE",
     .at = AT(answer.to),
     .values = CLI_QUEUES,
     .help = "into this queue of the config, instead of each job's own"},
    OPTIONS_WHERE,
};

const audit_command_t audit_requeue_command = {
    .about = {.name = "requeue",
              .summary = "Puts failed jobs back among the ready ones of their queue",
              .examples = "queue-sidecar audit requeue k3vq7m2zt4pa --because 'address corrected'\n"
                          "queue-sidecar audit requeue --where --queue email --since 2h --grep 'SMTP timeout' --dry-run\n"
                          "queue-sidecar audit requeue --where --queue email --since 2h --grep 'SMTP timeout' --rate 50/s\n",
              .usage = "audit requeue REF... | --where FILTERS [--to QUEUE] [OPTIONS]",
              CLI_OPTIONS(requeue_options),
              .text =
                  "A job goes to the left end, as producers add it: behind what waits there now. It begins a new life: all its "
                  "retries, and a whole alive timeout. The same bytes elsewhere in the queue do not matter: it is added all the "
                  "same.\n\n" TEXT_ONCE,
              .exits = EXITS},
    .opens_log = true,
    .needs_config = true,
    .most = SIZE_MAX,
    .run = requeue,
};

static const cli_option_t discard_options[] = {OPTIONS_ANSWER, OPTIONS_WHERE};

const audit_command_t audit_discard_command = {
    .about = {.name = "discard",
              .summary = "Notes that failed jobs are done with, so that they no longer count as open",
              .examples = "queue-sidecar audit discard k3vq7m2zt4pa --because 'customer is gone'\n"
                          "queue-sidecar audit discard --where --queue email --until 7d --yes\n",
              .usage = "audit discard REF... | --where FILTERS [OPTIONS]",
              CLI_OPTIONS(discard_options),
              .text = "Nothing is removed from the log.\n\n" TEXT_ONCE,
              .exits = EXITS},
    .opens_log = true,
    .needs_config = true,
    .most = SIZE_MAX,
    .run = discard,
};
