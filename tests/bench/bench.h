// Common functions of the benchmarks: Redis, the sidecar as a child process, medians, and the lines of the tables.
//
// Usage of each tool: bench_NAME DIR SIDECAR. DIR holds redis.sock, and gets configs and logs; SIDECAR is the program.
// Environment: BENCH_ROUNDS (5), BENCH_SECONDS (3, length of a lateness round). The exit code tells whether every goal was
// met.
#pragma once

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH_GROUP      "bench"
#define BENCH_MAX_ROUNDS 99

typedef struct bench {
    const char *dir;
    const char *sidecar;
    int rounds;
    int missed; // number of goals that were missed
} bench_t;

// Settings of one run of the sidecar; 0 or NULL = the default. Queues are called q0, q1, ...
typedef struct sidecar_options {
    const char *name;    // name of the config file and of the log file
    int queues;          // default 1
    int batch;           // default: the sidecar's
    const char *socket;  // name in DIR, default redis.sock
    const char *redis;   // the settings of Redis, in place of the socket; NULL = none
    const char *ttl;     // default 5s
    const char *monitor; // heartbeat; adds the role monitor, with the shortest scan interval; NULL = no monitor
    const char *scan;    // the scan interval; NULL = the default
    const char *queue;   // a queue's group of the config, instead of q0, ...; NULL = none
    const char *audit;   // further settings of the audit log; NULL = none
} sidecar_options_t;

static inline void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static inline long env_number(const char *name, long fallback) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : fallback;
}

static inline bench_t bench_begin(int argc, char **argv) {
    if (argc != 3) die("usage: %s DIR SIDECAR", argv[0]);
    long rounds = env_number("BENCH_ROUNDS", 5);
    if (rounds < 1 || rounds > BENCH_MAX_ROUNDS) die("BENCH_ROUNDS: 1 to %d", BENCH_MAX_ROUNDS);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL); // inherited by the threads that are started from here
    return (bench_t){.dir = argv[1], .sidecar = argv[2], .rounds = (int)rounds};
}

static inline int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        die("no free port");
    close(fd);
    return ntohs(address.sin_port);
}

// The clock that Redis's TIME shows, in us.
static inline int64_t wall_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t mono_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Gives the calling thread real-time priority, if it has the right to. A thread that reads the clock at a reply needs this. With
// normal priority the thread also waits for a processor: if Redis and a busy client have the two cores, for a time slice of 3 ms
// (seen by `perf sched timehist`).
static inline void use_realtime_priority(void) {
    const struct sched_param first = {.sched_priority = 1};
    static bool warned;
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) == 0 || warned) return;
    warned = true;
    fprintf(stderr, "bench: without the right to real-time priority times include the wait for a processor\n");
}

static inline void sleep_us(int64_t us) {
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (us > 0) nanosleep(&pause, NULL);
}

