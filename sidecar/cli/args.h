// Finds commands, reads their arguments, and loads the config of -c, else of QUEUE_SIDECAR_CONFIG, else of the default path.
#pragma once

#include "base/buffer.h"
#include "cli/command.h"
#include "config/config.h"
#include "paths.h"
#include "redis/error.h"

// Reads argv[1..] as -x, -x VALUE, -xVALUE, --name, --name VALUE or --name=VALUE, and operands; after -- all are operands. Stores
// them in *options, the command's own struct. Returns CLI_OK, or CLI_USAGE after a message on stderr.
int args_parse(int argc, char **argv, const cli_command_t *command, void *options);

// Finds a command in a list that ends with NULL; the list may be NULL. Returns NULL when there is none of that name.
const cli_command_t *args_find_command(const cli_command_t *const *commands, const char *name);
// Like args_find_command; if there is none, prints a message on stderr that names the nearest command. `parent` is the name of
// the command that has these subcommands, or "".
const cli_command_t *args_need_command(const cli_command_t *const *commands, const char *parent, const char *name);

// Reports a usage error about a word, with the nearest known word (`count` 0 = none). `command` is the command's name, or "".
// Returns CLI_USAGE.
int args_refuse(const char *command, const char *what, const char *word, const char *const *known, size_t count);

// Prints a message about wrong arguments of a command, and where its help is. Returns CLI_USAGE.
int cli_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Whether the word is in a list of words separated by spaces.
bool args_has_word(const char *list, const char *word);

// The option that `word` is or begins with: "-c", "-cFILE", "--config" or "--config=FILE". NULL = none.
const cli_option_t *args_find_option(const cli_command_t *command, const char *word);

// The value inside the same word as its option ("-cFILE", "--config=FILE"), or NULL.
const char *args_joined_value(const char *word);

#define CLI_DEFAULT_CONFIG QS_SYSCONFDIR "/queue-sidecar/queue-sidecar.cfg"

// The option -c of most commands.
#define CLI_OPTION_CONFIG                                                                                                        \
    CLI_VALUE(cli_args_t, 'c', "config", "FILE", config, CLI_FILES,                                                              \
              "the config; default: QUEUE_SIDECAR_CONFIG, else " CLI_DEFAULT_CONFIG)

// The path of the config (borrowed). `option` is the value of -c, or NULL.
const char *cli_config_path(const char *option);

// Loads the config, and prints its warnings or all of its faults on stderr. A queue whose dialect is not in this version is a
// fault. Owned; NULL = there are faults: exit with CLI_BAD_CONFIG.
config_t *cli_load_config_file(const char *path) __attribute__((warn_unused_result));

// The same for commands that people need while a bad edit is mended: while the file is refused, takes the copy of the config in
// effect beside the audit log, and warns. `log`: where a log may be besides those that the config names; NULL = nowhere.
config_t *cli_load_config_beside(const char *path, const char *log) __attribute__((warn_unused_result));
config_t *cli_load_config(const char *path) __attribute__((warn_unused_result));      // without a further log
config_t *cli_load_kept_config(const char *path) __attribute__((warn_unused_result)); // the copy alone; prints nothing

// Finds a queue of the config. False, after a message on stderr: there is none of this name.
bool cli_find_queue(const char *command, const config_t *config, const char *name, size_t *index);

// Asks Redis whether it is a Cluster, if the config leaves that open. Call it before anything connects. A Redis that does not
// answer within a second counts as a single server.
void cli_find_mode(config_t *config);

// Writes a line to stderr: which server could not be used, and why. `address` may be "".
void cli_print_redis_error(const char *address, const redis_error_t *error);

// Reads the files that TLS needs. False: one is unusable; adds a line that says which and why.
bool cli_check_tls_files(const config_t *config, buffer_t *messages);
