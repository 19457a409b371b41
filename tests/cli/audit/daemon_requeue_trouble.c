/* `audit requeue` when it is killed, interrupted, refused or misused. */
#include "proxy.h"
#include "requeue_fixture.h"

static cluster_t s;
SUITE(daemon_requeue_trouble, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_requeue_trouble, a_rerun_finishes_a_killed_run, .timeout = 120) {
    enum { FAILURES = 2000 };
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(d)) == FAILURES, COPY_MS);
    for (int wanted = 100; wanted <= 700; wanted += 300) {
        background_t b = cli_start(d, "requeue", "--where", "-q", "q", "--yes", "--rate", "400/s");
        await(&s, redis_int(s.r, "LLEN q") >= wanted, RUN_MS);
        child_kill(b.child);
        finish(&b, NULL);
        cr_assert_lt(redis_int(s.r, "LLEN q"), FAILURES);
    }
    const daemon_output_t *rest = cli(d, "requeue", "--where", "-q", "q", "--yes", "-o", "json");
    cr_assert_eq(rest->code, 0, "%s", rest->err);
    cr_assert_eq(number_of(rest->out, "done") + number_of(rest->out, "answered"), FAILURES);
    cr_assert_geq(number_of(rest->out, "answered"), 700);
    cr_assert_eq(distinct(s.r, "q"), FAILURES);
    await(&s, answers(d, FAILURES), COPY_MS);
}

Test(daemon_requeue_trouble, an_interrupted_run_finishes_its_requests_and_can_be_rerun) {
    enum { FAILURES = 500 };
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(d)) == FAILURES, COPY_MS);
    background_t b = cli_start(d, "requeue", "--where", "-q", "q", "--yes", "--rate", "50/s", "-o", "json");
    await(&s, redis_int(s.r, "LLEN q") >= 5, RUN_MS);
    child_signal(b.child, SIGINT);
    char *out, *err = kept(strdup(b.err));
    cr_assert_eq(finish(&b, &out), 130);
    cr_assert_eq(number_of(out, "done"), redis_int(s.r, "LLEN q"));
    cr_assert_eq(number_of(out, "done") + number_of(out, "left"), FAILURES);
    b = cli_start(d, "requeue", "--where", "-q", "q", "--yes", "--rate", "50/s");
    long long before = redis_int(s.r, "LLEN q");
    await(&s, redis_int(s.r, "LLEN q") > before, RUN_MS);
    child_signal(b.child, SIGINT);
    err = kept(strdup(b.err));
    cr_assert_eq(finish(&b, NULL), 130);
    char *said = temp_read(err);
    cr_assert(has(said, "Run the same command again"), "%s", said);
    cr_assert_eq(cli(d, "requeue", "--where", "-q", "q", "--yes")->code, 0);
    cr_assert_eq(distinct(s.r, "q"), FAILURES);
    free(out);
}

Test(daemon_requeue_trouble, jobs_that_cannot_be_requeued_are_reported_and_others_go_on) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE ", { name = \"other\"; }"});
    feed(s.r, 0, 2);
    feed_one(s.r, (failure_t){.number = 2, .queue = "gone"});
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    redis_ok(
        s.r,
        "XADD sidecar:q:failures * event %s kind failed dialect list queue q job damaged at 1750000000000 size 3 payload abc",
        "00000000000000000000000000000000000000000000000000000000000000aa");
    redis_ok(s.r,
             "XADD sidecar:q:failures * event %s kind failed dialect list queue q job cut at 1750000000000 size 4 payload abc",
             "10000000000000000000000000000000000000000000000000000000000000aa");
    redis_ok(s.r,
             "XADD sidecar:q:failures * event %s kind failed dialect bull queue q job bull at 1750000000000 size 3 payload abc",
             "20000000000000000000000000000000000000000000000000000000000000aa");
    redis_ok(s.r, "XADD sidecar:q:failures * event %s kind failed dialect list queue q job none at 1750000000000",
             "30000000000000000000000000000000000000000000000000000000000000aa");
    await(&s, audit_log_rows(daemon_audit_path(d)) == 7, COPY_MS);
    cr_assert_eq(audit_log_int(daemon_audit_path(d), "UPDATE events SET sha256 = event WHERE job = 'damaged' RETURNING 1"), 1);
    const daemon_output_t *all = cli(d, "requeue", "--where", "--since", "1970-01-01", "--yes", "-o", "json");
    cr_assert_eq(all->code, 1);
    cr_assert_eq(number_of(all->out, "done"), 2, "%s", all->out);
    static const char *const each[] = {"no_queue", "damaged", "no_payload", "other_dialect"};
    for (size_t i = 0; i < 4; i++) cr_assert_eq(number_of(all->out, each[i]), i == 2 ? 2 : 1, "%s: %s", each[i], all->out);
    cr_assert_eq(distinct(s.r, "q"), 2);
    const daemon_output_t *to = cli(d, "requeue", "--where", "-q", "gone", "--yes", "--to", "other", "--because", "renamed");
    cr_assert_eq(to->code, 0, "%s", to->err);
    redis_expect(s.r, "job 2", "LINDEX other 0");
    await(&s, answers(d, 3), COPY_MS);
    cr_assert(has(cli(d, "list", "-q", "gone")->out, "to other: renamed"));
    const daemon_output_t *nowhere = cli(d, "requeue", "--where", "-q", "q", "--to", "othr");
    cr_assert_eq(nowhere->code, 2);
    cr_assert(has(nowhere->err, "did you mean `other`?"), "%s", nowhere->err);
}