// xorshift64*, so that each run has the same jobs.
static inline uint64_t random_bits(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static inline double random_unit(uint64_t *state) { return (double)(random_bits(state) >> 11) / 9007199254740992.0; }

static inline redisContext *redis_open(const bench_t *bench) {
    char path[256];
    snprintf(path, sizeof path, "%s/redis.sock", bench->dir);
    redisContext *redis = redisConnectUnix(path);
    if (!redis || redis->err) die("redis: %s", redis ? redis->errstr : "no memory");
    return redis;
}

// A reply that is freed at the end of its scope.
#define scoped_reply __attribute__((cleanup(reply_drop))) redisReply
static inline void reply_drop(redisReply **reply) { freeReplyObject(*reply); }

static inline redisReply *redis_read(redisContext *redis) {
    void *reply = NULL;
    if (redisGetReply(redis, &reply) != REDIS_OK) die("redis: %s", redis->errstr);
    redisReply *got = reply;
    if (got->type == REDIS_REPLY_ERROR) die("redis: %s", got->str);
    return got;
}

static inline redisReply *redis_ask(redisContext *redis, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisvAppendCommand(redis, format, args);
    va_end(args);
    return redis_read(redis);
}

// For commands whose reply is a number, or does not matter.
static inline int64_t redis_do(redisContext *redis, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisvAppendCommand(redis, format, args);
    va_end(args);
    scoped_reply *reply = redis_read(redis);
    int64_t number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    return number;
}

// A number of a section of INFO; 0 = it is not there.
static inline double redis_info(redisContext *redis, const char *section, const char *field) {
    scoped_reply *info = redis_ask(redis, "INFO %s", section);
    const char *at = strstr(info->str, field);
    double number = at ? strtod(at + strlen(field), NULL) : 0;
    return number;
}

// Number of commands that Redis has executed, including commands of scripts, without INFO.
static inline double redis_commands(redisContext *redis) {
    double sum = 0;
    scoped_reply *reply = redis_ask(redis, "INFO commandstats");
    for (const char *at = reply->str; (at = strstr(at, "cmdstat_")); at++) {
        const char *calls = strstr(at, ":calls=");
        if (calls && strncmp(at, "cmdstat_info:", 13) != 0) sum += strtod(calls + 7, NULL);
    }
    return sum;
}

// CPU time of Redis's main thread so far. On a shared machine this is steadier than elapsed time.
static inline double redis_cpu_us(redisContext *redis) {
    static const char *const FIELDS[] = {"used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"};
    double seconds = 0;
    scoped_reply *info = redis_ask(redis, "INFO cpu");
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(info->str, FIELDS[i]);
        if (!at) die("INFO cpu has no %s", FIELDS[i]);
        seconds += strtod(at + strlen(FIELDS[i]), NULL);
    }
    return seconds * 1e6;
}

// The average time of a script since the last CONFIG RESETSTAT.
static inline double us_of_a_script(redisContext *redis) {
    double us = 0;
    scoped_reply *reply = redis_ask(redis, "INFO commandstats");
    const char *stat = strstr(reply->str, "cmdstat_evalsha:"), *each = stat ? strstr(stat, "usec_per_call=") : NULL;
    if (!each || sscanf(each, "usec_per_call=%lf", &us) != 1) die("no time of scripts");
    return us;
}

static inline void write_config(const bench_t *bench, const sidecar_options_t *options, const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) die("cannot write %s", path);
    int queues = options->queues ? options->queues : 1;
    if (options->redis) fprintf(file, "redis = { %s };\n", options->redis);
    if (!options->redis)
        fprintf(file, "redis = { socket = \"%s/%s\"; };\n", bench->dir, options->socket ? options->socket : "redis.sock");
    fprintf(file, "group = \"%s\";\nlock = { ttl = \"%s\"; };\n", BENCH_GROUP, options->ttl ? options->ttl : "5s");
    if (options->batch) fprintf(file, "dispatcher = { batch = %d; };\n", options->batch);
    fprintf(file, "audit = { path = \"%s/%s.db\"; retain = \"3650d\"; %s };\n", bench->dir, options->name,
            options->audit ? options->audit : "");
    const char *scan = options->monitor ? "50ms" : options->scan;
    if (scan) fprintf(file, "monitor = { scan_interval = \"%s\"; };\n", scan);
    fprintf(file, "http = { port = 0; };\nlog = { level = \"info\"; };\nqueues = (\n");
    if (options->queue) fprintf(file, "    %s\n", options->queue);
    for (int i = 0; i < queues && !options->queue; i++)
        fprintf(file, "    { name = \"q%d\"; roles = [\"dispatcher\"%s]; heartbeat = \"%s\"; protected_timeout = \"1h\"; }%s\n",
                i, options->monitor ? ", \"monitor\"" : "", options->monitor ? options->monitor : "off",
                i + 1 < queues ? "," : "");
    fprintf(file, ");\n");
    if (fclose(file) != 0) die("cannot write %s", path);
}

