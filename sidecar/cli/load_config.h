// The config that a command works with: option -c, else QUEUE_SIDECAR_CONFIG, else the default path.
#pragma once

#include "base/buffer.h"
#include "cli/command.h"
#include "config/config.h"
#include "paths.h"

#define CLI_DEFAULT_CONFIG QS_SYSCONFDIR "/queue-sidecar/queue-sidecar.cfg"

// The option -c of most commands.
#define CLI_OPTION_CONFIG                                                                                                        \
    {                                                                                                                            \
        .letter = 'c', .name = "config", .argument = "FILE", .at = offsetof(cli_args_t, config), .values = CLI_FILES,            \
        .help = "the config; default: QUEUE_SIDECAR_CONFIG, else " CLI_DEFAULT_CONFIG                                            \
    }

// The path of the config (borrowed). `option` is the value of -c, or NULL.
const char *cli_config_path(const char *option);

// Loads the config and adds its warnings, or all of its faults, to *messages. A queue whose dialect is not in this version is a
// fault. Owned; NULL = there are faults.
config_t *cli_read_config(const char *path, buffer_t *messages) __attribute__((warn_unused_result));

// The same, with the messages on stderr. NULL: exit with CLI_BAD_CONFIG.
config_t *cli_load_config(const char *path) __attribute__((warn_unused_result));
