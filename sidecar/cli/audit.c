#include "cli/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/suggest.h"
#include "cli/encode.h"
#include "cli/when.h"

const char cli_audit_help[] =
    "Examples:\n"
    "  queue-sidecar audit list                                      the newest 50 final failures\n"
    "  queue-sidecar audit list --since 2h --queue email             what failed since two hours ago\n"
    "  queue-sidecar audit list --reason reported --grep timeout     whose error, payload or job id holds this text\n"
    "  queue-sidecar audit show k3vq                                 one of them, by its ref or the beginning of it\n"
    "  queue-sidecar audit stats --since 2026-11-21T02:00            how many, by queue, reason and hour\n"
    "  queue-sidecar audit requeue k3vq --because 'typo corrected'   puts one back; discard: nobody wants it any more\n"
    "  queue-sidecar audit requeue --where --queue email --since 2h  puts many back; asks first\n"
    "  queue-sidecar audit tail                                      the last ones, and new ones as they come\n"
    "  queue-sidecar audit export failures.jsonl --since 7d          all events of a week, to be kept or imported\n"
    "  queue-sidecar audit import pod-2.db                           what another instance has and this one has not\n"
    "  queue-sidecar audit backup audit-before-upgrade.db            a copy, while the sidecar writes\n"
    "\n"
    "Usage: queue-sidecar audit list|stats|tail [-c FILE | --db PATH] [FILTERS] [--limit N] [-o FORMAT] [--utc]\n"
    "       queue-sidecar audit show REF        [-c FILE | --db PATH] [-o FORMAT] [--utc]\n"
    "       queue-sidecar audit export [FILE]   [-c FILE | --db PATH] [FILTERS] [-o FORMAT] [--force]\n"
    "       queue-sidecar audit import FILE...  [-c FILE | --db PATH]\n"
    "       queue-sidecar audit backup FILE     [-c FILE | --db PATH] [--force]\n"
    "       queue-sidecar audit requeue|discard REF... | --where FILTERS [OPTIONS]\n"
    "\n"
    "`queue-sidecar help audit SUBCOMMAND` explains one. All of them take:\n"
    "\n" AUDIT_HELP_LOG "\n"
    "FILTERS:\n" AUDIT_HELP_FILTERS "\n"
    "Data goes to standard output, messages to standard error. sql/README.md has queries for the sqlite3 shell.\n"
    "Exit codes: 0 ok, also when nothing matches; 1 failed, no such ref, or several; 2 wrong usage; 78 bad config.\n";

typedef struct words { // as they were given; NULL = not
    const char *config, *db, *reason, *since, *until, *limit, *format;
} words_t;

enum { FAILURE_REASONS = 7 }; // the others are of retries and gaps
static const char *const reasons[] = {"retries_exhausted", "reported",      "alive_timeout", "unreadable", "invalid_target",
                                      "dead_letter",       "worker_failed", "stalled",       "trimmed",    "removed_by_others",
                                      "log_damaged",       "log_missing",   "log_replaced",  "imported"};
static const char *const kinds[] = {"failed", "retried", "requeued", "discarded", "gap", "filled"};
static const char *const formats[] = {
    [FORMAT_TABLE] = "table", [FORMAT_JSON_ARRAY] = "json", [FORMAT_JSON_LINES] = "jsonl", [FORMAT_CSV] = "csv"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { TABLE = 1 << FORMAT_TABLE, JSON = 1 << FORMAT_JSON_ARRAY, JSONL = 1 << FORMAT_JSON_LINES, CSV = 1 << FORMAT_CSV };
enum { ASKS = OPENS_LOG | TAKES_FORMAT | TAKES_UTC };

static const audit_command_t commands[] = {
    {.name = "list",
     .help = audit_list_help,
     .takes = ASKS | TAKES_FILTERS | TAKES_LIMIT | TAKES_KIND,
     .formats = TABLE | JSON | JSONL | CSV,
     .run = audit_print_list},
    {.name = "show",
     .help = audit_show_help,
     .takes = ASKS,
     .formats = TABLE | JSON | JSONL | CSV,
     .least = 1,
     .most = 1,
     .missing = "a ref is missing: `show REF`",
     .run = audit_print_one},
    {.name = "stats",
     .help = audit_stats_help,
     .takes = ASKS | TAKES_FILTERS | TAKES_LIMIT,
     .formats = TABLE | JSON | JSONL | CSV,
     .run = audit_print_stats},
    {.name = "requeue",
     .help = audit_requeue_help,
     .takes = ASKS | TAKES_FILTERS | TAKES_LIMIT | NEEDS_CONFIG | TAKES_ANSWER | TAKES_TARGET,
     .formats = TABLE | JSON | JSONL,
     .most = SIZE_MAX,
     .run = audit_requeue},
    {.name = "discard",
     .help = audit_discard_help,
     .takes = ASKS | TAKES_FILTERS | TAKES_LIMIT | NEEDS_CONFIG | TAKES_ANSWER,
     .formats = TABLE | JSON | JSONL,
     .most = SIZE_MAX,
     .run = audit_discard},
    {.name = "tail",
     .help = audit_tail_help,
     .takes = TAKES_FILTERS | TAKES_LIMIT | TAKES_KIND | TAKES_FORMAT | TAKES_UTC,
     .formats = TABLE | JSONL | CSV,
     .run = audit_run_tail},
    {.name = "export",
     .help = audit_export_help,
     .takes = OPENS_LOG | TAKES_FILTERS | TAKES_KIND | TAKES_FORMAT | TAKES_UTC | TAKES_FORCE,
     .formats = JSONL | CSV,
     .form = FORMAT_JSON_LINES,
     .most = 1,
     .run = audit_run_export},
    {.name = "import",
     .help = audit_import_help,
     .least = 1,
     .most = SIZE_MAX,
     .missing = "a file is missing: `import FILE...`",
     .run = audit_run_import},
    {.name = "backup",
     .help = audit_backup_help,
     .takes = OPENS_LOG | TAKES_FORCE,
     .least = 1,
     .most = 1,
     .missing = "a file is missing: `backup FILE`",
     .run = audit_run_backup},
};

int audit_complain(buffer_t *why) {
    buffer_t plain = {0};
    encode_plain(&plain, (slice_t){buffer_text(why), why->len}, true); // it may quote a file of a stranger
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", buffer_text(&plain));
    buffer_free(&plain);
    buffer_free(why);
    return CLI_FAILED;
}

slice_t audit_number_text(int64_t number, char text[NUMBER_SIZE]) {
    char digits[NUMBER_SIZE];
    int len = snprintf(digits, sizeof digits, "%" PRId64, number);
    size_t used = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0 && digits[i - 1] != '-') text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return (slice_t){text, used};
}

