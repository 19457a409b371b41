#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/man.h"
#include "cli/table.h"
#include "http/metrics_text.h"

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

const char cli_exits[] =
    "0 ok\n1 failed\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n130 interrupted, where work was left\n";

static size_t page_width(void) {
    size_t room = table_room(stdout);
    return room == 0 || room > WIDTH_MOST ? WIDTH_MOST : room < WIDTH_LEAST ? WIDTH_LEAST : room;
}

static void print_general(void) {
    buffer_t list = {0};
    cli_list(cli_commands, page_width(), &list);
    buffer_str(&list, "\n");
    cli_exit_line("Exit codes: ", cli_exits, &list);
    printf("%s%s\nExplain a command with `queue-sidecar help COMMAND`.\n", general_help, buffer_text(&list));
    buffer_free(&list);
}

static void print_page(const cli_command_t *command) {
    buffer_t page = {0};
    cli_page(command, page_width(), &page);
    fputs(buffer_text(&page), stdout);
    buffer_free(&page);
}

// The tables of config keys and of metrics, tab-separated: what `make check` holds the sample and the README against; and the
// manual pages.
static int print_all(void (*list)(buffer_t *out)) {
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
    if (strcmp(argv[1], "keys") == 0 && argc == 2) return print_all(config_list_keys);
    if (strcmp(argv[1], "metrics") == 0 && argc == 2) return print_all(http_metrics_list);
    if (strcmp(argv[1], "man") == 0 && argc == 3 && strcmp(argv[2], "1") == 0) return print_all(man_program);
    if (strcmp(argv[1], "man") == 0 && argc == 3 && strcmp(argv[2], "5") == 0) return print_all(man_config);
    if (strcmp(argv[1], "man") == 0 && argc == 2) {
        fputs("queue-sidecar help: which page: `man 1`, of the program, or `man 5`, of the config?\n", stderr);
        return CLI_USAGE;
    }
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
                "queue-sidecar help metrics\tevery family of /metrics: name, type, labels, help\n"
                "queue-sidecar help man 1 >queue-sidecar.1\tthe manual page; 5: that of the config\n",
    .usage = "help [COMMAND [SUBCOMMAND] | keys | metrics | man 1 | man 5]",
    .text = "Lists the commands, or explains one; `queue-sidecar COMMAND --help` does the same.",
    .exits = "0 ok\n2 no such command\n",
    .run = cli_help,
};
