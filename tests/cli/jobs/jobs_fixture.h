/* For tests of `queue-sidecar jobs`: a server, delayed jobs, the command line, and where each job is. */
#pragma once

#include "audit_log.h"
#include "cluster.h"
#include "kept.h"
#include "scoped.h"
#include "suite.h"
#include "tempdir.h"
#include "text.h"
#include "wait.h"

static cluster_t s;

enum { MS = 30000, JOBS_WORDS = 16, LATER = 3600000 };
#define QUEUE "{ name = \"q\"; id_path = \"/id\"; type_path = \"/type\"; trace_path = \"/t\"; on_failure = \"told\"; }"

#define await(cond)                                                                                                              \
    do {                                                                                                                         \
        if (!wait_for(cond, MS)) cluster_fail(&s, "never came: " #cond);                                                         \
    } while (0)

static inline const daemon_output_t *run_words(const char *config, const char *crash, const char *const *words) {
    const char *argv[JOBS_WORDS + 4] = {"jobs"};
    size_t n = 1;
    for (; *words; words++) argv[n++] = *words;
    argv[n++] = "-c";
    argv[n++] = config;
    char *variable = kept_printf("QS_CRASH_AT=%s", crash ? crash : "");
    const daemon_options_t options = {.env = (const char *const[]){variable, NULL}};
    return daemon_run_argv(crash ? &options : NULL, argv);
}
#define jobs_with(config, ...) run_words(config, NULL, (const char *const[]){__VA_ARGS__, NULL})
#define jobs(...)              jobs_with(config(), __VA_ARGS__)
#define jobs_crash(point, ...) run_words(config(), point, (const char *const[]){__VA_ARGS__, NULL})

/* The config of a CLI without a sidecar; made once. */
static inline const char *config(void) {
    static char *path;
    if (!path) path = cluster_config_file(&s, (sidecar_t){.queues = QUEUE});
    return path;
}

static inline daemon_t *sidecar(void) { return cluster_sidecar_up(&s, (sidecar_t){.queues = QUEUE, .scan = "50ms"}); }

/* Delays the jobs 0 to count - 1 by `ms` and one more each. */
static inline void delay(int count, long long ms) {
    redis_ok(
        s.r, "EVAL %s 1 q:delayed %s %s",
        "local t = redis.call('TIME') local now = t[1] * 1000 + ARGV[2] for i = 0, ARGV[1] - 1 do redis.call('ZADD', KEYS[1], "
        "now + i, '{\"id\":\"j' .. i .. '\",\"type\":\"' .. (i % 2 == 0 and 'even' or 'odd') .. '\"}') end",
        kept_printf("%d", count), kept_printf("%lld", ms));
}

static inline long long delayed(void) { return redis_int(s.r, "ZCARD q:delayed"); }
static inline long long ready(void) { return redis_int(s.r, "LLEN q"); }
static inline long long records(void) { return redis_int(s.r, "XLEN sidecar:q:failures"); }

/* Of each of the jobs: the number of its copies in delayed and ready, and of its records. Returns how many have not exactly one.
 */
static inline long long not_once(int count) {
    return redis_int(s.r, "EVAL %s 4 q:delayed q sidecar:q:failures q:taken %s",
                     "local n = {} local function add(job) local id = string.match(job, 'j%d+') n[id] = (n[id] or 0) + 1 end "
                     "for _, job in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do add(job) end "
                     "for _, list in ipairs({KEYS[2], KEYS[4]}) do "
                     "for _, job in ipairs(redis.call('LRANGE', list, 0, -1)) do add(job) end end "
                     "for _, e in ipairs(redis.call('XRANGE', KEYS[3], '-', '+')) do for i = 1, #e[2], 2 do "
                     "if e[2][i] == 'payload' then add(e[2][i + 1]) end end end "
                     "local wrong = 0 for i = 0, ARGV[1] - 1 do if n['j' .. i] ~= 1 then wrong = wrong + 1 end end return wrong",
                     kept_printf("%d", count));
}

static inline int number_of(const daemon_output_t *out, const char *name) {
    char *at = strstr(out->out, kept_printf("\"%s\":", name));
    cr_assert_not_null(at, "%s%s", out->out, out->err);
    return atoi(at + strlen(name) + 3);
}
