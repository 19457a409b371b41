/* A sidecar with a token file, a log of some failures, and requests to its API. */
#pragma once

#include "audit_log.h"
#include "http_fixture.h"
#include "tempdir.h"

#define ALL   "alice-token-0123456789"
#define LOOK  "bob-token-0123456789"
#define NONE  NULL
#define LINES "alice look,payloads,act " ALL "\nbob look " LOOK "\n"

typedef struct {
    const char *method; /* GET */
    const char *token;  /* none */
    const char *host;   /* localhost */
    const char *more;   /* header lines, each with its line end */
    const char *body;   /* none; sent as application/json unless `type` says otherwise */
    const char *type;
} call_t;

/* Returns head and body of the answer. Kept. */
static inline char *call(int port, const char *path, call_t of) {
    char *token = of.token ? kept_printf("Authorization: Bearer %s\r\n", of.token) : kept_printf("%s", "");
    char *body = of.body ? kept_printf("Content-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
                                       of.type ? of.type : "application/json", strlen(of.body), of.body)
                         : kept_printf("\r\n");
    return ask(port,
               kept_printf("%s /api/v1%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s%s%s", of.method ? of.method : "GET",
                           path, of.host ? of.host : "localhost", token, of.more ? of.more : "", body));
}

static inline char *look(int port, const char *path) { return call(port, path, (call_t){.token = ALL}); }
static inline char *order(int port, const char *body) {
    return call(port, "/answers", (call_t){.method = "POST", .token = ALL, .body = body});
}
static inline int code_of(const char *answer) { return atoi(answer + strlen("HTTP/1.1 ")); }
static inline char *body_of(char *answer) {
    char *end = strstr(answer, "\r\n\r\n");
    return end ? end + 4 : answer;
}

#define expect_code(code, answer)                                                                                                \
    do {                                                                                                                         \
        const char *answer_ = (answer);                                                                                          \
        cr_expect_eq(code_of(answer_), code, "not %d: %s", code, answer_);                                                       \
    } while (0)
#define expect_says(answer, part)                                                                                                \
    do {                                                                                                                         \
        const char *answer_ = (answer);                                                                                          \
        cr_expect(strstr(answer_, part), "lacks %s: %s", part, answer_);                                                         \
    } while (0)

/* The text of the first member of that name in JSON, as it stands there. Kept. */
static inline char *member(const char *json, const char *name) {
    char *wanted = kept_printf("\"%s\":\"", name);
    const char *at = strstr(json, wanted);
    cr_assert(at, "no %s: %s", name, json);
    at += strlen(wanted);
    return kept_printf("%.*s", (int)strcspn(at, "\""), at);
}

static inline int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) count++;
    return count;
}

/* Begins a cluster of one sidecar with tokens, whose log has `failures` failures of queue q. */
static inline daemon_t *api_begin(cluster_t *cluster, int failures, int *port, sidecar_t spec) {
    const char *tokens = temp_file("tokens", LINES);
    spec.http = kept_printf("token_file = \"%s\"; %s", tokens, spec.http ? spec.http : "");
    daemon_t *d = leading(cluster, spec, port);
    audit_log_feed(cluster->r, "q", 0, failures, NULL);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == failures, 30000));
    return d;
}
