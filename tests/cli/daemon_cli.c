/* Runs the real binary and checks exit codes, output and log lines. */
#include "base/buffer.h"
#include "child.h"
#include "cluster.h"
#include "proxy.h"
#include "tempdir.h"
#include "terminal.h"
#include "text.h"
#include "tls_harness.h"
#include "wait.h"

#include <ctype.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>

/* `check --redis` also checks the audit path, so it must be usable. */
static void set_audit_path(void) {
    char *path = temp_path(temp_root(), "check.db");
    setenv("QUEUE_SIDECAR_AUDIT_PATH", path, 1);
}

static cluster_t s;
SUITE(daemon_cli, set_audit_path(); s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_cli, exit_codes_of_help_version_and_misuse) {
    cr_assert_eq(daemon_run("version")->code, 0);
    cr_assert(has(daemon_run("--version")->out, "queue-sidecar "));
    cr_assert_eq(daemon_run("help")->code, 0);
    cr_assert_eq(daemon_run("run", "--help")->code, 0);
    cr_assert(has(daemon_run("help", "check")->out, "--redis"));
    static const char *const misuse[][3] = {{"frobnicate"}, {"run", "--nonsense"}, {"check", "-c"}, {"help", "nothing"},
                                            {"-x"},         {"version", "x"},      {"help", "man"}};
    for (size_t i = 0; i < sizeof(misuse) / sizeof(*misuse); i++) {
        const char *const args[] = {misuse[i][0], misuse[i][1], misuse[i][2], NULL};
        const daemon_output_t *output = daemon_run_argv(NULL, args);
        cr_assert_eq(output->code, 2, "%s %s: %d", args[0], args[1] ? args[1] : "", output->code);
        cr_assert_str_empty(output->out);
        cr_assert(has(output->err, "queue-sidecar"));
    }
    cr_assert(has(daemon_run("chek")->err, "did you mean `check`?"));
    cr_assert(has(daemon_run("requeue", "abc")->err, "unknown command `requeue`: did you mean `audit requeue`?"));
    cr_assert_eq(daemon_run("requeue")->code, 2);
    cr_assert(has(daemon_run("help", "man")->err, "`man 1`"));
}

Test(daemon_cli, check_reports_every_config_fault_with_its_line) {
    char *path = temp_file("test.cfg", "group = \"g\";\n"
                                       "lock = { ttl = \"1ms\"; };\n"
                                       "dispatcher = { batch = 99999; colour = \"red\"; };\n"
                                       "queues = (\n"
                                       "  { name = \"q\"; dialect = \"nonsense\"; }\n"
                                       ");\n");
    static const char *const places[] = {":2: ", ":3: ", ":5: "}, *const words[] = {"ttl", "batch", "colour", "nonsense"};
    const daemon_output_t *outputs[] = {daemon_run("check", "-c", path), daemon_run("run", "-c", path)};
    for (size_t n = 0; n < 2; n++) {
        cr_assert_eq(outputs[n]->code, 78);
        for (size_t i = 0; i < 3; i++) {
            char *place = kept_printf("%s%s", path, places[i]);
            cr_assert(has(outputs[n]->err, place), "no fault at %s in: %s", place, outputs[n]->err);
        }
        for (size_t i = 0; i < 4; i++) cr_assert(has(outputs[n]->err, words[i]), "%s in: %s", words[i], outputs[n]->err);
    }
    cr_assert_eq(daemon_run("check", "-c", "no/such/file.cfg")->code, 78);
    cr_assert_eq(daemon_run("run", "-c", "no/such/file.cfg")->code, 78);
}

