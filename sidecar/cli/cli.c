#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "dialects/dialect.h"

const cli_command_t *const cli_commands[] = {
    &cli_run_command,     &cli_check_command,       &cli_status_command,
    &cli_audit_command,   &cli_healthcheck_command, &cli_completion_command,
    &cli_version_command, &cli_help_command,        NULL,
};

enum { WORDS_MAX = 32 };

static void did_you_mean(const char *word, const char *const *words, size_t count, const char *before) {
    const char *nearest = suggest_nearest(word, words, count);
    if (nearest) fprintf(stderr, ": did you mean `%s%s`?", before, nearest);
}

const cli_command_t *cli_find(const char *name) {
    const char *names[WORDS_MAX];
    size_t count = 0;
    for (const cli_command_t *const *at = cli_commands; *at; at++) {
        if (strcmp((*at)->name, name) == 0) return *at;
        if (count < WORDS_MAX) names[count++] = (*at)->name;
    }
    fprintf(stderr, "queue-sidecar: unknown command `%s`", name);
    did_you_mean(name, names, count, "");
    fprintf(stderr, "\nSee `queue-sidecar help`.\n");
    return NULL;
}

const cli_command_t *cli_part(const cli_command_t *command, const char *name) {
    for (const cli_command_t *const *part = command->parts; part && *part; part++)
        if (strcmp((*part)->name, name) == 0) return *part;
    return NULL;
}

static int fail_option(const char *command, const char *what, const char *option) {
    fprintf(stderr, "queue-sidecar %s: %s `%s`\nSee `queue-sidecar help %s`.\n", command, what, option, command);
    return CLI_USAGE;
}

// Command is "" where the option stands before any command.
static int fail_unknown(const char *command, const char *word, const cli_option_t *options, size_t count) {
    const char *names[WORDS_MAX];
    size_t len = strcspn(word, "=");
    char given[64];
    for (size_t i = 0; i < count && i < WORDS_MAX; i++) names[i] = options[i].name;
    const char *space = *command ? " " : "";
    fprintf(stderr, "queue-sidecar%s%s: unknown option `%.*s`", space, command, (int)len, word);
    snprintf(given, sizeof given, "%.*s", (int)len, word + strspn(word, "-"));
    given[strcspn(given, "=")] = '\0';
    did_you_mean(given, names, count < WORDS_MAX ? count : WORDS_MAX, "--");
    fprintf(stderr, "\nSee `queue-sidecar help%s%s`.\n", space, command);
    return CLI_USAGE;
}

static const cli_option_t *find_option(const char *word, const cli_option_t *options, size_t count) {
    bool spelled = word[1] == '-';
    size_t len = strcspn(word, "=");
    for (size_t i = 0; i < count; i++) {
        if (!options[i].name) continue;
        if (!spelled && options[i].letter && options[i].letter == word[1]) return &options[i];
        if (spelled && strlen(options[i].name) == len - 2 && strncmp(options[i].name, word + 2, len - 2) == 0) return &options[i];
    }
    return NULL;
}

// The value that stands in the same word as its option ("-cFILE", "--config=FILE"), or NULL.
static const char *joined_value(const char *word) {
    if (word[1] != '-') return word[2] ? word + 2 : NULL;
    const char *equals = strchr(word, '=');
    return equals ? equals + 1 : NULL;
}

static void *place_of(const cli_option_t *option, void *into) { return (char *)into + option->at; }

// The words come to stand in a row at the beginning; what was there has been read. False: no more are wanted.
static bool take_word(const cli_command_t *command, void *into, char **argv, int at) {
    const cli_option_t *option = command->options, *end = option + command->option_count;
    while (option < end && option->name) option++;
    cli_words_t *words = option < end ? place_of(option, into) : NULL;
    if (!words || words->count == words->most) return false;
    char *word = argv[at];
    words->all = argv + 1;
    argv[at] = words->all[words->count];
    words->all[words->count++] = word;
    return true;
}

// False: it was given too often.
static bool take_value(const cli_option_t *option, void *into, const char *value) {
    if (!option->many) {
        *(const char **)place_of(option, into) = value;
        return true;
    }
    cli_values_t *list = place_of(option, into);
    if (list->count == CLI_VALUES_MOST) return false;
    list->all[list->count++] = value;
    return true;
}

