#include "cli/cli.h"

#include "cli/args.h"
#include "version.h"

static const cli_command_t cli_version_command, cli_help_command;

const cli_command_t *const cli_commands[] = {
    &cli_run_command,         &cli_check_command,      &cli_status_command,  &cli_audit_command, &cli_jobs_command,
    &cli_healthcheck_command, &cli_completion_command, &cli_version_command, &cli_help_command,  NULL,
};

static int cli_version(const cli_args_t *args) {
    (void)args;
    printf("queue-sidecar %s\n", QS_VERSION);
    return CLI_OK;
}

static const cli_command_t cli_version_command = {
    .name = "version",
    .summary = "Print the version",
    .usage = "version",
    .text = "`queue-sidecar --version` does the same.",
    .exits = "0 ok\n2 wrong usage\n",
    .run = cli_version,
};

static int cli_help(int argc, char **argv) { return help_run(cli_commands, argc, argv); }

static const cli_command_t cli_help_command = {
    .name = "help",
    .summary = "Explain a command",
    .examples = "queue-sidecar help\n"
                "queue-sidecar help run\n"
                "queue-sidecar help keys\tevery config key, tab-separated\n"
                "queue-sidecar help metrics\tevery metric, tab-separated\n"
                "queue-sidecar help commands\tevery command, tab-separated\n"
                "queue-sidecar help man 1 >queue-sidecar.1\tthe manual page of the program; `man 5`: of the config\n",
    .usage = "help [COMMAND [SUBCOMMAND]]\nhelp keys | metrics | commands | man 1 | man 5",
    .text = "Lists the commands, or explains one command, like `queue-sidecar COMMAND --help`.",
    .exits = "0 ok\n2 no such command\n",
    .main = cli_help,
};

static bool cli_asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static int cli_run(const cli_command_t *command, int argc, char **argv) {
    cli_args_t args = {0};
    if (command->main) return command->main(argc, argv);
    int status = args_parse(argc, argv, command, &args);
    args.config = cli_config_path(args.config);
    return status == CLI_OK ? command->run(&args) : status;
}

static int cli_dispatch(int argc, char **argv) {
    static const char *const options[] = {"help", "version"};
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    const char *word = argc > 1 ? argv[1] : "--help";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return cli_help(1, argv);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return cli_version(NULL);
    if (word[0] == '-') return args_refuse("", "unknown option", word, options, 2);
    if (strcmp(word, "complete") == 0 && argc > 2 && strcmp(argv[2], "--") == 0)
        return complete_print(cli_commands, argc - 3, argv + 3);
    const cli_command_t *command = args_need_command(cli_commands, "", word);
    if (!command) return CLI_USAGE;
    if (!cli_asks_for_help(argc - 1, argv + 1)) return cli_run(command, argc - 1, argv + 1);
    return cli_help(argc > 2 && args_find_command(command->parts, argv[2]) ? 3 : 2, argv);
}

int cli_main(int argc, char **argv) {
    int status = cli_dispatch(argc, argv);
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout)) return status;
    // Only a failed flush leaves its errno; that of an earlier failed write is lost.
    fprintf(stderr, "queue-sidecar: cannot write to standard output: %s\n",
            flushed ? "check that the disk is not full and the output not closed" : strerror(errno));
    return status ? status : CLI_FAILED;
}