/* A collector of logs parses each line of a container. */
Test(daemon_cli, run_logs_config_faults_in_the_format_of_the_log) {
    static const char faults[] = "dispatcher = { batch = 99999; };\nqueues = ();\n";
    char *json = temp_file("json.cfg", faults),
         *text = temp_file("text.cfg", kept_printf("log = { format = \"text\"; };\n%s", faults));
    const char *const paths[] = {json, "no/such/file.cfg"};
    for (size_t i = 0; i < 2; i++) {
        const daemon_output_t *run = daemon_run("run", "-c", paths[i]);
        cr_assert_eq(run->code, 78);
        char *rest = kept_printf("%s", run->err);
        for (char *line; (line = strsep(&rest, "\n")) && *line;)
            cr_expect(has(line, "{\"ts\":\"") &&
                          has(line, "\"msg\":\"cannot start: configuration refused\",\"role\":\"main\",\"reason\":\""),
                      "%s", line);
    }
    cr_expect(has(daemon_run("run", "-c", json)->err, ":1: `dispatcher.batch` is 99999"));
    const daemon_output_t *plain = daemon_run("run", "-c", text);
    cr_expect(plain->code == 78 && strncmp(plain->err, text, strlen(text)) == 0, "%s", plain->err);
}

static bool log_on_terminal_has(const char *config, const char *variable, const char *text) {
    terminal_t *terminal = terminal_open(200, 24);
    const char *const argv[] = {daemon_program(), "run", "-c", config, NULL}, *const env[] = {"TERM=xterm", variable, NULL};
    child_t *child = child_start(&(child_spec_t){.argv = argv, .env = env, .err = terminal_path(terminal)});
    bool found = wait_for(has(terminal_raw(terminal), text), 10000);
    child_free(child);
    terminal_free(terminal);
    return found;
}

Test(daemon_cli, the_level_of_a_log_line_has_a_colour_on_a_terminal) {
    static const char config[] =
        "group = \"g\"; redis = { socket = \"%s\"; }; http = { port = 0; }; audit = { path = \"%s/a.db\"; };\n"
        "queues = ( { name = \"q\"; roles = [\"monitor\"]; retry_backoff = \"fixed\"; } );\n";
    char *path = temp_file("colour.cfg", kept_printf(config, server_socket(s.server), temp_dir("colour")));
    cr_expect(log_on_terminal_has(path, "NO_COLOR=", " \x1b[33mwarn \x1b[0m configuration warning "));
    cr_expect(log_on_terminal_has(path, "NO_COLOR=1", " warn  configuration warning "));
}

Test(daemon_cli, check_accepts_a_queue_of_each_dialect) {
    static const char *const rows[][2] = {{"list", ""},
                                          {"kmqueue", "queues = [\"a:safe\"];"},
                                          {"delayed_queue", "types = [\"a.B\"];"},
                                          {"bull", ""},
                                          {"bullmq", ""},
                                          {"sidekiq", ""},
                                          {"private_queues", "main = \"m\"; private = \"w-*\";"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = kept_printf("queues = (\n  { name = \"q\"; dialect = \"%s\"; %s } );\n", rows[i][0], rows[i][1]);
        char *path = temp_file("test.cfg", text);
        const daemon_output_t *check = daemon_run("check", "-c", path);
        cr_assert_eq(check->code, 0, "%s: %s", rows[i][0], check->err);
        cr_assert_str_empty(check->err);
    }
}

/* Red, and an override of the direction of text. */
Test(daemon_cli, answers_of_a_hostile_server_are_printed_escaped) {
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    static const char version[] = "redis_version:7.0.15 \x1b[31m\xe2\x80\xae";
    char *info = kept_printf("$%zu\r\n%s", sizeof version - 1, version);
    const proxy_rule_t rules[] = {{PROXY_REPLACE, "TYPE q:delayed", "+list\x1b[31m\xe2\x80\xae", .times = -1},
                                  {PROXY_REPLACE, "ROLE", "*1\r\n$15\r\nslave\x1b[31m\xe2\x80\xae..", .times = -1},
                                  {PROXY_REPLACE, "HGETALL sidecar:", "-ERR \x1b[31m\xe2\x80\xae", .times = -1},
                                  {PROXY_REPLACE, "INFO server", info, .times = -1}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) proxy_rule(proxy, rules[i]);
    char *path = cluster_config_file(&s, (sidecar_t){.socket = proxy_socket(proxy)});
    const daemon_output_t *outputs[] = {daemon_run("check", "-c", path, "--redis"), daemon_run("status", "-c", path)};
    cr_assert(has(outputs[0]->err, "holds a list\\x1b[31m\\u202e where a zset is wanted"), "%s%s", outputs[0]->out,
              outputs[0]->err);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_neq(outputs[i]->code, 0);
        for (int n = 0; n < 2; n++) {
            const char *text = n ? outputs[i]->err : outputs[i]->out;
            cr_assert(!strchr(text, '\x1b') && !has(text, "\xe2\x80\xae"), "%s", text);
        }
    }
}

