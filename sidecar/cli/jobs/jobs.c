#include "cli/jobs/jobs.h"

#include "operate/filter.h"

static int jobs_check_args(jobs_args_t *args) {
    static const char *const formats[] = {
        [FORMAT_TABLE] = "table", [FORMAT_JSON_ARRAY] = "json", [FORMAT_JSON_LINES] = "jsonl", [FORMAT_CSV] = "csv"};
    jobs_query_t *query = &args->query;
    buffer_t why = {0};
    args->max_rows = -1;
    for (size_t i = 0; args->output && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(args->output, formats[i]) == 0) args->format = (audit_format_t)i;
    bool read = filter_read_time(args->since, args->utc, &query->since_ms, &why) &&
                filter_read_time(args->until, args->utc, &query->until_ms, &why) &&
                (!args->limit || filter_read_limit(args->limit, &args->max_rows, &why));
    if (read && query->since_ms && query->until_ms && query->since_ms >= query->until_ms)
        buffer_str(&why, "--since must be before --until");
    else if (read && args->grep && !*args->grep)
        buffer_str(&why, "--grep needs a text");
    else if (read && args->raw && args->format != FORMAT_CSV)
        buffer_str(&why, "--raw is for -o csv only");
    else if (read && !args->operands.count)
        buffer_str(&why, "specify a queue of the config");
    query->type = args->type;
    query->texts = &args->grep;
    query->text_count = args->grep ? 1 : 0;
    int status = why.len ? cli_usage_error(args->command, "%s", buffer_text(&why)) : CLI_OK;
    buffer_free(&why);
    return status;
}

static int jobs_run(jobs_args_t *args, const jobs_command_t *command) {
    size_t queue;
    config_t *config = cli_load_config(cli_config_path(args->config));
    if (!config) {
        fprintf(stderr,
                "queue-sidecar %s: set QUEUE_SIDECAR_AUDIT_PATH to the path of the audit log, to use the config in effect\n",
                args->command);
        return CLI_BAD_CONFIG;
    }
    int status = CLI_USAGE;
    if (cli_find_queue(args->command, config, args->operands.all[0], &queue)) {
        cli_find_mode(config);
        status = command->run(args, config, queue);
    }
    config_free(config);
    return status;
}

static const cli_command_t *const subcommands[] = {&jobs_list_command.about, &jobs_run_command.about, &jobs_cancel_command.about,
                                                   NULL};

static int jobs_main(int argc, char **argv) {
    jobs_args_t args = {.command = "jobs"};
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    const cli_command_t *found = args_need_command(subcommands, "jobs", argc > 1 ? argv[1] : "");
    if (!found) return CLI_USAGE;
    char name[32];
    snprintf(name, sizeof name, "jobs %s", found->name);
    args.command = argv[1] = name;
    int status = args_parse(argc - 1, argv + 1, found, &args);
    if (status == CLI_OK) status = jobs_check_args(&args);
    return status == CLI_OK ? jobs_run(&args, (const jobs_command_t *)found) : status;
}

const cli_command_t cli_jobs_command = {
    .name = "jobs",
    .summary = "List the jobs of a queue, make delayed ones due now, or end them",
    .examples = "queue-sidecar jobs list email\tthe delayed jobs that are due next\n"
                "queue-sidecar jobs list email --state in-progress\tthe jobs that run for longest\n"
                "queue-sidecar jobs list email --grep 'customer\":4711'\twith this text in payload or id\n"
                "queue-sidecar jobs run email 8d1f2c\tmake a delayed job due now\n"
                "queue-sidecar jobs cancel email 8d1f2c --because 'order withdrawn'\tend a delayed job\n",
    .usage = "jobs SUBCOMMAND QUEUE [OPTIONS]",
    .text = "`queue-sidecar help jobs SUBCOMMAND` explains it. Data goes to standard output, messages to standard error. The "
            "commands "
            "ask Redis, so they need its address and a user with rights (docs/acl.md), but no running sidecar.",
    .exits = "0 ok, also when nothing matches\n1 failed\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n",
    .main = jobs_main,
    .parts = subcommands,
};
