/* Interfaces that other programs rely on: this release has every interface of the previous release, and may have more. Texts of
 * logs and help pages are no interface. */
#include "../http/http_fixture.h"
#include "audit_log.h"
#include "tempdir.h"
#include "upgrade.h"

/* A queue of each dialect. */
static const char QUEUES[] =
    "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; heartbeat = \"off\"; protected_timeout = \"200ms\"; retry_times = 1; "
    "dlq = \"q:dead\"; }, "
    "{ name = \"k\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; roles = [\"monitor\"]; "
    "heartbeat = \"off\"; protected_timeout = \"200ms\"; }, "
    "{ name = \"video\"; dialect = \"bull\"; roles = [\"dispatcher\", \"monitor\"]; }, "
    "{ name = \"p\"; dialect = \"private_queues\"; main = \"p\"; private = \"own-*\"; dlq = \"p:dead\"; roles = [\"monitor\"]; "
    "heartbeat = \"off\"; protected_timeout = \"200ms\"; }, "
    "{ name = \"d\"; dialect = \"delayed_queue\"; types = [\"a.B\"]; roles = [\"dispatcher\", \"monitor\"]; }";

/* Lua for each queue: adds due jobs, jobs whose workers died, and failed jobs. */
static const char *const JOBS[] = {
    "redis.call('ZADD', 'q:delayed', 1, 'due') redis.call('LPUSH', 'q:backup', 'stalls', 'ends') "
    "redis.call('HSET', 'q:errors', 'ends', '!no')",
    "redis.call('LPUSH', 'back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ==', '{\"data\":\"x\",\"id\":\"a\",\"queue\":\"worker2_queue\","
    "\"taskStatus\":{\"excTimestamp\":1700000000000,\"genTimestamp\":1700000000000,\"retry\":0,\"state\":\"normal\"},"
    "\"type\":\"t\",\"unique\":true}')",
    "local t = redis.call('TIME') local now = string.format('%s%03d', t[1], t[2] / 1000) for id = 1, 2 do redis.call('HSET', "
    "'bull:video:' .. id, 'name', 'n', 'data', "
    "'{}', "
    "'opts', '{}', 'timestamp', now, 'delay', 0, 'priority', 0, 'attemptsMade', 1, 'stacktrace', '[]') end "
    "redis.call('ZADD', 'bull:video:delayed', 4096, 1) "
    "redis.call('HSET', 'bull:video:2', 'failedReason', 'boom', 'finishedOn', now) "
    "redis.call('ZADD', 'bull:video:failed', now, 2)",
    "redis.call('LPUSH', 'own-1', 'job') redis.call('LPUSH', 'p:dead', 'letter')",
    "for _, type in ipairs({'a.B', 'a.Other'}) do redis.call('ZADD', 'de_delayed_events', 1, type .. '###1') "
    "redis.call('HSET', 'de_events', type .. '###1', '{\"payload\":{\"id\":\"1\"},\"type\":\"' .. type .. "
    "'\",\"attempt\":1,\"logContext\":{}}') end"};

/* Lua expression for each queue: the leader has handled JOBS. */
static const char *const HANDLED[] = {
    "redis.call('LLEN', 'q') == 2 and redis.call('XLEN', 'sidecar:q:failures') == 2",
    "redis.call('LLEN', 'worker2_queue') == 1 and redis.call('XLEN', 'sidecar:k:failures') == 1",
    "redis.call('LLEN', 'bull:video:wait') == 1 and redis.call('XLEN', 'sidecar:video:failures') == 1",
    "redis.call('LLEN', 'p') == 1 and redis.call('XLEN', 'sidecar:p:failures') == 2",
    "redis.call('LLEN', 'de_b') == 1 and redis.call('EXISTS', 'sidecar:d:aside') == 1"};

