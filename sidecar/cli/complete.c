// Shell completion: the hidden command `complete`, and `completion`, which prints the scripts.
#include "cli/args.h"
#include "cli/cli.h"
#include "dialects/registry.h"

typedef struct complete {
    const cli_command_t *const *commands;
    char **words; // owned; without quotes
    size_t count; // of complete words; words[count] is being typed
    size_t kept;  // bytes of the typed word before the place where bash split it last; candidates omit them
} complete_t;

// ---- Words, as a shell reads them.

static void complete_unquote(const char *typed, buffer_t *out) {
    const char *home = getenv("HOME");
    char quote = '\0';
    if (strncmp(typed, "~/", 2) == 0 && home) {
        buffer_str(out, home);
        typed++;
    }
    for (; *typed; typed++) {
        if (*typed == quote)
            quote = '\0';
        else if (!quote && (*typed == '\'' || *typed == '"'))
            quote = *typed;
        else if (*typed == '\\' && quote != '\'' && typed[1])
            buffer_add(out, ++typed, 1);
        else
            buffer_add(out, typed, 1);
    }
}

static bool complete_is_break(const char *word) { return *word && word[strspn(word, "=:")] == '\0'; }

static void complete_read_words(complete_t *c, int count, char **typed) {
    buffer_t word = {0};
    size_t read = 0;
    c->words = mem_array((size_t)count + 1, sizeof *c->words);
    for (int i = 0; i < count; i++) {
        bool joined = i > 0 && *typed[i] && (complete_is_break(typed[i]) || complete_is_break(typed[i - 1]));
        if (!joined) buffer_clear(&word);
        c->kept = word.len;
        complete_unquote(typed[i], &word);
        if (complete_is_break(typed[i]) && joined) c->kept = word.len;
        if (!joined) read++;
        free(c->words[read - 1]);
        c->words[read - 1] = mem_str(buffer_text(&word));
    }
    if (read == 0) c->words[read++] = mem_str("");
    c->count = read - 1;
    buffer_free(&word);
}

// ---- Printing candidates.

static const char *complete_typed(const complete_t *c) { return c->words[c->count]; }

// Prints a candidate if it begins with the typed word. `prefix` is an option in the same word, or "".
static void complete_offer(const complete_t *c, const char *prefix, const char *word, const char *description) {
    char *whole = mem_printf("%s%s", prefix, word);
    if (strncmp(whole, complete_typed(c), strlen(complete_typed(c))) == 0)
        printf("%s%s%s\n", whole + c->kept, *description ? "\t" : "", description);
    free(whole);
}

static void complete_commands(const complete_t *c, const cli_command_t *const *commands) {
    for (; commands && *commands; commands++) complete_offer(c, "", (*commands)->name, (*commands)->summary);
}

// Offers each word of a list that spaces separate.
static void complete_list(const complete_t *c, const char *prefix, const char *words) {
    for (size_t len; *words; words += len + (words[len] == ' ')) {
        len = strcspn(words, " ");
        char *word = mem_printf("%.*s", (int)len, words);
        complete_offer(c, prefix, word, "");
        free(word);
    }
}

// Offers the queues of a config. With a bad config offers none and prints no message: it would disturb the line that is being
// typed. Returns an exit code.
static int complete_queues(const complete_t *c, const char *prefix, const char *path) {
    buffer_t messages = {0};
    config_t *config = config_load(cli_config_path(path), dialect_settings, &messages);
    buffer_free(&messages);
    if (!config) return CLI_BAD_CONFIG;
    for (size_t i = 0; i < config->queue_count; i++) complete_offer(c, prefix, config->queues[i].name, "");
    config_free(config);
    return CLI_OK;
}

static void complete_value(const complete_t *c, const cli_option_t *option, const char *prefix, const char *config) {
    if (!option->values) return;
    if (strcmp(option->values, CLI_QUEUES) == 0)
        complete_queues(c, prefix, config);
    else if (strcmp(option->values, CLI_FILES) == 0)
        puts(CLI_FILES);
    else
        complete_list(c, prefix, option->values);
}

static void complete_options(const complete_t *c, const cli_command_t *command) {
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (option->name && option->help) complete_offer(c, "--", option->name, option->help);
    }
    complete_offer(c, "--", "help", "explain it");
}

// ---- Candidates.

