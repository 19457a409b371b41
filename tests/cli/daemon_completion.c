/* Completion in a real bash, by its completion variables, and in a real zsh on a terminal. */
#include "base/buffer.h"
#include "child.h"
#include "daemon.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

enum { WORDS = 12, TIMEOUT_MS = 60000 };

static const char library[] = "/usr/share/bash-completion/bash_completion";
static char *config; /* of two queues; in the directory of this test */

static void write_configs(void) {
    config = temp_file("two.cfg", "queues = ( { name = \"email\"; }, { name = \"mail:slow\"; } );\n");
    temp_file("spaced 'two.cfg", "queues = ( { name = \"spaced\"; } );\n");
}

TestSuite(daemon_completion, .init = write_configs);

/* Whether a shell is installed. */
static bool have(const char *shell) {
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = (const char *const[]){shell, "-c", "exit 3", NULL}});
    return child_wait(child, TIMEOUT_MS) && child->exit_code == 3;
}

/* Runs a program to its end and returns what it printed, kept. */
static char *output_of(const char *const *argv, const char *const *env) {
    char *out = temp_path(temp_root(), "out"), *err = temp_path(temp_root(), "err");
    unlink(out);
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .env = env, .out = out, .err = err});
    cr_assert(child_wait(child, TIMEOUT_MS), "%s %s does not end", argv[0], argv[1]);
    char *said = temp_read(err), *printed = temp_read(out);
    cr_assert_eq(child->exit_code, 0, "%s %s: %s", argv[0], argv[1], said);
    return printed;
}

typedef struct row {
    const char *words[WORDS]; /* as bash splits them; CONFIG = the config of this test, FOLDER = its directory */
    const char *offers;       /* a line each; "..." at the end = more lines may follow */
} row_t;

static const row_t bash_rows[] = {
    {{""}, "run\ncheck\n..."},
    {{"comp"}, "completion\n"},
    {{"audit", ""}, "list\nshow\nstats\nrequeue\ndiscard\nerase\ntail\nexport\nimport\nbackup\n"},
    {{"audit", "re"}, "requeue\n"},
    {{"audit", "list", "--"},
     "--config\n--db\n--queue\n--reason\n--state\n--type\n--job\n--worker\n--group\n--trace\n--since\n..."},
    {{"audit", "list", "--al"}, "--all-kinds\n"},
    {{"audit", "list", "-o", ""}, "table\njson\njsonl\ncsv\n"},
    {{"audit", "tail", "--output", "=", "j"}, "jsonl\n"},
    {{"audit", "tail", "--output", "="}, "table\njsonl\ncsv\n"},
    {{"audit", "list", "-r", "w"}, "worker_failed\n"},
    {{"audit", "list", "--state", ""}, "failed\nrequeued\ndiscarded\nopen\n"},
    {{"audit", "stats", "--by", "e"}, "error\n"},
    {{"audit", "requeue", "--failed-by", "al"}, "alive_timeout\n"},
    {{"audit", "list", "--since", ""}, ""},
    {{"audit", "show", ""}, ""},
    {{"audit", "list", "-c", "CONFIG", "--queue", ""}, "email\nmail:slow\n"},
    {{"audit", "list", "--config", "=", "CONFIG", "-q", "e"}, "email\n"},
    {{"audit", "requeue", "-c", "CONFIG", "--to", "mail", ":", "s"}, "slow\n"},
    {{"audit", "list", "-c", "'FOLDER/two.cfg'", "--queue", ""}, "email\nmail:slow\n"},
    {{"audit", "list", "--config", "=", "\"FOLDER/two.cfg\"", "-q", "e"}, "email\n"},
    {{"audit", "list", "-c", "FOLDER/spaced\\ \\'two.cfg", "-q", "s"}, "spaced\n"},
    {{"audit", "list", "-c", "\"FOLDER/spaced 'two.cfg\"", "-q", "s"}, "spaced\n"},
    {{"audit", "list", "-cFOLDER/two.cfg", "-q", "e"}, "email\n"},
    {{"audit", "list", "-c", "/nowhere", "--queue", ""}, ""},
    {{"run", "-c", "FOLDER/tw"}, "FOLDER/two.cfg\n"},
    {{"audit", "import", "FOLDER/tw"}, "FOLDER/two.cfg\n"},
    {{"check", ""}, "--config\n--redis\n--help\n"},
    {{"help", "man", ""}, "1\n5\n"},
    {{"help", "audit", "st"}, "stats\n"},
    {{"help", "ke"}, "keys\n"},
    {{"completion", ""}, "bash\nzsh\n"},
    {{"-"}, "--help\n--version\n"},
    {{"nonsense", ""}, ""},
};