Test(daemon_cli, check_names_the_primary_of_a_replica) {
    char *path = cluster_config_file(&s, (sidecar_t){0});
    redis_ok(s.r, "REPLICAOF 127.0.0.1 1");
    for (int i = 0; i < 2; i++) {
        const daemon_output_t *check = daemon_run("check", "-c", path, "--redis");
        cr_assert_eq(check->code, 1, "%s%s", check->out, check->err);
        cr_assert(has(check->err, " is a replica of 127.0.0.1:1, and") && has(check->err, "set redis.host"), "%s", check->err);
        cr_assert(!has(check->err, "passed") && !has(check->err, "READONLY"), "%s%s", check->out, check->err);
        redis_ok(s.r, "CONFIG SET replica-serve-stale-data no"); /* it then answers nearly nothing */
    }
}

Test(daemon_cli, check_reports_missing_redis_features) {
    char *path = cluster_config_file(&s, (sidecar_t){0});
    const daemon_output_t *good = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(good->code, 0, "%s%s", good->out, good->err);
    cr_assert(has(good->err, "preflight passed") && has(good->err, "\"g\" has no leader now"), "%s", good->err);
    char *target =
        tls_harness_is_on() ? mem_printf("127.0.0.1:%d", server_product_port(s.server)) : mem_str(server_socket(s.server));
    char *server = kept_printf("\nok       single server %s: ", target);
    cr_assert(has(good->err, server) && has(good->err, "; 0 replicas; maxmemory-policy noeviction\n"), "%s", good->err);
    cr_assert_eq(redis_int(s.r, "DBSIZE"), 0); /* `check` leaves no key behind */
    redis_ok(s.r, "SET q:delayed string");
    const daemon_output_t *bad = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(bad->code, 1);
    cr_assert(has(bad->err, "FAULT") && has(bad->err, "\"q:delayed\" holds a string where a zset is wanted"), "%s", bad->err);
    char *effective = temp_file("effective.cfg", bad->out); /* stdout is a config all the same */
    const daemon_output_t *again = daemon_run("check", "-c", effective);
    cr_assert_eq(again->code, 0, "%s", again->err);
    redis_ok(s.r, "DEL q:delayed");
    redis_ok(s.r, "CONFIG SET maxmemory-policy allkeys-lru");
    const daemon_output_t *warned = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(warned->code, 0);
    cr_assert(has(warned->err, "warning") && has(warned->err, "noeviction"), "%s", warned->err);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"elsewhere\"; }"});
    const daemon_output_t *unserved = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(unserved->code, 1);
    char pid[32];
    snprintf(pid, sizeof(pid), "/%d, lock TTL ", (int)daemon_pid(d));
    cr_assert(has(unserved->err, "does not serve: q") && has(unserved->err, pid), "%s", unserved->err);
    daemon_stop(s.sidecars[--s.count]);
    redis_ok(s.r, "ACL SETUSER default -evalsha");
    const daemon_output_t *refused = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(refused->code, 1, "%s%s", refused->out, refused->err);
    server_kill(s.server);
    const daemon_output_t *unreachable = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(unreachable->code, 69);
    cr_assert(has(unreachable->err, target), "%s", unreachable->err);
    free(target);
}