// `first` is the index of the first word behind the command.
static void complete_argument(const complete_t *c, const cli_command_t *command, size_t first) {
    const cli_option_t *option = NULL, *operands = NULL;
    const char *config = NULL, *value = NULL, *typed = complete_typed(c);
    for (size_t i = first; i <= c->count; i++) {
        option = args_find_option(command, c->words[i]);
        value = option && option->argument ? args_joined_value(c->words[i]) : NULL;
        if (option && option->argument && !value && i < c->count) value = c->words[++i];
        if (value && strcmp(option->name, "config") == 0) config = value;
    }
    if (value) { // the typed word is a value, or ends with one
        char *prefix = mem_printf("%.*s", (int)(value - typed), typed);
        complete_value(c, option, prefix, config);
        free(prefix);
        return;
    }
    for (size_t i = 0; i < command->option_count; i++)
        if (!command->options[i].name) operands = &command->options[i];
    if (typed[0] != '-' && operands)
        complete_value(c, operands, "", config);
    else if (typed[0] == '-' || command->option_count)
        complete_options(c, command);
}

static void complete_help(const complete_t *c) {
    if (c->count == 1) {
        complete_commands(c, c->commands);
        complete_list(c, "", HELP_TOPICS);
    } else if (c->count == 2 && strcmp(c->words[1], "man") == 0) {
        complete_list(c, "", HELP_PAGES);
    } else if (c->count == 2) {
        const cli_command_t *command = args_find_command(c->commands, c->words[1]);
        if (command) complete_commands(c, command->parts);
    }
}

static void complete_word(const complete_t *c) {
    const cli_command_t *command = c->count ? args_find_command(c->commands, c->words[0]) : NULL;
    const cli_command_t *part = command && c->count > 1 ? args_find_command(command->parts, c->words[1]) : NULL;
    if (c->count == 0 && complete_typed(c)[0] == '-') {
        complete_offer(c, "--", "help", "explain it");
        complete_offer(c, "--", "version", "print the version");
    } else if (c->count == 0) {
        complete_commands(c, c->commands);
    } else if (command && strcmp(command->name, "help") == 0) {
        complete_help(c);
    } else if (part) {
        complete_argument(c, part, 2);
    } else if (command && command->parts && c->count == 1 && complete_typed(c)[0] != '-') {
        complete_commands(c, command->parts);
    } else if (command) {
        complete_argument(c, command, 1);
    }
}

int complete_print(const cli_command_t *const *commands, int count, char **words) {
    complete_t c = {.commands = commands};
    complete_read_words(&c, count, words);
    complete_word(&c);
    for (size_t i = 0; i <= c.count; i++) free(c.words[i]);
    free(c.words);
    return CLI_OK;
}

// ---- The command `completion`.

static int completion_run(const cli_args_t *args) {
    const char *what = args->operands.count ? args->operands.all[0] : "";
    int status = CLI_OK;
    if (strcmp(what, "bash") == 0) {
        fputs(text_complete_bash, stdout);
    } else if (strcmp(what, "zsh") == 0) {
        fputs(text_complete_zsh, stdout);
    } else if (strcmp(what, "queues") == 0) {
        char *nothing_typed[] = {(char[]){""}};
        status = complete_queues(&(complete_t){.words = nothing_typed}, "", args->config);
    } else {
        fprintf(stderr, "queue-sidecar completion: %s%s%s: use bash or zsh\nSee `queue-sidecar help completion`.\n",
                *what ? "unknown shell `" : "missing shell", what, *what ? "`" : "");
        status = CLI_USAGE;
    }
    return status;
}

static const cli_option_t completion_table[] = {
    CLI_VALUE(cli_args_t, 0, NULL, "SHELL", operands, "bash zsh",
              "bash or zsh prints its script; queues prints the names of the queues in the config, one a line"),
    CLI_OPTION_CONFIG,
};

const cli_command_t cli_completion_command = {
    .name = "completion",
    .summary = "Print a script that completes commands, options and queue names",
    .examples = "source <(queue-sidecar completion bash)\tin this shell, or in ~/.bashrc\n"
                "source <(queue-sidecar completion zsh)\tin this shell, or in ~/.zshrc after compinit\n",
    .usage = "completion bash|zsh",
    CLI_OPTIONS(completion_table),
    .text = "`make install` puts both scripts where the shells look for them.",
    .exits = "0 ok\n2 wrong usage\n78 with queues: bad config\n",
    .run = completion_run,
};
