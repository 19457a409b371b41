// queue-sidecar completion: the scripts by which shells complete its command line.
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/load_config.h"
#include "cli/texts.h"

typedef struct completion_options {
    const char *config;
    cli_operands_t operands;
} completion_options_t;

static int completion_print(const char *script) {
    fputs(script, stdout);
    return CLI_OK;
}

// For scripts: the names of the config's queues, one a line. The exit code alone tells of a bad config.
static int completion_queues(const char *path) {
    buffer_t messages = {0};
    config_t *config = cli_read_config(cli_config_path(path), &messages);
    for (size_t i = 0; config && i < config->queue_count; i++) printf("%s\n", config->queues[i].name);
    buffer_free(&messages);
    if (!config) return CLI_BAD_CONFIG;
    config_free(config);
    return CLI_OK;
}

static int completion_run(int argc, char **argv) {
    completion_options_t options = {.operands.max = 1};
    int status = args_parse(argc, argv, &cli_completion_command, &options);
    if (status != CLI_OK) return status;
    const char *what = options.operands.count ? options.operands.all[0] : "";
    if (strcmp(what, "bash") == 0) return completion_print(text_complete_bash);
    if (strcmp(what, "zsh") == 0) return completion_print(text_complete_zsh);
    if (strcmp(what, "queues") == 0) return completion_queues(options.config);
    fprintf(stderr, "queue-sidecar completion: %s%s%s: use bash or zsh\nSee `queue-sidecar help completion`.\n",
            *what ? "unknown shell `" : "missing shell", what, *what ? "`" : "");
    return CLI_USAGE;
}

static const cli_option_t completion_table[] = {
    {.argument = "SHELL",
     .at = offsetof(completion_options_t, operands),
     .values = "bash zsh",
     .help = "bash or zsh; or queues: the names of the queues in the config, one a line, for scripts"},
    CLI_OPTION_CONFIG(completion_options_t),
};

const cli_command_t cli_completion_command = {
    .name = "completion",
    .summary = "Print a script that completes commands, options and queue names",
    .examples = "source <(queue-sidecar completion bash)\tin this shell, or in ~/.bashrc\n"
                "source <(queue-sidecar completion zsh)\tin this shell, or in ~/.zshrc behind compinit\n",
    .usage = "completion bash|zsh",
    CLI_OPTIONS(completion_table),
    .text = "`make install` puts both scripts where the shells look for them.",
    .exits = "0 ok\n2 wrong usage\n",
    .run = completion_run,
};