Test(daemon_cli, check_warns_of_a_queue_that_another_group_owns) {
    cluster_sidecar_up(&s, (sidecar_t){.group = "theirs"});
    const daemon_output_t *run = NULL;
    char *path = cluster_config_file(&s, (sidecar_t){.group = "ours"});
    cr_assert(wait_for((run = daemon_run("check", "-c", path, "--redis"),
                        has(run->err, "queue \"q\": group \"theirs\" owns this queue")),
                       10000),
              "%s", run->err);
    cr_assert_eq(run->code, 0);
    run = daemon_run("check", "-c", cluster_config_file(&s, (sidecar_t){.group = "theirs"}), "--redis");
    cr_assert(!has(run->err, "owns this queue"), "%s", run->err);
}

Test(daemon_cli, check_reports_whether_the_audit_path_is_usable) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){0});
    char *path = cluster_config_file(&s, (sidecar_t){0}), *free_one = temp_path(temp_root(), "free.db"),
         *foreign = temp_path(temp_root(), "foreign.db"), *unfinished = temp_path(temp_root(), "unfinished.db");
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(unfinished, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db); /* as a sidecar leaves it that died before its first COMMIT */
    cr_assert_eq(sqlite3_open(foreign, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    cr_assert(wait_for(access(daemon_audit_path(d), F_OK) == 0, 5000));
    const struct {
        const char *path, *bytes, *said;
        int code;
    } rows[] = {{free_one, "1MiB", "can be written, and no sidecar holds it", 0},
                {free_one, "16TiB", "warning  audit log ", 0},
                {unfinished, "1MiB", "can be written, and no sidecar holds it", 0},
                {"/no/such/directory/audit.db", "1MiB", "the directory /no/such/directory does not exist", 1},
                {temp_root(), "1MiB", "is no regular file", 1},
                {foreign, "1MiB", "is the database of another program", 1},
                {daemon_audit_path(d), "1MiB", "a sidecar (pid ", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *place = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", rows[i].path);
        char *bytes = kept_printf("QUEUE_SIDECAR_AUDIT_RETAIN_BYTES=%s", rows[i].bytes);
        const daemon_options_t options = {.env = (const char *const[]){place, bytes, NULL}};
        const daemon_output_t *out = daemon_run_argv(&options, (const char *const[]){"check", "-c", path, "--redis", NULL});
        cr_expect_eq(out->code, rows[i].code, "%s: %s%s", rows[i].said, out->out, out->err);
        cr_expect(has(out->err, rows[i].said), "\"%s\" lacks \"%s\"", out->err, rows[i].said);
    }
    cr_expect_neq(access(free_one, F_OK), 0, "`check` created a file");
}

Test(daemon_cli, check_reports_a_foreign_lock) {
    char *path = cluster_config_file(&s, (sidecar_t){0});
    redis_ok(s.r, "SET sidecar:g:lock hello");
    const daemon_output_t *found = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(found->code, 1);
    cr_assert(has(found->err, "FAULT") && has(found->err, "sidecar:g:lock holds \"hello\""), "%s", found->err);
    cr_assert_not(has(found->err, "does not serve"), "no instance leads: %s", found->err);
    redis_ok(s.r, "DEL sidecar:g:lock");
    redis_ok(s.r, "SADD sidecar:g:lock hello");
    found = daemon_run("check", "-c", path, "--redis");
    cr_assert(found->code == 1 && has(found->err, "FAULT    cannot read the leader of \"g\": "), "%s%s", found->out, found->err);
}

/* Output goes to fd 1, so fd 1 must not become the socket of Redis. */
Test(daemon_cli, closed_standard_files_do_not_become_the_redis_socket) {
    static const char *const closed[] = {">&-", "<&- >/dev/null", "<&- >&-"};
    char *path = cluster_config_file(&s, (sidecar_t){0});
    for (size_t i = 0; i < 3; i++) {
        char *command = kept_printf("exec %s check -c %s --redis 2>/dev/null %s", daemon_program(), path, closed[i]);
        cr_assert_eq(system(command), 0, "%s", command);
    }
}

Test(daemon_cli, run_starts_before_redis) {
    server_kill(s.server);
    daemon_t *d = cluster_sidecar(&s, (sidecar_t){0});
    cr_assert(daemon_wait_log(d, "cannot reach redis", 5000));
    server_restart(s.server, SERVER_LOSE_DATA);
    cluster_reopen(&s);
    cluster_round(&s, "q", 0);
    cluster_works(&s, "q");
}

/* Returns the path of a script that runs the binary with at most QS_FDS file descriptors. */
static char *limited_binary(void) {
    char *script = kept_printf("#!/bin/sh\nulimit -n \"$QS_FDS\"\nexec '%s' \"$@\"\n", daemon_program());
    char *path = temp_file("limited", script);
    cr_assert_eq(chmod(path, 0700), 0);
    return path;
}

/* Three descriptors are standard ones, and the dynamic linker needs a fourth; `run` needs two for each of four roles and the
 * watcher, one for signals, one to watch its file, and one to hear of roles that have ended, before it can wait for Redis;
 * `check` has three connections. With fewer, both report the error and end. With exactly FDS_TO_RUN, `run` logs the error and
 * goes on. */
enum { FEWEST_FDS = 4, FDS_TO_RUN = 16, FDS_TO_CHECK = 6 };

Test(daemon_cli, too_few_file_descriptors_are_reported) {
    if (tls_harness_is_on()) cr_skip_test("the numbers are those of the plain program");
    char *path = cluster_config_file(&s, (sidecar_t){0}), *text = temp_read(path), *binary = limited_binary();
    for (int fds = FEWEST_FDS; fds <= FDS_TO_RUN; fds++) {
        char limit[16];
        snprintf(limit, sizeof(limit), "QS_FDS=%d", fds);
        daemon_options_t options = {.binary = binary, .env = (const char *const[]){limit, NULL}};
        const char *const check[] = {"check", "-c", path, "--redis", NULL}, *const run[] = {"run", "-c", path, NULL};
        const daemon_output_t *checked = daemon_run_argv(&options, check);
        cr_assert_eq(checked->code, fds < FDS_TO_CHECK ? 69 : 0, "check, %s: %d %s", limit, checked->code, checked->err);
        cr_assert_eq(has(checked->err, "Too many open files"), fds < FDS_TO_CHECK, "check, %s: %s", limit, checked->err);
        cr_assert_eq(redis_int(s.r, "DBSIZE"), 0, "check left something behind with %s", limit);
        if (fds < FDS_TO_RUN) {
            const daemon_output_t *ended = daemon_run_argv(&options, run);
            cr_assert_eq(ended->code, 1, "run, %s: %d %d", limit, ended->code, ended->signal);
            cr_assert(has(ended->err, "cannot start") && has(ended->err, "Too many open files"), "%s: %s", limit, ended->err);
        } else {
            daemon_t *d = s.sidecars[s.count++] = daemon_start_with(&options, "%s", text);
            /* depends on which role finds no descriptor left */
            cr_assert(wait_for(cluster_says(d, "cannot reach", "Too many open files") || cluster_says(d, "cannot be written", ""),
                               5000));
            cr_assert(daemon_running(d));
        }
    }
}

/* The service manager waits for a message that cannot be sent, because no descriptor is left. */
Test(daemon_cli, a_failed_notification_of_the_service_manager_is_logged) {
    char *path = cluster_config_file(&s, (sidecar_t){0}), *binary = limited_binary();
    const daemon_options_t options = {.binary = binary, .env = (const char *const[]){"QS_FDS=5", "NOTIFY_SOCKET=/nowhere", NULL}};
    const daemon_output_t *ended = daemon_run_argv(&options, (const char *const[]){"run", "-c", path, NULL});
    cr_assert_eq(ended->code, 1);
    cr_assert(
        has(ended->err,
            "cannot notify the service manager\",\"role\":\"main\",\"socket\":\"/nowhere\",\"reason\":\"Too many open files"),
        "%s", ended->err);
}

Test(daemon_cli, secrets_are_never_printed_or_logged) {
    redis_ok(s.r, "ACL SETUSER sidecar on >s3cr3tword ~* &* +@all");
    redis_ok(s.r, "ACL SETUSER default off");
    char *path = cluster_config_file(&s, (sidecar_t){.redis = "username = \"sidecar\"; password = \"s3cr3tword\";"});
    const daemon_output_t *checked = daemon_run("check", "-c", path, "--redis");
    cr_assert_eq(checked->code, 0, "%s%s", checked->out, checked->err);
    cr_assert(has(checked->err, "inline secret"));
    cr_assert(!has(checked->out, "s3cr3t") && !has(checked->err, "s3cr3t"));
    daemon_t *good =
        cluster_sidecar_up(&s, (sidecar_t){.level = "debug", .redis = "username = \"sidecar\"; password = \"s3cr3tword\";"});
    cr_assert_eq(daemon_log_count(good, "s3cr3t"), 0);
    daemon_t *bad =
        cluster_sidecar(&s, (sidecar_t){.level = "debug", .redis = "username = \"sidecar\"; password = \"s3cr3t-but-wrong\";"});
    cr_assert(daemon_wait_log(bad, "WRONGPASS", 5000));
    cr_assert_eq(daemon_log_count(bad, "s3cr3t"), 0);
}

/* Checks a JSON string strictly. Returns the text behind the string; NULL = it is not valid. */
static const char *json_string(const char *at) {
    if (*at++ != '"') return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20) return NULL;
        if (*at != '\\') continue;
        at++;
        if (*at == 'u') {
            for (int i = 0; i < 4; i++)
                if (!isxdigit((unsigned char)*++at)) return NULL;
        } else if (!*at || !strchr("\"\\/bfnrt", *at)) {
            return NULL;
        }
    }
    return at + 1;
}