/* Prints each key with type and values; replaces numbers by N, long hex digits by X, and binary values by their length. */
static const char KEYS[] =
    "local all, out = {}, {} "
    "local function plain(text) if string.find(text, '[%c\\128-\\255]') then return #text .. ' bytes' end "
    "text = string.gsub(string.gsub(text, '%x+%-%x+%-%x+%-%x+%-%x+', 'X'), '%x%x%x%x%x%x%x%x+', 'X') return (string.gsub(text, "
    "'%d+', 'N')) end "
    "local function add(...) local line = table.concat({...}, ' ') if not all[line] then all[line] = true "
    "out[#out + 1] = line end end "
    "for _, key in ipairs(redis.call('KEYS', '*')) do local kind = redis.call('TYPE', key).ok "
    "if not string.find(key, '^sidecar:preflight') then "
    "add(key, kind, redis.call('PTTL', key) > 0 and 'expires' or 'stays') "
    "if kind == 'string' then add(key, plain(redis.call('GET', key))) end "
    "if kind == 'list' then for _, v in ipairs(redis.call('LRANGE', key, 0, -1)) do add(key, plain(v)) end end "
    "if kind == 'zset' then for _, v in ipairs(redis.call('ZRANGE', key, 0, -1)) do add(key, plain(v)) end end "
    "if kind == 'set' then for _, v in ipairs(redis.call('SMEMBERS', key)) do add(key, plain(v)) end end "
    "local pairs_of = kind == 'hash' and {{nil, redis.call('HGETALL', key)}} or {} "
    "if kind == 'stream' then pairs_of = redis.call('XRANGE', key, '-', '+') end "
    "for _, of in ipairs(pairs_of) do for i = 1, #of[2], 2 do add(key, plain(of[2][i]), plain(of[2][i + 1])) end end "
    "end end return table.concat(out, '\\n')";

/* The interfaces, and how to print each as text, one item a line. */
static const struct {
    const char *name, *line; /* line of sh; NULL = KEYS in Redis */
} INTERFACES[] = {
    {"Redis keys", NULL},
    {"audit log", "sqlite3 $LOG \"SELECT m.type, m.name, c.name, c.type, c.\\\"notnull\\\", c.pk FROM sqlite_master AS m "
                  "LEFT JOIN pragma_table_xinfo(m.name) AS c WHERE m.type <> 'index' UNION ALL "
                  "SELECT m.type, m.name, c.name, '', 0, 0 FROM sqlite_master AS m JOIN pragma_index_info(m.name) AS c\""},
    {"/metrics", "python3 tests/upgrade/names.py metrics $PORT"},
    {"status -o json", "\"$PROGRAM\" status -c $CONFIG -o json | python3 tests/upgrade/names.py json"},
    {"audit list -o json", "\"$PROGRAM\" audit list --db $LOG -o json | python3 tests/upgrade/names.py json"},
    {"audit show -o json", "\"$PROGRAM\" audit show $REF --db $LOG -o json | python3 tests/upgrade/names.py json"},
};
enum { INTERFACE_COUNT = sizeof INTERFACES / sizeof *INTERFACES };

/* Starts a sidecar with http on a free port. */
static daemon_t *serve(cluster_t *cluster, program_t program, sidecar_t spec, int *port) {
    spec.port = *port = server_free_port();
    daemon_t *d = upgrade_sidecar(cluster, program, spec, NULL);
    await(cluster, upgrade_leads(cluster->r, d));
    int fd = -1;
    cr_assert(wait_for((fd = connect_to(*port)) >= 0, 10000), "%s", daemon_log(d));
    close(fd);
    return d;
}

/* A leader and a standby of one program handle JOBS, and an operator requeues a job. Stores the text of each interface. */
static void run_alone(program_t program, const char *texts[INTERFACE_COUNT]) {
    sidecar_t spec = {.scan = "50ms", .queues = QUEUES};
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    int port;
    daemon_t *leader = serve(&s, program, spec, &port), *standby = upgrade_sidecar(&s, program, spec, NULL);
    await(&s, upgrade_stands_by(s.r, standby));
    /* Failures from before the leader's first read of Bull's failed jobs count as recorded. */
    await(&s, upgrade_lua(s.r, "redis.call('ZSCORE', 'sidecar:video:recorded', ':seen')"));
    for (size_t i = 0; i < sizeof JOBS / sizeof *JOBS; i++) redis_ok(s.r, "EVAL %s 0", JOBS[i]);
    for (size_t i = 0; i < sizeof HANDLED / sizeof *HANDLED; i++)
        cr_assert(wait_for(upgrade_lua(s.r, HANDLED[i]), UPGRADE_MS), "never came: %s", HANDLED[i]);
    const char *log = daemon_audit_path(leader);
    await(&s, audit_log_rows(log) == 3);
    char *ref = audit_log_word(log, "SELECT ref FROM events WHERE kind = 'failed' AND queue = 'q'");
    char *names = kept_printf("LOG=%s CONFIG=%s REF=%s PORT=%d QUEUE_SIDECAR_AUDIT_PATH=%s; export QUEUE_SIDECAR_AUDIT_PATH;",
                              log, daemon_config_path(leader), ref, port, log);
    const daemon_output_t *done = upgrade_shell(program, "%s \"$PROGRAM\" audit requeue $REF -c $CONFIG", names);
    cr_assert_eq(done->code, 0, "%s", done->err);
    await(&s, audit_log_int(log, "SELECT count(*) FROM events WHERE kind = 'requeued'") == 1);
    await(&s, redis_int(s.r, "HLEN sidecar:q:auditors") == 2);
    for (size_t i = 1; i < INTERFACE_COUNT; i++) {
        done = upgrade_shell(program, "%s %s", names, INTERFACES[i].line);
        cr_assert_eq(done->code, 0, "%s: %s", INTERFACES[i].name, done->err);
        texts[i] = done->out;
    }
    await(&s, upgrade_stands_by(s.r, standby)); /* a leader that lost its lock meanwhile has deleted the key */
    daemon_terminate(standby, UPGRADE_MS);
    daemon_terminate(leader, UPGRADE_MS);
    texts[0] = redis_str(s.r, "EVAL %s 0", KEYS);
}

