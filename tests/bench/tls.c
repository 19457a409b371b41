// The cost of TLS: promotion, scans, copies to the audit log and memory, each over TLS and over plain TCP in turn, so that the
// ratios are of one run. The server's certificate has a P-256 key.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "pass.h"

enum { JOBS = 200000, ENTRIES = 100000, RECORDS = 100000, STEP = 10000 };

static char settings[2][1024]; // of redis = { }: plain, TLS

// Makes a certificate, and lets Redis listen on two more ports.
static void listen_on_ports(const bench_t *bench, redisContext *redis) {
    char command[2048];
    int plain = free_port();
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext "
             "subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout %s/tls.key -out %s/tls.crt 2>/dev/null",
             bench->dir, bench->dir);
    if (system(command) != 0) die("openssl makes no certificate");
    redis_do(redis, "CONFIG SET port %d", plain);
    int tls = free_port();
    redis_do(redis, "CONFIG SET tls-cert-file %s/tls.crt tls-key-file %s/tls.key tls-auth-clients no tls-port %d", bench->dir,
             bench->dir, tls);
    snprintf(settings[0], sizeof settings[0], "host = \"127.0.0.1\"; port = %d;", plain);
    snprintf(settings[1], sizeof settings[1], "host = \"127.0.0.1\"; port = %d; tls = true; tls_ca_file = \"%s/tls.crt\";", tls,
             bench->dir);
}

// Things that are done in a second, and in a second of processor time of Redis and the sidecar, which other programs disturb
// less.
typedef struct rates {
    double wall;
    double cpu;
} rates_t;