/* Whether a line is one flat JSON object of strings and numbers, like every line of the log. */
static bool json_object(const char *at) {
    if (*at != '{') return false;
    do {
        at = json_string(at + 1);
        if (!at || *at++ != ':') return false;
        if (*at == '"') {
            if (!(at = json_string(at))) return false;
        } else {
            char *end = NULL;
            if (*at != '-' && !isdigit((unsigned char)*at)) return false;
            strtod(at, &end);
            at = end;
        }
    } while (*at == ',');
    return strcmp(at, "}") == 0;
}

static int lines_of_json(const daemon_t *d) {
    char *log = daemon_log(d), *rest = NULL;
    int lines = 0;
    for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++) {
        cr_assert(json_object(line), "no JSON: %s", line);
        cr_assert(has(line, "{\"ts\":\"") && has(line, "\"level\":\"") && has(line, "\"msg\":\""), "%s", line);
    }
    return lines;
}

Test(daemon_cli, log_lines_are_json_without_payloads) {
    static const char queues[] =
        "{ name = \"q\"; max_payload = \"1KiB\"; }, "
        "{ name = \"odd\\\"name\\\\\xe2\x82\xac.\"; ready = \"odd\\n\\x01\"; delayed = \"odd\\tdelayed\"; }";
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.level = "debug", .queues = queues});
    char large[3001];
    for (size_t i = 0; i + 1 < sizeof(large); i += 10) memcpy(large + i, "payl0ad\n\"\\", 10);
    large[sizeof(large) - 1] = '\0';
    redis_ok(s.r, "ZADD q:delayed 1 %s 2 %s", large, "payl0ad of a small job");
    cr_assert(daemon_wait_log(d, "larger than max_payload", 5000));
    redis_ok(s.r, "SET %s payl0ad", "odd\n\x01");
    redis_ok(s.r, "ZADD %s 3 payl0ad", "odd\tdelayed");
    cr_assert(wait_for(cluster_says(d, "redis refuses to promote", "\"queue\":\"odd"), 5000));
    redis_ok(s.r, "DEL q");
    redis_ok(s.r, "SET q payl0ad");
    redis_ok(s.r, "ZADD q:delayed 3 %s", "payl0ad of another");
    cr_assert(wait_for(cluster_says(d, "redis refuses to promote", "\"queue\":\"q\""), 5000));
    redis_ok(s.r, "SCRIPT FLUSH");
    cluster_kill_connections(s.r, "");
    cr_assert(wait_for(daemon_log_count(d, "\"msg\":\"connected\"") >= 2, 10000));
    daemon_signal(d, SIGUSR1);
    daemon_signal(d, SIGHUP);
    cr_assert(daemon_wait_log(d, "stats", 5000));
    cr_assert_eq(daemon_terminate(d, 5000).code, 0);
    cr_assert_geq(lines_of_json(d), 10);
    cr_assert_eq(daemon_log_count(d, "payl0ad"), 0);
}

