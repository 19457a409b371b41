#include "cli/args.h"

#include <stdarg.h>

#include "base/buffer.h"
#include "base/text/suggest.h"
#include "base/text/terminal_escape.h"
#include "dialects/registry.h"
#include "redis/cluster/cluster.h"
#include "redis/tls/files.h"

enum { NAMES_MAX = 32 };

// Adds ": did you mean `<prefix>WORD`?" to the message on stderr, if one of the known words is near.
static void args_suggest(const char *word, const char *const *known, size_t count, const char *prefix) {
    const char *nearest = suggest_nearest(word, known, count);
    if (nearest) fprintf(stderr, ": did you mean `%s%s`?", prefix, nearest);
}

int args_refuse(const char *command, const char *what, const char *word, const char *const *known, size_t count) {
    const char *space = *command ? " " : "";
    bool option = *word == '-' && count > 0;
    char *name = mem_printf("%.*s", (int)strcspn(word, option ? "=" : ""), word);
    fprintf(stderr, "queue-sidecar%s%s: %s `%s`", space, command, what, name);
    args_suggest(name + strspn(name, "-"), known, count, option ? "--" : "");
    fprintf(stderr, "\nSee `queue-sidecar help%s%s`.\n", space, command);
    free(name);
    return CLI_USAGE;
}

int cli_usage_error(const char *command, const char *format, ...) {
    va_list values;
    fprintf(stderr, "queue-sidecar %s: ", command);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\nSee `queue-sidecar help %s`.\n", command);
    return CLI_USAGE;
}

const cli_command_t *args_find_command(const cli_command_t *const *commands, const char *name) {
    for (; commands && *commands; commands++)
        if (strcmp((*commands)->name, name) == 0) return *commands;
    return NULL;
}

// Returns the command that has a subcommand of this name, as `audit` has `requeue`; NULL = none.
static const cli_command_t *args_find_parent(const cli_command_t *const *commands, const char *name) {
    for (; *commands; commands++)
        if (args_find_command((*commands)->parts, name)) return *commands;
    return NULL;
}

const cli_command_t *args_need_command(const cli_command_t *const *commands, const char *parent, const char *name) {
    const char *names[NAMES_MAX];
    size_t count = 0;
    const cli_command_t *command = args_find_command(commands, name), *owner = command ? NULL : args_find_parent(commands, name);
    for (; !command && count < NAMES_MAX && commands[count]; count++) names[count] = commands[count]->name;
    if (!command && *parent && (!*name || *name == '-')) {
        fprintf(stderr, "queue-sidecar %s: specify a subcommand:", parent);
        for (size_t i = 0; i < count; i++) fprintf(stderr, "%s %s", i ? "," : "", names[i]);
        fprintf(stderr, "\nSee `queue-sidecar help %s`.\n", parent);
    } else if (owner)
        fprintf(stderr, "queue-sidecar: unknown command `%s`: did you mean `%s %s`?\nSee `queue-sidecar help %s`.\n", name,
                owner->name, name, owner->name);
    else if (!command)
        args_refuse(parent, *parent ? "unknown subcommand" : "unknown command", name, names, count);
    return command;
}

static int args_unknown_option(const char *name, const char *word, const cli_command_t *command) {
    const char *names[NAMES_MAX];
    size_t count = 0;
    for (; count < NAMES_MAX && count < command->option_count; count++) names[count] = command->options[count].name;
    return args_refuse(name, "unknown option", word, names, count);
}

const cli_option_t *args_find_option(const cli_command_t *command, const char *word) {
    size_t len = strcspn(word, "=");
    if (word[0] != '-' || !word[1]) return NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (!option->name) continue;
        if (word[1] != '-' && option->letter && option->letter == word[1]) return option;
        if (word[1] == '-' && strlen(option->name) == len - 2 && strncmp(option->name, word + 2, len - 2) == 0) return option;
    }
    return NULL;
}

const char *args_joined_value(const char *word) {
    if (word[1] != '-') return word[2] ? word + 2 : NULL;
    const char *equals = strchr(word, '=');
    return equals ? equals + 1 : NULL;
}

static void *args_field(const cli_option_t *option, void *options) { return (char *)options + option->at; }

// Moves the operand behind the earlier ones, at the front of argv. False: the command allows no more operands.
static bool args_add_operand(const cli_command_t *command, void *options, char **argv, int at) {
    const cli_option_t *option = command->options, *end = option + command->option_count;
    while (option < end && option->name) option++;
    cli_operands_t *operands = option < end ? args_field(option, options) : NULL;
    if (!operands || (operands->count && !option->many)) return false;
    char *word = argv[at];
    operands->all = argv + 1;
    argv[at] = operands->all[operands->count];
    operands->all[operands->count++] = word;
    return true;
}

