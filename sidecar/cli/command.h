// The description of a command. Parser, help, manual page and completion all read it.
#pragma once

#include "base/std.h"

typedef enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_REDIS_UNREACHABLE = 69, // EX_UNAVAILABLE
    CLI_BAD_CONFIG = 78         // EX_CONFIG
} cli_exit_t;

// Special `values` of an option, for completion: names of files, names of the queues of the config.
#define CLI_FILES  "<files>"
#define CLI_QUEUES "<queues>"

// The arguments that are not options. The parser reorders argv so that they are adjacent.
typedef struct cli_operands {
    char **all; // borrowed from argv
    size_t count;
} cli_operands_t;

// The values of an option that may be repeated.
enum { CLI_VALUES_MAX = 100 };
typedef struct cli_values {
    const char *all[CLI_VALUES_MAX]; // borrowed from argv
    size_t count;
} cli_values_t;

// The options of commands that have no struct of their own. A command uses the members that its table of options names.
typedef struct cli_args {
    const char *config; // path of the config: as given, or the default
    const char *output; // of --output; NULL = not given
    bool redis, ready, watch, utc;
    cli_operands_t operands; // at most one
    cli_values_t queues;
} cli_args_t;

// One option. `at` is the offset, in the struct that args_parse fills, of a const char * (one value), a bool (no value), a
// cli_values_t (`many`), or a cli_operands_t (no name).
typedef struct cli_option {
    char letter;          // 0 = none
    const char *name;     // without dashes; NULL = the operands
    const char *argument; // name of its value in the help; NULL = a flag
    const char *help;     // no capital, no full stop; NULL = hidden, an alias of another option
    size_t at;
    const char *values;  // the allowed words, separated by spaces, or CLI_FILES, CLI_QUEUES; NULL = any text
    const char *heading; // the help prints it above this option; NULL = none
    bool many;           // may be repeated; operands: several are allowed
} cli_option_t;

// A row of options; `type` is the struct of its field.
#define CLI_VALUE(type_, letter_, name_, argument_, field_, values_, help_)                                                      \
    {                                                                                                                            \
        .letter = (letter_), .name = (name_), .argument = (argument_), .at = offsetof(type_, field_), .values = (values_),       \
        .help = (help_)                                                                                                          \
    }
#define CLI_FLAG(type_, letter_, name_, field_, help_) CLI_VALUE(type_, letter_, name_, NULL, field_, NULL, help_)

// Texts are paragraphs separated by an empty line; the help wraps them. `WORD` marks words that people type.
typedef struct cli_command {
    const char *name;
    const char *summary;  // one line, no full stop
    const char *examples; // COMMAND or COMMAND<tab>COMMENT, a line each
    const char *usage;    // without the program's name, a line each
    const cli_option_t *options;
    size_t option_count;
    const char *text;                       // may be NULL
    const char *exits;                      // CODE MEANING, a line each
    int (*run)(const cli_args_t *args);     // returns an exit code
    int (*main)(int argc, char **argv);     // instead of `run`: reads the arguments itself; argv[0] is the command's name
    const struct cli_command *const *parts; // its subcommands, ending with NULL; NULL = none. `main` runs them
} cli_command_t;

#define CLI_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)

extern const cli_command_t cli_run_command;
extern const cli_command_t cli_check_command;
extern const cli_command_t cli_status_command;
extern const cli_command_t cli_audit_command;
extern const cli_command_t cli_jobs_command;
extern const cli_command_t cli_healthcheck_command;
extern const cli_command_t cli_completion_command;