Test(daemon_cli, sigusr1_logs_the_counters) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; }, { name = \"p\"; }"});
    for (int i = 0; i < 7; i++) cluster_round(&s, "q", 0);
    /* A job can be seen in Redis a moment before it is counted. */
    cr_assert(wait_for((daemon_signal(d, SIGUSR1), cluster_says(d, "\"queue\":\"q\"", "\"promoted\":7,")), 5000));
    cr_assert(wait_for(cluster_says(d, "\"queue\":\"p\"", "\"promoted\":0,"), 5000)); /* each queue has a line of its own */
    cr_assert(daemon_wait_log(d, "\"leading\":1", 5000));
}

Test(daemon_cli, sigint_stops_it_like_sigterm) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){0});
    cluster_works(&s, "q");
    daemon_signal(d, SIGINT);
    cr_assert_eq(daemon_wait_exit(d, 5000).code, 0);
    cr_assert_eq(daemon_log_count(d, "released the lock"), 1);
    cr_assert_eq(redis_int(s.r, "EXISTS sidecar:g:lock"), 0);
}

Test(daemon_cli, a_hundred_queues_fit_in_8_mib) {
    enum { QUEUES = 100, PLAIN_KIB = 8 * 1024, TLS_KIB = 4 * 1024 }; /* docs/benchmarks.md tells what TLS takes */
    char *queues = cluster_queues("", "q", QUEUES);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = queues});
    for (int i = 0; i < QUEUES; i++)
        redis_ok(s.r, "EVAL %s 1 q%d:delayed", "for i = 1, 1000 do redis.call('ZADD', KEYS[1], i, i .. string.rep('x', 100)) end",
                 i);
    for (int i = 0; i < QUEUES; i++) cr_assert(wait_reaches(redis_int(s.r, "LLEN q%d", i), 1000, 10000));
    if (daemon_is_sanitized(d)) cr_skip_test("memory is measured without sanitizers");
    long most_kib = tls_harness_is_on() ? PLAIN_KIB + TLS_KIB : PLAIN_KIB;
    cr_assert_leq(daemon_rss_kib(d), most_kib, "%ld KiB", daemon_rss_kib(d));
}

Test(daemon_cli, check_does_not_call_a_single_server_a_cluster) {
    scoped(server_drop) server_t *server = server_start(&(server_options_t){.tcp = true});
    char *text = kept_printf("redis = { nodes = [\"127.0.0.1:%d\"]; };\nqueues = ( { name = \"q\"; } );\n", server_port(server));
    char *path = temp_file("nodes.cfg", text);
    const daemon_output_t *check = daemon_run("check", "--redis", "-c", path);
    cr_assert_eq(check->code, 1);
    cr_assert_not_null(strstr(check->err, "FAULT    cluster, no primary is known"), "%s", check->err);
    cr_assert_not_null(strstr(check->err, "this server is no Cluster"), "%s", check->err);
}
