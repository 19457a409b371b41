/* An auditor whose ticks a test calls, its log and its server. */
#ifndef QS_TEST_AUDITOR_DESK_H
#define QS_TEST_AUDITOR_DESK_H

#include "audit_log.h"
#include "auditor/auditor.h"
#include "fixture.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    fixture_t f;
    crew_t crew;
    auditor_t *auditor;
    char *dir, *path, *config;
    const char *audit; /* more settings of the section audit; NULL: none */
} desk_t;

__attribute__((unused)) static void start(desk_t *d) {
    crew_start(&d->crew, d->f.keys, 0);
    d->auditor = auditor_new(d->f.keys, d->crew.leases, d->crew.metrics, &d->crew.stage.role.stop);
    stage_add(&d->crew.stage, auditor_tick, d->auditor);
}

__attribute__((unused)) static void stop(desk_t *d) {
    auditor_free(d->auditor);
    crew_stop(&d->crew);
}

/* `below` is put between the directory of the test and the file's name. */
__attribute__((unused)) static void open_desk(desk_t *d, fixture_options_t options, const char *below, const char *settings,
                                              const char *queues) {
    d->dir = temp_dir("log");
    d->path = mem_printf("%s/%saudit.db", d->dir, below);
    d->config = mem_printf("group = \"app\"; audit = { path = \"%s\"; retain = \"3650d\"; %s }; %s queues = ( %s );", d->path,
                           d->audit ? d->audit : "", settings, queues ? queues : "{ name = \"email\"; }");
    options.config = d->config;
    options.closed = true;
    d->f = fixture_start(&options);
    start(d);
}

__attribute__((unused)) static void close_desk(desk_t *d) {
    stop(d);
    fixture_stop(&d->f);
    free(d->config);
    free(d->path);
    free(d->dir);
}

__attribute__((unused)) static void restart(desk_t *d) {
    stop(d);
    start(d);
}

__attribute__((unused)) static void expect_rows(desk_t *d, long long rows) {
    if (stage_until(&d->crew.stage, audit_log_rows(d->path) == rows, 30000)) return;
    char *log = fixture_log();
    cr_assert_fail("%lld rows, %lld were expected\n%s", audit_log_rows(d->path), rows, log);
}

__attribute__((unused)) static void settle(desk_t *d) { stage_settle(&d->crew.stage, d->f.r); }

__attribute__((unused)) static void copy_file(const char *from, const char *to) {
    char *command = mem_printf("cp '%s' '%s'", from, to);
    cr_assert_eq(system(command), 0);
    free(command);
}

/* A desk whose log has so many rows, all of them in the one file. */
__attribute__((unused)) static void open_merged(desk_t *d, int rows) {
    open_desk(d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d->f.r, "email", 0, rows, "1");
    expect_rows(d, rows);
    restart(d);
    settle(d);
}

/* Works until the acknowledgement of the queue begins with this text. */
__attribute__((unused)) static void expect_acknowledged(desk_t *d, const char *queue, const char *position) {
    char *key = mem_printf("sidecar:%s:auditors", queue), *found = NULL;
    bool done =
        stage_until(&d->crew.stage,
                    (free(found), found = redis_str(d->f.r, "EVAL %s 1 %s", "return redis.call('HVALS', KEYS[1])[1] or ''", key),
                     strncmp(found, position, strlen(position)) == 0),
                    10000);
    cr_assert(done, "acknowledged is %s, %s was expected", found, position);
    free(found);
    free(key);
}

__attribute__((unused)) static long long gaps(desk_t *d) {
    return audit_log_int(d->path, "SELECT count(*) FROM events WHERE kind = 'gap'");
}
__attribute__((unused)) static metrics_t *of(desk_t *d) { return d->crew.metrics; }

#endif