static int misuse(const char *what, const char *word, const char *nearest) {
    fprintf(stderr, "queue-sidecar audit: %s `%s`", what, word);
    if (nearest) fprintf(stderr, ": did you mean `%s`?", nearest);
    fputs("\nSee `queue-sidecar help audit`.\n", stderr);
    return CLI_USAGE;
}

bool audit_is_reason(const char *word) {
    for (size_t i = 0; i < FAILURE_REASONS; i++)
        if (strcmp(word, reasons[i]) == 0) return true;
    return false;
}

// Where `word` stands among the known ones; -1 after a message.
static int find_word(const char *what, const char *word, const char *const *known, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, known[i]) == 0) return (int)i;
    misuse(what, word, suggest_nearest(word, known, count));
    return -1;
}

static bool read_time(const audit_ask_t *ask, const char *word, int64_t *out) {
    if (!word || when_parse(word, ask->utc, when_now(), out)) return true;
    misuse("no time (like 2h, 2026-11-21, 2026-11-21T02:00 or 2026-11-21T02:00:00Z) is", word, NULL);
    return false;
}

static bool read_limit(audit_ask_t *ask, const char *word) {
    char *end;
    if (!word) return true;
    errno = 0;
    long long limit = strtoll(word, &end, 10);
    ask->limit_given = true;
    ask->filter.limit = limit;
    if (*word >= '0' && *word <= '9' && !*end && !errno && limit < INT64_MAX) return true;
    misuse("no number of rows (0 = all) is", word, NULL);
    return false;
}

// The format that is asked for, if this subcommand can print it.
static bool read_format(audit_ask_t *ask, const audit_command_t *command, const char *word) {
    const char *known[COUNT(formats)];
    for (size_t i = 0; i < COUNT(formats); i++) known[i] = command->formats & 1U << i ? formats[i] : NULL;
    ask->format = command->form;
    if (!word) return true;
    for (size_t i = 0; i < COUNT(formats); i++) {
        if (!known[i] || strcmp(word, known[i]) != 0) continue;
        ask->format = (audit_format_t)i;
        return true;
    }
    misuse("unknown format", word, suggest_nearest(word, known, COUNT(known)));
    return false;
}

static int read_words(audit_ask_t *ask, const audit_command_t *command, const words_t *words) {
    audit_filter_t *filter = &ask->filter;
    if (command->takes & TAKES_ANSWER)
        ask->answer.reason = words->reason;
    else if (words->reason)
        filter->reason = words->reason;
    ask->filtered = filter->queue || filter->reason || filter->grep || words->since || words->until;
    bool both = command->takes & NEEDS_CONFIG;
    if (words->config && words->db && !both) return misuse("-c and --db exclude each other: leave out", "-c", NULL);
    if (!read_format(ask, command, words->format)) return CLI_USAGE;
    if (filter->kind && find_word("unknown kind of events", filter->kind, kinds, COUNT(kinds)) < 0) return CLI_USAGE;
    if (filter->reason && find_word("unknown reason", filter->reason, reasons, COUNT(reasons)) < 0) return CLI_USAGE;
    if (!read_time(ask, words->since, &ask->filter.since_ms) || !read_time(ask, words->until, &ask->filter.until_ms) ||
        !read_limit(ask, words->limit))
        return CLI_USAGE;
    if (filter->since_ms && filter->until_ms && filter->since_ms >= filter->until_ms)
        return misuse("--since must be before --until, but is not:", words->since, NULL);
    if (filter->grep && !*filter->grep) return misuse("--grep wants a text to look for, but got", filter->grep, NULL);
    if (ask->words.count >= command->least) return CLI_OK;
    fprintf(stderr, "queue-sidecar audit: %s\nSee `queue-sidecar help audit %s`.\n", command->missing, command->name);
    return CLI_USAGE;
}

