// queue-sidecar completion: what shells need to complete its command line.
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/load_config.h"

typedef struct given {
    const char *config;
    cli_operands_t words;
} given_t;

static int print(void (*make)(buffer_t *out)) {
    buffer_t script = {0};
    make(&script);
    fputs(buffer_text(&script), stdout);
    buffer_free(&script);
    return CLI_OK;
}

// For the scripts: names of the config's queues, one a line. They stand where somebody types, so a bad config is no news there.
static int print_queues(const char *path) {
    buffer_t messages = {0};
    config_t *config = cli_read_config(cli_config_path(path), &messages);
    for (size_t i = 0; config && i < config->queue_count; i++) printf("%s\n", config->queues[i].name);
    buffer_free(&messages);
    if (!config) return CLI_BAD_CONFIG;
    config_free(config);
    return CLI_OK;
}

static int completion(int argc, char **argv) {
    given_t given = {.words.max = 1};
    int status = args_parse(argc, argv, &cli_completion_command, &given);
    if (status != CLI_OK) return status;
    const char *what = given.words.count ? given.words.all[0] : "";
    if (strcmp(what, "bash") == 0) return print(completion_bash);
    if (strcmp(what, "zsh") == 0) return print(completion_zsh);
    if (strcmp(what, "queues") == 0) return print_queues(given.config);
    fprintf(stderr, "queue-sidecar completion: for which shell, bash or zsh?%s%s%s\nSee `queue-sidecar help completion`.\n",
            *what ? " Not for `" : "", what, *what ? "`" : "");
    return CLI_USAGE;
}

static const cli_option_t options[] = {
    {.argument = "SHELL",
     .at = offsetof(given_t, words),
     .values = "bash zsh",
     .help = "bash, zsh; or queues, for the scripts themselves: the queues of the config, one a line"},
    CLI_OPTION_CONFIG(given_t),
};

const cli_command_t cli_completion_command = {
    .name = "completion",
    .summary = "Print what a shell needs to complete commands, options and names of queues",
    .examples = "source <(queue-sidecar completion bash)\tin this shell; or in ~/.bashrc\n"
                "source <(queue-sidecar completion zsh)\tlikewise, or in ~/.zshrc behind compinit\n",
    .usage = "completion bash|zsh",
    CLI_OPTIONS(options),
    .text = "`make install` puts both scripts where the shells look for them.",
    .exits = "0 ok\n2 wrong usage\n",
    .run = completion,
};
