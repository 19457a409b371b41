// queue-sidecar jobs: common parts of its subcommands.
#pragma once

#include "cli/args.h"
#include "operate/jobs/jobs.h"
#include "operate/shards.h"

typedef struct jobs_args {
    const char *command;     // "jobs list"; borrowed
    cli_operands_t operands; // the queue, and ids
    const char *config, *state, *type, *grep, *since, *until, *limit, *output, *by, *because, *rate;
    bool utc, raw, where, dry_run, yes;
    // Read from these.
    audit_format_t format;
    int64_t max_rows; // of --limit; -1 = not given
    jobs_query_t query;
} jobs_args_t;

typedef struct jobs_command {
    cli_command_t about; // the first member, so that it can be cast. No `run`; its options are stored in a jobs_args_t
    int (*run)(jobs_args_t *args, const config_t *config, size_t queue);
} jobs_command_t;

extern const jobs_command_t jobs_list_command, jobs_run_command, jobs_cancel_command;

// The server that has the queue.
typedef struct jobs_server {
    queue_shards_t *shards; // owned
    conn_t *conn;           // open; borrowed
    const keyspace_t *keys; // borrowed
    size_t queue;           // index in these
} jobs_server_t;

// Returns CLI_OK, or an exit code after a message. End it with shards_free in any case.
int jobs_connect(jobs_server_t *server, const config_t *config, size_t queue);
// The exit code after a message about this server.
int jobs_print_error(const jobs_server_t *server, const redis_error_t *error);

#define JOBS_VALUE(letter_, name_, argument_, field_, values_, help_)                                                            \
    CLI_VALUE(jobs_args_t, letter_, name_, argument_, field_, values_, help_)
#define JOBS_FLAG(letter_, name_, field_, help_) JOBS_VALUE(letter_, name_, NULL, field_, NULL, help_)
#define JOBS_OPERANDS(argument_, help_)                                                                                          \
    { .argument = (argument_), .at = offsetof(jobs_args_t, operands), .values = CLI_QUEUES, .help = (help_), .many = true }
#define JOBS_OPTION_CONFIG                                                                                                       \
    JOBS_VALUE('c', "config", "FILE", config, CLI_FILES, "the config; default: QUEUE_SIDECAR_CONFIG, else " CLI_DEFAULT_CONFIG)
#define JOBS_OPTIONS_FILTERS                                                                                                     \
    JOBS_VALUE('g', "grep", "TEXT", grep, NULL, "only with this text in the payload or the job id; case matters"),               \
        JOBS_VALUE(0, "type", "NAME", type, NULL, "only jobs of this type"),                                                     \
        JOBS_VALUE(0, "since", "TIME", since, NULL,                                                                              \
                   "only delayed jobs that are due at or after TIME: 2026-11-21, 2026-11-21T02:00, 2026-11-21T02:00:00Z, or "    \
                   "an age (2h)"),                                                                                               \
        JOBS_VALUE(0, "until", "TIME", until, NULL, "only delayed jobs that are due before TIME, in the same forms")
#define JOBS_OPTION_UTC                                                                                                          \
    JOBS_FLAG(0, "utc", utc, "read times without a zone as UTC, and print tables in UTC; by default local time")