Test(daemon_requeue_trouble, errors_of_redis_stop_the_run_with_a_message) {
    scoped(daemon_end) daemon_t *d = sidecar(&s);
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    redis_ok(s.r, "CONFIG SET maxmemory 1");
    const daemon_output_t *full = cli(d, "requeue", "--where", "-q", "q", "--yes");
    cr_assert_eq(full->code, 1);
    cr_assert(has(full->err, "Redis is full") && has(full->err, "3 left") && has(full->out, "0 put back"), "%s", full->err);
    redis_ok(s.r, "CONFIG SET maxmemory 0");
    redis_ok(s.r, "SET q string");
    const daemon_output_t *wrong = cli(d, "requeue", "--where", "-q", "q", "--yes");
    cr_assert_eq(wrong->code, 1);
    cr_assert(has(wrong->err, "its key `q` holds a string"), "%s", wrong->err);
    cr_assert_eq(redis_int(s.r, "EXISTS sidecar:q:requeued"), 0);
    redis_ok(s.r, "DEL q");
    daemon_stop(d);
    s.count = 0;
    d = daemon_start("redis = { socket = \"%s\"; };\nhttp = { port = 0; };\nqueues = ( " QUEUE " );\n", server_socket(s.server));
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    server_kill(s.server);
    const daemon_output_t *gone = cli(d, "requeue", "--where", "-q", "q", "--yes");
    cr_assert_eq(gone->code, 69, "%s", gone->err);
}

Test(daemon_requeue_trouble, a_selection_must_be_explicit_and_confirmed) {
    static const struct {
        const char *words[5], *hint;
    } rows[] = {
        {{"requeue"}, "specify REFs, or --where with a filter\n"},
        {{"requeue", "-q", "q"}, "add --where"},
        {{"requeue", "-n", "5"}, "add --where"},
        {{"requeue", "--where"}, "--where needs a filter"},
        {{"requeue", "--where", "--grep", "", "--yes"}, "--grep needs a text"},
        {{"requeue", "--where", "--trace", "", "--yes"}, "--trace needs the 32 hex digits"},
        {{"requeue", "--where", "-n", "5"}, "--where needs a filter"},
        {{"requeue", "--where", "--state", "failed"}, "--where needs a filter"},
        {{"discard", "--where", "--group", "mail"}, "--where needs a filter"},
        {{"requeue", "--state", "open"}, "add --where"},
        {{"requeue", "abc", "--state", "open"}, "not both"},
        {{"requeue", "--where", "-qq", "--group", "other"}, "group `other`, which is not this one: add --from-group other"},
        {{"requeue", "--where", "550 no such"}, "--where takes no text; to search for one: --where --grep '550 no such'"},
        {{"requeue", "abc", "--where", "-q", "q"}, "not both"},
        {{"requeue", "abc", "-q", "q"}, "not both"},
        {{"requeue", "--where", "--reason", "reported"}, "--where needs a filter"},
        {{"requeue", "abc", "--reason", "reported"}, "--failed-by reported"},
        {{"requeue", "abc", "--reason=x", "--because=y"}, "specify one of them"},
        {{"requeue", "abc", "--rate", "0/s"}, "like 50/s"},
        {{"requeue", "abc", "--rate", "5/h"}, "like 50/s"},
        {{"requeue", "abc", "--by", ""}, "--by takes"},
        {{"requeue", "abc", "-o", "csv"}, "unknown value of --output: `csv`\nIt is one of: table json jsonl.\n"},
        {{"discard", "abc", "--to", "q"}, "unknown option"},
        {{"requeue", "--where", "-q", "q"}, "add --yes"}};
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *words[6] = {NULL};
        for (size_t j = 0; j < 5; j++) words[j] = rows[i].words[j];
        const daemon_output_t *output = daemon_run_argv(NULL, command(d, words).argv);
        cr_expect_eq(output->code, 2, "%s: %d", rows[i].hint, output->code);
        cr_expect(has(output->err, rows[i].hint), "\"%s\" lacks \"%s\"", output->err, rows[i].hint);
        cr_expect_str_empty(output->out);
    }
    const daemon_output_t *dry = cli(d, "requeue", "--where", "-r", "reported", "--dry-run");
    cr_assert(dry->code == 0 && has(dry->out, "3 would be put back"), "%s%s", dry->out, dry->err);
    const daemon_output_t *odd = cli(d, "requeue", "--where", "-q", "Q", "--yes");
    cr_assert(odd->code == 0 && has(odd->err, "the log has none of queue `Q`; did you mean `q`?\n"), "%s", odd->err);
    const daemon_output_t *refs = cli(d, "requeue", "zzzzzzzzzzzz", "a!", "--dry-run");
    cr_assert(refs->code == 1 && has(refs->err, "no event has the ref") && has(refs->err, "is not a ref"), "%s", refs->err);
    cr_assert_eq(redis_int(s.r, "EXISTS q sidecar:q:requeued"), 0);
    cr_assert_eq(cli(d, "discard", "--where", "-q", "q", "-n", "1", "--yes")->code, 0);
    await(&s, answers(d, 1), COPY_MS);
    const daemon_output_t *one = cli(d, "requeue", "--where", "-q", "q");
    cr_assert(has(one->err, "2 jobs: q 2 (1 was answered before, and is skipped)"), "%s", one->err);
}

