// The manual pages tell of everything that the tables hold.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"
#include "cli/load_config.h"
#include "cli/man.h"
#include "config/load.h"
#include "config/table.h"
#include "config/value.h"
#include "dialects/registry.h"
#include "http/metrics_text.h"
#include "tempdir.h"

// The page as plain text: escapes undone, fonts left out, words with one space or line end between them as if with a space.
static char *plain(void (*make)(buffer_t *out)) {
    buffer_t page = {0}, text = {0};
    make(&page);
    for (const char *at = buffer_text(&page); *at; at++) {
        if (*at == '\n') {
            buffer_str(&text, " ");
        } else if (*at != '\\') {
            buffer_add(&text, at, 1);
        } else if (*++at == 'f') {
            at++;
        } else if (*at == '(') {
            buffer_str(&text, strncmp(at, "(dq", 3) == 0 ? "\"" : strncmp(at, "(ti", 3) == 0 ? "~" : "'");
            at += 2;
        } else if (*at != '&') {
            buffer_str(&text, *at == 'e' ? "\\" : (const char[]){*at, '\0'});
        }
    }
    buffer_free(&page);
    return text.data;
}

static void expect_part(const char *page, const char *what, const char *part) {
    cr_expect_not_null(strstr(page, part), "%s: the page lacks `%s`", what, part);
}

// Text as the page has it: ` gone, paragraphs joined.
static void expect_text(const char *page, const char *what, const char *text) {
    buffer_t expected = {0};
    for (const char *at = text; *at; at++) {
        if (strncmp(at, "\n\n", 2) == 0) {
            expect_part(page, what, buffer_text(&expected));
            buffer_clear(&expected);
            at++;
        } else if (*at != '`') {
            buffer_add(&expected, at, 1);
        }
    }
    expect_part(page, what, buffer_text(&expected));
    buffer_free(&expected);
}

// What stands behind a head, up to the next mark or heading: what another entry says is none of it. Owned.
static char *behind(const char *page, const char *head, const char *mark) {
    const char *const ends[] = {mark, ".SS ", ".SH "};
    const char *at = strstr(page, head);
    cr_assert_not_null(at, "the page lacks `%s`", head);
    at += strlen(head);
    size_t len = strlen(at);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = strstr(at, ends[i]);
        if (end && (size_t)(end - at) < len) len = (size_t)(end - at);
    }
    return strndup(at, len);
}

static void expect_command(const char *page, const cli_command_t *command, const cli_command_t *parent) {
    char *title = mem_printf(".SS %s%s%s ", parent ? parent->name : "", parent ? " " : "", command->name);
    char *here = behind(page, title, ".SS ");
    expect_text(here, title, command->summary);
    if (command->text) expect_text(here, title, command->text);
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (!option->help) continue;
        const char *letter = option->letter ? (const char[]){'-', option->letter, ',', ' ', '\0'} : "";
        char *tag = option->name ? mem_printf(".TP %s--%s%s%s ", letter, option->name, option->argument ? " " : "",
                                              option->argument ? option->argument : "")
                                 : mem_printf(".TP %s ", option->argument);
        char *told = behind(here, tag, ".TP ");
        expect_text(told, tag, option->help);
        free(told);
        free(tag);
    }
    free(here);
    free(title);
}

Test(unit_man, the_page_of_the_program_has_every_command_option_and_metric) {
    char *page = plain(man_program);
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        expect_command(page, *command, NULL);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) expect_command(page, *part, *command);
    }
    buffer_t metrics = {0};
    http_metrics_list(&metrics);
    char *rest = metrics.data;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
        const char *name = strsep(&line, "\t"), *type = strsep(&line, "\t"), *labels = strsep(&line, "\t");
        char *tag = mem_printf(".TP %s%s%s%s (%s) ", name, *labels ? "{" : "", labels, *labels ? "}" : "", type);
        char *told = behind(page, tag, ".TP ");
        expect_text(told, tag, line);
        free(told);
        free(tag);
    }
    static const char *const sections[] = {"NAME",    "SYNOPSIS",    "DESCRIPTION", "COMMANDS", "EXIT STATUS",
                                           "SIGNALS", "ENVIRONMENT", "FILES",       "METRICS",  "EXAMPLES"};
    const char *at = page;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char *head = mem_printf(".SH %s ", sections[i]);
        const char *found = strstr(at, head);
        cr_expect_not_null(found, "%s is missing, or out of its place", sections[i]);
        if (found) at = found;
        free(head);
    }
    buffer_free(&metrics);
    free(page);
}

// Each exit code of a command stands among those of the program.
static void expect_exits(const cli_command_t *command) {
    for (const char *line = command->exits; line && *line; line = strchr(line, '\n') + 1) {
        char *code = mem_printf("\n%.*s ", (int)strcspn(line, " "), line);
        cr_expect(strncmp(help_exits, code + 1, strlen(code) - 1) == 0 || strstr(help_exits, code),
                  "%s exits with %s, EXIT STATUS does not say so", command->name, code + 1);
        free(code);
    }
}

Test(unit_man, every_exit_code_stands_among_those_of_the_program) {
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        expect_exits(*command);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) expect_exits(*part);
    }
}

static char *section_of(const char *page, const char *section) {
    const char *title = !*section ? "At the top" : strcmp(section, "queue") == 0 ? "defaults, and each queue" : section;
    char *head = mem_printf(".SS %s ", strcmp(section, "queue-only") == 0 ? "queues" : title);
    char *text = behind(page, head, ".SS ");
    free(head);
    return text;
}

static void expect_key(void *page, const config_key_t *key) {
    buffer_t allowed = {0};
    char *tag = mem_printf(".TP %s (%s) ", key->name, config_key_type_name(key->type));
    char *section = section_of(page, key->section), *told = behind(section, tag, ".TP ");
    expect_text(told, tag, key->help);
    config_value_describe(key, &allowed);
    char *facts = mem_printf("%s%s; allowed: %s. %s.", key->fallback ? "Default: " : "Must be given",
                             !key->fallback   ? ""
                             : *key->fallback ? key->fallback
                                              : "empty",
                             buffer_text(&allowed), key->reloadable ? "Reloadable" : "Needs a restart");
    expect_part(told, tag, facts);
    char *variable = config_load_shown(key, ORIGIN_ENVIRONMENT);
    if (!config_key_in_queue(key)) expect_part(told, tag, variable);
    free(variable);
    free(told);
    free(section);
    free(facts);
    free(tag);
    buffer_free(&allowed);
}

Test(unit_man, the_page_of_the_config_has_every_key_with_its_facts) {
    char *page = plain(man_config);
    cr_expect_gt(config_key_each(dialect_settings, expect_key, page), config_key_count);
    free(page);
}

// A section of the config without a title of its own would stand there with its bare name.
Test(unit_man, every_section_has_its_words) {
    char *page = plain(man_config);
    for (size_t i = 0; i < config_key_count; i++) {
        const char *section = config_keys[i].section;
        if (i && strcmp(section, config_keys[i - 1].section) == 0) continue;
        char *told = section_of(page, section);
        cr_expect_neq(*told, '.', "%s: nothing is said of the section", section);
        free(told);
    }
    free(page);
}

Test(unit_man, the_example_is_a_config) {
    char *path = temp_file("example.cfg", man_config_example);
    buffer_t messages = {0};
    config_t *config = cli_read_config(path, &messages);
    cr_expect_not_null(config, "%s", buffer_text(&messages));
    cr_expect_eq(messages.len, 0, "%s", buffer_text(&messages));
    config_free(config);
    buffer_free(&messages);
    free(path);
}
