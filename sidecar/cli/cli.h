// The command line: a table of subcommands, and what they share.
#ifndef QS_CLI_CLI_H
#define QS_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

typedef enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_REDIS_UNREACHABLE = 69, // EX_UNAVAILABLE
    CLI_BAD_CONFIG = 78         // EX_CONFIG
} cli_exit_t;

typedef struct cli_command {
    const char *name;
    const char *summary;                      // one line
    const char *help;                         // what `help NAME` prints, examples first
    int (*run)(int argc, char **argv);        // argv[0] is the subcommand's name; returns an exit code
    const char *(*help_of)(const char *part); // what `help NAME PART` prints, NULL = there is no such part; NULL = no parts
} cli_command_t;

extern const cli_command_t cli_commands[];
extern const size_t cli_command_count;

// Words that are no options: where they stand in argv, which is reordered for that.
typedef struct cli_words {
    size_t most; // more are refused
    char **all;  // borrowed from argv
    size_t count;
} cli_words_t;

// One option of a subcommand; exactly one of value, flag and words is set.
typedef struct cli_option {
    char letter;        // 0 = none
    const char *name;   // NULL = takes a word that is no option
    const char **value; // borrowed from argv
    bool *flag;
    cli_words_t *words; // takes all words that are no options
} cli_option_t;

// Runs the program: finds the subcommand in argv[1] and returns its exit code. Fails where standard output cannot be written.
int cli_main(int argc, char **argv);

// Reads all of argv[1..] as options: -x, -x VALUE, -xVALUE, --name, --name VALUE, --name=VALUE; behind -- nothing is one. Returns
// CLI_OK, or CLI_USAGE with a message on stderr.
int cli_parse(int argc, char **argv, const cli_option_t *options, size_t count);

// The path of the config (borrowed): flag, else QUEUE_SIDECAR_CONFIG, else the usual one. Flag may be NULL.
const char *cli_config_path(const char *flag);

// Loads the config. Warnings, or else every fault, are added to messages as config_load does it; a queue whose dialect is not in
// this version is a fault. Owned.
config_t *cli_read_config(const char *path, buffer_t *messages) __attribute__((warn_unused_result));

// Loads the config. Warnings, or else every fault, go to stderr; NULL means that the exit code is CLI_BAD_CONFIG.
config_t *cli_load_config(const char *path) __attribute__((warn_unused_result));

// Finds a subcommand; else NULL with a message on stderr.
const cli_command_t *cli_find(const char *name);

int cli_run(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_audit(int argc, char **argv);
const char *cli_audit_help_of(const char *subcommand);
int cli_healthcheck(int argc, char **argv);
int cli_version(int argc, char **argv);
int cli_help(int argc, char **argv);

// The part of `check` that asks Redis. Borrows config; returns an exit code.
int check_redis(const config_t *config);

extern const char cli_check_help[];
extern const char cli_run_help[];
extern const char cli_audit_help[];
extern const char cli_healthcheck_help[];
extern const char cli_version_help[];
extern const char cli_help_help[];

#endif