/* The script ran but its reply was lost: the next run finds the marker. */
Test(daemon_requeue_trouble, a_lost_reply_requeues_nothing_twice) {
    enum { FAILURES = 600 };
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE, .socket = proxy_socket(proxy)});
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(d)) == FAILURES, COPY_MS);
    static const proxy_action_t actions[] = {PROXY_LOSE, PROXY_DROP};
    for (int i = 0; i < 2; i++) {
        proxy_rule(proxy, (proxy_rule_t){.action = actions[i], .match = "requeued ann", .nth = 200});
        const daemon_output_t *lost = cli(d, "requeue", "--where", "-q", "q", "--yes", "--by", "ann", "-o", "json");
        cr_assert_eq(lost->code, 69, "%s", lost->err);
        cr_assert_gt(number_of(lost->out, "unknown"), 0);
        cr_assert_lt(distinct(s.r, "q"), FAILURES);
        proxy_pass(proxy);
    }
    cr_assert_eq(cli(d, "requeue", "--where", "-q", "q", "--yes", "--by", "ann")->code, 0);
    cr_assert_eq(distinct(s.r, "q"), FAILURES);
    await(&s, answers(d, FAILURES), COPY_MS);
    daemon_stop(d);
    s.count = 0;
}

/* Arguments: ANSWER PROGRAM ARGS... Runs the program on a terminal, types ANSWER at its question, exits with its code. */
static const char terminal[] = "import os, pty, sys\n"
                               "answer, program = sys.argv[1], sys.argv[2:]\n"
                               "pid, fd = pty.fork()\n"
                               "if pid == 0: os.execv(program[0], program)\n"
                               "said, asked = b'', False\n"
                               "while True:\n"
                               "    try: more = os.read(fd, 4096)\n"
                               "    except OSError: break\n"
                               "    if not more: break\n"
                               "    said += more\n"
                               "    if b'[y/N]' in said and not asked:\n"
                               "        asked = True\n"
                               "        os.write(fd, answer.encode() + b'\\n')\n"
                               "sys.stdout.buffer.write(said)\n"
                               "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";

static int on_terminal(const daemon_t *d, const char *answer, const char *rate, char **said) {
    command_t of = command(d, (const char *const[]){"requeue", "--where", "-q", "q", "--rate", rate, NULL});
    const char *argv[WORDS + 16] = {"python3", "-c", terminal, answer, daemon_program()};
    char *dir = temp_dir("terminal"), *out = temp_path(dir, "out");
    memcpy(argv + 5, of.argv, sizeof(of.argv));
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out});
    cr_assert(child_wait(child, RUN_MS));
    int code = child->exit_code;
    *said = temp_read(out);
    return code;
}