int cli_parse(int argc, char **argv, const cli_command_t *command, void *into) {
    bool ended = false; // by `--`, behind which nothing is an option
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!ended && strcmp(word, "--") == 0) {
            ended = true;
            continue;
        }
        if (ended || word[0] != '-' || !word[1]) {
            if (!take_word(command, into, argv, i)) return fail_option(argv[0], "unexpected argument", word);
            continue;
        }
        const cli_option_t *option = find_option(word, command->options, command->option_count);
        if (!option) return fail_unknown(argv[0], word, command->options, command->option_count);
        const char *joined = joined_value(word);
        if (!option->argument) {
            if (joined) return fail_option(argv[0], "no value is taken by", word);
            *(bool *)place_of(option, into) = true;
        } else {
            if (!joined && i + 1 == argc) return fail_option(argv[0], "a value is missing after", word);
            if (!take_value(option, into, joined ? joined : argv[++i])) return fail_option(argv[0], "given too often:", word);
        }
    }
    return CLI_OK;
}

const char *cli_config_path(const char *flag) {
    if (flag) return flag;
    const char *variable = getenv("QUEUE_SIDECAR_CONFIG");
    return variable && *variable ? variable : CLI_USUAL_CONFIG;
}

// One line for each queue whose dialect is known by name alone. False: there was one.
static bool knows_dialects(const config_t *config, buffer_t *messages) {
    size_t before = messages->len;
    for (size_t i = 0; i < config->queue_count; i++) {
        const queue_config_t *queue = &config->queues[i];
        if (dialect_ops(queue->dialect)) continue;
        buffer_printf(messages,
                      "%s:%d: queue `%s`: `dialect` is \"%s\", which is not in this version yet; available:", config->path,
                      queue->line, queue->name, config_dialect_word(queue->dialect));
        const char *between = " ";
        for (size_t d = 0; d < DIALECT_COUNT; d++) {
            if (!dialect_ops((dialect_t)d)) continue;
            buffer_printf(messages, "%s%s", between, config_dialect_word((dialect_t)d));
            between = ", ";
        }
        buffer_str(messages, "\n");
    }
    return messages->len == before;
}

config_t *cli_read_config(const char *path, buffer_t *messages) {
    config_t *config = config_load(path, messages);
    if (!config || knows_dialects(config, messages)) return config;
    config_free(config);
    return NULL;
}

config_t *cli_load_config(const char *path) {
    buffer_t messages = {0};
    config_t *config = cli_read_config(path, &messages);
    const char *line = buffer_text(&messages);
    while (*line) {
        int len = (int)strcspn(line, "\n");
        fprintf(stderr, "%s%.*s\n", config ? "warning: " : "", len, line);
        line += len + (line[len] == '\n');
    }
    buffer_free(&messages);
    return config;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    }
    return false;
}

static int dispatch(int argc, char **argv) {
    char *help[] = {(char[]){"help"}, NULL, NULL, NULL};
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    if (argc < 2) return cli_help(1, help);
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return cli_help(1, help);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return cli_version(1, argv + 1);
    if (word[0] == '-') {
        const cli_option_t known[] = {{.letter = 'h', .name = "help"}, {.letter = 'V', .name = "version"}};
        return fail_unknown("", word, known, sizeof known / sizeof *known);
    }
    const cli_command_t *command = cli_find(word);
    if (!command) return CLI_USAGE;
    if (!asks_for_help(argc - 1, argv + 1)) return command->run(argc - 1, argv + 1);
    bool part = argc > 2 && cli_part(command, argv[2]);
    help[1] = argv[1];
    help[2] = part ? argv[2] : NULL;
    return cli_help(part ? 3 : 2, help);
}

int cli_main(int argc, char **argv) {
    int status = dispatch(argc, argv);
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout)) return status;
    // What failed before the end has left no reason that could be trusted.
    fprintf(stderr, "queue-sidecar: cannot write all of it to standard output: %s\n",
            flushed ? "is the disk full, or was it closed?" : strerror(errno));
    return status ? status : CLI_FAILED;
}