static double cpu_us(redisContext *redis, pid_t pid) {
    clockid_t clock;
    struct timespec used = {0};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) die("no processor time of the sidecar");
    return redis_cpu_us(redis) + (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static rates_t rates(double count, int64_t began_us, double cpu) {
    return (rates_t){.wall = count * 1e6 / (double)(mono_us() - began_us), .cpu = count * 1e6 / cpu};
}

static pid_t start(const bench_t *bench, sidecar_options_t options, int tls) {
    options.redis = settings[tls];
    return sidecar_start(bench, options);
}

static rates_t promote(const bench_t *bench, redisContext *redis, int tls) {
    static const char script[] = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do redis.call('ZADD', KEYS[1], i, "
                                 "string.format('{\"id\":\"%012d\",\"data\":\"%069d\"}', i, 0)) end return 1";
    redis_do(redis, "FLUSHALL");
    for (int i = 1; i <= JOBS; i += STEP) redis_do(redis, "EVAL %s 1 stage %d %d", script, i, i + STEP - 1);
    pid_t pid = start(bench, (sidecar_options_t){.name = tls ? "promote-tls" : "promote-plain"}, tls);
    sidecar_await(redis, pid);
    sleep_us(1500000); // the other roles are connecting
    double cpu = cpu_us(redis, pid);
    int64_t began = mono_us();
    redis_do(redis, "RENAME stage q0:delayed");
    while (redis_do(redis, "LLEN q0") < JOBS) sleep_us(2000);
    rates_t found = rates(JOBS, began, cpu_us(redis, pid) - cpu);
    sidecar_stop(pid, SIGTERM);
    return found;
}

static rates_t scan(const bench_t *bench, redisContext *redis, int tls, int round) {
    static const char script[] = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do redis.call('LPUSH', KEYS[1], "
                                 "string.format('{\"id\":\"%012d\",\"data\":\"%069d\"}', i, 0)) end return 1";
    char name[40];
    snprintf(name, sizeof name, "scan-%d-%s", round, tls ? "tls" : "plain");
    redis_do(redis, "FLUSHALL");
    for (int i = 1; i <= ENTRIES; i += STEP) redis_do(redis, "EVAL %s 1 q0:backup %d %d", script, i, i + STEP - 1);
    pid_t pid = start(bench, (sidecar_options_t){.name = name, .ttl = "60s", .monitor = "off"}, tls);
    passes_await_leading(bench, name);
    counts_t before = passes_await(bench, pid, name, "q0", 2, ENTRIES); // the first scan stamps
    double cpu = cpu_us(redis, pid);
    counts_t after = passes_await(bench, pid, name, "q0", 3, ENTRIES);
    double entries = ENTRIES * (double)(after.passes - before.passes);
    rates_t found = rates(entries, 0, cpu_us(redis, pid) - cpu);
    found.wall = entries / (double)(after.pass_us - before.pass_us) * 1e6; // without the pauses between scans
    sidecar_stop(pid, SIGTERM);
    return found;
}

static rates_t copy(const bench_t *bench, redisContext *redis, int tls, int round) {
    static const char script[] =
        "local payload = string.rep('p', 92) for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local id = redis.sha1hex(i) .. string.format('%024x', i) redis.call('XADD', KEYS[1], '1-' .. i, 'event', id, 'kind', "
        "'failed', 'dialect', 'list', 'queue', 'q0', 'job', i, 'reason', 'reported', 'error', 'no route to host', 'attempts', 4, "
        "'created', '1700000000000', 'started', '1700000001000', 'at', ARGV[3], 'term', "
        "'00112233445566778899aabbccddeeff-5000', 'size', 100, 'payload', payload .. string.format('%08d', i)) end return 1";
    char name[40];
    snprintf(name, sizeof name, "copy-%d-%s", round, tls ? "tls" : "plain");
    redis_do(redis, "FLUSHALL");
    for (int i = 1; i <= RECORDS; i += STEP)
        redis_do(redis, "EVAL %s 1 sidecar:q0:failures %d %d %lld", script, i, i + STEP - 1, (long long)(wall_us() / 1000));
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    pid_t pid = start(bench, (sidecar_options_t){.name = name}, tls);
    while (!acknowledged(redis, RECORDS)) sleep_us(2000);
    rates_t found = rates(RECORDS, began, cpu_us(redis, pid) - cpu);
    sidecar_stop(pid, SIGTERM);
    return found;
}

// Memory of a sidecar whose six connections are open, in MiB. Pages that are private and dirty are its own. The others that are
// resident are clean pages of the program and its libraries, which the kernel can drop, and which processes share.
enum { OWN, RESIDENT, MEMORIES };

static void memory(const bench_t *bench, redisContext *redis, int tls, double mib[MEMORIES], int64_t *connections) {
    redis_do(redis, "FLUSHALL");
    pid_t pid = start(bench, (sidecar_options_t){.name = tls ? "memory-tls" : "memory-plain", .monitor = "off"}, tls);
    sidecar_await(redis, pid);
    sleep_us(1000000);
    mib[OWN] = (double)proc_kib(pid, "smaps_rollup", "Private_Dirty") / 1024;
    mib[RESIDENT] = (double)proc_kib(pid, "smaps_rollup", "Rss") / 1024;
    *connections = 0;
    scoped_reply *list = redis_ask(redis, "CLIENT LIST");
    for (const char *at = list->str; (at = strstr(at, " name=queue-sidecar")); at++) ++*connections;
    sidecar_stop(pid, SIGTERM);
}

static void compare_memory(bench_t *bench, redisContext *redis) {
    static const char *const names[MEMORIES] = {[OWN] = "own memory", [RESIDENT] = "resident, with libraries"};
    series_t mib[MEMORIES] = {0};
    int64_t connections = 0;
    char label[80];
    for (int i = 0; i < bench->rounds; i++) {
        double plain[MEMORIES], tls[MEMORIES];
        memory(bench, redis, 0, plain, &connections);
        memory(bench, redis, 1, tls, &connections);
        for (int what = 0; what < MEMORIES; what++) series_add(&mib[what], tls[what] - plain[what]);
    }
    for (int what = 0; what < MEMORIES; what++) {
        snprintf(label, sizeof label, "%lld TLS connections over plain ones: %s, MiB", (long long)connections, names[what]);
        table_row(bench, label, &mib[what], 2, what == OWN ? '<' : 0, 2);
    }
}

static rates_t measure(const bench_t *bench, redisContext *redis, int what, int tls, int round) {
    if (what == 0) return promote(bench, redis, tls);
    return what == 1 ? scan(bench, redis, tls, round) : copy(bench, redis, tls, round);
}

static void compare(bench_t *bench, redisContext *redis, int what) {
    static const char *const names[] = {"promotion, jobs/s", "scan, entries/s", "stream to audit log, records/s"};
    static const double goals[] = {0.9, 0.7, 0.6};
    series_t walls[2] = {0};
    series_t cpus[2] = {0};
    series_t ratios = {0};
    series_t cpu_ratios = {0};
    char label[80];
    for (int i = 0; i < bench->rounds; i++) {
        for (int turn = 0; turn < 2; turn++) {
            int tls = (i + turn) % 2;
            rates_t found = measure(bench, redis, what, tls, i);
            series_add(&walls[tls], found.wall);
            series_add(&cpus[tls], found.cpu);
        }
        series_add(&ratios, walls[1].values[i] / walls[0].values[i]);
        series_add(&cpu_ratios, cpus[1].values[i] / cpus[0].values[i]);
        fprintf(stderr, "tls: %s: %.0f, plain %.0f\n", names[what], walls[1].values[i], walls[0].values[i]);
    }
    for (int tls = 0; tls < 2; tls++) {
        snprintf(label, sizeof label, "%s: %s", tls ? "TLS" : "plain", names[what]);
        table_row(bench, label, &walls[tls], 0, 0, 0);
        table_row(bench, "    per second of processor time", &cpus[tls], 0, 0, 0);
    }
    snprintf(label, sizeof label, "TLS / plain: %.*s", (int)strcspn(names[what], ","), names[what]);
    table_row(bench, label, &ratios, 3, '>', goals[what]);
    table_row(bench, "    the same per second of processor time", &cpu_ratios, 3, '>', goals[what]);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    listen_on_ports(&bench, redis);
    table_head("TLS 1.3 and plain TCP, in turn");
    for (int what = 0; what < 3; what++) compare(&bench, redis, what);
    compare_memory(&bench, redis);
    redisFree(redis);
    return bench_end(&bench);
}
