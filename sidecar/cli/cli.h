// The command line: a table of subcommands, and what they share.
#ifndef QS_CLI_CLI_H
#define QS_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "config/config.h"
#include "paths.h"

typedef enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_REDIS_UNREACHABLE = 69, // EX_UNAVAILABLE
    CLI_BAD_CONFIG = 78         // EX_CONFIG
} cli_exit_t;

// What `values` of an option says instead of words.
#define CLI_FILES  "<files>"
#define CLI_QUEUES "<queues>" // of the config

// Words that are no options: where they stand in argv, which is reordered for that.
typedef struct cli_words {
    size_t most; // more are refused
    char **all;  // borrowed from argv
    size_t count;
} cli_words_t;

// The values of an option that may be given several times.
enum { CLI_VALUES_MOST = 100 };
typedef struct cli_values {
    const char *all[CLI_VALUES_MOST]; // borrowed from argv
    size_t count;
} cli_values_t;

// One option of a subcommand. Parser, help, manual page and completion follow it. `at` is the offset, in the struct that the
// subcommand gives to cli_parse, of: a const char * for its value, a bool where there is no argument, a cli_values_t where it may
// come several times, a cli_words_t where it has no name.
typedef struct cli_option {
    char letter;          // 0 = none
    const char *name;     // without dashes; NULL = takes all words that are no options
    const char *argument; // what its value, or such a word, is called; NULL = it is a flag
    const char *help;     // no capital, no full stop; NULL = not shown, as another option is the same
    size_t at;
    const char *values;  // words that it takes, separated by spaces, or CLI_FILES, CLI_QUEUES; NULL = no list of them
    const char *heading; // stands above it; NULL = none
    bool many;
} cli_option_t;

// Texts are paragraphs, with an empty line between, that are not broken into lines: whoever prints them does that. `WORD` is what
// people type.
typedef struct cli_command {
    const char *name;
    const char *summary;  // one line, no full stop
    const char *examples; // COMMAND or COMMAND<tab>COMMENT, a line each
    const char *usage;    // without the program's name, a line each
    const cli_option_t *options;
    size_t option_count;
    const char *text;                       // may be NULL
    const char *exits;                      // CODE MEANING, a line each
    int (*run)(int argc, char **argv);      // argv[0] is the subcommand's name; returns an exit code
    const struct cli_command *const *parts; // its own subcommands, then NULL; NULL = none. They need no run
} cli_command_t;

#define CLI_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)

// The option that most have. `type` has a const char *config.
#define CLI_OPTION_CONFIG(type)                                                                                                  \
    {                                                                                                                            \
        .letter = 'c', .name = "config", .argument = "FILE", .at = offsetof(type, config), .values = CLI_FILES,                  \
        .help = "the config; otherwise QUEUE_SIDECAR_CONFIG, otherwise " CLI_USUAL_CONFIG                                        \
    }
#define CLI_USUAL_CONFIG QS_SYSCONFDIR "/queue-sidecar/queue-sidecar.cfg"

extern const cli_command_t *const cli_commands[]; // ends with NULL

extern const char cli_exits[]; // of the program, like those of a command

// Runs the program: finds the subcommand in argv[1] and returns its exit code. Fails where standard output cannot be written.
int cli_main(int argc, char **argv);

// Reads all of argv[1..] as options of the command: -x, -x VALUE, -xVALUE, --name, --name VALUE, --name=VALUE; behind -- nothing
// is one. What is given is written into the command's own struct. Returns CLI_OK, or CLI_USAGE with a message on stderr.
int cli_parse(int argc, char **argv, const cli_command_t *command, void *into);

// The path of the config (borrowed): flag, else QUEUE_SIDECAR_CONFIG, else the usual one. Flag may be NULL.
const char *cli_config_path(const char *flag);

// Loads the config. Warnings, or else every fault, are added to messages as config_load does it; a queue whose dialect is not in
// this version is a fault. Owned.
config_t *cli_read_config(const char *path, buffer_t *messages) __attribute__((warn_unused_result));

// Loads the config. Warnings, or else every fault, go to stderr; NULL means that the exit code is CLI_BAD_CONFIG.
config_t *cli_load_config(const char *path) __attribute__((warn_unused_result));

// Finds a subcommand; else NULL with a message on stderr.
const cli_command_t *cli_find(const char *name);
// Finds a subcommand of a command, or NULL.
const cli_command_t *cli_part(const cli_command_t *command, const char *name);

// Adds the help of a command, in lines of at most `width` columns where words allow it.
void cli_page(const cli_command_t *command, size_t width, buffer_t *out);
// Adds one line for each command, up to the NULL: its name and its summary.
void cli_list(const cli_command_t *const *commands, size_t width, buffer_t *out);
// Adds exit codes in one line: "0 good\n78 bad config\n" as BEFORE "0 good; 78 bad config."
void cli_exit_line(const char *before, const char *exits, buffer_t *out);

// The part of `check` that asks Redis. Borrows config; returns an exit code.
int check_redis(const config_t *config);

extern const cli_command_t cli_run_command;
extern const cli_command_t cli_check_command;
extern const cli_command_t cli_status_command;
extern const cli_command_t cli_audit_command;
extern const cli_command_t cli_healthcheck_command;
extern const cli_command_t cli_completion_command;
extern const cli_command_t cli_version_command;
extern const cli_command_t cli_help_command;

// They do what --version and --help at the front of the line do.
int cli_version(int argc, char **argv);
int cli_help(int argc, char **argv);

#endif
