#include "cli/args.h"
#include "cli/cli.h"
#include "suite.h"
#include "tempdir.h"
#include "version.h"

#include <criterion/redirect.h>

enum { WORDS = 10 };

// Runs the program with these words, the last of which is NULL.
static int run(const char *const *words) {
    char *argv[WORDS + 1] = {NULL};
    int argc = 0;
    while (words[argc]) {
        argv[argc] = mem_str(words[argc]);
        argc++;
    }
    int status = cli_main(argc, argv);
    for (int i = 0; i < argc; i++) free(argv[i]);
    fflush(stderr);
    return status;
}

static void redirect(void) {
    cr_redirect_stdout();
    cr_redirect_stderr();
}

TestSuite(unit_cli, .init = redirect);

static char *text_of(FILE *file) {
    buffer_t text = {0};
    char chunk[1024];
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;) buffer_add(&text, chunk, got);
    return kept(text.data ? text.data : mem_str(""));
}

static void expect_usage(int status, const char *expected) {
    cr_expect_eq(status, CLI_USAGE);
    fclose(stderr);
    char *got = text_of(cr_get_redirected_stderr());
    cr_expect_str_eq(got, expected);
}

Test(unit_cli, suggests_a_command) {
    expect_usage(run((const char *const[]){"queue-sidecar", "chekc", NULL}),
                 "queue-sidecar: unknown command `chekc`: did you mean `check`?\nSee `queue-sidecar help`.\n");
}

Test(unit_cli, suggests_an_option) {
    expect_usage(run((const char *const[]){"queue-sidecar", "check", "--conifg=x", NULL}),
                 "queue-sidecar check: unknown option `--conifg`: did you mean `--config`?\nSee `queue-sidecar help check`.\n");
}

Test(unit_cli, suggests_an_option_before_any_command) {
    expect_usage(run((const char *const[]){"queue-sidecar", "--verison", NULL}),
                 "queue-sidecar: unknown option `--verison`: did you mean `--version`?\nSee `queue-sidecar help`.\n");
}

Test(unit_cli, refuses_an_option_without_its_value) {
    expect_usage(run((const char *const[]){"queue-sidecar", "check", "-c", NULL}),
                 "queue-sidecar check: missing value after `-c`\nSee `queue-sidecar help check`.\n");
}

Test(unit_cli, refuses_a_value_for_a_flag) {
    expect_usage(run((const char *const[]){"queue-sidecar", "check", "--redis=yes", NULL}),
                 "queue-sidecar check: this option takes no value: `--redis=yes`\nSee `queue-sidecar help check`.\n");
}

Test(unit_cli, refuses_an_unexpected_argument) {
    expect_usage(run((const char *const[]){"queue-sidecar", "check", "x.cfg", NULL}),
                 "queue-sidecar check: unexpected argument `x.cfg`\nSee `queue-sidecar help check`.\n");
}

Test(unit_cli, prints_help_and_version) {
    cr_expect_eq(run((const char *const[]){"queue-sidecar", NULL}), CLI_OK);
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "help", "check", NULL}), CLI_OK);
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "run", "--help", NULL}), CLI_OK);
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "--version", NULL}), CLI_OK);
    fclose(stdout);
    char *got = text_of(cr_get_redirected_stdout());
    const char *at = got;
    static const char *const parts[] = {"Commands:\n  run ", "Usage: queue-sidecar check [-c FILE]", "Usage: queue-sidecar run",
                                        "queue-sidecar " QS_VERSION "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *found = strstr(at, parts[i]);
        cr_expect_not_null(found, "%s", parts[i]);
        if (found) at = found;
    }
}

Test(unit_cli, fails_when_standard_output_is_full) {
    cr_assert_not_null(freopen("/dev/full", "w", stdout));
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "version", NULL}), CLI_FAILED);
}

static const cli_option_t parsed_options[] = {
    CLI_OPTION_CONFIG,
    {.name = "redis", .at = offsetof(cli_args_t, redis)},
    {.letter = 'q', .name = "queue", .argument = "NAME", .at = offsetof(cli_args_t, queues), .many = true},
    {.argument = "WORD", .at = offsetof(cli_args_t, operands), .many = true},
};
static const cli_command_t parsed_command = {.name = "check", CLI_OPTIONS(parsed_options)};

typedef struct parse_row {
    const char *words[WORDS]; // after the command
    const char *value;
    bool flag;
} parse_row_t;