/* The text with CONFIG and FOLDER filled in, kept. */
static char *filled(const char *text) {
    if (strcmp(text, "CONFIG") == 0) text = "FOLDER/two.cfg";
    const char *folder = strstr(text, "FOLDER");
    int before = folder ? (int)(folder - text) : 0;
    char *all = kept_printf("%.*s%s%s", before, text, folder ? temp_root() : "", folder ? folder + 6 : text);
    return kept(all);
}

static void expect_offers(const char *shell, const row_t *row, const char *offers) {
    char *expected = filled(row->offers);
    char *more = strstr(expected, "...");
    if (more) *more = '\0';
    bool same = more ? strncmp(offers, expected, strlen(expected)) == 0 : strcmp(offers, expected) == 0;
    scoped(buffer_free) buffer_t line = {0};
    for (int i = 0; row->words[i]; i++) buffer_printf(&line, "%s[%s]", i ? " " : "", row->words[i]);
    cr_expect(same, "%s, %s: got <%s>, not <%s>", shell, buffer_text(&line), offers, row->offers);
}

static void expect_bash_completes(const char *with) {
    if (!have("bash")) cr_skip_test("bash is not installed");
    for (size_t i = 0; i < sizeof bash_rows / sizeof *bash_rows; i++) {
        const row_t *row = &bash_rows[i];
        /* Only the package bash-completion keeps a word with a colon whole. */
        bool colon = row->words[6] && strcmp(row->words[6], ":") == 0;
        if (colon && strcmp(with, "-") == 0) continue;
        const char *argv[WORDS + 5] = {"bash", "tests/support/complete.bash", daemon_program(), with};
        char *words[WORDS] = {NULL};
        for (int w = 0; row->words[w]; w++) argv[4 + w] = words[w] = filled(row->words[w]);
        char *offers = output_of(argv, (const char *const[]){"QUEUE_SIDECAR_CONFIG=/nowhere", NULL});
        expect_offers(with, row, strcmp(offers, "\n") == 0 ? "" : offers);
        for (int w = 0; words[w]; w++) free(words[w]);
    }
}

Test(daemon_completion, bash_completes_every_kind_of_word, .timeout = 120) { expect_bash_completes("-"); }

Test(daemon_completion, bash_completes_with_the_package_bash_completion, .timeout = 120) {
    if (access(library, R_OK) != 0) cr_skip_test("the package bash-completion is not installed");
    expect_bash_completes(library);
}

typedef struct zsh_row {
    const char *line;     /* the words behind the program's name; CONFIG is replaced */
    const char *parts[4]; /* must be in the list */
    const char *lacks;    /* must not be in the list; NULL = not checked */
} zsh_row_t;