Test(daemon_requeue_trouble, a_bulk_run_asks_on_a_terminal) {
    daemon_t *d = sidecar(&s);
    char *said;
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    cr_assert_eq(on_terminal(d, "", "1000/s", &said), 1, "%s", said);
    cr_assert(has(said, "about to put back 3 jobs: q 3.") && has(said, "nothing was done"), "%s", said);
    cr_assert_eq(redis_int(s.r, "EXISTS q"), 0);
    free(said);
    cr_assert_eq(on_terminal(d, "y", "1000/s", &said), 0, "%s", said);
    cr_assert(has(said, "3 put back in"), "%s", said);
    cr_assert_eq(distinct(s.r, "q"), 3);
    free(said);
}

/* The highest "N/s" of the progress line. */
static int highest_rate(const char *said) {
    int highest = -1, rate, left;
    for (const char *at = strstr(said, "%), "); at; at = strstr(at + 1, "%), "))
        if (sscanf(at, "%%), %d/s, %d s left", &rate, &left) == 2 && rate > highest) highest = rate;
    return highest;
}

Test(daemon_requeue_trouble, progress_rate_ignores_answered_failures) {
    enum { FAILURES = 900, LEFT = 3 };
    daemon_t *d = sidecar(&s);
    char *said;
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(d)) == FAILURES, COPY_MS);
    cr_assert_eq(cli(d, "requeue", "--where", "-q", "q", "--yes", "-n", "897")->code, 0);
    await(&s, answers(d, FAILURES - LEFT), COPY_MS);
    cr_assert_eq(on_terminal(d, "y", "1/s", &said), 0, "%s", said);
    cr_assert(has(said, "about to put back 3 jobs: q 3 (897 were answered before"), "%s", said);
    int rate = highest_rate(said);
    cr_assert(rate >= 0 && rate <= 5, "%d/s: %s", rate, said);
    free(said);
}

/* A second run with --again would requeue the done jobs twice. */
Test(daemon_requeue_trouble, an_interrupted_again_run_warns_against_a_rerun) {
    enum { FAILURES = 100 };
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, FAILURES);
    await(&s, audit_log_rows(daemon_audit_path(d)) == FAILURES, COPY_MS);
    background_t b = cli_start(d, "requeue", "--where", "-q", "q", "--yes", "--again", "--rate", "20/s");
    await(&s, redis_int(s.r, "LLEN q") >= 2, RUN_MS);
    char *err = kept(strdup(b.err));
    child_signal(b.child, SIGINT);
    cr_assert_eq(finish(&b, NULL), 130);
    char *said = temp_read(err);
    cr_assert(has(said, "because of --again") && !has(said, "Run the same command again"), "%s", said);
}

#define LATER                                                                                                                    \
    "UPDATE events SET event = replace(hex(zeroblob(32)), '0', 'f'), ref = '777777777777', at = at + 60000, job = 'later', "     \
    "payload = 'later', size = 5, sha256 = '' WHERE seq = 3 RETURNING seq"

/* Another event has the seq: version 0.1.0 gave those of removed rows again. */
Test(daemon_requeue_trouble, a_reused_seq_is_not_requeued) {
    daemon_t *d = sidecar(&s);
    feed(s.r, 0, 3);
    await(&s, audit_log_rows(daemon_audit_path(d)) == 3, COPY_MS);
    daemon_pause(d); /* so that its auditor does not change the rows of this test */
    background_t b = cli_start(d, "requeue", "--where", "-q", "q", "--yes", "--rate", "15/m", "-o", "json");
    await(&s, redis_int(s.r, "LLEN q") >= 1, RUN_MS);
    cr_assert_eq(audit_log_int(daemon_audit_path(d), LATER), 3);
    char *out;
    cr_assert_eq(finish(&b, &out), 1);
    cr_assert(number_of(out, "done") == 2 && number_of(out, "gone") == 1, "%s", out);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 2);
    free(out);
    daemon_continue(d);
}

Test(daemon_requeue_trouble, control_bytes_in_queue_names_are_escaped) {
    daemon_t *d = sidecar(&s);
    feed_one(s.r, (failure_t){.number = 1, .queue = "\x1b[2J"});
    await(&s, audit_log_rows(daemon_audit_path(d)) == 1, COPY_MS);
    const daemon_output_t *asked = cli(d, "requeue", "--where", "--since", "1970-01-01", "--to", "q");
    cr_assert(asked->code == 2 && has(asked->err, "put back 1 job: ") && !has(asked->err, "\x1b"), "%s", asked->err);
}