bool args_has_word(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = list; len && (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]) && !memchr(word, ' ', len)) return true;
    return false;
}

// Whether the value of an option is one of its words.
static int args_check_value(const char *command, const cli_option_t *option, void *options) {
    const char *names[NAMES_MAX];
    size_t count = 0;
    if (!option->name || option->many || !option->values || *option->values == '<') return CLI_OK;
    const char *value = *(const char **)args_field(option, options);
    if (!value || args_has_word(option->values, value)) return CLI_OK;
    char *copy = mem_str(option->values);
    for (char *rest = copy; rest && count < NAMES_MAX;) names[count++] = strsep(&rest, " ");
    fprintf(stderr, "queue-sidecar %s: unknown value of --%s: `%s`", command, option->name, value);
    args_suggest(value, names, count, "");
    fprintf(stderr, "\nIt is one of: %s.\nSee `queue-sidecar help %s`.\n", option->values, command);
    free(copy);
    return CLI_USAGE;
}

// False: the option was repeated too often.
static bool args_set_value(const cli_option_t *option, void *options, const char *value) {
    if (!option->many) {
        *(const char **)args_field(option, options) = value;
        return true;
    }
    cli_values_t *values = args_field(option, options);
    if (values->count == CLI_VALUES_MAX) return false;
    values->all[values->count++] = value;
    return true;
}

int args_parse(int argc, char **argv, const cli_command_t *command, void *options) {
    bool options_ended = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = true;
            continue;
        }
        if (options_ended || word[0] != '-' || !word[1]) {
            if (!args_add_operand(command, options, argv, i)) return args_refuse(argv[0], "unexpected argument", word, NULL, 0);
            continue;
        }
        const cli_option_t *option = args_find_option(command, word);
        if (!option) return args_unknown_option(argv[0], word, command);
        const char *joined = args_joined_value(word);
        if (!option->argument) {
            if (joined) return args_refuse(argv[0], "this option takes no value:", word, NULL, 0);
            *(bool *)args_field(option, options) = true;
        } else {
            if (!joined && i + 1 == argc) return args_refuse(argv[0], "missing value after", word, NULL, 0);
            if (!args_set_value(option, options, joined ? joined : argv[++i]))
                return args_refuse(argv[0], "option repeated too often:", word, NULL, 0);
        }
    }
    for (size_t i = 0; i < command->option_count; i++)
        if (args_check_value(argv[0], &command->options[i], options)) return CLI_USAGE;
    return CLI_OK;
}

// ---- The config.

const char *cli_config_path(const char *option) {
    if (option) return option;
    const char *variable = getenv("QUEUE_SIDECAR_CONFIG");
    return variable && *variable ? variable : CLI_DEFAULT_CONFIG;
}

bool cli_find_queue(const char *command, const config_t *config, const char *name, size_t *index) {
    const queue_config_t *found = config_find_queue(config, name);
    const char *nearest = NULL;
    *index = found ? (size_t)(found - config->queues) : 0;
    if (found) return true;
    for (size_t i = 0; i < config->queue_count; i++)
        nearest = suggest_nearest(name, (const char *const[]){nearest, config->queues[i].name}, 2);
    fprintf(stderr, "queue-sidecar %s: no queue `%s` in %s", command, name, config->path);
    args_suggest(name, &nearest, 1, "");
    fputs("\n", stderr);
    return false;
}

void cli_find_mode(config_t *config) {
    if (config_may_be_cluster(config)) config->redis.found = cluster_find_mode(&config->redis);
}

void cli_print_redis_error(const char *address, const redis_error_t *error) {
    buffer_t safe = {0};
    char *text = redis_error_without(error, address);
    terminal_escape(&safe, slice_text(text), false);
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: redis%s%s: %s\n", *address ? " at " : "", address, buffer_text(&safe));
    buffer_free(&safe);
    free(text);
}

bool cli_check_tls_files(const config_t *config, buffer_t *messages) {
    redis_error_t error;
    if (!config->redis.tls && !config->redis.sentinel_tls) return true;
    const char *fault = tls_files_check(&config->redis, &error);
    if (fault) buffer_printf(messages, "%s: %s\n", config_place(config, "redis", fault), error.text);
    return !fault;
}
