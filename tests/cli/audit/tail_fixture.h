/* A process of `queue-sidecar audit tail`, its output, and the log that it reads. */
#pragma once

#include "audit/audit.h"
#include "audit_case.h"
#include "child.h"
#include "daemon.h"
#include "tempdir.h"
#include "wait.h"

typedef struct {
    char *out, *err;
    child_t *child;
} tail_t;

static inline void put(const char *db, const char *kind, int from, int to) {
    scoped(audit_drop) audit_t *audit = audit_case_open(db, AUDIT_WRITE);
    for (int n = from; n <= to; n++) {
        audit_case_event_t of;
        audit_case_event(&of, kind, n, INT64_C(1763690400000) + n);
        cr_assert(audit_case_put(audit, &of.event));
    }
}

/* Tails the log with up to six more words, with a variable of the environment or none. */
static inline tail_t start_in(const char *variable, const char *db, const char *const *words) {
    char *dir = temp_dir("tail");
    tail_t tail = {.out = temp_path(dir, "out"), .err = temp_path(dir, "err")};
    const char *argv[16] = {daemon_program(), "audit", "tail", "--db", db};
    for (size_t i = 0; words[i]; i++) argv[5 + i] = words[i];
    const char *const env[] = {variable, NULL};
    tail.child = child_start(&(child_spec_t){.argv = argv, .env = env, .out = tail.out, .err = tail.err});
    return tail;
}

static inline tail_t start(const char *db, const char *const *words) { return start_in(NULL, db, words); }

static inline void finish(tail_t *tail) { child_free(tail->child); }

/* The jobs of the jsonl lines so far, "1 2 3 ". */
static inline char *jobs(const tail_t *tail) {
    char *text = temp_read(tail->out);
    buffer_t got = {0};
    for (const char *at = text; (at = strstr(at, "\"job_id\":\"job-")); at++)
        buffer_printf(&got, "%d ", atoi(at + strlen("\"job_id\":\"job-")));
    return kept(got.data ? got.data : mem_str(""));
}

static inline bool shows(const tail_t *tail, const char *expected) { return strcmp(jobs(tail), expected) == 0; }

static inline bool mentions(const char *path, const char *part) { return strstr(temp_read(path), part) != NULL; }

static inline void expect(const tail_t *tail, const char *expected) {
    if (wait_for(shows(tail, expected), 10000)) return;
    char *got = jobs(tail), *err = temp_read(tail->err);
    cr_assert(false, "\"%s\" instead of \"%s\": %s", got, expected, err);
}

/* The number of times that tail has slept. It sleeps between two polls. */
static inline long count_sleeps(const tail_t *tail) {
    static const char field[] = "\nvoluntary_ctxt_switches:";
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)tail->child->pid);
    char *text = temp_read(path), *at = strstr(text, field);
    cr_assert_not_null(at, "%s", text);
    return strtol(at + strlen(field), NULL, 10);
}

static inline void expect_silence(const tail_t *tail) { cr_expect_str_empty(temp_read(tail->err)); }