Test(daemon_upgrade, keys_schema_metrics_and_json_stay) {
    const char *texts[PROGRAMS][INTERFACE_COUNT];
    for (program_t of = PREVIOUS; of < PROGRAMS; of++) run_alone(of, texts[of]);
    for (size_t i = 0; i < INTERFACE_COUNT; i++) upgrade_expect_kept(INTERFACES[i].name, texts[PREVIOUS][i], texts[CURRENT][i]);
}

/* Expects that the command knows each option (one a line). An unknown option is an error that names it, so the error must name
 * --no-such-option, which comes last. */
static void expect_options(const char *command, const char *options) {
    char *file = temp_file("options", options);
    const daemon_output_t *gone =
        upgrade_shell(CURRENT,
                      "while read -r option; do said=$(\"$PROGRAM\" %s $option --no-such-option 2>&1); "
                      "case $?,$said in 2,*--no-such-option*) ;; *) echo \"$option: $said\" ;; esac; done <%s",
                      command, file);
    cr_expect_str_empty(gone->out, "%s: %s", command, gone->out);
}

/* Takes commands and options from the help of the previous release. */
Test(daemon_upgrade, commands_keep_their_options) {
    char *commands[64] = {strdup("")};
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        static const char page[] = "\"$PROGRAM\" help %s | python3 tests/upgrade/names.py %s";
        char *rest = NULL, *names = upgrade_shell(PREVIOUS, page, commands[i], "commands")->out;
        cr_expect_eq(upgrade_shell(CURRENT, "\"$PROGRAM\" help %s", commands[i])->code, 0, "command %s is missing", commands[i]);
        for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
            if (asprintf(&commands[count++], "%s %s", commands[i], name) < 0) abort();
        if (i > 0) expect_options(commands[i], upgrade_shell(PREVIOUS, page, commands[i], "options")->out);
    }
    cr_expect_geq(count, 18, "only %zu commands of the previous release were found", count);
    while (count) free(commands[--count]);
    expect_options("audit list", "--failed-by x\n"); /* these options are not in the help */
    expect_options("audit requeue", "--reason x\n");
    expect_options("audit discard", "--reason x\n");
}

/* Command lines; they run without Redis. */
static const char *const COMMANDS[] = {"version",
                                       "--version",
                                       "",
                                       "nothing",
                                       "help nothing",
                                       "help man 1",
                                       "help man 5",
                                       "run --nothing",
                                       "run -c missing",
                                       "run -c bad",
                                       "check -c missing",
                                       "check -c bad",
                                       "check -c good",
                                       "check -c good --redis",
                                       "check more",
                                       "status -c good",
                                       "status -c bad",
                                       "status -o csv",
                                       "healthcheck -c good",
                                       "completion bash",
                                       "completion zsh",
                                       "completion fish",
                                       "completion queues -c good",
                                       "audit",
                                       "audit nothing",
                                       "audit list -c bad",
                                       "audit list --db missing",
                                       "audit list --since never",
                                       "audit list --db log",
                                       "audit show --db log",
                                       "audit show k3vq --db log",
                                       "audit stats --db log -o csv",
                                       "audit requeue -c good --db log",
                                       "audit requeue -c good --db log k3vq",
                                       "audit requeue -c good --db log --where",
                                       "audit discard -c bad k3vq",
                                       "audit requeue -c good --db log --where -q q --yes",
                                       "audit export --db log",
                                       "audit export --db log -o json",
                                       "audit export --db log good",
                                       "audit import --db log missing",
                                       "audit import --db log",
                                       "audit backup --db log",
                                       "audit backup --db log good",
                                       "audit backup --db missing copy",
                                       "audit tail --db log -o json"};