static const zsh_row_t zsh_rows[] = {
    {"", {"healthcheck", "-- Search the audit log of final failures", "completion"}, "--redis"},
    {"audit ", {"requeue", "-- List final failures, newest first", "backup"}, "healthcheck"},
    {"audit list --", {"--all-kinds", "-- events of all kinds"}, NULL},
    {"audit list -o ", {"table", "jsonl", "csv"}, "email"},
    {"audit tail --output=", {"table", "jsonl", "csv"}, "json "},
    {"audit list -c CONFIG --queue ", {"email", "mail:slow"}, "table"},
    {"audit requeue --config=CONFIG --to ", {"email", "mail:slow"}, "table"},
    {"audit list -c \"CONFIG\" --queue ", {"email", "mail:slow"}, "table"},
    {"audit list --config='CONFIG' --queue ", {"email", "mail:slow"}, "table"},
    {"audit erase --failed-by ", {"retries_exhausted", "worker_failed"}, "email"},
    {"audit discard --failed-by ", {"retries_exhausted", "worker_failed"}, "email"},
    {"check -", {"--redis", "connect and run the preflight: version"}, "--ready"},
    {"help ", {"metrics", "healthcheck"}, "--redis"},
    {"help audit ", {"requeue"}, "metrics"},
    {"completion ", {"bash", "zsh"}, "email"},
};

enum { ZSH_ROWS = sizeof zsh_rows / sizeof *zsh_rows };

static void expect_listed(const zsh_row_t *row, const char *line, const char *all) {
    char *head = kept_printf("== %s\n", line);
    const char *from = strstr(all, head);
    cr_assert_not_null(from, "%s: %s", line, all);
    from += strlen(head);
    const char *end = strstr(from, "\n== ");
    char *listed = kept(strndup(from, end ? (size_t)(end - from) : strlen(from)));
    for (int p = 0; p < 4 && row->parts[p]; p++)
        cr_expect_not_null(strstr(listed, row->parts[p]), "<%s> does not offer <%s>: %s", line, row->parts[p], listed);
    cr_expect(!row->lacks || !strstr(listed, row->lacks), "<%s> offers <%s>: %s", line, row->lacks, listed);
}

/* All lines go to one zsh, because it starts slowly. */
static void expect_zsh_completes(const char *fpath) {
    char *lines[ZSH_ROWS];
    const char *argv[ZSH_ROWS + 5] = {"zsh", "-f", "tests/support/complete.zsh", daemon_program()};
    if (!have("zsh")) cr_skip_test("zsh is not installed");
    for (size_t i = 0; i < ZSH_ROWS; i++) {
        const char *line = zsh_rows[i].line, *place = strstr(line, "CONFIG");
        cr_assert_geq(asprintf(&lines[i], "queue-sidecar %.*s%s%s", place ? (int)(place - line) : (int)strlen(line), line,
                               place ? config : "", place ? place + 6 : ""),
                      0);
        argv[4 + i] = lines[i];
    }
    char *path = kept_printf("FPATH_DIR=%s", fpath);
    char *all = output_of(argv, (const char *const[]){path, "QUEUE_SIDECAR_CONFIG=/nowhere", NULL});
    for (size_t i = 0; i < ZSH_ROWS; i++) {
        expect_listed(&zsh_rows[i], lines[i], all);
        free(lines[i]);
    }
}

Test(daemon_completion, zsh_completes_when_the_script_is_sourced, .timeout = 120) { expect_zsh_completes(""); }

Test(daemon_completion, zsh_completes_from_its_function_path, .timeout = 120) {
    char *dir = temp_dir("zsh"), *file = temp_path(dir, "_queue-sidecar");
    temp_write(file, daemon_run("completion", "zsh")->out);
    expect_zsh_completes(dir);
}

Test(daemon_completion, completion_refuses_an_unknown_shell) {
    cr_expect_eq(daemon_run("completion")->code, 2);
    cr_expect_not_null(strstr(daemon_run("completion", "fish")->err, "unknown shell `fish`: use bash or zsh"));
    cr_expect_eq(daemon_run("completion", "queues", "-c", "/nowhere")->code, 78);
    cr_expect_str_eq(daemon_run("completion", "queues", "-c", config)->out, "email\nmail:slow\n");
}
