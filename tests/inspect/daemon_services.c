/* The whole program behind a proxy that refuses what a managed service refuses (tests/data/services.tsv): delayed jobs, stalls
 * and reports still move, or `check --redis` and the log say what the service lacks. */
#include "audit_log.h"
#include "cluster.h"
#include "proxy.h"
#include "tempdir.h"

#include <criterion/parameterized.h>

enum { SERVICES = 14, FIELDS = 5 };
static const char TABLE[] = "tests/data/services.tsv", GUIDE[] = "docs/services.md";

#define BOTH "roles = [\"dispatcher\", \"monitor\"];"
#define QUEUES                                                                                                                   \
    "{ name = \"fast\"; " BOTH " heartbeat = \"off\"; protected_timeout = \"300ms\"; retry_times = 1; },"                        \
    "{ name = \"slow\"; " BOTH " heartbeat = \"off\"; protected_timeout = \"1h\"; retry_times = 1; retry_window = \"24h\"; }"

#define await(cluster, cond)                                                                                                     \
    do {                                                                                                                         \
        if (!wait_for(cond, 20000)) cluster_fail(cluster, "still false: " #cond);                                                \
    } while (0)

/* Borrowed from `text`. */
typedef struct {
    char *text;
    const char *name, *verdict, *refused, *error, *source;
} service_t;

static service_t service_read(int number) {
    service_t service = {.text = temp_read(TABLE)};
    char *rest = NULL;
    int count = 0;
    for (char *line = strtok_r(service.text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (*line == '#' || count++ != number) continue;
        const char **const fields[FIELDS] = {&service.name, &service.verdict, &service.refused, &service.error, &service.source};
        for (int i = 0; i < FIELDS; i++) {
            *fields[i] = line;
            line += strcspn(line, "\t");
            if (*line) *line++ = '\0';
        }
    }
    cr_assert_eq(count, SERVICES, "%s has %d rows", TABLE, count);
    return service;
}

static bool is(const service_t *service, const char *verdict) { return strcmp(service->verdict, verdict) == 0; }

static proxy_t *service_start(const cluster_t *s, const service_t *service) {
    proxy_t *proxy = proxy_start(server_socket(s->server));
    char *refused = kept(strdup(service->refused)), *rest = NULL;
    for (char *request = strtok_r(refused, ",", &rest); request; request = strtok_r(NULL, ",", &rest)) {
        bool anywhere = *request == '*';
        proxy_rule(
            proxy,
            (proxy_rule_t){
                .action = PROXY_REFUSE, .match = request + anywhere, .begins = !anywhere, .error = service->error, .times = -1});
    }
    return proxy;
}

static void take(cluster_t *s, const char *queue) {
    await(s, redis_int(s->r, "LLEN %s", queue) == 1);
    redis_expect(s->r, "job", "LMOVE %s %s:backup RIGHT LEFT", queue, queue);
}

/* A delayed job of each queue comes; one worker dies twice, the other reports twice. */
static void expect_jobs_flow(cluster_t *s, daemon_t *d) {
    cluster_delay(s->r, "fast", "job", 700);
    cluster_delay(s->r, "slow", "job", 0);
    take(s, "slow");
    redis_ok(s->r, "HSET slow:errors job boom");
    take(s, "slow");
    redis_ok(s->r, "HSET slow:errors job !no");
    await(s, redis_int(s->r, "XLEN sidecar:slow:failures") == 2); /* a retry and an end */
    take(s, "fast");
    take(s, "fast");
    await(s, redis_int(s->r, "XLEN sidecar:fast:failures") == 2);
    await(s, audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'failed'") == 2);
    cr_assert_eq(redis_int(s->r, "EXISTS fast slow fast:delayed slow:delayed slow:errors"), 0);
}

static void expect_goes_on(cluster_t *s, const service_t *service, const proxy_t *proxy) {
    int blind = is(service, "blind");
    daemon_t *d = cluster_sidecar_up(s, (sidecar_t){.ttl = "20s", .socket = proxy_socket(proxy), .queues = QUEUES});
    expect_jobs_flow(s, d);
    cr_assert_eq(cluster_kill_connections(s->r, "-leader") > 0, true);
    await(s, daemon_log_count(d, "\"msg\":\"leading\"") && cluster_connections(s->r, "-leader") > 0);
    cluster_delay(s->r, "slow", "job", 0);
    take(s, "slow");
    char *config = cluster_config_file(s, (sidecar_t){.ttl = "20s", .socket = proxy_socket(proxy), .queues = QUEUES});
    const daemon_output_t *status = cluster_status(d, config);
    cr_assert(status->code == 0 && strstr(status->out, "\"well\":true"), "%s: %s", service->name, status->out);
    cr_assert_eq(daemon_log_count(d, "redis refuses client tracking"), blind, "%s", service->name);
    cr_assert_eq(daemon_log_count(d, "\"level\":\"error\""), blind, "%s", service->name);
    static const char *const commands[] = {"CLIENT SETNAME", "ROLE", "INFO server", "INFO memory", "SCRIPT LOAD with #!lua"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *line = kept_printf("\"command\":\"%s\"", commands[i]);
        cr_assert_leq(daemon_log_count(d, line), 1, "%s: %s is logged at each connect", service->name, line);
    }
}

static void expect_checked(const cluster_t *s, const service_t *service, const proxy_t *proxy) {
    char *config = cluster_config_file(s, (sidecar_t){.socket = proxy_socket(proxy), .queues = QUEUES});
    char *audit = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s.db", config);
    const daemon_options_t options = {.env = (const char *const[]){audit, NULL}};
    const daemon_output_t *out = daemon_run_argv(&options, (const char *const[]){"check", "-c", config, "--redis", NULL});
    bool good = !is(service, "refused");
    cr_assert_eq(out->code, good ? 0 : 1, "%s: %s%s", service->name, out->out, out->err);
    cr_assert_eq(strstr(out->err, "preflight passed") != NULL, good, "%s: %s", service->name, out->err);
    cr_assert_eq(strstr(out->err, "waking up on a change is refused") != NULL, is(service, "blind"), "%s: %s", service->name,
                 out->err);
    if (!good) cr_assert(strstr(out->err, "the server has no "), "%s: %s", service->name, out->err);
}

static void expect_refused(cluster_t *s, const proxy_t *proxy) {
    daemon_t *d = cluster_sidecar(s, (sidecar_t){.socket = proxy_socket(proxy), .queues = QUEUES});
    await(s, daemon_log_count(d, "the server has no ") > 0);
    cr_assert_eq(daemon_log_count(d, "\"msg\":\"leading\""), 0);
    cr_assert_eq(redis_int(s->r, "DBSIZE"), 0);
}

ParameterizedTestParameters(daemon_services, each_works_or_is_refused_as_the_docs_say) {
    static int numbers[SERVICES];
    for (int i = 0; i < SERVICES; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, SERVICES);
}

ParameterizedTest(int *number, daemon_services, each_works_or_is_refused_as_the_docs_say, .timeout = 120) {
    cluster_t s = cluster_begin(NULL);
    service_t service = service_read(*number);
    proxy_t *proxy = service_start(&s, &service);
    expect_checked(&s, &service, proxy);
    if (is(&service, "refused"))
        expect_refused(&s, proxy);
    else
        expect_goes_on(&s, &service, proxy);
    cluster_end(&s);
    proxy_stop(proxy);
    free(service.text);
}

/* The page for people says the same. */
Test(daemon_services, the_docs_have_each_verdict) {
    static const char *const words[][2] = {{"works", "works"}, {"blind", "works without wake-ups"}, {"refused", "refused"}};
    char *guide = temp_read(GUIDE);
    for (int i = 0; i < SERVICES; i++) {
        service_t service = service_read(i);
        for (size_t w = 0; w < 3; w++) {
            if (!is(&service, words[w][0])) continue;
            char *row = kept_printf("| %s | %s |", service.name, words[w][1]);
            cr_expect_not_null(strstr(guide, row), "%s lacks %s", GUIDE, row);
        }
        free(service.text);
    }
}
