#include "cli/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/suggest.h"
#include "cli/when.h"

const char cli_audit_help[] =
    "Examples:\n"
    "  queue-sidecar audit list                                      the newest 50 final failures\n"
    "  queue-sidecar audit list --since 2h --queue email             what failed since two hours ago\n"
    "  queue-sidecar audit list --reason reported --grep timeout     whose error, payload or job id holds this text\n"
    "  queue-sidecar audit show k3vq                                 one of them, by its ref or the beginning of it\n"
    "  queue-sidecar audit stats --since 2026-11-21T02:00            how many, by queue, reason and hour\n"
    "  queue-sidecar audit list --limit 0 -o csv >failures.csv       all of them\n"
    "\n"
    "Usage: queue-sidecar audit list|stats [-c FILE | --db PATH] [FILTERS] [--limit N] [-o FORMAT] [--utc]\n"
    "       queue-sidecar audit show REF   [-c FILE | --db PATH] [-o FORMAT] [--utc]\n"
    "\n"
    "  -c, --config FILE   whose audit.path is asked; otherwise QUEUE_SIDECAR_CONFIG, otherwise the usual place\n"
    "      --db PATH       the audit log itself; no config is read\n"
    "  -q, --queue NAME    of this queue\n"
    "  -r, --reason NAME   retries_exhausted, reported, alive_timeout, unreadable, invalid_target, dead_letter, worker_failed\n"
    "      --since TIME    at or after: 90s, 30m, 2h, 7d, 1w ago, or 2026-11-21, 2026-11-21T02:00, 2026-11-21T02:00:00Z\n"
    "      --until TIME    before\n"
    "  -g, --grep TEXT     with these bytes in the error, the payload or the job id\n"
    "  -n, --limit N       rows (list: 50 in a table, else all; stats: 24 hours in a table, else all); 0 = all\n"
    "  -o, --output FORMAT table, json (one array or object), jsonl (an object a line), csv (RFC 4180)\n"
    "      --utc           times in tables, and times without a zone in filters, are UTC instead of local time\n"
    "\n"
    "json, jsonl and csv: times in UTC by RFC 3339; payload and error as they are, or in base64 where they are no UTF-8, as\n"
    "payload_encoding and error_encoding say. Data goes to standard output, messages to standard error. The log is only read:\n"
    "this may run beside a sidecar, and on any copy of the file. sql/README.md has queries for the sqlite3 shell.\n"
    "Exit codes: 0 ok, also when nothing matches; 1 failed, no such ref, or several; 2 wrong usage; 78 bad config.\n";

typedef struct words { // as they were given; NULL = not
    const char *config, *db, *since, *until, *limit, *format;
} words_t;

static const char *const reasons[] = {"retries_exhausted", "reported",    "alive_timeout", "unreadable",
                                      "invalid_target",    "dead_letter", "worker_failed"};
static const char *const formats[] = {
    [FORMAT_TABLE] = "table", [FORMAT_JSON_ARRAY] = "json", [FORMAT_JSON_LINES] = "jsonl", [FORMAT_CSV] = "csv"};
static const char *const subcommands[] = {"list", "show", "stats"};
static int (*const prints[])(audit_ask_t *) = {audit_print_list, audit_print_one, audit_print_stats};
#define COUNT(array) (sizeof(array) / sizeof *(array))

int audit_complain(buffer_t *why) {
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s\n", buffer_text(why));
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

static int read_words(audit_ask_t *ask, const words_t *words) {
    const audit_filter_t *filter = &ask->filter;
    if (words->config && words->db) return misuse("-c and --db exclude each other: leave out", "-c", NULL);
    if (words->format) {
        int format = find_word("unknown format", words->format, formats, COUNT(formats));
        if (format < 0) return CLI_USAGE;
        ask->format = (audit_format_t)format;
    }
    if (filter->reason && find_word("unknown reason", filter->reason, reasons, COUNT(reasons)) < 0) return CLI_USAGE;
    if (!read_time(ask, words->since, &ask->filter.since_ms) || !read_time(ask, words->until, &ask->filter.until_ms) ||
        !read_limit(ask, words->limit))
        return CLI_USAGE;
    if (filter->since_ms && filter->until_ms && filter->since_ms >= filter->until_ms)
        return misuse("--since must be before --until, but is not:", words->since, NULL);
    if (filter->grep && !*filter->grep) ask->filter.grep = NULL;
    return CLI_OK;
}

static int parse(int argc, char **argv, bool show, audit_ask_t *ask, words_t *words) {
    cli_option_t options[] = {
        {.letter = 'c', .name = "config", .value = &words->config},
        {.name = "db", .value = &words->db},
        {.letter = 'o', .name = "output", .value = &words->format},
        {.name = "utc", .flag = &ask->utc},
        {.value = &ask->ref}, // show has this one, the others have what follows
        {.letter = 'q', .name = "queue", .value = &ask->filter.queue},
        {.letter = 'r', .name = "reason", .value = &ask->filter.reason},
        {.name = "since", .value = &words->since},
        {.name = "until", .value = &words->until},
        {.letter = 'g', .name = "grep", .value = &ask->filter.grep},
        {.letter = 'n', .name = "limit", .value = &words->limit},
    };
    enum { SHARED = 4 };
    if (show) return cli_parse(argc, argv, options, SHARED + 1);
    options[SHARED] = options[COUNT(options) - 1];
    return cli_parse(argc, argv, options, COUNT(options) - 1);
}

// Opens what is asked and runs the subcommand.
static int answer(audit_ask_t *ask, const words_t *words, int (*print)(audit_ask_t *)) {
    buffer_t why = {0};
    config_t *config = NULL;
    if (!words->db) {
        config = cli_load_config(cli_config_path(words->config));
        if (!config) return CLI_BAD_CONFIG;
    }
    ask->audit = audit_open(config ? config->audit.path : words->db, AUDIT_READ, &why);
    int status = ask->audit ? print(ask) : audit_complain(&why);
    audit_close(ask->audit);
    config_free(config);
    return status;
}

int cli_audit(int argc, char **argv) {
    audit_ask_t ask = {0};
    words_t words = {0};
    if (argc < 2 || argv[1][0] == '-') {
        fputs("queue-sidecar audit: list, show or stats?\nSee `queue-sidecar help audit`.\n", stderr);
        return CLI_USAGE;
    }
    int which = find_word("unknown subcommand", argv[1], subcommands, COUNT(subcommands));
    if (which < 0) return CLI_USAGE;
    bool show = prints[which] == audit_print_one;
    argv[1] = argv[0]; // what messages call us
    int status = parse(argc - 1, argv + 1, show, &ask, &words);
    if (status == CLI_OK) status = read_words(&ask, &words);
    if (status != CLI_OK) return status;
    if (show && !ask.ref) return misuse("a ref is missing:", "show REF", NULL);
    signal(SIGPIPE, SIG_DFL); // `audit list | head` ends without a word
    return answer(&ask, &words, prints[which]);
}