static int parse(int argc, char **argv, const audit_command_t *command, audit_ask_t *ask, words_t *words) {
    ask->words.most = command->most;
    const struct {
        unsigned takes; // taken by subcommands that have all of these; 0 = all do
        cli_option_t option;
    } all[] = {
        {0, {.letter = 'c', .name = "config", .value = &words->config}},
        {0, {.name = "db", .value = &words->db}},
        {0, {.words = &ask->words}},
        {TAKES_FORMAT, {.letter = 'o', .name = "output", .value = &words->format}},
        {TAKES_UTC, {.name = "utc", .flag = &ask->utc}},
        {TAKES_FILTERS, {.letter = 'q', .name = "queue", .value = &ask->filter.queue}},
        {TAKES_FILTERS, {.letter = 'r', .name = "failed-by", .value = &ask->filter.reason}},
        {TAKES_FILTERS, {.name = "reason", .value = &words->reason}},
        {TAKES_FILTERS, {.name = "since", .value = &words->since}},
        {TAKES_FILTERS, {.name = "until", .value = &words->until}},
        {TAKES_FILTERS, {.letter = 'g', .name = "grep", .value = &ask->filter.grep}},
        {TAKES_LIMIT, {.letter = 'n', .name = "limit", .value = &words->limit}},
        {TAKES_ANSWER, {.name = "where", .flag = &ask->answer.where}},
        {TAKES_ANSWER, {.name = "because", .value = &ask->answer.because}},
        {TAKES_ANSWER, {.name = "by", .value = &ask->answer.by}},
        {TAKES_ANSWER, {.name = "again", .flag = &ask->answer.again}},
        {TAKES_ANSWER, {.name = "rate", .value = &ask->answer.rate}},
        {TAKES_ANSWER, {.name = "dry-run", .flag = &ask->answer.dry_run}},
        {TAKES_ANSWER, {.letter = 'y', .name = "yes", .flag = &ask->answer.yes}},
        {TAKES_TARGET, {.name = "to", .value = &ask->answer.to}},
        {TAKES_KIND, {.name = "kind", .value = &ask->filter.kind}},
        {TAKES_KIND, {.name = "all-kinds", .flag = &ask->filter.all_kinds}},
        {TAKES_FORCE, {.name = "force", .flag = &ask->force}},
    };
    cli_option_t options[COUNT(all)];
    size_t count = 0;
    for (size_t i = 0; i < COUNT(all); i++)
        if ((command->takes & all[i].takes) == all[i].takes) options[count++] = all[i].option;
    return cli_parse(argc, argv, options, count);
}

// Opens what is asked and runs the subcommand.
static int answer(audit_ask_t *ask, const audit_command_t *command, const words_t *words) {
    buffer_t why = {0};
    config_t *config = NULL;
    if (!words->db || command->takes & NEEDS_CONFIG) {
        config = cli_load_config(cli_config_path(words->config));
        if (!config) return CLI_BAD_CONFIG;
    }
    int status = CLI_FAILED;
    ask->config = config;
    ask->path = words->db ? words->db : config->audit.path;
    bool opens = command->takes & OPENS_LOG;
    if (opens) ask->audit = audit_open(ask->path, AUDIT_READ, &why);
    if (!opens || ask->audit)
        status = command->run(ask);
    else
        audit_complain(&why);
    audit_close(ask->audit);
    config_free(config);
    return status;
}

static const audit_command_t *find_command(const char *word) {
    const char *names[COUNT(commands)];
    for (size_t i = 0; i < COUNT(commands); i++) names[i] = commands[i].name;
    int which = find_word("unknown subcommand", word, names, COUNT(commands));
    return which < 0 ? NULL : &commands[which];
}

const char *cli_audit_help_of(const char *subcommand) {
    for (size_t i = 0; i < COUNT(commands); i++)
        if (strcmp(commands[i].name, subcommand) == 0) return commands[i].help;
    return NULL;
}

int cli_audit(int argc, char **argv) {
    audit_ask_t ask = {0};
    words_t words = {0};
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    if (argc < 2 || argv[1][0] == '-') {
        fputs("queue-sidecar audit: which subcommand?", stderr);
        for (size_t i = 0; i < COUNT(commands); i++) fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
        fputs("\nSee `queue-sidecar help audit`.\n", stderr);
        return CLI_USAGE;
    }
    const audit_command_t *command = find_command(argv[1]);
    if (!command) return CLI_USAGE;
    argv[1] = (char[]){"audit"}; // what messages call us
    int status = parse(argc - 1, argv + 1, command, &ask, &words);
    if (status == CLI_OK) status = read_words(&ask, command, &words);
    if (status != CLI_OK) return status;
    signal(SIGPIPE, SIG_DFL); // `audit list | head` ends without a word
    return answer(&ask, command, &words);
}