Test(daemon_upgrade, commands_keep_their_exit_codes) {
    static const char files[] =
        "cd \"$(mktemp -d \"%s/codes.XXXXXX\")\" && echo 'group = ;' >bad && : >events && echo 'group = \"g\"; "
        "redis = { socket = \"none\"; }; http = { port = 1; }; queues = ( { name = \"q\"; } );' >good && "
        "\"$PROGRAM\" audit import --db log events || exit 99; exec \"$PROGRAM\" %s";
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        int expected = upgrade_shell(PREVIOUS, files, temp_root(), COMMANDS[i])->code;
        const daemon_output_t *done = upgrade_shell(CURRENT, files, temp_root(), COMMANDS[i]);
        cr_expect_eq(done->code, expected, "%s: exit code %d, not %d: %s", COMMANDS[i], done->code, expected, done->err);
    }
}

/* Changed on purpose: `types` needs no restart any more; lock.scope can be auto; host, socket and username refuse a URL, which
 * may hold a password; dispatcher.batch is only the upper bound beside redis.slice; the safety poll is rarer; a name is called a
 * text; the example of a heartbeat has the name of a queue, and it may be the consumer of a stream; http.token_file, which had no
 * effect, has one; `backup` may be empty. */
#define KEYS_ON_PURPOSE                                                                                                          \
    "sed '/^http\\ttoken_file\\t/d; s/^\\(queue-only\\ttypes\\t.*\\)restart$/\\1reloadable/; "                                   \
    "s/^\\(dispatcher\\tbatch\\tinteger\\t\\)[0-9]*/\\1/; s/^\\(dispatcher\\tsafety_poll\\tduration\\t\\)[0-9]*s/\\1/; "         \
    "s/\\ttext of 1 to 128 bytes/\\t1 to 128 bytes/; s/such as \"email:/such as \"/; s/; for stream also \"consumer\"//; "       \
    "s/^\\(lock\\tscope\\tword\\t\\)[^\\t]*\\t[^\\t]*/\\1/; s/^\\(queue-only\\tbackup\\t.*key, \\)[01] to/\\1/; "                \
    "s/^\\(queue-only\\tdialect\\t.*\"private_queues\"\\)[^\\t]*/\\1/; s/\"bullmq\", //; "                                       \
    "s/^redis\\t\\(host\\|socket\\|username\\)\\t[a-z]*\\t\\(.* control characters\\)[^\\t]*/redis\\t\\1\\t\\2/'"

/* Config keys: section, name, type, default, bounds, and whether a reload may change the key. Metrics: name, type, labels. */
Test(daemon_upgrade, tables_of_config_keys_and_metrics_stay) {
    upgrade_expect_same("\"$PROGRAM\" help keys | cut -f1-6 | " KEYS_ON_PURPOSE);
    upgrade_expect_same("\"$PROGRAM\" help metrics | cut -f1-3");
}

/* Keys and words that 0.1.0 lacks. */
#define WITHOUT_NEW_KEYS                                                                                                         \
    "sed -E '/^ *(mode|nodes|sentinels|master|sentinel_[a-z_]*|addresses|tls|tls_[a-z_]*|blind_poll|slice|rotation|"             \
    "ephemeral|history|hide|page|hosts|user_header|trace_path|on_failure|lead|take|watch) *=/d; "                                \
    "s/scope = \"auto\"/scope = \"group\"/'"

/* `check` prints a config with every value; the other program must accept it, but for new keys. */
Test(daemon_upgrade, each_accepts_the_config_of_the_other) {
    static const char line[] = "OTHER=%s; dir=%s; " WITHOUT_NEW_KEYS " conf/queue-sidecar.cfg >$dir/old.cfg && "
                               "\"$PROGRAM\" check -c $dir/old.cfg | " WITHOUT_NEW_KEYS " >$dir/all.cfg && "
                               "grep -q protected_timeout $dir/all.cfg && \"$OTHER\" check -c $dir/all.cfg";
    for (program_t of = PREVIOUS; of < PROGRAMS; of++) {
        const daemon_output_t *checked = upgrade_shell(of, line, upgrade_program(other_than(of)), temp_root());
        cr_expect_eq(checked->code, 0, "%s", checked->err);
    }
}