Test(unit_cli, reads_options_in_every_spelling) {
    static const parse_row_t rows[] = {
        {{"-c", "f"}, "f", false},
        {{"-cf"}, "f", false},
        {{"--config", "f"}, "f", false},
        {{"--config=f"}, "f", false},
        {{"--config="}, "", false},
        {{"--redis"}, NULL, true},
        {{"--redis", "-c", "-x"}, "-x", true},
        {{NULL}, NULL, false},
        {{"-c", "a", "-c", "b"}, "b", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cli_args_t parsed = {0};
        char *argv[WORDS + 2] = {NULL};
        int argc = 0;
        argv[argc++] = mem_str("check");
        for (size_t j = 0; rows[i].words[j]; j++) argv[argc++] = mem_str(rows[i].words[j]);
        cr_expect_eq(args_parse(argc, argv, &parsed_command, &parsed), CLI_OK);
        cr_expect_eq(parsed.redis, rows[i].flag);
        if (rows[i].value)
            cr_expect_str_eq(parsed.config ? parsed.config : "none", rows[i].value);
        else
            cr_expect_null(parsed.config);
        while (argc > 0) free(argv[--argc]);
    }
}

/* `--` ends the options everywhere, unless it is the value of an option. */
Test(unit_cli, words_behind_two_dashes_are_operands) {
    cli_args_t parsed = {0};
    char *argv[] = {"x", "-c", "--", "a", "--", "-c", "--redis", "--", NULL};
    cr_expect_eq(args_parse(8, argv, &parsed_command, &parsed), CLI_OK);
    cr_expect_str_eq(parsed.config ? parsed.config : "none", "--");
    cr_expect(!parsed.redis && parsed.operands.count == 4);
    static const char *const expected[] = {"a", "-c", "--redis", "--"};
    for (size_t i = 0; i < parsed.operands.count && i < 4; i++) cr_expect_str_eq(parsed.operands.all[i], expected[i]);
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "--", "version", "--", NULL}), CLI_OK);
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "help", "--", "run", NULL}), CLI_OK);
    char *audit[] = {"audit", "--", "backup", "--db", "x", "--", "-h", "--help", NULL};
    expect_usage(cli_audit_command.main(8, audit),
                 "queue-sidecar audit backup: unexpected argument `--help`\nSee `queue-sidecar help audit backup`.\n");
}

Test(unit_cli, an_option_may_be_repeated) {
    cli_args_t parsed = {0};
    char *argv[] = {"x", "-qa", "--queue", "b", "--queue=c", NULL};
    cr_expect_eq(args_parse(5, argv, &parsed_command, &parsed), CLI_OK);
    cr_expect_eq(parsed.queues.count, 3);
    static const char *const expected[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) cr_expect_str_eq(parsed.queues.all[i], expected[i]);
    char *more[CLI_VALUES_MAX + 2] = {"check"};
    for (size_t i = 1; i < CLI_VALUES_MAX + 2; i++) more[i] = "-qx";
    parsed.queues.count = 0;
    expect_usage(args_parse(CLI_VALUES_MAX + 2, more, &parsed_command, &parsed),
                 "queue-sidecar check: option repeated too often: `-qx`\nSee `queue-sidecar help check`.\n");
}

// The help names every option and fits the width.
static void expect_page(const cli_command_t *command, size_t width) {
    scoped(buffer_free) buffer_t page = {0};
    help_command(command, width, &page);
    cr_expect_not_null(strstr(buffer_text(&page), "\nUsage: queue-sidecar "), "%s", command->name);
    cr_expect_not_null(strstr(buffer_text(&page), "\nExit codes: 0 "), "%s", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        char *spelled = kept_printf("%s%s", option->name ? "--" : "\n  ", option->name ? option->name : option->argument);
        cr_expect_not_null(strstr(buffer_text(&page), spelled), "%s: %s", command->name, spelled);
    }
    bool text = false; // examples stay whole, so that people can copy them
    for (const char *line = buffer_text(&page); *line; line += strcspn(line, "\n") + 1) {
        text = text || strncmp(line, "  -", 3) == 0;
        if (text) cr_expect_leq(strcspn(line, "\n"), width, "%s: %.130s", command->name, line);
    }
}

Test(unit_cli, every_help_fits_the_width) {
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        expect_page(*command, 60);
        expect_page(*command, 100);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) {
            expect_page(*part, 60);
            cr_expect_eq(args_find_command((*command)->parts, (*part)->name), *part);
        }
    }
}

Test(unit_cli, option_then_variable_then_default_names_the_config) {
    unsetenv("QUEUE_SIDECAR_CONFIG");
    cr_expect_str_eq(cli_config_path(NULL), "/etc/queue-sidecar/queue-sidecar.cfg");
    setenv("QUEUE_SIDECAR_CONFIG", "", 1);
    cr_expect_str_eq(cli_config_path(NULL), "/etc/queue-sidecar/queue-sidecar.cfg");
    setenv("QUEUE_SIDECAR_CONFIG", "/from/env.cfg", 1);
    cr_expect_str_eq(cli_config_path(NULL), "/from/env.cfg");
    cr_expect_str_eq(cli_config_path("/from/flag.cfg"), "/from/flag.cfg");
    unsetenv("QUEUE_SIDECAR_CONFIG");
}

Test(unit_cli, check_prints_the_effective_config) {
    char *path = temp_file("x.cfg", "redis = { password = \"hunter2\"; };\nqueues = ( { name = \"q\"; } );\n");
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "check", "-c", path, NULL}), CLI_OK);
    unlink(path);
    cr_expect_eq(run((const char *const[]){"queue-sidecar", "check", "-c", path, NULL}), CLI_BAD_CONFIG);
    fclose(stdout);
    fclose(stderr);
    char *out = text_of(cr_get_redirected_stdout()), *err = text_of(cr_get_redirected_stderr());
    char *expected = kept_printf("warning: %s:1: `redis`: inline secret: use password_file\n"
                                 "%s: No such file or directory: name the config with -c FILE or QUEUE_SIDECAR_CONFIG\n",
                                 path, path);
    cr_expect_not_null(strstr(out, "\n        name              = \"q\";"));
    cr_expect_str_eq(err, expected);
}