// Starts the sidecar; it dies with the bench.
static inline pid_t sidecar_start(const bench_t *bench, sidecar_options_t options) {
    char config[256];
    char log[256];
    snprintf(config, sizeof config, "%s/%s.cfg", bench->dir, options.name);
    snprintf(log, sizeof log, "%s/%s.log", bench->dir, options.name);
    write_config(bench, &options, config);
    pid_t pid = fork();
    if (pid < 0) die("cannot fork");
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 0UL); // back to the default
    if (!freopen(log, "a", stderr) || !freopen("/dev/null", "w", stdout)) _exit(126);
    execl(bench->sidecar, bench->sidecar, "run", "-c", config, (char *)NULL);
    _exit(127);
}

static inline void sidecar_stop(pid_t pid, int signal_number) {
    kill(pid, signal_number);
    waitpid(pid, NULL, 0);
}

// Waits until the sidecar promotes a due job.
static inline void sidecar_await(redisContext *redis, pid_t pid) {
    redis_do(redis, "ZADD q0:delayed 0 warm-up");
    for (int i = 0; i < 3000; i++) {
        if (waitpid(pid, NULL, WNOHANG) == pid) die("the sidecar ended; see its log");
        scoped_reply *reply = redis_ask(redis, "RPOP q0");
        bool done = reply->type == REDIS_REPLY_STRING;
        if (done) {
            sleep_us(50000); // for the last read of the head, which registers the key for wake-ups
            return;
        }
        sleep_us(5000);
    }
    die("the sidecar promotes nothing");
}

// Waits until a standby subscribes to the vacant channel.
static inline void standby_await(redisContext *redis) {
    for (int64_t subscribers = 0; subscribers == 0; sleep_us(10000)) {
        scoped_reply *reply = redis_ask(redis, "PUBSUB NUMSUB sidecar:" BENCH_GROUP ":vacant");
        subscribers = reply->element[1]->integer;
    }
}

// A field of a file of /proc/PID; 0 = it is not there.
static inline long proc_kib(pid_t pid, const char *name, const char *field) {
    char path[64];
    char line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "r");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0) kib = strtol(line + strlen(field) + 1, NULL, 10);
    if (file) fclose(file);
    return kib;
}

static inline long status_kib(pid_t pid, const char *field) { return proc_kib(pid, "status", field); } // such as VmRSS

static inline int compare_doubles(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static inline double percentile(double *values, size_t count, double share) {
    if (count == 0) return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    size_t rank = (size_t)(share * (double)count);
    return values[rank < count ? rank : count - 1];
}

// One value of each round.
typedef struct series {
    double values[BENCH_MAX_ROUNDS];
    int count;
} series_t;

static inline void series_add(series_t *series, double value) { series->values[series->count++] = value; }

static inline void table_head(const char *title) { printf("\n%-60s %10s %10s %10s   goal\n", title, "median", "min", "max"); }

// One line of a table. `relation` is '<', '>' or 0 for no goal.
static inline void table_row(bench_t *bench, const char *label, series_t *series, int decimals, char relation, double goal) {
    size_t count = (size_t)series->count;
    double median = percentile(series->values, count, 0.5);
    printf("%-60s %10.*f %10.*f %10.*f", label, decimals, median, decimals, series->values[0], decimals,
           series->values[count - 1]);
    if (relation) {
        bool met = relation == '<' ? median <= goal : median >= goal;
        printf("   %c= %g: %s", relation, goal, met ? "met" : "MISSED");
        if (!met) bench->missed++;
    }
    putchar('\n');
}

static inline int bench_end(const bench_t *bench) { return bench->missed ? 1 : 0; }

// Whether the only auditor of q0 has acknowledged the record 1-`last`.
static inline bool acknowledged(redisContext *redis, int last) {
    char position[32];
    scoped_reply *reply = redis_ask(redis, "HVALS sidecar:q0:auditors");
    snprintf(position, sizeof position, "1-%d ", last);
    bool yes = reply->elements == 1 && strncmp(reply->element[0]->str, position, strlen(position)) == 0;
    return yes;
}
