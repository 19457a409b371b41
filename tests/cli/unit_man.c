/* The manual pages. tests/check/man.py compares their generated blocks with the program. */

#include "cli/args.h"
#include "cli/cli.h"
#include "dialects/registry.h"
#include "suite.h"
#include "tempdir.h"

static void expect_exits(const cli_command_t *command) {
    for (const char *line = command->exits; line && *line; line = strchr(line, '\n') + 1) {
        char *code = kept_printf("\n%.*s ", (int)strcspn(line, " "), line);
        cr_expect(strncmp(help_exits, code + 1, strlen(code) - 1) == 0 || strstr(help_exits, code),
                  "%s exits with %s, EXIT STATUS does not say so", command->name, code + 1);
    }
}

Test(unit_man, exit_status_lists_the_codes_of_every_command) {
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        expect_exits(*command);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) expect_exits(*part);
    }
}

Test(unit_man, each_page_has_its_sections_in_order) {
    static const char *const sections[] = {"NAME",    "SYNOPSIS",    "DESCRIPTION", "COMMANDS", "EXIT STATUS",
                                           "SIGNALS", "ENVIRONMENT", "FILES",       "METRICS",  "EXAMPLES"};
    const char *at = text_man_program;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char *head = kept_printf("\n.SH %s\n", sections[i]);
        const char *found = strstr(at, head);
        cr_expect_not_null(found, "section %s is missing, or not in this order", sections[i]);
        if (found) at = found;
    }
    cr_expect_not_null(strstr(text_man_config, "\n.SH KEYS\n"));
    cr_expect_null(strstr(text_man_program, "@CONFIG@"));
    cr_expect_null(strstr(text_man_config, "@CONFIG@"));
}

Test(unit_man, the_example_of_the_config_page_is_a_good_config) {
    char *page = temp_read("docs/man/queue-sidecar.cfg.5.scd");
    char *example = strstr(page, "\n```\n"), *end = example ? strstr(example + 1, "\n```\n") : NULL;
    cr_assert_not_null(end);
    end[1] = '\0';
    char *path = temp_file("example.cfg", example + strlen("\n```\n"));
    scoped(buffer_free) buffer_t messages = {0};
    scoped(config_drop) config_t *config = config_load(path, dialect_settings, &messages);
    cr_expect_not_null(config, "%s", buffer_text(&messages));
    cr_expect_eq(messages.len, 0, "%s", buffer_text(&messages));
}
