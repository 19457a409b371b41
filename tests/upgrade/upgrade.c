#include "upgrade.h"

#include "child.h"
#include "tempdir.h"

#include <signal.h>
#include <stdarg.h>

enum { BUILD_MS = 600000, SKIPPED = 77 };

/* The path that build.sh prints; owned by the caller. */
static char *build_previous(void) {
    const char *required = getenv("QS_CLIENTS_REQUIRED");
    char *dir = temp_dir("build"), *out = temp_path(dir, "out"), *err = temp_path(dir, "err");
    const char *const argv[] = {"sh", "tests/upgrade/build.sh", NULL};
    scoped(child_drop) child_t *child = child_start(&(child_spec_t){.argv = argv, .out = out, .err = err});
    cr_assert(child_wait(child, BUILD_MS), "tests/upgrade/build.sh did not end in time");
    char *path = temp_read(out), *why = temp_read(err);
    path[strcspn(path, "\n")] = why[strcspn(why, "\n")] = '\0';
    if (child->exit_code == SKIPPED && (!required || strcmp(required, "1") != 0)) cr_skip("%s", why);
    cr_assert_eq(child->exit_code, 0, "%s", why);
    return path;
}

const char *upgrade_program(program_t program) {
    static char *previous; /* static, so that the leak checker does not report it */
    if (program == CURRENT) return daemon_program();
    if (!previous) previous = build_previous();
    return previous;
}

static const daemon_output_t *shell(program_t program, const char *format, va_list arguments) {
    char *variable = NULL, *line = NULL;
    if (asprintf(&variable, "PROGRAM=%s", upgrade_program(program)) < 0 || vasprintf(&line, format, arguments) < 0) abort();
    const daemon_options_t options = {.binary = "/bin/sh", .env = (const char *const[]){variable, NULL}};
    const daemon_output_t *done = daemon_run_argv(&options, (const char *const[]){"-c", line, NULL});
    free(variable), free(line);
    return done;
}

const daemon_output_t *upgrade_shell(program_t program, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const daemon_output_t *done = shell(program, format, arguments);
    va_end(arguments);
    return done;
}

void upgrade_expect_kept(const char *what, const char *previous, const char *current) {
    char *copy = kept(strdup(previous)), *all = NULL, *rest = NULL;
    if (!copy || asprintf(&all, "\n%s\n", current) < 0) abort();
    cr_expect(*copy, "%s: the previous release prints nothing", what);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *whole = kept_printf("\n%s\n", line);
        cr_expect(strstr(all, whole), "%s: this release lacks \"%s\"", what, line);
    }
    free(all);
}

void upgrade_expect_same(const char *format, ...) {
    const daemon_output_t *of[PROGRAMS];
    for (program_t program = PREVIOUS; program < PROGRAMS; program++) {
        va_list arguments;
        va_start(arguments, format);
        of[program] = shell(program, format, arguments);
        va_end(arguments);
        cr_expect_eq(of[program]->code, 0, "%s: %s", format, of[program]->err);
    }
    upgrade_expect_kept(format, of[PREVIOUS]->out, of[CURRENT]->out);
}

long long upgrade_lua(redis_t *r, const char *expression) {
    static const char functions[] =
        "local function count(of, fits) local n = 0 for _, v in ipairs(of) do if fits(v) then n = n + 1 end end return n end "
        "local function records(stream, kind) return count(redis.call('XRANGE', stream, '-', '+'), "
        "function(v) return string.find(table.concat(v[2], ' '), 'kind ' .. kind, 1, true) end) end "
        "local function above(hash, most) return count(redis.call('HVALS', hash), function(v) return tonumber(v) > most end) end "
        "local function found(list, text) return count(redis.call('LRANGE', list, 0, -1), "
        "function(v) return string.find(v, text) end) end ";
    char *script = kept_printf("%slocal value = %s return value == true and 1 or tonumber(value) or 0", functions, expression);
    return redis_int(r, "EVAL %s 0", script);
}

daemon_t *upgrade_sidecar(cluster_t *cluster, program_t program, sidecar_t spec, const char *log) {
    char *config = cluster_config(cluster, spec), *variable = NULL;
    if (log && asprintf(&variable, "QUEUE_SIDECAR_AUDIT_PATH=%s", log) < 0) abort();
    const char *const env[] = {variable, NULL};
    cr_assert_lt(cluster->count, CLUSTER_SIDECARS);
    daemon_t *d = daemon_start_with(&(daemon_options_t){.binary = upgrade_program(program), .env = env}, "%s", config);
    free(variable);
    return cluster->sidecars[cluster->count++] = d;
}

bool upgrade_leads(redis_t *r, const daemon_t *d) {
    static const char script[] = "local term, pid = string.match(redis.call('HGET', KEYS[2], '') or '', '^(%S+) %d+ .*/(%d+)$') "
                                 "return term == redis.call('GET', KEYS[1]) and tonumber(pid) or 0";
    return redis_int(r, "EVAL %s 2 sidecar:g:lock sidecar:g:queues", script) == daemon_pid(d);
}

bool upgrade_stands_by(redis_t *r, const daemon_t *d) {
    static const char script[] = "for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do "
                                 "if string.match(name, '/(%d+)$') == ARGV[1] then return 1 end end return 0";
    return redis_int(r, "EVAL %s 1 sidecar:g:standbys %d", script, (int)daemon_pid(d)) == 1;
}

pair_t pair_begin(program_t leader, sidecar_t spec) {
    upgrade_program(PREVIOUS);
    pair_t pair = {.cluster = cluster_begin(NULL), .leader = leader};
    const program_t order[] = {leader, other_than(leader)};
    for (int i = 0; i < PROGRAMS; i++) {
        daemon_t *d = pair.sidecars[order[i]] = upgrade_sidecar(&pair.cluster, order[i], spec, NULL);
        pair.logs[order[i]] = daemon_audit_path(d);
        await(&pair.cluster, i ? upgrade_stands_by(pair.cluster.r, d) : upgrade_leads(pair.cluster.r, d));
    }
    return pair;
}

void pair_take_over(pair_t *pair, int signal) {
    daemon_t *ends = pair->sidecars[pair->leader], *follows = pair->sidecars[other_than(pair->leader)];
    cr_assert(upgrade_leads(pair->cluster.r, ends));
    if (signal == SIGKILL)
        daemon_kill(ends);
    else
        cr_assert_eq(daemon_terminate(ends, UPGRADE_MS).code, 0);
    await(&pair->cluster, upgrade_leads(pair->cluster.r, follows));
    daemon_restart(ends);
    await(&pair->cluster, upgrade_stands_by(pair->cluster.r, ends));
    pair->leader = other_than(pair->leader);
}

void pair_stop(const pair_t *pair) {
    for (int i = 0; i < PROGRAMS; i++) cr_assert_eq(daemon_terminate(pair->sidecars[i], UPGRADE_MS).code, 0);
}
