#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/table.h"
#include "http_metrics.h"

enum { WIDTH_LEAST = 60, WIDTH_MOST = 100 }; // of texts

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

static size_t page_width(void) {
    size_t room = table_room(stdout);
    return room == 0 || room > WIDTH_MOST ? WIDTH_MOST : room < WIDTH_LEAST ? WIDTH_LEAST : room;
}

static void print_general(void) {
    buffer_t list = {0};
    cli_list(cli_commands, page_width(), &list);
    printf("%s%s%s", general_help, buffer_text(&list), exit_codes);
    buffer_free(&list);
}

static void print_page(const cli_command_t *command) {
    buffer_t page = {0};
    cli_page(command, page_width(), &page);
    fputs(buffer_text(&page), stdout);
    buffer_free(&page);
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
    const cli_command_t *part = argc > 2 && command ? cli_part(command, argv[2]) : NULL;
    if (argc > 2 && !part && !odd) odd = argv[2];
    if (odd) {
        fprintf(stderr, "queue-sidecar help: unexpected argument `%s`\nSee `queue-sidecar help help`.\n", odd);
        return CLI_USAGE;
    }
    print_page(part ? part : command);
    return CLI_OK;
}

const cli_command_t cli_help_command = {
    .name = "help",
    .summary = "Explain a command",
    .examples = "queue-sidecar help\n"
                "queue-sidecar help run\n"
                "queue-sidecar help keys\tevery config key: section, name, type, default, bounds, reloadable, help\n"
                "queue-sidecar help metrics\tevery family of /metrics: name, type, labels, help\n",
    .usage = "help [COMMAND [SUBCOMMAND] | keys | metrics]",
    .text = "Lists the commands, or explains one; `queue-sidecar COMMAND --help` does the same.",
    .exits = "0 ok\n2 no such command\n",
    .run = cli_help,
};
