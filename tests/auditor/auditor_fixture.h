/* A setup with an auditor, its log and its Redis. The tests call the ticks of the auditor. */
#pragma once

#include "audit_log.h"
#include "auditor/auditor.h"
#include "fixture.h"
#include "tempdir.h"

typedef struct {
    fixture_t f;
    instance_t instance;
    auditor_t *auditor;
    char *dir, *path, *config;
    const char *audit; /* more settings of the section audit; NULL: none */
} setup_t;

__attribute__((unused)) static void start(setup_t *d) {
    instance_start(&d->instance, d->f.keys, 0);
    d->auditor =
        auditor_new(d->f.keys, d->instance.shard, d->instance.leases, d->instance.metrics, &d->instance.driver.role.stop);
    driver_add(&d->instance.driver, auditor_tick, d->auditor);
}

__attribute__((unused)) static void stop(setup_t *d) {
    auditor_free(d->auditor);
    d->auditor = NULL;
    instance_stop(&d->instance);
}

/* `below`: directories between the test's directory and the file. */
__attribute__((unused)) static void open_auditor(setup_t *d, fixture_options_t options, const char *below, const char *settings,
                                                 const char *queues) {
    d->dir = temp_dir("log");
    d->path = kept_printf("%s/%saudit.db", d->dir, below);
    d->config = kept_printf("group = \"app\"; audit = { path = \"%s\"; retain = \"3650d\"; %s }; %s queues = ( %s );", d->path,
                            d->audit ? d->audit : "", settings, queues ? queues : "{ name = \"email\"; }");
    options.config = d->config;
    options.closed = true;
    d->f = fixture_start(&options);
    start(d);
}

__attribute__((unused)) static void close_auditor(setup_t *d) {
    stop(d);
    fixture_stop(&d->f);
}

__attribute__((unused)) static void restart(setup_t *d) {
    stop(d);
    start(d);
}

__attribute__((unused)) static void expect_rows(setup_t *d, long long rows) {
    if (driver_until(&d->instance.driver, audit_log_rows(d->path) == rows, 30000)) return;
    char *log = fixture_log();
    cr_assert_fail("%lld rows, %lld were expected\n%s", audit_log_rows(d->path), rows, log);
}

__attribute__((unused)) static void settle(setup_t *d) { driver_settle(&d->instance.driver, d->f.r); }

__attribute__((unused)) static void copy_file(const char *from, const char *to) {
    char *command = kept_printf("cp '%s' '%s'", from, to);
    cr_assert_eq(system(command), 0);
}

/* Starts an auditor whose log has `rows` rows, all of them checkpointed. */
__attribute__((unused)) static void open_checkpointed(setup_t *d, int rows) {
    open_auditor(d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d->f.r, "email", 0, rows, "1");
    expect_rows(d, rows);
    restart(d);
    settle(d);
}

/* Ticks until the acknowledgement of the queue begins with this text. */
__attribute__((unused)) static void expect_acknowledged(setup_t *d, const char *queue, const char *position) {
    char *key = kept_printf("sidecar:%s:auditors", queue), *found = NULL;
    bool done =
        driver_until(&d->instance.driver,
                     (free(found), found = redis_str(d->f.r, "EVAL %s 1 %s", "return redis.call('HVALS', KEYS[1])[1] or ''", key),
                      strncmp(found, position, strlen(position)) == 0),
                     10000);
    cr_assert(done, "acknowledged is %s, %s was expected", found, position);
    free(found);
}

__attribute__((unused)) static long long gaps(setup_t *d) {
    return audit_log_int(d->path, "SELECT count(*) FROM events WHERE kind = 'gap'");
}
__attribute__((unused)) static metrics_t *metrics_of(setup_t *d) { return d->instance.metrics; }

/* Another auditor acknowledges the whole stream. */
__attribute__((unused)) static void other_copies(setup_t *d) {
    redis_ok(d->f.r, "EVAL %s 2 sidecar:email:auditors sidecar:email:failures",
             "local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1][1] "
             "redis.call('HSET', KEYS[1], 'other', last .. ' ' .. redis.call('TIME')[1] .. '000')");
}

/* Lets the XREAD that waits return, so that the auditor runs its timers. */
__attribute__((unused)) static void end_wait(setup_t *d) {
    char *rest = redis_str(d->f.r, "CLIENT LIST");
    for (char *line; (line = strtok_r(rest, "\n", &rest));)
        if (strstr(line, " name=queue-sidecar-auditor ")) redis_ok(d->f.r, "CLIENT UNBLOCK %lld", atoll(line + strlen("id=")));
}
