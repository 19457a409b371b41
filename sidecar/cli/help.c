#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "http_metrics.h"

const char cli_help_help[] =
    "Examples:\n"
    "  queue-sidecar help\n"
    "  queue-sidecar help run\n"
    "  queue-sidecar help keys     every config key: section, name, type, default, bounds, reloadable, help\n"
    "  queue-sidecar help metrics  every family of /metrics: name, type, labels, help\n"
    "\n"
    "Usage: queue-sidecar help [COMMAND [SUBCOMMAND] | keys | metrics]\n"
    "\n"
    "Lists the commands, or explains one; `queue-sidecar COMMAND --help` does the same.\n";

static const char general_help[] =
    "queue-sidecar promotes delayed jobs when they fall due and finds jobs whose worker died, beside your workers.\n"
    "\n"
    "Examples:\n"
    "  queue-sidecar check -c queue-sidecar.cfg --redis\n"
    "  queue-sidecar run -c queue-sidecar.cfg\n"
    "  queue-sidecar audit list --since 2h\n"
    "\n"
    "Commands:\n";

static const char exit_codes[] = "\n"
                                 "Exit codes: 0 ok, 1 failed, 2 wrong usage, 69 Redis is unreachable, 78 bad config.\n"
                                 "Explain a command with `queue-sidecar help COMMAND`.\n";

static void print_general(void) {
    fputs(general_help, stdout);
    for (size_t i = 0; i < cli_command_count; i++) printf("  %-11s %s\n", cli_commands[i].name, cli_commands[i].summary);
    fputs(exit_codes, stdout);
}

// The tables of config keys and of metrics, tab-separated: what `make check` holds the sample and the README against.
static int print_table(void (*list)(buffer_t *out)) {
    buffer_t table = {0};
    list(&table);
    fputs(buffer_text(&table), stdout);
    buffer_free(&table);
    return CLI_OK;
}

int cli_help(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    if (argc < 2) {
        print_general();
        return CLI_OK;
    }
    if (strcmp(argv[1], "keys") == 0 && argc == 2) return print_table(config_list_keys);
    if (strcmp(argv[1], "metrics") == 0 && argc == 2) return print_table(http_metrics_list);
    const char *odd = argv[1][0] == '-' ? argv[1] : argc > 3 ? argv[3] : NULL;
    const cli_command_t *command = odd ? NULL : cli_find(argv[1]);
    if (!odd && !command) return CLI_USAGE;
    const char *part = argc > 2 && command && command->help_of ? command->help_of(argv[2]) : NULL;
    if (argc > 2 && !part && !odd) odd = argv[2];
    if (odd) {
        fprintf(stderr, "queue-sidecar help: unexpected argument `%s`\nSee `queue-sidecar help help`.\n", odd);
        return CLI_USAGE;
    }
    if (part)
        fputs(part, stdout);
    else
        printf("%s.\n\n%s", command->summary, command->help);
    return CLI_OK;
}
